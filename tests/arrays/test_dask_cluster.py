"""A cluster of two processes: lazy arrays, and stored arrays that its workers read."""

import os
import signal
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from distributed import Client, LocalCluster

import ndgather
from ndgather.errors import IndexOutOfBoundsError, StoredArrayError

SHAPE = (20, 30, 40)
DATA = np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)
CHUNKS = (6, 7, 8)


@contextmanager
def cluster_of_two():
    warnings.filterwarnings("ignore", "Creating scratch directories is taking")  # a busy machine
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        LocalCluster(processes=True, silence_logs=50, **options) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client():
    with cluster_of_two() as client:
        yield client


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("cluster") / "data.zarr"
    array = zarr.create_array(path, shape=SHAPE, chunks=CHUNKS, dtype=DATA.dtype)
    array[...] = DATA
    return array


def points(count):
    rng = np.random.default_rng(2)
    return np.stack([rng.integers(-size, size, count) for size in SHAPE], axis=-1)


def test_workers_compute_lazy_arrays(client):
    wanted, updates = points(500), np.ones(500, np.float32)
    lazy, indices = da.from_array(DATA, chunks=CHUNKS), da.from_array(wanted, chunks=(200, 3))
    added = DATA.copy()
    np.add.at(added, tuple(wanted.T), updates)
    taken = DATA[tuple(wanted.T)]
    results = client.compute(
        [
            ndgather.gather_nd(lazy, wanted),
            ndgather.gather_nd(DATA, indices),
            ndgather.scatter_nd(lazy, wanted, updates, reduction="add"),
            ndgather.scatter_nd(lazy, wanted, da.from_array(updates, chunks=90), reduction="add"),
        ],
        sync=True,
    )
    for result, desired in zip(results, [taken] * 2 + [added] * 2, strict=True):
        np.testing.assert_array_equal(result, desired, strict=True)


def test_workers_read_lazy_indices_into_a_stored_array(client, stored):
    wanted = points(500)
    result = ndgather.gather_nd(stored, da.from_array(wanted, chunks=(200, 3)))
    assert result.chunks == ((200, 200, 100),)
    found = client.compute(result, sync=True)
    np.testing.assert_array_equal(found, DATA[tuple(wanted.T)], strict=True)


def test_errors_keep_their_attributes_across_processes(client):
    wanted = points(60)
    wanted[[41, 12], [0, 2]] = 99
    result = ndgather.gather_nd(DATA, da.from_array(wanted, chunks=(20, 3)))
    with pytest.raises(IndexOutOfBoundsError) as caught:
        client.compute(result, sync=True)
    with pytest.raises(IndexOutOfBoundsError) as in_memory:
        ndgather.gather_nd(DATA, wanted)
    assert str(caught.value) == str(in_memory.value)
    assert caught.value.position == (12, 2)


def test_workers_read_a_stored_array(client, stored):
    executor = client.get_executor()
    wanted = points(5000)
    result = ndgather.gather_nd(stored, wanted, executor=executor)
    np.testing.assert_array_equal(result, DATA[tuple(wanted.T)], strict=True)
    starts = points(40) % 15
    result = ndgather.gather_windows(stored, starts, (5, 9, 11), executor=executor)
    np.testing.assert_array_equal(result, ndgather.gather_windows(DATA, starts, (5, 9, 11)))


def _kill_once(pids):
    """Return a function for `progress` that kills a worker while it reads."""
    killed = []

    def kill(done, total):
        if done and not killed:
            killed.append(pids[0])
            os.kill(pids[0], signal.SIGKILL)

    return kill, killed


@pytest.mark.parametrize("failures", [0, pytest.param(3, marks=pytest.mark.slow)])
def test_killed_worker_is_replaced_or_raises(tmp_path, failures):
    array = zarr.create_array(tmp_path / "a.zarr", shape=(600, 100), chunks=(1, 100), dtype="i8")
    array[...] = np.arange(600)[:, np.newaxis]
    patience = dask.config.set({"distributed.scheduler.allowed-failures": failures})
    with patience, cluster_of_two() as client:
        pids = [*client.run(os.getpid).values()]
        kill, killed = _kill_once(pids)

        def read():
            return ndgather.gather(
                array,
                np.arange(600),
                executor=client.get_executor(),
                memory=50_000,
                progress=kill,
            )

        # With no retries, it is an error if the worker had a task of the call, which is usual.
        # Sometimes distributed itself fails while it unpacks that error.
        told = "KilledWorker|ValueError: too many values to unpack"
        error = None if failures else pytest.RaisesExc(StoredArrayError, match=told)
        try:
            np.testing.assert_array_equal(read()[:, 0], np.arange(600))
        except StoredArrayError as raised:
            if error is None or not error.matches(raised):
                raise
        assert killed
        pids += client.run(os.getpid).values()
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.01)
