"""Calls that the core does not take: they are converted and made again, or an error is raised.

The core takes NumPy arrays in native byte order. Adapters take the arrays of other libraries;
lists, subclasses and other byte orders are converted here. Object arrays are copied
by NumPy at positions that the core computes; ``reduction="mean"`` and ``use_init_val=False`` take
several scatters.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import arguments, dispatch, reductions, refusals, windows
from ndgather.array_call import Call, _core

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def handle_refusal(kind: str, refusal: _core.Refusal, *values: Any) -> Array:
    """Return the result of a call that the core refused, or raise the error that says why."""
    fast_path = dispatch.FAST_PATHS.get(type(values[0]))
    if fast_path is not None and refusal.rule != "out_of_bounds":
        result = fast_path(kind, *values)
        if result is not NotImplemented:
            return result  # type: ignore[no-any-return]  # an array of its library
    call = Call(kind, kind, *values)
    if refusal.rule not in ("fallback", "out_overlaps_input", "out_type"):
        refusals.raise_error(call, refusal)
    return run(call)


def run(call: Call) -> Array:
    """Carry out a call with arguments of any type."""
    call = arguments.check_storage_options(call)
    adapter = dispatch.adapter(call.data, call.indices, call.updates, call.out)
    if adapter is not None:
        return adapter.run(call)  # type: ignore[no-any-return]  # an array of its library
    plain = plain_scatter(call) if call.scatters else _plain_gather(call)
    if isinstance(call.out, np.ndarray):
        plain = replace(plain, out=arguments.plain_array(call.caller, "out", call.out))
    if plain.data.dtype.hasobject or plain.data.itemsize == 0:
        move = _scatter_references if call.scatters else _gather_references
        result = _deliver(plain, move(plain))
    elif call.scatters and not _is_one_step(plain):
        result = _deliver(plain, _scatter_in_steps(plain))
    else:
        result = run_plain(plain)
    return result if call.out is None else call.out


def run_plain(call: Call) -> Array:
    """Make a call whose arguments the core takes."""
    result = windows.run(call) if call.kind == "gather_windows" else call.run()
    if isinstance(result, _core.Refusal):
        if result.rule != "out_overlaps_input":
            refusals.raise_error(call, result)
        result = run_plain(replace(call, out=None))
    return _deliver(call, result)


def _deliver(call: Call, result: Array) -> Array:
    """Return a result, in `out` if there is one."""
    if call.out is None or result is call.out:
        return result
    refusal = _core.check_out(call.out, result)
    if refusal.rule != "none":
        refusals.raise_error(call, refusal)
    np.copyto(call.out, result)
    return call.out  # type: ignore[no-any-return]  # an array, as the core has checked


def _gather_references(call: Call) -> Array:
    """Gather elements that are references or have no bytes: NumPy copies what the core locates."""
    data = call.data
    positions = np.arange(data.size).reshape(data.shape)
    fills = call.mode == "fill"
    fill = np.array(-1, positions.dtype) if fills else None
    where = run_plain(replace(call, data=positions, fill_value=fill, out=None))
    flat, flat_where = data.reshape(-1), where.reshape(-1)
    if not fills:
        return flat[flat_where].reshape(where.shape)  # type: ignore[no-any-return]  # an array
    result = np.empty(flat_where.shape, data.dtype)
    result[...] = np.zeros((), data.dtype) if call.fill_value is None else call.fill_value
    inside = flat_where >= 0
    result[inside] = flat[flat_where[inside]]
    return result.reshape(where.shape)


def _scatter_references(call: Call) -> Array:
    """Scatter elements that are references or have no bytes; of several updates the last counts."""
    data, updates = call.data, call.updates
    numbers = np.arange(updates.size).reshape(updates.shape)
    last = run_plain(replace(call, data=np.full(data.shape, -1), updates=numbers, out=None))
    result: Array = data.copy()
    written = last >= 0
    result[written] = updates.reshape(-1)[last[written]]
    return result


def _is_one_step(call: Call) -> bool:
    """Whether the core can carry out a scatter of NumPy arrays at once."""
    if call.reduction == "none":
        return True
    return bool(call.use_init_val and call.reduction != "mean" and call.data.dtype.isnative)


def _scatter_in_steps(call: Call) -> Array:
    """Reduce in a copy of data, in native byte order."""
    dtype = call.data.dtype
    native = dtype.newbyteorder("=")
    data: Array = call.data.astype(native, order="C")
    updates: Array = call.updates.astype(native, copy=False)

    def apply(data: Array, updates: Array, reduction: str) -> None:
        arithmetic = reductions.for_core(data.dtype, reduction)
        step = replace(call, data=data, updates=updates, out=data, reduction=reduction)
        run_plain(replace(step, arithmetic=arithmetic, use_init_val=True))

    library = reductions.InPlace(apply)
    reductions.in_steps(library, data, updates, call.reduction, call.use_init_val)
    return data.astype(dtype, copy=False)


def result_shape(call: Call) -> tuple[int, ...]:
    """Return the shape of the slices or windows that `call` names; only shapes are used."""
    if call.kind == "gather_windows":
        windows.check_shapes(call)
        window = call.window_shape
        return (*call.indices.shape[:-1], *window, *call.data.shape[len(window) :])
    axis, batch_dims = (arguments.integer(call, option) for option in ("axis", "batch_dims"))
    refusal = _core.slices_shape(call.kind, call.data.shape, call.indices.shape, axis, batch_dims)
    if refusal.rule != "none":
        refusals.raise_error(call, refusal)
    return refusal.slices


def _plain_gather(call: Call) -> Call:
    data = arguments.plain_array(call.caller, "data", call.data)
    indices = arguments.native_indices(call.caller, call.indices, call.indices_name)
    return arguments.checked(replace(call, data=data, indices=indices), data.dtype)


def plain_scatter(call: Call) -> Call:
    """Return a scatter with NumPy arrays, and with its options checked."""
    data = arguments.plain_array(call.caller, "data", call.data)
    indices = arguments.native_indices(call.caller, call.indices)
    updates = arguments.plain_updates(call.caller, call.updates, data.dtype, call.updates_name)
    call = arguments.checked(replace(call, data=data, indices=indices, updates=updates), data.dtype)
    return replace(call, arithmetic=reductions.for_core(data.dtype, call.reduction))
