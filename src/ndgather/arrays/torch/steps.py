"""Reductions that take several steps: means, and those that leave the old elements out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from ndgather.arrays.torch import elements

if TYPE_CHECKING:
    from collections.abc import Callable

    from ndgather.array_call import Call

    Scatter = Callable[[Call], torch.Tensor]


def needed(call: Call) -> bool:
    """Whether a scatter is more than one step."""
    return call.reduction != "none" and (call.reduction == "mean" or not call.use_init_val)


def run(call: Call, scatter: Scatter) -> torch.Tensor:
    """Reduce by simpler scatters, which `scatter` carries out."""
    one_step = replace(call, use_init_val=True, out=None)
    start = call.data
    if not call.use_init_val:
        none = elements.identity(start.dtype, call.reduction)
        start = torch.where(touched(one_step, scatter), torch.full_like(start, none), start)
    if call.reduction != "mean":
        return scatter(replace(one_step, data=start))
    total = scatter(replace(one_step, data=start, reduction="add"))
    count = counts(one_step, scatter) + int(call.use_init_val)
    return quotient(total, count.clamp(min=1))


def touched(call: Call, scatter: Scatter) -> torch.Tensor:
    """Return which elements of data have an update."""
    none = torch.zeros_like(call.data, dtype=torch.bool, memory_format=torch.contiguous_format)
    every = torch.ones_like(call.updates, dtype=torch.bool)
    return scatter(replace(call, data=none, updates=every, reduction="none"))


def counts(call: Call, scatter: Scatter) -> torch.Tensor:
    """Return how many updates each element of data has."""
    none = torch.zeros_like(call.data, dtype=torch.int64, memory_format=torch.contiguous_format)
    every = torch.ones_like(call.updates, dtype=torch.int64)
    return scatter(replace(call, data=none, updates=every, reduction="add"))


def quotient(total: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    """Return ``total / count`` in the type of `total`: rounded once, integers rounded down."""
    dtype = total.dtype
    if dtype.is_complex:
        return torch.view_as_complex(
            torch.view_as_real(total) / count[..., None].to(dtype.to_real())
        )
    if dtype.is_floating_point:
        wide = dtype if dtype.itemsize >= 4 else torch.float32
        return (total.to(wide) / count.to(wide)).to(dtype)
    return total.to(torch.int64).div(count, rounding_mode="floor").to(dtype)
