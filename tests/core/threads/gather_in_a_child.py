"""Run as a script: gather before and after processes are started with fork or spawn.

The first argument selects the method. The script prints ``done`` if all processes had correct
results.
"""

import multiprocessing
import os
import signal
import sys
import threading

import numpy as np

import ndgather

SIZE = 400_000
DATA = np.arange(1 << 20, dtype=np.float32)
THINGS = np.array([object() for _ in range(100)])


def gather_and_check(seed):
    """Run enough work to wake the threads, compare the results, and return their number."""
    indices = np.random.default_rng(seed).integers(-DATA.size, DATA.size, SIZE)
    for call, form in ((ndgather.gather, indices), (ndgather.gather_nd, indices[:, np.newaxis])):
        if not np.array_equal(call(DATA, form), DATA[indices]):
            raise AssertionError(f"wrong in process {os.getpid()}")
    updates = np.ones(SIZE, np.float32)
    counts = ndgather.scatter_elements(np.zeros_like(DATA), indices, updates, reduction="add")
    if not np.array_equal(counts, np.bincount(indices % DATA.size, minlength=DATA.size)):
        raise AssertionError(f"wrong sums in process {os.getpid()}")
    place = THINGS.copy()
    ndgather.scatter_nd(place, [[0], [5]], THINGS[[7, 9]], out=place)
    if place[0] is not THINGS[7] or ndgather.gather(place, [5])[0] is not THINGS[9]:
        raise AssertionError(f"wrong objects in process {os.getpid()}")
    try:
        ndgather.gather(DATA, np.append(indices, DATA.size))
    except ndgather.errors.IndexOutOfBoundsError as error:
        return error.position[0]
    raise AssertionError("no error")


def fork_and_check(depth):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        status = 1
        try:
            gather_and_check(1)
            ndgather.set_num_threads(3)
            gather_and_check(2)
            if depth:
                fork_and_check(depth - 1)
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if status:
        raise AssertionError(f"the child ended with status {status}")


def fork():
    """Use threads before the fork, in the child, in its child, and here again."""
    gather_and_check(0)
    fork_and_check(depth=1)
    gather_and_check(3)


def fork_amid():
    """Fork while other threads are in the middle of calls."""
    gather_and_check(0)  # a fork during an import would leave its lock held forever
    stop = threading.Event()

    def work(seed):
        while not stop.is_set():
            gather_and_check(seed)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(15):
            fork_and_check(depth=0)
    finally:
        stop.set()
        for worker in workers:
            worker.join()


def pool(method):
    gather_and_check(0)
    with multiprocessing.get_context(method).Pool(2) as workers:
        if workers.map_async(gather_and_check, range(4)).get(timeout=60) != [SIZE] * 4:
            raise AssertionError("wrong in a pool")
    gather_and_check(1)


def exit_asleep():
    """End the process while the threads sleep, without hanging or crashing."""
    gather_and_check(0)


WAYS = {
    "fork": fork,
    "fork_amid": fork_amid,
    "pool_fork": lambda: pool("fork"),
    "pool_forkserver": lambda: pool("forkserver"),
    "pool_spawn": lambda: pool("spawn"),
    "exit_asleep": exit_asleep,
}

if __name__ == "__main__":
    ndgather.set_num_threads(2)
    WAYS[sys.argv[1]]()
    print("done", flush=True)
