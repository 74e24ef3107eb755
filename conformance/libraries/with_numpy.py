"""The adapter of NumPy: advanced indexing, take, take_along_axis and updates of a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import CannotExpressError
from .calls import call_of

if TYPE_CHECKING:
    from conformance.corpus import Array, Case

    from .calls import Call

_COMBINE: dict[str, np.ufunc] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def version() -> str:
    return np.__version__


def run_case(case: Case) -> Array:
    call = call_of(case)
    call.check_key()
    if call.scatters:
        return _scatter(call)
    if call.function == "gather" and not call.batch_dims:
        taken: Array = np.take(call.data, call.indices, call.axis, mode=call.mode)  # type: ignore[call-overload]  # any of its modes
        return taken
    if call.mode != "raise":
        raise CannotExpressError("an index has no modes")
    if call.function == "gather_nd":
        return np.asarray(call.data[call.tuple_key()])
    if call.function == "gather_elements":
        return np.take_along_axis(call.data, call.indices, call.axis)
    axis = range(call.data.ndim)[call.axis]
    gathered = np.moveaxis(call.data, axis, call.batch_dims)[call.batch_key()]
    ends = range(call.indices.ndim, call.indices.ndim + axis - call.batch_dims)
    return np.moveaxis(gathered, ends, range(call.batch_dims, axis))


def _scatter(call: Call) -> Array:
    assert call.updates is not None
    copy = call.data.copy()
    if call.function == "scatter_elements" and call.reduction == "none":
        np.put_along_axis(copy, call.indices, call.updates, call.axis)
        return copy
    key = call.tuple_key() if call.function == "scatter_nd" else call.element_key()
    if call.reduction == "none":
        copy[key] = call.updates
    elif call.reduction in _COMBINE:
        _COMBINE[call.reduction].at(copy, key, call.updates)
    else:
        raise CannotExpressError(f"has no {call.reduction}")
    return copy
