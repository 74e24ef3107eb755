"""Arrays with DLPack's C exchange API: results have their type and match the definition."""

import gc
import os
import sys
import threading
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import ndgather
from ndgather import exchange
from ndgather.errors import AttributeValueError, DTypeError, IndexOutOfBoundsError, ShapeError
from tests.definitions.calls import (
    assert_same_elements,
    assert_same_numbers,
    bad_entries,
    expected,
)
from tests.definitions.strategies import calls

sys.path.insert(0, str(Path(__file__).parent))
from exchanged import KEPT, LEVELS, Declined, Subclass, Tensor, dense

GATHERS = ("gather_nd", "gather_elements", "gather")
SCATTERS = ("scatter_nd", "scatter_elements")
NUMBERS = [np.dtype(char) for char in "?bBhHiIqQefdFD"]
SMALL = [
    np.dtype(getattr(ml_dtypes, name)) for name in ("bfloat16", "float8_e4m3fn", "float8_e8m0fnu")
]
INDICES = [np.dtype(char) for char in "bBhHiIqQ"]

DATA = np.arange(6.0).reshape(2, 3)
ROWS = np.array([[1], [0]])


def convert(array, draw):
    """Return an array as a tensor, or occasionally unchanged."""
    kept = draw(st.integers(0, 4)) == 0 and array.dtype.isbuiltin == 1
    return array if kept else dense(array)


def check(call, draw):
    note(str(call))
    changed = call
    if "fill_value" in call.options:
        fill = Tensor(np.array(call.options["fill_value"], call.data.dtype))
        changed = replace(call, options={**call.options, "fill_value": fill})
    data = dense(call.data)
    given = (data, *(convert(array, draw) for array in call.arrays[1:]))
    bad = bad_entries(call)
    if bad:
        with pytest.raises(IndexOutOfBoundsError) as caught:
            changed.result(*given)
        assert caught.value.position == bad[0].position
        assert caught.value.count == len(bad)
        return
    result = changed.result(*given)
    assert type(result) is Tensor
    same = assert_same_numbers if call.computes else assert_same_elements
    same(result.array, expected(call))
    assert result.array.flags.c_contiguous
    out = Tensor(np.empty_like(result.array))
    assert changed.result(*given, out=out) is out
    same(out.array, result.array)


@pytest.mark.parametrize("function", GATHERS)
@settings(max_examples=min(40, settings.default.max_examples))
@given(data=st.data())
def test_gathers_match_the_definition(function, data):
    call = data.draw(calls(function, dtypes=NUMBERS + SMALL, index_dtypes=INDICES))
    check(call, data.draw)


@pytest.mark.parametrize("function", SCATTERS)
@settings(max_examples=min(40, settings.default.max_examples))
@given(data=st.data())
def test_scatter_replacements_match_the_definition(function, data):
    dtypes = NUMBERS + SMALL
    call = data.draw(calls(function, dtypes=dtypes, index_dtypes=INDICES, reductions=["none"]))
    check(call, data.draw)


@pytest.mark.parametrize("function", SCATTERS)
@settings(max_examples=min(40, settings.default.max_examples))
@given(data=st.data())
def test_scatter_reductions_match_the_definition(function, data):
    drawn = calls(
        function,
        dtypes=[*NUMBERS, SMALL[0]],
        index_dtypes=INDICES,
        reductions=["add", "sub", "mul", "min", "max"],
    ).filter(lambda call: "use_init_val" not in call.options)
    call = data.draw(drawn)
    check(call, data.draw)


LIBRARIES = {"numpy": np.asarray, "tensor": dense}


@pytest.mark.parametrize(("of_data", "of_other"), list(product(LIBRARIES, repeat=2)))
def test_updates_and_out_of_other_dtypes_are_declined(of_data, of_other):
    own, other = LIBRARIES[of_data], LIBRARIES[of_other]
    for first, second in product(NUMBERS + SMALL, [*NUMBERS, *SMALL, np.dtype(">i4")]):
        if not second.isnative and other is dense:
            continue
        data, updates = np.ones((2, 3), first), np.ones((2, 3), second)
        alike = first == second and of_data == of_other
        scatter = partial(ndgather.scatter_nd, own(data), ROWS, other(updates))
        gather = partial(ndgather.gather_nd, own(data), ROWS, out=other(updates))
        for call in (scatter, gather):
            try:
                result = call()
            except (DTypeError, AttributeValueError):
                assert not alike, (first, second)
            else:
                if not isinstance(result, Declined):
                    assert first == second.newbyteorder("="), (first, second)
                    assert (getattr(result, "array", result) == np.ones((), first)).all()


def test_result_has_the_type_of_data():
    result = ndgather.gather_nd(DATA, Tensor(ROWS))
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, DATA[::-1], strict=True)
    scattered = ndgather.scatter_nd(np.zeros_like(DATA), ROWS, Tensor(DATA))
    np.testing.assert_array_equal(scattered, DATA[::-1], strict=True)
    # The adapter decides whether `out` may belong to another library.
    assert isinstance(ndgather.gather_nd(Tensor(DATA), ROWS, out=np.empty_like(DATA)), Declined)


