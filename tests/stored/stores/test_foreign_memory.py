"""Results and files never contain uninitialized memory, even if a store omits values.

The arrays have chunks that were never written, truncated chunks, or padding within elements. They
are read on every path while all allocated memory is filled with a pattern.
"""

import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import netCDF4
import numcodecs
import numpy as np
import pytest
import tensorstore
import xarray as xr
import zarr

import ndgather
import ndgather.arrays.xarray
from ndgather.errors import DTypeError, StoredArrayError
from tests.definitions.calls import element_bytes
from tests.stored.foreign_memory import PATTERN, foreign_memory

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
SHAPE, CHUNK = (70, 50), (32, 32)  # at least 4 KiB, because C caches smaller pieces of memory
GAPS = np.dtype({"names": ["a", "b"], "formats": ["i1", "f8"], "offsets": [0, 8], "itemsize": 24})
WRITTEN = [(slice(0, 32), slice(0, 32)), (slice(66, 70), slice(40, 50))]
EVERY = np.indices(SHAPE).reshape(2, -1).T.copy()
STARTS = np.array([[0, 0], [30, 10], [-20, 20], [60, 40], [69, -5]])
ROWS = np.array([0, 69, 40, 33, 5, 5])
WINDOW = (40, 36)


def filled(dtype="f8", fill=0):
    """Return the values of an array of which only some parts were written."""
    values = np.zeros(SHAPE, dtype)  # with zeros in padding
    if not values.dtype.names:
        values[...] = fill
    for part in WRITTEN:
        if values.dtype.names:
            values["a"][part], values["b"][part] = 3, 1.5
        else:
            values[part] = 3
    return values


def write(stored, values):
    for part in WRITTEN:
        box = values.view(f"V{values.itemsize}")[part].copy()  # NumPy would not copy padding
        stored[part] = box.view(values.dtype)


def in_zarr(folder, dtype="f8", fill=0, **layout):
    stored = zarr.create_array(
        folder / "a.zarr", shape=SHAPE, dtype=dtype, fill_value=fill, **layout
    )
    values = filled(dtype, stored.fill_value if fill is not None else 0)
    write(stored, values)
    return stored, values


def in_hdf5(folder, dtype="f8", fill=None, written=True, **layout):
    file = h5py.File(folder / "a.h5", "w")
    stored = file.create_dataset("a", SHAPE, dtype, **layout)
    values = filled(dtype, fill or 0)
    if written:
        write(stored, values)
    else:
        values = np.zeros(SHAPE, dtype)
    return stored, values


def in_netcdf(folder, all_off=False, compound=False, **layout):
    with netCDF4.Dataset(folder / "a.nc", "w") as file:
        for name, size in zip("yx", SHAPE, strict=True):
            file.createDimension(name, size)
        if all_off:
            file.set_fill_off()
        gaps = np.dtype([("a", "i1"), ("b", "f8")], align=True)
        kind = file.createCompoundType(gaps, "gaps") if compound else "f8"
        fill = None if all_off else False
        variable = file.createVariable("a", kind, ("y", "x"), fill_value=fill, **layout)
        values = filled(gaps if compound else "f8")
        write(variable, values)
    return h5py.File(folder / "a.nc", "r+")["a"], values


def with_a_source_that_is_gone(folder):
    whole = filled()
    layout = h5py.VirtualLayout(SHAPE, "f8")
    for name, part in (("there", slice(0, 32)), ("gone", slice(32, 60))):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file["a"] = np.full((part.stop - part.start, 50), 7.0)
        layout[part] = h5py.VirtualSource(folder / f"{name}.h5", "a", (part.stop - part.start, 50))
    (folder / "gone.h5").unlink()
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_virtual_dataset("a", layout)
    whole[...] = 0
    whole[:32] = 7
    return h5py.File(folder / "a.h5", "r")["a"], whole


def in_a_file_beside(folder, written):
    """An external file that is shorter than the dataset, or missing."""
    whole = np.zeros(SHAPE)
    if written:
        whole[:20] = 7
        (folder / "beside.bin").write_bytes(whole[:20].tobytes())
    file = h5py.File(folder / "a.h5", "w")
    size = whole.nbytes
    beside = [(str(folder / "beside.bin"), 0, size)]
    return file.create_dataset("a", SHAPE, "f8", external=beside, fill_time="never"), whole


