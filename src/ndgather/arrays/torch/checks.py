"""What a call on tensors has to be, apart from the values of its indices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ndgather import fallback, reductions, windows
from ndgather.arrays.torch import elements
from ndgather.compiled import _core
from ndgather.errors import argument_errors, index_errors, shape_errors, tensor_errors

if TYPE_CHECKING:
    from ndgather.array_call import Call


def checked(call: Call) -> Call:
    """Return `call`, whose types and words are allowed.

    Raises
    ------
    NdgatherError
        They are not.
    """
    caller = call.caller
    for name, each in tensors(call):
        check_layout(caller, name, each)
        if each.dim() > _core.HIGHEST_RANK:
            raise shape_errors.too_many_axes(caller, name, each.dim(), _core.HIGHEST_RANK)
        if each.device != call.data.device:
            raise tensor_errors.devices_differ(caller, name, each.device, call.data.device)
    check_index_type(call)
    modes = _core.SCATTER_MODES if call.scatters else _core.GATHER_MODES
    if call.kind == "gather_windows":
        modes = windows.MODES
    fallback.choice(caller, "mode", call.mode, modes)
    if not call.scatters:
        if call.fill_value is not None and call.mode != "fill":
            raise argument_errors.fill_value_unused(caller, call.mode)
        return call
    if call.updates.dtype != call.data.dtype:
        raise tensor_errors.updates_dtype(
            caller, call.updates_name, call.updates.dtype, call.data.dtype
        )
    fallback.choice(caller, "reduction", call.reduction, reductions.NAMES)
    meaningful = elements.meaningful(call.data.dtype)
    if call.reduction not in meaningful:
        raise argument_errors.reduction_type(caller, call.reduction, call.data.dtype, meaningful)
    return call


def check_index_type(call: Call) -> None:
    """Raise the error of indices that are no integers of 8 to 64 bits, if they are none."""
    dtype = call.indices.dtype
    if dtype not in elements.INTEGERS:
        kind = "boolean" if dtype == torch.bool else "not an integer type"
        raise index_errors.index_dtype(call.caller, dtype, kind, call.indices_name)


def check_layout(caller: str, name: str, tensor: torch.Tensor) -> None:
    """Raise the error of a tensor that is not made of strides, if it is none."""
    if tensor.layout != torch.strided or tensor.is_nested or tensor.is_quantized:
        raise tensor_errors.layout(caller, name, tensor)


def tensors(call: Call) -> list[tuple[str, torch.Tensor]]:
    """Return the tensors of a call by their names."""
    named = [("data", call.data), (call.indices_name, call.indices)]
    return [*named, (call.updates_name, call.updates)] if call.scatters else named


def check_shapes(call: Call) -> tuple[int, ...]:
    """Return the shape of the slices that a call names.

    Raises
    ------
    NdgatherError
        The shapes do not fit.
    """
    if call.kind == "gather_windows":
        windows.check_shapes(call)
        rest = call.data.shape[len(call.window_shape) :]
        return (*call.indices.shape[:-1], *call.window_shape, *rest)
    shape = fallback.result_shape(call)
    if call.scatters and tuple(call.updates.shape) != shape:
        raise shape_errors.updates_do_not_fit(
            call.caller, call.updates.shape, shape, call.updates_name
        )
    return shape
