"""Cached arrays against arrays in memory, and the contents and reads of their caches."""

import gc
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray
import zarr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import ndgather
import ndgather.arrays.xarray
from ndgather.errors import (
    AttributeValueError,
    CallError,
    DTypeError,
    IndexOutOfBoundsError,
    StoredArrayError,
)
from ndgather.stored import estimate
from ndgather.stored.chunks import Grid
from tests.stored.cut_array import CutArray

DATA = np.arange(7 * 9 * 11, dtype=np.int32).reshape(7, 9, 11)
CHUNKS = (3, 4, 5)
CHUNK_BYTES = 3 * 4 * 5 * 4


def in_zarr(folder, data=DATA, **options):
    return zarr.create_array(store=folder / "a.zarr", data=data, chunks=CHUNKS, **options)


def sharded(folder, data=DATA):
    return in_zarr(folder, data, shards=(6, 8, 10))


def in_hdf5(folder, data=DATA):
    return h5py.File(folder / "a.h5", "w").create_dataset("a", data=data, chunks=CHUNKS)


def in_tensorstore(folder, data=DATA):
    tensorstore = pytest.importorskip("tensorstore")
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(folder / "t")}}
    layout = tensorstore.ChunkLayout(chunk_shape=CHUNKS)
    array = tensorstore.open(
        spec, create=True, dtype=data.dtype.name, shape=data.shape, chunk_layout=layout
    ).result()
    array[...] = data
    return array


def memory_map(folder, data=DATA):
    np.save(folder / "a.npy", data)
    return np.load(folder / "a.npy", mmap_mode="r+")


def reader_of_ones_own(folder, data=DATA):
    return CutArray(data, Grid.regular(data.shape, CHUNKS))


def uneven_reader(folder, data=DATA):
    return CutArray(data, Grid.of_sizes([(1, 4, 2), (9,), (5, 1, 5)]))


class Indexable:
    """An array that is recognized only by its attributes."""

    def __init__(self, folder, data=DATA):
        self.values, self.shape, self.dtype, self.chunks = data, data.shape, data.dtype, CHUNKS

    def __getitem__(self, key):
        assert all(isinstance(part, slice) for part in key)
        return self.values[key]

    def __setitem__(self, key, values):
        self.values[key] = values


READABLE = [
    *(in_zarr, sharded, in_hdf5, in_tensorstore),
    *(memory_map, reader_of_ones_own, uneven_reader, Indexable),
]
WRITABLE = [in_zarr, sharded, in_hdf5, in_tensorstore, memory_map, Indexable]


@pytest.mark.parametrize("store", READABLE)
def test_all_functions_accept_cached_arrays(store, tmp_path):
    c = ndgather.cached(store(tmp_path))
    rng = np.random.default_rng(0)
    tuples = np.stack([rng.integers(-size, size, 60) for size in DATA.shape], -1)
    for _ in range(2):  # first from the store, then from the cache
        found = [
            ndgather.gather_nd(c, tuples),
            ndgather.gather_nd(c, tuples[:, :1]),
            ndgather.gather_elements(c, np.full((1, 9, 11), 5), 0),
            ndgather.gather(c, [3, -1], axis=1),
            ndgather.gather_windows(c, [[0, 1, 2], [4, 5, 6]], (2, 3, 4)),
        ]
        expected = [
            np.array([DATA[tuple(each)] for each in tuples]),
            np.array([DATA[each[0]] for each in tuples]),
            DATA[5:6],
            DATA[:, [3, -1]],
            np.array([DATA[0:2, 1:4, 2:6], DATA[4:6, 5:8, 6:10]]),
        ]
        for mine, plain in zip(found, expected, strict=True):
            np.testing.assert_array_equal(mine, plain, strict=True)
        values, offsets = ndgather.gather_ranges(c, [1, 4], [3, 7])
        np.testing.assert_array_equal(values, DATA[[1, 2, 4, 5, 6]], strict=True)
        np.testing.assert_array_equal(offsets, [0, 2, 5])
    np.testing.assert_array_equal(np.asarray(c), DATA, strict=True)
    decodes = c.info().decodes
    np.testing.assert_array_equal(c[...], DATA, strict=True)
    assert c.info().decodes == decodes == c.info().chunks


