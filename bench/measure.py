"""Check the result of every library for a case, and time the libraries with correct results.

In every round each library has a turn, in an order that advances by one per round: a pause, an
untimed call, and the timed calls, so that no library profits from the cache contents of another.
The pause lasts until the process is idle, because threads that spin after a call (40 ms in
onnxruntime, 10 ms in torch) would slow down the next library. Outputs are freed immediately. A turn
in which threads waited for a processor is repeated; if no turn is undisturbed, the run ends.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import repeat
from math import inf
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, process_time, sleep
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .case import Case
from .limits import Limit, Machine, is_memory_bound
from .peers import NOT_INSTALLED, ORACLE, OWN, Call, Peer, Unsupported

if TYPE_CHECKING:
    from .case import Array, Arrays
    from .peers import Bind

_SAMPLE_SECONDS = 4e-3
_ROUND_SECONDS = 40e-3
_MOST_SAMPLES_PER_ROUND = 5
_TRIAL_SECONDS = 25e-3
_LONGEST_REASON = 160
_PAUSE_SECONDS = 5e-3
_MOST_PAUSES = 100
_IDLE = 0.1  # of a processor
_CHECKS = 8  # runs whose results are compared: threads may lose an update in a single run
MOST_WAITED = 0.02  # of a turn
_MOST_TURNS = 25
MOST_SPREAD = 0.10
_MOST_MEASURES = 3

Run = Callable[[], Any]
T = TypeVar("T")


class BusyError(Exception):
    """Other work kept the threads of a library from running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The times of a call of a library, with its fastest idiom that has the correct result."""

    peer: str
    idiom: str
    samples: tuple[float, ...]

    @property
    def seconds(self) -> float:
        return median(self.samples)

    @property
    def spread(self) -> float:
        """Interquartile range divided by the median."""
        if len(self.samples) < 2:
            return 0.0
        low, _, high = quantiles(self.samples, n=4, method="inclusive")
        return (high - low) / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The timings of a case, and why libraries have none; `failed` if ndgather was wrong."""

    case: Case
    timings: tuple[Timing, ...]
    refusals: dict[str, str]
    failed: bool
    bytes_moved: int
    limit: Limit
    memory_bound: bool

    @property
    def own(self) -> Timing | None:
        return next((timing for timing in self.timings if timing.peer == OWN.name), None)

    @property
    def fastest_peer(self) -> Timing | None:
        others = (timing for timing in self.timings if timing.peer != OWN.name)
        return min(others, key=lambda timing: timing.seconds, default=None)

    @property
    def ratio(self) -> float | None:
        """Time of the fastest other library divided by ndgather's time."""
        own, peer = self.own, self.fastest_peer
        return peer.seconds / own.seconds if own and peer else None

    @property
    def limit_fraction(self) -> float | None:
        """Least possible time divided by ndgather's time."""
        return self.limit.seconds / self.own.seconds if self.own else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    peer: Peer
    idiom: str
    threads: int
    run: Run
    seconds: float


def check(case: Case, peers: Sequence[Peer], threads: int) -> tuple[dict[str, str], bool]:
    """Compare every library with NumPy; return errors by library, and whether ndgather is wrong."""
    _, refusals, failed = _all_ready(case, peers, threads, timed=False)
    return refusals, failed


def measure(
    case: Case,
    peers: Sequence[Peer],
    threads: int,
    rounds: int,
    machine: Machine,
    *,
    quiet: bool = True,
) -> Result:
    """Check `case` with every library and time it, up to three times if ndgather's times spread.

    Raise BusyError if the machine does not become quiet. Unless `quiet`, every turn counts.
    """
    _settle()
    limit = machine.limit(case)
    ready, refusals, failed = _all_ready(case, peers, threads, timed=True)
    calls = len(case.variants())
    timings: tuple[Timing, ...] = ()
    for _ in range(_MOST_MEASURES):
        again = _timings(ready, rounds, calls, MOST_WAITED if quiet else inf)
        if not timings or _own_spread(again) < _own_spread(timings):
            timings = again
        if _own_spread(timings) <= MOST_SPREAD:
            break
    return Result(
        case=case,
        timings=timings,
        refusals=refusals,
        failed=failed,
        bytes_moved=case.bytes_moved // calls,
        limit=limit,
        memory_bound=is_memory_bound(case),
    )


