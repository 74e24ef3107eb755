"""Results are identical for any number of threads, for all kinds of work above the thresholds."""

import mmap
import sys
from functools import lru_cache

import numpy as np
import pytest

import ndgather
from ndgather import scatter_elements, scatter_nd
from tests.core.comparing import threads
from tests.definitions import by_numpy
from tests.definitions.calls import element_bytes
from tests.definitions.draws import SKEWS, floats


def in_order(data, places, updates, reduction):
    """Apply one update after another, at targets that may be negative."""
    sizes = data.shape[: len(places)]
    flat = np.ravel_multi_index(places, sizes, mode="wrap")
    rows = data.reshape(int(np.prod(sizes)), -1)
    updates = updates.reshape(len(flat), rows.shape[1])
    return by_numpy.in_order(rows, flat, updates, reduction).reshape(data.shape)


# name: shape of data, number of tuples, number of distinct targets
TUPLES = {
    "few places of little data": ((20_000,), 200_000, 100),
    "all places of little data": ((20_000,), 200_000, 20_000),
    "few places of much data": ((1_000_000,), 200_000, 100),
    "all places of much data": ((1_500_000,), 400_000, 1_500_000),
    "columns of places of their own": ((1_200, 1_100), 150_000, 900_000),
    "two columns": ((700, 900), 150_000, 5_000),
    "one place": ((1,), 100_000, 1),
    "places on one line": ((7,), 100_000, 7),
    "some lines": ((140,), 100_000, 130),
    "a few pages": ((4_200,), 100_000, 3_000),
    "a quarter of a million places": ((260_000,), 100_000, 200_000),
    "all on one page": ((1_000_000,), 200_000, 1),
    "too few rows to share": ((28, 32), 20_000, 26),
    "just enough rows to share": ((400, 32), 20_000, 390),
    "rows just enough, unaligned": ((450, 17), 30_000, 440),
    "few wide rows": ((40, 150), 5_000, 39),
    "wide rows by place": ((80, 300), 5_000, 79),
    "seven rows": ((7, 678), 2_000, 7),
    "one row": ((1, 5_000), 300, 1),
    "fewer and wider rows": ((9, 700), 2_000, 9),
    "short rows": ((3_000, 7), 60_000, 50),
    "rows of some lines": ((2_000, 256), 8_000, 300),
    "rows shared by place": ((70_000, 32), 20_000, 60_000),
    "few rows of much data": ((70_000, 32), 20_000, 100),
    "long rows by place": ((2_000, 700), 3_000, 1_900),
    "long rows in parts": ((40, 5_000), 600, 7),
    "long rows past the caches": ((300, 40_000), 250, 290),
    "one place, very long": ((3, 100_000), 40, 1),
}


@lru_cache(maxsize=1)  # the reductions of a name are consecutive
def arrays_of(name):
    shape, count, spread = TUPLES[name]
    depth = 2 if "columns" in name else 1
    rng = np.random.default_rng(len(name))
    data = floats(rng, shape)
    flat = rng.permutation(int(np.prod(shape[:depth])))[:spread][rng.integers(0, spread, count)]
    return data, np.unravel_index(flat, shape[:depth]), floats(rng, (count, *shape[depth:]))


@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize("name", TUPLES)
def test_tuples(name, reduction):
    data, places, updates = arrays_of(name)
    indices = np.stack(places, -1)
    expected = in_order(data, places, updates, reduction)
    wanted = element_bytes(expected)
    for number in (1, 2, 4):
        with threads(number):
            fresh = scatter_nd(data, indices, updates, reduction=reduction)
            place = data.copy()
            scatter_nd(place, indices, updates, reduction=reduction, out=place)
        assert element_bytes(fresh) == wanted, number
        assert element_bytes(place) == wanted, number


# name: shape of data, shape of indices, axis
ELEMENTS = {
    "bands": ((300, 1024), (700, 1024), 0),
    "bands, not all columns": ((700, 1024), (700, 433), 0),
    "bands of planes": ((3, 300, 1024), (3, 200, 1024), 1),
    "bands of a transposed array": ((1024, 300), (1024, 700), 1),
    "bands of few rows": ((900, 1000), (800, 1000), 0),
    "short runs": ((30_000, 9), (30_000, 9), 0),
    "short runs, not all columns": ((20_000, 31), (9_000, 17), 0),
    "short runs, backwards": ((30_000, 9), (30_000, 9), 0),
    "short runs of rows": ((30_000, 40), (30_000, 5), 1),
    "short runs of planes": ((30, 700, 6), (30, 900, 6), 1),
    "runs that are just short": ((1_000, 130), (1_500, 128), 0),
    "runs that are just not short": ((1_000, 130), (1_500, 129), 0),
    "few rows": ((2_000, 100), (300, 100), 0),
    "some strips for each thread": ((6, 70_000), (5, 70_000), 0),
    "last axis": ((200, 1_000), (200, 1_500), 1),
    "one long axis": ((50_000,), (300_000,), 0),
    "one row": ((1, 50_000), (1, 300_000), 1),
    "fewer rows than threads": ((3, 40_000), (3, 60_000), 1),
}


