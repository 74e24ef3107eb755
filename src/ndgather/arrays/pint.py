"""Quantities of pint: the magnitude, an array of any library, is moved, and the units stay."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pint

from ndgather import arguments, exchange, slow_path
from ndgather.arguments import choice
from ndgather.arrays.subclasses import reduction_changes_unit
from ndgather.errors import DTypeError
from ndgather.messages import no_array, shown_value
from ndgather.vjp import cotangents

if TYPE_CHECKING:
    from ndgather.array_call import Call

# What reductions do with elements; sums of units with an offset, such as degC, are not defined.
_OPERATIONS = {
    "none": "select",
    "add": "sum",
    "sub": "sum",
    "mul": "multiply",
    "min": "select",
    "max": "select",
    "mean": "sum",
}


def run(call: Call) -> Any:
    """Return the result of a call with quantities, in the units of data."""
    caller, data = call.caller, call.data
    for name, value in call.named():
        if exchange.adapter_name(value) == __name__ and not isinstance(value, pint.Quantity):
            raise no_array(caller, name, value, "a Quantity")
    units = data.units if isinstance(data, pint.Quantity) else None
    operation = "select"
    if call.scatters:
        operation = _OPERATIONS[choice(caller, "reduction", call.reduction, arguments.REDUCTIONS)]
    if units is not None and operation == "sum" and not data._is_multiplicative:
        raise reduction_changes_unit(call)
    units_of_updates = None if operation == "multiply" else units
    plain = replace(
        call,
        data=data if units is None else data.magnitude,
        indices=_in_units(caller, call.indices_name, call.indices, None),
        updates=_in_units(caller, call.updates_name, call.updates, units_of_updates),
    )
    if call.fill_value is not None:
        fill = _in_units(caller, "fill_value", call.fill_value, units)
        plain = replace(plain, fill_value=fill)
    if call.out is not None:
        of_out = call.out.units if isinstance(call.out, pint.Quantity) else None
        if of_out != units:
            raise _other_units(caller, "out", of_out or "no units", units)
        plain = replace(plain, out=call.out if units is None else call.out.magnitude)
    result = slow_path.run(plain)
    if call.out is not None:
        return call.out
    return result if units is None else data.__class__(result, units)


def vjp(call: Call, data_shape: tuple[int, ...] | None = None) -> tuple[Any, ...]:
    """Return the cotangents of a call, in the units of `data`, the cotangent of its result."""
    data = call.data
    call = replace(call, indices=_in_units(call.caller, call.indices_name, call.indices, None))
    if not isinstance(data, pint.Quantity):
        return cotangents(call, data_shape)
    results = cotangents(replace(call, data=data.magnitude), data_shape)
    return tuple(data.__class__(cotangent, data.units) for cotangent in results)


def _in_units(caller: str, name: str, value: Any, units: Any) -> Any:
    """Return the magnitude of an argument in `units`; None means that it must have none."""
    if not isinstance(value, pint.Quantity):
        if units is None or value is None or units.dimensionless:
            return value
        raise _other_units(caller, name, "no units", units)
    try:
        return value.to("dimensionless" if units is None else units).magnitude
    except (pint.errors.PintError, TypeError, ValueError) as error:
        raise _other_units(caller, name, value.units, units) from error


def _other_units(caller: str, name: str, units: object, wanted: object) -> DTypeError:
    return DTypeError(
        f"{caller}: {name} = quantity in {shown_value(units, str)} does not fit, or would lose its "
        f"units (allowed: {shown_value(wanted or 'no units', str)})"
    )