def _timings(
    ready: Sequence[_Ready], rounds: int, calls: int, most_waited: float
) -> tuple[Timing, ...]:
    """Return the times of every library, with the number of threads that is fastest."""
    samples: dict[int, list[float]] = {place: [] for place in range(len(ready))}
    gc.disable()
    for turn in range(rounds):
        for place in sorted(samples, key=lambda place: (place - turn) % len(ready)):
            try:
                samples[place] += _round(ready[place], most_waited)
            except BusyError:
                if ready[place].peer == OWN or ready[place].threads == 1:
                    raise
                del samples[place]  # its threads wait for each other; its time on one thread counts
    gc.enable()
    fastest: dict[str, Timing] = {}
    for place, taken in samples.items():
        one = ready[place]
        seconds = tuple(each / calls for each in taken)
        timing = Timing(peer=one.peer.name, idiom=one.idiom, samples=seconds)
        known = fastest.setdefault(one.peer.name, timing)
        if timing.seconds < known.seconds:
            fastest[one.peer.name] = timing
    return tuple(fastest.values())


def _own_spread(timings: Sequence[Timing]) -> float:
    return next((timing.spread for timing in timings if timing.peer == OWN.name), 0.0)


def _own_arrays(arrays: Arrays, case: Case) -> Arrays:
    """Return arrays that a library may write to: a copy of data, and a cleared output."""
    if arrays.out is not None:
        arrays.out[...] = 0
    return replace(arrays, data=arrays.data.copy()) if case.output == "data" else arrays


def _all_ready(
    case: Case, peers: Sequence[Peer], threads: int, *, timed: bool
) -> tuple[list[_Ready], dict[str, str], bool]:
    """Return the libraries to time, the errors of the others, and whether ndgather failed."""
    inputs = [(variant, variant.arrays()) for variant in case.variants()]
    oracle = next(iter(ORACLE.prepare(case, threads).values()))
    calls = [oracle(variant, _own_arrays(arrays, case)) for variant, arrays in inputs]
    expected = [call.answer(call.run()).copy() for call in calls]
    ready: list[_Ready] = []
    refusals: dict[str, str] = {}
    failed = False
    for peer in peers:
        try:
            ready.extend(
                _ready(peer, case, inputs, expected, count, timed=timed)
                for count in _thread_counts(peer, threads)
            )
        except Unsupported as refusal:
            refusals[peer.name] = str(refusal)
        except Exception as error:  # a library may fail in any way; the table says how
            text = f"{type(error).__name__}: {' '.join(str(error).split())[:_LONGEST_REASON]}"
            refusals[peer.name] = "wrong answer" if isinstance(error, AssertionError) else text
            failed = failed or peer == OWN
    return ready, refusals, failed


def _thread_counts(peer: Peer, threads: int) -> tuple[int, ...]:
    """Return the numbers of threads to try for a library; the fastest counts."""
    alone = peer == OWN or peer.threads == "one" or threads == 1
    return (threads,) if alone else (threads, 1)


def _ready(
    peer: Peer,
    case: Case,
    inputs: Sequence[tuple[Case, Arrays]],
    expected: Sequence[Array],
    threads: int,
    *,
    timed: bool,
) -> _Ready:
    """Return the fastest idiom of a library with a correct result, or any if nothing is `timed`."""
    if not peer.installed:
        raise Unsupported(NOT_INSTALLED)
    best: _Ready | None = None
    errors: list[Exception] = []
    for name, bind in peer.prepare(case, threads).items():
        try:
            run = _checked(bind, case, inputs, expected)
        except Exception as error:
            errors.append(error)
            continue
        seconds = 0.0
        if timed:
            _settle()
            seconds = trial(run, _TRIAL_SECONDS)
        if best is None or seconds < best.seconds:
            best = _Ready(peer=peer, idiom=name, threads=threads, run=run, seconds=seconds)
    if best is None:
        raise errors[0]
    fewer = threads == 1 and peer != OWN and peer.threads == "all"
    return replace(best, idiom=f"{best.idiom}, one thread") if fewer else best