def test_attributes_match_the_array(tmp_path):
    c = ndgather.cached(in_zarr(tmp_path))
    assert (c.shape, c.dtype, c.ndim, c.size, len(c)) == (DATA.shape, DATA.dtype, 3, DATA.size, 7)
    assert c.chunks == CHUNKS
    assert "a.zarr" in repr(c)
    assert ndgather.cached(uneven_reader(tmp_path)).chunks == ((1, 4, 2), (9,), (5, 1, 5))
    assert ndgather.cached(sharded(tmp_path / "b")).chunks == CHUNKS
    np.testing.assert_array_equal(np.concatenate([c, c]), np.concatenate([DATA, DATA]))
    np.testing.assert_array_equal(np.add(c, 1), DATA + 1)
    with pytest.raises(ValueError, match="copy = False requires data in memory"):
        c.__array__(copy=False)


INDEXED = ndgather.cached(zarr.create_array(store={}, data=DATA, chunks=CHUNKS))


@given(hnp.basic_indices(DATA.shape, allow_newaxis=True))
def test_basic_indexing_matches_numpy(key):
    np.testing.assert_array_equal(INDEXED[key], DATA[key], strict=True)
    assert type(INDEXED[key]) is type(DATA[key])


@st.composite
def advanced_keys(draw):
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=2, max_side=3))
    key = []
    for size in DATA.shape:
        kind = draw(st.sampled_from(["array", "slice", "number", "mask", "new"]))
        if kind == "array":
            ones = draw(st.booleans())
            part = tuple(1 for _ in shape) if ones else shape
            key.append(draw(hnp.arrays(np.int64, part, elements=st.integers(-size, size - 1))))
        elif kind == "number":
            key.append(draw(st.integers(-size, size - 1)))
        elif kind == "mask":
            key.append(np.arange(size) % draw(st.integers(1, size)) == 0)
        else:
            key.append(draw(st.slices(size)))
            key.extend([None] * (kind == "new"))
    return tuple(key)


@given(advanced_keys())
def test_index_arrays_match_numpy(key):
    try:
        expected = DATA[key]
    except IndexError:
        with pytest.raises(IndexError):
            INDEXED[key]
    else:
        np.testing.assert_array_equal(INDEXED[key], expected, strict=True)


@pytest.mark.parametrize(
    "key",
    [
        *(7, (0, 0, 0, 0), (..., ...), [7], [0.5], np.ones((7, 8), bool), "name"),
        *(([0, 1], [0, 1, 2]), np.array([2**63], np.uint64)),
    ],
)
def test_invalid_keys_raise(key):
    with pytest.raises(IndexError):
        INDEXED[key]


def test_each_chunk_is_decoded_once_and_calls_count_chunks():
    source = CutArray(DATA, Grid.regular(DATA.shape, CHUNKS))
    c = ndgather.cached(source)
    points = [[0, 0, 0], [1, 1, 1], [6, 8, 10]]
    for _ in range(3):
        ndgather.gather_nd(c, points)
    info = c.info()
    assert (info.misses, info.hits, info.decodes, info.evictions) == (2, 4, 2, 0)
    assert len(source.reads) == 2
    c.clear()
    assert c.info() == ndgather.cached(source).info()
    ndgather.gather_nd(c, points)
    assert len(source.reads) == 4


@pytest.mark.parametrize("is_regular", [True, False])
def test_least_recently_used_chunk_is_evicted_first(is_regular):
    cut = [(3, 3, 1), (4, 4, 1), (5, 4, 2)]  # regular chunks, except along the last axis
    grid = Grid.regular(DATA.shape, CHUNKS) if is_regular else Grid.of_sizes(cut)
    source = CutArray(DATA, grid)
    c = ndgather.cached(source, memory=2 * CHUNK_BYTES)
    for column in (0, 5, 0, 10, 0, 5):  # chunks 0, 1 and, smaller, 2 along the last axis
        assert ndgather.gather_nd(c, [[0, 0, column]])[0] == column
    assert source.reads == [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 0, 1)]
    assert c.info().evictions == 2
    assert c.info().bytes <= 2 * CHUNK_BYTES


