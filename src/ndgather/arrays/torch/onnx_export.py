"""How `torch.onnx.export` writes the operators: as the operators of ONNX that they are.

ONNX says nothing of index values that are out of bounds, and of updates of one element in
ScatterND no order. The modes are written out; what ONNX cannot say is refused.
"""

# mypy: disable-error-code="no-untyped-def"
# onnxscript would read the types of tensors as those of ONNX.

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003 - onnxscript asks for the types
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ndgather.errors import tensor_errors

if TYPE_CHECKING:
    from collections.abc import Callable

_REDUCTIONS = ("none", "add", "mul", "min", "max")


def onnx_translations() -> dict[Any, Callable[..., Any]]:
    """Return the table that ``torch.onnx.export(custom_translation_table=...)`` takes.

    Examples
    --------
    >>> import torch
    >>> from ndgather.arrays.torch import onnx_translations
    >>> table = onnx_translations()
    >>> table[torch.ops.ndgather.gather_nd.default].__name__
    'gather_nd'
    """
    written = (gather_nd, gather_elements, gather, gather_windows, scatter_nd, scatter_elements)
    return {getattr(torch.ops.ndgather, each.__name__).default: each for each in written}


def _op() -> Any:
    from onnxscript import opset18  # noqa: PLC0415 - only who exports has it

    return opset18


def gather_nd(
    data,
    indices,
    batch_dims: int = 0,
    mode: str = "raise",
    fill_value: float | None = None,
    negative: bool = True,
    caller: str = "",
):
    op, depth = _op(), indices.shape[-1]
    axes = list(range(batch_dims, batch_dims + depth))
    values, inside = _resolved(data, indices, axes, mode)
    result = op.GatherND(data, values, batch_dims=batch_dims)
    if inside is None:
        return result
    return _filled_tuples(result, inside, len(data.shape) - batch_dims - depth, fill_value)


def gather_elements(
    data,
    indices,
    axis: int = 0,
    mode: str = "raise",
    fill_value: float | None = None,
    negative: bool = True,
    caller: str = "",
):
    op = _op()
    values, inside = _resolved(data, indices, axis % len(data.shape), mode)
    result = op.GatherElements(data, values, axis=axis)
    return result if inside is None else _filled(result, op.Cast(inside, to=7), 0, fill_value)


def gather(
    data,
    indices,
    axis: int = 0,
    batch_dims: int = 0,
    mode: str = "raise",
    fill_value: float | None = None,
    negative: bool = True,
    caller: str = "",
):
    op, rank = _op(), len(data.shape)
    axis, ends = axis % rank, len(indices.shape)
    first = batch_dims + ends if batch_dims < 0 else batch_dims
    values, inside = _resolved(data, indices, axis, mode)
    if inside is not None:
        inside = op.Cast(inside, to=7)
    if (first == 0 and axis == 0) or (inside is None and first == 0):
        result = op.Gather(data, values, axis=axis)
        return result if inside is None else _filled(result, inside, rank - 1, fill_value)
    order = [*range(first), axis, *(at for at in range(first, rank) if at != axis)]
    moved = op.Transpose(data, perm=order)
    tuples = op.Unsqueeze(values, op.Constant(value_ints=[-1]))
    result = op.GatherND(moved, tuples, batch_dims=first)
    if inside is not None:
        result = _filled(result, inside, rank - first - 1, fill_value)
    between = range(ends, ends + axis - first)
    after = range(ends + axis - first, ends + rank - first - 1)
    return op.Transpose(result, perm=[*range(first), *between, *range(first, ends), *after])


def gather_windows(
    data,
    starts,
    window_shape: Sequence[int],
    mode: str = "raise",
    fill_value: float | None = None,
    caller: str = "",
):
    op, window = _op(), tuple(window_shape)
    depth = len(window)
    values = op.Cast(starts, to=7)
    sizes = op.Gather(op.Shape(data), op.Constant(value_ints=list(range(depth))))
    if mode == "clip":
        most = op.Sub(sizes, op.Constant(value_ints=list(window)))
        values = op.Max(op.Min(values, most), op.Constant(value_int=0))
    grid = np.stack(np.meshgrid(*map(np.arange, window), indexing="ij"), -1).astype(np.int64)
    ahead = op.Constant(value_ints=list(range(-1 - depth, -1)))
    at = op.Add(op.Unsqueeze(values, ahead), op.Constant(value=_constant(grid)))
    if mode != "fill":
        return op.GatherND(data, at)
    zero = op.Constant(value_int=0)
    inside = op.And(op.GreaterOrEqual(at, zero), op.Less(at, sizes))
    result = op.GatherND(data, op.Where(inside, at, zero))
    return _filled_tuples(result, inside, len(data.shape) - depth, fill_value)


