"""Two builds of this package, compared case by case on equal arrays, each in its own process.

The builds take turns. A turn is an untimed call, then some samples, of which the least counts. A
round is a turn of each, in an order that changes from round to round. What disturbs a shared
machine only ever adds time, so the slowest quarter of a build's turns does not count, and there
are more rounds while every second round alone gives another ratio than the others.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from statistics import mean
from time import perf_counter
from typing import IO, TYPE_CHECKING, Any, Self

from .build import ROOT, build
from .report import geometric_mean, seconds_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .case import Case

_SAMPLE_SECONDS = 2e-3
_AGREEMENT = 0.03
_MOST_ROUNDS = 2  # times those asked for
_TINY_SECONDS = 10e-6
_PROCESSES = 5
_WORST = 12
_NOT_THERE = "left out, not possible there"
_LIMITS = (0.75, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The times of one call in each build, one a round."""

    name: str
    other_turns: tuple[float, ...]
    own_turns: tuple[float, ...]

    @property
    def other_seconds(self) -> float:
        return _typical(self.other_turns)

    @property
    def own_seconds(self) -> float:
        return _typical(self.own_turns)

    @property
    def ratio(self) -> float:
        """Time of the other build over ours: above 1 where ours is faster."""
        return self.other_seconds / self.own_seconds


