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
_MOST_SECONDS = 3.0
_PATIENCE_SECONDS = 180.0


@dataclass(slots=True, kw_only=True)
class Processors:
    """What `threads` threads get done at once, the most so far, and how long to wait in all."""

    threads: int
    most: float = 0.0
    patience: float = _PATIENCE_SECONDS

    def wait(self) -> float:
        """Wait until the processors are free, for some seconds and while there is patience.

        Return what they get done at once then, as a share of the most so far: processors that
        are always halves of one core are as free as they get.
        """
        share = self._share()
        begin = perf_counter()
        while share < ENOUGH_AT_ONCE and perf_counter() - begin < min(_MOST_SECONDS, self.patience):
            sleep(0.1)
            share = self._share()
        self.patience -= perf_counter() - begin
        return share

    def _share(self) -> float:
        """Return what the processors get done at once, as a share of the most so far."""
        done = at_once(self.threads)
        self.most = max(self.most, done)
        return done / self.most


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
