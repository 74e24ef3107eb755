"""The adapter for NumPy masked arrays, which gathers or scatters both the values and the mask.

A masked element has an unknown value, so the result of a reduction with a masked operand is masked.
A scatter does not change elements under a hard mask of data. The mask of the result replaces the
mask of `out`, even if `out` has a hard mask.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgather import arguments, messages, slow_path
from ndgather.array_call import Call, replace
from ndgather.errors import DTypeError


def run(call: Call) -> Any:
    """Return a masked array. Without a fill value, mode ``fill`` masks out-of-bounds positions."""
    caller, data, out = call.caller, call.data, call.out
    if _is_masked(call.indices):
        raise messages.masked_array(caller, call.indices_name)
    if not _is_masked(data):
        name = call.updates_name if _is_masked(call.updates) else "out"
        raise messages.masked_array(caller, name)
    if out is not None and not _is_masked(out):
        raise DTypeError(
            f"{caller}: out = array without a mask would lose the mask of data (allowed: a masked "
            f"array)"
        )
    if call.fill_value is np.ma.masked:
        call = replace(call, fill_value=None)
    if isinstance(call.indices, np.ndarray):  # indices are read twice and may overlap `out`
        call = replace(call, indices=call.indices.copy())
    if out is not None and (mask := np.ma.getmask(out)) is not np.ma.nomask:
        arguments.check_plain_out(replace(call, data=mask, out=mask), mask.shape)
    plain = replace(
        call,
        data=data.data,
        updates=np.ma.getdata(call.updates) if _is_masked(call.updates) else call.updates,
        out=None if out is None else out.data,
    )
    is_hard = call.scatters and data.hardmask and np.ma.getmask(data) is not np.ma.nomask
    if is_hard and data.dtype.names:
        raise DTypeError(
            f"{caller}: data = masked array has a hard mask of fields, which would be lost "
            f"(allowed: a soft mask); write data.soften_mask()"
        )
    values = _scattered_around_hidden(call, plain) if is_hard else slow_path.run(plain)
    mask = _mask(call)
    if out is None:
        out = np.ma.MaskedArray.__array_wrap__(data, values)
    if mask is not np.ma.getmask(out):
        _set_mask(out, mask)
    return out


def _is_masked(value: Any) -> bool:
    return isinstance(value, np.ma.MaskedArray)


def _scattered_around_hidden(call: Call, plain: Call) -> Any:
    """Run a scatter that does not change elements under a hard mask, and return the new values."""
    plain = arguments.checked(plain, None)
    hidden, before = _at_indices(plain, np.ma.getmask(call.data)), _at_indices(plain, plain.data)
    values = slow_path.run(plain)
    after = np.where(hidden, before, _at_indices(plain, values))
    return slow_path.run(replace(plain, data=values, updates=after, reduction="none", out=values))


def _at_indices(call: Call, array: Any) -> Any:
    """Return the elements of an array that a scatter updates."""
    return slow_path.run(call.as_gather(data=array, updates=None, out=None))


def _mask(call: Call) -> Any:
    """Return the mask of the result, updating the mask of data if the call is in place."""
    nothing, updates = np.ma.nomask, np.ma.getmask(call.updates)
    mask = np.ma.getmask(call.data)
    fills = call.fills and not call.scatters
    outside = fills and call.fill_value is None
    if mask is nothing and updates is nothing and not outside:
        return nothing
    in_place = call.out is call.data and mask is not nothing
    if mask is nothing:
        mask = np.ma.getmaskarray(call.data)
    if not call.scatters:
        fill = np.full((), outside, mask.dtype) if fills else None
        return slow_path.run(replace(call, data=mask, fill_value=fill, out=None))
    if updates is nothing:
        updates = np.broadcast_to(np.zeros((), mask.dtype), np.shape(call.updates))
    if call.data.hardmask and np.ma.getmask(call.data) is not nothing:
        updates = updates | _at_indices(call, mask)
    reduction = "none" if call.reduction == "none" else "max"  # the "or" of booleans
    plain = replace(call, data=mask, updates=updates, reduction=reduction)
    return slow_path.run(replace(plain, out=mask if in_place else None))


def _set_mask(out: Any, mask: Any) -> None:
    """Replace the mask of an array, even if the array has a hard mask."""
    is_hard = out.hardmask
    out.soften_mask()
    out.mask = np.False_ if mask is np.ma.nomask else mask
    if is_hard:
        out.harden_mask()
