"""What is left out of a picture, and the map of where all reads go, against plain loops."""

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from ndgather.array_call import Call
from ndgather.show.resolve import attempted
from ndgather.show.scene import Map, chosen, with_gaps, within
from ndgather.show.stage import staged


@given(
    size=st.integers(0, 40),
    most=st.integers(1, 12),
    wanted=st.lists(st.integers(-3, 50), max_size=20),
)
def test_coordinates_are_the_ends_and_those_wanted_first(size, most, wanted):
    found = chosen(size, most, wanted)
    assert len(found) == min(size, most)
    assert list(found) == sorted(set(found))
    assert set(found) <= set(range(size))
    if size > most > 1:
        assert {0, size - 1} <= set(found)
        inner = [each for each in dict.fromkeys(wanted) if 0 < each < size - 1]
        assert set(inner[: most - 2]) <= set(found)


@given(coordinates=st.sets(st.integers(0, 9)), size=st.just(10))
def test_a_gap_stands_for_each_run_that_is_left_out(coordinates, size):
    found = with_gaps(sorted(coordinates), size)
    expected = []
    for each in range(size):
        if each in coordinates:
            expected.append(each)
        elif not expected or expected[-1] is not None:
            expected.append(None)
    assert list(found) == expected
    assert with_gaps((), 0) == ()


@given(shape=st.lists(st.integers(0, 30), max_size=4), most=st.integers(1, 40))
def test_coordinates_along_all_axes_have_few_places(shape, most):
    found = within(shape, most)
    assert int(np.prod([len(each) for each in found])) <= most or not shape
    assert [bool(each) for each in found] == [size > 0 for size in shape]


def the_map(call):
    (found,) = [part for part in staged(attempted(call)).parts if isinstance(part, Map)]
    return found


@given(data=st.data())
@settings(max_examples=40)
def test_the_map_counts_every_read(data):
    shape = tuple(data.draw(st.lists(st.integers(25, 60), min_size=1, max_size=3)))
    seed = data.draw(st.integers(0, 99))
    mode = data.draw(st.sampled_from(["raise", "wrap", "clip", "fill"]))
    low, high = (-70, 70) if mode != "raise" else (0, 25)
    indices = np.random.default_rng(seed).integers(low, high, (200, len(shape)))
    found = the_map(Call("gather_nd", "gather_nd", np.zeros(shape), indices, mode=mode))
    most = 24 if len(shape) > 1 else 48
    steps = [-(-size // most) for size in shape]
    squares = [-(-size // step) for size, step in zip(shape, steps, strict=True)]
    counts = np.zeros(squares if len(shape) > 1 else [1, *squares], int)
    for row in indices.tolist():
        place = []
        for value, size in zip(row, shape, strict=True):
            if mode == "wrap":
                place.append(value % size)
            elif mode == "clip":
                place.append(min(max(value, 0), size - 1))
            elif -size <= value < size:
                place.append(value % size)
        if len(place) == len(shape):
            at = [each // step for each, step in zip(place, steps, strict=True)]
            counts[tuple(at) if len(shape) > 1 else (0, *at)] += 1
    while counts.ndim > 2:
        counts = counts.sum(axis=0)
    assert found.counts == tuple(map(tuple, counts.tolist()))
    assert found.about == f"{counts.sum():,} reads by place"


def test_entries_without_end_are_not_looked_at():
    indices = np.broadcast_to(np.int64(7), (10**6, 10**6))
    data = np.broadcast_to(np.float32(1), (10, 10**6))
    scene = staged(attempted(Call("gather_elements", "gather_elements", data, indices)))
    assert scene.notes[-1].startswith("there are too many entries to check all of them")
    assert not any(isinstance(part, Map) for part in scene.parts)
    starts = np.zeros((10**5, 2), int)
    call = Call("gather_windows", "gather_windows", data, starts, window_shape=(10, 10**6))
    assert staged(attempted(call)).error is None


@pytest.mark.parametrize(("chunks", "unit"), [(10, "one chunk"), (2, "3 x 3 chunks")])
def test_the_map_of_a_stored_array_is_that_of_its_chunks(chunks, unit):
    stored = zarr.create_array(store={}, shape=(100, 100), chunks=(chunks, chunks), dtype="f4")
    points = np.array([[0, 0], [0, 1], [99, 99], [50, 0]])
    found = the_map(Call("gather_nd", "gather_nd", stored, points))
    assert unit in found.note
    width = chunks if chunks == 10 else 6
    counts = np.zeros((-(-100 // width),) * 2, int)
    for row, column in points.tolist():
        counts[row // width, column // width] += 1
    assert found.counts == tuple(map(tuple, counts.tolist()))
    assert found.about == f"3 of {(100 // chunks) ** 2:,} chunks are read"
    whole_rows = the_map(Call("gather", "gather", stored, [0, 1]))
    assert whole_rows.about == f"{100 // chunks} of {(100 // chunks) ** 2:,} chunks are read"