def in_tensorstore(folder, driver, **layout):
    stored = tensorstore.open(
        {"driver": driver, "kvstore": f"file://{folder}/a/"},
        create=True,
        dtype=tensorstore.float64,
        shape=SHAPE,
        chunk_layout=tensorstore.ChunkLayout(**layout),
    ).result()
    values = filled()
    write(stored, values)
    return stored, values


def in_tiff(folder, **layout):
    tifffile = pytest.importorskip("tifffile")
    values = np.zeros((70, 50), "i2")
    values[:32, :32] = 3
    tiles = iter([values[:32, :32], *[None] * 5])
    tifffile.imwrite(
        folder / "a.tif", tiles, shape=SHAPE, dtype="i2", tile=(32, 32), metadata=None, **layout
    )
    store = tifffile.imread(folder / "a.tif", aszarr=True, maxworkers=1)
    stored = zarr.open_array(store, mode="r")
    weakref.finalize(stored, store.close)
    return stored, values


def mapped(folder, dtype):
    values = filled(dtype)
    values.tofile(folder / "a.bin")
    return np.memmap(folder / "a.bin", dtype, mode="r+", shape=SHAPE), values


class Indexable:
    """An array that only `cached` accepts."""

    def __init__(self, values, chunks=CHUNK):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype
        self.chunks = chunks

    def __getitem__(self, box):
        return self.values[box]


GZIP = {"chunks": CHUNK, "compression": "gzip"}
STORES = {
    "zarr 2": lambda at: in_zarr(at, chunks=CHUNK, zarr_format=2),
    "zarr 2, no fill value": lambda at: in_zarr(at, chunks=CHUNK, fill=None, zarr_format=2),
    "zarr 2, Fortran order": lambda at: in_zarr(at, chunks=CHUNK, fill=9, zarr_format=2, order="F"),
    "zarr 3": lambda at: in_zarr(at, chunks=CHUNK, fill=9),
    "zarr 3, raw": lambda at: in_zarr(at, chunks=CHUNK, compressors=None),
    "zarr 3, gzip": lambda at: in_zarr(at, chunks=CHUNK, compressors=zarr.codecs.GzipCodec()),
    "zarr 3, blosc": lambda at: in_zarr(at, chunks=CHUNK, compressors=zarr.codecs.BloscCodec()),
    "zarr 3, other byte order": lambda at: in_zarr(
        at, serializer=zarr.codecs.BytesCodec(endian="big"), dtype="i4"
    ),
    "zarr 3, texts": lambda at: in_zarr(at, chunks=CHUNK, dtype="S16", fill=b""),
    "zarr 3, sharded": lambda at: in_zarr(at, chunks=(16, 32), shards=(32, 64)),
    "hdf5": lambda at: in_hdf5(at, chunks=CHUNK, fillvalue=9, fill=9),
    "hdf5, never filled": lambda at: in_hdf5(at, chunks=CHUNK, fill_time="never"),
    "hdf5, never filled, gzip": lambda at: in_hdf5(at, **GZIP, fill_time="never"),
    "hdf5, never filled, lzf": lambda at: in_hdf5(
        at, chunks=CHUNK, compression="lzf", fill_time="never"
    ),
    "hdf5, never filled, one piece": lambda at: in_hdf5(at, written=False, fill_time="never"),
    "hdf5, never filled, a part of one piece": lambda at: in_hdf5(at, fill_time="never"),
    "hdf5, gaps": lambda at: in_hdf5(at, GAPS, chunks=CHUNK),
    "hdf5, gaps, gzip": lambda at: in_hdf5(at, GAPS, **GZIP, fill_time="never"),
    "hdf5, gaps, one piece": lambda at: in_hdf5(at, GAPS),
    "hdf5, gaps, never written": lambda at: in_hdf5(at, GAPS, written=False, fill_time="never"),
    "hdf5, other byte order": lambda at: in_hdf5(at, chunks=CHUNK, fill_time="never", dtype=">f4"),
    "hdf5, a source is gone": with_a_source_that_is_gone,
    "hdf5, a file beside is short": lambda at: in_a_file_beside(at, True),
    "netCDF4, no fill value": lambda at: in_netcdf(at, chunksizes=CHUNK),
    "netCDF4, no fill value, zlib": lambda at: in_netcdf(at, chunksizes=CHUNK, zlib=True),
    "netCDF4, fill off": lambda at: in_netcdf(at, all_off=True, chunksizes=CHUNK),
    "netCDF4, gaps": lambda at: in_netcdf(at, compound=True, chunksizes=CHUNK),
    "tensorstore zarr": lambda at: in_tensorstore(at, "zarr", chunk_shape=CHUNK),
    "tensorstore zarr3": lambda at: in_tensorstore(
        at, "zarr3", read_chunk_shape=(16, 32), write_chunk_shape=(32, 64)
    ),
    "tensorstore n5": lambda at: in_tensorstore(at, "n5", chunk_shape=CHUNK),
    "tiff": in_tiff,
    "tiff, deflate": lambda at: in_tiff(at, compression="zlib"),
    "memory map": lambda at: mapped(at, "f8"),
    "memory map, gaps": lambda at: mapped(at, GAPS),
    "any array": lambda at: (Indexable(filled()), filled()),
    "any array, chunks of many lengths": lambda at: (
        Indexable(filled(), ((32, 30, 8), (32, 18))),
        filled(),
    ),
    "any array, gaps": lambda at: (Indexable(filled(GAPS)), filled(GAPS)),
}


