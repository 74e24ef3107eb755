"""Validate the arguments of calls and convert them to NumPy arrays, or raise errors."""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import PathLike, fspath
from typing import Any, NoReturn, TypeAlias

import numpy as np

from ndgather import dtypes, foreign, messages, reductions
from ndgather.array_call import Array, Call, Kind, Mode, _core, replace
from ndgather.dtypes import Numbers, number_kind
from ndgather.errors import (
    AttributeValueError,
    DTypeError,
    IndexOutOfBoundsError,
    NdgatherError,
    ShapeError,
)
from ndgather.messages import shown, shown_value

Shape: TypeAlias = Sequence[Any]  # a shape whose sizes may be unknown or symbolic

REDUCTIONS = tuple(reductions.ROWS)
WINDOW_MODES = (Mode.RAISE, Mode.CLIP, Mode.FILL, Mode.WRAP, Mode.EDGE, Mode.REFLECT)

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", start=1):
    _UNITS[f"{_letter}B"] = 1000**_power
    _UNITS[f"{_letter}iB"] = 1024**_power
_UNITS["kB"] = 1000  # SI spelling
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", re.ASCII)


_STRINGS_ARE_SAFE = np.lib.NumpyVersion(np.__version__) >= "2.3.2"


def check_rows_of_strings(caller: str, dtype: np.dtype[Any], has_axes: bool) -> None:
    """Raise DTypeError if NumPy is too old to copy rows of variable-width strings safely."""
    if dtype.kind == "T" and has_axes and not _STRINGS_ARE_SAFE:
        raise DTypeError(
            f"{caller}: data.dtype = {dtype} is not safe in rows with axes, as NumPy "
            f"{np.__version__} mixes up their strings (allowed: NumPy 2.3.2 or newer, or "
            f"data.astype(object))"
        )


def checked(
    call: Call,
    dtype: np.dtype[Any] | None,
    supported: tuple[str, ...] | None = None,
    *,
    any_start: bool = False,
) -> Call:
    """Return `call` with a validated mode, fill value, reduction and `use_init_val`.

    The arrays may belong to any library. The fill value is converted to a 0-d array of `dtype`, the
    NumPy dtype of data, unless `dtype` is None. By default, `dtype` also determines the `supported`
    reductions. If `any_start` is true, a sum in a dtype that cannot represent 0 may start from the
    first update.
    """
    caller = call.caller
    mode = checked_mode(call)
    if call.scatters:
        reduction = choice(caller, "reduction", call.reduction, REDUCTIONS)
        if supported is None and dtype is not None:
            supported = supported_reductions(dtype)
        if supported is not None and reduction not in supported:
            name = dtype_name(call.data.dtype)
            raise messages.reduction_type(caller, reduction, name, supported)
        use_init_val = reduction == "none" or as_bool(caller, "use_init_val", call.use_init_val)
        call = replace(call, mode=mode, reduction=reduction, use_init_val=use_init_val)
        if not any_start and dtype is not None and not reductions.has_start(call, dtype):
            raise DTypeError(
                f"{caller}: use_init_val = False is not defined for reduction = {reduction!r} of "
                f"data.dtype = {dtype}, which has no 0 to start from (allowed: True)"
            )
        return call
    if mode is not call.mode:
        call = replace(call, mode=mode)
    if call.fill_value is None:
        return call
    if not call.fills:
        raise messages.fill_value_unused(caller, mode)
    if dtype is None:
        return call
    return replace(call, fill_value=fill_element(caller, call.fill_value, dtype))


def check_storage_options(call: Call) -> Call:
    """Return `call` with validated storage options and `memory` converted to bytes."""
    caller, progress, executor = call.caller, call.progress, call.executor
    if progress is False:
        progress = None
    elif progress is not None and progress is not True and not callable(progress):
        raise DTypeError(
            f"{caller}: progress = {shown_value(progress)} is not callable (allowed: True, or a "
            f"function of the completed and total numbers of chunks)"
        )
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise DTypeError(
            f"{caller}: executor = {shown_value(executor)} has no method submit (allowed: an "
            f"executor as in concurrent.futures)"
        )
    if call.memory is None and progress is call.progress:
        return call
    memory = None if call.memory is None else byte_count(caller, call.memory)
    return replace(call, memory=memory, progress=progress)


