"""The adapter for PyTorch tensors, which returns tensors on the device of data.

Gradients work as in torch's own functions. The first call with a tensor imports this module.
Import `compiling` before `torch.compile` traces the first call.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import Any

from ndgather import messages

if find_spec("torch") is None:
    raise messages.extra_missing("torch", "torch")

import numpy as np
import torch
from numpy.typing import NDArray
from torch._subclasses import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from ndgather import arguments, foreign, slow_path
from ndgather.array_call import Call, replace
from ndgather.arrays.torch import autograd, checks, composition, operators
from ndgather.arrays.torch.onnx_export import onnx_translations
from ndgather.errors import AttributeValueError, DTypeError
from ndgather.messages import reason

__all__ = ["onnx_translations", "run", "vjp"]

operators.register()
if not checks.INTERPRETED:
    checks.accept(autograd.record)


def vjp(call: Call, data_shape: tuple[int, ...] | None = None) -> tuple[Any, ...]:
    with messages.converted_errors(partial(_not_supported, call)):
        return autograd.vjp(call, data_shape)


def run(call: Call) -> Any:
    data = call.data
    if isinstance(data, torch.Size):
        return slow_path.run(replace(call, data=tuple(data)))
    if not isinstance(data, torch.Tensor):
        raise messages.not_an_array(call.caller, "data", data, "is not a tensor")
    # Calling the operator takes 70 us, so call it only for gradients, transforms and modes.
    if (data.is_cuda or checks.INTERPRETED) and call.out is None and checks.is_plain(call):
        return operators.run_on_gpu(call, checks.with_tensors)
    call = checks.with_tensors(call)
    if call.out is not None:
        return _into(call)
    if any(_composes(tensor) for _, tensor in checks.tensors(call)):
        with messages.converted_errors(partial(_not_supported, call)):
            return composition.run(call)
    try:
        return checks.operate(call)
    except AssertionError as error:  # raised if fake and real tensors are mixed
        raise _not_supported(call, error) from error


def offsets_of(values: torch.Tensor, offsets: NDArray[np.int64]) -> torch.Tensor:
    return torch.from_numpy(offsets).to(values.device)


def to_numpy(call: Call, name: str, value: Any) -> Any:
    if isinstance(value, torch.Size):
        return tuple(value)
    if not isinstance(value, torch.Tensor):
        raise messages.not_an_array(call.caller, name, value, "is not a tensor")
    checks.check_layout(call.caller, name, value)
    checks.check_rank(call.caller, name, value)
    checks.check_device(call.caller, name, value.device.type, "cpu")
    if name == call.indices_name:
        if value.is_floating_point():
            arguments.check_depth(call, value)
        checks.check_index_type(call)
    checks.check_known(call.caller, name, value)
    foreign.check(call.caller, name, value)
    if value.requires_grad and torch.is_grad_enabled():
        why = "requires a gradient"
        raise messages.unknown_values(call.caller, name, value, why, "torch.as_tensor")
    if value.dtype not in checks.NUMPY:  # NumPy would misinterpret the bits
        why = f"has dtype {value.dtype}, which NumPy does not support"
        raise messages.not_an_array(call.caller, name, value, why, "a tensor in the dtype of data")
    return checks.array_of(value)


def _not_supported(call: Call, error: Exception) -> DTypeError:
    """Return the error for a tensor class that lacks a required torch function."""
    on_mesh = {name: hasattr(value, "device_mesh") for name, value in checks.tensors(call)}
    if any(on_mesh.values()) and (call.scatters or not all(on_mesh.values())):
        return _beside_distributed(call, on_mesh)
    kind = f"{type(call.data).__module__}.{type(call.data).__qualname__}"
    return DTypeError(
        f"{call.caller}: data = {kind} object does not support a function of torch that the "
        f"call needs: {type(error).__name__}: {reason(error)} (allowed: a tensor that supports "
        f"functions such as index_select)"
    )


def _beside_distributed(call: Call, on_mesh: dict[str, bool]) -> DTypeError:
    """Return the error for DTensors in a scatter, or in a gather that also has plain tensors."""
    other = next(name for name, has_mesh in on_mesh.items() if has_mesh)
    hint = f"write {other}.full_tensor()"
    if not call.scatters:
        plain, mesh = next(n for n, has_mesh in on_mesh.items() if not has_mesh), "device_mesh"
        hint = (
            f"with torch.distributed.tensor, write distribute_tensor(torch.as_tensor({plain}), "
            f"{other}.{mesh}, [Replicate()] * {other}.{mesh}.ndim)"
        )
    return DTypeError(
        f"{call.caller}: {other} = DTensor object is not supported in scatters or with plain "
        f"tensors (allowed: gathers of DTensors on one mesh); {hint}"
    )


def _into(call: Call) -> torch.Tensor:
    slices, out, caller = checks.check_shapes(call), call.out, call.caller
    if not isinstance(out, torch.Tensor):
        raise DTypeError(
            f"{caller}: out = {type(out).__name__} object is not a tensor (allowed: a dense tensor)"
        )
    checks.check_device(caller, "out", out.device, call.data.device)
    arguments.check_out(call, call.data.shape if call.scatters else slices, out.shape)
    for name, tensor in [*checks.tensors(call), ("out", out)]:
        if (torch.is_grad_enabled() and tensor.requires_grad) or checks.is_transformed(tensor):
            raise AttributeValueError(
                f"{caller}: out is given, but {name} requires a gradient or is under a "
                f"transform (allowed: out=None, or a call under torch.no_grad())"
            )
    is_memory = out.device.type == "cpu" and not (out.is_conj() or out.is_neg())
    has_memory = not (out._is_zerotensor() or torch._is_functional_tensor(out))
    is_memory &= type(out) in checks.KINDS and has_memory
    if is_memory and not checks.INTERPRETED and checks.is_plain(call):
        operators.run(call)
        checks.written(out)
        return out

    def not_written(error: Exception) -> DTypeError:
        why = f"cannot hold the result: {reason(error)}"
        return messages.not_an_array(caller, "out", out, why, "a dense tensor")

    with torch.no_grad(), messages.converted_errors(not_written):
        return out.copy_(checks.operate(replace(call, out=None)))


def _composes(tensor: torch.Tensor) -> bool:
    """Return whether a tensor's class overrides `__torch_dispatch__`, except for fake tensors."""
    own = type(tensor).__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl
    return own and not isinstance(tensor, FakeTensor | FunctionalTensor)
