"""Gathers from stored arrays against plain loops, and errors against arrays in memory."""

import math
from random import Random

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import ndgather
from ndgather.array_call import Call, Kind, _core
from ndgather.errors import IndexOutOfBoundsError
from ndgather.stored import calls
from ndgather.stored.chunks import Grid, stand_in
from ndgather.stored.plan import Points, make_plan, runs_of_blocks
from tests.core.comparing import threads
from tests.definitions import strategies
from tests.definitions.by_numpy import expected_by_numpy
from tests.definitions.calls import (
    PublicCall,
    assert_same_elements,
    assert_same_numbers,
    bad_entries,
    expected,
)
from tests.definitions.draws import (
    NUMBER_DTYPES,
    SKEWS,
    Size,
    draw_call,
    draw_chunk_shape,
    draw_chunks,
)
from tests.definitions.environments import environment
from tests.stored.cut_array import CutArray

# Dtypes that zarr supports: no long double, no second 64-bit integer type.
IN_ZARR = [each for each in NUMBER_DTYPES if each.char not in "gGqQ"]


@st.composite
def grids(draw, shape):
    """Draw the chunks of an array, regular or not."""
    if draw(st.booleans()):
        return Grid.regular(shape, [draw(st.integers(1, 5)) for _ in shape])
    cuts = [
        [0, *sorted(draw(st.sets(st.integers(1, max(size - 1, 1)), max_size=3)) - {size}), size]
        if size
        else [0, 0]
        for size in shape
    ]
    return Grid.of_sizes([np.diff(each).tolist() for each in cuts])


def stored(call, grid, **options):
    reader = CutArray(call.data, grid)
    arguments = {"indices": call.indices, **call.options, **options}
    made = Call(call.function, Kind(call.function), None, **arguments)
    with environment(call.environment):
        result = calls.gather(made, reader)
    assert len(set(reader.reads)) == len(reader.reads), "a chunk was read twice"
    return result


@pytest.mark.parametrize("function", ["gather_nd", "gather_elements", "gather"])
@given(data=st.data())
def test_gathers_match_the_definition(function, data):
    call = data.draw(strategies.calls(function))
    grid = data.draw(grids(call.data.shape))
    if bad_entries(call):
        with pytest.raises(IndexOutOfBoundsError) as of_memory:
            call.result()
        with pytest.raises(IndexOutOfBoundsError) as error:
            stored(call, grid)
        assert str(error.value) == str(of_memory.value)
        assert error.value.position == of_memory.value.position
        return
    desired = expected(call)
    assert_same_elements(stored(call, grid), desired)
    out = np.empty(desired.shape[::-1], desired.dtype).T
    assert stored(call, grid, out=out) is out
    assert_same_elements(out, desired)


@pytest.mark.parametrize("function", ["gather_nd", "gather_elements", "gather"])
def test_several_blocks_of_points(function):
    """So many points that they are sorted in 16 blocks."""
    rng = np.random.default_rng(3)
    data = rng.integers(0, 2**31, (70, 60, 50), np.int32)
    shape = {"gather_nd": (600_000, 3), "gather": (7, 40_000), "gather_elements": (70, 5000, 2)}
    data = data[:, :2].repeat(2500, 1)[:, :5000, :2] if function == "gather_elements" else data
    data = data[:6, :, :5] if function == "gather" else data
    size = min(data.shape) if function == "gather_nd" else data.shape[1]
    indices = rng.integers(-size, size, shape[function], np.int32)
    axis = {} if function == "gather_nd" else {"axis": 1}
    desired = getattr(ndgather, function)(data, indices, **axis)
    call = PublicCall(function=function, data=data, indices=indices, options=axis)
    for grid in (
        Grid.regular(data.shape, (16, 7, 9)),
        Grid.of_sizes([[2, data.shape[0] - 2], [1, 2, data.shape[1] - 3], [data.shape[2]]]),
    ):
        np.testing.assert_array_equal(stored(call, grid), desired, strict=True)


FUNCTIONS = ("gather_nd", "gather_elements", "gather", "gather_windows", "gather_ranges")
SCATTERS = ("scatter_nd", "scatter_elements")
BORDERS = max(
    50, settings.default.max_examples // 2
)  # calls of each function, a few milliseconds each


