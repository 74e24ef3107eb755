"""What happens to a call that the core does not take: convert it and call again, or say why not.

The core takes plain NumPy arrays in native byte order. Lists, subclasses, other containers and
other byte orders are converted here once, and then the core is called. Elements that are
references, and reductions that the core does not know, take a few steps more.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import array_call, dispatch, reductions
from ndgather.array_call import Call, Refusal, _core
from ndgather.errors import (
    argument_errors,
    index_errors,
    option_errors,
    shape_errors,
)
from ndgather.errors.shape_errors import shown
from ndgather.errors.shown_values import shown_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]
    Starts = NDArray[np.int64]
    Shape = Sequence[Any]  # sizes may be unknown, or symbols of a library


def plain_array(caller: str, argument: str, value: object) -> Array:
    """Return `value` as an exact NumPy array, without a copy where it is one in disguise."""
    # NumPy imports its masked arrays once they are asked for.
    if type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray):
        raise argument_errors.masked_array(caller, argument)
    if isinstance(value, np.ndarray):
        return np.ndarray.view(value, np.ndarray)
    array = _as_array(caller, argument, value)
    if array.dtype == object and array.ndim == 0:
        raise argument_errors.not_an_array(caller, argument, value, "is not an array")
    return array


def _as_array(
    caller: str, argument: str, value: object, dtype: np.dtype[Any] | None = None
) -> Array:
    """Return ``np.asarray(value, dtype)``; containers of other libraries may raise anything."""
    costly = _costly_conversion(value)
    if costly is not None:
        raise argument_errors.costly_conversion(caller, argument, value, *costly)
    try:
        return np.ndarray.view(np.asarray(value, dtype), np.ndarray)
    except MemoryError:
        raise
    except Exception as error:
        why = f"is not an array: {shown_value(error, str)}"
        raise argument_errors.not_an_array(caller, argument, value, why) from error


# Methods of arrays that are something else than elements in memory, and what they are.
_COSTLY = {
    "todense": "sparse",
    "toarray": "sparse",
    "to_dense": "sparse",
    "compute": "lazy",
}
_ON_HOST = (1, 3, 11)  # of DLPack: the memory of the CPU, pinned for CUDA, pinned for ROCm


def _costly_conversion(value: object) -> tuple[str, str] | None:
    """Say what `value` is and how to convert it, if that costs more than a look at its memory."""
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
        return None  # whatever it raises; np.asarray finds words
    return None if device in _ON_HOST else ("on another device", "copy to the CPU")


def plain_indices(caller: str, value: object, name: str = "indices") -> Array:
    """Return `value` as indices in native byte order; their type is for the core to check."""
    indices = plain_array(caller, name, value)
    if indices.size == 0 and not isinstance(value, np.ndarray):
        return indices.astype(np.int64)  # an empty list has no type of its own
    if indices.dtype.kind in "iu" and not indices.dtype.isnative:
        return indices.astype(indices.dtype.newbyteorder("="))
    return indices


def native_indices(caller: str, value: object, name: str = "indices") -> Array:
    """Return `plain_indices`, where an empty array of floats counts as empty.

    ``np.empty((0, 2))`` is how an empty list of index tuples is often written.
    """
    indices = plain_indices(caller, value, name)
    return indices.astype(np.int64) if indices.size == 0 and indices.dtype.kind == "f" else indices


def sizes(caller: str, argument: str, value: object) -> tuple[int, ...]:
    """Return a shape that a caller gives as a sequence of sizes."""
    try:
        shape = tuple(map(operator.index, value))  # type: ignore[call-overload]  # or it raises
    except MemoryError:
        raise
    except Exception as error:
        raise shape_errors.not_sizes(caller, argument, value) from error
    if min(shape, default=0) < 0:
        raise shape_errors.not_sizes(caller, argument, value)
    return shape


def fill_element(caller: str, value: object, dtype: np.dtype[Any]) -> Array:
    """Return `value` as one element of `dtype`; rounding is allowed, losing it is not."""
    element = np.zeros((), dtype)
    try:
        with np.errstate(over="raise", invalid="raise"):
            # A 0-d array gives its element; anything else is one, a list among objects too. Of a
            # subclass the element is what it says, if its unit or mask lets it say one.
            element[... if type(value) is np.ndarray and value.ndim == 0 else ()] = value
        kept = _holds(element, value)
    except MemoryError:
        raise
    except Exception:  # whatever the methods of `value` raise
        kept = False
    if not kept:
        raise argument_errors.fill_value_lost(caller, value, dtype)
    return element


def _holds(element: Array, value: Any) -> bool:
    """Whether an element that `value` was assigned to holds it, rounded at most."""
    dtype = element.dtype
    kind = reductions.number_kind(dtype)
    if kind in ("b", "i") or dtype.kind in "SUmM":
        unlike = value != value  # noqa: PLR0124 - NaT is unlike itself
        return bool(element[()] == value) or bool(unlike)
    if kind == "f" and dtype.isbuiltin == 2:  # the casts of other packages overflow silently
        with np.errstate(all="ignore"):
            return _converted(np.asarray(value, np.float64), dtype) is not None
    return not isinstance(value, bytes) or dtype.kind != "V" or len(value) <= dtype.itemsize


def plain_updates(caller: str, value: object, dtype: np.dtype[Any], name: str) -> Array:
    """Return `value` as updates of `dtype`.

    Arrays have that type already, in any byte order. Numbers and lists are converted where the
    type holds every value of them; floating values may be rounded.
    """
    if isinstance(value, np.ndarray):
        updates = plain_array(caller, name, value)
        if not np.can_cast(updates.dtype, dtype, "equiv"):
            raise argument_errors.updates_dtype(caller, updates.dtype, dtype, name)
        return updates.astype(dtype, copy=False)
    if dtype.kind in "OT":
        return _as_array(caller, name, value, dtype)
    updates = plain_array(caller, name, value)
    if updates.size == 0:
        return updates.astype(dtype)  # an empty list has no type of its own
    try:
        with np.errstate(all="ignore"):
            converted = _converted(updates, dtype)
    except (TypeError, ValueError, OverflowError):
        converted = None
    if converted is None:
        raise argument_errors.updates_lost(caller, value, dtype, name)
    return converted


def _converted(given: Array, dtype: np.dtype[Any]) -> Array | None:
    """Return the values of `given` in `dtype`, rounded at most; None where one would be lost."""
    source, target = reductions.number_kind(given.dtype), reductions.number_kind(dtype)
    if source == "" or target == "" or "b" in (source, target):
        if given.dtype.kind != dtype.kind:
            return None
        converted = given.astype(dtype)
        kept = (given == converted) | (given != given)  # noqa: PLR0124 - NaT is unlike itself
    elif "ifc".index(source) > "ifc".index(target):
        return None
    else:
        converted = given.astype(dtype)
        if target == "i":
            kept = given == (converted if dtype.kind in "iu" else converted.astype(np.int64))
        elif target == "c":
            kept = np.isfinite(given) == np.isfinite(converted)
        else:
            wide = converted.astype(np.result_type(given.dtype, np.float64))
            kept = (np.isnan(given) == np.isnan(wide)) & (np.isinf(given) == np.isinf(wide))
            if dtype.itemsize == 1:  # some of these types hold their largest for all beyond it
                lowest, highest = reductions.extremes(dtype).astype(np.float64)
                kept &= ~((given < lowest) | (given > highest))
    return converted if kept.all() else None


# What a refusal of an index type calls it, by the kind of its dtype.
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


def explain(call: Call, refusal: Refusal) -> Exception:
    """Return the exception for a refusal of a call; shapes are those that the core has seen."""
    rule, facts, data, indices, slices, updates = refusal
    caller, first = call.caller, facts[0]
    match rule:
        case "out_of_bounds" if call.kind == "gather_windows":
            position, value, axis, size, *others = facts
            begins = size - call.window_shape[position[-1]] + 1
            facts = (position, value, axis, begins, *others)
            return index_errors.window_outside(caller, call.window_shape, *facts)
        case "out_of_bounds":
            return index_errors.index_out_of_bounds(caller, *facts)
        case "indices_changed":
            return index_errors.indices_changed(caller)
        case "index_dtype":
            dtype = call.indices.dtype  # of another library, it may have no kind
            kind = _KINDS.get(getattr(dtype, "kind", ""), "not an integer type")
            return index_errors.index_dtype(caller, dtype, kind, call.indices_name)
        case "data_rank":
            return shape_errors.rank_too_low(caller, "data", data, first)
        case "index_rank":
            return shape_errors.rank_too_low(caller, call.indices_name, indices, first)
        case "ranks_differ":
            return shape_errors.ranks_differ(caller, data, indices)
        case "axis":
            why = f"data of shape {shown(data)}"
            return option_errors.option_out_of_range(
                caller, "axis", call.axis, first, facts[1], why
            )
        case "batch_dims":
            why = f"data of shape {shown(data)} and indices of shape {shown(indices)}"
            return option_errors.option_out_of_range(
                caller, "batch_dims", call.batch_dims, first, facts[1], why
            )
        case "option_type":
            name = _core.ARGUMENTS[first]
            return option_errors.option_not_integer(caller, name, getattr(call, name))
        case "mode":
            modes = _core.SCATTER_MODES if call.scatters else _core.GATHER_MODES
            modes = MODES if call.kind == "gather_windows" else modes
            return option_errors.unknown_choice(caller, "mode", call.mode, modes)
        case "window_rank":
            return shape_errors.windows_do_not_fit(caller, data, indices, call.window_shape)
        case "window_size":
            return shape_errors.window_too_large(caller, first, data, call.window_shape)
        case "result_rank" | "result_size" if call.kind == "gather_windows":
            return shape_errors.too_many_windows(caller, data, call.window_shape)
        case "batch_size":
            return shape_errors.batch_sizes_differ(caller, first, data, indices)
        case "depth":
            return shape_errors.index_too_deep(caller, data, indices, int(call.batch_dims))
        case "off_axis":
            return shape_errors.longer_off_axis(caller, first, facts[1], data, indices)
        case "updates_shape":
            return _updates_do_not_fit(call, data, indices, slices, updates)
        case "result_rank":
            return shape_errors.rank_too_high(caller, *facts)
        case "result_size":
            return argument_errors.result_too_large(caller, data if call.scatters else slices)
        case "out_type":
            return argument_errors.out_not_an_array(caller, call.out)
        case "out_dtype":
            return argument_errors.out_dtype(caller, call.out.dtype, call.data.dtype)
        case "out_shape":
            result = data if call.scatters else slices
            return shape_errors.out_shape(caller, call.out.shape, result)
        case "out_read_only":
            return argument_errors.out_read_only(caller)
        case "out_overlaps_itself":
            return argument_errors.out_overlaps_itself(caller, call.out)
        case _:
            raise AssertionError(f"the core refused a call by an unknown rule: {refusal}")


MODES = ("raise", "clip", "fill")


def run_windows(call: Call) -> Array | Refusal:
    """Make a call with plain arrays; return the result, or why the core refuses it.

    In mode fill the core fills a window that sticks out whole; what it shares with data is copied
    here.
    """
    if call.mode != "fill":
        return call.run()
    check_shapes(call)
    if isinstance(call.out, np.ndarray) and np.may_share_memory(call.out, call.data):
        return array_call.refusal("out_overlaps_input")
    if call.indices.dtype.kind in "iu":
        call = replace(call, indices=signed(call.indices))
    result = call.run()
    if not isinstance(result, Refusal):
        _copy_parts(call, result)
    return result


def check_shapes(call: Call) -> None:
    """Raise the error of shapes that do not fit, if there is one."""
    caller, window = call.caller, call.window_shape
    data, starts = call.data.shape, call.indices.shape
    if not starts:
        raise shape_errors.rank_too_low(caller, call.indices_name, starts, 1)
    if starts[-1] != len(window) or len(window) > len(data):
        raise shape_errors.windows_do_not_fit(caller, data, starts, window)
    for axis, size in enumerate(window):
        if size > data[axis] and call.mode != "fill":
            raise shape_errors.window_too_large(caller, axis, data, window)


def check(call: Call) -> None:
    """Raise the error of the shapes and starts of a call, if there is one; copy no window."""
    check_shapes(call)
    places = np.empty((*call.data.shape[: len(call.window_shape)], 0))  # a copy of nothing
    refusal = replace(call, data=places, fill_value=None, out=None).run()
    if isinstance(refusal, Refusal):
        raise explain(call, refusal)


def signed(starts: Array) -> Starts:
    """Return a copy of integers as int64; those beyond it become the largest."""
    if starts.dtype == np.uint64:
        starts = np.minimum(starts, np.uint64(np.iinfo(np.int64).max))
    return starts.astype(np.int64)


def view(data: Array, window: tuple[int, ...]) -> Array:
    """Return a view: its first axes are where a window may begin, its others those of a window."""
    depth = len(window)
    if data.dtype.kind == "T":
        data = data.astype(object)  # NumPy makes no such view of its own strings
    begins = (max(size - wide + 1, 0) for size, wide in zip(data.shape, window, strict=False))
    shape = (*begins, *window, *data.shape[depth:])
    strides = (*data.strides[:depth], *data.strides)
    return np.lib.stride_tricks.as_strided(data, shape, strides, writeable=False)


def shared_parts(
    starts: Starts, sizes: tuple[int, ...], window: tuple[int, ...]
) -> tuple[Starts, Starts]:
    """Return where, within each window, its part of data begins and ends, on each axis."""
    wide, most = np.array(window, np.int64), np.array(sizes, np.int64)
    starts = np.clip(starts, -wide, most)
    return np.maximum(-starts, 0), np.minimum(most - starts, wide)


def _copy_parts(call: Call, out: Array) -> None:
    """Copy what windows that stick out share with data; those that lose as much are one call."""
    data, starts, window = call.data, call.indices, call.window_shape
    first, last = shared_parts(starts, data.shape[: len(window)], window)
    partly = ((first > 0) | (last < window)).any(axis=-1) & (first < last).all(axis=-1)
    if not partly.any():
        return
    positions, starts = np.argwhere(partly), starts[partly]
    both = np.concatenate([first[partly], last[partly]], axis=1)
    parts, part_of = np.unique(both, axis=0, return_inverse=True)
    part_of = part_of.ravel()  # NumPy 2.0 gives it an axis more
    order = np.argsort(part_of, kind="stable")
    borders = np.searchsorted(part_of[order], np.arange(1, len(parts)))
    elements = np.dtype(f"V{data.dtype.itemsize}")  # NumPy copies them as they are
    for (*part,), members in zip(parts.tolist(), np.split(order, borders), strict=True):
        low, high = part[: len(window)], part[len(window) :]
        shape = tuple(end - begin for begin, end in zip(low, high, strict=True))
        inside = replace(call, indices=starts[members] + low, window_shape=shape, fill_value=None)
        copied: Any = replace(inside, mode="raise", out=None).run()
        within = (*positions[members].T, *map(slice, low, high))
        out.view(elements)[within] = copied.view(elements)


def handle_refusal(kind: str, refusal: Refusal, *arguments: Any) -> Array:
    """Return the result of a call that the core refused, or raise the error that says why."""
    call = Call(kind, kind, *arguments)
    if refusal.rule == "out_of_bounds":
        raise explain(call, refusal)
    short_cut = dispatch.SHORT_CUTS.get(type(call.data))
    if short_cut is not None:
        result = short_cut(kind, *arguments)
        if result is not NotImplemented:
            return result  # type: ignore[no-any-return]  # as its library has it
    if refusal.rule in ("fallback", "out_overlaps_input", "out_type"):
        return run(call)
    raise explain(call, refusal)


def run(call: Call) -> Array:
    """Carry out a call with arguments of any kind.

    Raises
    ------
    NdgatherError
        The core refuses the call, or an argument cannot be converted.
    """
    call = array_call.checked(call)
    adapter = dispatch.adapter(call)
    if adapter is not None:
        return adapter.run(call)  # type: ignore[no-any-return]  # as the adapter has it
    plain = plain_scatter(call) if call.scatters else _plain_gather(call)
    if isinstance(call.out, np.ndarray):
        plain = replace(plain, out=plain_array(call.caller, "out", call.out))
    if plain.data.dtype.hasobject or plain.data.itemsize == 0:
        move = _scatter_references if call.scatters else _gather_references
        result = _deliver(plain, move(plain))
    elif call.scatters and not is_one_step(plain):
        result = _deliver(plain, _scatter_in_steps(plain))
    else:
        result = _run_plain(plain)
    return result if call.out is None else call.out


def result_shape(call: Call) -> tuple[int, ...]:
    """Return the shape of the slices or windows that `call` names; only shapes are used."""
    if call.kind == "gather_windows":
        check_shapes(call)
        window = call.window_shape
        return (*call.indices.shape[:-1], *window, *call.data.shape[len(window) :])
    axis, batch_dims = (integer(call, option) for option in ("axis", "batch_dims"))
    shapes = call.data.shape, call.indices.shape
    refusal = _core.slices_shape(call.kind, *shapes, axis, batch_dims, call.window_shape)
    if refusal.rule != "none":
        raise explain(call, refusal)
    return refusal.slices


def integer(call: Call, option: str) -> int:
    """Return an option that is an integer, one that is out of every range as one of 64 bits."""
    value = getattr(call, option)
    try:
        return min(max(operator.index(value), -(2**63)), 2**63 - 1)
    except TypeError:
        raise option_errors.option_not_integer(call.caller, option, value) from None


def _run_plain(call: Call) -> Array:
    result = run_windows(call) if call.kind == "gather_windows" else call.run()
    if not isinstance(result, Refusal):
        return result
    if result.rule == "out_overlaps_input":
        np.copyto(call.out, _run_plain(replace(call, out=None)))
        return call.out  # type: ignore[no-any-return]  # an array, as the core found
    raise explain(call, result)


def _deliver(call: Call, result: Array) -> Array:
    """Copy a result to `out`, if there is one and it can take it."""
    if call.out is None:
        return result
    refusal = _core.check_out(call.out, result)
    if refusal.rule != "none":
        raise explain(call, refusal)
    np.copyto(call.out, result)
    return call.out  # type: ignore[no-any-return]  # an array, as the core found


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
            raise argument_errors.reduction_type(
                caller, reduction, dtype_name(call.data.dtype), meaningful
            )
        use_init_val = reduction == "none" or truth(caller, "use_init_val", call.use_init_val)
        return replace(call, mode=mode, reduction=reduction, use_init_val=use_init_val)
    fill_value = call.fill_value
    if fill_value is not None:
        if mode != "fill":
            raise argument_errors.fill_value_unused(caller, mode)
        if dtype is not None:
            fill_value = fill_element(caller, fill_value, dtype)
    unchanged = mode is call.mode and fill_value is call.fill_value
    return call if unchanged else replace(call, mode=mode, fill_value=fill_value)


def modes_of(call: Call) -> tuple[str, ...]:
    """Return the modes that a call can have."""
    if call.kind == "gather_windows":
        return MODES
    return _core.SCATTER_MODES if call.scatters else _core.GATHER_MODES


def dtype_name(dtype: object) -> str:
    """Return the name of a dtype of any library, as error texts show it."""
    return str(dtype if isinstance(dtype, np.dtype) else getattr(dtype, "name", dtype))


def check_updates(call: Call, updates: Shape, slices: Shape) -> None:
    """Raise ShapeError if updates do not have the shape of the slices that the indices name."""
    if tuple(updates) != tuple(slices):
        raise _updates_do_not_fit(call, call.data.shape, call.indices.shape, slices, updates)


def _updates_do_not_fit(
    call: Call, data: Shape, indices: Shape, slices: Shape, updates: Shape
) -> Exception:
    """Return the error, which says what to write if updates fit other indices or a broadcast."""
    if len(indices) == 1 and tuple(updates) == (*indices, *data[1:]):
        hint = "one index for each update is indices[:, None]"
    elif len(updates) == 0:
        hint = f"one value for all is np.broadcast_to(updates, {shown(slices)})"
    else:
        hint = ""
    return shape_errors.updates_do_not_fit(call.caller, updates, slices, call.updates_name, hint)


def check_out(call: Call, result: Shape, out: Shape) -> None:
    """Raise an error if `out` does not have the dtype of data and the shape of the result."""
    if call.out.dtype != call.data.dtype:
        dtypes = dtype_name(call.out.dtype), dtype_name(call.data.dtype)
        raise argument_errors.out_dtype(call.caller, *dtypes)
    if tuple(out) != tuple(result):
        raise shape_errors.out_shape(call.caller, out, result)


def choice(caller: str, option: str, value: object, choices: tuple[str, ...]) -> str:
    """Return the choice that a string names; one of a subclass may compare as it likes."""
    word = str.__str__(value) if isinstance(value, str) else ""
    if word not in choices:
        raise option_errors.unknown_choice(caller, option, value, choices)
    return word


def truth(caller: str, option: str, value: object) -> bool:
    """Return an option that is true or false."""
    try:
        return bool(value)
    except MemoryError:
        raise
    except Exception as error:
        raise option_errors.option_not_boolean(caller, option, value) from error


def _gather_references(call: Call) -> Array:
    """Gather elements that are references or have no bytes.

    The core finds the positions; NumPy copies the elements and counts the references.
    """
    data = call.data
    positions = np.arange(data.size).reshape(data.shape)
    fills = choice(call.caller, "mode", call.mode, _core.GATHER_MODES) == "fill"
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


def is_one_step(call: Call) -> bool:
    """Whether the core can carry out a scatter of plain arrays at once."""
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
