"""Long rows into large arrays, both with any alignment to cache lines."""

import numpy as np
import pytest

import ndgather

BYTES = (1 << 25) + 70_000
AFTER = (0, 4, 60)  # byte offsets from the beginning of a line


def placed(shape, dtype, after):
    """Return an array that begins at an offset from the beginning of a cache line."""
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
    """Yield a new result, and arrays of the caller."""
    yield None
    for after in AFTER:
        yield placed(shape, dtype, after)


@pytest.mark.parametrize(
    ("width", "rows"),
    [(43, 60_000), (257, 1_000), (1_024, 12_000), (1_027, 12_000), (5_001, 40)],
)
def test_rows(threads, width, rows):
    data = numbers((rows, width), np.float32)
    places = random_places(rows, BYTES // data[0].nbytes)
    expected = data[places]
    for out in results(expected.shape, data.dtype):
        assert np.array_equal(ndgather.gather(data, places, out=out), expected)


@pytest.mark.parametrize("size", [3, 5, 12, 24])
@pytest.mark.parametrize("width", [100_000, 200_003])
def test_filled_rows_of_elements_across_lines(threads, size, width):
    """Threads share a few rows in parts, which consist of whole elements."""
    rows = np.arange(3 * width * size).reshape(3, width, size).astype(np.uint8)
    data, fill = rows.view(f"V{size}")[..., 0], np.arange(size, dtype=np.uint8)
    places, value = [2, 9, 0, -7], fill.view(f"V{size}")[0, ...]
    found = ndgather.gather(data, places, mode="fill", fill_value=value)
    found = found.view(np.uint8).reshape(4, width, size)
    assert np.array_equal(found[::2], rows[[2, 0]])
    assert (found[1::2] == fill).all()


@pytest.mark.parametrize("width", [256, 1_024])
@pytest.mark.parametrize("gap", [1, 16])
def test_rows_of_planes_apart(threads, width, gap):
    data = numbers((1_000, width), np.float32)
    places = random_places(len(data), (2, BYTES // data[0].nbytes // 2 + 1))
    memory = np.zeros((2, places.shape[1] * width + gap), np.float32)
    out = memory[:, :-gap].reshape(*places.shape, width)
    ndgather.gather(data, places, out=out)
    np.testing.assert_array_equal(memory[:, :-gap].reshape(out.shape), data[places])
    np.testing.assert_array_equal(memory[:, -gap:], 0)


@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize("width", [259, 2_000, 8_192])
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
        assert np.array_equal(found, expected)