@pytest.mark.parametrize("function", FUNCTIONS)
def test_gathers_at_size_thresholds(function, draws):
    """The first call plans its points; later calls look them up in cached chunks."""
    for _ in range(BORDERS):
        seed = draws.getrandbits(64)
        random = Random(seed)
        call = draw_call(random, function, Size.BORDER, skew=random.choice([*SKEWS]))
        if random.randrange(2):
            grid = Grid.regular(call.data.shape, draw_chunk_shape(random, call.data.shape))
        else:
            grid = Grid.of_sizes(draw_chunks(random, call.data.shape))
        try:
            array = CutArray(call.data, grid)
            cached = ndgather.cached(array, random.choice(("128 KiB", "8 MiB", "512 MiB")))
            desired = expected_by_numpy(call)
            for _ in range(2):
                assert_same_elements(call.result(cached, *call.arrays[1:]), desired)
        except BaseException as error:
            error.add_note(f"Random({seed}), chunks {grid.chunk_lengths}: {call}")
            raise


@pytest.mark.parametrize("function", SCATTERS)
def test_scatters_at_size_thresholds(function, draws):
    for _ in range(BORDERS):
        seed = draws.getrandbits(64)
        random = Random(seed)
        call = draw_call(
            random, function, Size.BORDER, skew=random.choice([*SKEWS]), dtypes=IN_ZARR
        )
        chunks = draw_chunk_shape(random, call.data.shape, 12)
        try:
            # A chunk of -0.0 differs from a chunk of 0.
            options = {"compressors": None, "config": {"write_empty_chunks": True}}
            stored = zarr.create_array({}, data=call.data.copy(), chunks=chunks, **options)
            with threads(random.choice((1, 2, 5))):
                call.result(stored, *call.arrays[1:], out=stored)
            same = assert_same_numbers if call.computes else assert_same_elements
            same(np.asarray(stored[...], call.data.dtype), expected_by_numpy(call))
        except BaseException as error:
            error.add_note(f"Random({seed}), chunks {chunks}: {call}")
            raise


def test_chunks_of_any_length():
    for length in range(1, 201):
        data = np.arange(4100, dtype=np.uint16)
        cached = ndgather.cached(CutArray(data, Grid.regular(data.shape, [length])))
        indices = data[:, np.newaxis].astype(np.int32)
        for _ in range(2):
            np.testing.assert_array_equal(ndgather.gather_nd(cached, indices), data)


def test_positions_beyond_32_bits():
    """More than 2**32 points; the memory of most of them is allocated but never touched."""
    first, count = 2**32, 1000
    length = first + count
    block = 2**20  # a point beyond 2**32 begins a block
    try:
        indices = np.zeros((length, 1), np.int32)
        local, positions = np.empty(length, np.uint32), np.empty(length, np.uint32)
        result = np.zeros(length, np.uint8)
    except MemoryError:
        pytest.skip("the system does not give so much memory, even unused")
    data = np.random.default_rng(0).integers(0, 200, 5000, np.uint8)
    indices[first:, 0] = np.random.default_rng(1).integers(-5000, 5000, count)
    call = Call("gather_nd", Kind.GATHER_ND, stand_in(data.shape, data.dtype), indices)
    part = slice(first, length)
    sorted_part = _core.sort_points(call.arguments(), (1024,), first, local[part], positions[part])
    runs = runs_of_blocks([sorted_part], [first], length, chunk_count=5)
    points = Points((10,), local, positions, block, *runs)
    assert points.chunks.tolist() == [0, 1, 2, 3, 4]
    for group, chunk in enumerate(np.split(data, range(1024, 5000, 1024))):
        calls.move(points, points.runs(group), chunk, result)
    np.testing.assert_array_equal(result[part], data[indices[part, 0]])
    np.testing.assert_array_equal(result[first - 100 : first], 0)


@pytest.mark.parametrize("chunk", [99_991, 2**17])
def test_coordinates_beyond_32_bits(chunk):
    size = 2**33 + 5000
    array = zarr.create_array({}, shape=(size,), chunks=(chunk,), dtype="i2", fill_value=-1)
    far = np.array([7, 2**31 + 1, 2**32 - 1, 2**32, 2**32 + 7, 2**32 + 2**31 + 5, size - 1])
    for value, place in enumerate(far):
        array[place] = value
    places = np.append(np.concatenate([far, far - size]), 3 - size)
    wanted = [*range(len(far))] * 2 + [-1]
    assert ndgather.gather_nd(array, places[:, np.newaxis]).tolist() == wanted
    ndgather.scatter_nd(array, far[:, np.newaxis], np.int16(wanted[:7]) + 10, out=array)
    assert ndgather.gather(array, far).tolist() == [*range(10, 17)]


