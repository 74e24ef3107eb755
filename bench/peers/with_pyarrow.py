"""Apache Arrow: `pyarrow.compute.take` on a column of numbers, on one thread."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import Call, Idioms, column_take

if TYPE_CHECKING:
    from bench.case import Arrays, Case

_arrow: Any = import_module("pyarrow")
_compute: Any = import_module("pyarrow.compute")


def prepare(case: Case, threads: int) -> Idioms:
    del threads
    column_take(case)
    return {"take": _take}


def _take(case: Case, arrays: Arrays) -> Call:
    column, positions = _arrow.array(arrays.data), _arrow.array(arrays.indices.reshape(-1))
    return Call(
        run=partial(_compute.take, column, positions),
        answer=lambda answer: answer.to_numpy(zero_copy_only=False).reshape(case.gathered_shape),
    )
