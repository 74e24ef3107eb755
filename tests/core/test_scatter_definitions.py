"""Every scatter matches the plain loops of the reference: the same bits or the same error."""

from collections import Counter
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import event, given, note, settings
from hypothesis import strategies as st

import ndgather
from ndgather.errors import IndexOutOfBoundsError
from tests.core.comparing import ALWAYS, WRITEABLE_LAYOUTS, classes_of, contents, threads
from tests.definitions import reference
from tests.definitions.calls import (
    PublicCall,
    assert_same_elements,
    assert_same_numbers,
    assert_taken,
    bad_entries,
    element_bytes,
    expected,
)
from tests.definitions.draws import DATA_DTYPES, NUMBER_DTYPES, distinct
from tests.definitions.strategies import arranged, calls, overlapping_calls

FUNCTIONS = ("scatter_nd", "scatter_elements")

ML_DTYPES = tuple(
    np.dtype(getattr(ml_dtypes, name))
    for name in (
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3b11fnuz",
        "float8_e8m0fnu",
        "float6_e2m3fn",
        "float4_e2m1fn",
        "int4",
        "uint4",
        "int2",
    )
)
REDUCTIONS = ("add", "sub", "mul", "min", "max", "mean")


def same(actual, desired, call):
    check = assert_same_elements if call.options["reduction"] == "none" else assert_same_numbers
    check(actual, desired)


def check(call, out=None):
    """Compare a call with the reference, and return the outcome."""
    note(str(call))
    in_place = out is not None and np.may_share_memory(out, call.data)
    inputs = [call.indices, call.updates, *([] if in_place else [call.data])]
    before = [*map(contents, inputs)]
    out_before = None if out is None else contents(out)
    bad = bad_entries(call)
    if bad:
        with pytest.raises(IndexOutOfBoundsError) as caught:
            call.result(out=out)
        error, first = caught.value, bad[0]
        assert error.position == first.position
        assert (error.value, error.axis, error.size) == (first.value, first.axis, first.size)
        assert error.count == len(bad)
        assert out is None or contents(out) == out_before
        came = "error"
    else:
        desired = expected(call)
        stored = b"" if out is None or call.data.dtype.hasobject else element_bytes(out)
        actual = call.result(out=out)
        if out is not None and call.options["reduction"] == "none":
            assert_taken(out, stored, desired)
        else:
            same(actual, desired, call)
        if out is None:
            assert actual.flags.c_contiguous
            assert actual.flags.writeable
            assert not np.shares_memory(actual, call.data)
        else:
            assert actual is out
        came = "value" if call.updates.size else "empty"
    assert [*map(contents, inputs)] == before
    event(came)
    return came


@pytest.mark.parametrize("function", FUNCTIONS)
@given(data=st.data())
def test_every_reduction_matches_the_loop(function, data):
    call = data.draw(calls(function, dtypes=NUMBER_DTYPES, reductions=REDUCTIONS))
    with threads(data.draw(st.sampled_from((1, 2, 3, 7)))):
        check(call)


@pytest.mark.parametrize("function", FUNCTIONS)
@given(data=st.data())
def test_small_types_of_other_packages(function, data):
    check(data.draw(calls(function, dtypes=ML_DTYPES)))


@pytest.mark.parametrize("function", FUNCTIONS)
@given(data=st.data())
def test_every_element_can_be_replaced(function, data):
    dtypes = (*DATA_DTYPES, *ML_DTYPES, np.dtype("V0"))
    check(data.draw(calls(function, dtypes=dtypes, reductions=["none"])))


@pytest.mark.parametrize("function", FUNCTIONS)
@given(data=st.data())
def test_simple_dtypes_and_modes(function, data):
    """Calls for which the fast loops are made, drawn more often than among all dtypes."""
    dtypes = [np.dtype(char) for char in "iqfd"]
    index_dtypes = [np.dtype("i4"), np.dtype("i8")]
    check(data.draw(calls(function, dtypes=dtypes, index_dtypes=index_dtypes)))


@pytest.mark.parametrize("function", FUNCTIONS)
@given(data=st.data())
def test_in_place(function, data):
    call = data.draw(calls(function, dtypes=(*DATA_DTYPES, *NUMBER_DTYPES, *ML_DTYPES)))
    place = data.draw(arranged(call.data, WRITEABLE_LAYOUTS))
    call = replace(call, data=place)
    # Another view of the same memory is also in place.
    check(call, out=place if data.draw(st.booleans()) else place.view())


