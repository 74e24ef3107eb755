"""Measure a case: every method in a process of its own, in turns; judge the conditions."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Self

from bench.build import ROOT

from . import field as fields
from . import instructions
from .cases import MEGABYTE
from .request import Request

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from .cases import Case, Condition

OWN = "ndgather"
NO_RIVALS = (OWN, "floor")

_THREADS = 2
_READS_IN_FLIGHT = {"local": 2, "remote": 16, "cluster": 2}
_HOPELESS = 1.5  # times the best: such a method takes no further turns
_POINT_BYTES = 8
_CHUNK_ENTRY_BYTES = 16
_SLACK_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one method took: seconds of every turn, and bytes of the first."""

    method: str
    wall: tuple[float, ...] = ()
    cpu: tuple[float, ...] = ()
    memory: float = 0
    worker_memory: float = 0
    instructions: float = 0
    refusal: str = ""

    def quantity(self, name: str) -> float:
        value = getattr(self, name)
        return median(value) if isinstance(value, tuple) else float(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a condition holds: what was reached, as a multiple of what it is compared with."""

    condition: str
    reached: float
    passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the methods of one case took, and which conditions hold."""

    case: str
    methods: tuple[Measured, ...]
    verdicts: tuple[Verdict, ...]


def measure(case: Case, folder: Path, rounds: int, before: str | None) -> Result:
    """Return what every method of the case took and which conditions hold."""
    if case.work == "instructions":
        methods = instructions.count(case, before)
        return judged(case, [Measured(**each) for each in methods], {})
    with ExitStack() as stack:
        request = stack.enter_context(requested(case, fields.FULL, folder))
        small = replace(request, size=replace(request.size, share=case.count))
        children = [
            stack.enter_context(_Child(method, own_copy(method, request, stack), small))
            for method in case.methods
        ]
        measured = _in_turns(children, rounds)
        return judged(case, measured, limits(request))


@contextmanager
def requested(case: Case, size: fields.Size, folder: Path) -> Iterator[Request]:
    """Make the array of the case, and serve it where the case is a remote one."""
    path = folder if case.store == "memory" else fields.store(folder, case.store, size)
    if case.place != "remote":
        yield Request(case=case, size=size, path=path)
        return
    command = [sys.executable, "-m", "bench.stored.server", str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        yield Request(case=case, size=size, path=path, url=url)
        server.communicate()


def own_copy(method: str, request: Request, stack: ExitStack) -> Request:
    """Give a method an array of its own, where the call writes."""
    if request.case.work != "scatter":
        return request
    copy = request.path.with_suffix(f".{method}")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(request.path, copy)
    stack.callback(shutil.rmtree, copy)
    return replace(request, path=copy)


class _Child:
    """A process that makes the call of one method, a turn at a time."""

    def __init__(self, method: str, request: Request, small: Request) -> None:
        self.method = method
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench.stored.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.first: Any = self._answer(pickle.dumps((request, small, method)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.communicate()

    def turn(self) -> dict[str, float]:
        reply: dict[str, float] = self._answer(b".")
        return reply

    def _answer(self, command: bytes) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(command)
            self.process.stdin.flush()
            return pickle.load(self.process.stdout)
        except (BrokenPipeError, EOFError):
            return f"ended with status {self.process.wait()}"


def _in_turns(children: Sequence[_Child], rounds: int) -> list[Measured]:
    able = [child for child in children if isinstance(child.first, dict)]
    rivals = [child for child in able if child.method not in NO_RIVALS]
    best = min((child.first["wall"] for child in rivals), default=0.0)
    turns: dict[str, list[dict[str, float]]] = {child.method: [] for child in children}
    racing = [
        child for child in able if child not in rivals or child.first["wall"] <= _HOPELESS * best
    ]
    for number in range(rounds):
        first = number % max(len(racing), 1)
        for child in (*racing[first:], *racing[:first]):
            turns[child.method].append(child.turn())
    return [_measured(child, turns[child.method]) for child in children]


def _measured(child: _Child, turns: list[dict[str, float]]) -> Measured:
    if not isinstance(child.first, dict):
        return Measured(method=child.method, refusal=str(child.first))
    seconds = turns or [child.first]
    return Measured(
        method=child.method,
        wall=tuple(turn["wall"] for turn in seconds),
        cpu=tuple(turn["cpu"] for turn in seconds),
        memory=child.first["memory"],
        worker_memory=child.first.get("worker_memory", 0),
    )


def limits(request: Request) -> dict[str, float]:
    """Return what memory is compared with; the terms stand in docs/guarantees.md."""
    if request.case.store == "memory":
        return {}
    result, stored = request.result_bytes, request.stored_bytes
    formula = (
        result
        + _POINT_BYTES * len(request.indices)
        + _THREADS * (request.chunk_bytes + stored)
        + _READS_IN_FLIGHT[request.case.place] * stored
        + _CHUNK_ENTRY_BYTES * len(request.touched())
        + _SLACK_BYTES
    )
    return {"formula": formula, "results": result, "megabytes": MEGABYTE}


def judged(case: Case, methods: Sequence[Measured], bounds: Mapping[str, float]) -> Result:
    """Return the result with a verdict for each condition that can be judged."""
    able = {each.method: each for each in methods if not each.refusal}
    verdicts = []
    for condition in case.conditions:
        other = _compared(condition, able, bounds)
        if OWN in able and other:
            reached = able[OWN].quantity(condition.quantity) / other
            passed = reached <= condition.factor
        else:
            reached, passed = float("nan"), False
        verdicts.append(Verdict(condition=str(condition), reached=reached, passed=passed))
    return Result(case=case.name, methods=tuple(methods), verdicts=tuple(verdicts))


def _compared(
    condition: Condition, able: Mapping[str, Measured], bounds: Mapping[str, float]
) -> float | None:
    if condition.of in bounds:
        return bounds[condition.of]
    if condition.of == "best":
        rivals = [each for name, each in able.items() if name not in NO_RIVALS]
        return min((each.quantity(condition.quantity) for each in rivals), default=None)
    other = able.get(condition.of)
    return other.quantity(condition.quantity) if other else None
