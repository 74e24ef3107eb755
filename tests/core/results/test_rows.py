"""Rows of every width are reduced correctly, however the work is divided."""

from __future__ import annotations

import numpy as np
import pytest

import ndgather
from ndgather import scatter_nd
from ndgather.errors import IndexOutOfBoundsError
from tests.definitions.calls import assert_same_elements


def product(old, update):
    """Return the product; for complex numbers by the plain formula with every step rounded."""
    if old.dtype.kind != "c":
        return old * update
    result = np.empty_like(old)
    result.real = old.real * update.real - old.imag * update.imag
    result.imag = old.real * update.imag + old.imag * update.real
    return result


REDUCED = {
    "add": np.add,
    "sub": np.subtract,
    "mul": product,
    "max": np.maximum,
}


def row_by_row(data, places, updates, reduction):
    """Return the result of the loop in the specification."""
    result = data.copy()
    for place, update in zip(places, updates, strict=True):
        result[place] = REDUCED[reduction](result[place], update)
    return result


def numbers(rng, shape, char):
    """Return nonzero numbers, with an imaginary part for complex dtypes."""
    if char in "bHil":
        return rng.integers(1, 100, shape).astype(char)
    parts = (rng.integers(80, 120, shape) / 99 for _ in range(2))
    real, imaginary = (part.astype(char.lower()) for part in parts)
    return real if char.islower() else (real + 1j * imaginary).astype(char)


@pytest.mark.parametrize("reduction", REDUCED)
@pytest.mark.parametrize("char", "bHilefdgFDG")
def test_rows_of_every_width(char, reduction):
    """Up to 70 elements, in rows with any alignment; most rows have several updates."""
    if char in "FDG" and reduction == "max":
        pytest.skip("complex numbers have no order")
    rng = np.random.default_rng(3)
    for width in (*range(1, 71), 127, 128, 129, 255, 256, 257, 300):
        shape, count = (5, width), 12
        data, updates = (numbers(rng, (n, width), char) for n in (5, count))
        bytes_before = int(rng.integers(0, 8)) * data.itemsize
        room = np.zeros(bytes_before + data.nbytes, np.uint8)
        shifted = room[bytes_before:].view(data.dtype).reshape(shape)
        shifted[...] = data
        places = rng.integers(0, 5, count)
        scatter_nd(shifted, places[:, np.newaxis], updates, reduction=reduction, out=shifted)
        expected = row_by_row(data, places, updates, reduction)
        np.testing.assert_array_equal(shifted, expected, f"rows of {width}")


BAD = 10**6
TABLES = {
    "8-byte": lambda: np.arange(1500 * 200, dtype="i8").reshape(1500, 200),
    "1-byte": lambda: (np.arange(5000 * 300) % 251).astype("u1").reshape(5000, 300),
    "16-byte": lambda: np.arange(1200 * 65, dtype="c16").reshape(1200, 65),
    "rows apart": lambda: np.arange(3000 * 200, dtype="f4").reshape(3000, 200)[::2],
    "from the last row": lambda: np.arange(1500 * 200, dtype="i8").reshape(1500, 200)[::-1],
    "planes": lambda: np.arange(30 * 50 * 200, dtype="f8").reshape(30, 50, 200),
}
COUNTS = [27, 200]

tables = pytest.mark.parametrize("table", TABLES)
counts = pytest.mark.parametrize("count", COUNTS)


def entries(data: np.ndarray, count: int) -> np.ndarray:
    size = data.shape[-1]
    return np.random.default_rng(count).integers(-size, size, (*data.shape[:-1], count))


@tables
@counts
def test_gathers(table: str, count: int, threads: int) -> None:
    data = TABLES[table]()
    indices = entries(data, count).astype(("i8", "i2")[threads % 2])
    expected = np.take_along_axis(data, indices.astype("i8"), -1)
    assert_same_elements(ndgather.gather_elements(data, indices, -1), expected)
    room = np.zeros((*expected.shape[:-1], 2 * count), data.dtype)
    ndgather.gather_elements(data, indices, -1, out=room[..., ::2])
    assert_same_elements(np.ascontiguousarray(room[..., ::2]), expected)
    assert not room[..., 1::2].any()


