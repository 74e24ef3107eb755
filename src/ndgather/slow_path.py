"""Convert the arguments of refused calls and run the calls again, or raise an error.

The core accepts NumPy arrays in native byte order, and adapters handle arrays of other libraries.
This module converts lists, subclasses of `numpy.ndarray` and arrays in other byte orders. The
module `ndgather.arrays.rows` handles object arrays, and scatters that require several steps, for
example because of ``reduction="mean"`` or ``use_init_val=False``.
"""

from __future__ import annotations

from functools import lru_cache, partial
from types import NoneType
from typing import Any

import numpy as np

from ndgather import arguments, dtypes, exchange, messages, reductions, windows
from ndgather.array_call import Array, Call, Kind, _core, replace, with_padding
from ndgather.signatures import SIGNATURES, misused

_KINDS = {str(kind): kind for kind in Kind}  # a lookup is ten times as fast as `Kind(name)`


def handle_refusal(kind: str, refusal: _core.Refusal, given: Any) -> Array:
    """Return the result of a call that the core refused, or raise an error with the reason.

    The core passes `given` as `_core.Arguments`, or as a tuple if the arguments do not match the
    signature.
    """
    if refusal.rule == "signature":  # `facts` contains the keywords
        hint = partial(arguments.positional_hint, Kind(kind))
        raise misused(kind, SIGNATURES[kind], refusal.facts, given, hint)
    taken = exchange.TAKEN_UP.get(type(given.data))
    if taken is not None and taken[0] == refusal.rule:
        result = taken[1](given)
        if result is not NotImplemented:
            return result  # type: ignore[no-any-return]  # an array of its library
    call = Call(kind, _KINDS[kind], *given[1:])
    if refusal.rule not in ("fallback", "gradient", "out_overlaps_input", "out_type"):
        arguments.raise_error(call, refusal)
    return run(call)


def run(call: Call) -> Array:
    """Run a call with arguments of any type."""
    call = beside_data(arguments.check_storage_options(call))
    adapter = exchange.adapter(call.data, call.indices, call.updates, call.out)
    if adapter is not None:
        return adapter.run(call)  # type: ignore[no-any-return]  # an array of its library
    plain = plain_scatter(call) if call.scatters else _plain_gather(call)
    dtype, by_rows = plain.data.dtype, False
    if isinstance(call.out, np.ndarray):
        plain = replace(plain, out=arguments.plain_array(call.caller, "out", call.out))
        if dtype.names and np.can_cast(plain.out.dtype, dtype, "equiv"):
            # The core would overwrite the bytes between the fields of `out`.
            by_rows = dtypes.has_gaps(dtype)
            plain = plain if by_rows or dtype.hasobject else _as_bytes(plain)
    given = plain
    if by_rows and not call.scatters:
        plain, by_rows = replace(plain, out=None), False
    if (
        by_rows
        or dtype.hasobject
        or dtype.itemsize == 0
        or (call.scatters and not _is_one_step(plain))
    ):
        result: Array = exchange.module_named(exchange.ROWS).run(plain)
    else:
        result = run_plain(plain)
    if plain.out is not given.out:
        deliver(given, result)
    return result if call.out is None else call.out


def beside_data(call: Call) -> Call:
    """Return the call with indices and updates that belong to the library of data or to NumPy.

    Indices and updates of another library are converted to NumPy arrays, which requires known
    values in CPU memory. An argument is left to the adapter of data if neither the argument nor
    data belongs to a framework.
    """
    if {*map(type, (call.indices, call.updates, call.out))} <= {type(call.data), NoneType}:
        return call
    others: dict[str, Any] = {}
    for field, name in (("indices", call.indices_name), ("updates", call.updates_name)):
        value = getattr(call, field)
        if exchange.is_of_another_library(value, call.data):
            convert = getattr(exchange.adapter(value), "to_numpy", None)
            others[field] = (
                arguments.plain_array(call.caller, name, value)
                if convert is None
                else convert(call, name, value)
            )
    if exchange.is_of_another_library(call.out, call.data):
        raise messages.out_of_another_library(call.caller, call.out, call.data)
    return replace(call, **others) if others else call


