"""Stores with a missing, deleted, short, long or empty chunk: correct values or an error.

A read returns the values of the store, with the fill value for missing chunks, or raises an error
that names the chunk. A changed chunk may still be correct if it only lacks an end that no value
needs, for example a checksum, or if bytes were appended.
"""

import uuid
import weakref
import zipfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import h5py
import icechunk
import numcodecs
import numpy as np
import obstore.store
import pytest
import tensorstore
import tifffile
import xarray as xr
import zarr
from zarr.buffer.cpu import buffer_prototype
from zarr.core.sync import sync

import ndgather
from ndgather.errors import StoredArrayError
from tests.definitions import reference

SHAPE, CHUNK = (32, 32), (16, 16)  # the sizes of TIFF tiles are multiples of 16
DAMAGED = (slice(16, 32), slice(16, 32))  # the chunk (1, 1)
VALUES = np.arange(1, 1025, dtype="f4").reshape(SHAPE)
EVERY = np.argwhere(np.ones(SHAPE, bool))
ELSEWHERE = EVERY[(EVERY < 16).any(axis=1)]


@dataclass
class Stored:
    """A stored array and functions that change the bytes of its chunk (1, 1)."""

    opened: Any  # opens the array again
    get: Any = None
    put: Any = None  # None if the store always writes whole chunks
    delete: Any = None
    writes: bool = True
    fill: float = 0


def of_zarr(store, path="a", **layout):
    """An array in any zarr store."""
    array = zarr.create_array(store, name=path, data=VALUES, fill_value=7, **layout)
    key = f"{path}/{array.metadata.encode_chunk_key((1, 1))}"
    return Stored(
        lambda: zarr.open_array(store, path=path),
        lambda: sync(store.get(key, buffer_prototype)).to_bytes(),
        lambda content: sync(store.set(key, buffer_prototype.buffer.from_bytes(content))),
        lambda: sync(store.delete(key)),
        fill=7,
    )


def in_files(folder, **layout):
    return of_zarr(zarr.storage.LocalStore(folder), **({"chunks": CHUNK} | layout))


def in_zip(folder, **layout):
    """An archive that is rewritten without a member or with another one."""
    file = folder / "a.zip"
    with zarr.storage.ZipStore(file, mode="w") as store:
        zarr.create_array(store, data=VALUES, fill_value=7, chunks=CHUNK, **layout)
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    key = next(name for name in members if name.endswith(("c/1/1", "1.1")))

    def write():
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)

    def put(content):
        members[key] = content
        write()

    def delete():
        del members[key]
        write()

    def opened():
        return zarr.open_array(zarr.storage.ZipStore(file, mode="r"), mode="r")

    return Stored(opened, lambda: members[key], put, delete, writes=False, fill=7)


def in_icechunk(_, **layout):
    repository = icechunk.Repository.create(icechunk.in_memory_storage())
    return of_zarr(repository.writable_session("main").store, chunks=CHUNK, **layout)


def in_object_store(_, **layout):
    store = zarr.storage.ObjectStore(obstore.store.MemoryStore())
    return of_zarr(store, chunks=CHUNK, **layout)


def in_fsspec(_, **layout):
    store = zarr.storage.FsspecStore.from_url(f"memory://{uuid.uuid4()}")
    return of_zarr(store, chunks=CHUNK, **layout)


def in_tensorstore(folder, driver, name, **layout):
    spec = {"driver": driver, "kvstore": f"file://{folder}/a/"}
    array = tensorstore.open(
        spec,
        create=True,
        dtype=tensorstore.float32,
        shape=SHAPE,
        chunk_layout=tensorstore.ChunkLayout(**(layout or {"chunk_shape": CHUNK})),
    ).result()
    array.write(VALUES).result()
    file = folder / "a" / name
    return Stored(
        lambda: tensorstore.open(spec, open=True).result(),
        file.read_bytes,
        file.write_bytes,
        file.unlink,
    )


