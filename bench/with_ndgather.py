"""Our own package, through its public functions."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .peer import Call, Idioms, Unsupported

if TYPE_CHECKING:
    from types import ModuleType

    from .case import Arrays, Case

_ndgather = import_module("ndgather")


def prepare(case: Case, threads: int) -> Idioms:
    set_threads(threads)
    return calls_of(_ndgather, case)


def set_threads(threads: int) -> None:
    _ndgather.set_num_threads(threads)


def calls_of(module: ModuleType, case: Case) -> Idioms:
    """Return the calls of a module that has this package's functions."""
    function = getattr(module, case.operator, None)
    if function is None:
        raise Unsupported(f"{module.__name__} has no {case.operator} yet")
    # By position where that can be: partial() makes a dict of what is given by name.
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
        given = {} if out is None else {"out": out}
        return Call(run=partial(function, *inputs, *positional, **options, **given))

    return {case.operator: bind}