def dtype_of(stored):
    is_of_tensorstore = isinstance(stored, tensorstore.TensorStore)
    return stored.dtype.numpy_dtype if is_of_tensorstore else stored.dtype


def of_windows(places):
    outside = np.pad(places, 80, constant_values=-1)
    return np.stack([outside[y + 80 :, x + 80 :][: WINDOW[0], : WINDOW[1]] for y, x in STARTS])


def of_ranges(places):
    return np.concatenate([places[0:40], places[50:70], places[33:34]])


def by_executor(stored):
    with ThreadPoolExecutor(2) as pool:
        return ndgather.gather_nd(stored, EVERY, executor=pool)


# The calls, and the positions of the elements they read; -1 is out of bounds.
PATHS = {
    "points": (lambda s: ndgather.gather_nd(s, EVERY), np.ravel),
    "points, out": (
        lambda s: ndgather.gather_nd(s, EVERY, out=np.zeros(len(EVERY), dtype_of(s))),
        np.ravel,
    ),
    "points, little memory": (lambda s: ndgather.gather_nd(s, EVERY, memory=2**20), np.ravel),
    "points, executor": (by_executor, np.ravel),
    "rows": (lambda s: ndgather.gather_nd(s, ROWS[:, None]), lambda at: at[ROWS]),
    "columns": (lambda s: ndgather.gather(s, [49, 3], axis=1), lambda at: at[:, [49, 3]]),
    "elements": (
        lambda s: ndgather.gather_elements(s, np.repeat(ROWS[:, None], 50, 1), axis=0),
        lambda at: at[ROWS],
    ),
    "fill": (
        lambda s: ndgather.gather_nd(s, EVERY + np.array([35, 0]), mode="fill"),
        lambda at: np.concatenate([at[35:], np.full((35, 50), -1)]).ravel(),
    ),
    "windows": (lambda s: ndgather.gather_windows(s, STARTS, WINDOW, mode="fill"), of_windows),
    "windows, mirrored": (
        lambda s: ndgather.gather_windows(s, [[40, 20]], (60, 50), mode="reflect"),
        lambda at: np.pad(at, 60, mode="reflect")[np.newaxis, 100:160, 80:130],
    ),
    "ranges": (lambda s: ndgather.gather_ranges(s, [0, 50, 33], [40, 70, 34])[0], of_ranges),
}
OF_CACHED = {
    "all": (lambda s: s[...], lambda at: at),
    "a part": (lambda s: s[69:2:-2, 5:45:3], lambda at: at[69:2:-2, 5:45:3]),
    "index arrays": (lambda s: s[ROWS, 3], lambda at: at[ROWS, 3]),
    "one element": (lambda s: np.asarray(s[40:41, 40]), lambda at: at[40:41, 40]),
}


@pytest.fixture(params=STORES)
def kind(request):
    return request.param


def check(read, places, values):
    at = places(np.arange(values.size).reshape(SHAPE))
    elements = np.frombuffer(element_bytes(values) + bytes(values.itemsize), f"V{values.itemsize}")
    expected = elements[at]
    with foreign_memory():
        found = read()
    assert found.shape == expected.shape
    assert found.dtype == values.dtype
    assert element_bytes(found) == expected.tobytes()


