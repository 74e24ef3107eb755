"""Features of individual packages: refusals, views, files and memory maps."""

import mmap
import os
import pickle
import subprocess
import sys
import time
import zlib

import h5py
import numpy as np
import pytest
import tensorstore
import zarr

import ndgather
from ndgather.errors import DTypeError, StoredArrayError
from ndgather.stored import hdf5
from ndgather.stored.chunks import Buffers

VALUES = np.random.default_rng(0).integers(0, 99, (20, 30)).astype("f4")
POINTS = np.array([[0, 0], [19, 29], [-1, 3], [7, 11]])


@pytest.fixture
def file(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as opened:
        yield opened


def same(stored, values=VALUES):
    every = np.indices(values.shape).reshape(2, -1).T.copy()
    np.testing.assert_array_equal(ndgather.gather_nd(stored, every), values.reshape(-1))


def test_objects_other_than_arrays_are_refused(file):
    empty = file.create_dataset("empty", data=h5py.Empty("f4"))
    group = zarr.create_group({})
    lazy = zarr.create_array({}, data=VALUES).async_array
    for data in (empty, file, group, lazy, tensorstore.array(VALUES).spec()):
        with pytest.raises(DTypeError, match=r"gather_nd: data = .* object is "):
            ndgather.gather_nd(data, POINTS)
    with pytest.raises(DTypeError, match=r"indices = Group object is not a stored array"):
        ndgather.gather_nd(VALUES, group)
    with pytest.raises(DTypeError, match="out = Array object is not an array"):
        ndgather.gather_nd(VALUES, POINTS, out=zarr.create_array({}, data=VALUES))


def test_datasets_of_closed_files_raise(tmp_path):
    with h5py.File(tmp_path / "b.h5", "w") as opened:
        stored = opened.create_dataset("a", data=VALUES)
    with pytest.raises(DTypeError, match="belongs to a closed file"):
        ndgather.gather_nd(stored, POINTS)


@pytest.mark.parametrize("workers", [1, 3])
def test_tiff_tiles(workers, tmp_path):
    """The tifffile store only waits for its own workers."""
    tifffile = pytest.importorskip("tifffile")
    values = np.arange(90 * 70, dtype="i2").reshape(90, 70)
    tifffile.imwrite(tmp_path / "a.tif", values, tile=(16, 32))
    store = tifffile.imread(tmp_path / "a.tif", aszarr=True, maxworkers=workers)
    same(zarr.open_array(store, mode="r"), values)
    store.close()


def test_indices_and_updates_may_be_stored(file):
    points = [
        zarr.create_array({}, data=POINTS, chunks=(2, 2)),
        tensorstore.array(POINTS),
        file.create_dataset("points", data=POINTS),
    ]
    expected = ndgather.gather_nd(VALUES, POINTS)
    for each in points:
        np.testing.assert_array_equal(ndgather.gather_nd(VALUES, each), expected)
        np.testing.assert_array_equal(
            ndgather.gather_nd(zarr.create_array({}, data=VALUES), each), expected
        )


@pytest.mark.parametrize(
    "layout", [{}, {"compression": "gzip"}, {"compression": "gzip", "shuffle": True}]
)
@pytest.mark.parametrize("dtype", [">i2", "f8", "c16", "f2", "u1"])
def test_hdf5_chunks(file, layout, dtype):
    values = VALUES.astype(dtype)
    stored = file.create_dataset("a", data=values, chunks=(7, 9), **layout)
    same(stored, values)
    stored[3, 4] = 5
    values[3, 4] = 5
    same(stored, values)


def test_missing_hdf5_chunks_and_skipped_filters(file):
    stored = file.create_dataset("a", (20, 30), "f4", chunks=(10, 10), compression=4, fillvalue=3)
    stored[:10] = 1
    raw = np.arange(100, dtype="f4").reshape(10, 10)
    stored.id.write_direct_chunk((0, 20), raw.tobytes(), 1)
    expected = np.full((20, 30), 3, "f4")
    expected[:10] = 1
    expected[:10, 20:] = raw
    same(stored, expected)


def test_hdf5_chunks_with_a_skipped_shuffle(file):
    stored = file.create_dataset("a", (20, 30), "f4", chunks=(10, 10), compression=4, shuffle=True)
    raw = np.arange(100, dtype="f4").reshape(10, 10)
    stored.id.write_direct_chunk((10, 20), zlib.compress(raw.tobytes()), 1)
    expected = np.zeros((20, 30), "f4")
    expected[10:, 20:] = raw
    name = file.filename
    file.close()
    with h5py.File(name) as opened:
        same(opened["a"], expected)


def test_hdf5_integers_of_reduced_precision(file):
    narrow = h5py.h5t.STD_I16LE.copy()
    narrow.set_precision(12)
    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_chunk((10, 10))
    space = h5py.h5s.create_simple(VALUES.shape)
    stored = h5py.Dataset(h5py.h5d.create(file.id, b"narrow", narrow, space, layout))
    values = VALUES.astype("i2") - 50
    stored[...] = values
    np.testing.assert_array_equal(stored[...], values)
    same(stored, values)


def test_damaged_hdf5_chunks_raise(file):
    stored = file.create_dataset("a", data=VALUES, chunks=(10, 10), compression="gzip")
    place = stored.id.get_chunk_info_by_coord((10, 20))
    name = file.filename
    file.close()
    with open(name, "r+b") as content:  # noqa: PTH123 - of one chunk
        content.seek(place.byte_offset)
        content.write(bytes(place.size))
    with h5py.File(name) as opened:
        with pytest.raises(
            StoredArrayError, match=r"chunk \(1, 2\) of .*a.h5:/a, .* \[10:20, 20:30\]"
        ):
            ndgather.gather_nd(opened["a"], [[15, 25]])
        np.testing.assert_array_equal(ndgather.gather_nd(opened["a"], [[0, 0]]), VALUES[:1, 0])


def test_hdf5_types_that_need_conversion(file):
    flags = file.create_dataset("flags", data=VALUES > 50, chunks=(7, 9))
    same(flags, VALUES > 50)
    choice = h5py.enum_dtype({"a": 0, "b": 1}, "i1")
    enums = file.create_dataset(
        "enums", data=(VALUES > 50).astype("i1"), dtype=choice, chunks=(7, 9)
    )
    same(enums, (VALUES > 50).astype("i1"))
    texts = file.create_dataset("texts", data=["x", "yy", "zzz"], dtype=h5py.string_dtype())
    assert ndgather.gather_nd(texts, [[2], [0]]).tolist() == [b"zzz", b"x"]


@pytest.mark.parametrize("layout", [{}, {"chunks": (2, 2)}, {"chunks": (2, 2), "compression": 4}])
@pytest.mark.parametrize("element", [("f4", (3,)), ("i2", (2, 3)), (h5py.string_dtype(), (2,))])
def test_hdf5_array_elements_become_trailing_axes(file, layout, element):
    base, inside = element
    stored = file.create_dataset("a", (4, 5), np.dtype(element), **layout)
    values = np.arange(np.prod((4, 5, *inside))).reshape(4, 5, *inside)
    values = values.astype("S2").astype(object) if np.dtype(base).hasobject else values.astype(base)
    stored[...] = values
    for data in (stored, ndgather.cached(stored)):
        found = ndgather.gather_nd(data, [[3, 4], [0, 1]])
        np.testing.assert_array_equal(found, values[[3, 0], [4, 1]], strict=True)
        found = ndgather.gather(data, [1, 0], axis=-1)
        np.testing.assert_array_equal(found, values[..., [1, 0]], strict=True)
    np.testing.assert_array_equal(ndgather.cached(stored)[1:, ::2], values[1:, ::2], strict=True)
    ndgather.scatter_nd(stored, [[3, 4]], values[:1, 0], out=stored)
    values[3, 4] = values[0, 0]
    np.testing.assert_array_equal(stored[...], values)


@pytest.mark.parametrize("value", [b"hello", "text", 2.5, True, np.arange(3), np.void(b"ab")])
def test_scalar_hdf5_datasets(file, value):
    if isinstance(value, np.ndarray):
        stored = file.create_dataset("a", (), h5py.vlen_dtype(value.dtype))
        stored[()] = value
    else:
        stored = file.create_dataset("a", data=value)
    for found in (
        ndgather.gather_nd(stored, np.zeros((1, 0), int))[0],
        ndgather.cached(stored)[()],
        ndgather.cached(stored)[...][()],
    ):
        np.testing.assert_array_equal(found, stored[()])
        assert type(found) is type(stored[()])


@pytest.mark.parametrize("dtype", ["f4", ">i2", "c16", "?", "S3", "M8[s]"])
@pytest.mark.parametrize("shape", [(), (3,), (300, 7), (20, 30, 40), (2, 0, 5)])
def test_contiguous_hdf5_datasets(tmp_path, shape, dtype):
    """With a user block, and in a file that was renamed."""
    if dtype == "M8[s]":
        dtype = h5py.opaque_dtype(np.dtype(dtype))
    values = np.asarray(np.arange(np.prod(shape)).reshape(shape) % 100).astype(dtype)
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=1024) as file:
        file.create_dataset("before", data=np.full(5, 7))
        file.create_dataset("a", data=values, dtype=dtype)
    every = np.argwhere(np.ones(shape, bool))
    with h5py.File(tmp_path / "a.h5", "r") as file:
        for _ in range(2):
            found = ndgather.gather_nd(file["a"], every)
            np.testing.assert_array_equal(found, values.reshape(-1), strict=True)
            (tmp_path / "a.h5").rename(tmp_path / "b.h5")
            (tmp_path / "a.h5").write_bytes(bytes(100_000))
            (tmp_path / "b.h5").rename(tmp_path / "c.h5")


