"""Gathers and scatters out of torch's own functions: for other devices, and where tensors compose.

Nothing is copied to the host. A call with ``mode="raise"`` waits for the device once, to learn
whether an index is out of bounds; the other modes never wait.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from ndgather.arrays.torch import elements, steps
from ndgather.arrays.torch.places import places

if TYPE_CHECKING:
    from ndgather.array_call import Call

_REDUCE = {"mul": "prod", "min": "amin", "max": "amax"}


def run(call: Call) -> torch.Tensor:
    """Carry out a call, whose shapes and types are checked, on the device of its tensors.

    Raises
    ------
    IndexOutOfBoundsError
        An entry of indices is out of bounds, and the mode is "raise".
    """
    if call.kind == "gather":
        return gather_axis(call)
    return _scatter(call) if call.scatters else gather_rows(call)


def gather_axis(call: Call) -> torch.Tensor:
    """Gather along one axis: it is moved to the batch axes, and what stood before it back."""
    axis, first = call.axis, call.batch_dims
    result = gather_rows(replace(call, data=call.data.movedim(axis, first)))
    between = range(call.indices.dim(), call.indices.dim() + axis - first)
    return result.movedim(tuple(between), tuple(range(first, axis))).contiguous()


def gather_rows(call: Call) -> torch.Tensor:
    """Gather what `places` names."""
    named = places(call)
    rest = _slice_shape(call)
    shape = (*named.numbers.shape, *rest)
    if not named.count:  # no row can be inside
        return call.data.new_full(shape, 0 if call.fill_value is None else call.fill_value)
    rows = elements.bits_of(call.data).reshape(named.count, *rest)
    result = rows.index_select(0, named.numbers.reshape(-1)).reshape(shape)
    if result.dtype != call.data.dtype:
        result = result.view(call.data.dtype)
    if named.inside is None:
        return result
    inside = named.inside.reshape(*named.inside.shape, *(1,) * len(rest))
    fill = result.new_full((), 0 if call.fill_value is None else call.fill_value)
    return torch.where(inside, result, fill)


def _slice_shape(call: Call) -> tuple[int, ...]:
    if call.kind in ("gather_elements", "scatter_elements"):
        return ()
    depth = {"gather": 1, "gather_windows": len(call.window_shape)}.get(call.kind)
    depth = call.indices.shape[-1] if depth is None else depth
    return tuple(call.data.shape[call.batch_dims + depth :])


def _scatter(call: Call) -> torch.Tensor:
    if steps.needed(call):
        return steps.run(call, _scatter)
    named, rest = places(call), _slice_shape(call)
    count, numbers = named.count, named.numbers.reshape(-1)
    if named.inside is not None:  # updates that are dropped go to one more row
        numbers = torch.where(named.inside.reshape(-1), numbers, count)
        count += 1
    rows = call.data.reshape(named.count, *rest)
    if named.inside is not None:
        rows = torch.cat([rows, rows.new_zeros(1, *rest)])
    updates = call.updates.reshape(numbers.shape[0], *rest)
    result = _combine(call.reduction, rows, numbers, updates)
    return result[: named.count].reshape(call.data.shape).contiguous()


def _combine(
    reduction: str, rows: torch.Tensor, numbers: torch.Tensor, updates: torch.Tensor
) -> torch.Tensor:
    """Return new rows, in which updates are combined with those that they name."""
    if reduction == "none":
        return _replace_rows(rows, numbers, updates)
    if rows.dtype == torch.bool:
        return _combine_booleans(reduction, rows, numbers, updates)
    if rows.dtype.is_floating_point and rows.dtype.itemsize == 1:  # torch does not add these
        wide = _combine(reduction, rows.float(), numbers, updates.float())
        return wide.to(rows.dtype)
    if reduction in ("add", "sub"):
        return rows.index_add(0, numbers, updates, alpha=1 if reduction == "add" else -1)
    places = numbers.reshape(-1, *(1,) * (rows.dim() - 1)).expand(updates.shape)
    return rows.scatter_reduce(0, places, updates, _REDUCE[reduction])


def _replace_rows(rows: torch.Tensor, numbers: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
    """Return rows with those replaced that are named; the last update of a row wins.

    Each row learns the last update that names it, and takes it: that does not depend on the order
    in which a device works.
    """
    if not len(updates):
        return rows.clone(memory_format=torch.contiguous_format)
    order = torch.arange(len(numbers), device=numbers.device)
    last = torch.full((len(rows),), -1, dtype=torch.int64, device=numbers.device)
    last = last.scatter_reduce(0, numbers, order, "amax")
    takes = (last >= 0).reshape(-1, *(1,) * (rows.dim() - 1))
    taken = elements.bits_of(updates).index_select(0, last.clamp(min=0))
    result = torch.where(takes, taken, elements.bits_of(rows))
    return result if result.dtype == rows.dtype else result.view(rows.dtype)


def _combine_booleans(
    reduction: str, rows: torch.Tensor, numbers: torch.Tensor, updates: torch.Tensor
) -> torch.Tensor:
    """Combine booleans as numbers of one bit: add is or, sub is xor, mul is and."""
    wide, other = rows.to(torch.int32), updates.to(torch.int32)
    if reduction == "sub":
        return _combine("add", wide, numbers, other) % 2 == 1
    least = "min" if reduction in ("mul", "min") else "max"
    return _combine(least, wide, numbers, other) == 1