def run_plain(call: Call) -> Array:
    """Run a call whose arguments the core accepts."""
    result = windows.gather_windows(call) if call.kind.windows else call.run()
    if isinstance(result, _core.Refusal):
        if result.rule != "out_overlaps_input":
            arguments.raise_error(call, result)
        overlapping = {
            name: value.copy()
            for name in ("indices", "updates")
            if (value := getattr(call, name)) is not None and np.may_share_memory(value, call.out)
        }
        if call.scatters and overlapping:  # if only data overlaps, use a new array
            return run_plain(replace(call, **overlapping))
        result = run_plain(replace(call, out=None))
    return deliver(call, result)


def deliver(call: Call, result: Array) -> Array:
    """Return the result, or `out` after copying the result to it."""
    if call.out is None or result is call.out:
        return result
    arguments.check_plain_out(call, result.shape)
    np.copyto(call.out, result)
    return call.out  # type: ignore[no-any-return]  # an array, as the core has checked


def _as_bytes(call: Call) -> Call:
    """Convert a call on records without gaps to a call on raw bytes."""
    names = ("data", "updates", "out", "fill_value")
    arrays: dict[str, Any] = {
        name: with_padding(value)
        for name in names
        if isinstance(value := getattr(call, name), np.ndarray)
    }
    return replace(call, **arrays)


def _is_one_step(call: Call) -> bool:
    """Return whether the core can run a scatter of NumPy arrays in a single step."""
    one = reductions.in_one_step(call.reduction, call.use_init_val)
    return one and (call.reduction == "none" or bool(call.data.dtype.isnative))


def scatter_in_steps(call: Call) -> Array:
    """Convert data to native byte order, and run a scatter on this copy in several steps."""
    dtype = call.data.dtype
    native = dtype.newbyteorder("=")
    data: Array = call.data.astype(native, order="C")
    updates: Array = call.updates.astype(native, copy=False)

    def apply(data: Array, updates: Array, reduction: str) -> None:
        changes = {"out": data, "use_init_val": True, "reduction": reduction}
        arithmetic = core_arithmetic(data.dtype, reduction)
        step = replace(call, data=data, updates=updates, arithmetic=arithmetic, **changes)
        if isinstance(result := step.run(), _core.Refusal):
            arguments.raise_error(step, result)

    library = reductions.InPlace(apply)
    steps = library, data, updates, call.reduction, call.use_init_val
    _core.in_default_environment(reductions.in_steps, *steps)
    return data.astype(dtype, copy=False)


def result_shape(call: Call) -> tuple[int, ...]:
    """Return the shape of the slices or windows that a call selects, without reading indices."""
    if call.kind.windows:
        windows.check_shapes(call)
        return windows.result_shape(call)
    return arguments.slices_shape(call)


def _plain_gather(call: Call) -> Call:
    data = arguments.plain_array(call.caller, "data", call.data)
    indices = arguments.native_indices(call)
    return arguments.checked(replace(call, data=data, indices=indices), data.dtype)


def plain_scatter(call: Call) -> Call:
    """Return a scatter with NumPy arrays and validated options. See `arguments.checked`."""
    data = arguments.plain_array(call.caller, "data", call.data)
    indices = arguments.native_indices(call)
    updates = arguments.plain_updates(call, data.dtype)
    call = replace(call, data=data, indices=indices, updates=updates)
    call = arguments.checked(call, data.dtype, any_start=True)
    arithmetic = core_arithmetic(data.dtype, call.reduction)
    return call if arithmetic is None else replace(call, arithmetic=arithmetic)


@lru_cache(maxsize=64)
def core_arithmetic(dtype: np.dtype[Any], reduction: str) -> Array | str | None:
    """Return the argument `arithmetic` of the core: "bfloat16", a table of results, or None."""
    if dtype.name == dtypes.BFLOAT16:
        return dtypes.BFLOAT16
    if dtype.isbuiltin == dtypes.REGISTERED and reduction not in ("none", "mean"):
        elements = dtypes.every_element(dtype)
        return _core.in_default_environment(
            reductions.byte_results, reduction, elements, lambda each: each.view(np.uint8)
        )
    return None
