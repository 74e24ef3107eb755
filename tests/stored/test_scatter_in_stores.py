"""Scatters into stores other than zarr, and interrupted scatters."""

import re
import subprocess
import sys

import h5py
import numcodecs
import numpy as np
import pytest
import tensorstore
import zarr
import zarr.codecs.numcodecs as codecs

import ndgather
from ndgather.errors import AttributeValueError, DTypeError, NdgatherError
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


def test_read_only_stores(tmp_path):
    hdf5(tmp_path / "a", np.zeros((4, 4)))[1]()
    of_tensorstore(tmp_path / "b", np.zeros((4, 4)))
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(tmp_path / "b")}}
    with h5py.File(tmp_path / "a", "r") as file:
        for stored in (file["a"], tensorstore.open(spec, read=True, write=False).result()):
            with pytest.raises(AttributeValueError, match="scatter_nd: out is read-only"):
                ndgather.scatter_nd(stored, [[0, 0]], [1.0], out=stored)


def test_out_must_be_data():
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


def test_memory_includes_counts_of_a_mean():
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


def test_ctrl_c_leaves_whole_chunks_and_reports_them(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, tmp_path / "a.zarr"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    said, total = done.stdout.splitlines()
    assert int(total) in (32, 48, 64)  # the worker continues until the signal arrives
    assert f"{int(total) // 16} of the 4 updated chunks" in said


def test_uncommitted_sessions_leave_nothing():
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


def test_full_disk(tmp_path):
    """The error reports it; each chunk has its old or its new values."""
    data = np.zeros((40, 64), "f8")
    stored = zarr.create_array(tmp_path / "a.zarr", data=data, chunks=(10, 64), compressors=None)
    code = FULL_DISK.format(path=str(tmp_path / "a.zarr"))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "file too large" in done.stdout.lower()
    assert "none of the 2 updated chunks" in done.stdout
    np.testing.assert_array_equal(stored[...], data)


# No file may exceed 1000 bytes: like on a full disk, a write fails with a system error.
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


def _hdf5_file(path, make):
    file = h5py.File(path, "w")
    make(file)
    file["a"][...] = np.arange(8).astype(file["a"].dtype)
    return file["a"]


def _of_type(kind):
    return lambda file: h5py.h5d.create(file.id, b"a", kind(), h5py.h5s.create_simple((8,)))


def _bfloat16():
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_size(2)
    kind.set_ebias(127)
    return kind


def _ended_by_nul():
    kind = h5py.h5t.C_S1.copy()
    kind.set_size(3)
    kind.set_strpad(h5py.h5t.STR_NULLTERM)
    return kind


def _overlapping(file):
    file["b"] = np.zeros(4)
    layout = h5py.VirtualLayout((8,), "f8")
    layout[:4] = layout[4:] = h5py.VirtualSource(".", "b", (4,))
    file.create_virtual_dataset("a", layout)


def _plain(dtype):
    return lambda file: file.create_dataset("a", (8,), dtype, chunks=(4,))


def _filtered(scale, dtype):
    return lambda file: file.create_dataset("a", (8,), dtype, chunks=(4,), scaleoffset=scale)


def _zarr(dtype, *filters, **options):
    array = zarr.create_array(
        {}, shape=(8,), chunks=(4,), dtype=dtype, filters=filters, zarr_format=2, **options
    )
    array[...] = np.arange(8).astype(dtype)
    return array


def _zarr3(dtype, codec, **options):
    filters = () if codec is None else [codec]
    array = zarr.create_array({}, shape=(8,), chunks=(4,), dtype=dtype, filters=filters, **options)
    array[...] = np.arange(8).astype(dtype)
    return array


def _in_tensorstore(view=lambda array: array, dtype="float64"):
    spec = {"driver": "zarr3", "kvstore": "memory://"}
    array = tensorstore.open(spec, create=True, dtype=dtype, shape=[8]).result()
    array[...] = np.arange(8).astype(dtype)
    return view(array)


def _jpeg(path):
    spec = {
        "driver": "neuroglancer_precomputed",
        "kvstore": f"file://{path}/",
        "multiscale_metadata": {"data_type": "uint8", "num_channels": 1, "type": "image"},
        "scale_metadata": {
            "size": [8, 8, 8],
            "encoding": "jpeg",
            "chunk_size": [8, 8, 8],
            "resolution": [1, 1, 1],
        },
    }
    return tensorstore.open(spec, create=True).result()


FSO = {"offset": 0, "scale": 10, "dtype": "f8", "astype": "i2"}


def _rounded_shards():
    inner = [codecs.BitRound(keepbits=3), zarr.codecs.BytesCodec()]
    serializer = zarr.codecs.ShardingCodec(chunk_shape=(2,), codecs=inner)
    return _zarr3("f8", None, shards=(8,), serializer=serializer, compressors=None)


LOSSY = {
    "HDF5, scale-offset of floats": lambda path: _hdf5_file(path, _filtered(2, "f4")),
    "HDF5, scale-offset of integers": lambda path: _hdf5_file(path, _filtered(3, "i4")),
    "HDF5, floats of 16 bits read as 32": lambda path: _hdf5_file(path, _of_type(_bfloat16)),
    "HDF5, text that a NUL ends": lambda path: _hdf5_file(path, _of_type(_ended_by_nul)),
    "HDF5, virtual": lambda path: _hdf5_file(path, _overlapping),
    "zarr 2, FixedScaleOffset": lambda _: _zarr("f8", numcodecs.FixedScaleOffset(**FSO)),
    "zarr 2, Quantize": lambda _: _zarr("f8", numcodecs.Quantize(2, "f8")),
    "zarr 2, BitRound": lambda _: _zarr("f4", numcodecs.BitRound(3)),
    "zarr 2, AsType": lambda _: _zarr("i4", numcodecs.AsType("i1", "i4")),
    "zarr 2, Delta, then AsType": lambda _: _zarr(
        "i4", numcodecs.Delta("i4"), numcodecs.AsType("i1", "i4")
    ),
    "zarr 2, Delta of floats": lambda _: _zarr("f4", numcodecs.Delta("f4")),
    "zarr 2, Delta in bytes": lambda _: _zarr("i4", numcodecs.Delta("i4", "i1")),
    "zarr 2, PackBits of integers": lambda _: _zarr("i1", numcodecs.PackBits()),
    "zarr 3, FixedScaleOffset": lambda _: _zarr3("f8", codecs.FixedScaleOffset(**FSO)),
    "zarr 3, Delta of floats": lambda _: _zarr3("f8", codecs.Delta(dtype="f8")),
    "zarr 3, Delta in the other byte order": lambda _: _zarr3(">i4", codecs.Delta(dtype=">i4")),
    "zarr 3, BitRound in shards": lambda _: _zarr3("f8", codecs.BitRound(keepbits=3), shards=(8,)),
    "zarr 3, BitRound in shards in shards": lambda _: _rounded_shards(),
    "tensorstore, index array": lambda _: _in_tensorstore(lambda array: array[[0, 0, 5]]),
    "tensorstore, repeated": lambda _: _in_tensorstore(
        lambda array: array[tensorstore.newaxis][tensorstore.d[0][0:2]]
    ),
    "tensorstore, cast": lambda _: _in_tensorstore(
        lambda array: tensorstore.cast(array, "float64"), "uint8"
    ),
    "tensorstore, concatenated": lambda _: _in_tensorstore(
        lambda array: tensorstore.concat([array, array], axis=0)
    ),
    "tensorstore, JPEG": _jpeg,
}


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")
@pytest.mark.parametrize("kind", LOSSY)
def test_lossy_arrays_are_refused(kind, tmp_path):
    """A lossy filter would change other elements of a chunk."""
    stored = LOSSY[kind](tmp_path / "a")
    before = np.array(stored)
    indices, updates = np.zeros((1, before.ndim), int), before.reshape(-1)[:1]
    for reduction in ("none",) if before.dtype.kind == "S" else ("none", "add"):
        with pytest.raises(DTypeError, match="that stores values exactly") as raised:
            ndgather.scatter_nd(stored, indices, updates, reduction=reduction, out=stored)
        assert_same_elements(np.array(stored), before)
        advised = re.search(r"write (scatter_nd\(.*\)) without out", str(raised.value))[1]
        names = {"scatter_nd": ndgather.scatter_nd, "numpy": np, "data": stored}
        changed = eval(advised.replace("...", "indices, updates"), names, locals())
        assert_same_elements(changed, before)
    found = ndgather.gather_nd(stored, indices)
    assert_same_elements(found, updates)


SHARDS = zarr.codecs.ShardingCodec(chunk_shape=(2,))
KEPT = {
    "HDF5, big-endian": lambda path: _hdf5_file(path, _plain(">f8")),
    "HDF5, booleans": lambda path: _hdf5_file(path, _plain("?")),
    "HDF5, named numbers": lambda path: _hdf5_file(path, _plain(h5py.enum_dtype({"x": 0}, "i2"))),
    "zarr 2, Delta of integers": lambda _: _zarr("i4", numcodecs.Delta("i4"), numcodecs.Shuffle(4)),
    "zarr 2, PackBits": lambda _: _zarr("?", numcodecs.PackBits(), compressors=numcodecs.LZ4()),
    "zarr 2, Base64": lambda _: _zarr("f8", compressors=numcodecs.Base64()),
    "zarr 3, shards": lambda _: _zarr3("i8", codecs.Delta(dtype="i8"), shards=(8,)),
    "zarr 3, shards in shards": lambda _: _zarr3(
        *("f8", None), shards=(8,), serializer=SHARDS, compressors=None
    ),
    "tensorstore, backwards": lambda _: _in_tensorstore(lambda array: array[7::-2]),
    "tensorstore, new axis": lambda _: _in_tensorstore(
        lambda array: array[tensorstore.newaxis].T[:, 0][1:]
    ),
}


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")
@pytest.mark.parametrize("kind", KEPT)
def test_lossless_filters_types_and_views_are_written(kind, tmp_path):
    stored = KEPT[kind](tmp_path / "a")
    desired = np.array(stored)
    desired[[0, 3]] = desired[[3, 0]]
    ndgather.scatter_nd(stored, [[0], [3]], desired[[0, 3]], out=stored)
    assert_same_elements(np.array(stored), desired)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_chunks_of_negative_zeros_are_preserved(dtype, zarr_format):
    array = zarr.create_array({}, shape=(8,), chunks=(4,), dtype=dtype, zarr_format=zarr_format)
    array[...] = 1
    updates = -np.zeros(4, dtype)
    ndgather.scatter_nd(array, np.arange(4)[:, None], updates, out=array)
    assert np.asarray(array[:4]).tobytes() == updates.tobytes()
