"""JAX on the CPU: a compiled function per case."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .peer import Call, Idioms, Unsupported, advanced_index, is_take

if TYPE_CHECKING:
    from .case import Arrays, Case

_METHODS = {"none": "set", "add": "add", "mul": "multiply", "min": "min", "max": "max"}

_jax: Any = import_module("jax")
_jax.config.update("jax_enable_x64", True)


def prepare(case: Case, threads: int) -> Idioms:
    del threads
    if case.output != "new":
        raise Unsupported("arrays cannot be written to")
    return {"jit": _compiled}


def _compiled(case: Case, arrays: Arrays) -> Call:
    data, indices = _jax.numpy.asarray(arrays.data), _jax.numpy.asarray(arrays.indices)
    updates = None if arrays.updates is None else _jax.numpy.asarray(arrays.updates)
    function = _jax.jit(partial(_call, case))
    return Call(run=lambda: function(data, indices, updates).block_until_ready())


def _call(case: Case, data: Any, indices: Any, updates: Any) -> Any:
    axis = case.indexed_axes.start
    if case.operator == "gather_elements":
        return _jax.numpy.take_along_axis(data, indices, axis)
    if is_take(case) and not case.is_scatter:
        places = indices[..., 0] if case.has_tuples else indices
        return _jax.numpy.take(data, places, axis)
    place = data.at[advanced_index(case, indices)]
    if case.is_scatter:
        return getattr(place, _METHODS[case.reduction])(updates)
    return place.get()
