"""A case: one call of ours and the library's own way to the same result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Function = Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is measured, and how much of the library's own time it may take.

    `functions` makes the two calls, ours first; each waits until its result is there and returns
    it as something that NumPy takes.
    """

    name: str
    why: str
    limit: float
    functions: Callable[[], tuple[Function, Function]]
