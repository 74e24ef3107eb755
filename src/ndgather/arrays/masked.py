"""Masked arrays of NumPy: the mask is moved by the same call as the values.

A masked element is one whose value is not known. So a gather copies it with its mask, and a
reduction that takes one in gives one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import slow_path
from ndgather.errors import argument_errors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgather.array_call import Call

    Mask = NDArray[Any]


def run(call: Call) -> Any:
    """Carry out a call whose data is masked; the result is masked too, and of its class.

    Positions out of bounds are masked in mode fill, unless a fill value is given.

    Raises
    ------
    NdgatherError
        Another argument is masked where the result has no mask or no use for it, or the call is
        refused as it would be for the values.
    """
    caller, data, out = call.caller, call.data, call.out
    if isinstance(call.indices, np.ma.MaskedArray):
        raise argument_errors.masked_array(caller, call.indices_name)
    if not isinstance(data, np.ma.MaskedArray):
        masked = isinstance(call.updates, np.ma.MaskedArray)
        raise argument_errors.masked_array(caller, call.updates_name if masked else "out")
    if out is not None and not isinstance(out, np.ma.MaskedArray):
        raise argument_errors.out_without_mask(caller)
    if call.fill_value is np.ma.masked:
        call = replace(call, fill_value=None)
    plain = replace(
        call,
        data=data.data,
        updates=np.ma.getdata(call.updates) if _is_masked(call.updates) else call.updates,
        out=None if out is None else out.data,
    )
    values = slow_path.run(plain)
    mask = _scattered_mask(call) if call.scatters else _gathered_mask(call)
    if out is None:
        out = np.ma.MaskedArray.__array_wrap__(data, values)
    if mask is not None or np.ma.getmask(out) is not np.ma.nomask:
        out.mask = np.False_ if mask is None else mask
    return out


def _is_masked(value: Any) -> bool:
    return isinstance(value, np.ma.MaskedArray)


def _gathered_mask(call: Call) -> Mask | None:
    """Return the mask of the result; None where nothing in it is masked."""
    outside = call.mode == "fill" and call.fill_value is None
    if np.ma.getmask(call.data) is np.ma.nomask and not outside:
        return None
    mask = np.ma.getmaskarray(call.data)
    fill = np.full((), outside, mask.dtype) if call.mode == "fill" else None
    return slow_path.run(replace(call, data=mask, fill_value=fill, out=None))


def _scattered_mask(call: Call) -> Mask | None:
    """Return the mask of data after the updates; None where nothing is masked."""
    given = [np.ma.getmask(each) for each in (call.data, call.updates)]
    if all(each is np.ma.nomask for each in given):
        return None
    mask = np.ma.getmaskarray(call.data)
    updates = given[1]
    if updates is np.ma.nomask:
        updates = np.zeros(np.shape(call.updates), mask.dtype)
    reduction = "none" if call.reduction == "none" else "max"  # of booleans: or
    return slow_path.run(replace(call, data=mask, updates=updates, reduction=reduction, out=None))
