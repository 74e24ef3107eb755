"""From the rule by which the core refuses a call to the exception that says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.compiled import _core
from ndgather.errors import argument_errors, index_errors, option_errors, shape_errors
from ndgather.errors.shape_errors import shown

if TYPE_CHECKING:
    from ndgather.array_call import Call, Refusal

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
            return shape_errors.rank_too_low(caller, "indices", indices, first)
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
            return option_errors.unknown_choice(caller, "mode", call.mode, modes)
        case "batch_size":
            return shape_errors.batch_sizes_differ(caller, first, data, indices)
        case "depth":
            return shape_errors.index_too_deep(caller, data, indices, int(call.batch_dims))
        case "off_axis":
            return shape_errors.longer_off_axis(caller, first, facts[1], data, indices)
        case "updates_shape":
            return shape_errors.updates_do_not_fit(
                caller, updates, slices, call.updates_name, hint=_updates_hint(refusal)
            )
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


def _updates_hint(refusal: Refusal) -> str:
    """Say what to write where updates would fit indices of another shape, or were broadcast."""
    _, _, data, indices, slices, updates = refusal
    if len(indices) == 1 and updates == (*indices, *data[1:]):
        return "one index for each update is indices[:, None]"
    if updates == ():
        return f"one value for all is np.broadcast_to(updates, {shown(slices)})"
    return ""
