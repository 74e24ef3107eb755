"""A script that reads stored arrays in this process and in processes that it starts.

The arguments are the way, a folder and kinds of stores. The script prints ``done`` once every
process had the right values; a child that hangs is killed.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import ndgather

SHAPE = (40, 50)
VALUES = np.arange(2000, dtype="f4").reshape(SHAPE)
SECONDS = 20  # for a child


def in_zarr(folder, **layout):
    import zarr  # noqa: PLC0415 - only what is tested is imported before the fork

    if not (folder / "a.zarr").exists():
        zarr.create_array(folder / "a.zarr", data=VALUES, chunks=(5, 10), **layout)
    return zarr.open_array(folder / "a.zarr", mode="r+")


def in_memory(_):
    import zarr  # noqa: PLC0415

    return zarr.create_array({}, data=VALUES, chunks=(5, 10))


def in_hdf5(folder, **layout):
    import h5py  # noqa: PLC0415

    if not (folder / "a.h5").exists():
        with h5py.File(folder / "a.h5", "w") as file:
            file.create_dataset("a", data=VALUES, **layout)
    return h5py.File(folder / "a.h5", "r")["a"]


def in_tensorstore(folder):
    import tensorstore  # noqa: PLC0415

    in_zarr(folder)
    return tensorstore.open({"driver": "zarr3", "kvstore": f"file://{folder}/a.zarr/"}).result()


def by_obstore(folder):
    import obstore.store  # noqa: PLC0415
    import zarr  # noqa: PLC0415

    in_zarr(folder)
    store = zarr.storage.ObjectStore(obstore.store.LocalStore(folder / "a.zarr"))
    return zarr.open_array(store, mode="r")


def mapped(folder):
    VALUES.tofile(folder / "a.bin")
    return np.memmap(folder / "a.bin", "f4", "r+", shape=SHAPE)


STORES = {
    "zarr": in_zarr,
    "shards": lambda at: in_zarr(at, shards=(20, 50)),
    "zarr in memory": in_memory,
    "zarr by obstore": by_obstore,
    "hdf5": lambda at: in_hdf5(at, chunks=(5, 10), compression=4),
    "hdf5 in one piece": in_hdf5,
    "tensorstore": in_tensorstore,
    "map": mapped,
    "cached zarr": lambda at: ndgather.cached(in_zarr(at)),
    "cached hdf5": lambda at: ndgather.cached(in_hdf5(at, chunks=(5, 10))),
}


def read_and_check(array, writes=False):
    every = np.argwhere(np.ones(SHAPE, bool))
    if not np.array_equal(ndgather.gather_nd(array, every), VALUES.ravel()):
        raise AssertionError(f"wrong in process {os.getpid()}")
    if writes:
        ndgather.scatter_nd(array, every, VALUES.ravel(), out=array)
        ndgather.scatter_nd(array, [[0]], VALUES[:1] * 0, reduction="add", out=array)
    return True


def fork_and_check(array, writes, depth=0):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            read_and_check(array, writes)
            if depth:
                fork_and_check(array, writes, depth - 1)
            status = 0
        finally:
            os._exit(status)
    until = time.monotonic() + SECONDS
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError("the child hangs")
        time.sleep(0.01)
    if ended[1]:
        raise AssertionError(f"the child ended with status {ended[1]}")


def fork(array, writes):
    read_and_check(array, writes)
    fork_and_check(array, writes, depth=1)
    read_and_check(array, writes)


def fork_amid(array, writes):
    """Fork while other threads read."""
    read_and_check(array)
    stop = threading.Event()

    def work():
        while not stop.is_set():
            read_and_check(array)

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(4):
            fork_and_check(array, writes=False)
    finally:
        stop.set()
        for worker in workers:
            worker.join()


def spawn(arrays):
    """Send pickled arrays to another process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for array, writes in arrays:
            read_and_check(array, writes)
            if pool.apply_async(read_and_check, (array, writes)).get(timeout=60) is not True:
                raise AssertionError("wrong in a pool")
            read_and_check(array, writes)


def executor(arrays):
    """Read arrays in the processes of an executor."""
    every = np.argwhere(np.ones(SHAPE, bool))
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        for array, _ in arrays:
            found = ndgather.gather_nd(array, every, executor=pool)
            if not np.array_equal(found, VALUES.ravel()):
                raise AssertionError("wrong from an executor")


def fork_refused(array, writes):
    """An error is raised in the child instead of a crash of the library."""

    def read_and_refuse(array, writes=False):
        for call in (
            lambda: ndgather.gather_nd(array, [[0, 0]]),
            lambda: ndgather.gather_ranges(array, [0], [3]),
            lambda: ndgather.scatter_nd(array, [[0]], VALUES[:1], out=array),
        ):
            try:
                call()
            except ndgather.errors.StoredArrayError as error:
                if "get_context('spawn')" not in str(error):
                    raise
            else:
                raise AssertionError("no error")

    read_and_check(array, writes)
    globals()["read_and_check"] = read_and_refuse
    fork_and_check(array, writes)


def one_by_one(way):
    return lambda arrays: [way(array, writes) for array, writes in arrays]


WAYS = {
    "fork": one_by_one(fork),
    "fork_amid": one_by_one(fork_amid),
    "fork_refused": one_by_one(fork_refused),
    "spawn": spawn,
    "executor": executor,
}
ONLY_READ = ("zarr by obstore", "hdf5", "hdf5 in one piece", "cached hdf5", "map")


def opened(kind, folder):
    folder.mkdir()
    return STORES[kind](folder), kind not in ONLY_READ


if __name__ == "__main__":
    way, folder, *kinds = sys.argv[1:]
    ndgather.set_num_threads(2)
    WAYS[way]([opened(kind, Path(folder, kind)) for kind in kinds])
    print("done", flush=True)
