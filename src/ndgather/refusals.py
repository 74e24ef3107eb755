"""Turn a `_core.Refusal` into a Python exception."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from ndgather import arguments, messages
from ndgather.array_call import _core
from ndgather.errors import (
    AttributeValueError,
    DTypeError,
    IndexOutOfBoundsError,
    NdgatherError,
    ShapeError,
)
from ndgather.messages import shown

if TYPE_CHECKING:
    from ndgather.array_call import Call

# What an error text calls a dtype of indices, by its kind.
_DTYPE_KINDS = {
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


def out_of_bounds(call: Call, facts: tuple[Any, ...]) -> IndexOutOfBoundsError:
    """Return the error of the first bad entry of indices; `facts` are those of the core."""
    window = call.window_shape if call.kind == "gather_windows" else None
    return messages.index_out_of_bounds(call.caller, *facts, window=window)


def index_dtype(call: Call) -> DTypeError:
    dtype = call.indices.dtype  # of another library, it may have no kind
    kind = _DTYPE_KINDS.get(getattr(dtype, "kind", ""), "not an integer type")
    return messages.index_dtype(call.caller, dtype, kind, call.indices_name)


def raise_error(call: Call, refusal: _core.Refusal) -> NoReturn:
    """Raise the error for a refusal of the core, with the shapes that the core has read."""
    rule, facts, data, indices, slices, updates = refusal
    caller, first = call.caller, facts[0]
    match rule:
        case "out_of_bounds":
            raise out_of_bounds(call, facts)
        case "indices_changed":
            raise NdgatherError(
                f"{caller}: indices changed while they were read (another thread wrote an entry "
                f"that is out of bounds, and replaced it)"
            )
        case "index_dtype":
            raise index_dtype(call)
        case "data_rank":
            raise messages.rank_too_low(caller, "data", data, first)
        case "index_rank":
            raise messages.rank_too_low(caller, call.indices_name, indices, first)
        case "ranks_differ":
            raise messages.ranks_differ(caller, data, indices)
        case "axis" | "batch_dims":
            why = f"data of shape {shown(data)}"
            if rule == "batch_dims":
                why += f" and indices of shape {shown(indices)}"
            value = getattr(call, rule)
            raise messages.option_out_of_range(caller, rule, value, first, facts[1], why)
        case "option_type":
            name = _core.ARGUMENTS[first]
            raise messages.option_not_integer(caller, name, getattr(call, name))
        case "mode":
            raise messages.unknown_choice(caller, "mode", call.mode, arguments.modes_of(call))
        case "window_rank":
            raise messages.windows_do_not_fit(caller, data, indices, call.window_shape)
        case "window_size":
            raise messages.window_too_large(caller, first, data, call.window_shape)
        case "result_rank" | "result_size" if call.kind == "gather_windows":
            raise ShapeError(
                f"{caller}: window_shape = {shown(call.window_shape)} makes more windows of data "
                f"{shown(data)} than can be counted (allowed: less than 2**63 bytes and at most 64 "
                f"axes in all)"
            )
        case "batch_size":
            raise messages.batch_sizes_differ(caller, first, data, indices)
        case "depth":
            raise messages.index_too_deep(caller, data, indices, int(call.batch_dims))
        case "off_axis":
            raise messages.longer_off_axis(caller, first, facts[1], data, indices)
        case "updates_shape":
            raise arguments.updates_do_not_fit(call, data, indices, slices, updates)
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
            strides = getattr(call.out, "strides", None)  # other libraries have no such attribute
            what = f"out = {type(call.out).__name__} object lets"
            if strides is not None:
                what = f"out.strides = {shown(strides)} let"
            raise AttributeValueError(
                f"{caller}: {what} elements of out share memory (allowed: strides that keep them "
                f"apart)"
            )
        case _:
            raise AssertionError(f"the core refused a call by an unknown rule: {refusal}")
