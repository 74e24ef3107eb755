"""No byte outside the destination changes, and references are neither lost nor leaked."""

import gc
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndgather import errors, scatter_elements, scatter_nd
from tests.definitions.calls import bad_entries
from tests.definitions.calls import expected as by_loops
from tests.definitions.strategies import calls

GUARD = 0x5A


class Guarded:
    """An array with any strides, surrounded by bytes that are checked afterwards."""

    def __init__(self, values, steps=None, margin=256):
        steps = steps or [1] * values.ndim
        room = [abs(step) * size for step, size in zip(steps, values.shape, strict=True)]
        self.memory = np.full(int(np.prod(room)) * values.itemsize + 2 * margin, GUARD, np.uint8)
        whole = np.ndarray(room, values.dtype, self.memory.data, margin)
        skips = tuple(slice(None, None, step) for step in steps)
        self.array = whole[(*skips, ...)]
        mine = np.ndarray(room, f"V{values.itemsize}", self.memory.data, margin)[(*skips, ...)]
        mine[...] = np.ones((), f"V{values.itemsize}")
        self.outside = self.memory == GUARD
        self.array[...] = values

    def check(self):
        changed = np.flatnonzero(self.outside & (self.memory != GUARD))
        assert changed.size == 0, f"{changed.size} bytes outside changed, first {changed[0]}"


@pytest.mark.parametrize("function", ["scatter_nd", "scatter_elements"])
@given(data=st.data())
def test_bytes_around_the_destination_are_unchanged(function, data):
    call = data.draw(calls(function, dtypes=[np.dtype(char) for char in "bhfdD"]))
    steps = data.draw(st.tuples(*[st.sampled_from((1, 2, -1, 3))] * call.data.ndim))
    guarded = Guarded(call.data, steps)
    native = {"scatter_nd": scatter_nd, "scatter_elements": scatter_elements}[function]
    if bad_entries(call):
        with pytest.raises(errors.IndexOutOfBoundsError):
            native(guarded.array, call.indices, call.updates, **call.options, out=guarded.array)
    else:
        expected = by_loops(call)
        native(guarded.array, call.indices, call.updates, **call.options, out=guarded.array)
        np.testing.assert_array_equal(guarded.array, expected, strict=True)
    guarded.check()


@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize(
    ("shape", "taken", "axis"),
    [((300, 500), (900, 500), 0), ((300, 501), (600, 77), 0), ((200, 999), (200, 1_500), 1)],
)
def test_bytes_around_large_destinations_are_unchanged(shape, taken, axis, reduction):
    rng = np.random.default_rng(0)
    data, updates = (rng.standard_normal(each).astype("f") for each in (shape, taken))
    indices = rng.integers(-shape[axis], shape[axis], taken)
    guarded = Guarded(data)
    scatter_elements(guarded.array, indices, updates, axis, reduction=reduction, out=guarded.array)
    expected = scatter_elements(data, indices, updates, axis, reduction=reduction)
    np.testing.assert_array_equal(guarded.array, expected, strict=True)
    guarded.check()


@pytest.mark.unhurried
@pytest.mark.parametrize("mode", ["raise", "drop", "clip"])
@pytest.mark.parametrize(
    ("function", "shape", "taken"),
    [
        (scatter_nd, (50_000,), (200_000, 1)),
        (scatter_nd, (300, 700), (100_000, 1)),
        (scatter_elements, (300, 500), (900, 500)),
    ],
)
def test_concurrently_modified_indices_never_reach_other_memory(function, shape, taken, mode):
    """Another thread keeps writing far out-of-bounds values to the indices."""
    rng = np.random.default_rng(1)
    good = rng.integers(0, shape[0], taken)
    indices = good.copy()
    if function is scatter_nd and len(shape) == 2:
        updates = np.ones((taken[0], shape[1]), "f")
        indices, good, updates = indices[:2_000], good[:2_000], updates[:2_000]
    else:
        updates = np.ones(taken if function is scatter_elements else taken[:1], "f")
    guarded = Guarded(np.zeros(shape, "f"), margin=1 << 16)
    done = threading.Event()

    def spoil():
        far = [2**62, -(2**62), shape[0], -shape[0] - 1, 2**40]
        while not done.is_set():
            for value in far:
                indices[::7] = value
                indices[...] = good

    spoiler = threading.Thread(target=spoil)
    spoiler.start()
    try:
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            try:
                function(
                    guarded.array,
                    indices,
                    updates,
                    reduction="add",
                    mode=mode,
                    out=guarded.array,
                )
            except (errors.IndexOutOfBoundsError, errors.NdgatherError):
                assert mode == "raise"
    finally:
        done.set()
        spoiler.join()
    guarded.check()


class Thing:
    """An object whose destruction is observable."""


def things(count):
    array = np.empty(count, object)
    array[:] = [Thing() for _ in range(count)]
    return array


@pytest.mark.parametrize("where", ["new", "in place", "other out"])
def test_references_are_counted(where):
    data, updates = things(4), things(3)
    seen = [weakref.ref(each) for each in (*data, *updates)]
    before = [sys.getrefcount(ref()) for ref in seen]
    out = {"new": None, "in place": data, "other out": things(4)}[where]
    result = scatter_nd(data, [[1], [3], [1]], updates, out=out)
    assert result[1] is updates[2]
    assert result[3] is updates[1]
    assert result[0] is data[0]
    added = [
        "dead" if ref() is None else sys.getrefcount(ref()) - was
        for ref, was in zip(seen, before, strict=True)
    ]
    # Elements 1 and 3 of data are replaced; the last update replaces the first.
    expected = [1, 0, 1, 0, 0, 1, 1] if where != "in place" else [0, "dead", 0, "dead", 0, 1, 1]
    assert added == expected
    del data, updates, out
    gc.collect()
    kept = [ref() is not None for ref in seen]
    assert kept == [True, False, True, False, False, True, True]
    del result
    gc.collect()
    assert not any(ref() is not None for ref in seen)


def test_references_are_unchanged_after_a_bad_index():
    data, updates = things(3), things(2)
    before = [id(each) for each in data]
    with pytest.raises(errors.IndexOutOfBoundsError):
        scatter_nd(data, [[0], [3]], updates, out=data)
    assert [id(each) for each in data] == before


def test_last_reference_wins():
    data = np.array([None] * 3, object)
    updates = np.array(["first", "second", "third"], object)
    result = scatter_elements(data, [1, 1, 1], updates)
    assert result.tolist() == [None, "third", None]
    strings = np.array(["", ""], np.dtypes.StringDType())
    result = scatter_elements(strings, [0, 0], ["a", "é" * 50])
    assert result.tolist() == ["é" * 50, ""]
