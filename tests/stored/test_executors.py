"""Stored arrays read by the workers of executors: threads, spawned processes, killed processes."""

import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr

import ndgather
from ndgather.errors import IndexOutOfBoundsError, StoredArrayError
from tests.definitions import reference

SHAPE = (20, 30, 40)
DATA = np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)


class Pickling(futures.Executor):
    """Runs each task immediately, after pickling it as for a process."""

    def __init__(self, protocol=None):
        self.protocol = protocol
        self.sent = self.returned = self.tasks = 0

    def submit(self, function, /, *arguments):
        task = pickle.dumps((function, arguments), self.protocol)
        future = futures.Future()
        run, given = pickle.loads(task)
        result = pickle.dumps(run(*given), self.protocol)
        self.sent, self.returned = self.sent + len(task), self.returned + len(result)
        self.tasks += 1
        future.set_result(pickle.loads(result))
        return future


class Sharing(futures.Executor):
    """Passes array memory out of band: read-only and misaligned."""

    def submit(self, function, /, *arguments):
        run, given = self.moved((function, arguments))
        future = futures.Future()
        future.set_result(self.moved(run(*given)))
        return future

    @staticmethod
    def moved(value):
        buffers = []
        content = pickle.dumps(value, 5, buffer_callback=buffers.append)
        memory = [bytearray(1) + bytes(each.raw()) for each in buffers]
        return pickle.loads(content, buffers=[memoryview(m)[1:].toreadonly() for m in memory])


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("executors") / "data.zarr"
    array = zarr.create_array(path, shape=SHAPE, chunks=(6, 7, 8), dtype=DATA.dtype)
    array[...] = DATA
    return array


@pytest.fixture(scope="module")
def processes():
    spawn = multiprocessing.get_context("spawn")
    with futures.ProcessPoolExecutor(2, mp_context=spawn) as pool:
        yield pool


def points(count, depth=3):
    rng = np.random.default_rng(0)
    return np.stack([rng.integers(-size, size, count) for size in SHAPE[:depth]], axis=-1)