def test_contiguous_hdf5_datasets_are_flushed_before_reads(tmp_path):
    """Writes through another h5py object that has not flushed, and a truncated file."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = np.zeros(40_000)
    with h5py.File(tmp_path / "a.h5", "r+") as writer, h5py.File(tmp_path / "a.h5", "r") as file:
        for value in (1, 2):
            writer["a"][5] = value
            assert ndgather.gather_nd(file["a"], [[5], [6]]).tolist() == [value, 0]
    with h5py.File(tmp_path / "a.h5", "r") as file:
        os.truncate(tmp_path / "a.h5", 4000)
        with pytest.raises(StoredArrayError, match="4000 bytes"):
            ndgather.gather_nd(file["a"], [[39_999]])


def test_hdf5_caches_see_writes_before_their_first_read(file):
    stored = file.create_dataset("a", data=np.zeros(40_000))
    kept = ndgather.cached(stored)
    assert kept[0] == 0
    stored[39_999] = 7  # h5py has not yet written them to the file
    assert kept[39_999] == 7


def test_few_points_of_contiguous_hdf5_datasets_are_fast(tmp_path):
    """The processor time is about 1.5 loops over the points, and at most 5 on a busy machine."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = np.zeros((3000, 3000), "f4")
    points = np.random.default_rng(0).integers(0, 3000, (300, 2))
    ratios = []
    with h5py.File(tmp_path / "a.h5", "r") as file:
        stored = file["a"]
        while min(ratios, default=5) >= 5 and len(ratios) < 400:  # other work adds time
            began = time.process_time()
            for row, column in points:
                stored[row, column]
            between = time.process_time()
            ndgather.gather_nd(stored, points)
            ratios.append((time.process_time() - between) / (between - began))
    assert min(ratios) < 5


