"""Every call matches the plain loops of the reference: the same bits or the same error."""

from collections import Counter

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, event, given, note, settings
from hypothesis import strategies as st

from ndgather.errors import IndexOutOfBoundsError
from tests.core.comparing import ALWAYS, WRITEABLE_LAYOUTS, classes_of, contents, threads
from tests.definitions.calls import (
    assert_same_elements,
    assert_taken,
    bad_entries,
    element_bytes,
    expected,
)
from tests.definitions.draws import DATA_DTYPES, INDEX_DTYPES, distinct
from tests.definitions.strategies import arranged, calls, overlapping_calls

FUNCTIONS = ("gather_nd", "gather_elements", "gather")

SMALL_FLOATS = tuple(
    np.dtype(getattr(ml_dtypes, name))
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "int4", "uint4")
)
DTYPES = (*DATA_DTYPES, *SMALL_FLOATS)


def check(call, **more):
    """Compare a call with the reference, and return the outcome."""
    note(str(call))
    inputs = contents(call.data), contents(call.indices)
    out = more.get("out")
    before = None if out is None else contents(out)
    bad = bad_entries(call)
    if bad:
        with pytest.raises(IndexOutOfBoundsError) as caught:
            call.result(**more)
        error, first = caught.value, bad[0]
        assert error.position == first.position
        assert (error.value, error.axis, error.size) == (first.value, first.axis, first.size)
        assert error.count == len(bad)
        assert before is None or contents(out) == before
        came = "error"
    else:
        desired = expected(call)
        assert desired.shape == call.result_shape()
        stored = b"" if out is None or call.data.dtype.hasobject else element_bytes(out)
        actual = call.result(**more)
        if out is None:
            assert_same_elements(actual, desired)
            assert actual.flags.c_contiguous
            assert actual.flags.writeable
            assert not np.shares_memory(actual, call.data)
        else:
            assert actual is out
            assert_taken(out, stored, desired)
        came = "value" if desired.size else "empty"
    assert (contents(call.data), contents(call.indices)) == inputs
    event(came)
    return came


@pytest.mark.parametrize("function", FUNCTIONS)
@given(data=st.data())
def test_result_matches_the_definition(function, data):
    call = data.draw(calls(function, dtypes=DTYPES))
    with threads(data.draw(st.sampled_from((1, 2, 3, 7)))):
        check(call)


@pytest.mark.parametrize("function", FUNCTIONS)
@given(data=st.data())
def test_simple_dtypes_and_modes(function, data):
    """Calls for which the fast loops are made, drawn more often than among all dtypes."""
    dtypes = [np.dtype(char) for char in "bhiqfdD"]
    call = data.draw(calls(function, dtypes=dtypes, index_dtypes=[np.dtype("i4"), np.dtype("i8")]))
    check(call)


@pytest.mark.parametrize("function", FUNCTIONS)
@given(data=st.data())
def test_out_may_have_any_layout(function, data):
    call = data.draw(calls(function, dtypes=DTYPES))
    garbage = distinct(call.result_shape(), call.data.dtype)
    check(call, out=data.draw(arranged(garbage, WRITEABLE_LAYOUTS)))


@pytest.mark.parametrize("function", FUNCTIONS)
@given(data=st.data())
def test_out_of_bounds_index_is_reported_and_out_is_unchanged(function, data):
    call = data.draw(calls(function, modes=["raise"], flavours=["stray"]))
    garbage = distinct(call.result_shape(), call.data.dtype)
    out = data.draw(st.none() | arranged(garbage, WRITEABLE_LAYOUTS))
    check(call, **({} if out is None else {"out": out}))


@pytest.mark.parametrize("function", FUNCTIONS)
@given(data=st.data())
def test_nested_lists_are_accepted_as_indices(function, data):
    native = [dtype for dtype in INDEX_DTYPES if dtype.isnative]
    call = data.draw(calls(function, index_dtypes=native))
    nested = call.indices.tolist()
    found = np.array(nested)
    assume(nested != [] or function != "gather_nd")  # no length of index tuples
    assume(found.shape == call.indices.shape and (not found.size or found.dtype.kind in "iu"))
    if bad_entries(call):
        with pytest.raises(IndexOutOfBoundsError):
            call.result(call.data, nested)
    else:
        assert_same_elements(call.result(call.data, nested), expected(call))


@pytest.mark.parametrize("function", FUNCTIONS)
@given(data=st.data())
def test_out_may_overlap_the_inputs(function, data):
    call, out = data.draw(overlapping_calls(function))
    note(f"{call}\nout {out.shape} strides {out.strides}")
    bad, memory = bad_entries(call), element_bytes(out)
    if bad:
        event("error")
        with pytest.raises(IndexOutOfBoundsError) as caught:
            call.result(out=out)
        assert caught.value.position == bad[0].position
        assert element_bytes(out) == memory
        return
    desired = expected(call)
    overlaps = np.shares_memory(out, call.data) or np.shares_memory(out, call.indices)
    event("overlap" if overlaps else "apart")
    assert call.result(out=out) is out
    assert_same_elements(out, desired)


@pytest.mark.unhurried
@pytest.mark.parametrize("function", FUNCTIONS)
def test_most_random_calls_copy_elements(function):
    """A strategy that mostly draws errors or empty results would let a wrong copy pass."""
    came = Counter()
    classes = set()

    @settings(max_examples=300, derandomize=True, database=None)
    @given(call=calls(function, dtypes=DTYPES))
    def count(call):
        classes.update(classes_of(call))
        came["error" if bad_entries(call) else "value" if expected(call).size else "empty"] += 1

    count()
    assert came["value"] > 0.6 * came.total(), came
    assert came["error"] > 0.05 * came.total(), came
    assert came["empty"] > 0.03 * came.total(), came
    named = {"raise", "wrap", "clip", "fill", *"biufcMSUV", *ALWAYS}
    assert named <= classes, named - classes
