"""A call on its way to the core, and what follows when the core refuses it.

The core takes plain NumPy arrays and nothing else, and answers a call that it does not carry out
with a rule and a few numbers. Here a refused call is converted and made again, carried out another
way, or explained: the words are those of `errors`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import _core, errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]

MODES = ("raise", "wrap", "clip", "fill")
MAX_RANK = 64

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The arguments of one gather, for one function of the core."""

    caller: str  # the name that error texts begin with
    function: Callable[..., Array]
    data: Any
    indices: Any
    options: tuple[Any, ...]  # what stands between indices and mode in the core's signature
    option_names: tuple[str, ...]
    mode: Any = "raise"
    fill_value: Any = None
    out: Any = None
    negative: bool = True  # whether negative values count from the end

    def run(self) -> Array:
        """Make the call; whatever the core refuses is converted, or raised with its reason."""
        try:
            return self.function(
                self.data,
                self.indices,
                *self.options,
                self.mode,
                self.fill_value,
                self.out,
                self.negative,
            )
        except _core.Refused as refused:
            return answer(refused, self)


def answer(refused: _core.Refused, call: Call) -> Array:
    """Carry out a refused call another way, or raise the exception that says why not."""
    rule, *facts = refused.args
    if rule == _core.CONVERT:
        return convert(call).run()
    if rule == _core.REFERENCES:
        return gather_references(convert(call))
    if rule == _core.OUT_OVERLAPS_INPUT:
        result = replace(call, out=None).run()
        np.copyto(call.out, result)
        return call.out  # type: ignore[no-any-return]  # what the caller gave
    raise explain(rule, facts, call) from None


def convert(call: Call) -> Call:
    """Return the call with plain arrays in native byte order, as the core takes them."""
    data = plain_array(call.caller, "data", call.data)
    indices = plain_array(call.caller, "indices", call.indices)
    if indices.size == 0 and not isinstance(call.indices, np.ndarray):
        indices = indices.astype(np.int64)  # an empty list has no type of its own
    if indices.dtype.kind in "iu" and not indices.dtype.isnative:
        indices = indices.astype(indices.dtype.newbyteorder("="))
    fill_value = call.fill_value
    if fill_value is not None:
        if call.mode != "fill":
            if call.mode not in MODES:
                raise errors.unknown_choice(call.caller, "mode", call.mode, MODES)
            raise errors.fill_value_unused(call.caller, call.mode)
        fill_value = fill_element(call.caller, fill_value, data.dtype)
    return replace(call, data=data, indices=indices, fill_value=fill_value)


def plain_array(caller: str, argument: str, value: object) -> Array:
    """Return `value` as an exact NumPy array, without a copy where it is one in disguise."""
    if isinstance(value, np.ma.MaskedArray):
        raise errors.masked_array(caller, argument)
    if isinstance(value, np.ndarray):
        return value.view(np.ndarray)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise errors.not_an_array(caller, argument, value, f"is no array: {error}") from error
    if array.dtype == object and array.ndim == 0:
        raise errors.not_an_array(caller, argument, value, "is no array")
    return array


def fill_element(caller: str, value: object, dtype: np.dtype[Any]) -> Array:
    """Return `value` as one element of `dtype`; rounding is allowed, losing it is not."""
    element = np.zeros((), dtype)
    try:
        with np.errstate(over="raise", invalid="raise"):
            # A 0-d array gives its element; anything else is one, a list among objects too.
            element[... if isinstance(value, np.ndarray) and value.ndim == 0 else ()] = value
        kept = _rounds(dtype) or bool(element[()] == value) or bool(value != value)  # noqa: PLR0124 - NaT is unlike itself
    except (TypeError, ValueError, OverflowError, FloatingPointError):
        kept = False
    if not kept:
        raise errors.fill_value_lost(caller, value, dtype)
    return element


def _rounds(dtype: np.dtype[Any]) -> bool:
    """Whether a value may differ from what an element of `dtype` holds of it."""
    if dtype.kind == "V":  # small integers of other packages are exact, small floats are not
        return not dtype.name.removeprefix("u").startswith("int")
    return dtype.kind not in "biuSUmM"


