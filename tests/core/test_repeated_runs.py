"""Taking some columns of a table: all rows read the same index values, which are looked at once."""

from __future__ import annotations

import numpy as np
import pytest

import ndgather
from ndgather.errors import IndexOutOfBoundsError
from ndgather.testing import assert_same_elements

BAD = 10**6
SHAPES = [(700, 40), (3, 5, 300), (30, 2, 7, 9), (2000, 3)]
COUNTS = [1, 3, 100, 255, 256, 257]

tables = pytest.mark.parametrize("shape", SHAPES, ids=str)
counts = pytest.mark.parametrize("count", COUNTS)


def columns(data: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """Return what the definition says, column by column; 0 for an index that is out of bounds."""
    size = data.shape[axis]
    moved = np.moveaxis(data, axis, 0)
    picked = [moved[i] if -size <= i < size else np.zeros_like(moved[0]) for i in indices]
    return np.ascontiguousarray(np.moveaxis(np.stack(picked), 0, axis))


@tables
@counts
@pytest.mark.parametrize("dtype", ["u1", "f4", "c16"])
def test_columns_of_tables(shape: tuple[int, ...], count: int, dtype: str, threads: int) -> None:
    random = np.random.default_rng(count)
    data = (np.arange(np.prod(shape)) % 251).reshape(shape).astype(dtype)
    for table in (data, np.asfortranarray(data), np.repeat(data, 2, axis=0)[::2]):
        for axis in range(1, len(shape)):
            indices = random.integers(-shape[axis], shape[axis], count)
            expected = columns(data, indices, axis)
            assert_same_elements(ndgather.gather(table, indices, axis), expected)
            room = np.zeros([2 * n for n in expected.shape], dtype)
            out = room[(slice(None, None, 2),) * expected.ndim]
            ndgather.gather(table, indices, axis, out=out)
            assert_same_elements(np.ascontiguousarray(out), expected)


@tables
@counts
def test_bad_entries_among_them(shape: tuple[int, ...], count: int, threads: int) -> None:
    data = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    axis = len(shape) - 1
    for bad in {0, count // 2, count - 1}:
        indices = np.arange(count) % shape[axis]
        indices[bad] = BAD
        result = ndgather.gather(data, indices, axis, mode="fill")
        assert_same_elements(result, columns(data, indices, axis))
        with pytest.raises(IndexOutOfBoundsError) as caught:
            ndgather.gather(data, indices, axis)
        assert caught.value.position == (bad,)


@tables
@pytest.mark.parametrize("mode", ["wrap", "clip"])
def test_other_modes(shape: tuple[int, ...], mode: str, threads: int) -> None:
    data = np.arange(np.prod(shape), dtype="f8").reshape(shape)
    indices = np.arange(-40, 40, 3)
    result = ndgather.gather(data, indices, 1, mode=mode)
    size = shape[1]
    inside = indices % size if mode == "wrap" else indices.clip(0, size - 1)
    assert_same_elements(result, columns(data, inside, 1))


@pytest.mark.parametrize("count", [64, 100, 255, 256, 257])
@pytest.mark.parametrize("reduction", ["none", "add"])
def test_rows_of_fortran_arrays_replaced(count: int, reduction: str, threads: int) -> None:
    """One element of all rows follows the other, by the same index values."""
    random = np.random.default_rng(count)
    data = np.asfortranarray(random.integers(0, 99, (50, 3, 40)))
    updates = np.asfortranarray(random.integers(0, 99, (count, 3, 40)))
    indices = random.integers(-50, 50, (count, 1))
    indices[3] = BAD
    expected = data.copy()
    for p in range(count):
        if p != 3:
            old = expected[indices[p, 0]] if reduction == "add" else 0
            expected[indices[p, 0]] = old + updates[p]
    result = ndgather.scatter_nd(data, indices, updates, reduction=reduction, mode="drop", out=data)
    assert result is data
    np.testing.assert_array_equal(data, expected)