def test_out_is_notified_after_writing():
    before = Tensor.written
    out = Tensor(np.zeros((2, 3)))
    ndgather.scatter_nd(Tensor(DATA), ROWS, Tensor(DATA), out=out)
    np.testing.assert_array_equal(out.array, DATA[::-1], strict=True)
    assert Tensor.written == before + 1
    ndgather.gather_nd(Tensor(DATA), Tensor(ROWS))
    assert Tensor.written == before + 1


def test_scatter_in_place():
    data = Tensor(DATA.copy())
    assert ndgather.scatter_nd(data, ROWS, Tensor(DATA), reduction="add", out=data) is data
    np.testing.assert_array_equal(data.array, DATA + DATA[::-1], strict=True)


REFUSED = [
    ({"data": Tensor(DATA), "indices": Tensor(DATA)}, DTypeError, "indices.dtype = float64 is"),
    ({"indices": Tensor(np.array(1))}, ShapeError, "indices.shape = "),
    ({"out": Tensor(np.zeros((2, 3), "f4"))}, DTypeError, "out.dtype = float32 differs"),
    ({"out": Tensor(np.zeros((3, 2)))}, ShapeError, "out.shape = "),
    ({"out": Tensor(np.broadcast_to(0.0, (2, 3)))}, AttributeValueError, "out is read-only"),
    (
        {"out": Tensor(np.lib.stride_tricks.as_strided(np.zeros(4), (2, 3), (8, 8)))},
        AttributeValueError,
        "out = Tensor object lets elements of out share memory",
    ),
    ({"batch_dims": 5}, AttributeValueError, "batch_dims = 5"),
    ({"mode": "skip"}, AttributeValueError, "mode = 'skip'"),
]


@pytest.mark.parametrize(("changed", "error", "text"), REFUSED)
def test_refusals_have_the_same_texts_as_for_arrays(changed, error, text):
    good = {"data": Tensor(DATA), "indices": Tensor(ROWS)}
    with pytest.raises(error, match=f"gather_nd: {text}"):
        ndgather.gather_nd(**(good | changed))


ELSEWHERE = [
    {"gradient": True},
    {"negated": True},
    {"conjugated": True},
    {"device": 2},
    {"without_memory": True},
]


@pytest.mark.parametrize("state", ELSEWHERE, ids=str)
def test_results_too_large_for_memory_go_to_the_adapter(state):
    numbers = DATA + 0j
    tensor = Tensor(numbers, **state)
    result = ndgather.gather_nd(tensor, ROWS)
    assert isinstance(result, Declined)
    assert result.call.data is tensor
    scattered = ndgather.scatter_nd(Tensor(numbers), ROWS, tensor)
    assert isinstance(scattered, Declined)


def test_gradients_matter_only_while_recorded(monkeypatch):
    monkeypatch.setattr(Tensor, "recording", False)
    assert type(ndgather.gather_nd(Tensor(DATA, gradient=True), ROWS)) is Tensor


def test_integers_have_no_gradient():
    assert type(ndgather.gather_nd(Tensor(ROWS, gradient=True), ROWS[:1] * 0)) is Tensor


def test_transforms_and_failures_go_to_the_adapter(monkeypatch):
    monkeypatch.setattr(Tensor, "transformed", True)
    assert isinstance(ndgather.gather_nd(Tensor(DATA), ROWS), Declined)
    monkeypatch.setattr(Tensor, "transformed", property(lambda _: 1 / 0))
    assert isinstance(ndgather.gather_nd(Tensor(DATA), ROWS), Declined)
    monkeypatch.undo()
    assert isinstance(ndgather.gather_nd(Tensor(DATA), ROWS), Tensor)
    monkeypatch.setitem(LEVELS, "level", 0)
    assert isinstance(ndgather.gather_nd(Tensor(DATA), ROWS), Declined)
    monkeypatch.delitem(LEVELS, "level")
    assert isinstance(ndgather.gather_nd(Tensor(DATA), ROWS), Declined)
    monkeypatch.undo()
    broken = Tensor(DATA)
    del broken.gradient
    assert isinstance(ndgather.gather_nd(broken, ROWS), Declined)


MORE = {
    "another type": {"updates": Tensor(DATA.astype("f4"))},
    "mean": {"updates": Tensor(DATA), "reduction": "mean"},
    "without the old values": {"updates": Tensor(DATA), "reduction": "add", "use_init_val": False},
    "a list of several types": {"updates": [[True, *row[1:]] for row in DATA.tolist()]},
}


@pytest.mark.parametrize("given", MORE.values(), ids=MORE)
def test_multi_step_calls_go_to_the_adapter(given):
    assert isinstance(ndgather.scatter_nd(Tensor(DATA), ROWS, **given), Declined)


def test_subclasses_and_stored_options_go_to_the_adapter():
    assert isinstance(ndgather.gather_nd(Subclass(DATA), ROWS), Declined)
    assert isinstance(ndgather.gather_nd(Tensor(DATA), ROWS, memory="1 MiB"), Declined)
    assert isinstance(ndgather.gather_nd(Tensor(DATA), ROWS, out=Subclass(DATA)), Declined)


