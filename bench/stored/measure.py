"""Measure a case: methods in their own processes and in turns, or the instructions of a call."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.against import build
from tools.child_process import ROOT, ChildError, ChildProcess

from . import field as fields
from .cases import Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .cases import Case

OWN = "ndgather"
NOT_COMPARED = (OWN, "floor")
_SLOW = 1.5  # a method this many times as slow as the fastest takes no further turns

_FEW_CALLS = 100
_CODE = """
import sys, numpy, ndgather
data, indices = numpy.arange(100.0), numpy.array([[1], [2], [3]])
for _ in range(int(sys.argv[1])):
    ndgather.gather_nd(data, indices)
"""
_COUNT = re.compile(r"Collected : (\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measurements of a method: seconds of all turns, bytes of the first, or a refusal."""

    method: str
    wall: tuple[float, ...] = ()
    cpu: tuple[float, ...] = ()
    memory: float = 0
    worker_memory: float = 0
    instructions: float = 0
    refusal: str = ""

    @property
    def wall_seconds(self) -> float:
        return median(self.wall)

    @property
    def cpu_seconds(self) -> float:
        return median(self.cpu)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The methods of a case; `allowed_bytes` is the memory limit of our call, or 0."""

    case: str
    methods: tuple[Measured, ...]
    allowed_bytes: float = 0

    @property
    def own(self) -> Measured | None:
        return next((each for each in self.timed if each.method == OWN), None)

    @property
    def floor(self) -> Measured | None:
        return next((each for each in self.timed if each.method == "floor"), None)

    @property
    def fastest_other(self) -> Measured | None:
        others = (each for each in self.timed if each.method not in NOT_COMPARED)
        return min(others, key=lambda each: each.wall_seconds, default=None)

    @property
    def timed(self) -> list[Measured]:
        return [each for each in self.methods if each.wall]

    @property
    def failed(self) -> bool:
        """True if our result was wrong or the call exceeded its memory limit."""
        own = next((each for each in self.methods if each.method == OWN), None)
        return own is not None and (bool(own.refusal) or own.memory > self.allowed_bytes > 0)


def measure(case: Case, folder: Path, rounds: int, before: str | None) -> Result:
    """Measure every method of a case."""
    if case.work == "instructions":
        return Result(case=case.name, methods=_instructions(case, before))
    with ExitStack() as stack:
        request = stack.enter_context(requested(case, fields.FULL, folder))
        small = replace(request, size=replace(request.size, share=case.count))
        children: dict[str, ChildProcess] = {}
        firsts: dict[str, dict[str, float]] = {}
        refusals: dict[str, str] = {}
        for method in case.methods:
            children[method] = stack.enter_context(ChildProcess("bench.stored.child"))
            own = own_copy(method, request, stack)
            try:
                firsts[method] = children[method].ask("first", own, small, method)
            except ChildError as error:
                refusals[method] = " ".join(str(error).split())[:200]
        others = [first["wall"] for method, first in firsts.items() if method not in NOT_COMPARED]
        limit = _SLOW * min(others, default=0.0)
        racing = [
            method
            for method, first in firsts.items()
            if method in NOT_COMPARED or first["wall"] <= limit
        ]
        turns: dict[str, list[dict[str, float]]] = {method: [] for method in firsts}
        for number in range(rounds):
            start = number % max(len(racing), 1)
            for method in (*racing[start:], *racing[:start]):
                turns[method].append(children[method].ask("turn"))
        measured = [Measured(method=method, refusal=text) for method, text in refusals.items()]
        for method, first in firsts.items():
            times = turns[method] or [first]
            measured.append(
                Measured(
                    method=method,
                    wall=tuple(turn["wall"] for turn in times),
                    cpu=tuple(turn["cpu"] for turn in times),
                    memory=first["memory"],
                    worker_memory=first.get("worker_memory", 0),
                )
            )
        measured.sort(key=lambda each: case.methods.index(each.method))
        return Result(case=case.name, methods=tuple(measured), allowed_bytes=request.allowed_bytes)


@contextmanager
def requested(case: Case, size: fields.Size, folder: Path) -> Iterator[Request]:
    """Create the array of a case, and serve it if the case is remote."""
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
    """Return the request; if the call writes, with a copy of the array for this method."""
    if request.case.work != "scatter":
        return request
    copy = request.path.with_suffix(f".{method}")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(request.path, copy)
    stack.callback(shutil.rmtree, copy)
    return replace(request, path=copy)


def _instructions(case: Case, before: str | None) -> tuple[Measured, ...]:
    """Count the instructions of a call with valgrind, in this build and in revision `before`."""
    if shutil.which("valgrind") is None:
        return tuple(
            Measured(method=method, refusal="valgrind is not installed") for method in case.methods
        )
    own = Path(import_module("ndgather").__file__ or "").parents[1]
    folders = {OWN: own} | ({"before": build(before)} if before else {})
    counted = [
        Measured(method=method, instructions=_instructions_of_a_call(folder, case.count))
        for method, folder in folders.items()
    ]
    if not before:
        counted.append(Measured(method="before", refusal="needs a revision: --before REV"))
    return tuple(counted)


def _instructions_of_a_call(folder: Path, calls: int) -> float:
    """Return the difference of two processes, so that Python's startup cancels out."""
    totals = []
    for number in (_FEW_CALLS, _FEW_CALLS + calls):
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={os.devnull}"]
        command += [sys.executable, "-c", _CODE, str(number)]
        setting = os.environ | {"PYTHONPATH": str(folder), "PYTHONHASHSEED": "0"}
        done = subprocess.run(command, env=setting, capture_output=True, text=True, check=True)
        found = _COUNT.search(done.stderr)
        assert found is not None, done.stderr
        totals.append(int(found[1]))
    return (totals[1] - totals[0]) / calls
