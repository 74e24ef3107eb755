"""Whether the processors are free to work at once.

Those of a virtual machine may be two halves of one core for a while, or wait for other machines. A
second thread brings little then, and no library shows what it can do.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from math import inf
from statistics import median
from time import perf_counter, sleep

ENOUGH = 0.8

# A millisecond of arithmetic that keeps a core busy, in which other threads of Python run. Two
# halves of one core do 1.1 times the work of one; of SHA-256, which waits for itself, 1.5 times.
_BLOCK = bytes(1 << 20)
_BLOCKS = 5
_TRIES = 5
_MOST_SECONDS = 3.0
_PATIENCE_SECONDS = 240.0


@dataclass(slots=True, kw_only=True)
class Processors:
    """How fast `threads` threads work at once, at best, and how long to wait for that in all."""

    threads: int
    least_seconds: float = inf
    patience: float = _PATIENCE_SECONDS

    def wait(self) -> float:
        """Wait until the processors are free, for some seconds and while there is patience.

        Return how fast they are then, as a share of the best so far: processors that are always
        halves of one core are as free as they get.
        """
        share = self.share()
        begin = perf_counter()
        while share < ENOUGH and perf_counter() - begin < min(_MOST_SECONDS, self.patience):
            sleep(0.1)
            share = self.share()
        self.patience -= perf_counter() - begin
        return share

    def share(self) -> float:
        """Return how fast the processors are, as a share of the best so far."""
        seconds = at_once(self.threads)
        self.least_seconds = min(self.least_seconds, seconds)
        return self.least_seconds / seconds


def at_once(threads: int) -> float:
    """Return how many seconds `threads` threads need for some work, each of them for as much."""
    with ThreadPoolExecutor(threads) as pool:
        return median(_seconds(pool, threads) for _ in range(_TRIES))


def _seconds(pool: ThreadPoolExecutor, threads: int) -> float:
    begin = perf_counter()
    list(pool.map(_hash, range(threads)))
    return perf_counter() - begin


def _hash(_thread: int) -> None:
    made = blake2b()
    for _ in range(_BLOCKS):
        made.update(_BLOCK)