@pytest.mark.parametrize("path", [*PATHS])
def test_gathers_return_no_uninitialized_memory(kind, path, tmp_path):
    stored, values = STORES[kind](tmp_path)
    read, places = PATHS[path]
    if not isinstance(stored, Indexable):
        check(lambda: read(stored), places, values)
    if "executor" not in path:  # executors do not read from a cache
        check(lambda: read(ndgather.cached(stored)), places, values)
        check(lambda: read(ndgather.cached(stored, "20 KiB")), places, values)


@pytest.mark.parametrize("path", [*OF_CACHED])
def test_cached_arrays_return_no_uninitialized_memory(kind, path, tmp_path):
    stored, values = STORES[kind](tmp_path)
    read, places = OF_CACHED[path]
    check(lambda: read(ndgather.cached(stored)), places, values)


@pytest.mark.parametrize("layout", [{"chunks": CHUNK}, {"chunks": CHUNK, "compression": 4}, {}])
def test_stored_indices_and_updates_contain_no_uninitialized_memory(layout, tmp_path):
    with h5py.File(tmp_path / "indices.h5", "w") as file:
        indices = file.create_dataset(
            "a",
            (70, 40, 1),
            "i4",
            fill_time="never",
            **({**layout, "chunks": (32, 32, 1)} if layout else {}),
        )
        updates = file.create_dataset("b", (70, 40), "f8", fill_time="never", **layout)
        if layout:
            indices[:32, :32], updates[:32, :32] = 3, 1.5
        expected = np.arange(9.0) / 2
        for place, update in zip(indices[...].ravel(), updates[...].ravel(), strict=True):
            expected[place] += update
        with foreign_memory():
            data = np.arange(9.0) / 2
            found = ndgather.gather_nd(data, indices)
            summed = ndgather.scatter_nd(data, indices, updates, reduction="add")
        np.testing.assert_array_equal(found, np.arange(9.0)[indices[..., 0]] / 2)
        np.testing.assert_array_equal(summed, expected)


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
@pytest.mark.parametrize("cached", [False, True])
def test_scatters_write_no_uninitialized_memory(kind, reduction, cached, tmp_path):
    stored, values = STORES[kind](tmp_path)
    is_text_or_record = values.dtype.kind in "SV"
    if (
        kind.startswith(("tiff", "any"))
        or "gone" in kind
        or (is_text_or_record and reduction != "none")
    ):
        return
    indices = np.concatenate([EVERY[5::97], EVERY[:1], EVERY[-1:]])
    updates = np.zeros(len(indices), values.dtype)
    updates[...] = (1, 2.0) if values.dtype.names else 1
    expected = values.copy()
    for place in map(tuple, indices):
        if reduction == "none":
            expected[place] = updates[0]
        else:
            expected[place] = expected[place] + 1 if reduction == "add" else max(expected[place], 1)
    with foreign_memory():
        data = ndgather.cached(stored) if cached else stored
        ndgather.scatter_nd(data, indices, updates, reduction=reduction, out=data)
        kept = ndgather.gather_nd(data, EVERY)
    if isinstance(stored, tensorstore.TensorStore):
        stored = stored.read().result()
    elif isinstance(stored, np.memmap):
        stored.flush()
    found = np.zeros(SHAPE, values.dtype)
    found[...] = stored[...]
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(kept, expected.ravel())
    if isinstance(stored, h5py.Dataset):
        stored.file.close()
    for file in filter(Path.is_file, tmp_path.rglob("*")):
        content = file.read_bytes()
        for byte in (PATTERN, PATTERN ^ 0xFF):
            assert bytes([byte]) * 7 not in content, file


def damaged(folder, layout, most):
    """Return a zarr array whose largest file has at most `most` bytes."""
    stored, values = in_zarr(folder, **layout)
    file = max(filter(Path.is_file, folder.rglob("*")), key=lambda file: file.stat().st_size)
    content = file.read_bytes()
    file.write_bytes(content[: max(0, len(content) - most)])
    return stored, values


