"""Validation of calls, and conversion of their arguments to tensors on one device."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch._subclasses import FakeTensor
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.nn.parameter import is_lazy

from ndgather import arguments, exchange, messages, reductions, slow_path
from ndgather.array_call import Array, Call, Kind, _core, replace
from ndgather.dtypes import Numbers
from ndgather.errors import AttributeValueError, DTypeError
from ndgather.messages import reason, shown_value

# "0" disables the Triton kernels. "1" runs the kernels on CPU tensors if TRITON_INTERPRET is "1".
KERNELS = os.environ.get("NDGATHER_TORCH_KERNELS", "")
INTERPRETED = KERNELS == "1" and os.environ.get("TRITON_INTERPRET") == "1"

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}
INTEGERS = (
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
)
NUMPY = {  # the dtypes that NumPy supports
    each: np.dtype(str(each).removeprefix("torch."))  # without creating a tensor
    for each in (
        *INTEGERS,
        torch.bool,
        torch.float16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
    )
}
_FLOATS = {torch.bfloat16} | {
    value
    for name, value in vars(torch).items()
    if name.startswith("float8_") and isinstance(value, torch.dtype)
}


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view with the same bits in a dtype that NumPy supports."""
    return tensor if tensor.dtype in NUMPY else tensor.view(BITS[tensor.itemsize])


def array_of(tensor: torch.Tensor) -> Array:
    """Return an array that shares memory with a tensor, or a copy of a conj or neg view."""
    tensor = bits_of(tensor.detach().resolve_conj().resolve_neg())
    array: Array = tensor.numpy()
    return array


def tensor_of(array: Array, dtype: torch.dtype) -> torch.Tensor:
    tensor = torch.from_numpy(array)
    return tensor if tensor.dtype == dtype else tensor.view(dtype)


@lru_cache(maxsize=64)
def for_core(dtype: torch.dtype, reduction: str) -> Array | str | None:
    """Return the core's option `arithmetic` for reductions in dtypes that NumPy lacks."""
    if dtype in NUMPY or reduction == "none":
        return None
    if dtype == torch.bfloat16:
        return "bfloat16"

    def bytes_of(numbers: Array) -> Array:
        rounded: Array = torch.from_numpy(numbers).to(dtype).view(torch.uint8).numpy()
        return rounded

    # Sums, differences and products are rounded correctly, because float32 is wide enough.
    every = torch.arange(256, dtype=torch.uint8, device="cpu").view(dtype)
    return reductions.byte_results(reduction, every.to(torch.float32).numpy(), bytes_of)


@lru_cache
def numbers(dtype: torch.dtype) -> np.dtype[Any] | Numbers | None:
    """Return the equivalent NumPy dtype, the `Numbers` of another float dtype, or None."""
    if dtype in NUMPY or dtype not in (*_FLOATS, torch.complex32):
        return NUMPY.get(dtype)
    real = dtype.to_real()

    def rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
        floats: NDArray[np.float64] = torch.from_numpy(values).to(real).to(torch.float64).numpy()
        return floats

    ends = torch.finfo(real)
    return Numbers(str(dtype), "c" if dtype.is_complex else "f", ends.min, ends.max, rounded)


def identity(dtype: torch.dtype, reduction: str) -> Any:
    """Return the identity of a reduction in a dtype."""
    known = numbers(dtype)
    assert known is not None
    return reductions.identity(known, reduction).item()


def checked(call: Call) -> Call:
    caller, data = call.caller, call.data
    for name, tensor in tensors(call):
        check_layout(caller, name, tensor)
        check_rank(caller, name, tensor)
        check_device(caller, name, tensor.device, data.device)
    check_index_type(call)
    if call.scatters and call.updates.dtype != data.dtype:
        dtypes = call.updates.dtype, data.dtype
        raise messages.updates_dtype(caller, *dtypes, call.updates_name)
    alike = np.dtype(np.float32) if data.dtype in _FLOATS else NUMPY.get(data.dtype, np.dtype("V1"))
    return arguments.checked(call, None, arguments.supported_reductions(alike))


def check_rank(caller: str, name: str, tensor: torch.Tensor) -> None:
    if tensor.dim() > _core.HIGHEST_RANK:
        raise messages.too_many_axes(caller, name, tensor.dim(), _core.HIGHEST_RANK)


