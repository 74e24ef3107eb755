"""Translations of ndgather's operators to ONNX nodes such as GatherND, for `torch.onnx.export`.

ONNX does not define the results for out-of-bounds indices, nor the order in which ScatterND applies
duplicate updates. All modes except "raise" require additional nodes. Calls that ONNX cannot express
raise an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from ndgather import reductions
from ndgather.arrays.torch import checks
from ndgather.errors import AttributeValueError

_INT64, _BOOL, _UINT64 = 7, 9, 13  # element types in ONNX
_UNSIGNED = (2, 4, 12, _UINT64)


def onnx_translations() -> dict[Any, Callable[..., Any]]:
    """Return the translations of ndgather's operators for `torch.onnx.export`.

    Torch needs the translations to export calls of ndgather to an ONNX model.

    Returns
    -------
    dict
        The argument `custom_translation_table` of `torch.onnx.export`.

    Examples
    --------
    >>> import torch
    >>> from ndgather.arrays.torch import onnx_translations
    >>> table = onnx_translations()
    >>> table[torch.ops.ndgather.gather_nd.default].__name__
    'gather_nd'
    """
    operators = (getattr(torch.ops.ndgather, kind).default for kind in checks.OPTIONS)
    return {operator: _translation(operator._schema) for operator in operators}


def _translation(schema: Any) -> Callable[..., Any]:
    """Return a function that takes the arguments of an operator and writes ONNX nodes."""
    kind = schema.name.partition("::")[2]
    defaults = {argument.name: argument.default_value for argument in schema.arguments}

    def translation(*tensors: Any, **options: Any) -> Any:
        from onnxscript import opset18  # noqa: PLC0415 - only exports need it

        given = {**defaults, **dict(zip(defaults, tensors, strict=False)), **options}
        return _WRITERS[kind](opset18, SimpleNamespace(**given))

    translation.__name__ = kind
    return translation


# Each writer receives the operators of an opset, and a call whose arrays are ONNX tensors.


def _gather_nd(op: Any, call: Any) -> Any:
    first, depth = call.batch_dims, call.indices.shape[-1]
    axes = range(first, first + depth)
    values, inside = _resolved(op, _int64(op, call), _sizes(op, call.data, axes), call.mode)
    result = op.GatherND(_looked_up(op, call, axes), values, batch_dims=first)
    return _filled(op, call, result, _all(op, inside), len(call.data.shape) - first - depth)


def _gather_elements(op: Any, call: Any) -> Any:
    axis = call.axis % len(call.data.shape)
    values, inside = _resolved(op, _int64(op, call), _sizes(op, call.data, axis), call.mode)
    result = op.GatherElements(_looked_up(op, call, [axis]), values, axis=axis)
    return _filled(op, call, result, inside, 0)


def _gather(op: Any, call: Any) -> Any:
    rank, ends = len(call.data.shape), len(call.indices.shape)
    axis = call.axis % rank
    first = call.batch_dims + ends if call.batch_dims < 0 else call.batch_dims
    values, inside = _resolved(op, _int64(op, call), _sizes(op, call.data, axis), call.mode)
    data = _looked_up(op, call, [axis])
    if first == 0:
        result = op.Gather(data, values, axis=axis)
        return _filled(op, call, result, inside, rank - axis - 1)
    order = [*range(first), axis, *(at for at in range(first, rank) if at != axis)]
    tuples = op.Unsqueeze(values, _integers(op, [-1]))
    result = op.GatherND(op.Transpose(data, perm=order), tuples, batch_dims=first)
    result = _filled(op, call, result, inside, rank - first - 1)
    between = range(ends, ends + axis - first)
    after = range(ends + axis - first, ends + rank - first - 1)
    return op.Transpose(result, perm=[*range(first), *between, *range(first, ends), *after])


def _gather_windows(op: Any, call: Any) -> Any:
    import onnx  # noqa: PLC0415 - only exports need it

    window = tuple(call.window_shape)
    depth, mode = len(window), call.mode
    if "," in mode:
        raise _not_in_onnx("mode", mode, "one for all axes", "a gather of windows")
    sizes = _sizes(op, call.data, range(depth))
    starts, one = _int64(op, call), op.Constant(value_int=1)
    # Move starts that are far out of bounds near the axis, so that additions cannot overflow.
    if mode == "clip":
        begins = op.Sub(sizes, _integers(op, [size - 1 for size in window]))
        starts, _ = _resolved(op, starts, begins, mode)
    elif mode in ("wrap", "reflect"):
        two = op.Constant(value_int=2)
        period = sizes if mode == "wrap" else op.Sub(op.Mul(sizes, two), two)
        period = op.Max(period, one)
        starts = op.Mod(starts, period)
    elif mode in ("fill", "edge"):
        starts = _between(op, _integers(op, [-size for size in window]), starts, sizes)
    within = np.moveaxis(np.indices(window), 0, -1)
    within = op.Constant(value=onnx.numpy_helper.from_array(np.ascontiguousarray(within)))
    at = op.Add(op.Unsqueeze(starts, _integers(op, range(-1 - depth, -1))), within)
    if mode == "reflect":
        at = op.Mod(at, period)
        at = op.Min(at, op.Sub(period, at))
    by_element = {"wrap": "wrap", "edge": "clip", "fill": "fill"}.get(mode, "raise")
    at, inside = _resolved(op, at, sizes, by_element, negative=False)
    result = op.GatherND(_looked_up(op, call, range(depth)), at)
    return _filled(op, call, result, _all(op, inside), len(call.data.shape) - depth)


def _scatter_nd(op: Any, call: Any) -> Any:
    if call.batch_dims:
        raise _not_in_onnx("batch_dims", call.batch_dims, "0")
    updates, reduction = _expressible(op, call)
    sizes = _sizes(op, call.data, range(call.indices.shape[-1]))
    values, _ = _resolved(op, _int64(op, call), sizes, call.mode)
    return op.ScatterND(call.data, values, updates, reduction=reduction)


def _scatter_elements(op: Any, call: Any) -> Any:
    updates, reduction = _expressible(op, call)
    sizes = _sizes(op, call.data, call.axis % len(call.data.shape))
    values, _ = _resolved(op, _int64(op, call), sizes, call.mode)
    return op.ScatterElements(call.data, values, updates, axis=call.axis, reduction=reduction)


_WRITERS = {
    "gather_nd": _gather_nd,
    "gather_elements": _gather_elements,
    "gather": _gather,
    "gather_windows": _gather_windows,
    "scatter_nd": _scatter_nd,
    "scatter_elements": _scatter_elements,
}


def _expressible(op: Any, call: Any) -> tuple[Any, str]:
    """Return updates and an ONNX reduction that give the same result."""
    updates, reduction, rows = call.updates, call.reduction, reductions.ROWS
    dtype = call.data.dtype
    if (dtype == _BOOL and reduction != "none") or (dtype in _UNSIGNED and reduction == "sub"):
        raise _not_in_onnx("reduction", reduction, "signed numbers", f"a scatter of {dtype}")
    if rows[reduction].added == -1:
        updates, reduction = op.Neg(updates), "add"
    if not rows[reduction].onnx[1]:
        known = [name for name, row in rows.items() if row.onnx[1] or row.added]
        raise _not_in_onnx("reduction", reduction, ", ".join(known))
    if call.mode == "drop":
        raise _not_in_onnx("mode", call.mode, "raise, wrap, clip")
    if not call.use_init_val and reduction != "none":
        raise _not_in_onnx("use_init_val", call.use_init_val, "True")
    return updates, reduction


def _not_in_onnx(
    option: str, value: object, allowed: str, kind: str = "a scatter"
) -> AttributeValueError:
    return AttributeValueError(
        f"torch.onnx.export: {option} = {value!r} of {kind} cannot be expressed in ONNX "
        f"(allowed: {allowed})"
    )


def _integers(op: Any, values: Sequence[int]) -> Any:
    return op.Constant(value_ints=list(values))


def _sizes(op: Any, data: Any, axes: int | range) -> Any:
    """Return the size of data along an axis or a range of axes, or None for an empty range."""
    if isinstance(axes, int):
        return op.Gather(op.Shape(data), op.Constant(value_int=axes))
    return op.Gather(op.Shape(data), _integers(op, axes)) if axes else None


def _int64(op: Any, call: Any) -> Any:
    """Return the indices as int64, which all operators support."""
    if call.indices.dtype == _UINT64:  # values of 2**63 or more would become negative
        allowed = "the other integers: indices.long() for values below 2**63"
        raise _not_in_onnx("indices.dtype", torch.uint64, allowed, "a call")
    return op.Cast(call.indices, to=_INT64)


def _looked_up(op: Any, call: Any, axes: Sequence[int]) -> Any:
    """Return data, or zeros as a placeholder if data is empty along any of `axes`."""
    shape = call.data.shape
    if call.mode != "fill" or all(shape[axis] != 0 for axis in axes):
        return call.data
    least = _integers(op, [int(axis in axes) for axis in range(len(shape))])
    zero = op.CastLike(op.Constant(value_int=0), call.data)
    return op.Expand(zero, op.Max(op.Shape(call.data), least))


def _resolved(
    op: Any, values: Any, sizes: Any, mode: str, *, negative: bool = True
) -> tuple[Any, Any]:
    """Return valid ONNX indices and a mask of in-bounds indices. The mask is None if not needed."""
    if mode == "raise" or sizes is None:
        return values, None
    zero, one = op.Constant(value_int=0), op.Constant(value_int=1)
    if mode == "wrap":  # onnxruntime does not support the modulus 0 of an empty axis
        return op.Mod(values, op.Max(sizes, one)), None
    if mode == "clip":
        return _between(op, zero, values, op.Sub(sizes, one)), None
    lowest = op.Neg(sizes) if negative else zero
    inside = op.And(op.GreaterOrEqual(values, lowest), op.Less(values, sizes))
    return op.Where(inside, values, zero), inside


def _between(op: Any, least: Any, values: Any, most: Any) -> Any:
    """Return values clipped to two bounds, or `least` if the bounds cross.

    Max and Min are not used, because onnxscript may replace these nodes with a Clip without bounds.
    """
    values = op.Where(op.Greater(values, most), most, values)
    return op.Where(op.Less(values, least), least, values)


def _all(op: Any, inside: Any) -> Any:
    """Return 1 for each index tuple whose entries are all in bounds, and 0 for all others."""
    if inside is None:
        return None
    return op.ReduceMin(op.Cast(inside, to=_INT64), _integers(op, [-1]), keepdims=0)


def _filled(op: Any, call: Any, result: Any, inside: Any, rest: int) -> Any:
    """Fill each slice of a result whose index is out of bounds. A slice has `rest` axes."""
    if inside is None:
        return result
    # In onnxruntime, Where turns -0.0 into 0.0 if the condition is true.
    # Negate `inside` with Equal, because onnxruntime would remove Not and swap the values of Where.
    outside = op.Equal(op.Cast(inside, to=_INT64), op.Constant(value_int=0))
    if rest:
        outside = op.Unsqueeze(outside, _integers(op, range(-rest, 0)))
    from onnx.numpy_helper import from_array  # noqa: PLC0415 - only exports need it

    number = from_array(np.array(0 if call.fill_value is None else call.fill_value))
    fill = op.CastLike(op.Constant(value=number), result)
    return op.Where(outside, fill, result)
