"""A chunk that does not exist holds the fill value, or is an error in `missing_chunks("raise")`."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
import pytest
import zarr

import ndgather
from ndgather.errors import AttributeValueError, StoredArrayError
from ndgather.stored import missing_chunks
from ndgather.stored.chunks import Buffers
from ndgather.stored.zarr import ZarrReader

SHAPE = (8, 12)
LAYOUTS = {
    "zarr2": {"zarr_format": 2, "chunks": (4, 6)},
    "zarr3": {"chunks": (4, 6)},
    "a shard without a chunk": {"chunks": (4, 6), "shards": (8, 12)},
    "a shard that is not there": {"chunks": (2, 3), "shards": (4, 6)},
    "read by zarr": {"zarr_format": 2, "chunks": (4, 6), "dtype": "S4"},
}
HDF5 = {
    "chunks": {"chunks": (4, 6)},
    "gzip": {"chunks": (4, 6), "compression": "gzip"},
    "one box": {},
}


@pytest.fixture(params=[*LAYOUTS, *HDF5])
def half(request, tmp_path):
    """Return an array of which only the part [0:4, 0:6] was written, if it has parts."""
    if request.param in HDF5:
        file = h5py.File(tmp_path / "a.h5", "w")
        stored = file.create_dataset("a", SHAPE, "f4", fillvalue=7, **HDF5[request.param])
        if request.param == "one box":
            yield stored
            file.close()
            return
    else:
        layout = {"dtype": "f4", "fill_value": 7, **LAYOUTS[request.param]}
        if layout["dtype"] == "S4":
            layout["fill_value"] = b"7"
        stored = zarr.create_array(tmp_path / "a.zarr", shape=SHAPE, **layout)
    stored[:4, :6] = 1
    yield stored
    if request.param in HDF5:
        stored.file.close()


def test_a_missing_chunk_is_an_error_that_names_it(half):
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


def test_a_scatter_makes_the_chunk(half):
    with missing_chunks("raise"):
        updates = np.array([2]).astype(half.dtype)
        ndgather.scatter_nd(half, [[7, 11]], updates, out=half)
        assert ndgather.gather_nd(half, [[7, 11]]) == updates


def test_of_an_executor_and_of_a_pickled_reader(tmp_path):
    stored = zarr.create_array(tmp_path / "a.zarr", shape=SHAPE, chunks=(4, 6), dtype="f4")
    with missing_chunks("raise"), ThreadPoolExecutor(1) as pool:
        with pytest.raises(StoredArrayError, match="does not exist"):
            ndgather.gather_nd(stored, [[0, 0]], executor=pool)
        content = pickle.dumps(ZarrReader(stored))
    with pytest.raises(LookupError):
        pickle.loads(content).read((0, 0), Buffers())


def test_another_word_is_refused():
    text = r"what = 'nan' is unknown .*'fill', 'raise'"
    with pytest.raises(AttributeValueError, match=text), missing_chunks("nan"):
        pass
