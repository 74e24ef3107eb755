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
@pytest.mark.parametrize("dtype", ["u1", "f4", "c16"])
@pytest.mark.parametrize("shape", [(20, 6, 70), (7, 20, 48), (130, 5, 16)])
def test_slices_with_gaps_of_every_kind(
    layout: str, axis: int, dtype: str, shape: tuple[int, ...], threads: int
) -> None:
    """Looked at once, and so often that they are packed first."""
    data = gaps((np.arange(np.prod(shape)) % 251).reshape(shape).astype(dtype))[layout]
    plain = data.tolist()
    random = np.random.default_rng(axis)
    for count in (1, 2 * shape[axis] - 1, 2 * shape[axis], 500):
        indices = random.integers(-shape[axis], shape[axis], count)
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