def check_device(caller: str, name: str, device: object, wanted: object) -> None:
    if device != wanted:
        raise AttributeValueError(
            f"{caller}: {name}.device = {device} differs from data.device = {wanted} (allowed: "
            f"{wanted}); write {name}.to(data.device)"
        )


def check_index_type(call: Call) -> None:
    if call.indices.dtype not in INTEGERS:
        raise arguments.index_dtype(call.caller, call.indices.dtype, call.indices_name)


def check_layout(caller: str, name: str, tensor: torch.Tensor) -> None:
    """Raise an error if a tensor has no strides or is uninitialized."""
    if is_lazy(tensor):
        raise messages.not_an_array(caller, name, tensor, "is not initialized")
    if tensor.layout != torch.strided or tensor.is_nested or tensor.is_quantized:
        kind, method = str(tensor.layout), "to_dense()"
        if tensor.is_nested:
            kind, method = "nested", "to_padded_tensor(padding)"
        elif tensor.is_quantized:
            kind, method = "quantized", "dequantize()"
        raise DTypeError(
            f"{caller}: {name} = {kind} tensor has no strides (allowed: a dense tensor, such as "
            f"{name}.{method})"
        )


def check_known(caller: str, name: str, tensor: torch.Tensor) -> None:
    """Raise an error if a transform or trace of torch hides the values of a tensor."""
    if not torch.compiler.is_dynamo_compiling() and (
        isinstance(tensor, FakeTensor)
        or torch._C._functorch.is_functorch_wrapped_tensor(tensor)
        or get_proxy_mode() is not None
    ):
        why = "is under a transform or trace of torch, so its values are not known"
        raise messages.unknown_values(caller, name, tensor, why, "torch.as_tensor")


def tensors(call: Call) -> list[tuple[str, torch.Tensor]]:
    named = [("data", call.data), (call.indices_name, call.indices)]
    return [*named, (call.updates_name, call.updates)] if call.scatters else named


def check_shapes(call: Call) -> tuple[int, ...]:
    """Return the shape of the selected slices; raise ShapeError if the shapes do not match."""
    slices = slow_path.result_shape(call)
    if call.scatters:
        arguments.check_updates(call, call.updates.shape, slices)
    return slices


_GATHER = ("mode", "fill_value", "negative", "caller")
_SCATTER = ("reduction", "mode", "use_init_val", "negative", "caller", "updates_name")
# The parameters of each operator that follow data, indices and updates.
OPTIONS = {
    "gather_nd": ("batch_dims", *_GATHER),
    "gather_elements": ("axis", *_GATHER),
    "gather": ("axis", "batch_dims", *_GATHER),
    "gather_windows": ("window_shape", "mode", "fill_value", "caller"),
    "scatter_nd": ("batch_dims", *_SCATTER),
    "scatter_elements": ("axis", *_SCATTER),
}
_TYPES = {
    "axis": "int axis=0",
    "batch_dims": "int batch_dims=0",
    "window_shape": "SymInt[] window_shape",
    "reduction": 'str reduction="none"',
    "mode": 'str mode="raise"',
    "fill_value": "Scalar? fill_value=None",
    "use_init_val": "bool use_init_val=True",
    "negative": "bool negative=True",
    "updates_name": 'str updates_name="updates"',
}


def schema(kind: str) -> str:
    """Return the schema of an operator in the syntax of `torch.library`."""
    types = _TYPES | {"caller": f'str caller="{kind}"'}
    tensors = ["Tensor data", "Tensor indices"]
    if Kind(kind).scatters:
        tensors.append("Tensor updates")
    return f"{kind}({', '.join([*tensors, *(types[name] for name in OPTIONS[kind])])}) -> Tensor"


def call_of(kind: str, given: tuple[Any, ...]) -> Call:
    """Convert the arguments of an operator to a call with non-negative axes."""
    tensors = ("data", "indices", "updates")[: count_of_tensors(kind)]
    named = dict(zip((*tensors, *OPTIONS[kind]), given, strict=False))
    named["window_shape"] = tuple(named.get("window_shape", ()))
    call = Call(named.pop("caller", kind), Kind(kind), **named)
    return with_nonnegative_axes(replace(call, mode=arguments.checked_mode(call)))


def count_of_tensors(kind: str) -> int:
    return 3 if Kind(kind).scatters else 2