@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize("name", ELEMENTS)
def test_elements(name, reduction):
    shape, taken, axis = ELEMENTS[name]
    rng = np.random.default_rng(len(name))
    data, updates = floats(rng, shape), floats(rng, taken)
    backwards = "backwards" in name
    if "transposed" in name:
        data = np.asfortranarray(data)
    # A few positions on the axis get most updates.
    few = rng.integers(0, min(5, shape[axis]), taken)
    indices = np.where(rng.random(taken) < 0.7, few, rng.integers(0, shape[axis], taken))
    places = list(np.indices(taken, sparse=False))
    places[axis] = indices
    places = [each.reshape(-1) for each in places]
    expected = in_order(data, tuple(places), updates.reshape(-1), reduction)
    wanted = element_bytes(expected)
    for number in (1, 2, 3, 4):
        with threads(number):
            fresh = scatter_elements(data, indices, updates, axis, reduction=reduction)
            place = data[:, ::-1].copy(order="K")[:, ::-1] if backwards else data.copy(order="K")
            scatter_elements(place, indices, updates, axis, reduction=reduction, out=place)
        assert element_bytes(fresh) == wanted, number
        assert element_bytes(place) == wanted, number


@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize("columns", [2, 3, 4])
def test_last_record_of_each_element_wins(columns, width):
    """Adjacent records are separate targets, no matter how far apart the rows are."""
    rng = np.random.default_rng(columns)
    indices = rng.integers(0, 512, (8_000, columns))
    updates = rng.integers(0, 256, (8_000, columns, width), dtype=np.uint8)
    expected = np.zeros((512, columns, width), np.uint8)
    for column in range(columns):
        for row, index in enumerate(indices[:, column]):
            expected[index, column] = updates[row, column]
    data = np.zeros((512, columns), f"V{width}")
    for number in (1, 2, 4):
        with threads(number):
            result = scatter_elements(data, indices, updates.view(f"V{width}")[..., 0])
        assert element_bytes(result) == expected.tobytes(), number


@pytest.mark.parametrize("order", ["any", "rising", "falling"])
@pytest.mark.parametrize("width", [7, 8, 9, 16, 33, 256])  # 16 per cache line
def test_last_row_of_each_target_wins(width, order):
    """Most rows are overwritten, by the same or another thread, and some are dropped."""
    rng = np.random.default_rng(width)
    data, updates = floats(rng, (3_000, width)), floats(rng, (30_000, width))
    place = rng.integers(-3_500, 3_500, 30_000)
    place = {"any": place, "rising": np.sort(place), "falling": np.sort(place)[::-1]}[order]
    inside = (place >= -3_000) & (place < 3_000)
    expected = in_order(data, (place[inside],), updates[inside], "none")
    for number in (1, 2, 3, 5, 16):
        with threads(number):
            result = scatter_nd(data, place[:, np.newaxis], updates, mode="drop")
        assert element_bytes(result) == element_bytes(expected), number


def test_last_row_of_each_target_wins_over_several_rounds():
    rng = np.random.default_rng(7)
    data, updates = floats(rng, (30_000, 16)), floats(rng, (1_000_000, 16))
    place = rng.integers(0, 30_000, 1_000_000)
    expected = data.copy()
    expected[place] = updates
    for number in (2, 3):
        with threads(number):
            result = scatter_nd(data, place[:, np.newaxis], updates)
        assert element_bytes(result) == element_bytes(expected), number


def test_more_updates_than_buffered_offsets():
    rng = np.random.default_rng(8)
    size, count = 1_000_000, 2_500_000  # 4 bytes each
    data, updates = rng.integers(-1000, 1000, size), rng.integers(-1000, 1000, count)
    place = rng.integers(0, size, count, np.int32)
    expected = in_order(data, (place,), updates, "add")
    with threads(2):
        result = scatter_nd(data, place[:, np.newaxis], updates, reduction="add")
    np.testing.assert_array_equal(result, expected, strict=True)


@pytest.mark.parametrize("char", "behiFDd")
@pytest.mark.parametrize("packed", [True, False])
def test_other_types_partitioned_by_target(char, packed):
    """Consecutive updates of 4 and 8 bytes are copied; others are left in place."""
    rng = np.random.default_rng(9)
    size, count = 1_300_000, 100_000
    data, updates = ((8 * floats(rng, n, "d")).astype(char) for n in (size, 2 * count))
    updates = updates[:count] if packed else updates[::-2]
    place = rng.integers(-size, size, count)
    expected = in_order(data, (place,), updates, "add")
    wanted = element_bytes(expected)
    for number in (1, 2, 3, 16, 17):
        with threads(number):
            scattered = data.copy()
            scatter_nd(scattered, place[:, np.newaxis], updates, reduction="add", out=scattered)
        assert element_bytes(scattered) == wanted, number