@pytest.mark.parametrize("axis", [0, 1])
def test_chunks_with_more_than_2_to_the_32_elements(axis):
    side = 2**17
    line = np.random.default_rng(0).integers(0, 2**31, side).astype(np.int32)
    values = np.broadcast_to(line if axis else line[:, None], (side, side))

    class Virtual(CutArray):
        chunk_bytes = stored_bytes = 4

        def read(self, chunk, buffers):
            return self.values[self.grid.box(chunk)]

    reader = Virtual(values, Grid.regular((side, side), (side, side - 1)))
    points = np.random.default_rng(1).integers(0, side, (5000, 2))
    points[:3] = [[side - 1, side - 1], [side - 1, side - 2], [0, side - 1]]
    found = calls.gather(Call("gather_nd", Kind.GATHER_ND, None, points), reader)
    np.testing.assert_array_equal(found, line[points[:, axis]])
    assert sorted(reader.grid.counts) == [1, 2]


def test_grids_are_not_materialized():
    """A grid of 2**62 chunks on axes beyond int32; only touched chunks take memory."""
    shape = (2**40, 2**22)
    indices = np.array([[2**40 - 1, 5], [7, -1], [2**33, 2**21]])
    for chunk in ((1, 1), (2**40, 2**22), (3, 5)):
        grid = Grid.regular(shape, chunk)
        reader = _Ones(shape, grid)
        made = calls.gather(Call("gather_nd", Kind.GATHER_ND, None, indices), reader)
        np.testing.assert_array_equal(made, [1, 1, 1])
        named = [[each % size for each, size in zip(row, shape, strict=True)] for row in indices]
        assert reader.reads == {tuple(np.floor_divide(each, chunk).tolist()) for each in named}


class _Ones:
    """A reader of an array far larger than memory."""

    name, dtype, chunk_bytes, stored_bytes, in_flight = "ones", np.dtype(np.int8), 1, 1, 1

    def __init__(self, shape, grid):
        self.shape, self.grid, self.reads = shape, grid, set()

    def read(self, chunk, buffers):
        self.reads.add(chunk)
        shape = tuple(each.stop - each.start for each in self.grid.box(chunk))
        return np.broadcast_to(np.int8(1), shape)


@pytest.mark.parametrize("shape", [(2**20,) * 4, (2**15 + 1,) * 4])
def test_shapes_beyond_63_bits_are_refused(shape):
    grid = Grid.regular(shape, (2**10,) * 4)
    call = Call("gather_nd", Kind.GATHER_ND, None, np.zeros((1, 4), int))
    with pytest.raises(ndgather.errors.ShapeError, match=r"gather_nd: data of shape .*2\*\*63"):
        calls.gather(call, _Ones(shape, grid))


def test_points_of_groups_are_in_order():

    rng = np.random.default_rng(0)
    indices = rng.integers(0, 50, (600_000, 2), np.uint8)
    grid = Grid.of_sizes([[20, 1, 29], [25, 25]])
    call = Call("gather_nd", Kind.GATHER_ND, stand_in((50, 50), np.dtype("i4")), indices)
    made = make_plan(call, grid).points
    assert made.offset_in_chunk.nbytes + made.positions.nbytes == 8 * len(indices)
    seen = 0
    for group, number in enumerate(made.chunks.tolist()):
        positions = np.concatenate(
            [
                made.positions[start:stop].astype(int) + start // made.block * made.block
                for start, stop in zip(*made.runs(group), strict=True)
            ]
        )
        box = grid.box(tuple(map(int, np.unravel_index(number, grid.counts))))
        inside = [(indices[:, d] >= s.start) & (indices[:, d] < s.stop) for d, s in enumerate(box)]
        np.testing.assert_array_equal(positions, np.flatnonzero(inside[0] & inside[1]))
        seen += len(positions)
    assert seen == len(indices) == math.prod([600_000])


@pytest.mark.parametrize("function", ["gather_nd", "gather_elements", "gather"])
@given(data=st.data())
def test_cached_arrays_match_the_definition_repeatedly(function, data):
    """Points are looked up in cached chunks while some chunks are evicted."""
    call = data.draw(strategies.calls(function, dtypes=[np.dtype(char) for char in "bhid"]))
    array = CutArray(call.data, data.draw(grids(call.data.shape)))
    cached = ndgather.cached(array, memory=data.draw(st.sampled_from(("64 KiB", "1 MiB"))))
    for _ in range(3):
        if bad_entries(call):
            with pytest.raises(IndexOutOfBoundsError):
                call.result(cached, call.indices)
        else:
            found = call.result(cached, call.indices)
            assert_same_elements(found, expected(call))
