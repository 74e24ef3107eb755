"""Arrays that follow the array API standard. Gathers use ``take``, and scatters run in the core.

Arrays on a GPU, such as CuPy arrays, are passed to the torch adapter if torch supports the GPU.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from math import prod
from typing import Any, Literal

import numpy as np

from ndgather import arguments, exchange, foreign, messages, slow_path
from ndgather.array_call import Array, Call, replace
from ndgather.arrays import lowering
from ndgather.dtypes import Numbers
from ndgather.errors import DTypeError, ShapeError
from ndgather.messages import reason, shown
from ndgather.vjp import cotangents

_NAMES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
_ON_GPU = (2, 10)  # the DLPack device types for CUDA and ROCm


def is_standard(value: Any) -> bool:
    known = isinstance(value, np.ndarray | np.generic)
    named = hasattr(type(value), "__array_namespace__")
    return not known and (named or exchange.adapter_name(type(value)) == __name__)


def on_host(value: Any) -> bool:
    """Return whether an array is in memory that the CPU can read."""
    return foreign.device_of(value) in foreign.ON_HOST


def to_numpy(call: Call, name: str, value: Any) -> Array:
    _check_kind(call.caller, name, value)
    return host_array(call.caller, name, value)


def host_array(caller: str, argument: str, value: Any) -> Array:
    """Return a NumPy array that shares the memory of an array on the CPU."""
    if not on_host(value):
        raise messages.costly_conversion(
            caller, argument, value, "on another device, or lazy,", "a copy to the CPU"
        )

    def unknown_to_numpy(error: Exception) -> DTypeError:  # for example, if NumPy lacks the dtype
        why = f"cannot be converted by NumPy: {reason(error)}"
        return messages.not_an_array(caller, argument, value, why)

    with messages.converted_errors(unknown_to_numpy):
        return np.from_dlpack(value)


class StandardLibrary(lowering.Library):
    """The primitives for the library and device of an array."""

    def __init__(self, caller: str, data: Any) -> None:
        named = getattr(data, "__array_namespace__", None)
        xp = named() if named else import_module(type(data).__module__.partition(".")[0])
        if not hasattr(xp, "isdtype"):
            raise DTypeError(
                f"{caller}: data = {type(data).__name__} object is from a library without the "
                f"functions of the array API standard (allowed: a newer version, such as CuPy 14)"
            )
        super().__init__(xp, data)
        self.caller = caller
        with suppress(Exception):  # MLX, ndonnx and CuPy select devices differently
            self.options |= {"device": data.device} if named else {}

    def asarray(self, values: Any) -> Any:
        return self.xp.asarray(values, **self.options)

    def full(self, shape: Any, element: Any) -> Any:
        try:
            return super().full(shape, element)
        except RuntimeError:  # MLX rejects integers of 2**63 or more
            return super().full(shape, self.asarray(np.asarray(element)))

    def where(self, condition: Any, true: Any, false: Any) -> Any:
        """Return elements of `true` or `false`, depending on a condition.

        For ndonnx, this method uses ``take``, because onnxruntime implements ``where`` as a sum of
        both sides, which converts -0.0 to 0.0 and rounds uint64 to float64.
        """
        xp = self.xp
        if xp.__name__ != "ndonnx":
            return super().where(condition, true, false)
        if not hasattr(true, "dtype"):
            true = xp.asarray(true, dtype=false.dtype)
        shape = np.broadcast_shapes(condition.shape, true.shape, false.shape)
        sides = (self.reshape(self.broadcast(side, shape), (-1,)) for side in (false, true))
        at = xp.astype(condition, xp.int64) * prod(shape)
        at = at + self.reshape(self.arange(prod(shape)), shape)
        return self.reshape(xp.take(xp.concat([*sides]), self.reshape(at, (-1,)), axis=0), shape)

    def indices(self, call: Call) -> Any:
        name, value = call.indices_name, call.indices
        if type(value) is not type(self.data):
            listed = not isinstance(value, np.ndarray | np.generic) and not is_standard(value)
            if not listed and foreign.device_of(self.data) not in (None, *foreign.ON_HOST):
                raise DTypeError(
                    f"{self.caller}: {name} = {type(value).__name__} object is not on the device "
                    f"of data, which is a {type(self.data).__name__} (allowed: an array of its "
                    f"library, on that device)"
                )
            plain = host_array(self.caller, name, value) if is_standard(value) else value
            return self.asarray(arguments.integer_indices(replace(call, indices=plain)))
        own, device = self.options.get("device"), getattr(value, "device", None)
        if own is not None and device != own:
            raise DTypeError(
                f"{self.caller}: {name}.device = {device} differs from data.device = {own} "
                f"(allowed: {own})"
            )
        xp, isdtype, dtype = self.xp, self.xp.isdtype, value.dtype
        if isdtype(dtype, "integral"):
            return value
        if isdtype(dtype, "real floating") and 0 in value.shape:
            arguments.check_depth(call, value)
            return self.integers(value, None)  # empty lists become floats
        raise arguments.index_dtype(self.caller, dtype, name, xp.__name__)

    def fill_element(self, value: Any) -> Any:
        """Return a fill value as a Python number, or raise an error if it is not representable."""
        dtype, xp = self.data.dtype, self.xp
        name = next((n for n in _NAMES if hasattr(xp, n) and getattr(xp, n) == dtype), "")
        if xp.isdtype(dtype, "bool"):
            name = "bool"
        if is_standard(value):
            value = host_array(self.caller, "fill_value", value)
        known: np.dtype[Any] | Numbers = np.dtype(name or bool)
        if not name:  # a dtype that NumPy lacks, such as bfloat16
            with messages.converted_errors(
                lambda _: messages.fill_value_lost(self.caller, value, dtype)
            ):
                floats = xp.isdtype(dtype, "real floating")
                ends = xp.finfo(dtype) if floats else xp.iinfo(dtype)
                kind: Literal["f", "i"] = "f" if floats else "i"
                known = Numbers(str(dtype), kind, float(ends.min), float(ends.max), np.copy)
        return arguments.fill_element(self.caller, value, known).item()


def run(call: Call) -> Any:
    caller, data = call.caller, call.data
    for name, value in call.named()[:3]:
        _check_kind(caller, name, value)
    library = StandardLibrary(caller, data)
    if _torch_accepts(data):
        result = _run_in_torch(call, library)
    elif call.scatters:
        _check_scatters(caller, data)
        plain = _on_host(replace(call, out=None))
        if call.out is data and plain.data.flags.writeable:  # the library allows writes in place
            slow_path.run(replace(plain, out=plain.data))
            return data
        result = library.asarray(slow_path.run(plain))
    else:
        result = _gather(call, library)
    return result if call.out is None else _deliver(call, result)


def _torch_accepts(data: Any) -> bool:
    known = foreign.device_of(data) in _ON_GPU and find_spec("torch") is not None
    return known and bool(import_module("torch").cuda.is_available())


def _run_in_torch(call: Call, library: StandardLibrary) -> Any:
    torch, indices = import_module("torch"), library.indices(call)
    arrays = {"data": call.data, "indices": indices, "updates": call.updates}
    tensors = {
        name: torch.from_dlpack(array) if is_standard(array) else array
        for name, array in arrays.items()
    }
    adapter: Any = exchange.adapter(tensors["data"])
    return library.xp.from_dlpack(adapter.run(replace(call, out=None, **tensors)))


def vjp(call: Call, data_shape: tuple[int, ...] | None = None) -> tuple[Any, ...]:
    caller, cotangent = call.caller, call.data
    _check_kind(caller, "cotangent", cotangent)
    _check_scatters(caller, cotangent)
    library = StandardLibrary(caller, cotangent)
    return tuple(map(library.asarray, cotangents(_on_host(call), data_shape)))


def _check_scatters(caller: str, data: Any) -> None:
    if not on_host(data):
        raise DTypeError(
            f"{caller}: data = {type(data).__name__} object is on a device, or lazy, and the array "
            f"API standard has no scatter (allowed: an array in the memory of the CPU)"
        )


def _check_kind(caller: str, name: str, value: Any) -> None:
    """Raise an error if an array is sparse or has unknown sizes."""
    if not is_standard(value):
        return
    if hasattr(type(value), "todense"):
        raise messages.costly_conversion(caller, name, value, "sparse", "todense()")
    if not all(isinstance(size, int) for size in value.shape):
        raise ShapeError(
            f"{caller}: {name}.shape = {shown(value.shape)} is not known before {name} is computed "
            f"(allowed: known sizes)"
        )


def _on_host(call: Call) -> Call:
    """Return the call with its arrays converted to NumPy arrays that share their memory."""
    names = {"data": "data", "indices": call.indices_name, "updates": call.updates_name}
    plain: dict[str, Any] = {
        argument: host_array(call.caller, name, value)
        for argument, name in names.items()
        if is_standard(value := getattr(call, argument))
    }
    return replace(call, **plain)


def _gather(call: Call, library: StandardLibrary) -> Any:
    call = replace(call, indices=library.indices(call))
    call = arguments.checked(call, None)
    fill = library.fill_element(0 if call.fill_value is None else call.fill_value)
    shapes = call.data.shape, call.indices.shape
    lowering.check_shapes(call, *shapes)
    return lowering.gather(call, library, *shapes, fill)


def _deliver(call: Call, result: Any) -> Any:
    """Assign a result to `out`, which must belong to the library of data."""
    out = call.out
    if type(out) is not type(result):
        raise DTypeError(
            f"{call.caller}: out = {type(out).__name__} object cannot hold a result from "
            f"{type(result).__module__} (allowed: a {type(result).__name__})"
        )
    arguments.check_out(call, result.shape, out.shape)
    with messages.converted_errors(lambda _: messages.out_read_only(call.caller)):
        out[...] = result
    return out
