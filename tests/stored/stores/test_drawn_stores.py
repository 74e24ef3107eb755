"""Partially written stores of any shape, chunks and origin, against plain loops.

Chunks may be truncated by the ends of the array, shorter at its beginning, or missing; shards may
contain only some of their chunks.
"""

import uuid

import h5py
import numpy as np
import pytest
import tensorstore
import zarr
from hypothesis import given, note, settings
from hypothesis import strategies as st

import ndgather
from tests.definitions import reference

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
SOME = settings(max_examples=max(5, settings().max_examples // 2))


def in_zarr(shape, chunks, fill, **layout):
    return zarr.create_array({}, shape=shape, chunks=chunks, dtype="i4", fill_value=fill, **layout)


def in_shards(shape, chunks, fill, factors):
    shards = tuple(n * factor for n, factor in zip(chunks, factors, strict=True))
    return in_zarr(shape, chunks, fill, shards=shards)


def in_hdf5(shape, chunks, fill, **layout):
    """An HDF5 file in memory; HDF5 requires that chunks are not longer than the array."""
    file = h5py.File(f"{uuid.uuid4()}", "w", driver="core", backing_store=False)
    chunks = tuple(map(min, chunks, shape))
    return file.create_dataset("a", shape, "i4", chunks=chunks, fillvalue=fill, **layout)


def in_tensorstore(shape, chunks, fill, factors, driver="zarr"):
    """A view that begins anywhere in a chunk, or in a shard of zarr format 3."""
    layout = {"chunk_shape": chunks}
    if driver == "zarr3":
        shards = [n * factor for n, factor in zip(chunks, factors, strict=True)]
        layout = {"read_chunk_shape": chunks, "write_chunk_shape": shards}
    whole = tensorstore.open(
        {"driver": driver, "kvstore": "memory://"},
        create=True,
        dtype=tensorstore.int32,
        shape=[size + factor for size, factor in zip(shape, factors, strict=True)],
        fill_value=fill,
        chunk_layout=tensorstore.ChunkLayout(**layout),
    ).result()
    return whole[tuple(slice(factor, None) for factor in factors)]


STORES = {
    "zarr 2": lambda *a: in_zarr(*a[:3], zarr_format=2),
    "zarr 3": lambda *a: in_zarr(*a[:3]),
    "shards": in_shards,
    "hdf5": lambda *a: in_hdf5(*a[:3]),
    "hdf5, gzip": lambda *a: in_hdf5(*a[:3], compression=1, shuffle=True),
    "tensorstore": in_tensorstore,
    "tensorstore, shards": lambda *a: in_tensorstore(*a, driver="zarr3"),
    "cached": lambda *a: ndgather.cached(in_zarr(*a[:3])),
    "cached, shards": lambda *a: ndgather.cached(in_shards(*a), "1 KiB"),
}


@st.composite
def written_stores(draw, kind):
    """A stored array and its values."""
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    chunks = tuple(draw(st.integers(1, 5)) for _ in shape)
    factors = tuple(draw(st.integers(1, 3)) for _ in shape)
    fill = draw(st.sampled_from([0, 7]))
    array = STORES[kind](shape, chunks, fill, factors)
    values = np.full(shape, fill, "i4")
    stored = getattr(array, "array", array)
    for number in range(draw(st.integers(0, 3))):
        ends = [sorted((draw(st.integers(0, n)), draw(st.integers(0, n)))) for n in shape]
        box = tuple(slice(*pair) for pair in ends)
        values[box] = 1 + number + 10 * np.arange(values[box].size).reshape(values[box].shape)
        if values[box].size:
            write(stored, box, values[box])
    note(f"{shape} in {chunks}, {factors}, fill {fill}\n{values}")
    return array, values


def write(stored, box, values):
    if isinstance(stored, tensorstore.TensorStore):
        box = tuple(
            slice(part.start + first, part.stop + first)
            for part, first in zip(box, stored.domain.origin, strict=True)
        )
    stored[box] = values


def every(shape):
    return np.argwhere(np.ones(shape, bool))


def same(found, expected):
    np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("kind", STORES)
@SOME
@given(data=st.data())
def test_gathers_and_scatters(kind, data):
    array, values = data.draw(written_stores(kind))
    shape, rank = values.shape, values.ndim
    same(ndgather.gather_nd(array, every(shape)), values.ravel())
    depth, axis = data.draw(st.integers(1, rank)), data.draw(st.integers(0, rank - 1))
    near = st.integers(-12, 12)
    tuples = np.array(data.draw(st.lists(st.tuples(*[near] * depth), max_size=5)), int)
    tuples = tuples.reshape(-1, depth)
    mode = data.draw(st.sampled_from(["fill", "wrap", "clip"]))
    same(
        ndgather.gather_nd(array, tuples, mode=mode), reference.gather_nd(values, tuples, mode=mode)
    )
    places = np.array(data.draw(st.lists(near, max_size=4)), int)
    same(
        ndgather.gather(array, places, axis, mode=mode),
        reference.gather(values, places, axis, mode=mode),
    )
    modes = ["fill", "wrap", "edge", "reflect"]
    modes = tuple(data.draw(st.sampled_from(modes)) for _ in range(depth))
    window = tuple(data.draw(st.integers(1, 4)) for _ in range(depth))
    same(
        ndgather.gather_windows(array, tuples, window, mode=modes),
        reference.gather_windows(values, tuples, window, modes),
    )
    stops = places + np.arange(len(places)) % 4
    same(
        ndgather.gather_ranges(array, places, stops, axis=axis, mode=mode)[0],
        reference.gather_ranges(values, places, stops, axis, mode)[0],
    )
    reduction = data.draw(st.sampled_from(["none", "add", "min", "max", "mul", "mean"]))
    options = {
        "reduction": reduction,
        "mode": data.draw(st.sampled_from(["drop", "wrap", "clip"])),
        "use_init_val": data.draw(st.booleans()),
    }
    updates = np.arange(3, 3 + len(tuples) * np.prod(shape[depth:], dtype=int), dtype="i4")
    updates = updates.reshape(len(tuples), *shape[depth:])
    ndgather.scatter_nd(array, tuples, updates, out=array, **options)
    expected = reference.scatter_nd(values, tuples, updates, **options)
    same(ndgather.gather_nd(array, every(shape)), expected.ravel())
