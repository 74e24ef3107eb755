"""Run cases in a library, in this process or in child processes that may crash."""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tools.child_process import ChildError, ChildProcess, serve

from .corpus import load
from .libraries import CannotExpressError, Library, library
from .verdicts import Outcome, Verdict, judge, refused, result, unable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .corpus import Case

CASE_LIMIT_S = 20.0


class LibraryFailedError(Exception):
    """A library did not start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The verdict on a library for a case."""

    case: Case
    outcome: Outcome
    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The verdicts on a library for all cases."""

    library: Library
    version: str
    answers: tuple[Answer, ...]

    def count(self, verdict: Verdict) -> int:
        return sum(answer.verdict is verdict for answer in self.answers)


_REPEATS_S = 5.0  # slow libraries repeat a case only for this time


def outcome_of(library: Library, adapter: Any, case: Case) -> Outcome:
    """Run a case in this process; return the first wrong outcome or else the last outcome."""
    if case.operator.domain not in library.domains:
        return unable(f"has no operators of {case.operator.domain}")
    if library.idiom and case.rule.version_specific:
        return unable("implements no version of a published operator")
    ends = time.monotonic() + _REPEATS_S
    try:
        for _ in range(case.runs):
            outcome = result(adapter.run_case(case))
            if judge(case, outcome)[0] is not Verdict.RIGHT or time.monotonic() > ends:
                break
        return outcome
    except CannotExpressError as error:
        return unable(str(error))
    except Exception as error:
        kind_of = getattr(adapter, "kind_of", None)
        return refused(error, None if kind_of is None else kind_of(error))


def run_here(library: Library, cases: Iterable[Case]) -> Column:
    """Run a library in this process, which a crash of the library terminates."""
    adapter = library.load()
    outcomes = [(case, outcome_of(library, adapter, case)) for case in cases]
    return _column(library, adapter.version(), outcomes)


def run_apart(library: Library, cases: Sequence[Case], *, limit_s: float = CASE_LIMIT_S) -> Column:
    """Run a library in child processes; after a crash, a new process continues.

    If a case crashes a child that has run other cases before, it is run again in a new child, in
    case an earlier case caused the crash.

    Raises
    ------
    LibraryFailedError
        The library cannot be imported.
    """
    outcomes: list[tuple[Case, Outcome]] = []
    waiting, version = list(cases), ""
    while waiting:
        with ChildProcess(__name__, library.name, limit_s=None) as child:
            try:
                version = child.ask()
            except ChildError as error:
                raise LibraryFailedError(f"{library.name} did not start: {error}") from error
            child.limit_s = limit_s
            first = waiting[0]
            while waiting:
                case = waiting[0]
                try:
                    outcome = child.ask(case.name)
                except ChildError as error:
                    if case is not first and not child.timed_out:
                        break  # try again in a new child
                    late = f"no end within {limit_s:g} s"
                    how = late if child.timed_out else str(error)
                    outcome = Outcome(what="crashed", text=how)
                outcomes.append((waiting.pop(0), outcome))
                if outcome.what == "crashed":
                    break
    return _column(library, version, outcomes)


def _column(library: Library, version: str, outcomes: Iterable[tuple[Case, Outcome]]) -> Column:
    answers = []
    for case, outcome in outcomes:
        verdict, reason = judge(case, outcome)
        answers.append(Answer(case=case, outcome=outcome, verdict=verdict, reason=reason))
    return Column(library=library, version=version, answers=tuple(answers))


def _serve(name: str) -> None:
    warnings.simplefilter("ignore")
    known = library(name)
    cases = {case.name: case for case in load()}
    adapter = known.load()

    def answer(case: str | None = None) -> Any:
        return adapter.version() if case is None else outcome_of(known, adapter, cases[case])

    serve(answer)


if __name__ == "__main__":
    _serve(sys.argv[1])
