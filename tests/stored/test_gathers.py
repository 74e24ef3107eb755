"""Gathers from stored arrays against the same calls in memory."""

import numpy as np
import pytest
import zarr

import ndgather
from ndgather.array_call import Call, Kind
from ndgather.stored import calls
from ndgather.stored.chunks import Grid
from tests.stored.cut_array import CutArray

DATA = np.arange(7 * 9 * 11, dtype=np.int32).reshape(7, 9, 11)


@pytest.fixture
def stored():
    return zarr.create_array(store={}, data=DATA, chunks=(3, 4, 5))


RNG = np.random.default_rng(1)


@pytest.mark.parametrize("depth", range(4))
def test_gather_nd(stored, depth):
    indices = (
        np.stack([RNG.integers(-s, s, 50) for s in DATA.shape[:depth]] or [], -1)
        if depth
        else np.zeros((3, 0), int)
    )
    expected = ndgather.gather_nd(DATA, indices)
    np.testing.assert_array_equal(ndgather.gather_nd(stored, indices), expected, strict=True)


@pytest.mark.parametrize("axis", range(-3, 3))
def test_gather(stored, axis):
    indices = RNG.integers(0, DATA.shape[axis], (2, 5))
    expected = ndgather.gather(DATA, indices, axis=axis)
    np.testing.assert_array_equal(
        ndgather.gather(stored, indices, axis=axis), expected, strict=True
    )


@pytest.mark.parametrize("axis", range(-3, 3))
def test_gather_elements(stored, axis):
    indices = RNG.integers(0, DATA.shape[axis], (5, 6, 7))
    expected = ndgather.gather_elements(DATA, indices, axis=axis)
    np.testing.assert_array_equal(
        ndgather.gather_elements(stored, indices, axis=axis), expected, strict=True
    )


def test_batch_dims(stored):
    for batch in (1, 2):
        indices = RNG.integers(0, 7, (*DATA.shape[:batch], 4, 1))
        expected = ndgather.gather_nd(DATA, indices, batch)
        np.testing.assert_array_equal(
            ndgather.gather_nd(stored, indices, batch), expected, strict=True
        )
        expected = ndgather.gather(DATA, indices, 2, batch_dims=batch)
        np.testing.assert_array_equal(
            ndgather.gather(stored, indices, 2, batch_dims=batch), expected, strict=True
        )


def test_fill(stored):
    indices = RNG.integers(-12, 12, (40, 2))
    expected = ndgather.gather_nd(DATA, indices, mode="fill", fill_value=-5)
    np.testing.assert_array_equal(
        ndgather.gather_nd(stored, indices, mode="fill", fill_value=-5), expected, strict=True
    )


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
