"""polars: `Series.gather` on a column of numbers, with the threads of the process."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import Call, Idioms, column_take

if TYPE_CHECKING:
    from bench.case import Arrays, Case

_polars: Any = import_module("polars")


def prepare(case: Case, threads: int) -> Idioms:
    del threads
    column_take(case)
    return {"Series.gather": _gather}


def _gather(case: Case, arrays: Arrays) -> Call:
    column = _polars.Series(arrays.data)
    # Unsigned 32-bit integers are the library's own index type.
    positions = _polars.Series(arrays.indices.reshape(-1).astype("uint32"))
    return Call(
        run=lambda: column.gather(positions),
        answer=lambda answer: answer.to_numpy().reshape(case.gathered_shape),
    )
