"""Windows of arrays: their shapes, their views, and the gathers in which windows stick out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import arguments, messages
from ndgather.array_call import _core

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgather.array_call import Call

    Array = NDArray[Any]
    Starts = NDArray[np.int64]


def run(call: Call) -> Array | _core.Refusal:
    """Gather windows; in mode fill, parts of windows that the core has filled are copied here.

    The result is a new array if `out` shares memory with data.
    """
    if call.mode != "fill":
        return call.run()
    check_shapes(call)
    if isinstance(call.out, np.ndarray) and np.may_share_memory(call.out, call.data):
        call = replace(call, out=None)
    if call.indices.dtype.kind in "iu":
        call = replace(call, indices=signed(call.indices))
    result = call.run()
    if not isinstance(result, _core.Refusal):
        _copy_parts(call, result)
    return result


def _copy_parts(call: Call, out: Array) -> None:
    """Copy the parts in data of windows that stick out, in one call per box of a window."""
    data, starts, window = call.data, call.indices, call.window_shape
    first, last = shared_parts(starts, data.shape[: len(window)], window)
    partly = ((first > 0) | (last < window)).any(axis=-1) & (first < last).all(axis=-1)
    if not partly.any():
        return
    positions, starts = np.argwhere(partly), starts[partly]
    both = np.concatenate([first[partly], last[partly]], axis=1)
    parts, part_of = np.unique(both, axis=0, return_inverse=True)
    part_of = part_of.ravel()  # NumPy 2.0 returns another shape
    order = np.argsort(part_of, kind="stable")
    borders = np.searchsorted(part_of[order], np.arange(1, len(parts)))
    elements = np.dtype(f"V{data.dtype.itemsize}")  # NumPy copies their bytes
    for (*part,), members in zip(parts.tolist(), np.split(order, borders), strict=True):
        low, high = part[: len(window)], part[len(window) :]
        shape = tuple(end - begin for begin, end in zip(low, high, strict=True))
        inside = replace(call, indices=starts[members] + low, window_shape=shape, fill_value=None)
        copied: Any = replace(inside, mode="raise", out=None).run()
        within = (*positions[members].T, *map(slice, low, high))
        out.view(elements)[within] = copied.view(elements)


def signed(starts: Array) -> Starts:
    """Return a copy of integers as int64, where larger ones become the largest."""
    if starts.dtype == np.uint64:
        starts = np.minimum(starts, np.uint64(np.iinfo(np.int64).max))
    return starts.astype(np.int64)


def shared_parts(
    starts: Starts, sizes: tuple[int, ...], window: tuple[int, ...]
) -> tuple[Starts, Starts]:
    """Return where the part in data of each window begins and ends in the window, on each axis."""
    wide, most = np.array(window, np.int64), np.array(sizes, np.int64)
    starts = np.clip(starts, -wide, most)
    return np.maximum(-starts, 0), np.minimum(most - starts, wide)


def view(data: Array, window: tuple[int, ...]) -> Array:
    """Return a view of all windows: its first axes are their starts, the others their elements."""
    depth = len(window)
    if data.dtype.kind == "T":
        data = data.astype(object)  # NumPy makes no such view of its strings
    starts = (max(size - wide + 1, 0) for size, wide in zip(data.shape, window, strict=False))
    shape = (*starts, *window, *data.shape[depth:])
    strides = (*data.strides[:depth], *data.strides)
    return np.lib.stride_tricks.as_strided(data, shape, strides, writeable=False)


def check(call: Call) -> None:
    """Raise the error of the shapes and starts of a gather of windows, and copy nothing."""
    check_shapes(call)
    empty = np.empty((*call.data.shape[: len(call.window_shape)], 0))
    refusal = replace(call, data=empty, fill_value=None, out=None).run()
    if isinstance(refusal, _core.Refusal):
        arguments.raise_error(call, refusal)


def check_shapes(call: Call) -> None:
    """Raise the error of the shapes of a gather of windows; sizes may be symbols."""
    caller, window = call.caller, call.window_shape
    data, starts = call.data.shape, call.indices.shape
    if not starts:
        raise messages.rank_too_low(caller, call.indices_name, starts, 1)
    if starts[-1] != len(window) or len(window) > len(data):
        raise messages.windows_do_not_fit(caller, data, starts, window)
    for axis, size in enumerate(window):
        if size > data[axis] and call.mode != "fill":
            raise messages.window_too_large(caller, axis, data, window)
