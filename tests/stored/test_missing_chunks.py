"""Missing chunks are filled, or raise within `missing_chunks("raise")`."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import h5py
import icechunk
import numpy as np
import pytest
import zarr

import ndgather
from ndgather.errors import AttributeValueError, DTypeError, StoredArrayError
from ndgather.stored import missing_chunks
from ndgather.stored.chunks import Buffers
from ndgather.stored.zarr import ZarrReader

SHAPE = (8, 12)
# zarr warns about byte strings, which only zarr supports.
pytestmark = pytest.mark.filterwarnings("ignore:The data type")

LAYOUTS = {
    "zarr2": {"zarr_format": 2, "chunks": (4, 6)},
    "zarr3": {"chunks": (4, 6)},
    "a shard without a chunk": {"chunks": (4, 6), "shards": (8, 12)},
    "a shard that is not there": {"chunks": (2, 3), "shards": (4, 6)},
    "read by zarr": {"zarr_format": 2, "chunks": (4, 6), "dtype": "S4"},
    "a shard read by zarr": {"chunks": (2, 3), "shards": (4, 6), "dtype": "S4"},
    # The store reports missing objects with a size of 0.
    "icechunk": {"chunks": (4, 6)},
    "icechunk, read by zarr": {"chunks": (4, 6), "dtype": "S4"},
}
HDF5 = {
    "chunks": {"chunks": (4, 6)},
    "gzip": {"chunks": (4, 6), "compression": "gzip"},
    "one box": {},
    "chunks behind a user block": {"chunks": (4, 6)},
    "one box behind a user block": {},
}


@pytest.fixture(params=[*LAYOUTS, *HDF5])
def half(request, tmp_path):
    """Return an array of which only [0:4, 0:6] was written, if the store supports that."""
    if request.param in HDF5:
        block = {"userblock_size": 512} if "user block" in request.param else {}
        file = h5py.File(tmp_path / "a.h5", "w", **block)
        stored = file.create_dataset("a", SHAPE, "f4", fillvalue=7, **HDF5[request.param])
        if "one box" in request.param:
            yield stored
            file.close()
            return
    else:
        layout = {"dtype": "f4", "fill_value": 7, **LAYOUTS[request.param]}
        if layout["dtype"] == "S4":
            layout["fill_value"] = b"7"
        store = tmp_path / "a.zarr"
        if "icechunk" in request.param:
            repository = icechunk.Repository.create(icechunk.in_memory_storage())
            store = repository.writable_session("main").store
        stored = zarr.create_array(store, shape=SHAPE, **layout)
    stored[:4, :6] = 1
    yield stored
    if request.param in HDF5:
        stored.file.close()


def test_missing_chunks_are_named(half):
    fill = np.array(7).astype(half.dtype)
    assert ndgather.gather_nd(half, [[7, 11]])[0] == fill
    with missing_chunks("raise"):
        with pytest.raises(StoredArrayError, match="does not exist") as refused:
            ndgather.gather_nd(half, [[7, 11]])
        assert refused.value.box[0].stop == 8
        assert refused.value.box[1].stop == 12
        if half.chunks is not None:
            assert ndgather.gather_nd(half, [[3, 5]])[0] == np.array(1).astype(half.dtype)
    assert ndgather.gather_nd(half, [[7, 11]])[0] == fill


def test_scatters_create_missing_chunks(half):
    with missing_chunks("raise"):
        updates = np.array([2]).astype(half.dtype)
        ndgather.scatter_nd(half, [[7, 11]], updates, out=half)
        assert ndgather.gather_nd(half, [[7, 11]]) == updates


def test_executors_and_pickled_readers(tmp_path):
    stored = zarr.create_array(tmp_path / "a.zarr", shape=SHAPE, chunks=(4, 6), dtype="f4")
    with missing_chunks("raise"), ThreadPoolExecutor(1) as pool:
        with pytest.raises(StoredArrayError, match="does not exist"):
            ndgather.gather_nd(stored, [[0, 0]], executor=pool)
        content = pickle.dumps(ZarrReader(stored))
    with pytest.raises(LookupError):
        pickle.loads(content).read((0, 0), Buffers())


@pytest.mark.parametrize("dtype", ["M8[s]", "M8[ns]", "m8[ms]", "f4", "i2", "?", "c8", "S3", "u1"])
def test_zarr_2_without_a_fill_value(dtype):
    """A chunk is filled as by zarr, with NaT for times."""
    stored = zarr.create_array(
        {}, shape=(4,), chunks=(2,), dtype=dtype, zarr_format=2, fill_value=None
    )
    stored[:2] = np.array([1, 0]).astype(dtype)
    default = "NaT" if dtype[0] in "mM" else b"" if dtype == "S3" else 0
    expected = np.array([default, default], dtype)
    for data in (stored, ndgather.cached(stored)):
        np.testing.assert_array_equal(ndgather.gather_nd(data, [[2], [3]]), expected, strict=True)
    np.testing.assert_array_equal(stored[2:], expected)


def test_virtual_datasets_are_refused(tmp_path):
    """HDF5 silently fills parts that are missing from the sources."""
    layout = h5py.VirtualLayout((8,), "f4")
    layout[:4] = h5py.VirtualSource("there.h5", "a", (4,))
    layout[4:] = h5py.VirtualSource("gone.h5", "a", (4,))
    with h5py.File(tmp_path / "there.h5", "w") as file:
        file["a"] = np.ones(4, "f4")
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file.create_virtual_dataset("v", layout, fillvalue=7)
    with h5py.File(tmp_path / "v.h5", "r") as file:
        assert ndgather.gather_nd(file["v"], [[0], [7]]).tolist() == [1, 7]
        for call in (
            ndgather.gather_nd,
            lambda *a: ndgather.gather_nd(ndgather.cached(a[0]), a[1]),
        ):
            with missing_chunks("raise"), pytest.raises(DTypeError, match="v is a virtual dataset"):
                call(file["v"], [[0]])


def test_external_hdf5_datasets_exist(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        stored = file.create_dataset(
            "a", data=np.arange(8.0), external=[(str(tmp_path / "a.bin"), 0, 64)]
        )
        with missing_chunks("raise"):
            assert ndgather.gather_nd(stored, [[7], [0]]).tolist() == [7, 0]


def test_invalid_words_are_refused():
    text = r"what = 'nan' is unknown .*'fill', 'raise'"
    with pytest.raises(AttributeValueError, match=text), missing_chunks("nan"):
        pass
