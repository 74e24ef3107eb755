"""Stored arrays of every kind with the values of an array in memory."""

import uuid

import numpy as np
import pytest

h5py = pytest.importorskip("h5py")
numcodecs = pytest.importorskip("numcodecs")
tensorstore = pytest.importorskip("tensorstore")
zarr = pytest.importorskip("zarr")


def _zarr(folder, values, **layout):
    stored = zarr.create_array(
        store=folder / "a.zarr", name="group/a", shape=values.shape, dtype=values.dtype, **layout
    )
    stored[...] = values
    return stored


def _tensorstore(folder, values, driver, **layout):
    spec = {"driver": driver, "kvstore": f"file://{folder}/a.{driver}/"}
    stored = tensorstore.open(
        spec,
        create=True,
        dtype=tensorstore.dtype(values.dtype.newbyteorder("=")),
        shape=values.shape,
        chunk_layout=tensorstore.ChunkLayout(**layout),
    ).result()
    stored.write(values).result()
    return stored


def _hdf5(folder, values, **layout):
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("group/a", data=values, **layout)
    return h5py.File(folder / "a.h5", "r")["group/a"]


def _compact(folder, values):
    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_layout(h5py.h5d.COMPACT)
    with h5py.File(folder / "a.h5", "w") as file:
        space = h5py.h5s.create_simple(values.shape)
        kind = h5py.h5t.py_create(values.dtype)
        h5py.Dataset(h5py.h5d.create(file.id, b"a", kind, space, layout))[...] = values
    return h5py.File(folder / "a.h5", "r")["a"]


def _virtual(folder, values):
    """A virtual dataset with two sources, one in another file, joined within an axis."""
    layout = h5py.VirtualLayout(values.shape, values.dtype)
    with h5py.File(folder / "a.h5", "w") as file, h5py.File(folder / "b.h5", "w") as other:
        for part, place in ((slice(0, 3), file), (slice(3, None), other)):
            piece = place.create_dataset("piece", data=values[part])
            layout[part] = h5py.VirtualSource(
                "." if place is file else "b.h5", "piece", piece.shape
            )
        file.create_virtual_dataset("a", layout)
    return h5py.File(folder / "a.h5", "r")["a"]


def _beside(folder, values):
    """A dataset with its elements in an external raw file."""
    beside = [(str(folder / "a.bin"), 0, values.nbytes)]
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("a", data=values, external=beside)
    return h5py.File(folder / "a.h5", "r")["a"]


def _shifted(folder, values):
    """A tensorstore view that begins within a chunk, so that its first chunk is shorter."""
    size = tuple(size + 2 for size in values.shape)
    spec = {"driver": "zarr", "kvstore": f"file://{folder}/a.zarr/"}
    whole = tensorstore.open(
        spec,
        create=True,
        dtype=tensorstore.dtype(values.dtype),
        shape=size,
        chunk_layout=tensorstore.ChunkLayout(chunk_shape=(3, 4, 5)),
    ).result()
    part = whole[2:, 2:, 2:]
    part.write(values).result()
    return part


def _memory_map(folder, values):
    values.tofile(folder / "a.bin")
    return np.memmap(folder / "a.bin", values.dtype, mode="r", shape=values.shape)


STORES = {
    "zarr2": lambda *a: _zarr(*a, zarr_format=2, chunks=(3, 4, 5)),
    "zarr2-fortran": lambda *a: _zarr(*a, zarr_format=2, chunks=(3, 4, 5), order="F"),
    "zarr3": lambda *a: _zarr(*a, chunks=(3, 4, 5)),
    "zarr3-sharded": lambda *a: _zarr(*a, chunks=(3, 2, 5), shards=(6, 4, 10)),
    "zarr3-transposed": lambda *a: _zarr(
        *a, chunks=(3, 4, 5), filters=zarr.codecs.TransposeCodec(order=(2, 0, 1)), compressors=None
    ),
    "tensorstore-zarr": lambda *a: _tensorstore(*a, "zarr", chunk_shape=(3, 4, 5)),
    "tensorstore-sharded": lambda *a: _tensorstore(
        *a, "zarr3", read_chunk_shape=(3, 2, 5), write_chunk_shape=(6, 4, 10)
    ),
    "tensorstore-n5": lambda *a: _tensorstore(*a, "n5", chunk_shape=(3, 4, 5)),
    "tensorstore-memory": lambda _, values: tensorstore.array(values),
    "hdf5": lambda *a: _hdf5(*a, chunks=(3, 4, 5)),
    "hdf5-gzip": lambda *a: _hdf5(*a, chunks=(3, 4, 5), compression="gzip", shuffle=True),
    "hdf5-lzf": lambda *a: _hdf5(*a, chunks=(3, 4, 5), compression="lzf", fletcher32=True),
    "hdf5-contiguous": _hdf5,
    "hdf5-compact": _compact,
    "hdf5-virtual": _virtual,
    "hdf5-beside": _beside,
    # HDF5 cannot open two files of the same name, and a traceback may keep a file open.
    "hdf5-in-memory": lambda _, values: h5py.File(
        str(uuid.uuid4()), "w", driver="core", backing_store=False
    ).create_dataset("a", data=values),
    "tensorstore-shifted": _shifted,
    "zarr2-lz4": lambda *a: _zarr(
        *a,
        zarr_format=2,
        chunks=(3, 4, 5),
        compressors=numcodecs.LZ4(),
        filters=numcodecs.Shuffle(),
    ),
    "memory-map": _memory_map,
}


@pytest.fixture
def store(tmp_path):
    """Return a function that stores an array of rank 3 in one of `STORES`."""

    def make(kind, values):
        return STORES[kind](tmp_path, values)

    return make


@pytest.fixture(params=STORES)
def kind(request):
    return request.param