@pytest.mark.parametrize("shards", [None, (128, 128, 128)])
def test_loops_over_slabs_decode_each_chunk_once(tmp_path, shards):
    data = np.arange(150 * 100 * 70, dtype="f4").reshape(150, 100, 70)
    chunks = (64, 64, 64)
    z = zarr.create_array(store=tmp_path / "s", data=data, chunks=chunks, shards=shards)
    c = ndgather.cached(z, memory="8 MiB")  # the chunks touched by a slab that crosses an edge
    for row in range(0, 150, 6):
        np.testing.assert_array_equal(c[row : row + 6], data[row : row + 6])
    assert c.info().decodes == 3 * 2 * 2
    assert c.info().evictions > 0


def test_chunks_larger_than_the_budget_are_not_cached():
    c = ndgather.cached(CutArray(DATA, Grid.regular(DATA.shape, CHUNKS)), memory=10)
    for _ in range(2):
        assert ndgather.gather_nd(c, [[1, 1, 1]])[0] == DATA[1, 1, 1]
    assert (c.info().chunks, c.info().bytes, c.info().decodes) == (0, 0, 2)


def test_arrays_share_a_budget(tmp_path):
    cache = ndgather.ChunkCache(3 * CHUNK_BYTES)
    arrays = [
        ndgather.cached(CutArray(DATA + n, Grid.regular(DATA.shape, CHUNKS)), cache=cache)
        for n in range(3)
    ]
    for n, c in enumerate(arrays):
        np.testing.assert_array_equal(c[...], DATA + n)
        assert cache.info().bytes <= 3 * CHUNK_BYTES
    assert cache.info().decodes == sum(c.info().decodes for c in arrays)
    arrays[0][0, 0, 0]
    arrays[1][0, 0, 0]
    cache.clear()
    assert cache.info().chunks == cache.info().bytes == 0
    arrays[0][0, 0, 0]
    del arrays, c
    gc.collect()
    assert cache.info().bytes == 0
    with pytest.raises(CallError, match="one of them"):
        ndgather.cached(DATA, memory="1 MiB", cache=cache)


@pytest.mark.parametrize("wrong", [DATA, [1, 2], None, INDEXED])
def test_objects_that_are_not_stored_are_refused(wrong):
    text = f"cached: array = {type(wrong).__name__} object is not stored"
    with pytest.raises(DTypeError, match=text):
        ndgather.cached(wrong)


@pytest.mark.parametrize("path", ["era.zarr/t2m", Path("era.zarr/t2m")])
def test_paths_are_refused(path):
    text = r"array = 'era.zarr/t2m' is not opened automatically"
    with pytest.raises(DTypeError, match=f"cached: {text}"):
        ndgather.cached(path)
    with pytest.raises(DTypeError, match=f"estimate: {text.replace('array', 'data', 1)}"):
        estimate("gather_nd", path, [[0]])


@pytest.mark.parametrize("memory", ["many", -1, None, 1.5])
def test_invalid_memory_is_refused(memory):
    with pytest.raises(AttributeValueError, match=r"ChunkCache: memory ="):
        ndgather.cached(reader_of_ones_own(None), memory=memory)


def test_closed_arrays_raise(tmp_path):
    with ndgather.cached(in_zarr(tmp_path)) as c:
        assert c[0, 0, 1] == 1
    assert c.info().chunks == 0
    for call in (lambda: c[0], lambda: ndgather.gather_nd(c, [[0, 0, 0]])):
        with pytest.raises(AttributeValueError, match="closed"):
            call()


@pytest.mark.parametrize("store", WRITABLE)
@pytest.mark.parametrize("reduction", ["none", "add"])
def test_scatters_update_store_and_cache(store, reduction, tmp_path):
    expected = DATA.copy()
    array = store(tmp_path, DATA.copy())
    c = ndgather.cached(array)
    rng = np.random.default_rng(1)
    for round_ in range(4):
        if round_ > 0:
            c[rng.integers(0, 7) :]
        tuples = np.stack([rng.integers(0, size, 20) for size in DATA.shape], -1)
        updates = rng.integers(0, 99, 20).astype(np.int32)
        for where, update in zip(tuples, updates, strict=True):
            old = expected[tuple(where)] if reduction == "add" else 0
            expected[tuple(where)] = old + update
        assert ndgather.scatter_nd(c, tuples, updates, reduction=reduction, out=c) is c
        np.testing.assert_array_equal(c[...], expected)
        np.testing.assert_array_equal(ndgather.cached(array)[...], expected)