@pytest.mark.parametrize("function", FUNCTIONS)
@given(data=st.data())
def test_out_may_have_any_layout(function, data):
    call = data.draw(calls(function, dtypes=(*DATA_DTYPES, *NUMBER_DTYPES, *ML_DTYPES)))
    garbage = distinct(call.data.shape, call.data.dtype)
    check(call, out=data.draw(arranged(garbage, WRITEABLE_LAYOUTS)))


@pytest.mark.parametrize("function", FUNCTIONS)
@given(data=st.data())
def test_out_of_bounds_index_is_reported_and_destination_is_unchanged(function, data):
    call = data.draw(calls(function, modes=["raise"], flavours=["stray"]))
    place = data.draw(arranged(call.data, WRITEABLE_LAYOUTS))
    call = replace(call, data=place)
    garbage = distinct(place.shape, place.dtype)
    out = data.draw(st.sampled_from([None, place]) | arranged(garbage, WRITEABLE_LAYOUTS))
    before = contents(place)
    check(call, out=out)
    if bad_entries(call):
        assert contents(place) == before


@pytest.mark.parametrize("function", FUNCTIONS)
@given(data=st.data())
def test_out_may_overlap_the_arguments(function, data):
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
    arguments = (call.data, call.indices, call.updates)
    event("overlap" if any(np.shares_memory(out, each) for each in arguments) else "apart")
    assert call.result(out=out) is out
    same(out, desired, call)


@pytest.mark.parametrize("reduction", ["add", "mean"])
@pytest.mark.parametrize("name", ["float8_e8m0fnu", "float8_e4m3fn", "int2"])
def test_sums_without_initial_values_for_dtypes_without_zero(name, reduction, draws):
    dtype = np.dtype(getattr(ml_dtypes, name))
    for count in range(1, 8):
        values = np.array(draws.choices((1, 2, 4, 0.5), k=count + 4)).astype(dtype)
        call = PublicCall(
            function="scatter_nd",
            data=values[:4],
            indices=np.array(draws.choices(range(4), k=count))[:, None],
            updates=values[4:],
            options={"reduction": reduction, "use_init_val": False},
        )
        same(call.result(), expected(call), call)


@pytest.mark.parametrize("reduction", ["none", "add", "mean"])
@pytest.mark.parametrize("dtype", ["f8", "O"])
def test_out_may_be_transposed_data(dtype, reduction):
    if dtype == "O" and reduction != "none":
        return
    data = np.arange(9.0).reshape(3, 3).astype(dtype)
    indices, updates = np.array([[0, 1], [2, 0], [0, 1]]), np.array([20, 30, 40.0]).astype(dtype)
    wanted = reference.scatter_nd(data, indices, updates, reduction=reduction)
    out = data.T
    result = ndgather.scatter_nd(data, indices, updates, reduction=reduction, out=out)
    assert result is out
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.unhurried
@pytest.mark.parametrize("function", FUNCTIONS)
def test_most_random_calls_scatter_and_many_have_duplicates(function):
    """A strategy that mostly draws errors or empty calls would let a wrong store pass."""
    came = Counter()
    classes = set()

    @settings(max_examples=300, derandomize=True, database=None)
    @given(call=calls(function))
    def count(call):
        classes.update(classes_of(call))
        if call.options["reduction"] != "none":
            with np.errstate(invalid="ignore"):
                nan, zero = np.isnan(call.updates).any(), (call.updates == 0).any()
            classes.update(["NaN"] * int(nan) + ["zero"] * int(zero))
        if bad_entries(call):
            came["error"] += 1
            return
        came["value" if call.updates.size else "empty"] += 1
        options = {**call.options, "reduction": "add", "use_init_val": True}
        ones, zeros = np.ones(call.updates.shape, int), np.zeros(call.data.shape, int)
        counts = replace(call, data=zeros, updates=ones, options=options)
        came["repeats"] += bool(expected(counts).max(initial=0) > 1)

    count()
    drawn = came["error"] + came["value"] + came["empty"]
    assert came["value"] > 0.6 * drawn, came
    assert came["error"] > 0.05 * drawn, came
    assert came["empty"] > 0.01 * drawn, came
    assert came["repeats"] > 0.2 * drawn, came
    named = ("raise", "wrap", "clip", "drop", "none", *REDUCTIONS, "False")
    numbers = ("NaN", "zero", *"biufc")
    assert {*named, *numbers, *ALWAYS} <= classes, {*named, *numbers, *ALWAYS} - classes
