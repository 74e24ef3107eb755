"""Scatters into other stores than zarr's, and ones that are broken off."""

import subprocess
import sys

import h5py
import numpy as np
import pytest
import tensorstore
import zarr

import ndgather
from ndgather.errors import AttributeValueError, NdgatherError
from tests.definitions.calls import assert_same_elements

REDUCTIONS = ("none", "add", "sub", "mul", "min", "max", "mean")


def hdf5(path, data):
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=data, chunks=(3, 2), compression="gzip")
    file = h5py.File(path, "r+")
    return file["a"], file.close


def of_tensorstore(path, data):
    array = tensorstore.open(
        {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}},
        create=True,
        dtype=data.dtype,
        shape=data.shape,
        chunk_layout=tensorstore.ChunkLayout(write_chunk_shape=(4, 4), read_chunk_shape=(2, 2)),
    ).result()
    array[...] = data
    return array, lambda: None


@pytest.mark.parametrize("make", [hdf5, of_tensorstore])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_other_stores(tmp_path, make, reduction):
    rng = np.random.default_rng(0)
    data, updates = rng.standard_normal((9, 7)), rng.standard_normal(300)
    indices = rng.integers(0, 7, (300, 2))
    stored, close = make(tmp_path / "a", data)
    options = {"reduction": reduction, "use_init_val": reduction == "none"}
    assert ndgather.scatter_nd(stored, indices, updates, **options, out=stored) is stored
    desired = ndgather.scatter_nd(data, indices, updates, **options)
    assert_same_elements(np.asarray(stored[...]), desired)
    close()


def test_other_stores_that_are_read_only(tmp_path):
    hdf5(tmp_path / "a", np.zeros((4, 4)))[1]()
    of_tensorstore(tmp_path / "b", np.zeros((4, 4)))
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(tmp_path / "b")}}
    with h5py.File(tmp_path / "a", "r") as file:
        for stored in (file["a"], tensorstore.open(spec, read=True, write=False).result()):
            with pytest.raises(AttributeValueError, match="scatter_nd: out is read-only"):
                ndgather.scatter_nd(stored, [[0, 0]], [1.0], out=stored)


def test_a_stored_array_is_no_out_of_another():
    stored = zarr.create_array({}, data=np.zeros(4), chunks=(2,))
    for call in (
        lambda: ndgather.scatter_nd(np.zeros(4), [[0]], [1.0], out=stored),
        lambda: ndgather.gather_nd(np.zeros(4), [[0], [1], [2], [3]], out=stored),
    ):
        with pytest.raises(NdgatherError, match="out = "):
            call()


def test_progress_and_memory():
    data = np.zeros((8, 8))
    stored = zarr.create_array({}, data=data, chunks=(4, 4))
    told = []
    ndgather.scatter_nd(
        stored,
        np.argwhere(data == 0),
        np.ones(64),
        out=stored,
        memory="1 MiB",
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(done, 4) for done in range(5)]
    assert (stored[...] == 1).all()


def test_memory_counts_what_a_mean_takes():
    data = np.zeros((8, 8))
    stored = zarr.create_array({}, data=data, chunks=(4, 4))
    call = stored, np.argwhere(data == 0), np.ones(64)
    ndgather.scatter_nd(*call, reduction="add", out=stored, memory=400)
    with pytest.raises(AttributeValueError, match=r"memory = 400 bytes is too small"):
        ndgather.scatter_nd(*call, reduction="mean", out=stored, memory=400)
    ndgather.scatter_nd(*call, reduction="mean", out=stored, memory=1000)
    assert (stored[...] == 1).all()


INTERRUPTED = """
import os, signal, sys, time
import numpy as np, zarr, ndgather
ndgather.set_num_threads(1)
data = np.zeros((8, 8))
stored = zarr.create_array(sys.argv[1], data=data, chunks=(4, 4))
def stop(done, total):
    if done == 2:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
try:
    ndgather.scatter_nd(stored, np.argwhere(data == 0), np.ones(64), out=stored, progress=stop)
except KeyboardInterrupt as error:
    print(*error.__notes__)
    print(int(stored[...].sum()))
"""


def test_control_c_leaves_whole_chunks_and_says_which(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, tmp_path / "a.zarr"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    said, total = done.stdout.splitlines()
    assert int(total) in (32, 48, 64)  # the worker goes on until the signal arrives
    assert f"{int(total) // 16} of 4 chunks" in said


def test_a_session_that_is_not_committed_leaves_nothing():
    icechunk = pytest.importorskip("icechunk")
    repository = icechunk.Repository.create(icechunk.in_memory_storage())
    session = repository.writable_session("main")
    zarr.create_array(session.store, name="a", data=np.zeros((8, 8)), chunks=(4, 4))
    session.commit("zeros")
    session = repository.writable_session("main")
    stored = zarr.open_array(session.store, path="a", mode="r+")
    ndgather.scatter_nd(stored, np.argwhere(np.ones((8, 8))), np.ones(64), out=stored)
    seen = zarr.open_array(repository.readonly_session("main").store, path="a", mode="r")
    assert (seen[...] == 0).all()
    assert (stored[...] == 1).all()
    session.commit("ones")
    seen = zarr.open_array(repository.readonly_session("main").store, path="a", mode="r")
    assert (seen[...] == 1).all()


def test_a_full_disk(tmp_path):
    """The error says so; chunks are the old ones or the new ones."""
    data = np.zeros((40, 64), "f8")
    stored = zarr.create_array(tmp_path / "a.zarr", data=data, chunks=(10, 64), compressors=None)
    code = FULL_DISK.format(path=str(tmp_path / "a.zarr"))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "file too large" in done.stdout.lower()
    assert "none of 2 chunks" in done.stdout
    np.testing.assert_array_equal(stored[...], data)


# No file may grow beyond 1000 bytes: as on a full disk, a write ends with an error of the system.
FULL_DISK = """
import resource, signal
import numpy as np, zarr, ndgather
stored = zarr.open_array({path!r}, mode="r+")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    ndgather.scatter_nd(stored, [[0], [39]], np.ones((2, 64)), out=stored)
except ndgather.errors.StoredArrayError as error:
    print(error, *error.__notes__)
"""