def test_failed_writes_drop_cached_chunks():
    class Failing(Indexable):
        fails = False

        def __getitem__(self, key):
            return super().__getitem__(key).copy()

        def __setitem__(self, key, values):
            super().__setitem__(key, values + 1)
            if self.fails:
                raise OSError("the disk is full")

    array = Failing(None, DATA.copy())
    c = ndgather.cached(array)
    np.testing.assert_array_equal(c[...], DATA)
    array.fails = True
    with pytest.raises(StoredArrayError, match="disk is full"):
        ndgather.scatter_nd(c, [[0, 0, 0]], np.array([50], np.int32), out=c)
    assert c[0, 0, 0] == array.values[0, 0, 0] == 51


def test_chunks_written_during_a_read_are_not_cached():
    begun, changed = threading.Event(), threading.Event()

    class Slow(Indexable):
        def __getitem__(self, key):
            values = super().__getitem__(key).copy()
            if not begun.is_set():
                begun.set()
                changed.wait(60)
            return values

    c = ndgather.cached(Slow(None, DATA.copy()))
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(ndgather.gather_nd, c, [[0, 0, 0]])
        assert begun.wait(60)
        ndgather.scatter_nd(c, [[0, 0, 0]], np.array([50], np.int32), out=c)
        changed.set()
        assert reading.result()[0] in {DATA[0, 0, 0], 50}
    assert ndgather.gather_nd(c, [[0, 0, 0]])[0] == c[0, 0, 0] == 50


def test_chunks_as_large_as_the_budget_are_cached():
    source = CutArray(DATA, Grid.regular(DATA.shape, CHUNKS))
    for memory, kept in ((CHUNK_BYTES, 1), (CHUNK_BYTES - 1, 0)):
        c = ndgather.cached(source, memory=memory)
        for _ in range(2):
            ndgather.gather_nd(c, [[0, 0, 0]])
        assert (c.info().chunks, c.info().decodes) == (kept, 2 - kept)


@pytest.mark.parametrize("what", ["dtype", "chunks", "shape"])
def test_clear_shows_a_replaced_array(what):
    array = Indexable(None, DATA)
    c = ndgather.cached(array)
    np.testing.assert_array_equal(c[...], DATA)
    if what == "dtype":
        array.values, array.dtype = DATA.astype("f8") / 2, np.dtype("f8")
    elif what == "shape":
        array.values, array.shape = DATA[:, :5], (*DATA.shape[:1], 5, *DATA.shape[2:])
    else:
        array.chunks = (2, 3, 4)
    c.clear()
    assert (c.shape, c.dtype, c.chunks) == (array.values.shape, array.values.dtype, array.chunks)
    np.testing.assert_array_equal(c[...], array.values, strict=True)
    last = np.array([array.values.shape]) - 1
    assert ndgather.gather_nd(c, last)[0] == array.values[-1, -1, -1]


def test_read_errors_reach_all_waiting_threads_and_are_not_cached():
    source = CutArray(DATA, Grid.regular(DATA.shape, CHUNKS))
    source.fails_at = (0, 0, 0)
    c = ndgather.cached(source)
    ready = threading.Barrier(8)
    plain = source.read

    def slow(chunk, buffers):
        time.sleep(0.05)
        return plain(chunk, buffers)

    source.read = slow

    def ask(_):
        ready.wait()
        with pytest.raises(StoredArrayError, match="a damaged chunk"):
            ndgather.gather_nd(c, [[0, 0, 0]])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))
    assert 1 <= len(source.reads) <= 8
    assert c.info().chunks == c.info().decodes == 0
    source.fails_at = None
    assert ndgather.gather_nd(c, [[0, 0, 3]])[0] == 3


def test_threads_decode_each_chunk_once():
    source = CutArray(DATA, Grid.regular(DATA.shape, CHUNKS))
    c = ndgather.cached(source)
    ready = threading.Barrier(16)

    def ask(seed):
        rng = np.random.default_rng(seed)
        tuples = np.stack([rng.integers(0, size, 500) for size in DATA.shape], -1)
        ready.wait()
        np.testing.assert_array_equal(ndgather.gather_nd(c, tuples), DATA[tuple(tuples.T)])

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, range(16)))
    assert sorted(source.reads) == sorted(set(source.reads))
    assert c.info().decodes == c.info().chunks == len(source.reads)


