"""Arrays around 2**31, 2**32, 2**33 and 2**35 bytes: no memory outside them is read or written.

The arrays are private mappings, so only touched pages use memory. The parts that a call may touch
contain distinct values, and everything around them must stay zero.
"""

import mmap
import random
from contextlib import contextmanager

import numpy as np
import pytest

import ndgather
from tests.core.comparing import threads

pytestmark = pytest.mark.slow

BORDERS = (2**31, 2**32, 2**33, 2**35)
GUARD = 1 << 16  # zero bytes before and after an array
INDEX_TYPES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
COPIED = ("V1", "V2", "V3", "f4", "V5", "V7", "f8", "V12", "V13", "c16")
COUNTED = ("u1", "i2", "f4", "u4", "i8", "f8", "c16")  # adds small numbers exactly
NORESERVE = 0x4000  # Linux: do not reserve swap space


@contextmanager
def mapped(shape, dtype):
    """Yield an array of zeros, and the memory that contains it."""
    size = int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE
    memory = mmap.mmap(-1, size + 2 * GUARD, flags=flags)
    memory.madvise(mmap.MADV_NOHUGEPAGE)  # a touch would allocate 2 MiB
    everything = np.frombuffer(memory, np.uint8)
    yield np.ndarray(shape, dtype, memory, GUARD), everything
    del everything
    memory.madvise(mmap.MADV_DONTNEED)  # a report may keep the arrays alive


