"""Calls on every kind of store, against plain loops on the same values."""

import re

import numpy as np
import pytest

import ndgather
from ndgather.stored import estimate
from tests.definitions import reference
from tests.stored.test_executors import Pickling

SHAPE = (7, 9, 11)
DTYPES = ["float32", "uint8", "complex64"]


def values_of(dtype, seed=0):
    return np.random.default_rng(seed).integers(0, 250, SHAPE).astype(dtype)


@pytest.fixture(params=DTYPES)
def values(request, kind):
    if kind == "tensorstore-n5" and request.param == "complex64":
        pytest.skip("N5 has no such type")
    return values_of(request.param)


def test_gathers_match_the_definition(store, kind, values):
    stored = store(kind, values)
    rng = np.random.default_rng(1)
    points = np.stack([rng.integers(-size, size, (4, 30)) for size in SHAPE], axis=-1)
    for depth in (1, 2, 3):
        part = points[..., :depth].copy()
        same(ndgather.gather_nd(stored, part), reference.gather_nd(values, part))
    for axis in range(3):
        indices = rng.integers(-SHAPE[axis], SHAPE[axis], (5, 6, 7))
        expected = reference.gather_elements(values, indices, axis)
        same(ndgather.gather_elements(stored, indices, axis), expected)
        few = indices[0, 0]
        same(ndgather.gather(stored, few, axis), reference.gather(values, few, axis))


def test_no_points_and_every_point(store, kind):
    values = values_of("float32")
    stored = store(kind, values)
    none = np.empty((0, 3), np.int64)
    same(ndgather.gather_nd(stored, none), values[:0, 0, 0])
    every = np.indices(SHAPE).reshape(3, -1).T.copy()
    same(ndgather.gather_nd(stored, every), values.reshape(-1))


def test_pickled_arrays_are_read_by_workers(store, kind):
    values = values_of("float32")
    stored = store(kind, values)
    points = np.stack([np.random.default_rng(3).integers(0, size, 50) for size in SHAPE], axis=-1)
    if kind == "hdf5-in-memory":
        with pytest.raises(ndgather.errors.StoredArrayError, match="was not read by executor"):
            ndgather.gather_nd(stored, points, executor=Pickling())
        return
    executor = Pickling()
    same(ndgather.gather_nd(stored, points, executor=executor), values[tuple(points.T)])
    assert executor.tasks or kind == "memory-map"  # memory maps are read in this process


def test_the_estimate_of_every_point_covers_all_bytes(store, kind):
    values = values_of("float64")
    stored = store(kind, values)
    every = np.indices(SHAPE).reshape(3, -1).T.copy()
    found = estimate("gather_nd", stored, every)
    assert (found.points, found.result_bytes) == (values.size, values.nbytes)
    assert found.decoded_bytes >= values.nbytes
    if kind != "memory-map":  # memory maps are read in place
        with pytest.raises(ndgather.errors.AttributeValueError) as error:
            ndgather.gather_nd(stored, every, memory=found.decoded_bytes // found.chunks - 1)
        least = int(
            re.search(r"too small for a chunk .*allowed: at least (\d+)\)", str(error.value))[1]
        )
        assert least > found.decoded_bytes // found.chunks
        same(ndgather.gather_nd(stored, every, memory=least), values.reshape(-1))
        with pytest.raises(ndgather.errors.AttributeValueError, match="too small for a chunk"):
            ndgather.gather_nd(stored, every, memory=least - 1)


def test_out_of_bounds_indices_raise_or_are_filled(store, kind):
    values = values_of("int32")
    stored = store(kind, values)
    indices = np.array([[0, 0], [3, 9], [7, 0]])
    with pytest.raises(ndgather.errors.IndexOutOfBoundsError):
        ndgather.gather_nd(stored, indices)
    filled = ndgather.gather_nd(stored, indices, mode="fill", fill_value=-7)
    same(filled, np.stack([values[0, 0], np.full(11, -7), np.full(11, -7)]).astype("int32"))


def same(actual, expected):
    assert type(actual) is np.ndarray
    np.testing.assert_array_equal(actual, expected, strict=True)
