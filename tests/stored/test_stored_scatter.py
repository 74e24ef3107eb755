"""Scatters into stored arrays against plain loops, bit for bit."""

import re
import threading
import tracemalloc
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from multiprocessing import get_context

import numpy as np
import pytest
import tensorstore
import zarr

import ndgather
from ndgather.errors import (
    AttributeValueError,
    DTypeError,
    IndexOutOfBoundsError,
    ShapeError,
    StoredArrayError,
)
from tests.definitions.calls import (
    assert_same_elements,
)

REDUCTIONS = ("none", "add", "sub", "mul", "min", "max", "mean")


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("workers", [1, 3])
def test_many_duplicate_indices_have_the_bits_of_calls_in_memory(reduction, workers):
    rng = np.random.default_rng(0)
    data = rng.standard_normal((40, 30, 4)).astype("f4")
    indices = rng.integers(-8, 8, (50_000, 2))
    updates = rng.standard_normal((50_000, 4)).astype("f4")
    stored = zarr.create_array({}, data=data, chunks=(16, 7, 3))
    desired = ndgather.scatter_nd(data, indices, updates, reduction=reduction)
    before = ndgather.get_num_threads()
    ndgather.set_num_threads(workers)
    try:
        ndgather.scatter_nd(stored, indices, updates, reduction=reduction, out=stored)
    finally:
        ndgather.set_num_threads(before)
    assert_same_elements(stored[...], desired)


def test_untouched_chunks_are_not_written():
    store = {}
    stored = zarr.create_array(store, shape=(40, 40), chunks=(10, 10), dtype="f4", fill_value=7)
    before = set(store)
    ndgather.scatter_nd(stored, [[0, 0], [35, 5]], np.float32([1, 2]), reduction="add", out=stored)
    assert set(store) - before == {"c/0/0", "c/3/0"}
    assert (stored[0, 0], stored[35, 5], stored[1, 1], stored[20, 20]) == (8, 9, 7, 7)


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@pytest.mark.parametrize("layout", [{"zarr_format": 2}, {}, {"shards": (4,)}], ids=str)
@pytest.mark.parametrize(
    "dtype",
    ["f2", "f4", "f8", "c8", "c16", [("x", "f4")], [("n", "i2"), ("z", "c8")]],
    ids=str,
)
def test_chunk_of_zeros_keeps_a_negative_zero(dtype, layout):
    """By default, zarr does not write a chunk that equals the fill value."""
    if isinstance(dtype, list) and "shards" in layout:
        return  # zarr has no shards of records
    stored = zarr.create_array({}, shape=(6,), chunks=(2,), dtype=dtype, fill_value=0, **layout)
    wanted = np.zeros(6, dtype)
    for part in [wanted[name] for name in wanted.dtype.names or ()] or [wanted]:
        part[1] = np.negative(part[1])
    ndgather.scatter_nd(stored, [[1]], wanted[1:2], out=stored)
    assert stored[...].tobytes() == wanted.tobytes()


@pytest.mark.parametrize("count", range(2, 5))
def test_elements_without_an_update_are_kept_however_many_updates_a_chunk_has(count):
    """A chunk is not read before it is replaced if every element has an update."""
    data = np.array([10, 20, 30])
    stored = zarr.create_array({}, data=data, chunks=(3,))
    for places in product(range(3), repeat=count):
        stored[...] = wanted = data.copy()
        for number, place in enumerate(places):
            wanted[place] = number
        updates = np.arange(count)
        ndgather.scatter_nd(stored, np.array(places)[:, np.newaxis], updates, out=stored)
        assert stored[...].tolist() == wanted.tolist(), places


def test_shards_are_replaced_as_a_whole():
    data = np.arange(64.0).reshape(8, 8)
    store = {}
    stored = zarr.create_array(store, data=data, chunks=(2, 2), shards=(4, 4))
    before = dict(store)
    ndgather.scatter_elements(stored, [[0] * 8], np.ones((1, 8)), reduction="add", out=stored)
    data[0] += 1
    np.testing.assert_array_equal(stored[...], data)
    changed = {key for key in store if store[key] is not before.get(key)}
    assert changed == {"c/0/0", "c/0/1"}


