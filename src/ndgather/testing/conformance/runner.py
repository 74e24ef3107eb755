"""Run a library on cases in child processes, so that a crash is an outcome and not the end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from queue import Empty, Queue
from tempfile import TemporaryFile
from threading import Thread
from typing import TYPE_CHECKING, Any

from ndgather.testing.conformance.child import outcome_of
from ndgather.testing.conformance.outcomes import Outcome, Verdict, crashed, from_record, judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import IO

    from ndgather.runtimes.runtime import Runtime
    from ndgather.testing.conformance.cases import Case

CASE_LIMIT_S = 20.0
START_LIMIT_S = 300.0


class RuntimeFailedError(Exception):
    """A library did not even start; the text says how it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a library made of one case."""

    case: Case
    outcome: Outcome
    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What one library made of every case."""

    runtime: Runtime
    version: str
    answers: tuple[Answer, ...]

    def count(self, verdict: Verdict) -> int:
        return sum(answer.verdict is verdict for answer in self.answers)


def run_here(runtime: Runtime, cases: Iterable[Case]) -> Column:
    """Run a library in this process, which a crash of it ends."""
    adapter = runtime.load()
    outcomes = [(case, outcome_of(runtime, adapter, case)) for case in cases]
    return _column(runtime, adapter.version(), outcomes)


def run_apart(runtime: Runtime, cases: Sequence[Case], *, limit_s: float = CASE_LIMIT_S) -> Column:
    """Run a library in child processes; after a crash the next one goes on.

    A case in which a child dies that has run others before is run once more at the start of a
    new child, so that it does not answer for what an earlier one has broken.

    Raises
    ------
    RuntimeFailedError
        The library cannot be imported.
    """
    outcomes: dict[str, Outcome] = {}
    waiting, version = list(cases), ""
    while waiting:
        batch = _run_batch(runtime, waiting, limit_s)
        version = batch.version or version
        outcomes |= batch.outcomes
        if batch.died_in is not None and (batch.timed_out or batch.died_in == waiting[0].name):
            outcomes[batch.died_in] = crashed(batch.how)
        elif batch.died_in is None and not batch.outcomes:
            raise RuntimeFailedError(f"{runtime.name} did not start: {batch.how}")
        waiting = [case for case in waiting if case.name not in outcomes]
    return _column(runtime, version, [(case, outcomes[case.name]) for case in cases])


def _column(runtime: Runtime, version: str, outcomes: Iterable[tuple[Case, Outcome]]) -> Column:
    answers = []
    for case, outcome in outcomes:
        verdict, reason = judge(case, outcome)
        answers.append(Answer(case=case, outcome=outcome, verdict=verdict, reason=reason))
    return Column(runtime=runtime, version=version, answers=tuple(answers))


@dataclass(slots=True, kw_only=True)
class _Batch:
    """What one child said before it ended."""

    version: str = ""
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    died_in: str | None = None
    timed_out: bool = False
    how: str = ""


def _run_batch(runtime: Runtime, cases: Sequence[Case], limit_s: float) -> _Batch:
    batch = _Batch()
    command = [sys.executable, "-m", "ndgather.testing.conformance.child", runtime.name]
    with (
        TemporaryFile() as printed,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=printed, text=True
        ) as child,
    ):
        assert child.stdin is not None
        assert child.stdout is not None
        lines: Queue[str | None] = Queue()
        Thread(target=_read, args=(child.stdout, lines), daemon=True).start()
        try:
            json.dump([case.name for case in cases], child.stdin)
            child.stdin.close()
        except BrokenPipeError:
            pass  # it ended before it asked for work; its status says how
        batch.timed_out = _follow(lines, batch, limit_s)
        if batch.timed_out:
            child.kill()
        status = child.wait()
        printed.seek(0)
        last = printed.read().decode("utf-8", "replace").strip().splitlines()[-1:]
        batch.how = f"no end within {limit_s:g} s" if batch.timed_out else _how(status, last)
    return batch


def _read(stream: IO[str], lines: Queue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _follow(lines: Queue[str | None], batch: _Batch, limit_s: float) -> bool:
    """Read lines into `batch` until there are no more; return whether one took too long."""
    while True:
        try:
            line = lines.get(timeout=limit_s if batch.version else START_LIMIT_S)
        except Empty:
            return True
        if line is None:
            return False
        said: dict[str, Any] = json.loads(line)
        if "version" in said:
            batch.version = said["version"]
        elif "begun" in said:
            batch.died_in = said["begun"]
        else:
            batch.outcomes[said["ended"]] = from_record(said["outcome"])
            batch.died_in = None


def _how(status: int, last: Sequence[str]) -> str:
    if status < 0:
        return signal.Signals(-status).name
    return f"exit status {status}{': ' if last else ''}{''.join(last)}"