def gather_references(call: Call) -> Array:
    """Gather elements that are references (objects, variable-length strings), or have no bytes.

    The core gathers their places; NumPy copies the elements, and counts the references.
    """
    data = call.data
    places = np.arange(data.size).reshape(data.shape)
    filling = call.mode == "fill"
    where = replace(
        call, data=places, fill_value=np.array(-1, places.dtype) if filling else None, out=None
    ).run()
    flat_where = where.reshape(-1)
    flat = data.reshape(-1)
    if filling:
        result = np.empty(flat_where.shape, data.dtype)
        result[...] = np.zeros((), data.dtype) if call.fill_value is None else call.fill_value
        inside = flat_where >= 0
        result[inside] = flat[flat_where[inside]]
    else:
        result = flat[flat_where]
    result = result.reshape(where.shape)
    out = call.out
    if out is None:
        return result
    if not isinstance(out, np.ndarray):
        raise errors.out_not_an_array(call.caller, out)
    if out.dtype != data.dtype:
        raise errors.out_dtype(call.caller, out.dtype, data.dtype)
    if out.shape != result.shape:
        raise errors.out_shape(call.caller, out.shape, result.shape)
    if not out.flags.writeable:
        raise errors.out_read_only(call.caller)
    np.copyto(out, result)
    return out


def result_shape(call: Call) -> tuple[int, ...]:
    """Return the shape of the result of a call whose shapes fit."""
    data, indices = call.data.shape, call.indices.shape
    if call.function is _core.gather_elements:
        return indices  # type: ignore[no-any-return]  # Call.indices is an array by now
    if call.function is _core.gather_nd:
        (batch_dims,) = call.options
        return (*indices[:-1], *data[batch_dims + indices[-1] :])
    axis, batch_dims = call.options
    axis %= len(data)
    batch_dims += len(indices) if batch_dims < 0 else 0
    return (*data[:axis], *indices[batch_dims:], *data[axis + 1 :])


def explain(rule: int, facts: Sequence[int], call: Call) -> Exception:
    """Return the exception for a refusal that is final."""
    caller, data, indices = call.caller, call.data, call.indices
    options = dict(zip(call.option_names, call.options, strict=True))
    match rule:
        case _core.OUT_OF_BOUNDS:
            return _out_of_bounds(call, *facts)
        case _core.INDICES_CHANGED:
            return errors.indices_changed(caller)
        case _core.INDEX_DTYPE:
            kind = _KINDS.get(indices.dtype.kind, "no integer type of NumPy")
            return errors.index_dtype(caller, indices.dtype, kind)
        case _core.DATA_RANK:
            return errors.rank_too_low(caller, "data", data.shape, facts[0])
        case _core.INDEX_RANK:
            return errors.rank_too_low(caller, "indices", indices.shape, facts[0])
        case _core.RANKS_DIFFER:
            return errors.ranks_differ(caller, data.shape, indices.shape)
        case _core.AXIS:
            why = f"data of shape {errors.shown(data.shape)}"
            return errors.option_out_of_range(
                caller, "axis", options["axis"], facts[0], facts[1], why
            )
        case _core.BATCH_DIMS:
            why = (
                f"data of shape {errors.shown(data.shape)} and indices of shape "
                f"{errors.shown(indices.shape)}"
            )
            return errors.option_out_of_range(
                caller, "batch_dims", options["batch_dims"], facts[0], facts[1], why
            )
        case _core.BATCH_SIZE:
            return errors.batch_sizes_differ(caller, facts[0], data.shape, indices.shape)
        case _core.DEPTH:
            return errors.index_too_deep(caller, data.shape, indices.shape, options["batch_dims"])
        case _core.OFF_AXIS:
            return errors.longer_off_axis(caller, facts[0], facts[1], data.shape, indices.shape)
        case _core.RESULT_RANK:
            return errors.rank_too_high(caller, *facts)
        case _core.RESULT_SIZE:
            return errors.result_too_large(caller, result_shape(call))
        case _core.MODE:
            return errors.unknown_choice(caller, "mode", call.mode, MODES)
        case _core.INTEGER:
            at = facts[0] - _core.FIRST_OPTION
            return errors.option_not_integer(caller, call.option_names[at], call.options[at])
        case _core.OUT_TYPE:
            return errors.out_not_an_array(caller, call.out)
        case _core.OUT_DTYPE:
            return errors.out_dtype(caller, call.out.dtype, data.dtype)
        case _core.OUT_SHAPE:
            return errors.out_shape(caller, call.out.shape, result_shape(call))
        case _core.OUT_READ_ONLY:
            return errors.out_read_only(caller)
        case _core.OUT_OVERLAPS_ITSELF:
            return errors.out_overlaps_itself(caller, call.out.strides)
        case _:
            raise AssertionError(f"the core refused by an unknown rule: {rule} {facts}")


def _out_of_bounds(call: Call, entry: int, value: int, count: int) -> Exception:
    indices = call.indices
    position = tuple(int(i) for i in np.unravel_index(entry, indices.shape))
    if call.function is _core.gather_nd:
        axis = call.options[0] + position[-1]
    else:
        axis = call.options[0] % call.data.ndim
    size = call.data.shape[axis]
    return errors.index_out_of_bounds(
        call.caller,
        position=position,
        value=value,
        axis=axis,
        size=size,
        lowest=-size if call.negative else 0,
        count=count,
        total=indices.size,
    )
