"""Gathers of windows: a box of data from each start, as one plan of the engine.

Where windows may begin are the first axes of one strided view of data, what they hold are the
others: slices of that view are windows. Only those that stick out, in mode fill, are put together
here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather.errors import shape_errors
from ndgather.explain import explain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgather.array_call import Call, Refusal

    Array = NDArray[Any]
    Starts = NDArray[np.int64]

MODES = ("raise", "clip", "fill")


def run(call: Call) -> Array | Refusal:
    """Make a call with plain arrays; return the result, or why the core refuses it."""
    check_shapes(call)
    if call.mode != "fill":
        return _copy_whole(call)
    if isinstance(call.out, np.ndarray) and np.may_share_memory(call.out, call.data):
        return ("out_overlaps_input", (0, 0), (), (), (), ())
    if call.indices.dtype.kind in "iu":
        call = replace(call, indices=signed(call.indices))
    result = _copy_whole(call)
    if not isinstance(result, tuple):
        _copy_parts(call, result)
    return result


def check_shapes(call: Call) -> None:
    """Raise the error of shapes that do not fit, if there is one."""
    caller, window = call.caller, call.window_shape
    data, starts = call.data.shape, call.indices.shape
    if not starts:
        raise shape_errors.rank_too_low(caller, call.indices_name, starts, 1)
    if starts[-1] != len(window) or len(window) > len(data):
        raise shape_errors.windows_do_not_fit(caller, data, starts, window)
    for axis, size in enumerate(window):
        if size > data[axis] and call.mode != "fill":
            raise shape_errors.window_too_large(caller, axis, data, window)


def check(call: Call) -> None:
    """Raise the error of the shapes and starts of a call, if there is one; copy no window."""
    check_shapes(call)
    places = np.broadcast_to(np.uint8(0), _begins(call.data.shape, call.window_shape))
    bare = replace(call, kind="gather_nd", data=places, fill_value=None, out=None, negative=False)
    refusal = bare.run()
    if isinstance(refusal, tuple):
        raise explain(call, refusal)


def signed(starts: Array) -> Starts:
    """Return a copy of integers as int64; those beyond it become the largest."""
    if starts.dtype == np.uint64:
        starts = np.minimum(starts, np.uint64(np.iinfo(np.int64).max))
    return starts.astype(np.int64)


def _begins(shape: tuple[int, ...], window: tuple[int, ...]) -> tuple[int, ...]:
    """Return at how many positions a window may begin, on each axis."""
    pairs = zip(shape, window, strict=False)
    return tuple(max(size - wide + 1, 0) for size, wide in pairs)


def view(data: Array, window: tuple[int, ...]) -> Array:
    """Return a view: its first axes are where a window may begin, its others those of a window."""
    depth = len(window)
    if data.dtype.kind == "T":
        data = data.astype(object)  # NumPy makes no such view of its own strings
    shape = (*_begins(data.shape, window), *window, *data.shape[depth:])
    strides = (*data.strides[:depth], *data.strides)
    return np.lib.stride_tricks.as_strided(data, shape, strides, writeable=False)


def _copy_whole(call: Call) -> Array | Refusal:
    """Gather the windows that do not stick out; in mode fill the others are filled."""
    try:
        data = view(call.data, call.window_shape)
    except (ValueError, OverflowError):  # more axes or more bytes than an array can have
        raise shape_errors.too_many_windows(
            call.caller, call.data.shape, call.window_shape
        ) from None
    return replace(call, kind="gather_nd", data=data, negative=False).run()


def shared_parts(
    starts: Starts, sizes: tuple[int, ...], window: tuple[int, ...]
) -> tuple[Starts, Starts]:
    """Return where, within each window, its part of data begins and ends, on each axis."""
    wide, most = np.array(window, np.int64), np.array(sizes, np.int64)
    starts = np.clip(starts, -wide, most)
    return np.maximum(-starts, 0), np.minimum(most - starts, wide)


def _copy_parts(call: Call, out: Array) -> None:
    """Copy what windows that stick out share with data; those that lose as much are one call."""
    data, starts, window = call.data, call.indices, call.window_shape
    first, last = shared_parts(starts, data.shape[: len(window)], window)
    partly = ((first > 0) | (last < window)).any(axis=-1) & (first < last).all(axis=-1)
    if not partly.any():
        return
    positions, starts = np.argwhere(partly), starts[partly]
    both = np.concatenate([first[partly], last[partly]], axis=1)
    parts, part_of = np.unique(both, axis=0, return_inverse=True)
    part_of = part_of.ravel()  # NumPy 2.0 gives it an axis more
    order = np.argsort(part_of, kind="stable")
    borders = np.searchsorted(part_of[order], np.arange(1, len(parts)))
    elements = np.dtype(f"V{data.dtype.itemsize}")  # NumPy copies them as they are
    for (*part,), members in zip(parts.tolist(), np.split(order, borders), strict=True):
        low, high = part[: len(window)], part[len(window) :]
        shape = tuple(end - begin for begin, end in zip(low, high, strict=True))
        inside = replace(call, indices=starts[members] + low, window_shape=shape, fill_value=None)
        copied: Any = _copy_whole(replace(inside, mode="raise", out=None))
        within = (*positions[members].T, *map(slice, low, high))
        out.view(elements)[within] = copied.view(elements)