def scatter_nd(
    data,
    indices,
    updates,
    batch_dims: int = 0,
    reduction: str = "none",
    mode: str = "raise",
    use_init_val: bool = True,
    negative: bool = True,
    caller: str = "",
    updates_name: str = "",
):
    op, axes = _op(), list(range(indices.shape[-1]))
    updates, reduction = _sayable(updates, reduction, mode, use_init_val, batch_dims)
    values, _ = _resolved(data, indices, axes, mode)
    return op.ScatterND(data, values, updates, reduction=reduction)


def scatter_elements(
    data,
    indices,
    updates,
    axis: int = 0,
    reduction: str = "none",
    mode: str = "raise",
    use_init_val: bool = True,
    negative: bool = True,
    caller: str = "",
    updates_name: str = "",
):
    op = _op()
    updates, reduction = _sayable(updates, reduction, mode, use_init_val, 0)
    values, _ = _resolved(data, indices, axis % len(data.shape), mode)
    return op.ScatterElements(data, values, updates, axis=axis, reduction=reduction)


def _sayable(
    updates: Any, reduction: str, mode: str, use_init_val: bool, batch_dims: int
) -> tuple[Any, str]:
    """Return updates and a reduction of ONNX with the same result.

    Raises
    ------
    AttributeValueError
        There is none.
    """
    if reduction == "sub":
        updates, reduction = _op().Neg(updates), "add"
    if reduction not in _REDUCTIONS:
        raise tensor_errors.not_in_onnx("reduction", reduction, ", ".join((*_REDUCTIONS, "sub")))
    if mode == "drop":
        raise tensor_errors.not_in_onnx("mode", mode, "raise, wrap, clip")
    if not use_init_val and reduction != "none":
        raise tensor_errors.not_in_onnx("use_init_val", use_init_val, "True")
    if batch_dims:
        raise tensor_errors.not_in_onnx("batch_dims", batch_dims, "0")
    return updates, reduction


def _resolved(data: Any, indices: Any, axes: Any, mode: str) -> tuple[Any, Any]:
    """Return index values that ONNX takes, and which of them count; None where all do."""
    op = _op()
    values = op.Cast(indices, to=7)
    if mode == "raise" or axes == []:
        return values, None
    names = op.Constant(value_ints=axes) if isinstance(axes, list) else op.Constant(value_int=axes)
    sizes, zero = op.Gather(op.Shape(data), names), op.Constant(value_int=0)
    if mode == "wrap":
        return op.Mod(values, sizes), None
    if mode == "clip":
        return op.Max(op.Min(values, op.Sub(sizes, op.Constant(value_int=1))), zero), None
    inside = op.And(op.GreaterOrEqual(values, op.Neg(sizes)), op.Less(values, sizes))
    return op.Where(inside, values, zero), inside


def _filled_tuples(result: Any, inside: Any, rest: int, fill_value: float | None) -> Any:
    """Return `_filled` where an entry of its tuple does not count."""
    op = _op()
    every = op.ReduceMin(op.Cast(inside, to=7), op.Constant(value_ints=[-1]), keepdims=0)
    return _filled(result, every, rest, fill_value)


def _filled(result: Any, inside: Any, rest: int, fill_value: float | None) -> Any:
    """Return a result with the fill where an index does not count; `rest` axes come after those."""
    op = _op()
    inside = op.Cast(inside, to=9)
    if rest:
        inside = op.Unsqueeze(inside, op.Constant(value_ints=list(range(-rest, 0))))
    fill = op.CastLike(op.Constant(value_float=float(fill_value or 0)), result)
    return op.Where(inside, result, fill)


def _constant(array: Any) -> Any:
    import onnx  # noqa: PLC0415 - only who exports has it

    return onnx.numpy_helper.from_array(array)