def drawn_call(c, rng):
    """Make a call of some kind; return its result and the expected result."""
    shape = [max(1, size // rng.integers(1, 6)) for size in DATA.shape]
    tuples = np.stack([rng.integers(0, size, 5) for size in shape], -1)
    rows = tuples[:, 0]
    match rng.integers(12):
        case 0:
            return ndgather.gather(c, rows), DATA[rows]
        case 1:
            return c[rows[0] :, ::2], DATA[rows[0] :, ::2]
        case 2:
            c.prefetch(tuples)
    return ndgather.gather_nd(c, tuples), DATA[tuple(tuples.T)]


def test_concurrent_evictions_and_failures():
    grid = Grid.regular(DATA.shape, CHUNKS)
    source = CutArray(DATA, grid)
    c = ndgather.cached(source, memory=4 * CHUNK_BYTES)
    plain, errors = source.read, [0]

    def failing(chunk, buffers):
        if threading.get_native_id() % 7 == len(source.reads) % 7:
            errors[0] += 1
            raise ValueError("a failing request")
        return plain(chunk, buffers)

    source.read = failing
    calls = int(os.environ.get("NDGATHER_STRESS_CALLS", "400")) // 16

    def ask(seed):
        rng = np.random.default_rng(seed)
        for _ in range(calls):
            try:
                found, expected = drawn_call(c, rng)
            except StoredArrayError:
                continue
            np.testing.assert_array_equal(found, expected)
            assert c.info().bytes <= 4 * CHUNK_BYTES
            if seed == 3:
                c.clear()

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, range(16)))
    assert errors[0] > 0
    source.read = plain
    np.testing.assert_array_equal(c[...], DATA)
    assert c.info().bytes <= 4 * CHUNK_BYTES


def test_concurrent_scatters_and_gathers_end_with_the_values_of_the_store(tmp_path):
    z = sharded(tmp_path, np.zeros_like(DATA))
    c = ndgather.cached(z, memory=8 * CHUNK_BYTES)
    tuples = np.argwhere(DATA >= 0)
    stop = threading.Event()

    def watch():
        while not stop.is_set():
            values = ndgather.gather_nd(c, tuples[::7])
            assert values.min() >= 0

    with ThreadPoolExecutor(4) as pool:
        watching = [pool.submit(watch) for _ in range(3)]
        for _ in range(5):
            ndgather.scatter_nd(c, tuples, np.ones(len(tuples), np.int32), reduction="add", out=c)
        stop.set()
        for each in watching:
            each.result()
    np.testing.assert_array_equal(c[...], np.full_like(DATA, 5))
    np.testing.assert_array_equal(z[...], np.full_like(DATA, 5))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_forked_children_start_with_empty_caches(tmp_path):
    c = ndgather.cached(sharded(tmp_path))
    np.testing.assert_array_equal(c[...], DATA)
    c.cache._lock.acquire()  # another thread may hold the lock when the process forks
    child = os.fork()
    if child == 0:
        empty = c.info().chunks == c.info().bytes == 0
        same = np.array_equal(c[...], DATA) and ndgather.gather_nd(c, [[0, 0, 3]])[0] == 3
        os._exit(0 if empty and same and c.info().decodes == 27 else 1)
    c.cache._lock.release()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert c.info().chunks == 27


def test_unpickled_arrays_have_their_own_cache(tmp_path):
    cache = ndgather.ChunkCache("1 MiB")
    a, b = (ndgather.cached(in_zarr(tmp_path / str(n)), cache=cache) for n in range(2))
    assert a[0, 0, 1] == 1
    a, b = pickle.loads(pickle.dumps((a, b)))
    assert a.cache is b.cache
    assert a.cache.memory == 2**20
    assert a.info().chunks == 0
    np.testing.assert_array_equal(a[...], DATA)


def test_executors_read_without_the_cache(tmp_path):
    c = ndgather.cached(in_zarr(tmp_path))
    with ThreadPoolExecutor(2) as pool:
        found = ndgather.gather_nd(c, [[0, 0, 0], [6, 8, 10]], executor=pool)
    np.testing.assert_array_equal(found, [0, DATA.size - 1])
    done = []
    ndgather.gather_nd(c, [[0, 0, 0], [6, 8, 10]], progress=lambda *numbers: done.append(numbers))
    assert done[-1] == (2, 2)


