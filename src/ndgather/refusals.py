"""From a rule by which the core refused a call to the exception that says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ndgather import _core
from ndgather.errors import argument_errors, index_errors, option_errors, shape_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndgather.calls import Call

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


def explain(rule: int, facts: Sequence[int], call: Call) -> Exception:
    """Return the exception for a refusal that is final, of a call that is held."""
    caller, data, indices = call.caller, call.data, call.indices
    options = dict(zip(call.option_names, call.options, strict=True))
    match rule:
        case _core.OUT_OF_BOUNDS:
            return _out_of_bounds(call, *facts)
        case _core.INDICES_CHANGED:
            return index_errors.indices_changed(caller)
        case _core.INDEX_DTYPE:
            kind = _KINDS.get(indices.dtype.kind, "no integer type of NumPy")
            return index_errors.index_dtype(caller, indices.dtype, kind)
        case _core.DATA_RANK:
            return shape_errors.rank_too_low(caller, "data", data.shape, facts[0])
        case _core.INDEX_RANK:
            return shape_errors.rank_too_low(caller, "indices", indices.shape, facts[0])
        case _core.RANKS_DIFFER:
            return shape_errors.ranks_differ(caller, data.shape, indices.shape)
        case _core.AXIS:
            why = f"data of shape {shape_errors.shown(data.shape)}"
            return option_errors.option_out_of_range(
                caller, "axis", options["axis"], facts[0], facts[1], why
            )
        case _core.BATCH_DIMS:
            why = (
                f"data of shape {shape_errors.shown(data.shape)} and indices of shape "
                f"{shape_errors.shown(indices.shape)}"
            )
            return option_errors.option_out_of_range(
                caller, "batch_dims", options["batch_dims"], facts[0], facts[1], why
            )
        case _core.BATCH_SIZE:
            return shape_errors.batch_sizes_differ(caller, facts[0], data.shape, indices.shape)
        case _core.DEPTH:
            return shape_errors.index_too_deep(
                caller, data.shape, indices.shape, options["batch_dims"]
            )
        case _core.OFF_AXIS:
            return shape_errors.longer_off_axis(
                caller, facts[0], facts[1], data.shape, indices.shape
            )
        case _core.RESULT_RANK:
            return shape_errors.rank_too_high(caller, *facts)
        case _core.RESULT_SIZE:
            return argument_errors.result_too_large(caller, call.result_shape())
        case _core.MODE:
            return option_errors.unknown_choice(caller, "mode", call.mode, call.modes)
        case _core.INTEGER:
            at = facts[0] - _core.FIRST_OPTION
            return option_errors.option_not_integer(caller, call.option_names[at], call.options[at])
        case _core.OUT_TYPE:
            return argument_errors.out_not_an_array(caller, call.out)
        case _core.OUT_DTYPE:
            return argument_errors.out_dtype(caller, call.out.dtype, data.dtype)
        case _core.OUT_SHAPE:
            return shape_errors.out_shape(caller, call.out.shape, call.result_shape())
        case _core.OUT_READ_ONLY:
            return argument_errors.out_read_only(caller)
        case _core.OUT_OVERLAPS_ITSELF:
            return argument_errors.out_overlaps_itself(caller, call.out.strides)
        case _:
            raise AssertionError(f"the core refused by an unknown rule: {rule} {facts}")


def _out_of_bounds(call: Call, entry: int, value: int, count: int) -> Exception:
    """Name the entry in the shapes that the arrays have by now, if one of them was set since."""
    data, indices = call.data.shape, call.indices.shape
    try:
        position = tuple(int(i) for i in np.unravel_index(entry, indices))
        axis = call.options[0]
        axis = axis + position[-1] if call.option_names == ("batch_dims",) else axis % len(data)
        size = data[axis]
    except (IndexError, ValueError, ZeroDivisionError):  # no such entry, or no such axis
        return index_errors.shape_changed(call.caller)
    lowest = -size if call.negative else 0
    if lowest <= value < size:
        return index_errors.shape_changed(call.caller)
    return index_errors.index_out_of_bounds(
        call.caller,
        position=position,
        value=value,
        axis=axis,
        size=size,
        lowest=lowest,
        count=count,
        total=call.indices.size,
    )
