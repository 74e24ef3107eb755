"""From what a caller gives to tensors of one device, with no value lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.parameter import is_lazy

from ndgather import fallback, plain_arrays
from ndgather.arrays.torch import checks, elements
from ndgather.arrays.torch.calls import counted
from ndgather.errors import argument_errors, option_errors, shape_errors, tensor_errors
from ndgather.errors.texts import reason

if TYPE_CHECKING:
    from ndgather.array_call import Call


def with_tensors(call: Call) -> Call:
    """Return `call` with tensors of one device, its words and types checked.

    Raises
    ------
    NdgatherError
        An argument is no tensor and cannot become one, or lies on another device.
    """
    caller = call.caller
    for name, each in call.named():
        if is_lazy(each):
            raise argument_errors.not_an_array(caller, name, each, "is not initialized")
    given = (call.data, call.updates, call.indices, call.out)
    device = next(each.device for each in given if isinstance(each, torch.Tensor))
    data = call.data
    if not isinstance(data, torch.Tensor):
        data = tensor(caller, "data", plain_arrays.plain_array(caller, "data", data), device)
    indices = call.indices
    if not isinstance(indices, torch.Tensor):
        name = call.indices_name
        _refuse_array(caller, name, indices, device)
        plain = plain_arrays.native_indices(caller, indices, name)
        if plain.dtype.kind not in "iu":
            raise argument_errors.not_an_array(caller, name, indices, "is not made of integers")
        indices = tensor(caller, name, plain, device)
    call = replace(call, data=data, indices=indices)
    if call.scatters:
        use_init_val = fallback.truth(caller, "use_init_val", call.use_init_val)
        call = replace(call, updates=_updates(call, device), use_init_val=use_init_val)
        call = _promoted(call)
    elif call.fill_value is not None:
        call = replace(call, fill_value=_fill_value(call))
    if type(call.axis) is not int or type(call.batch_dims) is not int:
        axis = _integer(caller, "axis", call.axis)
        call = replace(call, axis=axis, batch_dims=_integer(caller, "batch_dims", call.batch_dims))
    if any(not -(2**63) <= n < 2**63 for n in (call.axis, call.batch_dims, *call.window_shape)):
        checks.check_shapes(call)  # which refuses what no operator takes
    return checks.checked(counted(call))


def _integer(caller: str, option: str, value: Any) -> int:
    try:
        return int(value.__index__())
    except (AttributeError, TypeError):
        raise option_errors.option_not_integer(caller, option, value) from None


def _refuse_array(caller: str, name: str, value: object, device: torch.device) -> None:
    """Raise the error of an array of the processor where data lie on another device."""
    if isinstance(value, np.ndarray) and device.type not in ("cpu", "meta"):
        raise tensor_errors.array_for_device(caller, name, device)


def tensor(
    caller: str, name: str, array: np.ndarray[Any, Any], device: torch.device
) -> torch.Tensor:
    """Return a tensor of an array, which shares its memory where torch can."""
    _refuse_array(caller, name, array if array.base is not None else None, device)
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    fits = all(s >= 0 and s % native.itemsize == 0 for s in native.strides)
    if not (native.flags.writeable and fits):
        native = native.copy()
    try:
        return torch.from_numpy(native).to(device)
    except TypeError as error:
        why = f"is no tensor: {reason(error)}"
        raise argument_errors.not_an_array(caller, name, array, why) from error


def _updates(call: Call, device: torch.device) -> torch.Tensor:
    """Return updates as a tensor; numbers and lists in the type of data, where it holds them."""
    caller, name, value = call.caller, call.updates_name, call.updates
    if isinstance(value, torch.Tensor):
        return value
    _refuse_array(caller, name, value, device)
    dtype = elements.numpy_dtype(call.data.dtype)
    if dtype is not None:
        return tensor(caller, name, plain_arrays.plain_updates(caller, value, dtype, name), device)
    plain = plain_arrays.plain_array(caller, name, value)
    if isinstance(value, np.ndarray):
        raise tensor_errors.updates_dtype(caller, name, plain.dtype, call.data.dtype)
    converted = _rounded(plain, call.data.dtype)
    if converted is None:
        raise argument_errors.updates_lost(caller, value, call.data.dtype, name)
    return converted.to(device)


def _rounded(plain: np.ndarray[Any, Any], dtype: torch.dtype) -> torch.Tensor | None:
    """Return real numbers in a type that NumPy does not know; None where one would be lost."""
    if plain.dtype.kind not in "iuf":
        return None
    wide = torch.from_numpy(plain.astype(np.float64))
    converted = wide.to(dtype)
    back = converted.to(torch.float64)
    kept = (wide.isnan() == back.isnan()) & (wide.isinf() == back.isinf())
    if dtype.itemsize == 1:  # these may hold their largest for all beyond it
        kept &= wide.isinf() | ~(wide.abs() > torch.finfo(dtype).max)
    return converted if bool(kept.all()) else None


def _fill_value(call: Call) -> Any:
    """Return the value of a fill as a Python number that the type of data holds."""
    caller, value, dtype = call.caller, call.fill_value, call.data.dtype
    if isinstance(value, torch.Tensor):
        value = _number(caller, value, dtype)
    known = elements.numpy_dtype(dtype)
    if known is not None:
        return plain_arrays.fill_element(caller, value, known).item()
    try:
        converted = _rounded(np.asarray(value), dtype)
    except (TypeError, ValueError):
        converted = None
    if converted is None or converted.dim():
        raise argument_errors.fill_value_lost(caller, value, dtype)
    return float(converted)


def _number(caller: str, value: torch.Tensor, dtype: torch.dtype) -> Any:
    """Return the number of a tensor, which gets no gradient."""
    if torch.is_grad_enabled() and value.requires_grad:
        raise tensor_errors.fill_with_gradient(caller, value)
    try:
        return value.item()
    except (RuntimeError, TypeError) as error:  # several numbers, none here, or one of a transform
        raise argument_errors.fill_value_lost(caller, value, dtype) from error


def _promoted(call: Call) -> Call:
    """Return a scatter with the wider of two floating types, where autocast mixes them."""
    data, updates = call.data, call.updates
    device = data.device.type
    if data.dtype == updates.dtype or not torch.amp.is_autocast_available(device):
        return call
    if not torch.is_autocast_enabled(device):
        return call
    if not (data.dtype.is_floating_point and updates.dtype.is_floating_point):
        return call
    wider = torch.promote_types(data.dtype, updates.dtype)
    return replace(call, data=data.to(wider), updates=updates.to(wider))


def check_out(call: Call, shape: tuple[int, ...]) -> None:
    """Raise the error of an `out` that cannot take the result, if there is one."""
    out, caller = call.out, call.caller
    if not isinstance(out, torch.Tensor) or out.layout != torch.strided:
        raise tensor_errors.out_not_a_tensor(caller, out)
    if out.device != call.data.device:
        raise tensor_errors.devices_differ(caller, "out", out.device, call.data.device)
    if out.dtype != call.data.dtype:
        raise argument_errors.out_dtype(caller, out.dtype, call.data.dtype)
    if tuple(out.shape) != shape:
        raise shape_errors.out_shape(caller, tuple(out.shape), shape)