def test_prefetch_reads_chunks_of_future_calls():
    source = CutArray(DATA, Grid.regular(DATA.shape, CHUNKS))
    c = ndgather.cached(source)
    assert c.prefetch([[0, 0, 0], [6, 8, 10], [99, 0, 0]]).result() == 2
    reads = list(source.reads)
    found = ndgather.gather_nd(c, [[0, 0, 0], [6, 8, 10]])
    np.testing.assert_array_equal(found, [0, DATA.size - 1])
    assert source.reads == reads
    coming = (np.array([[row, 0, 0]]) for row in range(7))
    assert c.prefetch(coming).result() == 2
    assert c.prefetch([np.array([[0, 4, 0]]), np.array([[0, 0, 5]])]).result() == 2
    assert c.prefetch([[0, 0, 0]], window_shape=(7, 9, 11)).result() == 27 - 6
    source.fails_at = (0, 0, 0)
    c.clear()
    with pytest.raises(StoredArrayError, match="prefetch: chunk"):
        c.prefetch([[0, 0, 0]]).result()
    source.fails_at = None
    assert c[0, 0, 3] == 3


def test_prefetch_is_bounded_by_the_budget():
    c = ndgather.cached(CutArray(DATA, Grid.regular(DATA.shape, CHUNKS)), memory=5 * CHUNK_BYTES)
    assert c.prefetch([[0, 0, 0]], window_shape=DATA.shape).result() >= 5
    assert c.info().evictions == 0
    assert c.info().bytes <= 5 * CHUNK_BYTES


def test_prefetch_budget_covers_all_calls():
    c = ndgather.cached(CutArray(DATA, Grid.regular(DATA.shape, CHUNKS)), memory=2 * CHUNK_BYTES)
    coming = [np.array([[0, 0, column]]) for column in (0, 5, 0, 5)]
    coming += [np.array([[0, 4, 0]]), np.array([[3, 0, 0]])]
    assert c.prefetch(coming).result() == 2
    assert (c.info().chunks, c.info().evictions) == (2, 0)
    ndgather.gather_nd(c, coming[0]), ndgather.gather_nd(c, coming[1])
    assert c.info().decodes == 2


def test_xarray_and_estimate_accept_cached_arrays(tmp_path):
    source = CutArray(DATA, Grid.regular(DATA.shape, CHUNKS))
    c = ndgather.cached(source)
    array = xarray.DataArray(c, {"y": np.arange(9.0), "t": range(7)}, dims=("t", "y", "x"))
    assert source.reads == []
    there = {"y": xarray.DataArray([2.2, 7.9], dims="p"), "t": xarray.DataArray([1, 2], dims="p")}
    expected = DATA[[1, 2], [2, 8]]
    np.testing.assert_array_equal(
        array.sel(y=there["y"], method="nearest")[:, 0].values, DATA[:, 2]
    )
    np.testing.assert_array_equal(array.isel(t=there["t"], y=("p", [2, 8])).values, expected)
    found = array.ndgather.sel(there, method="nearest")
    np.testing.assert_array_equal(found.values, expected)
    decodes = c.info().decodes
    np.testing.assert_array_equal(array.ndgather.sel(there, method="nearest").values, expected)
    named = ndgather.gather_nd(array, [[1, 2, 3]])
    assert isinstance(named, xarray.DataArray)
    assert c.info().decodes == decodes
    found = estimate("gather_nd", c, [[0, 0, 0], [6, 8, 10]])
    assert (found.points, found.chunks) == (2, 2)