def _typical(seconds: Sequence[float]) -> float:
    """Return the mean of the fastest three quarters."""
    fastest = sorted(seconds)[: max(len(seconds) * 3 // 4, 1)]
    return mean(fastest)


class Build:
    """One build in a process of its own; an empty `folder` stands for what is installed here.

    The environment has another size in each process, and so the stack begins elsewhere.
    """

    def __init__(self, folder: str) -> None:
        self._name = folder or "the build here"
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.child", folder],
            cwd=ROOT,
            env=os.environ | {"NDGATHER_BENCH_SPACE": " " * random.randrange(4096)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input: IO[bytes] = self._process.stdin
        self._output: IO[bytes] = self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._input.close()
        self._process.wait()
        self._output.close()

    def tell(self, *command: Any) -> None:
        with suppress(BrokenPipeError):  # `answer` says that the process ended
            pickle.dump(command, self._input)
            self._input.flush()

    def answer(self) -> Any:
        try:
            return pickle.load(self._output)
        except EOFError:
            raise ValueError(f"the process of {self._name} ended: {self._process.wait()}") from None

    def ask(self, *command: Any) -> Any:
        """Return the answer to a command.

        Raises
        ------
        ValueError
            The build cannot do that; the text says why.
        """
        self.tell(*command)
        answer = self.answer()
        if isinstance(answer, Exception):
            raise ValueError(f"{self._name}: {answer}")
        return answer


def compare(
    what: str,
    cases: Sequence[Case],
    threads: int,
    rounds: int,
    *,
    answers_only: bool,
    path: Path | None,
) -> int:
    """Compare `what` (a revision or a folder) with this build and print the table.

    Returns 0, or 1 if an answer differed or this build failed.

    Raises
    ------
    ValueError
        There is no such revision or folder, it does not build, or its process ends.
    """
    folder = build(what)
    done: list[Comparison] = []
    started = perf_counter()
    wrong = 0
    with Build(str(folder)) as other, Build("") as own:
        print(f"there: {other.ask('where')}\nhere:  {own.ask('where')}\n")
        print(f"{'case':28}  {'there':>9}  {'here':>9}  there/here", flush=True)
        for case in cases:
            replies = _prepared(case, (other, own), threads)
            if isinstance(replies, str):
                wrong += not replies.startswith(_NOT_THERE)
                print(f"{case.name:28}  {replies}", flush=True)
            elif answers_only:
                print(f"{case.name:28}  same bytes", flush=True)
            else:
                done.append(_timed(case, (other, own), replies, rounds))
                if min(replies) < _TINY_SECONDS:
                    done[-1] = _in_other_processes(done[-1], case, str(folder), threads, rounds)
                print(_row(done[-1]), flush=True)
    if done:
        print(f"\n{summary(done)}\nin {perf_counter() - started:.0f} s")
    if path:
        _save(path, what, threads, done)
    return 1 if wrong else 0


def _prepared(case: Case, builds: Sequence[Build], threads: int) -> list[float] | str:
    """Return about how long a call takes in each build, or why the two cannot be compared."""
    for one in builds:
        one.tell("prepare", case, threads)
    there, here = (one.answer() for one in builds)
    if isinstance(here, Exception):
        return f"FAILED here: {here}"
    if isinstance(there, Exception):
        return f"{_NOT_THERE}: {there}"
    if there[0] != here[0]:
        return "DIFFERENT ANSWERS"
    return [there[1], here[1]]


def _timed(case: Case, builds: Sequence[Build], trials: Sequence[float], rounds: int) -> Comparison:
    calls = len(case.variants())
    numbers = [max(int(_SAMPLE_SECONDS / (calls * each)), 1) for each in trials]
    turns: tuple[list[float], list[float]] = ([], [])
    for made in range(_MOST_ROUNDS * rounds):
        if made >= rounds and _agree(*turns):
            break
        for side in (0, 1) if made % 2 else (1, 0):
            turns[side].append(builds[side].ask("turn", numbers[side]))
    return Comparison(name=case.name, other_turns=tuple(turns[0]), own_turns=tuple(turns[1]))


def _in_other_processes(
    one: Comparison, case: Case, folder: str, threads: int, rounds: int
) -> Comparison:
    """Time a tiny call in more processes: where code, stack and heap lie is up to a tenth of it."""
    for _ in range(_PROCESSES - 1):
        with Build(folder) as other, Build("") as own:
            trials = _prepared(case, (other, own), threads)
            if isinstance(trials, str):
                raise ValueError(f"{case.name}: {trials}, but not in the process before")
            more = _timed(case, (other, own), trials, max(rounds // 2, 1))
        one = replace(
            one,
            other_turns=one.other_turns + more.other_turns,
            own_turns=one.own_turns + more.own_turns,
        )
    return one


def _agree(other: Sequence[float], own: Sequence[float]) -> bool:
    """Whether every second round alone gives about the same ratio as the others."""
    if len(own) < 2:
        return True
    even, odd = (_typical(other[first::2]) / _typical(own[first::2]) for first in (0, 1))
    return abs(even - odd) <= _AGREEMENT * odd


def _row(one: Comparison) -> str:
    there, here = seconds_text(one.other_seconds), seconds_text(one.own_seconds)
    return f"{one.name:28}  {there:>9}  {here:>9}  {one.ratio:10.3f}"


def summary(done: Sequence[Comparison]) -> str:
    """Return the mean, the worst cases, and how many are slower by how much."""
    ratios = [one.ratio for one in done]
    worst = sorted(done, key=lambda one: one.ratio)[:_WORST]
    below = [f"{sum(ratio < limit for ratio in ratios)} below {limit}" for limit in _LIMITS]
    return "\n".join(
        [
            f"{len(done)} cases, geometric mean {geometric_mean(ratios):.3f}"
            f" (above 1: faster here), {', '.join(below)}",
            "least: " + ", ".join(f"{one.name} {one.ratio:.2f}" for one in worst),
        ]
    )


def _save(path: Path, what: str, threads: int, done: Sequence[Comparison]) -> None:
    content = {
        "against": what,
        "threads": threads,
        "geometric_mean": geometric_mean([one.ratio for one in done]) if done else None,
        "cases": [asdict(one) | _derived(one) for one in done],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def _derived(one: Comparison) -> dict[str, float]:
    return {
        "other_seconds": one.other_seconds,
        "own_seconds": one.own_seconds,
        "ratio": one.ratio,
    }