def in_hdf5(folder, written=True, **layout):
    file = folder / "a.h5"
    with h5py.File(file, "w") as opened:
        array = opened.create_dataset("a", SHAPE, "f4", chunks=CHUNK, fillvalue=7, **layout)
        for part in np.ndindex(2, 2):
            if written or part != (1, 1):
                box = tuple(slice(16 * at, 16 * at + 16) for at in part)
                array[box] = VALUES[box]

    def get():
        with h5py.File(file) as opened:
            return opened["a"].id.read_direct_chunk((16, 16))[1]

    def put(content):
        with h5py.File(file, "r+") as opened:
            opened["a"].id.write_direct_chunk((16, 16), content)

    # HDF5 itself stores a chunk without filters with its full size.
    return Stored(lambda: h5py.File(file, "r+")["a"], get, put if layout else None, fill=7)


def in_tiff(folder, **layout):
    file = folder / "a.tif"
    tifffile.imwrite(file, VALUES, tile=CHUNK, metadata=None, **layout)

    def placed(offset, count):
        with tifffile.TiffFile(file, mode="r+b") as opened:
            tags = opened.pages[0].tags
            for name, value in (("TileOffsets", offset), ("TileByteCounts", count)):
                tags[name].overwrite([*tags[name].value[:3], value])

    def get():
        with tifffile.TiffFile(file) as opened:
            page = opened.pages[0]
            offset, count = page.dataoffsets[3], page.databytecounts[3]
        return file.read_bytes()[offset : offset + count]

    def put(content):
        """Append another tile to the file."""
        before = file.read_bytes()
        file.write_bytes(before + content)
        placed(len(before), len(content))

    def opened():
        store = tifffile.imread(file, aszarr=True, maxworkers=1)
        array = zarr.open_array(store, mode="r")
        weakref.finalize(array, store.close)
        return array

    return Stored(opened, get, put, lambda: placed(0, 0), writes=False)


def by_engine(folder, engine, **layout):
    """A netCDF variable read by xarray; HDF5 checks only the bytes of gzip."""
    stored = in_hdf5(folder, **layout)
    with h5py.File(folder / "a.h5", "r+") as file:
        for name in "yx":
            file[name] = np.arange(32.0)
            file[name].make_scale(name)
        for axis, name in enumerate("yx"):
            file["a"].dims[axis].attach_scale(file[name])
    stored.opened = lambda: xr.open_dataset(folder / "a.h5", engine=engine, cache=False).a
    stored.writes = False
    return stored