@pytest.mark.parametrize("store", [in_zarr, sharded, in_hdf5])
@pytest.mark.parametrize("all_arrays", [False, True])
def test_clear_shows_a_new_shape(store, all_arrays, tmp_path):
    cache = ndgather.ChunkCache()
    if store is in_hdf5:
        file = h5py.File(tmp_path / "a.h5", "w")
        array = file.create_dataset("a", data=DATA, chunks=CHUNKS, maxshape=(None, None, None))
    else:
        array = store(tmp_path)
    c = ndgather.cached(array, cache=cache)
    assert ndgather.gather_nd(c, [[6, 8, 10]]) == DATA[6, 8, 10]
    clear = cache.clear if all_arrays else c.clear
    array.resize((12, 9, 11))
    array[7:] = 5
    clear()
    for _ in range(2):
        assert c.shape == (12, 9, 11)
        assert ndgather.gather_nd(c, [[11, 8, 10], [6, 8, 10]]).tolist() == [5, DATA[6, 8, 10]]
        assert ndgather.gather(c, [11], axis=0).shape == (1, 9, 11)
        np.testing.assert_array_equal(c[...], array[...])
    assert c.info().decodes == 4 * 3 * 3
    array.resize((2, 9, 11))
    clear()
    assert c.shape == (2, 9, 11)
    with pytest.raises(IndexOutOfBoundsError, match="size 2"):
        ndgather.gather_nd(c, [[2, 0, 0]])
    with pytest.raises(IndexOutOfBoundsError, match="size 2"):
        ndgather.gather(c, [2], axis=0)
    np.testing.assert_array_equal(c[...], DATA[:2])
    ndgather.scatter_nd(c, [[1, 8, 10]], [-3], out=c)
    assert c[1, 8, 10] == array[1, 8, 10] == -3
    c.close()
    assert c.shape == (2, 9, 11)


def appended(store, folder):
    """Return an array, and a function that appends to it through another object."""
    place = str(folder / "a")
    if store == "hdf5":
        file = h5py.File(place, "w", libver="latest")
        array = file.create_dataset("a", data=DATA, chunks=CHUNKS, maxshape=(None, 9, 11))
        file.swmr_mode = True

        def append(values):
            array.resize(len(array) + len(values), axis=0)
            array[-len(values) :] = values
            array.flush()

        return h5py.File(place, "r", libver="latest", swmr=True)["a"], append
    if store.startswith("tensorstore"):
        tensorstore = pytest.importorskip("tensorstore")
        spec = {"driver": store.partition(" ")[2], "kvstore": f"file://{place}"}
        opened = tensorstore.open(spec, create=True, dtype=tensorstore.int32, shape=DATA.shape)
        opened.result().write(DATA).result()

        def append(values):
            array = tensorstore.open(spec, context=tensorstore.Context()).result()
            before = array.shape[0]
            array = array.resize(exclusive_max=[before + len(values), 9, 11]).result()
            array[before:].write(values).result()

        return tensorstore.open(spec, context=tensorstore.Context()).result(), append
    layout = {"shards": {"shards": (4, 8, 12)}, "zarr 2": {"zarr_format": 2}}.get(store, {})
    zarr.create_array(place, data=DATA, chunks=(2, 4, 6), **layout)
    mode = "r" if store == "read-only" else "r+"
    return zarr.open_array(place, mode=mode), lambda new: zarr.open_array(place).append(new)


@pytest.mark.parametrize(
    "store",
    ["zarr 2", "zarr 3", "shards", "read-only", "hdf5", "tensorstore zarr", "tensorstore zarr3"],
)
def test_clear_shows_appended_data(store, tmp_path):
    array, append = appended(store, tmp_path)
    expected = DATA
    c = ndgather.cached(array)
    for count in (1, 5, 8):
        np.testing.assert_array_equal(c[...], expected)
        assert ndgather.gather_nd(c, [[len(expected) - 1, 8, 10]]) == expected[-1, 8, 10]
        new = np.full((count, 9, 11), count, np.int32)
        append(new)
        expected = np.concatenate([expected, new])
        assert c.shape[0] == len(expected) - count
        c.clear()
        assert c.shape == expected.shape
    rows = np.arange(len(expected))
    np.testing.assert_array_equal(ndgather.gather(c, rows), expected, strict=True)
    if "zarr" in store:
        ndgather.scatter_nd(c, [[len(expected) - 1, 8, 10]], np.int32([-5]), out=c)
        assert c[-1, 8, 10] == -5


@pytest.mark.parametrize("stored", [False, True])
def test_clear_keeps_the_configuration_of_a_zarr_array(stored):
    """It says whether chunks that contain only the fill value are stored."""
    store = {}
    config = {"write_empty_chunks": stored}
    z = zarr.create_array(store, shape=(4,), chunks=(2,), dtype="i4", fill_value=0, config=config)
    c = ndgather.cached(z)
    c.clear()
    ndgather.scatter_nd(c, [[3]], np.array([0], np.int32), out=c)
    assert ("c/1" in store, "c/0" in store) == (stored, False)