CALLS = {
    "elements of points": lambda data, **options: ndgather.gather_nd(data, points(999), **options),
    "rows": lambda data, **options: ndgather.gather_nd(data, points(50, 2), **options),
    "along an axis": lambda data, **options: ndgather.gather(
        data, points(9)[:, 1] % 30, axis=1, **options
    ),
    "one of each": lambda data, **options: ndgather.gather_elements(
        data, np.full((20, 2, 40), -3), axis=1, **options
    ),
    "windows": lambda data, **options: ndgather.gather_windows(
        data, points(60) % 15, (5, 9, 11), **options
    ),
    "windows past the end": lambda data, **options: ndgather.gather_windows(
        data, points(60, 2), (5, 9), mode="fill", fill_value=-1, **options
    ),
    "filled": lambda data, **options: ndgather.gather_nd(
        data, points(60) * 2, mode="fill", fill_value=-1, **options
    ),
    "ranges": lambda data, **options: ndgather.gather_ranges(
        data, [3, 0, 28, 10], [9, 2, 28, 30], axis=1, **options
    )[0],
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("memory", [None, 4096])
def test_workers_match_calls_in_memory(stored, call, memory):
    result = CALLS[call](stored, executor=Pickling(), memory=memory)
    np.testing.assert_array_equal(result, CALLS[call](DATA), strict=True)


def test_several_blocks_of_points(stored):
    """Positions count from the first point of the call, not of the block of 262,144."""
    indices = points(300_000)
    result = ndgather.gather_nd(stored, indices, executor=Pickling())
    np.testing.assert_array_equal(result, DATA[tuple(indices.T)], strict=True)


def test_processes_and_threads_read(stored, processes):
    for pool in (processes, futures.ThreadPoolExecutor(2)):
        for call in CALLS.values():
            np.testing.assert_array_equal(call(stored, executor=pool), call(DATA), strict=True)


@pytest.mark.parametrize(("reduction", "depth"), [("none", 3), ("add", 2), ("mean", 3)])
def test_workers_scatter_bit_for_bit(tmp_path, processes, reduction, depth):
    array = zarr.create_array(
        tmp_path / "a.zarr", shape=SHAPE, chunks=(3, 7, 8), shards=(6, 14, 16), dtype=DATA.dtype
    )
    where = points(3000 if depth == 3 else 60, depth)
    updates = np.random.default_rng(3).random((len(where), *SHAPE[depth:])).astype(np.float32)
    options = {"reduction": reduction, "use_init_val": False}
    desired = ndgather.scatter_nd(DATA, where, updates, **options)
    for executor in (Pickling(), processes):
        array[...] = DATA
        result = ndgather.scatter_nd(array, where, updates, **options, out=array, executor=executor)
        assert result is array
        np.testing.assert_array_equal(array[...], desired, strict=True)
    elements = np.tile(np.arange(40) % 9, (20, 2, 1))
    few = np.ones(elements.shape, np.float32)
    array[...] = DATA
    ndgather.scatter_elements(
        array, elements, few, axis=1, reduction="add", out=array, executor=Pickling()
    )
    desired = ndgather.scatter_elements(DATA, elements, few, axis=1, reduction="add")
    np.testing.assert_array_equal(array[...], desired, strict=True)


EXECUTORS = {
    "protocol 2": lambda: Pickling(2),
    "protocol 4": lambda: Pickling(4),
    "protocol 5": lambda: Pickling(5),
    "shared memory": Sharing,
}


def in_other_byte_order(kind, dtype, folder):
    """An array in foreign byte order."""
    values = (DATA % 1000).astype(dtype)
    if kind == "hdf5":
        with h5py.File(folder / "a.h5", "w") as file:
            file.create_dataset("a", data=values, chunks=(7, 11, 15))
        return h5py.File(folder / "a.h5", "r")["a"], values
    layout = {"chunks": (7, 11, 15), "zarr_format": 2}
    return zarr.create_array(folder / "a.zarr", data=values, **layout), values


@pytest.mark.parametrize("dtype", [">i4", ">f8", ">M8[s]"])
def test_results_keep_their_byte_order(tmp_path, dtype):
    """Old pickle protocols convert arrays to native byte order."""
    array, values = in_other_byte_order("zarr", dtype, tmp_path)
    native = values.astype(values.dtype.newbyteorder("="))
    with h5py_of(tmp_path, values) as dataset:
        for name, call in CALLS.items():
            if dtype == ">M8[s]" and name in ("filled", "windows past the end"):
                continue  # the fill value is a number
            expected = call(native).astype(values.dtype)
            for store in (array, dataset):
                executors = EXECUTORS if name == "rows" else ["protocol 2", "shared memory"]
                for executor in executors if store is not None else ():
                    found = call(store, executor=EXECUTORS[executor]())
                    np.testing.assert_array_equal(found, expected, name, strict=True)
                    assert found.dtype.byteorder == values.dtype.byteorder


@contextmanager
def h5py_of(folder, values):
    """Yield an HDF5 dataset, unless it would need times."""
    if values.dtype.kind == "M":
        yield None
        return
    dataset, _ = in_other_byte_order("hdf5", values.dtype, folder)
    yield dataset
    dataset.file.close()


@pytest.mark.parametrize("reduction", ["none", "add", "min", "mean"])
@pytest.mark.parametrize("dtype", [">i4", ">f8", "f4"])
def test_scatters_in_foreign_byte_order(tmp_path, reduction, dtype):
    array, values = in_other_byte_order("zarr", dtype, tmp_path)
    where = points(300, 3)
    updates = (np.arange(300) * 7 % 400).astype(dtype)
    expected = reference.scatter_nd(
        values.astype(values.dtype.newbyteorder("=")),
        where,
        updates.astype(updates.dtype.newbyteorder("=")),
        reduction,
    )
    for executor in EXECUTORS.values() if reduction == "add" else (EXECUTORS["protocol 2"],):
        array[...] = values
        ndgather.scatter_nd(
            array, where, updates, reduction=reduction, out=array, executor=executor()
        )
        assert array.dtype == values.dtype
        np.testing.assert_array_equal(array[...], expected)


def test_failed_scatters_report_written_chunks(tmp_path):
    array = zarr.create_array(tmp_path / "a.zarr", shape=(40,), chunks=(1,), dtype="i4")
    array[...] = 5
    (tmp_path / "a.zarr" / "c" / "30").write_bytes(b"nothing that was compressed")
    updates = np.ones(40, np.int32)
    with futures.ThreadPoolExecutor(2) as pool, pytest.raises(StoredArrayError) as caught:
        ndgather.scatter_nd(
            array, np.arange(40)[:, np.newaxis], updates, reduction="add", out=array, executor=pool
        )
    assert caught.value.chunk == (30,)
    (tmp_path / "a.zarr" / "c" / "30").unlink()
    assert {(int(i),) for i in np.flatnonzero(array[...] == 6)} == set(caught.value.written)


def test_tasks_are_compact(stored):
    count, executor = 400_000, Pickling()
    ndgather.gather_nd(stored, points(count), executor=executor)
    assert executor.returned < 4.2 * count  # the values
    assert executor.sent < 4 * count + 4000 * executor.tasks  # the array is sent as its path
    assert executor.tasks >= 64


def test_progress_counts_chunks(stored):
    told = []
    ndgather.gather_nd(
        stored, points(999), executor=Pickling(), progress=lambda *numbers: told.append(numbers)
    )
    chunks = told[0][1]
    assert 64 < chunks <= 100
    assert told[0] == (0, chunks)
    assert told[-1] == (chunks, chunks)
    assert told == sorted(told)


def test_indices_are_checked_before_a_task_is_sent(stored):
    executor = Pickling()
    with pytest.raises(IndexOutOfBoundsError, match=r"indices\[1, 0\] = 20 is outside"):
        ndgather.gather_nd(stored, [[0, 0, 0], [20, 0, 0]], executor=executor)
    assert executor.tasks == 0


def test_unreadable_chunks_are_named(tmp_path, processes):
    array = zarr.create_array(tmp_path / "bad.zarr", shape=SHAPE, chunks=(6, 7, 8), dtype="f4")
    array[...] = DATA
    (tmp_path / "bad.zarr" / "c" / "1" / "2" / "3").write_bytes(b"nothing that was compressed")
    with pytest.raises(StoredArrayError, match=r"chunk \(1, 2, 3\) of .*bad\.zarr") as caught:
        ndgather.gather_nd(array, points(5000), executor=processes)
    assert caught.value.chunk == (1, 2, 3)


def test_shut_down_executors_raise(stored):
    pool = futures.ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(StoredArrayError, match="was not read by executor = ThreadPoolExecutor"):
        ndgather.gather_nd(stored, points(9), executor=pool)


class Giving(futures.Executor):
    """Runs no task and returns an arbitrary result for each."""

    def __init__(self, given):
        self.given = given

    def submit(self, function, /, *arguments):
        return self.given


def done(result):
    future = futures.Future()
    future.set_result(result)
    return future


@pytest.mark.parametrize(
    "given", [3, done(None), done([]), done([None]), done([[None]]), done(0.0), done(np.zeros(1))]
)
def test_results_of_lost_tasks_raise(stored, given):
    executor, at, before = Giving(given), points(1), stored[...]
    with pytest.raises(StoredArrayError, match=r"gather_nd: chunk .* executor = Giving object"):
        ndgather.gather_nd(stored, at, executor=executor)
    with pytest.raises(StoredArrayError, match=r"scatter_nd: chunk .* executor = Giving object"):
        ndgather.scatter_nd(stored, at, np.ones(1, np.float32), out=stored, executor=executor)
    assert np.array_equal(stored[...], before)


def test_killed_workers_raise_and_leave_nothing(tmp_path):
    array = zarr.create_array(tmp_path / "a.zarr", shape=(1000, 100), chunks=(1, 100), dtype="i8")
    array[...] = 7
    spawn = multiprocessing.get_context("spawn")
    pool = futures.ProcessPoolExecutor(2, mp_context=spawn)
    pool.submit(os.getpid).result()
    before, workers = threading.active_count(), list(pool._processes)
    killed = []

    def kill(done, total):
        if done and not killed:
            killed.append(workers[0])
            os.kill(workers[0], signal.SIGKILL)

    with pytest.raises(StoredArrayError, match="BrokenProcessPool"):
        ndgather.gather(array, np.arange(1000), executor=pool, memory=4096, progress=kill)
    assert killed
    pool.shutdown()
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_errors_leave_no_task_behind(stored):
    """Tasks that have not started are canceled, so the executor is free again."""
    started = []

    class Slow(futures.ThreadPoolExecutor):
        def submit(self, function, /, *arguments):
            def run():
                started.append(arguments)
                raise OSError("no such store")

            return super().submit(run)

    with Slow(1) as pool, pytest.raises(StoredArrayError, match="no such store"):
        ndgather.gather_nd(stored, points(5000), executor=pool)
    assert len(started) < 64


_MPI = """
import sys, numpy as np, zarr, ndgather
from mpi4py.futures import MPIPoolExecutor

if __name__ == "__main__":
    data = np.arange(24000, dtype=np.float32).reshape(20, 30, 40)
    array = zarr.create_array(sys.argv[1], data=data, chunks=(6, 7, 8))
    rng = np.random.default_rng(0)
    points = np.stack([rng.integers(-size, size, 5000) for size in data.shape], axis=-1)
    ones = np.ones(5000, np.float32)
    with MPIPoolExecutor() as pool:
        taken = ndgather.gather_nd(array, points, executor=pool)
        ndgather.scatter_nd(array, points, ones, reduction="add", out=array, executor=pool)
    np.testing.assert_array_equal(taken, data[tuple(points.T)])
    np.add.at(data, tuple(points.T), ones)
    np.testing.assert_array_equal(array[...], data)
"""


def test_mpi_processes_read(tmp_path):
    pytest.importorskip("mpi4py", reason="needs mpi4py and an MPI, which few machines have")
    mpiexec = shutil.which("mpiexec")
    if mpiexec is None:
        pytest.skip("mpi4py is installed, but no mpiexec")
    script = tmp_path / "script.py"
    script.write_text(_MPI)
    run = [mpiexec, "-n", "3", sys.executable, "-m", "mpi4py.futures", script, tmp_path / "a.zarr"]
    subprocess.run(run, check=True, timeout=120)


class Ray:
    """Submits tasks to ray."""

    def __init__(self, ray):
        self.ray = ray

    def submit(self, function, *arguments):
        return self.ray.remote(function).remote(*arguments).future()


def test_ray_workers_read(tmp_path):
    ray = pytest.importorskip("ray", reason="needs ray, which no extra asks for")
    array = zarr.create_array(tmp_path / "a.zarr", data=DATA, chunks=(6, 7, 8))
    ray.init(num_cpus=2, include_dashboard=False)
    try:
        for call in CALLS.values():
            result = call(array, executor=Ray(ray))
            np.testing.assert_array_equal(result, call(DATA), strict=True)
        ones = np.ones(5000, np.float32)
        ndgather.scatter_nd(
            array, points(5000), ones, reduction="add", out=array, executor=Ray(ray)
        )
        added = ndgather.scatter_nd(DATA, points(5000), ones, reduction="add")
        np.testing.assert_array_equal(array[...], added)
        (tmp_path / "a.zarr" / "c" / "1" / "2" / "3").write_bytes(b"nothing that was compressed")
        with pytest.raises(StoredArrayError, match=r"chunk \(1, 2, 3\) of .*a\.zarr"):
            ndgather.gather_nd(array, points(5000), executor=Ray(ray))
    finally:
        ray.shutdown()


class Late(futures.Executor):
    """Runs and counts waiting tasks once no new task has arrived for some time."""

    def __init__(self):
        self.most = self.tasks = 0
        self._waiting, self._lock, self._came = [], threading.Lock(), threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def submit(self, function, /, *arguments):
        future = futures.Future()
        with self._lock:
            self._waiting.append((future, function, arguments))
            self.tasks += 1
            self.most = max(self.most, len(self._waiting))
        self._came.set()
        return future

    def _work(self):
        while not self._closed:
            while self._came.wait(0.05) and not self._closed:
                self._came.clear()
            with self._lock:
                tasks, self._waiting = self._waiting, []
            for future, function, arguments in tasks:
                future.set_result(function(*arguments))

    def shutdown(self, wait=True, *, cancel_futures=False):
        self._closed = True
        self._came.set()
        self._thread.join()


@pytest.mark.parametrize(("memory", "at_once"), [(800, 1), (1599, 1), (1600, 2), (2400, 3), (1, 1)])
def test_memory_limits_bytes_in_transit(memory, at_once):
    """A task transfers 8 bytes per point: 800 bytes for the 100 points of a chunk."""
    values = np.arange(1000, dtype="i4").reshape(10, 100)
    array = zarr.create_array({}, data=values, chunks=(1, 100))
    every = np.indices(values.shape).reshape(2, -1).T.copy()
    with Late() as late:
        found = ndgather.gather_nd(array, every, executor=late, memory=memory)
    np.testing.assert_array_equal(found, values.ravel())
    assert (late.tasks, late.most) == (10, at_once)