def byte_count(caller: str, memory: object) -> int:
    if isinstance(memory, str):
        match = _SIZE.fullmatch(memory)
        unit = _UNITS.get(match[2]) if match else None
        if match is not None and unit is not None:
            return int(min(float(match[1]) * unit, sys.maxsize))  # larger limits have no effect
    elif isinstance(memory, int) and not isinstance(memory, bool) and memory >= 0:
        return int(memory)
    raise AttributeValueError(
        f"{caller}: memory = {shown_value(memory)} is not a number of bytes (allowed: a "
        f"non-negative integer, or a number with a unit, such as '512 MiB'; units are "
        f"{', '.join(filter(None, _UNITS))})"
    )


def allowed_modes(call: Call) -> tuple[str, ...]:
    if call.kind.windows:
        return WINDOW_MODES
    return _core.SCATTER_MODES if call.scatters else _core.GATHER_MODES


def choice(caller: str, option: str, value: object, choices: tuple[str, ...]) -> str:
    """Return `value` as a plain string if it is one of `choices`, otherwise raise an error."""
    word = str.__str__(value) if isinstance(value, str) else ""
    if word not in choices:
        raise messages.unknown_choice(caller, option, value, choices)
    return word


def checked_mode(call: Call) -> Mode | tuple[Mode, ...]:
    if call.kind.windows:
        return window_mode(call.caller, call.mode, len(call.window_shape))
    return Mode(choice(call.caller, "mode", call.mode, allowed_modes(call)))


def window_mode(caller: str, mode: object, depth: int) -> Mode | tuple[Mode, ...]:
    """Return a single mode for all window axes, or a tuple if the axes have different modes.

    The argument `mode` is a name, a sequence of names, or a string of names separated by commas.
    """
    if type(mode) is str and mode in WINDOW_MODES:
        return Mode(mode)
    words = str.split(mode, ",") if isinstance(mode, str) else mode
    if not isinstance(words, list | tuple):
        words = [mode]
    known = tuple(Mode(choice(caller, "mode", word, WINDOW_MODES)) for word in words)
    if len(known) not in (1, depth):
        raise AttributeValueError(
            f"{caller}: mode = {shown_value(mode)} has {len(known)} modes for windows with "
            f"{depth} axes (allowed: one mode for all axes, or one per axis)"
        )
    return known if len({*known}) > 1 else (*known, Mode.RAISE)[0]


def as_bool(caller: str, option: str, value: object) -> bool:
    if type(value) is bool:
        return value

    def refusal(_: Exception) -> DTypeError:
        what = f"{option} = {shown_value(value)} is neither true nor false"
        return DTypeError(f"{caller}: {what} (allowed: True, False)")

    with messages.converted_errors(refusal):
        return bool(value)


def as_integer(caller: str, option: str, value: object) -> int:
    with messages.converted_errors(lambda _: messages.option_not_integer(caller, option, value)):
        return operator.index(value)  # type: ignore[arg-type]  # or it raises


def integer(call: Call, option: str) -> int:
    """Return an integer option, clipped to the range of int64."""
    value = getattr(call, option)
    if type(value) is not int:
        with messages.converted_errors(lambda _: _not_integer(call, option)):
            value = operator.index(value)
    return min(max(value, -(2**63)), 2**63 - 1)


def slices_shape(call: Call) -> tuple[int, ...]:
    """Return the shape of a scatter's updates, or of the result of a gather without windows."""
    axis, batch_dims = integer(call, "axis"), integer(call, "batch_dims")
    refusal = _core.slices_shape(call.kind, call.data.shape, call.indices.shape, axis, batch_dims)
    if refusal.rule != "none":
        raise_error(call, refusal)
    return refusal.slices


def separate_hint(kind: Kind, data: object, arrays: Mapping[str, object]) -> str:
    """Return a hint on how to stack index arrays passed as separate arguments, or ""."""
    names = [*arrays]
    last = f", {names.pop()}" if kind.scatters or kind.windows else ""
    given = [arrays[name] for name in names]
    text = foreign.stacked(given, f"({', '.join(names)})", data, names)
    return f"write {_by_tuples(kind)}(data, {text}{last})" if text and len(names) > 1 else ""


