"""The plain interpreted loops of this package: what the definition costs when taken literally."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .peer import Idioms, Unsupported
from .with_ndgather import calls_of

if TYPE_CHECKING:
    from .case import Case

_LONGEST = 20_000

_reference = import_module("ndgather.reference")


def prepare(case: Case, threads: int) -> Idioms:
    del threads
    if case.lookups > _LONGEST:
        raise Unsupported(f"more than {_LONGEST} lookups in interpreted loops")
    if case.output != "new":
        raise Unsupported("no out=")
    return calls_of(_reference, case)
