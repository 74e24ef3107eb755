"""The speeds of this machine: copying, and reading at random positions, with numba and NumPy.

A run of a case takes at least the longer of two times: the time to move its bytes at the speed of
copies, and the time to read its random cache lines. A line takes the memory latency divided by the
number of concurrent misses. Chains of dependent reads measure this number: chains are added until a
read no longer gets cheaper.
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
_KNOWN_READS = 1 << 20
_SAMPLES = 5
_COPY_ROUNDS = 2
_SAMPLE_SECONDS = 2e-3
_RANDOM_PATTERNS = ("random", "unique")
_CHAINS = (1, 2, 4, 8, 12, 16, 24, 32, 48)
_CHAIN_READS = 1 << 16
_BLOCK_BYTES = 4096
_USUAL_CACHE_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The shortest possible time of a run of a case, and which of two limits sets it."""

    copy_seconds: float
    read_seconds: float | None

    @property
    def seconds(self) -> float:
        return max(self.copy_seconds, self.read_seconds or 0.0)

    @property
    def set_by(self) -> str:
        return "copy" if self.seconds == self.copy_seconds else "random reads"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Seconds from one random cache line to the next.

    `latency` is the time of a read that waits for the previous read, `in_flight` is the number of
    concurrent misses of a thread, and `seconds` are the times per line with 1, 2, ... threads.
    """

    latency: float
    in_flight: float
    seconds: tuple[float, ...]


@dataclass(slots=True, kw_only=True)
class Machine:
    """The speeds measured so far, by size, each for 1, 2, ... `threads` threads."""

    threads: int
    copy_bytes_per_second: dict[int, tuple[float, ...]] = field(default_factory=dict)
    line_seconds: dict[int, Lines] = field(default_factory=dict)

    def limit(self, case: Case) -> Limit:
        """Return the limit of a call of `case`, with the best number of threads for each time."""
        moved = case.bytes_moved // len(case.variants())
        copies = [moved / speed for speed in self.copy_speeds(moved)]
        read = None
        is_random = case.pattern in _RANDOM_PATTERNS and 0 < case.slice_bytes <= LINE_BYTES
        if is_random and case.lookups and find_spec("numba"):
            read = min(self.random_lines(case.reach_bytes).seconds) * case.lookups
        return Limit(copy_seconds=min(copies), read_seconds=read)

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

    def random_lines(self, reach_bytes: int) -> Lines:
        """Return the times of reading random cache lines in the given number of bytes.

        Independent reads at positions that are prefetched are measured too; the faster of both is
        the limit of the machine.
        """
        reach = max(_power_of_two(reach_bytes), 2 * LINE_BYTES)
        if reach not in self.line_seconds:
            loops = import_module(f"{__package__}.loops")
            words = np.ones(reach // 8, np.uint64)
            draw = np.random.default_rng(0).integers
            known: Array = draw(words.size, size=_KNOWN_READS, dtype=np.uint32)
            chained: list[tuple[float, ...]] = []
            seconds = []
            for count in range(1, self.threads + 1):
                loops.set_threads(count)
                times = []
                for chains in _CHAINS:
                    states = draw(1, 1 << 63, size=(count, chains), dtype=np.uint64)
                    run = partial(loops.read_chains, words, line_shift(reach), states)
                    times.append(_best(run, _CHAIN_READS // chains) / (count * chains))
                ahead = _best(partial(loops.read_words, words, known, count)) / known.size
                chained.append(tuple(times))
                seconds.append(min(*times, ahead))
            latency = chained[0][0]
            self.line_seconds[reach] = Lines(
                latency=latency, in_flight=latency / min(chained[0]), seconds=tuple(seconds)
            )
        return self.line_seconds[reach]


def cache_bytes(level: int) -> int:
    """Return the size of a cache level, or 0 if the system does not report it."""
    path = Path(f"/sys/devices/system/cpu/cpu0/cache/index{level}/size")
    return int(path.read_text().strip().removesuffix("K")) << 10 if path.exists() else 0


def last_level_cache_bytes() -> int:
    """Return the size of the last-level cache, or 32 MB if the system does not report it."""
    sizes = [
        int(path.read_text().strip().removesuffix("K")) << 10
        for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
        if path.read_text().strip().endswith("K")
    ]
    return max(sizes, default=_USUAL_CACHE_BYTES)


def is_memory_bound(case: Case) -> bool:
    """Return whether data or output is larger than the last-level cache."""
    return max(case.data_bytes, case.output_bytes) > last_level_cache_bytes()


def _power_of_two(size: int) -> int:
    return 1 << max(size - 1, 1).bit_length()


def line_shift(reach_bytes: int) -> int:
    """Return by how many bits 64 random bits are shifted to give the number of a line."""
    return 64 - (reach_bytes // LINE_BYTES).bit_length() + 1


def _copy_seconds(source: Array, target: Array, threads: int) -> float:
    """Return the shortest time of a copy, by NumPy in threads or by a compiled loop."""
    times = []
    if find_spec("numba"):
        loops = import_module(f"{__package__}.loops")
        loops.set_threads(threads)
        times.append(_best(partial(loops.copy, source, target, threads)))
        if source.size >= _BLOCK_BYTES * threads:
            blocks = [array.reshape(-1, _BLOCK_BYTES) for array in (source, target)]
            order = np.random.default_rng(0).permutation(len(blocks[0]))
            times.append(_best(partial(loops.copy_blocks, *blocks, order, threads)))
    targets, sources = np.array_split(target, threads), np.array_split(source, threads)

    def copy(target: Array, source: Array, repeats: int) -> None:
        for _ in range(repeats):
            np.copyto(target, source)

    with ThreadPoolExecutor(threads) as pool:
        times.append(_best(lambda repeats: list(pool.map(copy, targets, sources, repeat(repeats)))))
    return min(times)


def _best(run: Callable[[int], Any], repeats: int = 1) -> float:
    """Return the shortest time of one repeat of ``run(repeats)``."""
    run(1)
    while (seconds := _timed(run, repeats)) < _SAMPLE_SECONDS:
        repeats *= 4
    return min(seconds, *(_timed(run, repeats) for _ in range(_SAMPLES))) / repeats


def _timed(run: Callable[[int], Any], repeats: int) -> float:
    started = perf_counter()
    run(repeats)
    return perf_counter() - started