def with_nonnegative_axes(call: Call) -> Call:
    """Normalize a negative axis and negative batch dims, unless they are out of range."""
    rank = call.data.dim()
    if call.kind is Kind.GATHER and call.batch_dims < 0:
        call = replace(call, batch_dims=call.batch_dims + call.indices.dim())
    if call.axis < 0 <= call.axis + rank:
        call = replace(call, axis=call.axis + rank)
    return call


def operate(call: Call) -> torch.Tensor:
    """Run `call` as a torch operator, so that active transforms apply."""
    fill = call.fill_value
    if isinstance(fill, torch.Tensor):
        call = replace(call, fill_value=None)
        inside = operate(replace(call, data=torch.ones_like(call.data, dtype=torch.bool)))
        return torch.where(inside, operate(call), fill)
    tensors = [call.data, call.indices, *([call.updates] if call.scatters else [])]
    mode = ",".join(call.mode) if isinstance(call.mode, tuple) else str(call.mode)
    options = (mode if name == "mode" else getattr(call, name) for name in OPTIONS[call.kind])
    return getattr(torch.ops.ndgather, call.kind).default(*tensors, *options)


_NO_CONTEXT = nullcontext()


def carry_out(call: Call, context: AbstractContextManager[Any] = _NO_CONTEXT) -> torch.Tensor:
    """Run a call in the core within `context`, or as an operator if the core refuses the call."""
    with context:
        result: Any = call.run()
    return operate(call) if isinstance(result, _core.Refusal) else result


def with_tensors(call: Call) -> Call:
    """Return `call` with validated options, and with all arrays as tensors on data's device."""
    caller = call.caller
    for name, value in call.named():
        if isinstance(value, torch.Tensor):
            check_layout(caller, name, value)
    data, indices, device = call.data, call.indices, call.data.device
    if not isinstance(indices, torch.Tensor):
        name = call.indices_name
        _check_memory(caller, name, indices, device)
        indices = tensor(caller, name, arguments.integer_indices(call), device)
    elif indices.is_floating_point() and 0 in indices.shape:  # for example torch.tensor([])
        arguments.check_depth(call, indices)
        indices = indices.to(torch.int64)
    call = replace(call, indices=indices)
    if call.scatters:
        data, updates = promoted(data, _updates(call, device))
        call = replace(call, data=data, updates=updates)
    elif call.fill_value is not None:
        call = replace(call, fill_value=_fill_value(call))
    if type(call.axis) is not int or type(call.batch_dims) is not int:
        axis, batch_dims = (arguments.integer(call, name) for name in ("axis", "batch_dims"))
        call = replace(call, axis=axis, batch_dims=batch_dims)
    if any(not -(2**63) <= n < 2**63 for n in (call.axis, call.batch_dims, *call.window_shape)):
        check_shapes(call)  # raises an error, because operators support only int64
    return checked(with_nonnegative_axes(call))


def _check_memory(caller: str, name: str, value: object, device: torch.device) -> None:
    """Raise AttributeValueError for a NumPy array if data is on another device."""
    if isinstance(value, np.ndarray) and device.type not in ("cpu", "meta"):
        raise AttributeValueError(
            f"{caller}: {name} = NumPy array is in the memory of the CPU, but data is on {device} "
            f"(allowed: a tensor there); write torch.as_tensor({name}, device=data.device)"
        )


def tensor(
    caller: str, name: str, array: np.ndarray[Any, Any], device: torch.device
) -> torch.Tensor:
    """Convert an array to a tensor, which shares the array's memory if possible."""
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    if native.dtype.kind in "iu":  # torch does not support aliases such as numpy.longlong
        native = native.view(native.dtype.str)
    fits = all(s >= 0 and s % native.itemsize == 0 for s in native.strides)
    if not (native.flags.writeable and fits):
        native = native.copy()
    try:
        return torch.from_numpy(native).to(device)
    except TypeError as error:
        why = f"cannot be converted to a tensor: {reason(error)}"
        raise messages.not_an_array(caller, name, array, why) from error


def _updates(call: Call, device: torch.device) -> torch.Tensor:
    """Return the updates as a tensor; numbers and lists are converted to the dtype of data."""
    caller, name, value = call.caller, call.updates_name, call.updates
    if isinstance(value, torch.Tensor):
        return value
    _check_memory(caller, name, value, device)
    dtype, known = call.data.dtype, numbers(call.data.dtype)
    if known is None:
        what = f"{name} = {type(value).__name__} object"
        raise messages.update_lost(caller, what, dtype)
    plain = arguments.plain_updates(call, known)
    return tensor(caller, name, plain, device).to(dtype)