@dataclass(frozen=True)
class Fails:
    """A user's store that fails after some reads or writes of chunks."""

    chunks: int
    reading: bool


class FailingStore(zarr.storage.MemoryStore):
    """Fails to read or write chunks after some of them have succeeded."""

    fails = None

    async def get(self, key, prototype, byte_range=None):
        if self.fails and "c/" in key and self.fails.reading:
            self._count()
        return await super().get(key, prototype, byte_range)

    async def set(self, key, value, byte_range=None):
        if self.fails and "c/" in key and not self.fails.reading:
            self._count()
        return await super().set(key, value, byte_range)

    def set_sync(self, key, value):  # of zarr 3.4
        if self.fails and "c/" in key and not self.fails.reading:
            self._count()
        super().set_sync(key, value)

    def _count(self):
        object.__setattr__(self, "fails", replace(self.fails, chunks=self.fails.chunks - 1))
        if self.fails.chunks < 0:
            raise OSError(28, "No space left on device")


@pytest.mark.parametrize("reading", [True, False])
@pytest.mark.parametrize("chunks", [0, 2])
def test_errors_report_written_chunks(reading, chunks):
    data = np.zeros((8, 8), "i4")
    store = FailingStore()
    stored = zarr.create_array(store, data=data, chunks=(4, 4))
    object.__setattr__(store, "fails", Fails(chunks, reading))
    everywhere, ones = np.argwhere(data == 0), np.ones(64, "i4")
    before = threading.active_count(), ndgather.get_num_threads()
    ndgather.set_num_threads(1)
    try:
        with pytest.raises(StoredArrayError, match="no space left") as caught:
            ndgather.scatter_nd(stored, everywhere, ones, reduction="add", out=stored)
    finally:
        ndgather.set_num_threads(before[1])
    error = caught.value
    assert threading.active_count() == before[0]
    assert len(error.written) == chunks
    assert f"{chunks or 'none'} of the 4 updated chunks" in error.__notes__[0]
    assert isinstance(error.__cause__, OSError)
    object.__setattr__(store, "fails", None)
    desired = data.copy()
    for row, column in error.written:
        desired[4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = 1
        assert f"({row}, {column})" in error.__notes__[0]
    np.testing.assert_array_equal(stored[...], desired)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"out": None}, AttributeValueError, "write out=data"),
        ({"out": np.zeros((4, 5))}, AttributeValueError, "write out=data"),
        ({"indices": [[0, 0], [9, 0]]}, IndexOutOfBoundsError, "indices[1, 0] = 9"),
        ({"indices": [[0.5, 0], [0, 0]]}, DTypeError, "indices.dtype"),
        ({"updates": [1, 2, 3]}, ShapeError, "updates.shape = (3,)"),
        ({"updates": np.zeros(2, "i4")}, DTypeError, "updates.dtype = int32"),
        ({"reduction": "sum"}, AttributeValueError, "write 'add'"),
        ({"mode": "fill"}, AttributeValueError, "mode = 'fill' is unknown"),
        ({"memory": 10}, AttributeValueError, "memory = 10 bytes is too small"),
    ],
)
def test_refused_calls_leave_the_array_unchanged(options, error, text):
    data = np.arange(20.0).reshape(4, 5)
    stored = zarr.create_array({}, data=data, chunks=(2, 2))
    good = {"indices": [[0, 0], [3, 4]], "updates": [1.0, 2.0], "out": stored}
    with pytest.raises(error) as caught:
        ndgather.scatter_nd(stored, **(good | options))
    assert text in str(caught.value)
    assert str(caught.value).startswith("scatter_nd: ")
    np.testing.assert_array_equal(stored[...], data)


