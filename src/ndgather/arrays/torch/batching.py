"""Calls under `torch.vmap`: one axis more, in one call of the operator."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from ndgather.arrays.torch.calls import call_of, operate, options_of, tensors_of
from ndgather.arrays.torch.places import signed

if TYPE_CHECKING:
    from ndgather.array_call import Call


def rule(
    kind: str, info: Any, in_dims: tuple[int | None, ...], *arguments: Any
) -> tuple[torch.Tensor, int]:
    """Return the result for every entry of the axis that is mapped, and where that axis stands."""
    tensors = tensors_of(kind, arguments)
    mapped = tensors_of(kind, in_dims)
    bare = tuple(
        each if axis is None else each.select(axis, 0)
        for each, axis in zip(tensors, mapped, strict=True)
    )
    call = call_of(kind, bare, options_of(kind, arguments))
    if not call.scatters and mapped[1] is None and kind != "gather_elements":
        return _data_alone(call, tensors[0], mapped[0])
    if mapped[0] is None and kind in ("gather_nd", "gather", "gather_windows"):
        first = 0 if kind == "gather_windows" else call.batch_dims
        result = operate(replace(call, indices=tensors[1].movedim(mapped[1], first)))
        return result, call.axis if kind == "gather" else first
    size = info.batch_size
    data, indices, updates = (
        _in_front(each, axis, size) for each, axis in zip(tensors, mapped, strict=True)
    )
    if kind == "gather_windows":
        return _windows(call, data, indices, size), 0
    wider = replace(
        call,
        data=data,
        indices=indices,
        updates=updates,
        axis=call.axis + 1,
        batch_dims=call.batch_dims + 1,
    )
    return operate(wider), 0


def _data_alone(call: Call, data: torch.Tensor, axis: int) -> tuple[torch.Tensor, int]:
    """Gather with the same indices from every entry: the axis becomes the last of the slices."""
    result = operate(replace(call, data=data.movedim(axis, -1)))
    return result, result.dim() - 1


def _in_front(tensor: torch.Tensor | None, axis: int | None, size: int) -> torch.Tensor | None:
    if tensor is None:
        return None
    return tensor.expand(size, *tensor.shape) if axis is None else tensor.movedim(axis, 0)


def _windows(call: Call, data: torch.Tensor, starts: torch.Tensor, size: int) -> torch.Tensor:
    """Gather windows of size 1 along the axis that is mapped."""
    number = torch.arange(size, device=starts.device, dtype=torch.int64)
    number = number.reshape(-1, *(1,) * (starts.dim() - 1)).expand(*starts.shape[:-1], 1)
    starts = torch.cat([number, signed(starts)], -1)
    wider = replace(call, data=data, indices=starts, window_shape=(1, *call.window_shape))
    return operate(wider).squeeze(starts.dim() - 1)
