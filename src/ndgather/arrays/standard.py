"""What `lowering` uses of a library of arrays, in the functions of the array API standard."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import slow_path
from ndgather.array_call import _core
from ndgather.arrays import lowering
from ndgather.arrays.lowering import cotangents
from ndgather.errors import argument_errors, index_errors, lazy_errors, shape_errors
from ndgather.errors.texts import reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ndgather.array_call import Call


_NAMES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
_LARGEST = int(np.iinfo(np.int64).max)
_ON_HOST = (1, 3, 11)  # of DLPack: the memory of the CPU, pinned for CUDA, pinned for ROCm


def is_standard(value: Any) -> bool:
    known = isinstance(value, np.ndarray | np.generic)
    return not known and hasattr(type(value), "__array_namespace__")


def on_host(value: Any) -> bool:
    """Whether an array can be looked at in the memory of the CPU."""
    try:
        return value.__dlpack_device__()[0] in _ON_HOST
    except Exception:  # whatever the library raises: it has no DLPack, or no memory at all
        return False


def host_array(caller: str, argument: str, value: Any) -> NDArray[Any]:
    """Return a NumPy array that shares the memory of an array of the CPU."""
    if not on_host(value):
        raise argument_errors.costly_conversion(
            caller, argument, value, "on another device, or lazy,", "a copy to the CPU"
        )
    try:
        return np.from_dlpack(value)
    except MemoryError:
        raise
    except Exception as error:  # a type that NumPy does not have
        why = f"cannot be looked at by NumPy: {reason(error)}"
        raise argument_errors.not_an_array(caller, argument, value, why) from error


class Library:
    """The library and the device of an array."""

    def __init__(self, caller: str, data: Any) -> None:
        self.xp = data.__array_namespace__()
        self.caller = caller
        self.data = data
        self.options: dict[str, Any] = {}
        try:
            self.options["device"] = data.device
        except Exception:  # MLX and ndonnx choose devices by other means
            self.options.clear()

    def _asarray(self, values: Any, dtype: Any = None) -> Any:
        given = {} if dtype is None else {"dtype": dtype}
        return self.xp.asarray(values, **given, **self.options)

    def of_host(self, array: NDArray[Any]) -> Any:
        """Return a NumPy array as one of the library."""
        return self._asarray(array)

    def argument(self, name: str, value: Any) -> Any:
        """Return an argument as an array of the library, on the device of data."""
        if type(value) is type(self.data):
            return value
        listed = not isinstance(value, np.ndarray | np.generic) and not is_standard(value)
        if not listed and hasattr(type(self.data), "__dlpack_device__") and not self._shares_host():
            raise argument_errors.on_another_device(self.caller, name, value, self.data)
        plain = host_array(self.caller, name, value) if is_standard(value) else value
        array = slow_path.native_indices(self.caller, plain, name)
        if array.dtype.kind not in "iu":
            raise index_errors.index_dtype(self.caller, array.dtype, "no integer type", name)
        return self.of_host(array)

    def _shares_host(self) -> bool:
        try:
            self.data.__dlpack_device__()
        except Exception:  # no memory at all, as a lazy array: NumPy arrays are constants there
            return True
        return on_host(self.data)

    def index_kind(self, indices: Any) -> str:
        """Return what the type of indices is called where it is no integer; else nothing."""
        for kind, word in (("bool", "boolean"), ("real floating", "floating")):
            if self.xp.isdtype(indices.dtype, kind):
                return word
        return "" if self.xp.isdtype(indices.dtype, "integral") else "not an integer type"

    def _dtype_name(self) -> str:
        """Return what the standard calls the type of data; nothing for a type beyond it."""
        dtype, xp = self.data.dtype, self.xp
        if xp.isdtype(dtype, "bool"):
            return "bool"
        return next(
            (name for name in _NAMES if hasattr(xp, name) and getattr(xp, name) == dtype), ""
        )

    def fill_element(self, value: Any) -> Any:
        """Return a fill value as a number that the type of data can hold."""
        name = self._dtype_name()
        if not name:  # a type that NumPy does not have, such as bfloat16
            try:
                return float(value)
            except Exception as error:  # whatever the methods of `value` raise
                dtype = self.data.dtype
                raise argument_errors.fill_value_lost(self.caller, value, dtype) from error
        if is_standard(value):
            value = host_array(self.caller, "fill_value", value)
        return slow_path.fill_element(self.caller, value, np.dtype(name)).item()

    def array(self, values: Any) -> Any:
        return self._asarray(np.asarray(values, np.int64), self.xp.int64)

    def steps(self, size: int, step: int) -> Any:
        return self.array(np.arange(size, dtype=np.int64) * step)

    def int64(self, integers: Any, modulus: Any) -> Any:
        xp = self.xp
        if integers.dtype == getattr(xp, "uint64", None):
            if modulus is not None:
                return xp.astype(xp.remainder(integers, xp.astype(modulus, xp.uint64)), xp.int64)
            largest = self._asarray(_LARGEST, xp.uint64)
            integers = xp.where(integers > largest, largest, integers)
        values = xp.astype(integers, xp.int64)
        return values if modulus is None else xp.remainder(values, modulus)

    def checked(self, outside: Any, refusal: Callable[[Any, Any], Exception]) -> bool:
        try:
            found = bool(self.xp.any(outside))
        except MemoryError:
            raise
        except Exception:  # a lazy array, whose values nobody knows
            return False
        if found:
            flags = self.xp.astype(self.xp.reshape(outside, (-1,)), self.xp.int64)
            raise refusal(self.xp.argmax(flags), self.xp.sum(flags))
        return True

    def beyond(self, sizes: Any) -> Any:
        return sizes  # which `take` refuses when it runs

    def reshape(self, array: Any, shape: Sequence[int]) -> Any:
        return self.xp.reshape(array, tuple(shape))

    def broadcast(self, array: Any, shape: Sequence[int]) -> Any:
        return self.xp.broadcast_to(array, tuple(shape))

    def where(self, condition: Any, true: Any, false: Any) -> Any:
        return self.xp.where(condition, true, false)

    def full(self, shape: Sequence[int], element: Any) -> Any:
        return self.xp.full(tuple(shape), element, dtype=self.data.dtype, **self.options)

    def any(self, array: Any) -> Any:
        return self.xp.any(array, axis=-1)

    def sum(self, array: Any) -> Any:
        return self.xp.sum(array, axis=-1)

    def take(self, data: Any, numbers: Any) -> Any:
        return self.xp.take(data, numbers, axis=1)


def run(call: Call) -> Any:
    """Carry out a call with arrays of the standard; the result is of the library of data.

    Raises
    ------
    NdgatherError
        The call is refused as it would be for NumPy arrays; or an argument is on another device
        than data, or has sizes that are not known; or it is a scatter of what is on a device.
    """
    caller, data = call.caller, call.data
    names = {"data": "data", "indices": call.indices_name, "updates": call.updates_name}
    for argument, name in names.items():
        _check_kind(caller, name, getattr(call, argument))
    if not is_standard(data):
        return slow_path.run(_on_host(call))
    library = Library(caller, data)
    if call.scatters:
        if not on_host(data):
            raise argument_errors.no_scatter(caller, data)
        result = library.of_host(slow_path.run(_on_host(replace(call, out=None))))
    else:
        result = _gather(call, library)
    return result if call.out is None else _deliver(call, library, result)


def vjp(call: Call, data_shape: tuple[int, ...] | None = None) -> Any:
    """Return the cotangents of a call, in which `data` is the cotangent of its result.

    Raises
    ------
    NdgatherError
        The cotangent is on a device, or the call is refused as it would be for NumPy arrays.
    """
    caller, given = call.caller, call.data
    _check_kind(caller, "cotangent", given)
    if is_standard(given) and not on_host(given):
        raise argument_errors.no_scatter(caller, given)
    results = cotangents(_on_host(call), data_shape)
    if not is_standard(given):
        return results
    of_host = Library(caller, given).of_host
    return tuple(map(of_host, results)) if isinstance(results, tuple) else of_host(results)


def _check_kind(caller: str, name: str, value: Any) -> None:
    """Raise the error of an array that is sparse, or of sizes that are not known."""
    if not is_standard(value):
        return
    if hasattr(type(value), "todense"):
        raise argument_errors.costly_conversion(caller, name, value, "sparse", "todense()")
    if not all(isinstance(size, int) for size in value.shape):
        raise lazy_errors.sizes_not_known(caller, name, value.shape)


def _on_host(call: Call) -> Call:
    """Return a call with NumPy arrays that share the memory of its arrays."""
    names = {"data": "data", "indices": call.indices_name, "updates": call.updates_name}
    plain: dict[str, Any] = {
        argument: host_array(call.caller, name, value)
        for argument, name in names.items()
        if is_standard(value := getattr(call, argument))
    }
    if is_standard(call.out):
        raise argument_errors.out_not_an_array(call.caller, call.out)
    return replace(call, **plain)


def _gather(call: Call, library: Library) -> Any:
    caller, data = call.caller, call.data
    indices = library.argument(call.indices_name, call.indices)
    kind = library.index_kind(indices)
    if kind == "floating" and 0 in indices.shape:  # how an empty list is often written
        indices = library.int64(indices, None)
    elif kind:
        raise index_errors.index_dtype(caller, indices.dtype, kind, call.indices_name)
    modes = slow_path.MODES if call.kind == "gather_windows" else _core.GATHER_MODES
    mode = slow_path.choice(caller, "mode", call.mode, modes)
    if call.fill_value is not None and mode != "fill":
        raise argument_errors.fill_value_unused(caller, mode)
    fill = library.fill_element(0 if call.fill_value is None else call.fill_value)
    call = replace(call, indices=indices, mode=mode)
    return lowering.gather(call, library, data.shape, indices.shape, fill)


def _deliver(call: Call, library: Library, result: Any) -> Any:
    """Assign a result to `out`, an array of the library of data."""
    out = call.out
    if type(out) is not type(result):
        raise argument_errors.out_of_another_kind(call.caller, out, result)
    if out.dtype != result.dtype:
        raise argument_errors.out_dtype(call.caller, out.dtype, result.dtype)
    if out.shape != result.shape:
        raise shape_errors.out_shape(call.caller, out.shape, result.shape)
    try:
        out[...] = result
    except MemoryError:
        raise
    except Exception:  # whatever the library raises where arrays do not change
        raise argument_errors.out_read_only(call.caller) from None
    return out