def positional_hint(kind: Kind, given: Sequence[object]) -> str:
    """Return an error-message suffix for index arrays that were passed by position."""
    letters = "ijklmnpq"[: len(given) - 1]
    arrays: dict[str, object] = dict(zip(letters, given[1:], strict=False))
    if len(given) > 1 + len(letters) or not all(map(foreign.is_listed, given)):
        return ""
    if kind.scatters or kind.windows:
        arrays["updates" if kind.scatters else "window_shape"] = arrays.pop(letters[-1])
        letters = letters[:-1]
    hint = separate_hint(kind, given[0], arrays)
    return f"; {hint}, for index arrays {', '.join(letters)}" if hint else ""


def _not_integer(call: Call, option: str) -> DTypeError:
    """Return the error for a non-integer option, with a hint about the order of arguments."""
    hint = messages.ORDERS.get(call.caller, "") if option == "axis" else ""
    names = ("indices", "updates", "axis", "batch_dims")
    given = {name: getattr(call, name) for name in names}
    arrays = {name: each for name, each in given.items() if foreign.is_listed(each)}
    if option in arrays and "indices" in arrays:
        hint = separate_hint(call.kind, call.data, arrays) or hint
    return messages.option_not_integer(call.caller, option, getattr(call, option), hint)


def sizes(caller: str, argument: str, value: object) -> tuple[int, ...]:
    """Return `value` as a shape, or raise ShapeError if it is not a sequence of sizes."""

    def refusal(_: object) -> ShapeError:
        what = f"{caller}: {argument} = {shown_value(value)} is not a shape"
        return ShapeError(f"{what} (allowed: a sequence of non-negative integers)")

    with messages.converted_errors(refusal):
        shape = tuple(map(operator.index, value))  # type: ignore[call-overload]  # or it raises
    if min(shape, default=0) < 0:
        raise refusal(shape)
    return shape


def check_updates(call: Call, updates: Shape, slices: Shape) -> None:
    if tuple(updates) != tuple(slices):
        raise updates_do_not_fit(call, call.data.shape, call.indices.shape, slices, updates)


def updates_do_not_fit(
    call: Call, data: Shape, indices: Shape, slices: Shape, updates: Shape
) -> ShapeError:
    if call.kind.tuples and len(indices) == 1 and tuple(updates) == (*indices, *data[1:]):
        hint = tuples_hint(call, indices)
    else:
        hint = messages.NO_BROADCAST if call.updates_name == "updates" else ""
    return messages.updates_do_not_fit(call.caller, updates, slices, call.updates_name, hint)


def tuples_hint(call: Call, indices: Shape) -> str:
    """Return a hint for a call whose indices may lack the axis of index tuples."""
    if len(indices) != 1:
        return messages.TUPLES
    return f"one index for each slice is {foreign.column('indices', call.indices)}"


def check_out(call: Call, result: Shape, out: Shape) -> None:
    if call.out.dtype != call.data.dtype:
        names = dtype_name(call.out.dtype), dtype_name(call.data.dtype)
        raise messages.out_dtype(call.caller, *names)
    if tuple(out) != tuple(result):
        raise messages.out_shape(call.caller, out, result)


def check_plain_out(call: Call, shape: Shape) -> None:
    """Raise an error if `out` is not a NumPy array with the given shape and the dtype of data."""
    dtype = call.data.dtype
    refusal = _core.check_out(call.out, np.broadcast_to(np.zeros((), dtype), shape))
    if refusal.rule != "none":
        raise_error(call, refusal)
    if call.out.dtype != dtype:  # string dtypes may still differ in their missing value
        raise messages.out_dtype(call.caller, call.out.dtype, dtype)


def dtype_name(dtype: object) -> str:
    return str(dtype if isinstance(dtype, np.dtype) else getattr(dtype, "name", dtype))


