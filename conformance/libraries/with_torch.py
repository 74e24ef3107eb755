"""The adapter of PyTorch: advanced indexing, gather, and scatters into a clone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from . import CannotExpressError
from .calls import call_of

if TYPE_CHECKING:
    from conformance.corpus import Array, Case

    from .calls import Call

_REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin", "mean": "mean"}
_BITS = {"bfloat16": np.dtype(np.int16)}  # types that are passed as integers


def version() -> str:
    return str(torch.__version__)


def run_case(case: Case) -> Array:
    call = call_of(case)
    call.check_key()
    if call.mode != "raise":
        raise CannotExpressError("an index has no modes")
    data, indices = _tensor(call.data), _tensor(call.indices)
    if call.scatters:
        result = _scatter(call, data, indices)
    elif call.function == "gather_nd":
        result = data[tuple(map(_tensor, call.tuple_key()))]
    elif call.function == "gather_elements":
        result = torch.gather(data, call.axis, indices)
    elif call.batch_dims:
        axis, batch_dims = range(call.data.ndim)[call.axis], call.batch_dims
        gathered = torch.movedim(data, axis, batch_dims)[tuple(map(_tensor, call.batch_key()))]
        ends = tuple(range(call.indices.ndim, call.indices.ndim + axis - batch_dims))
        result = torch.movedim(gathered, ends, tuple(range(batch_dims, axis)))
    else:
        torch.movedim(data, call.axis, 0)  # raises for an axis that data does not have
        result = data[(slice(None),) * range(data.ndim)[call.axis] + (indices,)]
    dtype = call.data.dtype
    array: Array = (result.view(torch.int16) if dtype.name in _BITS else result).numpy()
    return array.view(dtype)


def _scatter(call: Call, data: Any, indices: Any) -> Any:
    assert call.updates is not None
    updates = _tensor(call.updates)
    if call.function == "scatter_nd":
        if call.reduction not in ("none", "add"):
            raise CannotExpressError(f"index_put has no {call.reduction}")
        key = tuple(map(_tensor, call.tuple_key()))
        return data.index_put(key, updates, accumulate=call.reduction == "add")
    if call.reduction == "none":
        return torch.scatter(data, call.axis, indices, updates)
    if call.reduction not in _REDUCE:
        raise CannotExpressError(f"scatter_reduce has no {call.reduction}")
    return torch.scatter_reduce(data, call.axis, indices, updates, _REDUCE[call.reduction])


def _tensor(array: Array) -> Any:
    """Return a tensor that shares the memory."""
    try:
        if array.dtype.name in _BITS:
            stored = torch.from_numpy(array.view(_BITS[array.dtype.name]))
            return stored.view(getattr(torch, array.dtype.name))
        return torch.from_numpy(array)
    except (TypeError, ValueError) as error:
        raise CannotExpressError(str(error)) from error