@tables
@counts
def test_out_of_bounds_entries(table: str, count: int, threads: int) -> None:
    data = TABLES[table]()
    indices = entries(data, count)
    expected = np.take_along_axis(data, indices, -1)
    for bad in {0, count // 2, count - 1}:
        place = (*(size // 2 for size in indices.shape[:-1]), bad)
        before, indices[place] = indices[place], BAD
        filled = expected.copy()
        filled[place] = 7
        actual = ndgather.gather_elements(data, indices, -1, mode="fill", fill_value=7)
        assert_same_elements(actual, filled)
        with pytest.raises(IndexOutOfBoundsError) as caught:
            ndgather.gather_elements(data, indices, -1)
        assert caught.value.position == place
        indices[place] = before


@tables
@counts
@pytest.mark.parametrize("reduction", ["none", "add"])
def test_scatters(table: str, count: int, reduction: str, threads: int) -> None:
    data = TABLES[table]()
    indices = entries(data, count)
    updates = (np.arange(indices.size) % 50).reshape(indices.shape).astype(data.dtype)
    expected = data.copy()
    rows = expected.reshape(-1, expected.shape[-1])
    for j in range(count):  # within each row, in the order of the specification's loop
        column, new = indices[..., j].reshape(-1), updates[..., j].reshape(-1)
        place = (np.arange(len(rows)), column)
        rows[place] = new if reduction == "none" else rows[place] + new
    actual = ndgather.scatter_elements(data, indices, updates, -1, reduction=reduction)
    assert_same_elements(actual, expected)
    indices[-1, ..., -1] = BAD
    before = data.copy()
    with pytest.raises(IndexOutOfBoundsError):
        ndgather.scatter_elements(data, indices, updates, -1, reduction=reduction, out=data)
    assert_same_elements(data, before)


@tables
@counts
def test_dropped_updates(table: str, count: int, threads: int) -> None:
    data = TABLES[table]()
    indices = entries(data, count)
    updates = np.ones(indices.shape, data.dtype)
    outside = np.random.default_rng(1).random(indices.shape) < 0.01
    expected = data.copy()
    np.add.at(expected, (*np.indices(indices.shape, sparse=True)[:-1], indices), ~outside)
    indices[outside] = BAD
    ndgather.scatter_elements(data, indices, updates, -1, reduction="add", mode="drop", out=data)
    assert_same_elements(data, expected)


@counts
@pytest.mark.parametrize("size", [1, 3, 40])
@pytest.mark.parametrize("step", [1, 2])
def test_the_same_slices_of_every_row(count: int, size: int, step: int, threads: int) -> None:
    rows = 1000 if size < 40 else 300
    data = np.arange(rows * 50 * size * step).reshape(rows, 50, size * step)[..., ::step]
    indices = np.random.default_rng(count).integers(-50, 50, count)
    expected = data[:, indices]
    assert_same_elements(ndgather.gather(data, indices, 1), expected)
    outside = indices.copy()
    outside[count // 2] = BAD
    filled = expected.copy()
    filled[:, count // 2] = 7
    assert_same_elements(ndgather.gather(data, outside, 1, mode="fill", fill_value=7), filled)
    with pytest.raises(IndexOutOfBoundsError):
        ndgather.gather(data, outside, 1)
    updates = -np.ascontiguousarray(expected)
    desired = data.copy()
    for j, at in enumerate(indices):
        desired[:, at] = updates[:, j]
    batched = np.broadcast_to(indices[:, None], (rows, count, 1))
    row_numbers = np.broadcast_to(np.arange(rows)[:, None, None], (rows, count, 1))
    tuples = np.concatenate([row_numbers, batched], axis=-1)
    assert_same_elements(ndgather.scatter_nd(data, tuples, updates), desired)


ROWS = 80


def transposed(width: int, dtype: str, planes: int = 3) -> np.ndarray:
    """Return data of shape (ROWS, planes, width) whose slice elements are at least a line apart."""
    values = np.resize(np.arange(251).astype(dtype), width * planes * ROWS)
    return values.reshape(width, planes, ROWS).transpose(2, 1, 0)


def many_planes(width: int, dtype: str) -> int:
    """Return the number of planes in 256 KiB."""
    return (1 << 18) // (ROWS * width * np.dtype(dtype).itemsize) + 1


COMBINE = {"none": lambda a, b: b, "add": np.add, "max": np.maximum, "mul": np.multiply}


def one_after_the_other(
    data: np.ndarray, indices: np.ndarray, updates: np.ndarray, reduction: str
) -> np.ndarray:
    """Return the result of the specification's loop on a copy of `data`."""
    result = data.copy()
    for p in np.ndindex(indices.shape[:-1]):
        place = tuple(indices[p])
        result[place] = COMBINE[reduction](result[place], updates[p])
    return result


def check_rows(data: np.ndarray, count: int, mode: str) -> None:
    indices = np.random.default_rng(count).integers(-ROWS, ROWS, (count, 1))
    if mode == "fill":
        indices[::7] = BAD
    expected = np.zeros((count, *data.shape[1:]), data.dtype)
    for p in range(count):
        if indices[p, 0] != BAD:
            expected[p] = data[indices[p, 0]]
    planes, width = data.shape[1:]
    apart = np.empty((count, planes + 2, 2 * width), data.dtype)[:, 1:-1, ::2]
    packed = np.empty((count, planes + 2, width + 2), data.dtype)[:, 1:-1, 1:-1]
    for out in (None, apart, packed):
        result = ndgather.gather_nd(data, indices, mode=mode, out=out)
        np.testing.assert_array_equal(result, expected, strict=True)


@pytest.mark.parametrize("dtype", ["u1", "f4", "c16"])
@pytest.mark.parametrize("width", [15, 32, 60])
@pytest.mark.parametrize("count", [63, 64, 300])
@pytest.mark.parametrize("mode", ["raise", "fill"])
def test_rows_of_a_transposed_array(dtype: str, width: int, count: int, mode: str) -> None:
    check_rows(transposed(width, dtype), count, mode)


# Whole cache lines, parts of a line, and lines with a remainder.
ROWS_AND_LINES = [("u1", 128), ("f4", 16), ("u1", 131), ("i2", 33), ("f4", 57), ("c16", 59)]


@pytest.mark.parametrize(("dtype", "width"), ROWS_AND_LINES)
@pytest.mark.parametrize("mode", ["raise", "fill"])
def test_rows_of_a_large_transposed_array(dtype: str, width: int, mode: str, threads: int) -> None:
    check_rows(transposed(width, dtype, many_planes(width, dtype)), 64, mode)


def check_rows_written(width: int, planes: int, count: int, reduction: str) -> None:
    data = transposed(width, "i4", planes)
    indices = np.random.default_rng(count).integers(-ROWS, ROWS, (count, 1))
    shape = (count, planes, width)
    updates = np.random.default_rng(1).integers(0, 10_000, shape, np.int32)
    expected = one_after_the_other(data, indices, updates, reduction)
    for lying in (updates, np.asfortranarray(updates)):
        result = ndgather.scatter_nd(data, indices, lying, reduction=reduction)
        np.testing.assert_array_equal(result, expected, strict=True)
        place = transposed(width, "i4", planes)
        result = ndgather.scatter_nd(place, indices, lying, reduction=reduction, out=place)
        assert result is place
        np.testing.assert_array_equal(place, expected, strict=True)


reductions = pytest.mark.parametrize("reduction", ["none", "add", "max"])


@reductions
@pytest.mark.parametrize("count", [63, 64, 300])
def test_rows_into_a_transposed_array(reduction: str, count: int, threads: int) -> None:
    check_rows_written(32, 3, count, reduction)


@reductions
@pytest.mark.parametrize("width", [15, 32])
def test_rows_into_a_large_transposed_array(reduction: str, width: int, threads: int) -> None:
    check_rows_written(width, many_planes(width, "i4"), 64, reduction)


@pytest.mark.parametrize("run", [1, 3, 8, 16, 17, 40, 300])
@pytest.mark.parametrize("count", [5, 64, 500])
def test_runs_with_gaps(run: int, count: int, threads: int) -> None:
    """Runs shorter and longer than a cache line, with gaps of the same length."""
    random = np.random.default_rng(run)
    data = random.integers(0, 99, (40, 3, 6, 2 * run), np.int32)[..., :run]
    updates = random.integers(0, 99, (count, 3, 6, 2 * run), np.int32)[..., :run]
    indices = random.integers(-40, 40, (count, 1))
    expected = np.array([data[i] for i in indices[:, 0]])
    np.testing.assert_array_equal(ndgather.gather_nd(data, indices), expected, strict=True)
    one_for_all = np.broadcast_to(np.ascontiguousarray(updates[:, :1]), updates.shape)
    for reduction in ("none", "add"):
        for written in (updates, np.ascontiguousarray(updates), one_for_all):
            expected = one_after_the_other(data, indices, written, reduction)
            result = ndgather.scatter_nd(data, indices, written, reduction=reduction)
            np.testing.assert_array_equal(result, expected, strict=True)
            place = np.repeat(data, 2, axis=2)[:, :, ::2]
            ndgather.scatter_nd(place, indices, written, reduction=reduction, out=place)
            np.testing.assert_array_equal(place, expected, strict=True)


@pytest.mark.parametrize("dtype", ["u1", "f4", "c16"])
@pytest.mark.parametrize("box", [(2,), (2, 3), (3, 2, 2), (2, 2, 9), (2, 3, 2, 2), (2, 2, 3, 9)])
def test_boxes_with_gaps_along_every_axis(box: tuple[int, ...], dtype: str, threads: int) -> None:
    """No two axes of these boxes can be merged."""

    def apart(rows: int) -> np.ndarray:
        *outer, inner = box
        whole = np.zeros((rows, *(size + 1 for size in outer), 2 * inner + 1), dtype)
        return whole[:, *(slice(0, -1) for _ in outer), : 2 * inner : 2]

    random = np.random.default_rng(len(box))
    data, updates, out = apart(40), apart(300), apart(300)
    data[...] = random.integers(0, 99, data.shape)
    updates[...] = random.integers(0, 9, updates.shape)
    indices = random.integers(-40, 40, (300, 1))
    expected = np.array([data[i] for i in indices[:, 0]])
    np.testing.assert_array_equal(ndgather.gather_nd(data, indices), expected, strict=True)
    ndgather.gather_nd(data, indices, out=out)
    np.testing.assert_array_equal(out, expected, strict=True)
    for reduction in ("none", "add"):
        expected = one_after_the_other(data, indices, updates, reduction)
        for written in (updates, np.ascontiguousarray(updates)):
            place = apart(40)
            place[...] = data
            ndgather.scatter_nd(place, indices, written, reduction=reduction, out=place)
            np.testing.assert_array_equal(place, expected, strict=True)
    indices[::7] = BAD
    kept = indices[:, 0] != BAD
    expected = one_after_the_other(data, indices[kept], updates[kept], "none")
    result = ndgather.scatter_nd(data, indices, updates, mode="drop")
    np.testing.assert_array_equal(result, expected, strict=True)


def test_first_bad_entry_is_named() -> None:
    data = transposed(32, "f4")
    indices = np.zeros((200, 1), np.int64)
    indices[[150, 170]] = ROWS
    with pytest.raises(ndgather.errors.IndexOutOfBoundsError) as caught:
        ndgather.gather_nd(data, indices)
    assert caught.value.position == (150, 0)
    assert caught.value.count == 2


def gaps(values: np.ndarray) -> dict[str, np.ndarray]:
    """Return arrays equal to `values` whose slices have gaps of every kind."""
    doubled = np.repeat(values, 2, axis=-1)
    return {
        "backwards": np.ascontiguousarray(values[..., ::-1])[..., ::-1],
        "every second": doubled[..., ::2],
        "Fortran": np.asfortranarray(values),
        "rolled": np.ascontiguousarray(values.transpose(1, 2, 0)).transpose(2, 0, 1),
        "one for all": np.broadcast_to(values[..., :1], values.shape),
    }


@pytest.mark.parametrize("layout", gaps(np.zeros((1, 1, 1))))
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(20, 6, 70), (7, 20, 48), (130, 5, 16)])
def test_slices_with_gaps_of_every_kind(
    layout: str, axis: int, shape: tuple[int, ...], threads: int
) -> None:
    """Each slice is read once, or more often than there are slices."""
    dtype = ("u1", "f4", "c16")[(axis + shape[0] + threads) % 3]
    data = gaps((np.arange(np.prod(shape)) % 251).reshape(shape).astype(dtype))[layout]
    plain = data.tolist()
    random = np.random.default_rng(axis)
    size = shape[axis]
    for count in (1, size - 1, size, (3 * size - 1) // 2, (3 * size + 1) // 2, 500):
        indices = random.integers(-size, size, count)
        rows = data.swapaxes(0, axis)
        expected = np.stack([rows[i] for i in indices]).swapaxes(0, axis)
        np.testing.assert_array_equal(ndgather.gather(data, indices, axis), expected, strict=True)
    tuples = random.integers(0, shape[:2], (300, 2))
    expected = np.array([plain[i][j] for i, j in tuples]).astype(dtype)
    np.testing.assert_array_equal(ndgather.gather_nd(data, tuples), expected, strict=True)
    batches = random.integers(0, shape[1], (shape[0], 3 * shape[1], 1))
    expected = np.array([[plain[b][i] for (i,) in batches[b]] for b in range(shape[0])])
    result = ndgather.gather_nd(data, batches, batch_dims=1)
    np.testing.assert_array_equal(result, expected.astype(dtype), strict=True)


def same_layout(values: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Return a copy of `values` with the memory layout of `like`."""
    apart = sorted(range(like.ndim), key=lambda d: -abs(like.strides[d]))
    back = np.argsort(apart)
    room = np.zeros([values.shape[d] * 2 for d in apart], values.dtype)
    place = room[(slice(None, None, 2),) * like.ndim].transpose(back)
    place = place[tuple(slice(None, None, -1 if s < 0 else 1) for s in like.strides)]
    place[...] = values
    return place


@pytest.mark.parametrize("layout", sorted(gaps(np.zeros((1, 1, 1))).keys() - {"one for all"}))
@pytest.mark.parametrize("updates_layout", gaps(np.zeros((1, 1, 1))))
@pytest.mark.parametrize("shape", [(20, 6, 70), (130, 3, 4)])
@pytest.mark.parametrize("reduces", [False, True])
def test_scatters_into_slices_with_gaps_of_every_kind(
    layout: str, updates_layout: str, reduces: bool, shape: tuple[int, ...], threads: int
) -> None:
    """Few and many updates of rows and of their slices, with duplicates."""
    choices = (("f4", "add"), ("f8", "max")) if reduces else (("u1", "none"), ("c16", "none"))
    dtype, reduction = choices[(len(layout) + len(updates_layout) + threads) % 2]
    random = np.random.default_rng(shape)
    data = gaps((np.arange(np.prod(shape)) % 251).reshape(shape).astype(dtype))[layout]
    for depth, count in ((1, 3), (1, 63), (1, 500), (2, 700)):
        values = (random.integers(0, 700, (count, *shape[1:])) / 7).astype(dtype)
        updates = gaps(values)[updates_layout]
        if depth == 2:
            updates = updates[:, 0]
        indices = random.integers(-shape[depth - 1], shape[depth - 1], (count, depth)) // 2
        expected = one_after_the_other(data, indices, updates, reduction)
        result = ndgather.scatter_nd(data, indices, updates, reduction=reduction)
        np.testing.assert_array_equal(result, expected, strict=True)
        place = same_layout(data, data)
        result = ndgather.scatter_nd(place, indices, updates, reduction=reduction, out=place)
        np.testing.assert_array_equal(result, expected, strict=True)


@pytest.mark.parametrize("layout", gaps(np.zeros((1, 1, 1))))
def test_data_of_any_layout_is_copied(layout: str, threads: int) -> None:
    """A scatter copies data first, large arrays in parts."""
    for shape in ((3, 5, 7), (30, 200, 300)):
        data = gaps(np.arange(np.prod(shape), dtype="f4").reshape(shape))[layout]
        result = ndgather.scatter_nd(data, np.zeros((1, 1), int), data[-1:])
        expected = np.array(data)
        expected[0] = data[-1]
        np.testing.assert_array_equal(result, expected, strict=True)