def _checked(
    bind: Bind, case: Case, inputs: Sequence[tuple[Case, Arrays]], expected: Sequence[Array]
) -> Run:
    """Return one run of all calls, after comparing the results of several runs of each."""
    calls: list[Call] = []
    for (variant, arrays), right in zip(inputs, expected, strict=True):
        for _ in range(_CHECKS):
            call = bind(variant, _own_arrays(arrays, case))
            np.testing.assert_array_equal(call.answer(call.run()), right, strict=True)
        calls.append(call)
    return together([call.run for call in calls])


def together(runs: Sequence[Run]) -> Run:
    """Return a function that makes all calls, or the call itself if there is only one."""
    if len(runs) == 1:
        return runs[0]

    def run_all() -> None:
        for run in runs:
            run()

    return run_all


def sample(run: Run, number: int) -> float:
    """Return the mean time of several calls."""
    steps = repeat(None, number)
    started = perf_counter()
    for _ in steps:
        run()
    return (perf_counter() - started) / number


def trial(run: Run, seconds: float) -> float:
    """Return the shortest time of the calls that fit in a few milliseconds."""
    started, best = perf_counter(), sample(run, 1)
    while perf_counter() - started < seconds:
        number = max(int(seconds / 25 / max(best, 1e-9)), 1)
        best = min(best, sample(run, number))
    return best


def _settle() -> None:
    """Sleep until no thread of this process uses a processor."""
    for _ in range(_MOST_PAUSES):
        started, used = perf_counter(), process_time()
        sleep(_PAUSE_SECONDS)
        if process_time() - used < _IDLE * (perf_counter() - started):
            return


def seconds_waited() -> float:
    """Return how long this process's threads have waited for a processor, or 0 if unknown."""
    waited = 0
    for path in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(OSError):  # the thread has ended
            waited += int(path.read_text().split()[1])
    return waited * 1e-9


def undisturbed(
    turn: Callable[[], T],
    who: str,
    *,
    ready: Run | None = None,
    most_waited: float = MOST_WAITED,
) -> T:
    """Return the result of the first turn in which no thread waited for a processor.

    Before each turn, wait until the process is idle and call `ready`. Raise BusyError after many
    turns.
    """
    least = inf
    for _ in range(_MOST_TURNS):
        _settle()
        if ready:
            ready()
        waited, begun = seconds_waited(), perf_counter()
        taken = turn()
        share = (seconds_waited() - waited) / (perf_counter() - begun)
        if share <= most_waited:
            return taken
        least = min(least, share)
    raise BusyError(
        f"the machine is busy: in each of {_MOST_TURNS} turns threads of {who} waited for a"
        f" processor, for {least:.0%} of the time or longer (allowed: {most_waited:.0%}); measure"
        " when nothing else runs"
    )


def _round(ready: _Ready, most_waited: float) -> list[float]:
    """Return one peer's samples of one round."""
    number = max(int(_SAMPLE_SECONDS / ready.seconds), 1)
    count = int(_ROUND_SECONDS / (ready.seconds * number))
    ready.peer.use_threads(ready.threads)
    return undisturbed(
        lambda: [
            sample(ready.run, number) for _ in range(min(max(count, 1), _MOST_SAMPLES_PER_ROUND))
        ],
        f"{ready.peer.name} ({ready.threads})",
        # A longer call warms itself up.
        ready=ready.run if ready.seconds < _ROUND_SECONDS else None,
        most_waited=most_waited,
    )
