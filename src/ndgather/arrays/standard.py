"""Arrays of any library that follows the array API standard, by functions of the standard alone.

A gather is composed of `take`, `where` and arithmetic, on the device of data (`lowering`).
``mode="raise"`` waits there once, for one flag; of a lazy array whose values are not known, as
ndonnx has them, it leaves the check to what computes it later. The standard has no scatter: in the
memory of the CPU the core does it through DLPack, and a new array comes back; on a device it is
refused.

Tested with array-api-strict, ndonnx and MLX. For CuPy it is written and was not run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ndgather import fallback, windows
from ndgather.arrays import lowering
from ndgather.arrays.cotangents import cotangents
from ndgather.arrays.standard_library import Library, host_array, is_standard, on_host
from ndgather.compiled import _core
from ndgather.errors import argument_errors, index_errors, lazy_errors, shape_errors

if TYPE_CHECKING:
    from ndgather.array_call import Call


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
        return fallback.run(_on_host(call))
    library = Library(caller, data)
    if call.scatters:
        if not on_host(data):
            raise argument_errors.no_scatter(caller, data)
        result = library.of_host(fallback.run(_on_host(replace(call, out=None))))
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
    modes = windows.MODES if call.kind == "gather_windows" else _core.GATHER_MODES
    mode = fallback.choice(caller, "mode", call.mode, modes)
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
