"""Where slices lie, by torch's own functions: any device, any tensor that composes.

Data are seen as rows, one for each place that indices can name, and index values become the
numbers of rows: ``rows[numbers]`` is a gather.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from ndgather.arrays.torch import checks
from ndgather.errors import index_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ndgather.array_call import Call

    Scatter = Callable[[Call], torch.Tensor]


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


def needed(call: Call) -> bool:
    """Whether a scatter is more than one step."""
    return call.reduction != "none" and (call.reduction == "mean" or not call.use_init_val)


def reduce_in_steps(call: Call, scatter: Scatter) -> torch.Tensor:
    """Reduce by simpler scatters, which `scatter` carries out."""
    one_step = replace(call, use_init_val=True, out=None)
    start = call.data
    if not call.use_init_val:
        none = checks.identity(start.dtype, call.reduction)
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
    rows = checks.bits_of(call.data).reshape(named.count, *rest)
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
    if needed(call):
        return reduce_in_steps(call, _scatter)
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
    taken = checks.bits_of(updates).index_select(0, last.clamp(min=0))
    result = torch.where(takes, taken, checks.bits_of(rows))
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


def of_the_others(call: Call) -> torch.Tensor:
    """Return, for each update of a scatter, the product of the other updates of its element."""
    checked = replace(call, mode="wrap") if call.mode == "raise" else call
    named = places(checked)
    numbers = named.numbers.reshape(-1)
    if named.inside is not None:
        numbers = torch.where(named.inside.reshape(-1), numbers, named.count)
    order = torch.argsort(numbers, stable=True)
    rows = numbers[order]
    factors = call.updates.reshape(len(numbers), -1)[order]
    others = _before(factors, rows) * _before(factors.flip(0), rows.flip(0)).flip(0)
    back = torch.empty_like(order).scatter(0, order, torch.arange(len(order), device=order.device))
    return others[back].reshape(call.updates.shape)


def _before(factors: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Return the product of the factors before each one in its run of equal rows."""
    product = _shifted(factors, rows, 1)
    reach = 1
    while reach < len(rows):
        product = product * _shifted(product, rows, reach)
        reach *= 2
    return product


def _shifted(factors: torch.Tensor, rows: torch.Tensor, by: int) -> torch.Tensor:
    """Return the factor that stands `by` before each one; 1 where that is of another row."""
    moved = torch.cat([torch.ones_like(factors[:by]), factors[:-by]])
    same = torch.cat([torch.zeros_like(rows[:by]).bool(), rows[by:] == rows[:-by]])
    return torch.where(same[:, None], moved, 1)