def test_types_without_the_exchange_are_not_accepted():
    class NoCapsule:
        __dlpack_c_exchange_api__ = "no capsule"

    assert not exchange.accept(NoCapsule)
    assert not exchange.accept(int)
    assert exchange.accept(Tensor)  # again


@pytest.mark.parametrize("each", [(), ({}, "name"), ([], "name", None)], ids=str)
def test_invalid_transforms_are_refused(each):
    with pytest.raises(DTypeError, match=r"^exchange.accept: transforms = "):
        exchange.accept(Tensor, transforms=(each,))


def test_results_and_arguments_are_released():
    data, indices = Tensor(np.arange(400_000.0)), Tensor(np.arange(400_000)[:, np.newaxis])
    before = Tensor.exported - Tensor.deleted
    ndgather.set_memory_limit(2**26)
    ndgather.release_memory()
    kept = ndgather.gather_nd(data, indices)
    del data
    gc.collect()
    assert ndgather.release_memory() == 0  # still in use
    np.testing.assert_array_equal(kept.array, np.arange(400_000.0), strict=True)
    del kept
    gc.collect()
    assert ndgather.release_memory() >= 400_000 * 8
    out = Tensor(np.zeros((2, 3)))
    for function in (ndgather.gather_nd, ndgather.gather_nd):
        function(Tensor(DATA), ROWS, out=out)
    with pytest.raises(ShapeError):
        ndgather.gather_nd(Tensor(DATA), ROWS, out=Tensor(np.zeros(7)))
    assert Tensor.exported - Tensor.deleted == before
    assert not KEPT


def test_calls_do_not_leak():
    data, indices = Tensor(DATA), Tensor(ROWS)
    types = len(gc.get_objects())
    counts = [sys.getrefcount(each) for each in (data, indices, DATA, Tensor)]
    for _ in range(100):
        ndgather.gather_nd(data, indices)
        with pytest.raises(IndexOutOfBoundsError):
            ndgather.gather_nd(data, Tensor(ROWS + 7))
    gc.collect()
    assert [sys.getrefcount(each) for each in (data, indices, DATA, Tensor)] == counts
    assert len(gc.get_objects()) < types + 100


def test_threads_share_arrays():
    data, indices = Tensor(np.arange(30_000.0)), Tensor(np.arange(30_000)[:, np.newaxis])
    results = []

    def work():
        results.extend(ndgather.gather_nd(data, indices) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 80
    for each in results:
        np.testing.assert_array_equal(each.array, data.array, strict=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork")  # raised by Python, and by JAX if imported
def test_child_can_use_the_arrays_of_its_parent():
    data = Tensor(np.arange(400_000.0))
    indices = Tensor(np.arange(400_000)[:, np.newaxis])
    kept = ndgather.gather_nd(data, indices)
    child = os.fork()
    if child == 0:
        same = np.array_equal(ndgather.gather_nd(kept, indices).array, data.array)
        del kept
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("rows", [2, 40_000])
@pytest.mark.parametrize("which", ["data", "indices", "updates"])
def test_array_that_changes_memory_when_queried_goes_to_the_adapter(monkeypatch, which, rows):
    """Any query of the core may run arbitrary code, even in other threads."""
    given = {
        "data": dense(np.zeros((4, 2))),
        "indices": dense(np.zeros((rows, 1))),
        "updates": dense(np.ones((rows, 2))),
    }

    def changed(tensor):
        if tensor is given[which] or (which == "indices" and tensor is given["data"]):
            given[which].array = given[which].array + 0
        return False

    monkeypatch.setattr(Tensor, "gradient", property(changed, lambda *_: None), raising=False)
    given["indices"].array = given["indices"].array.astype(np.int64)
    assert isinstance(ndgather.scatter_nd(**given), Declined)
    assert not KEPT


def test_long_call_keeps_the_memory_of_its_arguments():
    before = Tensor.exported
    ndgather.gather_nd(dense(np.arange(6.0)), dense(np.zeros((3, 1), np.int64)))
    assert Tensor.exported == before, "a short call does not give up the GIL"
    values = np.arange(2_000_000.0)
    data, indices = dense(values.copy()), dense(np.arange(2_000_000)[::-1, np.newaxis].copy())
    results = []
    for _ in range(5):
        call = threading.Thread(target=lambda: results.append(ndgather.gather_nd(data, indices)))
        call.start()
        while Tensor.exported == before and call.is_alive():
            pass
        data.array, indices.array = values.copy(), indices.array.copy()  # the old arrays are freed
        call.join()
        before = Tensor.exported
        gathered = results.pop()
        assert isinstance(gathered, Declined) or (gathered.array == values[::-1]).all()
    assert not KEPT


@pytest.mark.parametrize("bits", [24, 40, 48, 56, 128])
def test_integers_of_other_sizes_are_not_indices(bits):
    indices = Tensor(np.zeros((2, 1), np.int8), bits=bits)
    with pytest.raises(DTypeError, match="indices"):
        ndgather.gather_nd(DATA, indices)
    with pytest.raises(DTypeError, match="indices"):
        ndgather.scatter_nd(DATA, indices, DATA)
