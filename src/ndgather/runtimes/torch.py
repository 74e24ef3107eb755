"""PyTorch: advanced indexing, gather, and the scatters of a clone."""

from __future__ import annotations

from functools import cache
from importlib import import_module
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
    tuple_key,
)

if TYPE_CHECKING:
    from ndgather.runtimes.runtime import Asked, OperatorCall

Array = NDArray[Any]

RUNTIME = Runtime(
    name="torch",
    module="torch",
    adapter=__name__,
    domains=EVERY_DOMAIN,
    idiom=True,
)


@cache
def _torch() -> Any:
    return import_module("torch")


_REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin", "mean": "mean"}
_BITS = {"bfloat16": np.dtype(np.int16)}  # types that pass as integers of their width


def version() -> str:
    return str(_torch().__version__)


def run(call: OperatorCall) -> Array:
    asked = asked_of(call)
    check(asked)
    if asked.mode != "raise":
        raise CannotExpressError("an index has no modes")
    data, indices = _tensor(asked.data), _tensor(asked.indices)
    if asked.kind.scatters:
        return _array(_scatter(asked, data, indices), asked.data.dtype)
    if asked.kind is Kind.GATHER_ND:
        gathered = data[tuple(_tensor(part) for part in tuple_key(asked))]
    elif asked.kind is Kind.GATHER_ELEMENTS:
        gathered = _torch().gather(data, asked.axis, indices)
    elif asked.batch_dims:
        gathered = _batched_gather(asked, data)
    else:
        _torch().movedim(data, asked.axis, 0)  # names an axis that there is
        axis = range(data.ndim)[asked.axis]
        gathered = data[(slice(None),) * axis + (indices,)]
    return _array(gathered, asked.data.dtype)


def _batched_gather(asked: Asked, data: Any) -> Any:
    axis, batch_dims = range(asked.data.ndim)[asked.axis], asked.batch_dims
    key = tuple(_tensor(part) for part in batch_key(asked))
    gathered = _torch().movedim(data, axis, batch_dims)[key]
    ends = tuple(range(asked.indices.ndim, asked.indices.ndim + axis - batch_dims))
    return _torch().movedim(gathered, ends, tuple(range(batch_dims, axis)))


def _scatter(asked: Asked, data: Any, indices: Any) -> Any:
    assert asked.updates is not None
    updates = _tensor(asked.updates)
    if asked.kind is Kind.SCATTER_ND:
        if asked.reduction not in ("none", "add"):
            raise CannotExpressError(f"index_put has no {asked.reduction}")
        if not asked.indices.shape[-1]:
            raise CannotExpressError("a key of no indices has no positions")
        key = tuple(_tensor(part) for part in tuple_key(asked))
        return data.index_put(key, updates, accumulate=asked.reduction == "add")
    if asked.reduction == "none":
        return _torch().scatter(data, asked.axis, indices, updates)
    if asked.reduction not in _REDUCE:
        raise CannotExpressError(f"scatter_reduce has no {asked.reduction}")
    return _torch().scatter_reduce(data, asked.axis, indices, updates, _REDUCE[asked.reduction])


def _tensor(array: Array) -> Any:
    """Return a tensor that shares the memory, or say why there is none."""
    try:
        if array.dtype.name in _BITS:
            stored = _torch().from_numpy(array.view(_BITS[array.dtype.name]))
            return stored.view(getattr(_torch(), array.dtype.name))
        return _torch().from_numpy(array)
    except (TypeError, ValueError) as error:
        raise CannotExpressError(str(error)) from error


def _array(tensor: Any, dtype: np.dtype[Any]) -> Array:
    if dtype.name in _BITS:
        tensor = tensor.view(_torch().int16)
    array: Array = tensor.numpy()
    return array.view(dtype)