CODECS = {
    "raw": {"compressors": None},
    "zstd": {},
    "gzip": {"compressors": zarr.codecs.GzipCodec()},
    "blosc": {"compressors": zarr.codecs.BloscCodec()},
    "lz4": {"zarr_format": 2, "compressors": numcodecs.LZ4()},
    "zlib": {"zarr_format": 2, "compressors": numcodecs.Zlib()},
    "bz2": {"zarr_format": 2, "compressors": numcodecs.BZ2()},
    "lzma": {"zarr_format": 2, "compressors": numcodecs.LZMA()},
    "shuffle": {"zarr_format": 2, "filters": numcodecs.Shuffle(8)},
    "delta": {"zarr_format": 2, "filters": numcodecs.Delta("f8")},
    "crc32": {"zarr_format": 2, "filters": numcodecs.CRC32()},
}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("less", [1, 4, 8, 16, 40])
def test_short_chunks_raise(codec, less, tmp_path):
    """The values may be complete if only a checksum is missing."""
    stored, values = damaged(tmp_path, {"chunks": CHUNK} | CODECS[codec], less)
    with foreign_memory():
        try:
            found = ndgather.gather_nd(stored, EVERY)
        except StoredArrayError:
            return
    assert codec != "raw"
    assert element_bytes(found) == element_bytes(values)


# The calls on a variable, and the positions of the elements they read.
POINT = {"y": xr.Variable("p", ROWS), "x": xr.Variable("p", ROWS // 2)}
SERIES = {"y": xr.Variable("p", ROWS)}
OF_DATA_SETS = {
    "points": (lambda data, isel: isel(data)(POINT), lambda at: at[ROWS, ROWS // 2]),
    "series": (lambda data, isel: isel(data)(SERIES), lambda at: at[ROWS]),
    "a part": (lambda data, isel: isel(data[:, 45:9:-3])(SERIES), lambda at: at[ROWS, 45:9:-3]),
    "points of a part": (
        lambda data, isel: isel(data[:, 20:])(POINT | {"x": xr.Variable("p", ROWS // 3)}),
        lambda at: at[ROWS, 20 + ROWS // 3],
    ),
    "windows": (
        lambda data, isel: data.ndgather.windows(y=[40, 60], x=[30, 20], size=20, method=None),
        lambda at: np.stack([at[30:50, 20:40], at[50:70, 10:30]]),
    ),
    "between": (
        lambda data, isel: data.ndgather.sel(SERIES, method="linear"),
        lambda at: at[ROWS],
    ),
}


@pytest.mark.parametrize("path", OF_DATA_SETS)
@pytest.mark.parametrize("engine", ["ndgather", "h5netcdf", "netcdf4", "zarr"])
@pytest.mark.parametrize("all_off", [False, True])
def test_data_sets_contain_no_uninitialized_memory(engine, all_off, path, tmp_path):
    options = {}
    if engine == "zarr":
        options = {"consolidated": False}
        place, values = tmp_path / "data", filled()
        group = zarr.create_group(place, zarr_format=2)
        stored = group.create_array(
            "a", shape=SHAPE, chunks=CHUNK, dtype="f8", fill_value=None if all_off else 9
        )
        stored.attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
        write(stored, values)
        if not all_off:
            values = np.where(values == 0, np.nan, values)  # xarray converts fill values to NaN
    else:
        place = tmp_path / "a.nc"
        stored, values = in_netcdf(tmp_path, all_off, chunksizes=CHUNK)
        stored.file.close()
    read, places = OF_DATA_SETS[path]
    accessor = lambda data: data.ndgather.isel  # noqa: E731
    by_xarray = lambda data: data.isel  # noqa: E731
    with xr.open_dataset(place, engine=engine, cache=False, **options) as data:
        check(lambda: read(data.a, accessor).values, places, values)
        if engine == "ndgather":
            check(lambda: read(data.a, by_xarray).values, places, values)


def test_netcdf4_is_refused_if_h5py_cannot_read_the_file(tmp_path):
    """The dataset is shorter than the variable, whose dimension another variable has extended."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("y", None)
        file.createVariable("a", "f8", ("y",), fill_value=False)
        file.createVariable("b", "f8", ("y",))[:5] = 1
    with xr.open_dataset(tmp_path / "a.nc", engine="netcdf4", cache=False) as data:
        with pytest.raises(DTypeError, match="engine = 'netcdf4' returns uninitialized memory"):
            data.a.ndgather.isel(y=[3, 4])
        assert data.b.ndgather.isel(y=[3, 4]).values.tolist() == [1, 1]
