"""Check that two functions agree, then let them take turns; medians are compared."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .case import Case, Condition, Function

_TURN_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Seconds of one call, by turn."""

    case: Case
    ours: tuple[float, ...]
    native: tuple[float, ...]

    @property
    def medians(self) -> tuple[float, float]:
        return median(self.ours), median(self.native)

    @property
    def conditions(self) -> list[Condition]:
        return self.case.conditions(*self.medians)

    @property
    def passed(self) -> bool:
        return all(each.passed for each in self.conditions)

    def lines(self) -> list[str]:
        """Return the times, and a line for each condition."""
        ours, native = (each * 1e6 for each in self.medians)
        times = f"{self.case.name:24} {ours:12.2f} {native:12.2f} us {ours / native:8.3f}"
        judged = [f"  {each.word:5} {each.asked}: {each.reached:.3g}" for each in self.conditions]
        return [times, *judged]


def measure(case: Case, turns: int) -> Result:
    """Return what the two functions of a case take.

    Raises
    ------
    AssertionError
        Their results differ.
    """
    functions = case.functions()
    result, desired = (case.array(each()) for each in functions)
    np.testing.assert_allclose(result, desired, rtol=1e-5, atol=1e-5)
    calls = [_calls_in_a_turn(each) for each in functions]
    seconds: tuple[list[float], list[float]] = ([], [])
    for turn in range(turns):
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            seconds[which].append(_seconds(functions[which], calls[which]))
    return Result(case=case, ours=tuple(seconds[0]), native=tuple(seconds[1]))


def _calls_in_a_turn(function: Function) -> int:
    _seconds(function, 3)
    return max(int(_TURN_SECONDS / max(_seconds(function, 3), 1e-9)), 1)


def _seconds(function: Function, calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - begin) / calls
