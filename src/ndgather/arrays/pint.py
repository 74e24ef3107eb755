"""Quantities of pint: the array is moved, the units stay, and updates are converted to them.

What the magnitude is, an array of NumPy, dask or another library, makes no difference.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pint

from ndgather import slow_path
from ndgather.arrays.lowering import cotangents
from ndgather.errors import argument_errors, container_errors

if TYPE_CHECKING:
    from ndgather.array_call import Call

_SUMS = ("add", "sub", "mean")


def run(call: Call) -> Any:
    """Carry out a call with quantities; the result has the units of data.

    Raises
    ------
    NdgatherError
        Units do not fit, or would be lost; or the call is refused as it would be for magnitudes.
    """
    caller, data = call.caller, call.data
    for name, value in call.named():
        if _of_pint(value) and not isinstance(value, pint.Quantity):
            raise container_errors.no_array(caller, name, value, "a Quantity")
    units = data.units if isinstance(data, pint.Quantity) else None
    sums = call.scatters and call.reduction in _SUMS
    if units is not None and sums and not data._is_multiplicative:
        raise argument_errors.reduction_changes_unit(caller, call.reduction, data, call.updates)
    factor = call.scatters and call.reduction == "mul"
    plain = replace(
        call,
        data=data if units is None else data.magnitude,
        indices=_in_units(caller, call.indices_name, call.indices, None),
        updates=_in_units(caller, call.updates_name, call.updates, None if factor else units),
    )
    if call.fill_value is not None:
        fill = _in_units(caller, "fill_value", call.fill_value, units)
        plain = replace(plain, fill_value=fill)
    if call.out is not None:
        of_out = call.out.units if isinstance(call.out, pint.Quantity) else None
        if of_out != units:
            raise argument_errors.other_units(caller, "out", of_out or "no units", units)
        plain = replace(plain, out=call.out if units is None else call.out.magnitude)
    result = slow_path.run(plain)
    if call.out is not None:
        return call.out
    return result if units is None else data.__class__(result, units)


def vjp(call: Call, data_shape: tuple[int, ...] | None = None) -> Any:
    """Return the cotangents of a call, in the units of `data`, the cotangent of its result."""
    given = call.data
    indices = _in_units(call.caller, call.indices_name, call.indices, None)
    if not isinstance(given, pint.Quantity):
        return cotangents(replace(call, indices=indices), data_shape)
    results = cotangents(replace(call, data=given.magnitude, indices=indices), data_shape)
    if isinstance(results, tuple):
        return tuple(given.__class__(each, given.units) for each in results)
    return given.__class__(results, given.units)


def _of_pint(value: Any) -> bool:
    return any(each.__module__.partition(".")[0] == "pint" for each in type(value).__mro__)


def _in_units(caller: str, name: str, value: Any, units: Any) -> Any:
    """Return the magnitude of an argument in `units`, where None is none."""
    if not isinstance(value, pint.Quantity):
        if units is None or value is None or units.dimensionless:
            return value
        raise argument_errors.other_units(caller, name, "no units", units)
    try:
        return value.to("dimensionless" if units is None else units).magnitude
    except (pint.errors.PintError, TypeError, ValueError) as error:
        shown = units or "no units"
        raise argument_errors.other_units(caller, name, value.units, shown) from error