THREADS = """
import sys
import threading

import h5py
import numpy as np

import ndgather

ndgather.set_num_threads(4)
done = False
with h5py.File(sys.argv[1], "w") as file:
    values = np.arange(40_000.0).reshape(200, 200)
    packed = file.create_dataset("packed", data=values, chunks=(5, 20), compression=1)
    plain = file.create_dataset("plain", data=values, chunks=(5, 20))
    every = np.indices(values.shape).reshape(2, -1).T.copy()

    def read():
        while not done:
            assert (plain[50:60, 20:50] == values[50:60, 20:50]).all()

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(10):
        for stored in (packed, plain):
            assert (ndgather.gather_nd(stored, every) == values.ravel()).all()
    done = True
    reader.join()
"""


def test_hdf5_is_used_by_one_thread_at_a_time(tmp_path):
    """This also holds for threads of other code, because the HDF5 library has no locks."""
    command = [sys.executable, "-c", THREADS, str(tmp_path / "a.h5")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_pickled_hdf5_readers_reopen_the_file(file):
    file.create_dataset("group/a", data=VALUES, chunks=(10, 10))
    name = file.filename
    file.close()
    with h5py.File(name) as opened:
        reader = pickle.loads(pickle.dumps(hdf5.reader(opened["group/a"])))
    np.testing.assert_array_equal(reader.read((1, 2), Buffers()), VALUES[10:, 20:])
    reader.array.file.close()


def test_tensorstore_views():
    layout = tensorstore.ChunkLayout(read_chunk_shape=[4, 5], write_chunk_shape=[8, 10])
    stored = tensorstore.open(
        {"driver": "zarr3", "kvstore": "memory://"},
        create=True, dtype=tensorstore.float32, shape=VALUES.shape, chunk_layout=layout,
    ).result()  # fmt: skip
    stored.write(VALUES).result()
    same(stored)
    same(stored[3:18, 7:], VALUES[3:18, 7:])
    same(stored[tensorstore.d[:].transpose[1, 0]], VALUES.T)
    same(stored[tensorstore.d[0][::2]], VALUES[::2])
    same(stored[tensorstore.d[:].translate_to[0]][2:], VALUES[2:])


@pytest.mark.parametrize("shift", [0, 3, -4, 13])
def test_tensorstore_views_have_the_chunks_of_the_store(shift):
    """For any origin of the grid, each chunk is read once and writes replace whole chunks."""
    layout = tensorstore.ChunkLayout(chunk_shape=[7, 10])
    stored = tensorstore.open(
        {"driver": "zarr", "kvstore": "memory://"},
        create=True, dtype=tensorstore.float32, shape=VALUES.shape, chunk_layout=layout,
    ).result()  # fmt: skip
    stored.write(VALUES).result()
    totals = []
    for first in (0, 5):
        view = stored[tensorstore.d[:].translate_by[shift]][shift + first :]
        values = VALUES[first:]
        same(view, values)
        for start in range(7 - first, len(values) - 7, 7):  # all points of a row of chunks
            points = np.argwhere(np.ones((7, 10), bool)) + np.array([start, 10])
            ndgather.gather_nd(view, points, progress=lambda *done: totals.append(done[1]))
    assert {*totals} == {1}


class AdvisedMap(mmap.mmap):
    """A mapping that records calls of `madvise`."""

    given: list

    def madvise(self, advice, *rest):
        self.given.append(advice)
        return super().madvise(advice, *rest)


@pytest.fixture
def mapped(tmp_path):
    """Return a memory-mapped array of 16 MiB and the recorded advice."""
    path = tmp_path / "a.bin"
    values = np.arange(2**22, dtype="f4")
    values.tofile(path)
    with path.open("r+b") as content:
        mapping = AdvisedMap(content.fileno(), 0)
    mapping.given = []
    array = np.ndarray.__new__(np.memmap, (2**11, 2**11), "f4", buffer=mapping)
    return array, mapping.given


def test_few_points_of_memory_maps_use_no_read_ahead(mapped):
    array, given = mapped
    result = ndgather.gather_nd(array, [[1, 2], [2047, 0]])
    assert type(result) is np.ndarray
    assert result.tolist() == [2**11 + 2, 2047 * 2**11]
    assert given == [mmap.MADV_RANDOM, mmap.MADV_NORMAL]
    del given[:]
    with pytest.raises(ndgather.errors.IndexOutOfBoundsError):
        ndgather.gather_nd(array, [[2048, 0]])
    assert given == [mmap.MADV_RANDOM, mmap.MADV_NORMAL]
    del given[:]
    ndgather.gather(array, np.arange(2048), 1)
    assert given == []


def test_scatters_into_memory_maps(mapped, tmp_path):
    array, _ = mapped
    assert ndgather.scatter_nd(array, [[3, 4]], [7], out=array) is array
    assert array[3, 4] == 7
    array.base.flush()
    assert np.fromfile(tmp_path / "a.bin", "f4")[3 * 2048 + 4] == 7


def test_copies_of_memory_maps_are_plain_arrays(mapped):
    array, given = mapped
    np.testing.assert_array_equal(ndgather.gather_nd(array + 1, [[0, 5]]), [6])
    assert given == []


def test_scatters_refuse_variable_length_elements(tmp_path):
    with h5py.File(tmp_path / "vlen.h5", "w") as file:
        stored = file.create_dataset("v", (3,), dtype=h5py.vlen_dtype("i4"))
        stored[0] = np.arange(2, dtype="i4")
        updates = np.array([3.0, None], object)[:1]
        with pytest.raises(DTypeError, match="elements of variable length"):
            ndgather.scatter_nd(stored, [[0]], updates, out=stored)
        assert stored[0].tolist() == [0, 1]


def test_missing_hdf5_chunks_are_filled(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        stored = file.create_dataset("a", (512, 512), "f8", chunks=(128, 128), fillvalue=7)
        points = [[0, 0], [511, 511], [0, 128]]
        np.testing.assert_array_equal(ndgather.gather_nd(stored, points), [7, 7, 7])
        stored[:128, :128] = 1
        np.testing.assert_array_equal(ndgather.gather_nd(stored, points), [1, 7, 7])
