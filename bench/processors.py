"""Whether the processors are free to work at once.

Those of a virtual machine may be two halves of one core for a while, or wait for other machines. A
second thread brings little then, and no library shows what it can do.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from threading import Barrier
from time import perf_counter, sleep

ENOUGH_AT_ONCE = 0.8

_BLOCK = bytes(
    1 << 20
)  # half a millisecond of arithmetic, in which other threads of Python can run
_TRIES = 3
_MOST_SECONDS = 10.0
_PAUSE_SECONDS = 0.1


def at_once(threads: int) -> float:
    """Return how much `threads` threads get done at once, as a share of what they do one by one."""
    alone = min(_hash_seconds(None) for _ in range(_TRIES))
    with ThreadPoolExecutor(threads) as pool:
        barrier = Barrier(threads)
        together = min(max(pool.map(_hash_seconds, [barrier] * threads)) for _ in range(_TRIES))
    return min(alone / together, 1.0)


def wait(threads: int) -> float:
    """Wait until the processors are free, though not for ever; return what `at_once` said last."""
    end = perf_counter() + _MOST_SECONDS
    while (share := at_once(threads)) < ENOUGH_AT_ONCE and perf_counter() < end:
        sleep(_PAUSE_SECONDS)
    return share


def _hash_seconds(barrier: Barrier | None) -> float:
    if barrier is not None:
        barrier.wait()
    begin = perf_counter()
    sha256(_BLOCK).digest()
    return perf_counter() - begin
