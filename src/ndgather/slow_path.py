"""Calls that the core does not take: they are converted and made again, or an error is raised.

The core takes NumPy arrays in native byte order. Adapters take the arrays of other libraries;
lists, subclasses and other byte orders are converted here. NumPy moves elements that are
references, and some reductions are several scatters.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import array_call, dispatch, messages, reductions
from ndgather.array_call import Call, _core
from ndgather.errors import AttributeValueError, DTypeError, NdgatherError, ShapeError
from ndgather.messages import shown, shown_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]
    Starts = NDArray[np.int64]
    Shape = Sequence[Any]  # sizes may be unknown, or symbols of a library

MODES = ("raise", "clip", "fill")  # of windows

# Methods of arrays whose conversion is costly, and what these arrays are.
_COSTLY = {"todense": "sparse", "toarray": "sparse", "to_dense": "sparse", "compute": "lazy"}
_ON_HOST = (1, 3, 11)  # devices of DLPack: the CPU, and its memory pinned for CUDA or ROCm

# What an error text calls a dtype of indices, by its kind.
_KINDS = {
    "b": "boolean",
    "f": "floating",
    "c": "complex",
    "O": "made of objects",
    "S": "made of bytes strings",
    "U": "made of strings",
    "T": "made of strings",
    "M": "a date",
    "m": "a time span",
}


def handle_refusal(kind: str, refusal: _core.Refusal, *arguments: Any) -> Array:
    """Return the result of a call that the core refused, or raise the error that says why."""
    short_cut = dispatch.SHORT_CUTS.get(type(arguments[0]))
    if short_cut is not None and refusal.rule != "out_of_bounds":
        result = short_cut(kind, *arguments)
        if result is not NotImplemented:
            return result  # type: ignore[no-any-return]  # an array of its library
    call = Call(kind, kind, *arguments)
    if refusal.rule in ("fallback", "out_overlaps_input", "out_type"):
        return run(call)
    raise explain(call, refusal)


def run(call: Call) -> Array:
    """Carry out a call with arguments of any type."""
    call = array_call.checked(call)
    adapter = dispatch.adapter(call)
    if adapter is not None:
        return adapter.run(call)  # type: ignore[no-any-return]  # an array of its library
    plain = plain_scatter(call) if call.scatters else _plain_gather(call)
    if isinstance(call.out, np.ndarray):
        plain = replace(plain, out=plain_array(call.caller, "out", call.out))
    if plain.data.dtype.hasobject or plain.data.itemsize == 0:
        move = _scatter_references if call.scatters else _gather_references
        result = _deliver(plain, move(plain))
    elif call.scatters and not _is_one_step(plain):
        result = _deliver(plain, _scatter_in_steps(plain))
    else:
        result = _run_plain(plain)
    return result if call.out is None else call.out


def _run_plain(call: Call) -> Array:
    result = _run_windows(call) if call.kind == "gather_windows" else call.run()
    if not isinstance(result, _core.Refusal):
        return result
    if result.rule == "out_overlaps_input":
        np.copyto(call.out, _run_plain(replace(call, out=None)))
        return call.out  # type: ignore[no-any-return]  # an array, as the core has checked
    raise explain(call, result)


def _deliver(call: Call, result: Array) -> Array:
    """Return a result, copied to `out` if there is one."""
    if call.out is None:
        return result
    refusal = _core.check_out(call.out, result)
    if refusal.rule != "none":
        raise explain(call, refusal)
    np.copyto(call.out, result)
    return call.out  # type: ignore[no-any-return]  # an array, as the core has checked


def _gather_references(call: Call) -> Array:
    """Gather elements that are references or have no bytes: NumPy copies what the core locates."""
    data = call.data
    positions = np.arange(data.size).reshape(data.shape)
    fills = call.mode == "fill"
    fill = np.array(-1, positions.dtype) if fills else None
    where = _run_plain(replace(call, data=positions, fill_value=fill, out=None))
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
    last = _run_plain(replace(call, data=np.full(data.shape, -1), updates=numbers, out=None))
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
        _run_plain(replace(step, arithmetic=arithmetic, use_init_val=True))

    library = reductions.InPlace(apply)
    reductions.in_steps(library, data, updates, call.reduction, call.use_init_val)
    return data.astype(dtype, copy=False)


def _run_windows(call: Call) -> Array | _core.Refusal:
    """Gather windows; in mode fill, parts of windows that the core has filled are copied here."""
    if call.mode != "fill":
        return call.run()
    check_shapes(call)
    if isinstance(call.out, np.ndarray) and np.may_share_memory(call.out, call.data):
        return array_call.refusal("out_overlaps_input")
    if call.indices.dtype.kind in "iu":
        call = replace(call, indices=signed(call.indices))
    result = call.run()
    if not isinstance(result, _core.Refusal):
        _copy_parts(call, result)
    return result


def _copy_parts(call: Call, out: Array) -> None:
    """Copy the parts in data of windows that stick out, in one call per box of a window."""
    data, starts, window = call.data, call.indices, call.window_shape
    first, last = shared_parts(starts, data.shape[: len(window)], window)
    partly = ((first > 0) | (last < window)).any(axis=-1) & (first < last).all(axis=-1)
    if not partly.any():
        return
    positions, starts = np.argwhere(partly), starts[partly]
    both = np.concatenate([first[partly], last[partly]], axis=1)
    parts, part_of = np.unique(both, axis=0, return_inverse=True)
    part_of = part_of.ravel()  # NumPy 2.0 returns another shape
    order = np.argsort(part_of, kind="stable")
    borders = np.searchsorted(part_of[order], np.arange(1, len(parts)))
    elements = np.dtype(f"V{data.dtype.itemsize}")  # NumPy copies their bytes
    for (*part,), members in zip(parts.tolist(), np.split(order, borders), strict=True):
        low, high = part[: len(window)], part[len(window) :]
        shape = tuple(end - begin for begin, end in zip(low, high, strict=True))
        inside = replace(call, indices=starts[members] + low, window_shape=shape, fill_value=None)
        copied: Any = replace(inside, mode="raise", out=None).run()
        within = (*positions[members].T, *map(slice, low, high))
        out.view(elements)[within] = copied.view(elements)


def signed(starts: Array) -> Starts:
    """Return a copy of integers as int64, where larger ones become the largest."""
    if starts.dtype == np.uint64:
        starts = np.minimum(starts, np.uint64(np.iinfo(np.int64).max))
    return starts.astype(np.int64)


def shared_parts(
    starts: Starts, sizes: tuple[int, ...], window: tuple[int, ...]
) -> tuple[Starts, Starts]:
    """Return where the part in data of each window begins and ends in the window, on each axis."""
    wide, most = np.array(window, np.int64), np.array(sizes, np.int64)
    starts = np.clip(starts, -wide, most)
    return np.maximum(-starts, 0), np.minimum(most - starts, wide)


def view(data: Array, window: tuple[int, ...]) -> Array:
    """Return a view of all windows: its first axes are their starts, the others their elements."""
    depth = len(window)
    if data.dtype.kind == "T":
        data = data.astype(object)  # NumPy makes no such view of its strings
    starts = (max(size - wide + 1, 0) for size, wide in zip(data.shape, window, strict=False))
    shape = (*starts, *window, *data.shape[depth:])
    strides = (*data.strides[:depth], *data.strides)
    return np.lib.stride_tricks.as_strided(data, shape, strides, writeable=False)


def check(call: Call) -> None:
    """Raise the error of the shapes and starts of a gather of windows, and copy nothing."""
    check_shapes(call)
    empty = np.empty((*call.data.shape[: len(call.window_shape)], 0))
    refusal = replace(call, data=empty, fill_value=None, out=None).run()
    if isinstance(refusal, _core.Refusal):
        raise explain(call, refusal)


def check_shapes(call: Call) -> None:
    """Raise the error of the shapes of a gather of windows; sizes may be symbols."""
    caller, window = call.caller, call.window_shape
    data, starts = call.data.shape, call.indices.shape
    if not starts:
        raise messages.rank_too_low(caller, call.indices_name, starts, 1)
    if starts[-1] != len(window) or len(window) > len(data):
        raise _windows_do_not_fit(caller, data, starts, window)
    for axis, size in enumerate(window):
        if size > data[axis] and call.mode != "fill":
            raise _window_too_large(caller, axis, data, window)


def _windows_do_not_fit(caller: str, data: Shape, starts: Shape, window: Shape) -> ShapeError:
    allowed = (
        f"0..{len(data)}" if len(window) > len(data) else f"{len(window)}, as window_shape has"
    )
    hint = "; one start for each window is starts[:, None]" if len(starts) == 1 else ""
    return ShapeError(
        f"{caller}: starts.shape[-1] = {starts[-1]} does not fit window_shape = {shown(window)} "
        f"and data {shown(data)}; starts.shape = {shown(starts)} (allowed: {allowed}){hint}"
    )


def _window_too_large(caller: str, axis: int, data: Shape, window: Shape) -> ShapeError:
    return ShapeError(
        f"{caller}: window_shape[{axis}] = {window[axis]} is more than data.shape[{axis}] = "
        f"{data[axis]}: every window sticks out (allowed: 0..{data[axis]}, or mode='fill')"
    )


def result_shape(call: Call) -> tuple[int, ...]:
    """Return the shape of the slices or windows that `call` names; only shapes are used."""
    if call.kind == "gather_windows":
        check_shapes(call)
        window = call.window_shape
        return (*call.indices.shape[:-1], *window, *call.data.shape[len(window) :])
    axis, batch_dims = (integer(call, option) for option in ("axis", "batch_dims"))
    refusal = _core.slices_shape(call.kind, call.data.shape, call.indices.shape, axis, batch_dims)
    if refusal.rule != "none":
        raise explain(call, refusal)
    return refusal.slices


def _plain_gather(call: Call) -> Call:
    data = plain_array(call.caller, "data", call.data)
    indices = native_indices(call.caller, call.indices, call.indices_name)
    return checked(replace(call, data=data, indices=indices), data.dtype)


def plain_scatter(call: Call) -> Call:
    """Return a scatter with NumPy arrays, and with its options checked."""
    data = plain_array(call.caller, "data", call.data)
    indices = native_indices(call.caller, call.indices)
    updates = plain_updates(call.caller, call.updates, data.dtype, call.updates_name)
    call = checked(replace(call, data=data, indices=indices, updates=updates), data.dtype)
    return replace(call, arithmetic=reductions.for_core(data.dtype, call.reduction))


def checked(
    call: Call, dtype: np.dtype[Any] | None, meaningful: tuple[str, ...] | None = None
) -> Call:
    """Return `call` with its mode, fill value, reduction and `use_init_val` checked.

    Parameters
    ----------
    call : Call
        Its arrays may be of any library; only the dtype of data is used, in error texts.
    dtype : numpy.dtype or None
        The dtype of data as NumPy's. A fill value becomes an array of rank 0 of that dtype; with
        None it stays as it is.
    meaningful : tuple of str, optional
        The reductions that data can have; by default those of `dtype`, or all.
    """
    caller = call.caller
    mode = choice(caller, "mode", call.mode, modes_of(call))
    if call.scatters:
        reduction = choice(caller, "reduction", call.reduction, reductions.NAMES)
        if meaningful is None:
            meaningful = reductions.NAMES if dtype is None else reductions.meaningful(dtype)
        if reduction not in meaningful:
            name = dtype_name(call.data.dtype)
            raise messages.reduction_type(caller, reduction, name, meaningful)
        use_init_val = reduction == "none" or truth(caller, "use_init_val", call.use_init_val)
        return replace(call, mode=mode, reduction=reduction, use_init_val=use_init_val)
    fill_value = call.fill_value
    if fill_value is not None:
        if mode != "fill":
            raise messages.fill_value_unused(caller, mode)
        if dtype is not None:
            fill_value = fill_element(caller, fill_value, dtype)
    unchanged = mode is call.mode and fill_value is call.fill_value
    return call if unchanged else replace(call, mode=mode, fill_value=fill_value)


def modes_of(call: Call) -> tuple[str, ...]:
    """Return the modes that a call can have."""
    if call.kind == "gather_windows":
        return MODES
    return _core.SCATTER_MODES if call.scatters else _core.GATHER_MODES


def choice(caller: str, option: str, value: object, choices: tuple[str, ...]) -> str:
    """Return a string that is one of `choices`, without the methods of a subclass."""
    word = str.__str__(value) if isinstance(value, str) else ""
    if word not in choices:
        raise messages.unknown_choice(caller, option, value, choices)
    return word


def truth(caller: str, option: str, value: object) -> bool:
    """Return an option that is true or false."""
    try:
        return bool(value)
    except MemoryError:
        raise
    except Exception as error:
        raise DTypeError(
            f"{caller}: {option} = {shown_value(value)} is neither true nor false "
            f"(allowed: True, False)"
        ) from error


def integer(call: Call, option: str) -> int:
    """Return an option that is an integer, within 64 bits."""
    value = getattr(call, option)
    try:
        return min(max(operator.index(value), -(2**63)), 2**63 - 1)
    except TypeError:
        raise messages.option_not_integer(call.caller, option, value) from None


def sizes(caller: str, argument: str, value: object) -> tuple[int, ...]:
    """Return a shape that is given as a sequence of sizes."""
    cause = None
    try:
        shape = tuple(map(operator.index, value))  # type: ignore[call-overload]  # or it raises
        if min(shape, default=0) >= 0:
            return shape
    except MemoryError:
        raise
    except Exception as error:
        cause = error
    raise ShapeError(
        f"{caller}: {argument} = {shown_value(value)} is not a shape (allowed: integers from 0 on)"
    ) from cause


def check_updates(call: Call, updates: Shape, slices: Shape) -> None:
    """Raise ShapeError if updates do not have the shape of the slices that the indices name."""
    if tuple(updates) != tuple(slices):
        raise _updates_do_not_fit(call, call.data.shape, call.indices.shape, slices, updates)


def _updates_do_not_fit(
    call: Call, data: Shape, indices: Shape, slices: Shape, updates: Shape
) -> ShapeError:
    """Return the error, which says what to write if updates fit other indices or a broadcast."""
    hint = ""
    if len(indices) == 1 and tuple(updates) == (*indices, *data[1:]):
        hint = "one index for each update is indices[:, None]"
    elif len(updates) == 0:
        hint = f"one value for all is np.broadcast_to(updates, {shown(slices)})"
    return messages.updates_do_not_fit(call.caller, updates, slices, call.updates_name, hint)


def check_out(call: Call, result: Shape, out: Shape) -> None:
    """Raise an error if `out` does not have the dtype of data and the shape of the result."""
    if call.out.dtype != call.data.dtype:
        dtypes = dtype_name(call.out.dtype), dtype_name(call.data.dtype)
        raise messages.out_dtype(call.caller, *dtypes)
    if tuple(out) != tuple(result):
        raise messages.out_shape(call.caller, out, result)


def dtype_name(dtype: object) -> str:
    """Return the name of a dtype of any library, for error texts."""
    return str(dtype if isinstance(dtype, np.dtype) else getattr(dtype, "name", dtype))


def plain_array(caller: str, argument: str, value: object) -> Array:
    """Return `value` as an exact NumPy array, without a copy if it has such memory."""
    # The import of masked arrays is delayed to their first use.
    if type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray):
        raise messages.masked_array(caller, argument)
    if isinstance(value, np.ndarray):
        return np.ndarray.view(value, np.ndarray)
    array = _as_array(caller, argument, value)
    if array.dtype == object and array.ndim == 0:
        raise messages.not_an_array(caller, argument, value, "is not an array")
    return array


def _as_array(
    caller: str, argument: str, value: object, dtype: np.dtype[Any] | None = None
) -> Array:
    """Return ``np.asarray(value, dtype)``; containers of other libraries may raise anything."""
    costly = _costly_conversion(value)
    if costly is not None:
        raise messages.costly_conversion(caller, argument, value, *costly)
    try:
        return np.ndarray.view(np.asarray(value, dtype), np.ndarray)
    except MemoryError:
        raise
    except Exception as error:
        why = f"is not an array: {shown_value(error, str)}"
        raise messages.not_an_array(caller, argument, value, why) from error


def _costly_conversion(value: object) -> tuple[str, str] | None:
    """Return what `value` is, and how to convert it, if that is more than a view of its memory."""
    for method, what in _COSTLY.items():
        # Every tensor of torch has to_dense.
        if hasattr(type(value), method) and getattr(value, "is_sparse", True):
            return what, f"{method}()"
    if not hasattr(type(value), "__dlpack_device__"):
        return None
    try:
        device = value.__dlpack_device__()[0]  # type: ignore[attr-defined]  # it has it
    except MemoryError:
        raise
    except Exception:
        return None  # np.asarray raises a better error
    return None if device in _ON_HOST else ("on another device", "copy to the CPU")


def native_indices(caller: str, value: object, name: str = "indices") -> Array:
    """Return indices in native byte order; the core checks their dtype.

    An empty array of floats counts as empty indices: ``np.empty((0, 2))`` is often written for no
    index tuples.
    """
    indices = plain_indices(caller, value, name)
    return indices.astype(np.int64) if indices.size == 0 and indices.dtype.kind == "f" else indices


def plain_indices(caller: str, value: object, name: str = "indices") -> Array:
    """Return indices in native byte order; an empty list has no dtype of its own."""
    indices = plain_array(caller, name, value)
    if indices.size == 0 and not isinstance(value, np.ndarray):
        return indices.astype(np.int64)
    if indices.dtype.kind in "iu" and not indices.dtype.isnative:
        return indices.astype(indices.dtype.newbyteorder("="))
    return indices


def fill_element(caller: str, value: object, dtype: np.dtype[Any]) -> Array:
    """Return `value` as one element of `dtype`, rounded at most."""
    element = np.zeros((), dtype)
    try:
        with np.errstate(over="raise", invalid="raise"):
            # A 0-d array is one element; anything else is assigned as it is, lists to objects too,
            # and subclasses by their own rules for units and masks.
            element[... if type(value) is np.ndarray and value.ndim == 0 else ()] = value
        kept = _holds(element, value)
    except MemoryError:
        raise
    except Exception:  # of the methods of `value`
        kept = False
    if not kept:
        raise messages.fill_value_lost(caller, value, dtype)
    return element


def _holds(element: Array, value: Any) -> bool:
    """Whether an element that `value` was assigned to holds it, rounded at most."""
    dtype = element.dtype
    kind = reductions.number_kind(dtype)
    if kind in ("b", "i") or dtype.kind in "SUmM":
        unlike = value != value  # noqa: PLR0124 - NaT differs from itself
        return bool(element[()] == value) or bool(unlike)
    if kind == "f" and dtype.isbuiltin == 2:  # the casts of other packages overflow silently
        with np.errstate(all="ignore"):
            return _converted(np.asarray(value, np.float64), dtype) is not None
    return not isinstance(value, bytes) or dtype.kind != "V" or len(value) <= dtype.itemsize


def plain_updates(caller: str, value: object, dtype: np.dtype[Any], name: str) -> Array:
    """Return updates of `dtype`.

    Arrays must have that dtype, in any byte order. Numbers and lists are converted if it holds
    their values; floats may be rounded.
    """
    if isinstance(value, np.ndarray):
        updates = plain_array(caller, name, value)
        if not np.can_cast(updates.dtype, dtype, "equiv"):
            raise messages.updates_dtype(caller, updates.dtype, dtype, name)
        return updates.astype(dtype, copy=False)
    if dtype.kind in "OT":
        return _as_array(caller, name, value, dtype)
    updates = plain_array(caller, name, value)
    if updates.size == 0:
        return updates.astype(dtype)  # an empty list has no dtype of its own
    try:
        with np.errstate(all="ignore"):
            converted = _converted(updates, dtype)
    except (TypeError, ValueError, OverflowError):
        converted = None
    if converted is None:
        raise messages.updates_lost(caller, value, dtype, name)
    return converted


def _converted(values: Array, dtype: np.dtype[Any]) -> Array | None:
    """Return values in `dtype`, rounded at most, or None if one would be lost."""
    source, target = reductions.number_kind(values.dtype), reductions.number_kind(dtype)
    if source == "" or target == "" or "b" in (source, target):
        if values.dtype.kind != dtype.kind:
            return None
        converted = values.astype(dtype)
        kept = (values == converted) | (values != values)  # noqa: PLR0124 - NaT differs from itself
    elif "ifc".index(source) > "ifc".index(target):
        return None
    else:
        converted = values.astype(dtype)
        if target == "i":
            kept = values == (converted if dtype.kind in "iu" else converted.astype(np.int64))
        elif target == "c":
            kept = np.isfinite(values) == np.isfinite(converted)
        else:
            wide = converted.astype(np.result_type(values.dtype, np.float64))
            kept = (np.isnan(values) == np.isnan(wide)) & (np.isinf(values) == np.isinf(wide))
            if dtype.itemsize == 1:  # some of these dtypes round what is beyond to their largest
                lowest, highest = reductions.extremes(dtype).astype(np.float64)
                kept &= ~((values < lowest) | (values > highest))
    return converted if kept.all() else None


def explain(call: Call, refusal: _core.Refusal) -> Exception:
    """Return the error for a refusal of the core, with the shapes that the core has read."""
    rule, facts, data, indices, slices, updates = refusal
    caller, first = call.caller, facts[0]
    match rule:
        case "out_of_bounds" if call.kind == "gather_windows":
            position, value, axis, size, *others = facts
            window = call.window_shape
            facts = (position, value, axis, size - window[axis] + 1, *others)
            return messages.index_out_of_bounds(caller, *facts, window=window)
        case "out_of_bounds":
            return messages.index_out_of_bounds(caller, *facts)
        case "indices_changed":
            return NdgatherError(
                f"{caller}: indices changed while they were read (another thread wrote an entry "
                f"that is out of bounds, and replaced it)"
            )
        case "index_dtype":
            dtype = call.indices.dtype  # of another library, it may have no kind
            kind = _KINDS.get(getattr(dtype, "kind", ""), "not an integer type")
            return messages.index_dtype(caller, dtype, kind, call.indices_name)
        case "data_rank":
            return messages.rank_too_low(caller, "data", data, first)
        case "index_rank":
            return messages.rank_too_low(caller, call.indices_name, indices, first)
        case "ranks_differ":
            return messages.ranks_differ(caller, data, indices)
        case "axis" | "batch_dims":
            why = f"data of shape {shown(data)}"
            if rule == "batch_dims":
                why += f" and indices of shape {shown(indices)}"
            value = getattr(call, rule)
            return messages.option_out_of_range(caller, rule, value, first, facts[1], why)
        case "option_type":
            name = _core.ARGUMENTS[first]
            return messages.option_not_integer(caller, name, getattr(call, name))
        case "mode":
            return messages.unknown_choice(caller, "mode", call.mode, modes_of(call))
        case "window_rank":
            return _windows_do_not_fit(caller, data, indices, call.window_shape)
        case "window_size":
            return _window_too_large(caller, first, data, call.window_shape)
        case "result_rank" | "result_size" if call.kind == "gather_windows":
            return ShapeError(
                f"{caller}: window_shape = {shown(call.window_shape)} makes more windows of data "
                f"{shown(data)} than can be counted (allowed: less than 2**63 bytes and at most 64 "
                f"axes in all)"
            )
        case "batch_size":
            return messages.batch_sizes_differ(caller, first, data, indices)
        case "depth":
            return messages.index_too_deep(caller, data, indices, int(call.batch_dims))
        case "off_axis":
            return messages.longer_off_axis(caller, first, facts[1], data, indices)
        case "updates_shape":
            return _updates_do_not_fit(call, data, indices, slices, updates)
        case "result_rank":
            return ShapeError(
                f"{caller}: the result would have rank {first} (allowed: at most {facts[1]})"
            )
        case "result_size":
            return messages.result_too_large(caller, data if call.scatters else slices)
        case "out_type":
            return messages.out_not_an_array(caller, call.out)
        case "out_dtype":
            return messages.out_dtype(caller, call.out.dtype, call.data.dtype)
        case "out_shape":
            result = data if call.scatters else slices
            return messages.out_shape(caller, call.out.shape, result)
        case "out_read_only":
            return messages.out_read_only(caller)
        case "out_overlaps_itself":
            strides = getattr(call.out, "strides", None)  # other libraries have no such attribute
            what = f"out = {type(call.out).__name__} object lets"
            if strides is not None:
                what = f"out.strides = {shown(strides)} let"
            return AttributeValueError(
                f"{caller}: {what} elements of out share memory (allowed: strides that keep them "
                f"apart)"
            )
        case _:
            raise AssertionError(f"the core refused a call by an unknown rule: {refusal}")