GZIP, RAW = zarr.codecs.GzipCodec(), {"compressors": None}
STORES = {
    "zarr 2": lambda at: in_files(at, zarr_format=2, **RAW),
    "zarr 2, blosc": lambda at: in_files(at, zarr_format=2, compressors=numcodecs.Blosc()),
    "zarr 2, zlib": lambda at: in_files(at, zarr_format=2, compressors=numcodecs.Zlib()),
    "zarr 2, lz4 of shuffled": lambda at: in_files(
        at, zarr_format=2, compressors=numcodecs.LZ4(), filters=numcodecs.Shuffle(4)
    ),
    "zarr 3": lambda at: in_files(at, **RAW),
    "zarr 3, zstd": in_files,
    "zarr 3, gzip": lambda at: in_files(at, compressors=GZIP),
    "zarr 3, checksum": lambda at: in_files(at, compressors=zarr.codecs.Crc32cCodec()),
    "zarr 3, shards": lambda at: in_files(at, chunks=(8, 16), shards=CHUNK),
    "zarr 3, shards, raw": lambda at: in_files(at, chunks=(8, 16), shards=CHUNK, **RAW),
    "zarr in memory": lambda _: of_zarr(zarr.storage.MemoryStore(), chunks=CHUNK, **RAW),
    "zarr in a zip": lambda at: in_zip(at, **RAW),
    "zarr by obstore, raw": lambda at: in_object_store(at, **RAW),
    "zarr by fsspec": lambda at: in_fsspec(at, **RAW),
    "icechunk, raw": lambda at: in_icechunk(at, **RAW),
    "tensorstore zarr": lambda at: in_tensorstore(at, "zarr", "1.1"),
    "tensorstore zarr3": lambda at: in_tensorstore(at, "zarr3", "c/1/1"),
    "tensorstore shards": lambda at: in_tensorstore(
        at, "zarr3", "c/1/1", read_chunk_shape=(8, 16), write_chunk_shape=CHUNK
    ),
    "tensorstore n5": lambda at: in_tensorstore(at, "n5", "1/1"),
    "hdf5": in_hdf5,
    "hdf5, gzip": lambda at: in_hdf5(at, compression=4),
    "hdf5, gzip of shuffled": lambda at: in_hdf5(at, compression=4, shuffle=True),
    "hdf5, lzf": lambda at: in_hdf5(at, compression="lzf"),
    "hdf5, checksum": lambda at: in_hdf5(at, fletcher32=True),
    "hdf5, checksum of lzf": lambda at: in_hdf5(at, compression="lzf", fletcher32=True),
    "hdf5, lzf of shuffled": lambda at: in_hdf5(at, compression="lzf", shuffle=True),
    "hdf5, never written": lambda at: in_hdf5(at, written=False),
    "tiff": in_tiff,
    "tiff, deflate": lambda at: in_tiff(at, compression="zlib"),
    "netCDF by ndgather": lambda at: by_engine(at, "ndgather", compression=4),
    "netCDF by h5netcdf": lambda at: by_engine(at, "h5netcdf", compression="lzf"),
    "netCDF by netCDF4": lambda at: by_engine(at, "netcdf4", compression=4),
}
DAMAGES = {
    "gone": None,
    "empty": lambda content: b"",
    "of one byte": lambda content: content[:1],
    "half": lambda content: content[: len(content) // 2],
    "four bytes short": lambda content: content[:-4],
    "a byte long": lambda content: content + b"\0",
}


def damaged(kind, damage, folder):
    """Return a damaged store, its values, and whether reading the chunk may raise."""
    stored, change = STORES[kind](folder), DAMAGES[damage]
    expected = VALUES.copy()
    never = "never" in kind
    if never or (damage == "gone" and stored.delete):
        expected[DAMAGED] = stored.fill
    if damage == "gone":
        if stored.delete:
            stored.delete()
        return stored, expected, False
    content = b"" if never else change(stored.get())
    if stored.put is None or (not content and kind[0] in "hn"):
        return stored, expected, False  # h5py does not write empty chunks
    stored.put(content)
    if damage == "empty" and kind.startswith("tiff"):
        expected[DAMAGED] = 0  # in TIFF, this marks a tile that was never written
    return stored, expected, True


def by_dims(*places):
    return {name: xr.Variable("p", at) for name, at in zip("yx", places, strict=False)}


ROWS, STARTS = np.array([0, 31, 5, 17, 17]), np.array([[10, 12], [0, 0], [22, 20]])
# By path: calls on a stored array and on an xarray variable, and the reference loops.
PATHS = {
    "points": (
        lambda a: ndgather.gather_nd(a, EVERY),
        lambda a: a.ndgather.isel(by_dims(*EVERY.T)).values,
        lambda values: reference.gather_nd(values, EVERY),
    ),
    "rows": (
        lambda a: ndgather.gather(a, ROWS),
        lambda a: a.ndgather.isel(by_dims(ROWS)).values,
        lambda values: reference.gather(values, ROWS),
    ),
    "windows": (
        lambda a: ndgather.gather_windows(a, STARTS, (10, 12)),
        lambda a: (
            a.ndgather.windows(
                y=STARTS[:, 0] + 5, x=STARTS[:, 1] + 6, size={"y": 10, "x": 12}, method=None
            ).values
        ),
        lambda values: reference.gather_windows(values, STARTS, (10, 12)),
    ),
    "ranges": (
        lambda a: ndgather.gather_ranges(a, [14, 0, 20], [18, 2, 31], axis=1)[0],
        lambda a: a.ndgather.isel(x=[*range(14, 18), 0, 1, *range(20, 31)]).values,
        lambda values: values[:, [*range(14, 18), 0, 1, *range(20, 31)]],
    ),
    "cached": (
        lambda a: ndgather.gather_nd(ndgather.cached(a), EVERY),
        lambda a: a.ndgather.isel(by_dims(*EVERY.T)).values,
        np.ravel,
    ),
    "a part of cached": (
        lambda a: ndgather.cached(a)[30:3:-2, 15:18],
        lambda a: a[:, 15:18].ndgather.isel(y=[*range(30, 3, -2)]).values,
        lambda values: values[30:3:-2, 15:18],
    ),
}


def outcome(read, *arguments, **options):
    """Return the result of a call, or the error that it raises."""
    try:
        return read(*arguments, **options)
    except StoredArrayError as error:
        return error


def same(found, expected):
    np.testing.assert_array_equal(np.asarray(found), expected)


def check_error(error, may_refuse=True):
    """Assert that an error names a chunk within the damaged chunk."""
    assert may_refuse, error
    if error.box:  # for xarray variables, boxes
        for part, whole in zip(error.box, DAMAGED, strict=True):
            assert whole.start <= part.start < part.stop <= whole.stop
    assert "cannot be read" in str(error)


@contextmanager
def opened(stored):
    """Open an array; close its file at the end."""
    array = stored.opened()
    try:
        yield array
    finally:
        if isinstance(array, h5py.Dataset):
            array.file.close()
        elif isinstance(array, xr.DataArray):
            array.close()


@pytest.fixture(params=STORES)
def kind(request):
    return request.param


@pytest.fixture(params=DAMAGES)
def damage(request):
    return request.param


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
def test_gathers_are_right_or_refused(kind, damage, tmp_path):
    stored, values, may_refuse = damaged(kind, damage, tmp_path)
    refused = set()
    with opened(stored) as array:
        of_xarray = isinstance(array, xr.DataArray)
        for name, (read, of_variable, by_loops) in PATHS.items():
            found = outcome(of_variable if of_xarray else read, array)
            if isinstance(found, StoredArrayError):
                check_error(found, may_refuse)
                refused.add(name)
            else:
                same(found, by_loops(values))
        assert refused in (set(), {*PATHS}), refused
        if of_xarray:
            found = array.ndgather.isel(by_dims(*ELSEWHERE.T))
        else:
            found = ndgather.gather_nd(array, ELSEWHERE)
        same(found, VALUES[tuple(ELSEWHERE.T)])


WRITTEN = [kind for kind in STORES if not kind.startswith(("tiff", "netCDF", "zarr in a zip"))]


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@pytest.mark.parametrize("kind", WRITTEN)
def test_scatters_are_right_or_refused(kind, damage, tmp_path):
    """Refused scatters leave the chunk unchanged and report which other chunks were updated."""
    stored, values, may_refuse = damaged(kind, damage, tmp_path)
    before = stored.get() if stored.get and may_refuse else None
    ones = np.ones(len(EVERY), "f4")
    with opened(stored) as array:
        error = outcome(ndgather.scatter_nd, array, EVERY, ones, reduction="add", out=array)
    places, expected = EVERY, values + 1
    if isinstance(error, StoredArrayError):
        check_error(error, may_refuse)
        assert stored.get() == before
        written = np.zeros(SHAPE, bool)
        for chunk in error.written:
            written[tuple(slice(16 * at, 16 * at + 16) for at in chunk)] = True
        assert not written[DAMAGED].any()
        places, expected = ELSEWHERE, VALUES + written
    with opened(stored) as array:
        same(ndgather.gather_nd(array, places), expected[tuple(places.T)])


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@pytest.mark.parametrize("kind", WRITTEN)
def test_overwritten_chunks_are_not_read(kind, damage, tmp_path):
    """The chunk contains the updates, regardless of its old bytes."""
    stored, values, may_refuse = damaged(kind, damage, tmp_path)
    places = np.argwhere(np.ones(CHUNK, bool)) + 16
    updates = -np.arange(1.0, 257.0, dtype="f4")
    before = stored.get() if stored.get and may_refuse else None
    with opened(stored) as array:
        error = outcome(ndgather.scatter_nd, array, places, updates, out=array)
    if isinstance(error, StoredArrayError):
        assert "shards" in kind, error  # zarr reads its index
        assert stored.get() == before
        return
    expected = values.copy()
    expected[DAMAGED] = updates.reshape(CHUNK)
    with opened(stored) as array:
        same(ndgather.gather_nd(array, EVERY), expected.ravel())


@pytest.mark.parametrize("less", [1, 4, 700, 1024, 4000])
@pytest.mark.parametrize("compression", [None, "zlib"])
def test_truncated_tiff_files_raise(compression, less, tmp_path):
    """The last tile is truncated, or lies beyond the end of the file."""
    stored = in_tiff(tmp_path, compression=compression)
    stored.put(stored.get())  # at the end of the file
    content = (tmp_path / "a.tif").read_bytes()
    (tmp_path / "a.tif").write_bytes(content[: -min(less, len(stored.get()))])
    array = stored.opened()
    with pytest.raises(StoredArrayError, match=r"chunk \(1, 1\)"):
        ndgather.gather_nd(array, EVERY)
    same(ndgather.gather_nd(array, ELSEWHERE), VALUES[tuple(ELSEWHERE.T)])


@pytest.mark.parametrize("layout", [{}, {"chunks": CHUNK, "compression": 4}])
def test_truncated_hdf5_files_raise(layout, tmp_path):
    """The file is truncated after it was opened; HDF5 refuses to open truncated files."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=VALUES, **layout)
    with h5py.File(tmp_path / "a.h5", "r") as file:
        size = (tmp_path / "a.h5").stat().st_size
        with (tmp_path / "a.h5").open("r+b") as opened:
            opened.truncate(size - 200)
        found = outcome(ndgather.gather_nd, file["a"], EVERY)
        if isinstance(found, StoredArrayError):
            assert "cannot be read" in str(found)
        else:
            same(found, VALUES.ravel())


@pytest.mark.parametrize(
    ("dtype", "options", "content"),
    [
        ("i1", {"fletcher32": True}, b"\1\2"),  # no room for a checksum
        ("S3", {"compression": "gzip"}, zlib.compress(b"xyz")),
        ("i1", {"fletcher32": True}, b"12345678" + bytes(4)),
    ],
)
def test_short_hdf5_chunks_raise(dtype, options, content, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        stored = file.create_dataset("a", (64,), dtype, chunks=(32,), **options)
        stored[...] = np.ones(64, dtype)
        stored.id.write_direct_chunk((32,), content)
        with pytest.raises(StoredArrayError, match=r"cannot be read"):
            ndgather.gather_nd(stored, np.arange(64)[:, np.newaxis])


def test_two_bytes_have_no_checksum(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        stored = file.create_dataset("a", (4,), "i1", chunks=(2,), fletcher32=True)
        stored[...] = 1
        stored.id.write_direct_chunk((2,), b"\1\2")
        with pytest.raises(StoredArrayError, match="no checksum"):
            ndgather.gather_nd(stored, [[3]])
        assert ndgather.gather_nd(stored, [[0]]) == 1


def test_missing_icechunk_shards_are_created():
    """The store reports missing objects with a size of 0."""
    session = icechunk.Repository.create(icechunk.in_memory_storage()).writable_session("main")
    stored = zarr.create_array(session.store, shape=(8,), shards=(4,), chunks=(2,), dtype="i4")
    ndgather.scatter_nd(stored, [[1]], np.int32([5]), out=stored)
    assert stored[...].tolist() == [0, 5, 0, 0, 0, 0, 0, 0]
