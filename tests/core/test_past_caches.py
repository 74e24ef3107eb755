"""Results of more than 32 MiB, which are written past the caches where whole lines of them are.

They begin anywhere on a line, and so do the rows of which they are made.
"""

import numpy as np
import pytest

import ndgather

BYTES = (1 << 25) + 70_000
AFTER = (0, 4, 16, 60)  # bytes after the begin of a line


def placed(shape, dtype, after):
    """Return an array that begins so many bytes after the begin of a line."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.full(size + 256, 0x5A, np.uint8)
    begin = -memory.ctypes.data % 64 + after
    array = memory[begin : begin + size].view(dtype).reshape(shape)
    assert array.ctypes.data % 64 == after
    return array


def numbers(shape, dtype):
    return np.arange(np.prod(shape), dtype=np.int64).astype(dtype).reshape(shape)


def random_places(size, shape):
    return np.random.default_rng(size).integers(0, size, shape)


def results(shape, dtype):
    """A new result, and some that the caller has."""
    yield None
    for after in AFTER:
        yield placed(shape, dtype, after)


@pytest.mark.parametrize(
    ("width", "rows"),
    # Up to 16 MiB of short rows; longer ones from anywhere.
    [
        (40, 60_000),
        (43, 60_000),
        (128, 30_000),
        (129, 30_000),
        (131, 1_000),
        (1_024, 12_000),
        (1_027, 12_000),
        (5_001, 40),
    ],
)
def test_rows(threads, width, rows):
    data = numbers((rows, width), np.float32)
    places = random_places(rows, BYTES // data[0].nbytes)
    for out in results((len(places), width), data.dtype):
        found = ndgather.gather(data, places, out=out)
        np.testing.assert_array_equal(found, data[places])


@pytest.mark.parametrize("dtype", ["u2", "f4", "f8", "c16"])
@pytest.mark.parametrize("beyond", [0, 1])
def test_elements(threads, dtype, beyond):
    data = numbers(300_000, dtype)
    places = random_places(len(data) + beyond, BYTES // data.itemsize + 3)
    inside = places < len(data)
    expected = np.where(inside, data[places * inside], data.dtype.type(7))
    for out in results(places.shape, dtype):
        found = ndgather.gather(data, places, mode="fill", fill_value=7, out=out)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["u2", "f4", "f8", "c16"])
@pytest.mark.parametrize("columns", [1_600, 1_601])
def test_elements_of_rows(threads, dtype, columns):
    rows = BYTES // np.dtype(dtype).itemsize // columns + 1
    data = numbers((rows, columns), dtype)
    places = random_places(columns, (rows, columns))
    expected = np.take_along_axis(data, places, 1)
    for out in results(data.shape, dtype):
        found = ndgather.gather_elements(data, places, 1, out=out)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("width", [128, 1_024])
@pytest.mark.parametrize("gap", [1, 4, 16])
def test_rows_of_planes_apart(threads, width, gap):
    data = numbers((1_000, width), np.float32)
    places = random_places(len(data), (2, BYTES // data[0].nbytes // 2 + 1))
    memory = np.zeros((2, places.shape[1] * width + gap), np.float32)
    out = memory[:, :-gap].reshape(*places.shape, width)
    ndgather.gather(data, places, out=out)
    np.testing.assert_array_equal(memory[:, :-gap].reshape(out.shape), data[places])
    np.testing.assert_array_equal(memory[:, -gap:], 0)


@pytest.mark.parametrize("dtype", ["f4", "c16"])
@pytest.mark.parametrize(("planes", "columns"), [(1, 5_120), (1, 5_122), (2, 5_120)])
def test_bands(threads, dtype, planes, columns):
    rows = BYTES // np.dtype(dtype).itemsize // planes // columns + 1
    places = random_places(rows, (planes, rows, columns))
    data = numbers(places.shape, dtype)
    expected = np.take_along_axis(data, places, 1)
    for out in results(data.shape, dtype):
        found = ndgather.gather_elements(data, places, 1, out=out)
        np.testing.assert_array_equal(found, expected)
    order = np.random.default_rng(rows).permutation(rows)[:, None]
    every = (order + np.arange(columns)) % rows  # each row of a column once
    every = np.broadcast_to(every, data.shape)
    for out in results(data.shape, dtype):
        if out is not None:
            out[...] = data
        start = data if out is None else out
        found = ndgather.scatter_elements(start, every, data, 1, reduction="add", out=out)
        np.testing.assert_array_equal(np.take_along_axis(found - data, every, 1), data)


@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize("width", [128, 131, 256, 259, 2_000, 8_192])
def test_updates(threads, width, reduction):
    count = BYTES // (4 * width) + 1
    data = numbers((count + 100, width), np.float32)
    places = random_places(count, count)
    places[: count // 2] = np.random.default_rng(width).permutation(count)[: count // 2]
    updates = numbers((count, width), np.float32) + 1
    expected = data.copy()
    if reduction == "add":
        np.add.at(expected, places, updates)
    else:
        for place, update in zip(places, updates, strict=True):
            expected[place] = update
    for out in results(data.shape, data.dtype):
        if out is not None:
            out[...] = data
        start = data if out is None else out
        found = ndgather.scatter_nd(start, places[:, None], updates, reduction=reduction, out=out)
        np.testing.assert_array_equal(found, expected)