def plain_array(
    caller: str, argument: str, value: object, convert: Callable[[Any], Array] = np.asarray
) -> Array:
    """Return `value` as a base-class NumPy array, without a copy if possible."""
    if type(value) is np.ndarray:
        return value.view()
    foreign.check(caller, argument, value)
    if isinstance(value, np.ndarray):
        return np.ndarray.view(value, np.ndarray)
    if argument in ("data", "indices") and isinstance(value, str | PathLike):
        raise messages.text_not_opened(caller, argument, fspath(value))
    if foreign.is_table(value):
        return foreign.column_values(caller, argument, value)

    def refusal(error: Exception) -> DTypeError:
        why = f"is not an array: {shown_value(error, str)}"
        return messages.not_an_array(caller, argument, value, why)

    with messages.converted_errors(refusal):  # the conversion may raise any exception
        array = np.ndarray.view(convert(value), np.ndarray)
    if array.dtype == object and array.ndim == 0 and convert is np.asarray:
        raise messages.not_an_array(caller, argument, value, "is not an array")
    if convert is np.asarray and dtypes.as_objects(value, array)[1]:
        raise messages.elements_change(caller, argument, value, array.dtype)
    return array


def native_indices(call: Call) -> Array:
    """Return the indices of a call in native byte order, without checking their dtype.

    Empty float arrays such as ``np.empty((0, 2))`` are accepted because they are a common way to
    write "no index tuples". The array ``np.array([])`` is rejected because its shape does not
    specify the length of an index tuple.
    """
    check_listed(call)
    indices = plain_indices(call.caller, call.indices, call.indices_name)
    if indices.size == 0 and (indices.dtype.kind == "f" or not foreign.is_array(call.indices)):
        check_depth(call, indices)
    return _native(indices)


def check_depth(call: Call, indices: Any) -> None:
    """Raise an error if a call that requires index tuples has empty 1-d indices."""
    if call.kind.tuples and tuple(indices.shape) == (0,):
        raise messages.no_index_tuples(call.caller, call.indices_name, call.indices)


def integer_indices(call: Call) -> Array:
    """Return indices in native byte order, or raise DTypeError if they are not integers."""
    indices = native_indices(call)
    if indices.dtype.kind not in "iu":
        library = foreign.library_of([call.indices])
        raise index_dtype(call.caller, indices.dtype, call.indices_name, library)
    return indices


def integers(caller: str, value: object, name: str) -> Array:
    array = _native(plain_indices(caller, value, name))
    if array.dtype.kind not in "iu":
        raise index_dtype(caller, array.dtype, name)
    return array


def _native(indices: Array) -> Array:
    return indices.astype(np.int64) if indices.size == 0 and indices.dtype.kind == "f" else indices


def plain_indices(caller: str, value: object, name: str = "indices") -> Array:
    """Return indices as an array in native byte order. Empty lists become int64 arrays."""
    try:
        indices = plain_array(caller, name, value)
    except DTypeError as error:
        if (large := _large_integers(caller, value, name)) is not None:
            return large
        hint = foreign.stacked_rows(value, name)
        if hint is None:
            raise
        raise DTypeError(f"{error}; write {hint}") from error
    if indices.dtype == object:
        _large_integers(caller, value, name)  # raises an error that names the entry
    if indices.size == 0 and not foreign.is_array(value):
        return indices.astype(np.int64)
    if indices.dtype.kind in "iu" and not indices.dtype.isnative:
        return indices.astype(indices.dtype.newbyteorder("="))
    if indices.dtype.isbuiltin == dtypes.REGISTERED and number_kind(indices.dtype) == "i":
        return indices.astype(np.int8)  # 2-bit and 4-bit integers
    return indices


def _large_integers(caller: str, value: object, name: str) -> Array | None:
    """Return a list of integers beyond int64, which NumPy converts to floats or objects.

    Return None for other values. Raise an error if no 64-bit type can represent all integers.
    """
    if not isinstance(value, list | tuple):
        return None
    try:
        foreign.check(caller, name, value)  # NumPy crashes if it reads a tensor without memory
        values = dtypes.array_of(value)
    except MemoryError:
        raise
    except Exception:  # the lists differ in length, or an element raised any exception
        return None
    entries = values.reshape(-1).tolist()
    if not all(isinstance(each, int) and type(each) is not bool for each in entries):
        return None
    dtype = np.dtype(np.int64 if min(entries, default=0) < 0 else np.uint64)
    converted, position = dtypes.hold(values, dtype)
    if converted is None:
        where = name + _shown_at(values, position or 0)
        raise DTypeError(f"{caller}: {where} is out of range (allowed: {dtype.name})")
    return converted


