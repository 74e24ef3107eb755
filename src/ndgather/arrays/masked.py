"""Masked arrays of NumPy: the mask is moved by the same call as the values.

A masked element has an unknown value, so a reduction with a masked operand gives a masked element.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import messages, slow_path
from ndgather.errors import DTypeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgather.array_call import Call

    Mask = NDArray[Any]


def run(call: Call) -> Any:
    """Return the result of a call on masked data, masked and of its class.

    Positions out of bounds are masked in mode fill, unless there is a fill value.
    """
    caller, data, out = call.caller, call.data, call.out
    if _is_masked(call.indices):
        raise messages.masked_array(caller, call.indices_name)
    if not _is_masked(data):
        name = call.updates_name if _is_masked(call.updates) else "out"
        raise messages.masked_array(caller, name)
    if out is not None and not _is_masked(out):
        raise DTypeError(
            f"{caller}: out = array without a mask would lose that of data (allowed: a masked "
            f"array)"
        )
    if call.fill_value is np.ma.masked:
        call = replace(call, fill_value=None)
    plain = replace(
        call,
        data=data.data,
        updates=np.ma.getdata(call.updates) if _is_masked(call.updates) else call.updates,
        out=None if out is None else out.data,
    )
    values = slow_path.run(plain)
    mask = _mask(call)
    if out is None:
        out = np.ma.MaskedArray.__array_wrap__(data, values)
    if mask is not None or np.ma.getmask(out) is not np.ma.nomask:
        out.mask = np.False_ if mask is None else mask
    return out


def _is_masked(value: Any) -> bool:
    return isinstance(value, np.ma.MaskedArray)


def _mask(call: Call) -> Mask | None:
    """Return the mask of the result; None if nothing in it is masked."""
    nothing, updates = np.ma.nomask, np.ma.getmask(call.updates)
    fills = "fill" in call.mode and not call.scatters
    outside = fills and call.fill_value is None
    if np.ma.getmask(call.data) is nothing and updates is nothing and not outside:
        return None
    mask = np.ma.getmaskarray(call.data)
    if not call.scatters:
        fill = np.full((), outside, mask.dtype) if fills else None
        return slow_path.run(replace(call, data=mask, fill_value=fill, out=None))
    if updates is nothing:
        updates = np.zeros(np.shape(call.updates), mask.dtype)
    reduction = "none" if call.reduction == "none" else "max"  # of booleans: or
    return slow_path.run(replace(call, data=mask, updates=updates, reduction=reduction, out=None))
