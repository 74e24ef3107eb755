"""Whether the processors are free to work at once.

Those of a virtual machine may be two halves of one core for a while, or wait for other machines. A
second thread brings little then, and no library shows what it can do.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from statistics import median
from time import perf_counter, sleep

ENOUGH_AT_ONCE = 0.8

# A millisecond of arithmetic that keeps a core busy, in which other threads of Python run. Two
# halves of one core do 1.1 times the work of one; of SHA-256, which waits for itself, 1.5 times.
_BLOCK = bytes(1 << 20)
_BLOCKS = 10
_TRIES = 3
_MOST_SECONDS = 10.0


@dataclass(slots=True, kw_only=True)
class Processors:
    """What `threads` threads get done at once, and the most that they did so far."""

    threads: int
    most: float = 0.0

    def wait(self) -> float:
        """Wait until the processors are free, though not for ever.

        Return what they got done at last, as a share of the most so far: processors that are
        always halves of one core are as free as they get.
        """
        end = perf_counter() + _MOST_SECONDS
        while True:
            done = at_once(self.threads)
            self.most = max(self.most, done)
            if done >= ENOUGH_AT_ONCE * self.most or perf_counter() > end:
                return done / self.most
            sleep(0.1)


def at_once(threads: int) -> float:
    """Return how much `threads` threads get done in the time that one needs for its work alone."""
    with ThreadPoolExecutor(threads) as pool:
        alone = median(_seconds(pool, 1) for _ in range(_TRIES))
        together = median(_seconds(pool, threads) for _ in range(_TRIES))
        return min(threads * alone / together, float(threads))


def _seconds(pool: ThreadPoolExecutor, threads: int) -> float:
    """Return how long some hashing takes in each of so many threads."""
    begin = perf_counter()
    list(pool.map(_hash, range(threads)))
    return perf_counter() - begin


def _hash(_thread: int) -> None:
    made = blake2b()
    for _ in range(_BLOCKS):
        made.update(_BLOCK)
