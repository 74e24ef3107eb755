"""Where slices lie, by torch's own functions: any device, any tensor that composes.

Data are seen as rows, one for each place that indices can name, and index values become the
numbers of rows: ``rows[numbers]`` is a gather.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ndgather.errors import index_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndgather.array_call import Call


@dataclass(frozen=True, slots=True)
class Places:
    """The rows that a call names."""

    count: int  # of the rows that data has
    numbers: torch.Tensor  # int64, from 0 on; of any shape
    inside: torch.Tensor | None  # whether the number counts; None where all do


def places(call: Call) -> Places:
    """Return the rows that `call` names; data are rows by their leading axes.

    For `gather` the axis stands after the batch axes, as `with_axis_first` moves it.

    Raises
    ------
    IndexOutOfBoundsError
        An entry of indices is out of bounds, and the mode is "raise". This waits for the device.
    """
    shape, indices = call.data.shape, call.indices
    if call.kind in ("gather_elements", "scatter_elements"):
        (column,), inside = _columns(call, [indices], [call.axis])
        steps = _steps(shape)
        numbers = column * steps[call.axis]
        for axis, size in enumerate(indices.shape):
            if axis != call.axis:
                numbers = numbers + _along(indices, axis, size) * steps[axis]
        return Places(math.prod(shape), numbers, inside)
    if call.kind == "gather_windows":
        return _windows(call)
    if call.kind == "gather":
        indices = indices.unsqueeze(-1)
    first, depth = call.batch_dims, int(indices.shape[-1])
    axes = list(range(first, first + depth))
    columns, inside = _columns(call, list(indices.unbind(-1)), axes)
    lead = shape[: first + depth]
    steps = _steps(lead)
    numbers = indices.new_zeros(indices.shape[:-1], dtype=torch.int64)
    for axis in range(first):
        numbers = numbers + _along(numbers, axis, shape[axis]) * steps[axis]
    for column, axis in zip(columns, axes, strict=True):
        numbers = numbers + column * steps[axis]
    return Places(math.prod(lead), numbers, inside)


def _windows(call: Call) -> Places:
    """Return the rows of every element of every window."""
    window, depth = call.window_shape, len(call.window_shape)
    sizes = call.data.shape[:depth]
    columns = list(call.indices.unbind(-1))
    if call.mode != "fill":
        columns, _ = _columns(call, columns, list(range(depth)))
    numbers = call.indices.new_zeros((*call.indices.shape[:-1], *window), dtype=torch.int64)
    inside = None
    for axis, (column, step) in enumerate(zip(columns, _steps(sizes), strict=True)):
        start = signed(column).reshape(*column.shape, *(1,) * depth)
        at = start.clamp(-window[axis], sizes[axis]) + _along(numbers, axis - depth, window[axis])
        if call.mode == "fill":
            held = (at >= 0) & (at < sizes[axis])
            at = torch.where(held, at, 0)
            inside = held.expand(numbers.shape) if inside is None else inside & held
        numbers = numbers + at * step
    return Places(math.prod(sizes), numbers, inside)


def _steps(shape: Sequence[int]) -> list[int]:
    """Return how many places apart neighbours on each axis are, in C order."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _along(like: torch.Tensor, axis: int, size: int) -> torch.Tensor:
    """Return the positions along one axis, in a shape that meets the axes of `like`."""
    positions = torch.arange(size, device=like.device)
    return positions.reshape(-1, *(1,) * (like.dim() - 1 - axis % like.dim()))


def _columns(
    call: Call, columns: list[torch.Tensor], axes: list[int]
) -> tuple[list[torch.Tensor], torch.Tensor | None]:
    """Return index values from 0 on, and whether each tuple counts, by the mode of the call."""
    sizes = [call.data.shape[axis] for axis in axes]
    if call.kind == "gather_windows":
        sizes = [size - wide + 1 for size, wide in zip(sizes, call.window_shape, strict=True)]
    resolved, each_inside = [], []
    for column, size in zip(columns, sizes, strict=True):
        values = signed(column)
        if call.mode == "clip":
            inside = values.new_ones((), dtype=torch.bool).expand(values.shape) & (size > 0)
            values = values.clamp(0, max(size - 1, 0))
        elif call.mode == "wrap":
            inside = values.new_ones((), dtype=torch.bool).expand(values.shape) & (size > 0)
            values = _modulo(column, values, size)
        else:
            inside = (values >= _lowest(call, size)) & (values < size)
            values = torch.where(values < 0, values + size, values)
            values = torch.where(inside, values, 0)
        resolved.append(values)
        each_inside.append(inside)
    if call.mode in ("clip", "wrap") and min(sizes, default=1) > 0:
        return resolved, None
    if call.mode in ("fill", "drop"):
        inside = each_inside[0] if each_inside else None
        for other in each_inside[1:]:
            inside = inside & other
        return resolved, inside
    _check(call, columns, each_inside, axes, sizes)
    return resolved, None


def _lowest(call: Call, size: int) -> int:
    return -size if call.negative and call.kind != "gather_windows" else 0


def signed(values: torch.Tensor) -> torch.Tensor:
    """Return index values as int64; those beyond it become the largest."""
    if values.dtype != torch.uint64:
        return values.to(torch.int64)
    same_bits = values.view(torch.int64)
    return torch.where(same_bits < 0, torch.iinfo(torch.int64).max, same_bits)


def _modulo(column: torch.Tensor, values: torch.Tensor, size: int) -> torch.Tensor:
    """Return index values modulo a size; of uint64 the bits that int64 takes as negative count."""
    size = max(size, 1)
    if column.dtype != torch.uint64:
        return values.remainder(size)
    same_bits = column.view(torch.int64)
    beyond = torch.where(same_bits < 0, 2**64 % size, 0)
    return (same_bits.remainder(size) + beyond).remainder(size)


def _check(
    call: Call,
    columns: list[torch.Tensor],
    each_inside: list[torch.Tensor],
    axes: list[int],
    sizes: list[int],
) -> None:
    """Raise the error of the first entry that is out of bounds; this waits for the device."""
    if not columns or columns[0].device.type == "meta":
        return
    inside = torch.stack(each_inside, -1)
    if bool(inside.all()):
        return
    bad = torch.nonzero(~inside)
    *where, column = bad[0].tolist()
    is_tuple = call.kind not in ("gather", "gather_elements", "scatter_elements")
    facts = (
        (*where, column) if is_tuple else tuple(where),
        int(columns[column][tuple(where)].item()),
        call.axis if call.kind == "gather" else axes[column],
        sizes[column],
        _lowest(call, sizes[column]),
        len(bad),
        inside.numel(),
    )
    if call.kind == "gather_windows":
        raise index_errors.window_outside(call.caller, call.window_shape, *facts)
    raise index_errors.index_out_of_bounds(call.caller, *facts)