def test_read_only_arrays_are_refused(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=np.zeros(4), chunks=(2,))
    stored = zarr.open_array(tmp_path / "a.zarr", mode="r")
    with pytest.raises(AttributeValueError, match="scatter_nd: out is read-only"):
        ndgather.scatter_nd(stored, [[0]], [1.0], out=stored)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_executors(reduction, processes):
    rng = np.random.default_rng(0)
    data = rng.standard_normal((20, 15, 4)).astype(">f4")
    indices, updates = rng.integers(0, 15, (500, 2)), rng.standard_normal((500, 4))
    updates = updates.astype(">f4")
    stored = zarr.create_array({}, data=data, chunks=(8, 7, 3))
    options = {"reduction": reduction, "use_init_val": reduction in ("none", "mean")}
    desired = ndgather.scatter_nd(data, indices, updates, **options)
    for executor in (processes, Now()):
        stored[...] = data
        told = []
        ndgather.scatter_nd(
            stored,
            indices,
            updates,
            **options,
            out=stored,
            executor=executor,
            progress=lambda *far, told=told: told.append(far),
        )
        assert_same_elements(np.asarray(stored[...]), desired)
        assert told[-1] == (told[-1][1], told[-1][1])


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2, get_context("forkserver")) as pool:
        yield pool


class Now:
    """Runs each task twice, as an executor may do after losing a worker."""

    def submit(self, function, *arguments):
        future = Future()
        try:
            function(*arguments)
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future


@pytest.mark.parametrize("use_init_val", [True, False])
@pytest.mark.parametrize("dtype", ["f8", ">f8", "f4", "i4", "i8", "u1", "f2", "c16"])
def test_means_stay_within_their_minimum_memory(dtype, use_init_val, tmp_path):
    """Every element of a chunk is updated, and the minimum is at most twice the memory used."""
    count = 2**20
    options = {"zarr_format": 2, "compressors": None, "dtype": dtype}
    array = zarr.create_array(tmp_path, shape=(2, count), chunks=(1, count), **options)
    array[:] = np.array(3, dtype)
    updates = np.full((1, count), 5, dtype)
    call = {"reduction": "mean", "use_init_val": use_init_val, "out": array}

    def scatter(memory):
        ndgather.scatter_nd(array, [[1]], updates, memory=memory, **call)

    with pytest.raises(AttributeValueError, match="too small for a chunk") as refused:
        scatter(1)
    least = int(re.search(r"allowed: at least (\d+)\)", str(refused.value))[1])
    with pytest.raises(AttributeValueError, match="too small for a chunk"):
        scatter(least - 1)
    threads = ndgather.get_num_threads()
    ndgather.set_num_threads(1)
    try:
        scatter(least)  # imports modules and allocates memory that is kept
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        scatter(least)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        ndgather.set_num_threads(threads)
    assert least / 2 < most - before <= least + 2**20
    found = array[...].astype("c16")
    mean = 4 if np.dtype(dtype).kind in "iu" else 4.5  # of (3 + 5) / 2 and 5
    assert (found == [[3], [mean if use_init_val else 5]]).all()


@pytest.mark.parametrize("executor", [None, Now()])
@pytest.mark.parametrize("reduction", ["add", "mean"])
def test_sums_without_a_zero_start_from_the_first_update(reduction, executor):
    """As in memory: float8_e8m0fnu only represents powers of 2."""
    dtype = getattr(tensorstore, "float8_e8m0fnu", None)
    if dtype is None:
        pytest.skip("this version of tensorstore has no float8_e8m0fnu")
    where = {"driver": "zarr3", "kvstore": "memory://"}
    stored = tensorstore.open(where, create=True, dtype=dtype, shape=(2, 2, 3)).result()
    data = np.ones((2, 2, 3), np.float32).astype(dtype.numpy_dtype)
    stored.write(data).result()
    rows = [[[1, 0], [1, 0]], [[0, 1], [1, 0]]]
    updates = np.float32([[[2, 4, 64]] * 2, [[8, 8, 8], [4, 8, 128]]]).astype(data.dtype)
    options = {"reduction": reduction, "use_init_val": False}
    ndgather.scatter_nd(stored, rows, updates, **options, out=stored, executor=executor)
    sums = [8, 16, 256] if reduction == "add" else [2, 4, 64]
    for found in (ndgather.scatter_nd(data, rows, updates, **options), stored.read().result()):
        values = found.astype(np.float32).tolist()
        assert values == [[[1, 1, 1], [8, 8, 8]], [sums, [1, 1, 1]]]
