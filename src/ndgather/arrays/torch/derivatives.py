"""How the result of each operator changes with its data and updates.

A gather is linear: its derivative is the same gather, and the transpose of that adds each slice to
where it came from. In a scatter every element of the result changes by
``of_data * d(data) + sum(of_updates * d(update))``; `weights` says what these factors are for each
reduction, and both directions of differentiation follow from them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from ndgather.array_call import Refusal
from ndgather.arrays.torch import composition
from ndgather.arrays.torch.checks import operate
from ndgather.arrays.torch.composition import places

if TYPE_CHECKING:
    from ndgather.array_call import Call

OF_VALUES = ("mul", "min", "max")  # reductions whose derivatives depend on values

_DROPPED = {"fill": "drop"}  # modes of a gather as those of the scatter that transposes it


def gather_back(call: Call, of_result: torch.Tensor) -> torch.Tensor:
    """Return the gradient of the data of a gather; the values of ``call.data`` do not matter."""
    mode = _DROPPED.get(call.mode, call.mode)
    back = replace(call, mode=mode, fill_value=None, reduction="add", updates=of_result)
    # One row that stands for all: the core writes them, on threads that then add to them.
    zeros = of_result.new_zeros(call.data.shape[-1:]).expand(call.data.shape)
    if call.kind == "gather_nd":
        return _added(replace(back, kind="scatter_nd", data=zeros))
    if call.kind == "gather_elements":
        return _added(replace(back, kind="scatter_elements", data=zeros))
    if call.kind == "gather_windows":
        named = places(replace(call, mode="clip") if call.mode == "raise" else call)  # all inside
        numbers = named.numbers
        if named.inside is not None:
            numbers = torch.where(named.inside, numbers, named.count)
        rows = zeros.reshape(named.count, *call.data.shape[len(call.window_shape) :])
        added = replace(
            back, kind="scatter_nd", data=rows, indices=numbers.unsqueeze(-1), mode="drop"
        )
        return _added(added).reshape(call.data.shape)
    first, axis, ends = call.batch_dims, call.axis, call.indices.dim()
    between = tuple(range(first, axis))
    moved = tuple(range(ends, ends + axis - first))
    added = replace(
        back,
        kind="scatter_nd",
        data=zeros.movedim(axis, first),
        indices=call.indices.unsqueeze(-1),
        updates=of_result.movedim(between, moved),
    )
    return _added(added).movedim(first, axis)


def _added(call: Call) -> torch.Tensor:
    """Make a call in the core, or, where a gradient is recorded, by the operator."""
    result = call.run()
    return operate(call) if isinstance(result, Refusal) else result


def gather_ahead(call: Call, of_data: torch.Tensor) -> torch.Tensor:
    """Return the tangent of the result of a gather; what is filled does not change."""
    return operate(replace(call, data=of_data, fill_value=None))


def scatter_back(
    call: Call, result: torch.Tensor, of_result: torch.Tensor, wanted: tuple[bool, bool]
) -> tuple[Any, Any]:
    """Return the gradients of the data and updates of a scatter that are wanted."""
    data_weight, update_weight = weights(call, result, wanted)
    of_data: Any = None
    of_updates: Any = None
    if wanted[0]:
        of_data = of_result if data_weight is None else of_result * data_weight.conj()
    if wanted[1]:
        of_updates = gather_like(call, of_result)
        if update_weight is not None:
            of_updates = of_updates * update_weight.conj()
    return of_data, of_updates


def scatter_ahead(
    call: Call, result: torch.Tensor, of_data: torch.Tensor | None, of_updates: torch.Tensor | None
) -> torch.Tensor:
    """Return the tangent of the result of a scatter."""
    wanted = (of_data is not None, of_updates is not None)
    data_weight, update_weight = weights(call, result, wanted)
    if of_data is None:
        tangent = torch.zeros_like(call.data)
    else:
        tangent = of_data if data_weight is None else of_data * data_weight
    if of_updates is None:
        return tangent
    if update_weight is not None:
        of_updates = of_updates * update_weight
    return operate(
        replace(call, data=tangent, updates=of_updates, reduction="add", use_init_val=True)
    )


def gather_like(call: Call, data: torch.Tensor) -> torch.Tensor:
    """Return what stands in `data` where each update of a scatter went; 0 for those dropped."""
    kind = call.kind.replace("scatter", "gather")
    mode = "fill" if call.mode == "drop" else call.mode
    return operate(replace(call, kind=kind, data=data, mode=mode, fill_value=None))


def weights(call: Call, result: torch.Tensor, wanted: tuple[bool, bool]) -> tuple[Any, Any]:
    """Return by what changes of data and updates are multiplied; None for 1."""
    data, updates, reduction = call.data, call.updates, call.reduction
    of_data: Any = None
    of_updates: Any = None
    if reduction == "none":
        return _of_the_last(call, wanted)
    if reduction == "sub":
        of_updates = updates.new_tensor(-1)
    elif reduction == "mean":
        share = 1 / (composition.counts(call, operate) + int(call.use_init_val)).clamp(min=1)
        of_data = share.to(data.dtype)
        of_updates = gather_like(call, of_data) if wanted[1] else None
    elif reduction == "mul":
        ones = torch.ones_like(data)
        of_data = operate(replace(call, data=ones)) if wanted[0] else None
        if wanted[1]:
            of_updates = composition.of_the_others(call)
            of_updates = of_updates * gather_like(call, data) if call.use_init_val else of_updates
    elif reduction in ("min", "max"):
        # Those that are equal to the result share its change.
        hits = updates == gather_like(call, result)
        kept = data == result
        if not call.use_init_val:
            kept = kept & ~composition.touched(call, operate)
        kept = kept.to(data.dtype)
        share = 1 / operate(
            replace(
                call, data=kept, updates=hits.to(data.dtype), reduction="add", use_init_val=True
            )
        ).clamp(min=1)
        of_data = kept * share
        of_updates = hits * gather_like(call, share)
    if not call.use_init_val and wanted[0] and reduction not in ("min", "max"):
        untouched = ~composition.touched(call, operate)
        of_data = untouched.to(data.dtype) if of_data is None else of_data * untouched
    return of_data, of_updates


def _of_the_last(call: Call, wanted: tuple[bool, bool]) -> tuple[Any, Any]:
    """Return the weights of a replacement: the last update of an element is all of it."""
    dtype = call.data.dtype
    of_updates: Any = None
    if wanted[1]:
        numbers = torch.arange(call.updates.numel(), device=call.data.device)
        numbers = numbers.reshape(call.updates.shape)
        none = torch.full_like(call.data, -1, dtype=torch.int64)
        last = operate(replace(call, data=none, updates=numbers))
        of_updates = (gather_like(call, last) == numbers).to(dtype)
    of_data = (~composition.touched(call, operate)).to(dtype) if wanted[0] else None
    return of_data, of_updates
