"""Results without values: what `torch.compile` and `torch.export` see, with sizes of any kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ndgather.arrays.torch import calls, checks

if TYPE_CHECKING:
    from ndgather.array_call import Call


def result(kind: str, *arguments: Any) -> torch.Tensor:
    """Return a tensor with the shape and type of the result of an operator.

    Raises
    ------
    NdgatherError
        The shapes or types do not fit; where sizes are symbols, torch adds guards or checks.
    """
    tensors, options = calls.tensors_of(kind, arguments), calls.options_of(kind, arguments)
    call = checks.checked(calls.call_of(kind, tensors, options))
    sizes = [size for each in tensors if each is not None for size in each.shape]
    if all(type(size) is int for size in sizes):
        shape = checks.check_shapes(call)
    else:
        shape = slices_shape(call)
        if call.scatters:
            for given, wanted in zip(call.updates.shape, shape, strict=True):
                torch._check(given == wanted)
    return call.data.new_empty(call.data.shape if call.scatters else shape)


def slices_shape(call: Call) -> tuple[Any, ...]:
    """Return the shape of the slices that a call names; sizes may be symbols."""
    data, indices = call.data.shape, call.indices.shape
    if call.kind in ("gather_elements", "scatter_elements"):
        return tuple(indices)
    if call.kind == "gather_windows":
        return (*indices[:-1], *call.window_shape, *data[len(call.window_shape) :])
    first = call.batch_dims
    for axis in range(first):
        torch._check(data[axis] == indices[axis])
    if call.kind == "gather":
        return (*data[: call.axis], *indices[first:], *data[call.axis + 1 :])
    return (*indices[:-1], *data[first + int(indices[-1]) :])
