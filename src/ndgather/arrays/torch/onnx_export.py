"""How `torch.onnx.export` writes the operators: as GatherND, ScatterND and their like.

ONNX does not define what happens to index values out of bounds, nor the order of updates of one
element in ScatterND. Modes are written as operators; what ONNX cannot express raises.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ndgather.arrays.torch import checks
from ndgather.errors import AttributeValueError

if TYPE_CHECKING:
    from collections.abc import Callable


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
    bodies: tuple[Callable[..., Any], ...] = (
        _gather_nd,
        _gather_elements,
        _gather,
        _gather_windows,
        _scatter_nd,
        _scatter_elements,
    )
    table = {}
    for kind, body in zip(checks.OPTIONS, bodies, strict=True):
        operator = getattr(torch.ops.ndgather, kind).default
        table[operator] = _with_signature(kind, operator._schema, body)
    return table


# What torch.onnx takes for an attribute, by the type in the schema of an operator.
_ATTRIBUTES = {
    "int": int,
    "List[int]": Sequence[int],
    "str": str,
    "bool": bool,
    "Optional[number]": float | None,
}


def _with_signature(kind: str, schema: Any, body: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with the signature of an operator; `body` takes some of its options."""
    used, parameter = inspect.signature(body).parameters, inspect.Parameter
    signature = inspect.Signature(
        [
            parameter(
                argument.name,
                parameter.POSITIONAL_OR_KEYWORD,
                default=argument.default_value if argument.has_default_value() else parameter.empty,
            )
            for argument in schema.arguments
        ]
    )

    @wraps(body)
    def translation(*tensors: Any, **options: Any) -> Any:
        from onnxscript import opset18  # noqa: PLC0415 - only who exports has it

        bound = signature.bind(*tensors, **options)
        bound.apply_defaults()
        values = {name: value for name, value in bound.arguments.items() if name in used}
        return body(op=opset18, **values)

    types = {argument.name: _ATTRIBUTES.get(str(argument.type)) for argument in schema.arguments}
    translation.__name__ = kind
    translation.__signature__ = signature  # type: ignore[attr-defined]  # as inspect reads it
    translation.__annotations__ = {name: kind for name, kind in types.items() if kind is not None}
    return translation


def _gather_nd(
    op: Any, data: Any, indices: Any, batch_dims: int, mode: str, fill_value: float | None
) -> Any:
    depth = indices.shape[-1]
    axes = list(range(batch_dims, batch_dims + depth))
    values, inside = _resolved(op, data, indices, axes, mode)
    result = op.GatherND(data, values, batch_dims=batch_dims)
    if inside is None:
        return result
    rest = len(data.shape) - batch_dims - depth
    return _filled(op, result, _whole(op, inside), rest, fill_value)


def _gather_elements(
    op: Any, data: Any, indices: Any, axis: int, mode: str, fill_value: float | None
) -> Any:
    values, inside = _resolved(op, data, indices, axis % len(data.shape), mode)
    result = op.GatherElements(data, values, axis=axis)
    return result if inside is None else _filled(op, result, inside, 0, fill_value)


def _gather(
    op: Any,
    data: Any,
    indices: Any,
    axis: int,
    batch_dims: int,
    mode: str,
    fill_value: float | None,
) -> Any:
    rank, ends = len(data.shape), len(indices.shape)
    axis %= rank
    first = batch_dims + ends if batch_dims < 0 else batch_dims
    values, inside = _resolved(op, data, indices, axis, mode)
    if first == 0 and (axis == 0 or inside is None):
        result = op.Gather(data, values, axis=axis)
        return result if inside is None else _filled(op, result, inside, rank - 1, fill_value)
    order = [*range(first), axis, *(at for at in range(first, rank) if at != axis)]
    tuples = op.Unsqueeze(values, op.Constant(value_ints=[-1]))
    result = op.GatherND(op.Transpose(data, perm=order), tuples, batch_dims=first)
    if inside is not None:
        result = _filled(op, result, inside, rank - first - 1, fill_value)
    between = range(ends, ends + axis - first)
    after = range(ends + axis - first, ends + rank - first - 1)
    return op.Transpose(result, perm=[*range(first), *between, *range(first, ends), *after])


