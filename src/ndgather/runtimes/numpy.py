"""NumPy: advanced indexing, take, take_along_axis, and the in-place forms of a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndgather.published.schema import Kind
from ndgather.runtimes.runtime import (
    EVERY_DOMAIN,
    CannotExpressError,
    Runtime,
    asked_of,
    batch_key,
    check,
    element_key,
    tuple_key,
)

if TYPE_CHECKING:
    from ndgather.runtimes.runtime import Asked, OperatorCall

Array = NDArray[Any]

RUNTIME = Runtime(
    name="numpy",
    module="numpy",
    adapter=__name__,
    domains=EVERY_DOMAIN,
    idiom=True,
)


_COMBINE: dict[str, np.ufunc] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def version() -> str:
    return np.__version__


def run(call: OperatorCall) -> Array:
    asked = asked_of(call)
    check(asked)
    if asked.kind.scatters:
        return _scatter(asked)
    if asked.kind is Kind.GATHER and not asked.batch_dims:
        taken: Array = np.take(asked.data, asked.indices, asked.axis, mode=asked.mode)  # type: ignore[call-overload]  # any of its modes
        return taken
    if asked.mode != "raise":
        raise CannotExpressError("an index has no modes")
    if asked.kind is Kind.GATHER_ND:
        return np.asarray(asked.data[tuple_key(asked)])
    if asked.kind is Kind.GATHER_ELEMENTS:
        return np.take_along_axis(asked.data, asked.indices, asked.axis)
    axis = range(asked.data.ndim)[asked.axis]
    gathered = np.moveaxis(asked.data, axis, asked.batch_dims)[batch_key(asked)]
    ends = range(asked.indices.ndim, asked.indices.ndim + axis - asked.batch_dims)
    return np.moveaxis(gathered, ends, range(asked.batch_dims, axis))


def _scatter(asked: Asked) -> Array:
    assert asked.updates is not None
    if asked.kind is Kind.SCATTER_ND and not asked.indices.shape[-1]:
        raise CannotExpressError("a key of no indices has no positions")
    copy = asked.data.copy()
    if asked.kind is Kind.SCATTER_ELEMENTS and asked.reduction == "none":
        np.put_along_axis(copy, asked.indices, asked.updates, asked.axis)
        return copy
    key = tuple_key(asked) if asked.kind is Kind.SCATTER_ND else element_key(asked)
    if asked.reduction == "none":
        copy[key] = asked.updates
    elif asked.reduction in _COMBINE:
        _COMBINE[asked.reduction].at(copy, key, asked.updates)
    else:
        raise CannotExpressError(f"has no {asked.reduction}")
    return copy