@pytest.mark.parametrize("number", [1, 2, 3])
def test_more_than_a_million_updates(number):
    rng = np.random.default_rng(10)
    size, count = 300_000, 1_200_000
    data, updates = floats(rng, size), floats(rng, count)
    indices = rng.integers(-size, size, (count, 1), np.int32)
    expected = in_order(data, (indices[:, 0],), updates, "add")
    before = data.copy()
    with threads(number):
        assert element_bytes(scatter_nd(data, indices, updates, reduction="add")) == element_bytes(
            expected
        )
        indices[-1] = size
        with pytest.raises(ndgather.errors.IndexOutOfBoundsError) as caught:
            scatter_nd(data, indices, updates, reduction="add", out=data)
        assert caught.value.position == (count - 1, 0)
        assert caught.value.count == 1
        assert element_bytes(data) == element_bytes(before)
        indices[-1] = 0
        scatter_nd(data, indices, updates, reduction="add", out=data)
    expected = in_order(before, (indices[:, 0],), updates, "add")
    assert element_bytes(data) == element_bytes(expected)


# name: targets of updates among 300,000; targets beyond are dropped
CROWDS = SKEWS | {
    "most at one": lambda rng, n, places: np.where(
        rng.random(n) < 0.6, 77_777, rng.integers(0, places, n)
    ),
    "two places": lambda rng, n, places: np.where(rng.random(n) < 0.5, 16, places - 1),
    "all dropped": lambda _, n, places: np.full(n, places),
    "all dropped but one": lambda _, n, places: np.where(np.arange(n) == n // 2, 5, places),
    "every second dropped": lambda _, n, places: np.where(np.arange(n) % 2, places, np.arange(n)),
}


@pytest.mark.parametrize("name", CROWDS)
def test_owners_of_crowded_targets(name):
    rng = np.random.default_rng(13)
    indices, updates = CROWDS[name](rng, 100_000, 300_000), floats(rng, 100_000)
    inside = indices < 300_000
    data = floats(rng, 300_000)
    expected = in_order(data, (indices[inside],), updates[inside], "add")
    wanted = element_bytes(expected)
    for number in (1, 2, 3, 5, 16, 40):
        with threads(number):
            result = scatter_elements(data, indices, updates, reduction="add", mode="drop")
        assert element_bytes(result) == wanted, number


@pytest.mark.skipif(sys.platform != "linux", reason="wants 4 GiB of which 8 MiB are touched")
@pytest.mark.parametrize("most_at_last", [False, True])
def test_targets_within_4_gib_and_beyond(most_at_last):
    size = 2**30 + 2**18
    no_reserve = 0x4000  # mmap.MAP_NORESERVE, available since Python 3.13
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve
    memory = mmap.mmap(-1, 4 * (size + 15), flags=flags)
    rng = np.random.default_rng(12)
    few, count = 1_000, 100_000
    where = np.sort(rng.choice(size, few, replace=False))
    where[[0, -1]] = 0, size - 1
    which, updates = rng.integers(0, few, count), floats(rng, count)
    if most_at_last:
        which[rng.random(count) < 0.9] = few - 1
    for step in (1, -1):
        data = np.frombuffer(memory, np.float32)[15:][
            ::step
        ]  # to the end of a cache line, or nearly
        for number in (1, 2, 3):
            data[where] = 0
            with threads(number):
                scatter_nd(data, where[which, np.newaxis], updates, reduction="add", out=data)
            expected = in_order(np.zeros(few, "f"), (which,), updates, "add")
            assert element_bytes(data[where]) == element_bytes(expected), number
        data[where] = 0


# name: shape of data, number of updates
ROWS = {
    "rows of 260 bytes": ((30_000, 65), 9_000),
    "many short rows": ((60_000, 16), 50_000),
    "two columns": ((150, 140, 70), 20_000),
}


# name: the targets of n updates among a number of places
REPEATS = SKEWS | {
    "none": lambda rng, n, places: rng.permutation(places)[:n],
    "each twice": lambda rng, n, places: rng.permutation(places)[:n] // 2 * 2,
}


@pytest.mark.parametrize("repeats", REPEATS)
@pytest.mark.parametrize("name", ROWS)
def test_updates_with_duplicate_indices(name, repeats):
    """The last update wins."""
    shape, count = ROWS[name]
    depth = 2 if "columns" in name else 1
    rng = np.random.default_rng(14)
    flat = REPEATS[repeats](rng, count, int(np.prod(shape[:depth])))
    places = np.unravel_index(flat, shape[:depth])
    data, updates = floats(rng, shape), floats(rng, (count, *shape[depth:]))
    expected = in_order(data, places, updates, "none")
    wanted = element_bytes(expected)
    for number in (2, 3, 16):
        with threads(number):
            result = scatter_nd(data, np.stack(places, -1), updates)
        assert element_bytes(result) == wanted, number