def _gather_windows(
    op: Any,
    data: Any,
    indices: Any,
    window_shape: Sequence[int],
    mode: str,
    fill_value: float | None,
) -> Any:
    import onnx  # noqa: PLC0415 - only who exports has it

    window = tuple(window_shape)
    depth = len(window)
    values, zero = op.Cast(indices, to=7), op.Constant(value_int=0)
    sizes = op.Gather(op.Shape(data), op.Constant(value_ints=list(range(depth))))
    if mode == "clip":
        most = op.Sub(sizes, op.Constant(value_ints=list(window)))
        values = op.Max(op.Min(values, most), zero)
    grid = np.stack(np.meshgrid(*map(np.arange, window), indexing="ij"), -1).astype(np.int64)
    ahead = op.Constant(value_ints=list(range(-1 - depth, -1)))
    within = op.Constant(value=onnx.numpy_helper.from_array(grid))
    at = op.Add(op.Unsqueeze(values, ahead), within)
    if mode != "fill":
        return op.GatherND(data, at)
    inside = op.And(op.GreaterOrEqual(at, zero), op.Less(at, sizes))
    result = op.GatherND(data, op.Where(inside, at, zero))
    return _filled(op, result, _whole(op, inside), len(data.shape) - depth, fill_value)


def _scatter_nd(
    op: Any,
    data: Any,
    indices: Any,
    updates: Any,
    batch_dims: int,
    reduction: str,
    mode: str,
    use_init_val: bool,
) -> Any:
    if batch_dims:
        raise _not_in_onnx("batch_dims", batch_dims, "0")
    updates, reduction = _expressible(op, updates, reduction, mode, use_init_val)
    values, _ = _resolved(op, data, indices, list(range(indices.shape[-1])), mode)
    return op.ScatterND(data, values, updates, reduction=reduction)


def _scatter_elements(
    op: Any,
    data: Any,
    indices: Any,
    updates: Any,
    axis: int,
    reduction: str,
    mode: str,
    use_init_val: bool,
) -> Any:
    updates, reduction = _expressible(op, updates, reduction, mode, use_init_val)
    values, _ = _resolved(op, data, indices, axis % len(data.shape), mode)
    return op.ScatterElements(data, values, updates, axis=axis, reduction=reduction)


def _expressible(
    op: Any, updates: Any, reduction: str, mode: str, use_init_val: bool
) -> tuple[Any, str]:
    """Return updates and a reduction of ONNX with the same result."""
    known = ("none", "add", "mul", "min", "max")
    if reduction == "sub":
        updates, reduction = op.Neg(updates), "add"
    if reduction not in known:
        raise _not_in_onnx("reduction", reduction, ", ".join((*known, "sub")))
    if mode == "drop":
        raise _not_in_onnx("mode", mode, "raise, wrap, clip")
    if not use_init_val and reduction != "none":
        raise _not_in_onnx("use_init_val", use_init_val, "True")
    return updates, reduction


def _not_in_onnx(option: str, value: object, allowed: str) -> AttributeValueError:
    return AttributeValueError(
        f"torch.onnx.export: {option} = {value!r} of a scatter cannot be expressed in ONNX "
        f"(allowed: {allowed})"
    )


def _resolved(op: Any, data: Any, indices: Any, axes: Any, mode: str) -> tuple[Any, Any]:
    """Return index values that ONNX takes, and flags of those inside; None where all are."""
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


def _whole(op: Any, inside: Any) -> Any:
    """Return 1 where every entry of an index tuple is inside, else 0."""
    return op.ReduceMin(op.Cast(inside, to=7), op.Constant(value_ints=[-1]), keepdims=0)


def _filled(op: Any, result: Any, inside: Any, rest: int, fill_value: float | None) -> Any:
    """Return a result, filled where an index is outside; `rest` axes follow those of indices."""
    inside = op.Cast(inside, to=9)
    if rest:
        inside = op.Unsqueeze(inside, op.Constant(value_ints=list(range(-rest, 0))))
    fill = op.CastLike(op.Constant(value_float=float(fill_value or 0)), result)
    return op.Where(inside, result, fill)
