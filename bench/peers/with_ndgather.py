"""ndgather's public functions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import ndgather

from . import Call, Idioms, Unsupported

if TYPE_CHECKING:
    from bench.case import Arrays, Case


def prepare(case: Case, threads: int) -> Idioms:
    ndgather.set_num_threads(threads)
    function = getattr(ndgather, case.operator, None)
    if function is None:
        raise Unsupported(f"ndgather has no {case.operator}")
    # Positional if possible, because partial() makes a dict of keyword arguments.
    positional: list[int] = [] if case.has_tuples else [case.axis]
    options: dict[str, Any] = {}
    if case.batch_dims and case.has_tuples:
        positional.append(case.batch_dims)
    elif case.batch_dims:
        options["batch_dims"] = case.batch_dims
    if case.mode != "raise":
        options["mode"] = case.mode
    if case.is_scatter:
        options["reduction"] = case.reduction

    def bind(case: Case, arrays: Arrays) -> Call:
        inputs = [arrays.data, arrays.indices]
        if arrays.updates is not None:
            inputs.append(arrays.updates)
        out = arrays.data if case.output == "data" else arrays.out
        target = {} if out is None else {"out": out}
        return Call(run=partial(function, *inputs, *positional, **options, **target))

    return {case.operator: bind}
