"""Along the last axis of data larger than a near cache: each run looks into a row of its own."""

from __future__ import annotations

import numpy as np
import pytest

import ndgather
from ndgather.errors import IndexOutOfBoundsError
from ndgather.testing import assert_same_elements

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
@pytest.mark.parametrize("dtype", ["i8", "i2"])
def test_gathers(table: str, count: int, dtype: str, threads: int) -> None:
    data = TABLES[table]()
    indices = entries(data, count).astype(dtype)
    expected = np.take_along_axis(data, indices.astype("i8"), -1)
    assert_same_elements(ndgather.gather_elements(data, indices, -1), expected)
    room = np.zeros((*expected.shape[:-1], 2 * count), data.dtype)
    ndgather.gather_elements(data, indices, -1, out=room[..., ::2])
    assert_same_elements(np.ascontiguousarray(room[..., ::2]), expected)
    assert not room[..., 1::2].any()


@tables
@counts
def test_entries_outside(table: str, count: int, threads: int) -> None:
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
    for j in range(count):  # in order of the specification's loop within each row
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
    data = np.arange(2500 * 50 * size * step).reshape(2500, 50, size * step)[..., ::step]
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
    batched = np.broadcast_to(indices[:, None], (2500, count, 1))
    rows = np.broadcast_to(np.arange(2500)[:, None, None], (2500, count, 1))
    tuples = np.concatenate([rows, batched], axis=-1)
    assert_same_elements(ndgather.scatter_nd(data, tuples, updates), desired)
