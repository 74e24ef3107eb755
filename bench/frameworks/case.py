"""A case: one call of ours and the library's own way to the same result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Function = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Condition:
    """A limit, and what was reached, in the same unit."""

    unit: str
    limit: float
    reached: float

    @property
    def passed(self) -> bool:
        return self.reached <= self.limit

    @property
    def word(self) -> str:
        return "pass" if self.passed else "short"

    @property
    def asked(self) -> str:
        return f"<= {self.limit:g} {self.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is measured, and what it may take: a share of the library's own time, microseconds.

    `functions` makes the two calls, ours first; each waits until its result is there. `array`
    makes a NumPy array of a result.
    """

    name: str
    why: str
    limit: float | None = None
    microseconds: float | None = None
    functions: Callable[[], tuple[Function, Function]]
    array: Callable[[Any], Any] = np.asarray

    def conditions(self, seconds: float, native: float) -> list[Condition]:
        """Return what has to hold, and what was reached."""
        found = []
        if self.microseconds is not None:
            found.append(Condition("us", self.microseconds, seconds * 1e6))
        if self.limit is not None:
            found.append(Condition("of native", self.limit, seconds / native))
        return found