def check_listed(call: Call) -> None:
    """Raise an error for a tuple of index arrays or an empty list of index tuples."""
    caller, value, kind = call.caller, call.indices, call.kind
    if not isinstance(value, list | tuple):
        return
    name = call.indices_name
    if isinstance(value, tuple) and any(map(foreign.is_array, value)):
        for item in value:
            if not foreign.is_array(item):
                foreign.check(caller, name, item)  # raises for basic indexing
        hint = foreign.stacked(value, name, call.data)
        if hint is not None and not kind.tuples:
            hint = f"{name}[0]" if len(value) == 1 else f"{hint}, for {_by_tuples(kind)}"
        hint = "" if hint is None else f"; write {hint}"
        raise messages.separate_indices(caller, name, len(value), hint)
    if kind.tuples and not value:
        raise messages.no_index_tuples(caller, name, value)


def _by_tuples(kind: Kind) -> str:
    """Return the name of the corresponding function that accepts index tuples."""
    return str(kind) if kind.tuples else "scatter_nd" if kind.scatters else "gather_nd"


def fill_element(caller: str, value: object, dtype: np.dtype[Any] | Numbers) -> Array:
    """Return the fill value as a 0-d array of `dtype`. Raise an error if the value does not fit."""
    foreign.check(caller, "fill_value", value)
    element = dtypes.hold_one(value, dtype)
    if element is None:
        raise messages.fill_value_lost(caller, value, dtype)
    return element


def plain_updates(call: Call, dtype: np.dtype[Any] | Numbers) -> Array:
    """Return the updates of a call as an array of `dtype`, the dtype of data.

    Arrays must already have the dtype of data, in any byte order, because a conversion could lose
    information. Numbers and lists are converted if the dtype can represent their values. See
    `dtypes.hold`.
    """
    caller, name, value = call.caller, call.updates_name, call.updates
    if not foreign.is_array(value):
        return held(caller, name, value, dtype)
    updates = plain_array(caller, name, value)
    if not isinstance(dtype, np.dtype) or not np.can_cast(updates.dtype, dtype, "equiv"):
        raise messages.updates_dtype(caller, updates.dtype, dtype, name)
    return updates.astype(dtype, copy=False)


def held(caller: str, name: str, value: object, dtype: np.dtype[Any] | Numbers) -> Array:
    """Convert numbers or lists to `dtype`, or raise an error if a value is not representable."""
    by_object = isinstance(dtype, np.dtype) and dtype.kind == "O"
    convert = partial(np.asarray, dtype=dtype) if by_object else dtypes.array_of
    values = plain_array(caller, name, value, convert)
    if isinstance(dtype, np.dtype):
        if np.can_cast(values.dtype, dtype, "equiv"):
            return values.astype(dtype, copy=False)
        if values.size == 0 or by_object:
            return values.astype(dtype)  # empty lists have no dtype
    converted, position = dtypes.hold(values, dtype, same_kind=True)
    if converted is None:
        by_value = dtypes.hold(values, dtype)[1]  # the most informative value
        position = position if by_value is None else by_value
        raise messages.update_lost(caller, name + _shown_at(values, position or 0), dtype)
    return converted


def _shown_at(values: Array, position: int) -> str:
    """Format the element at a flat index for an error message, as in ``[1, 2] = 5``."""
    where = tuple(map(int, np.unravel_index(position, values.shape)))
    return f"{messages.subscript(where)} = {shown_value(values.item(position))}"


def out_of_bounds(call: Call, facts: tuple[Any, ...]) -> IndexOutOfBoundsError:
    """Return the error for an out-of-bounds index, which the core describes in `facts`."""
    window = call.window_shape if call.kind.windows else None
    return messages.index_out_of_bounds(call.caller, *facts, window=window)