def test_deleted_stores_raise_after_clear(tmp_path):
    c = ndgather.cached(in_zarr(tmp_path))
    assert c[0, 0, 0] == DATA[0, 0, 0]
    shutil.rmtree(tmp_path)
    c.clear()
    with pytest.raises(StoredArrayError, match="cannot be opened again"):
        ndgather.gather_nd(c, [[0, 0, 0]])
    c.close()


def test_other_dtypes(tmp_path):
    for dtype in ("S3", "<U2", ">f4", "c16", "M8[s]", "?"):
        data = np.arange(60).reshape(6, 10).astype(dtype)
        c = ndgather.cached(CutArray(data, Grid.regular(data.shape, (4, 4))))
        for _ in range(2):
            np.testing.assert_array_equal(
                ndgather.gather_nd(c, [[5, 9], [0, 3]]), data[[5, 0], [9, 3]]
            )
    names = h5py.File(tmp_path / "n.h5", "w").create_dataset(
        "n", data=np.array(["a", "bb"] * 3, object), chunks=(4,), dtype=h5py.string_dtype()
    )
    c = ndgather.cached(names)
    for _ in range(2):
        np.testing.assert_array_equal(ndgather.gather_nd(c, [[5], [0]]), [b"bb", b"a"])


@pytest.mark.parametrize("shape", [(), (0, 4), (5,)])
def test_rank_0_and_empty_arrays(shape):
    data = np.ones(shape, "i2")
    c = ndgather.cached(CutArray(data, Grid.regular(shape, shape)))
    np.testing.assert_array_equal(c[...], data, strict=True)
    found = ndgather.gather_nd(c, np.zeros((2, 0), int))
    np.testing.assert_array_equal(found, np.stack([data, data]), strict=True)
    if shape:
        assert len(c) == shape[0]
    else:
        with pytest.raises(TypeError, match="array of rank 0"):
            len(c)


PEAK = """
import threading
from pathlib import Path

import numpy as np

import ndgather
from ndgather.stored.chunks import Grid

MIB = 1 << 20

class Virtual:
    name, dtype, in_flight = "virtual", np.dtype("f4"), 1
    grid = Grid.regular((1024, 1024, 256), (128, 128, 64))
    chunk_bytes = stored_bytes = 4 * MIB

    def read(self, chunk, buffers):
        memory = buffers.decoded(self.chunk_bytes)
        memory[:] = chunk[0]
        return memory.view(self.dtype).reshape(128, 128, 64)

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) << 10

ndgather.set_num_threads(2)
c = ndgather.cached(Virtual(), memory=64 * MIB)
ndgather.gather_nd(c, [[0, 0, 0]])
before = peak()

def work(seed):
    rng = np.random.default_rng(seed)
    for _ in range(25):
        tuples = np.stack([rng.integers(0, size, 8) for size in c.shape], -1)
        expected = (tuples[:, 0] // 128).astype("u1").repeat(4).view("f4")
        assert (ndgather.gather_nd(c, tuples) == expected).all()

threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
assert c.info().evictions > 50
# The budget, and what `estimate` says of a call, for each of four calls at once. Nearly all of it
# is used, so half as much again is allowed. Without a budget, the chunks would take 1024 MiB.
call = 2 * (4 + 4) + 2 * 4 + 16
assert peak() - before <= 1.5 * (64 + 4 * call) * MIB, (peak() - before) / MIB
print((peak() - before) // MIB)
"""


@pytest.mark.plain
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells the peak")
def test_peak_memory_stays_within_the_budget():
    child = subprocess.run(
        [sys.executable, "-c", PEAK], check=False, capture_output=True, text=True
    )
    assert child.returncode == 0, child.stderr
    assert int(child.stdout) >= 32


def test_errors_leave_arrays_with_views_unchanged():
    class Views:
        shape, dtype = (2, 3), np.dtype("f8")

        def __init__(self):
            self.values = np.arange(6.0).reshape(2, 3)

        def __getitem__(self, key):
            return self.values[key]

        def __setitem__(self, key, values):
            raise OSError("full")

    array = Views()
    cached = ndgather.cached(array)
    for reduction in ("none", "add", "mean"):
        with pytest.raises(StoredArrayError, match="full"):
            ndgather.scatter_nd(cached, [[0, 1]], [9.0], reduction=reduction, out=cached)
        assert array.values.tolist() == [[0, 1, 2], [3, 4, 5]]
