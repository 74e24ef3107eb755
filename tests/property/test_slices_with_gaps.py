"""Slices with gaps are gathered in parts where that pays; nothing else tells the two ways apart."""

from __future__ import annotations

import numpy as np
import pytest

import ndgather

BAD = 100


def transposed(width: int, dtype: str) -> np.ndarray:
    """Data of shape (50, 3, width) whose slices have elements a line or more apart."""
    values = np.arange(width * 3 * 50, dtype=np.int64).reshape(width, 3, 50)
    return values.astype(dtype).transpose(2, 1, 0)


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c16"])
@pytest.mark.parametrize("width", [15, 16, 32, 60, 64, 128])
@pytest.mark.parametrize("count", [63, 64, 300])
@pytest.mark.parametrize("mode", ["raise", "fill"])
def test_rows_of_a_transposed_array(dtype: str, width: int, count: int, mode: str) -> None:
    data = transposed(width, dtype)
    indices = np.random.default_rng(width).integers(-50, 50, (count, 1))
    if mode == "fill":
        indices[::7] = BAD
    expected = np.zeros((count, 3, width), dtype)
    for p in range(count):
        if indices[p, 0] != BAD:
            expected[p] = data[indices[p, 0]]
    out = np.empty((count, 5, 2 * width), dtype)[:, 1:4, ::2]
    for result in (
        ndgather.gather_nd(data, indices, mode=mode),
        ndgather.gather_nd(data, indices, mode=mode, out=out),
    ):
        np.testing.assert_array_equal(result, expected, strict=True)


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
@pytest.mark.parametrize("count", [63, 64, 300])
def test_rows_into_a_transposed_array(reduction: str, count: int) -> None:
    data = transposed(32, "i4")
    indices = np.random.default_rng(count).integers(-50, 50, (count, 1))
    updates = np.random.default_rng(1).integers(0, 10_000, (count, 3, 32), np.int32)
    expected = data.copy()
    combine = {"none": lambda a, b: b, "add": np.add, "max": np.maximum}[reduction]
    for p in range(count):
        expected[indices[p, 0]] = combine(expected[indices[p, 0]], updates[p])
    result = ndgather.scatter_nd(data, indices, updates, reduction=reduction)
    np.testing.assert_array_equal(result, expected, strict=True)
    place = transposed(32, "i4")
    assert ndgather.scatter_nd(place, indices, updates, reduction=reduction, out=place) is place
    np.testing.assert_array_equal(place, expected, strict=True)


def test_first_bad_entry_is_named() -> None:
    data = transposed(32, "f4")
    indices = np.zeros((200, 1), np.int64)
    indices[[150, 170]] = 50
    with pytest.raises(ndgather.errors.IndexOutOfBoundsError) as caught:
        ndgather.gather_nd(data, indices)
    assert caught.value.position == (150, 0)
    assert caught.value.count == 2