def index_dtype(
    caller: str, dtype: object, name: str = "indices", library: str | None = ""
) -> DTypeError:
    """Return the error for indices that are not integers, with a hint unless `library` is None."""
    word, hint = dtype_name(dtype), ""
    if library == "":
        library = type(dtype).__module__.partition(".")[0]
    if library is not None and "bool" in word and caller in _core.KINDS:
        hint = f"; the index tuples of a mask are {foreign.argwhere(name, library)}"
        if not Kind(caller).tuples:
            hint += f", for {_by_tuples(Kind(caller))}"
    elif library is not None and "float" in word:
        hint = f"; if all are whole numbers, write {foreign.whole(name, library)}"
    return DTypeError(
        f"{caller}: {name}.dtype = {word} is not an integer type (allowed: int8..int64, "
        f"uint8..uint64){hint}"
    )


def raise_error(call: Call, refusal: _core.Refusal) -> NoReturn:
    rule, facts, data, indices, slices, updates = refusal
    caller, first = call.caller, facts[0]
    match rule:
        case "out_of_bounds":
            raise out_of_bounds(call, facts)
        case "indices_changed":
            raise NdgatherError(
                f"{caller}: indices changed while they were read (another thread wrote an "
                f"out-of-bounds entry and replaced it)"
            )
        case "index_dtype":
            raise index_dtype(caller, call.indices.dtype, call.indices_name)
        case "data_rank":
            raise messages.rank_too_low(caller, "data", data, first)
        case "index_rank":
            hint = messages.TUPLES if call.kind.tuples else ""
            raise messages.rank_too_low(caller, call.indices_name, indices, first, hint)
        case "ranks_differ":
            raise messages.ranks_differ(caller, data, indices, messages.SLICES)
        case "axis" | "batch_dims":
            why = f"data of shape {shown(data)}"
            if rule == "batch_dims":
                why += f" and indices of shape {shown(indices)}"
            before_axis = rule == "batch_dims" and call.kind is Kind.GATHER
            hint = messages.BATCH_AXES if before_axis else ""
            value = getattr(call, rule)
            raise messages.option_out_of_range(caller, rule, value, first, facts[1], why, hint)
        case "option_type":
            name = _core.ARGUMENTS[first]
            raise _not_integer(call, name)
        case "mode":
            raise messages.unknown_choice(caller, "mode", call.mode, allowed_modes(call))
        case "window_rank":
            raise messages.windows_do_not_fit(caller, data, indices, call.window_shape)
        case "window_size":
            raise messages.window_too_large(caller, first, data, call.window_shape)
        case "result_rank" | "result_size" if call.kind.windows:
            raise ShapeError(
                f"{caller}: window_shape = {shown(call.window_shape)} selects too many elements of "
                f"data {shown(data)} (allowed: less than 2**63 bytes and at most 64 axes in total)"
            )
        case "batch_size":
            raise messages.batch_sizes_differ(caller, first, data, indices)
        case "depth":
            hint = tuples_hint(call, indices)
            raise messages.index_too_deep(caller, data, indices, int(call.batch_dims), hint)
        case "off_axis":
            raise messages.longer_off_axis(caller, first, facts[1], data, indices)
        case "updates_shape":
            raise updates_do_not_fit(call, data, indices, slices, updates)
        case "result_rank":
            raise ShapeError(
                f"{caller}: the result would have rank {first} (allowed: at most {facts[1]})"
            )
        case "result_size":
            raise messages.result_too_large(caller, data if call.scatters else slices)
        case "out_type":
            raise messages.out_not_an_array(caller, call.out)
        case "out_dtype":
            raise messages.out_dtype(caller, call.out.dtype, call.data.dtype)
        case "out_shape":
            result = data if call.scatters else slices
            raise messages.out_shape(caller, call.out.shape, result)
        case "out_read_only":
            raise messages.out_read_only(caller)
        case "out_overlaps_itself":
            strides = getattr(call.out, "strides", None)  # arrays of some libraries lack strides
            what = f"out = {type(call.out).__name__} object lets"
            if strides is not None:
                what = f"out.strides = {shown(strides)} let"
            raise AttributeValueError(
                f"{caller}: {what} elements of out share memory (allowed: strides without overlap)"
            )
        case _:
            raise AssertionError(f"the core refused a call by an unknown rule: {refusal}")


def supported_reductions(dtype: np.dtype[Any]) -> tuple[str, ...]:
    return reductions.supported(number_kind(dtype))