def _fill_value(call: Call) -> Any:
    """Return the fill value as a number that the dtype of data can represent, or as a tensor."""
    caller, value, data = call.caller, call.fill_value, call.data
    if isinstance(value, torch.Tensor):
        if torch.is_grad_enabled() and value.requires_grad:
            raise AttributeValueError(
                f"{caller}: fill_value = {shown_value(value)} requires a gradient, which is not "
                f"computed (allowed: a number, or fill_value.detach())"
            )
        if torch._C._len_torch_dispatch_stack() and value.numel() == 1:  # `value` may be fake
            return torch.ops.ndgather.fill_value(value, data.dtype, data.device, caller)
    return fill_number(caller, value, data.dtype)


def fill_number(caller: str, value: Any, dtype: torch.dtype) -> Any:
    """Return a fill value as a Python number that the dtype can represent."""
    if isinstance(value, torch.Tensor):
        try:
            value = value.item()
        except (RuntimeError, TypeError) as error:  # an unknown value, or several or no elements
            raise messages.fill_value_lost(caller, value, dtype) from error
    known = numbers(dtype)
    if known is None:
        raise messages.fill_value_lost(caller, value, dtype)
    return arguments.fill_element(caller, value, known).item()


def promoted(data: torch.Tensor, updates: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return data and updates in the wider of their floating dtypes if autocast is enabled."""
    device, dtypes = data.device.type, (data.dtype, updates.dtype)
    if (
        data.dtype == updates.dtype
        or not all(dtype.is_floating_point for dtype in dtypes)
        or not torch.amp.is_autocast_available(device)
        or not torch.is_autocast_enabled(device)
    ):
        return data, updates
    wider = torch.promote_types(*dtypes)
    return data.to(wider), updates.to(wider)


def is_plain(call: Call) -> bool:
    """Return whether all tensors are dense, without subclasses, gradients, transforms or modes."""
    return (
        not torch._C._len_torch_dispatch_stack()
        and not torch._C._dispatch_tls_is_dispatch_key_included(torch._C.DispatchKey.PreDispatch)
        and not torch._C._are_functorch_transforms_active()
        and torch._C._get_tracing_state() is None
        and _is_plain_tensor(call.data)
        and _is_plain_tensor(call.indices)
        and _is_plain_tensor(call.updates)
    )


def _is_plain_tensor(value: Any) -> bool:
    return not isinstance(value, torch.Tensor) or (
        type(value) in KINDS
        and value.layout is torch.strided
        and not value.is_nested
        and not (value.requires_grad and torch.is_grad_enabled())
        and not value._is_zerotensor()  # a zero tensor has no memory
        and not torch._C._functorch.is_functorch_wrapped_tensor(value)
        and (forward_ad._current_level < 0 or not is_transformed(value))
    )


def is_transformed(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is wrapped by a transform of `torch.func` or has a tangent."""
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return True
    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None


KINDS = (torch.Tensor, torch.nn.Parameter)

# The core does not accept tensors while any of these torch features is active.
_TRANSFORMS: tuple[exchange.Transform, ...] = (
    torch._C._len_torch_dispatch_stack,  # dispatch modes, such as FakeTensorMode
    torch._C._is_tracing,  # torch.jit.trace
    torch._C._are_functorch_transforms_active,  # wrapped tensors refuse DLPack only after 0.7 ms
    (vars(forward_ad), "_current_level", -1),  # forward-mode derivatives
)


def accept(record: Callable[..., Any]) -> None:
    """Let the core accept plain CPU tensors, and run `record` for calls that need gradients."""
    for kind in KINDS:
        exchange.accept(
            kind,
            gradient="requires_grad",
            records=torch.is_grad_enabled,
            record=record,
            negated=torch.Tensor.is_neg,
            conjugated=torch.Tensor.is_conj,
            transforms=_TRANSFORMS,
            written=written,
            whole_bytes=(torch.int8, torch.uint8),
        )


def written(out: torch.Tensor) -> None:
    """Mark `out` as modified, so that backward passes that need its old values raise an error."""
    if not out.is_inference():
        torch.autograd.graph.increment_version(out)