def around(size, unit):
    """Return positions on an axis of `size` steps of `unit` bytes: its ends, and 32-bit limits."""
    near = [0, 1, size - 1, size - 2, size - 70, -1, -2, -size, 1 - size, 126, 254, 32_767, 65_535]
    for border in BORDERS:
        near += [border // unit + d for d in (-1, 0, 1)] + [border - 1, border]
    return [place for place in near if -size <= place < size]


def some_indices(rng, sizes, units, count):
    """Draw index tuples with few distinct targets, sometimes skewed, and their dtype."""
    index_type = rng.choice(INDEX_TYPES)
    limits = np.iinfo(index_type)
    fits = [
        [place for place in around(size, unit) if limits.min <= place <= limits.max]
        for size, unit in zip(sizes, units, strict=True)
    ]
    tuples = [[rng.choice(places) for places in fits] for _ in range(rng.randint(1, 6))]
    weights = [rng.choice((1, 1, 20)) for _ in tuples]
    if rng.random() < 0.4:  # most at the very end
        pairs = zip(fits, sizes, strict=True)
        ends = [max((place % size, place) for place in places)[1] for places, size in pairs]
        tuples.append(ends)
        weights.append(90)
    chosen = rng.choices(tuples, weights, k=count)
    return np.array(chosen, index_type).reshape(count, len(sizes))


def flat(shape, places):
    """Return flat C-order indices for coordinates that may be negative."""
    number = np.zeros(len(places), np.int64)
    for axis, size in enumerate(shape[: places.shape[1]]):
        place = places[:, axis].astype(np.int64)
        number = number * size + np.where(place < 0, place + size, place)
    return number


class Expected:
    """The expected nonzero elements of an array of zeros, as a dictionary."""

    def __init__(self, array, everything):
        self.array, self.everything, self.cells = array, everything, {}

    def mark(self, numbers):
        """Assign distinct values to elements, also in the array."""
        for value, number in enumerate(np.unique(numbers).tolist(), 1):
            dtype = self.array.dtype
            cell = np.frombuffer(bytes([value % 251 + 1] * dtype.itemsize), dtype)[0]
            if dtype.kind != "V":
                cell = dtype.type(value % 50)
            self.cells[number] = cell
            self.array.reshape(-1)[number] = cell

    def update(self, numbers, updates, adds):
        """Assign or add updates one by one."""
        with np.errstate(over="ignore"):
            for number, update in zip(numbers.tolist(), updates, strict=True):
                self.cells[number] = self.cells[number] + update if adds else update

    def bytes_at(self, numbers):
        """Return the expected bytes of a gather of elements; zeros for number -1."""
        named, where = np.unique(numbers, return_inverse=True)
        zero = np.zeros((), self.array.dtype)[()]
        cells = [zero if number < 0 else self.cells[number] for number in named.tolist()]
        return np.array(cells, self.array.dtype)[where.reshape(-1)].tobytes()

    def is_met(self):
        """Compare the memory around each named element, and before and after the array."""
        assert not self.everything[:GUARD].any()
        assert not self.everything[-GUARD:].any()
        width = self.array.dtype.itemsize
        for number in self.cells:
            begin = max(GUARD + number * width - 256, 0)
            block = self.everything[begin : begin + 512 + width].copy()
            for other, cell in self.cells.items():
                at = GUARD + other * width - begin
                if -width < at < len(block):
                    held = np.frombuffer(np.array(cell).tobytes(), np.uint8)
                    low, high = max(at, 0), min(at + width, len(block))
                    assert bytes(block[low:high]) == bytes(held[low - at : high - at])
                    block[low:high] = 0
            assert not block.any()


def some_shape(rng, itemsize, columns):
    """Draw a shape whose size is within about 70 elements of a limit."""
    elements = rng.choice(BORDERS) // itemsize + rng.randint(-70, 70)
    if columns == 1:
        return (elements,)
    if rng.random() < 0.2:
        return (rng.randint(2, 5), elements // columns // 4, columns)
    return (elements // columns, columns)


def some_tuples(rng, data, units, count):
    """Draw index tuples, and for each the numbers of the elements of its slice."""
    depth = rng.randint(max(1, data.ndim - 1), data.ndim)
    if depth < data.ndim:
        count = min(count, 3_000)
    indices = some_indices(rng, data.shape[:depth], units[:depth], count)
    return indices, rows_of(data.shape, indices)


def some_elements(rng, data, units, count):
    """Draw indices along the first axis, and the numbers of their elements."""
    indices = some_indices(rng, data.shape[:1], units[:1], count)
    other = [rng.randint(1, min(size, 3)) for size in data.shape[1:]]
    indices = np.broadcast_to(indices.reshape(-1, *(1 for _ in other)), (count, *other)).copy()
    places = np.indices(indices.shape).reshape(data.ndim, -1).T.astype(np.int64)
    places[:, 0] = indices.reshape(-1).astype(np.int64)
    return indices, flat(data.shape, places).reshape(indices.shape)


def rows_of(shape, indices):
    """Return the numbers of the elements of the slice of each tuple."""
    length = int(np.prod(shape[indices.shape[1] :]))
    return flat(shape, indices)[:, np.newaxis] * length + np.arange(length)


def check_gather_nd(rng, data, expected, units, count):
    indices, numbers = some_tuples(rng, data, units, count)
    expected.mark(numbers)
    assert ndgather.gather_nd(data, indices).tobytes() == expected.bytes_at(numbers)


def check_gather_elements(rng, data, expected, units, count):
    indices, numbers = some_elements(rng, data, units, count)
    expected.mark(numbers)
    assert ndgather.gather_elements(data, indices, axis=0).tobytes() == expected.bytes_at(numbers)


def check_gather(rng, data, expected, units, count):
    indices = some_indices(rng, data.shape[:1], units[:1], min(count, 3_000))
    numbers = rows_of(data.shape, indices)
    expected.mark(numbers)
    assert ndgather.gather(data, indices[:, 0]).tobytes() == expected.bytes_at(numbers)


def check_gather_windows(rng, data, expected, units, count):
    length = rng.randint(1, 5)
    starts = some_indices(rng, data.shape[:1], units[:1], min(count, 300)).astype("i8")
    mode = rng.choice(("raise", "clip", "fill"))
    last = data.shape[0] - length
    starts = starts.clip(0, last) if mode == "raise" else starts
    first = starts.clip(0, last) if mode == "clip" else starts
    places = (first + np.arange(length)).reshape(-1, 1)
    outside = (places < 0) | (places >= data.shape[0])
    numbers = np.where(outside, -1, rows_of(data.shape, np.where(outside, 0, places)))
    expected.mark(numbers[numbers >= 0])
    result = ndgather.gather_windows(data, starts, [length], mode=mode)
    assert result.tobytes() == expected.bytes_at(numbers)


def check_gather_ranges(rng, data, expected, units, count):
    starts = some_indices(rng, data.shape[:1], units[:1], min(count, 300))[:, 0].astype("i8")
    starts = np.where(starts < 0, starts + data.shape[0], starts)
    stops = np.minimum(starts + rng.randint(0, 6), data.shape[0])
    places = np.concatenate([np.arange(a, b) for a, b in zip(starts, stops, strict=True)])
    numbers = rows_of(data.shape, places[:, np.newaxis])
    expected.mark(numbers)
    values, offsets = ndgather.gather_ranges(data, starts, stops)
    assert offsets.tolist() == [0, *np.cumsum(stops - starts).tolist()]
    assert values.tobytes() == expected.bytes_at(numbers)


def check_scatter(rng, data, expected, units, count):
    by_elements = rng.random() < 0.3
    some = some_elements if by_elements else some_tuples
    indices, numbers = some(rng, data, units, count)
    mode = rng.choice(("raise", "drop"))
    dropped = np.zeros(len(indices), bool)
    if mode == "drop" and indices.dtype.itemsize == 8:
        dropped = np.array([rng.random() < 0.3 for _ in dropped])
        indices[dropped] = data.shape[0] + rng.choice((0, 1, 2**40))
    expected.mark(numbers)
    adds = data.dtype.kind != "V" and rng.random() < 0.8
    updates = (np.arange(numbers.size) % 3).astype("u1").reshape(numbers.shape)
    if adds:
        updates = updates.astype(data.dtype)
    else:  # each consists of one repeated byte
        width = data.dtype.itemsize
        updates = np.repeat(updates[..., np.newaxis], width, -1).view(f"V{width}")
        updates = updates.reshape(numbers.shape).view(data.dtype)
    expected.update(numbers[~dropped].reshape(-1), updates[~dropped].reshape(-1), adds)
    options = {"reduction": "add" if adds else "none", "mode": mode, "out": data}
    if by_elements:
        ndgather.scatter_elements(data, indices, updates, axis=0, **options)
    else:
        slices = (len(indices), *data.shape[indices.shape[1] :])
        ndgather.scatter_nd(data, indices, updates.reshape(slices), **options)


CHECKS = (
    *(check_gather_nd, check_gather_elements, check_gather, check_gather_windows),
    *(check_gather_ranges, check_scatter, check_scatter, check_scatter, check_scatter),
)


def draw_and_call(seed):
    rng = random.Random(seed)
    check = rng.choice(CHECKS)
    copied = check is not check_scatter or rng.random() < 0.3
    dtype = np.dtype(rng.choice(COPIED if copied else COUNTED))
    columns = rng.choice((1, 1, rng.randint(2, 40)))
    shape = some_shape(rng, dtype.itemsize, columns)
    count = rng.choice((3, 40, 300, *(rng.randint(9_000, 30_000) for _ in range(3))))
    units = [int(np.prod(shape[d + 1 :])) * dtype.itemsize for d in range(len(shape))]
    with mapped(shape, dtype) as (whole, everything), threads(rng.randint(1, 7)):
        along_first = check in (check_gather, check_gather_windows, check_gather_ranges)
        data, units = (whole.reshape(-1, columns), units[-2:]) if along_first else (whole, units)
        expected = Expected(data, everything)
        check(rng, data, expected, units, count)
        expected.is_met()


@pytest.mark.parametrize("first", range(0, 2_000, 200))
def test_random_calls(first):
    for seed in range(first, first + 200):
        try:
            draw_and_call(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


# The destination spans almost 2**32 bytes, and its last cache line gets most updates, as if it
# collected padding or values above the highest bin.
@pytest.mark.parametrize("mode", ["raise", "drop"])
@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize("less", [0, 1, 7, 15, 41, 63, 64, 65, 130])
@pytest.mark.parametrize(("dtype", "columns"), [("u1", 1), ("f4", 1), ("f4", 16), ("f8", 2)])
@pytest.mark.parametrize("count", [3, 5, 7])
def test_most_updates_in_the_last_cache_line_of_4_gib(dtype, columns, less, reduction, mode, count):
    width = np.dtype(dtype).itemsize * columns
    rows = (2**32 - less) // width
    tuples = 60_000 // columns
    indices = np.full((tuples, 1), rows - 1)
    indices[::7] = 5
    if mode == "drop":
        indices[::5] = rows
    with mapped((rows, columns), dtype) as (data, everything), threads(count):
        expected = Expected(data, everything)
        expected.mark(rows_of(data.shape, np.array([[5], [rows - 1]])))
        updates = np.ones((tuples, columns), dtype)
        for row in (5, rows - 1):
            met = int((indices == row).sum())
            for number in range(row * columns, (row + 1) * columns):
                total = int(expected.cells[number]) + met
                value = total % 256 if dtype == "u1" else total
                expected.cells[number] = np.dtype(dtype).type(value if reduction == "add" else 1)
        ndgather.scatter_nd(data, indices, updates, reduction=reduction, mode=mode, out=data)
        expected.is_met()
