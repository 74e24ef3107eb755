"""The speeds of this machine: copying, and reading at random positions, by numba and NumPy.

A run of a case takes at least the longer of two times: that of moving its bytes, and that of
reading at its random positions.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import repeat
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from .case import LINE_BYTES, Array, Case

if TYPE_CHECKING:
    from collections.abc import Callable

_LARGEST_COPY_BYTES = 256 << 20
_MOST_READ_BYTES = 64 << 20
_SAMPLES = 5
_COPY_ROUNDS = 2
_SAMPLE_SECONDS = 2e-3
_RANDOM_PATTERNS = ("random", "unique")
_USUAL_CACHE_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The shortest possible time of one run of a case, and which of the two sets it."""

    copy_seconds: float
    read_seconds: float | None

    @property
    def seconds(self) -> float:
        return max(self.copy_seconds, self.read_seconds or 0.0)

    @property
    def set_by(self) -> str:
        return "copy" if self.seconds == self.copy_seconds else "random reads"


@dataclass(slots=True, kw_only=True)
class Machine:
    """The speeds measured so far, by size, each for 1, 2, ... `threads` threads."""

    threads: int
    copy_bytes_per_second: dict[int, tuple[float, ...]] = field(default_factory=dict)
    read_seconds: dict[tuple[int, int, int], tuple[float, ...]] = field(default_factory=dict)

    def limit(self, case: Case) -> Limit:
        """Return the limit of one call of `case`, with the best number of threads for each time."""
        moved = case.bytes_moved // len(case.variants())
        copies = [moved / speed for speed in self.copy_speeds(moved)]
        reads = []
        if case.pattern in _RANDOM_PATTERNS and case.lookups and find_spec("numba"):
            times = self.random_reads(case.reach_bytes, case.slice_bytes, case.lookups)
            reads = [seconds * case.lookups for seconds in times]
        return Limit(copy_seconds=min(copies), read_seconds=min(reads, default=None))

    def copy_speeds(self, moved_bytes: int) -> tuple[float, ...]:
        """Return bytes read plus written per second, by number of threads."""
        size = min(_power_of_two(moved_bytes // 2), _LARGEST_COPY_BYTES)
        if size not in self.copy_bytes_per_second:
            source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
            self.copy_bytes_per_second[size] = tuple(
                2 * size / min(_copy_seconds(source, target, count) for _ in range(_COPY_ROUNDS))
                for count in range(1, self.threads + 1)
            )
        return self.copy_bytes_per_second[size]

    def random_reads(self, reach_bytes: int, row_bytes: int, lookups: int) -> tuple[float, ...]:
        """Return seconds per read of one row at a random position, by number of threads.

        The reads are as many as those of the case, up to a million, and are repeated, so that the
        cache holds as much as between two runs of the case. Of a row that fits in a cache line one
        word is read.
        """
        most = max(_MOST_READ_BYTES // max(row_bytes, LINE_BYTES), 1)
        key = (_power_of_two(reach_bytes), row_bytes, min(_power_of_two(lookups), most))
        if key not in self.read_seconds:
            loops = import_module(f"{__package__}.loops")
            word = next(size for size in (8, 4, 2, 1) if row_bytes % size == 0)
            rows = max(key[0] // row_bytes, 1)
            data: Array = np.ones((rows, row_bytes // word), f"u{word}")
            entries: Array = np.random.default_rng(0).integers(rows, size=key[2], dtype=np.uint32)
            if row_bytes <= LINE_BYTES:
                entries *= np.uint32(data.shape[1])
                data = data.reshape(-1)
            read = loops.read_words if row_bytes <= LINE_BYTES else loops.read_rows
            times = []
            for count in range(1, self.threads + 1):
                loops.set_threads(count)
                times.append(_best(partial(read, data, entries, count)) / entries.size)
            self.read_seconds[key] = tuple(times)
        return self.read_seconds[key]


def last_level_cache_bytes() -> int:
    """Return the size of the last-level cache, or 32 MB if the system does not report it."""
    sizes = [
        int(path.read_text().strip().removesuffix("K")) << 10
        for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
        if path.read_text().strip().endswith("K")
    ]
    return max(sizes, default=_USUAL_CACHE_BYTES)


def is_memory_bound(case: Case) -> bool:
    """Whether data or output is larger than the last-level cache."""
    return max(case.data_bytes, case.output_bytes) > last_level_cache_bytes()


def _power_of_two(size: int) -> int:
    return 1 << max(size - 1, 1).bit_length()


def _copy_seconds(source: Array, target: Array, threads: int) -> float:
    """Return the shortest time of one copy: by NumPy in threads, or by a compiled loop."""
    times = []
    if find_spec("numba"):
        loops = import_module(f"{__package__}.loops")
        loops.set_threads(threads)
        times.append(_best(lambda repeats: loops.copy(source, target, threads, repeats)))
    targets, sources = np.array_split(target, threads), np.array_split(source, threads)

    def copy(target: Array, source: Array, repeats: int) -> None:
        for _ in range(repeats):
            np.copyto(target, source)

    with ThreadPoolExecutor(threads) as pool:
        times.append(_best(lambda repeats: list(pool.map(copy, targets, sources, repeat(repeats)))))
    return min(times)


def _best(run: Callable[[int], Any]) -> float:
    """Return the shortest time of one repeat of ``run(repeats)``."""
    run(1)
    repeats = 1
    while (seconds := _timed(run, repeats)) < _SAMPLE_SECONDS:
        repeats *= 4
    return min(seconds, *(_timed(run, repeats) for _ in range(_SAMPLES))) / repeats


def _timed(run: Callable[[int], Any], repeats: int) -> float:
    started = perf_counter()
    run(repeats)
    return perf_counter() - started
