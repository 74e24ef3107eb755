"""Index arithmetic, views and gathers for windows, which may extend past the bounds.

In modes ``edge`` and ``reflect``, a gather from a stored array first reads the positions of each
window in order, without repetition. The function `arrange` then repeats and mirrors the elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ndgather import arguments, messages
from ndgather.array_call import Array, Call, Kind, _core, replace, with_padding

Starts: TypeAlias = NDArray[np.int64]

LARGEST = int(np.iinfo(np.int64).max)
_ARRANGED = 2**24  # maximum size of a block of windows or indices, in bytes
_CONTINUED = 8  # extending data by 8 elements is as fast as gathering 1 element by index


class NumPyLibrary:
    """The NumPy operations that `near` and `positions` need. See `arrays.lowering.Library`."""

    where = staticmethod(np.where)

    @staticmethod
    def clip(values: Starts, lowest: int, highest: int) -> Starts:
        """Clip values, three times as fast as `numpy.clip` for small arrays."""
        return np.minimum(np.maximum(values, lowest), highest)

    @staticmethod
    def integers(indices: Array, modulus: int | None) -> Starts:
        """Return indices as int64, reduced modulo `modulus` or, if `modulus` is None, clipped."""
        if indices.dtype == np.uint64:
            most = np.uint64(LARGEST)
            indices = np.minimum(indices, most) if modulus is None else indices % np.uint64(modulus)
        values = indices.astype(np.int64)
        return values if modulus is None else values % modulus


def near(mode: str, starts: Any, size: Any, wide: int, library: Any = NumPyLibrary) -> Any:
    """Return starts moved close to the axis, as int64; the elements of windows do not change.

    Adding a position within a window to the new starts cannot overflow. For windows of size 2 on an
    axis of size 5, the starts -9, -1, 3 and 9 become::

        clip        0    0    3    3    moved so that the window is inside
        fill, edge -2   -1    3    5    just before or after the axis
        wrap        1    4    3    4    modulo 5
        reflect     7    7    3    1    modulo 8, the period of 0 1 2 3 4 3 2 1
    """
    if mode in ("wrap", "reflect"):
        return library.integers(starts, _period(mode, size, library))
    lowest, highest = (-wide, size) if mode in ("fill", "edge") else (0, size - wide)
    if isinstance(highest, int):  # symbolic sizes are not clipped
        highest = max(highest, 0)
    return library.clip(library.integers(starts, None), lowest, highest)


def _period(mode: str, size: Any, library: Any) -> Any:
    """Return the period with which an axis repeats in mode wrap or reflect, which is at least 1."""
    period = size if mode == "wrap" else 2 * size - 2
    if isinstance(period, int):
        return max(period, 1)
    return period if mode == "wrap" else library.clip(period, 1, LARGEST)


def reach(mode: str, starts: Starts, size: int, wide: int) -> tuple[Starts, Starts]:
    """Return the lowest and highest positions that each window needs on an axis.

    On an axis of size 4, a window of size 3 that starts at 2 has the positions 2, 3 and 2 in mode
    ``reflect`` and 2, 3 and 3 in mode ``edge``. In both modes, the function returns 2 and 3.
    """
    last = starts + wide - 1
    if mode == "edge":
        return starts.clip(0, size - 1), last.clip(0, size - 1)
    # On an axis of size 5, mode reflect reads 0 1 2 3 4 3 2 1 0 1 2 ... with period 8.
    # A window from 3 to 7 reads 3 4 3 2 1, so its lowest position is 8 - 7 = 1.
    end, period = size - 1, max(2 * size - 2, 1)
    first = np.where(last > end, np.minimum(starts, period - last), starts)
    first[last >= period] = 0  # windows that extend past the period include position 0
    turned = ((starts <= end) & (last >= end)) | (last >= period + end)
    # A window from 6 to 9 reads 2 1 0 1, so its highest position is max(8 - 6, 9 - 8) = 2.
    reached = np.where(last < end, last, np.maximum(period - starts, last - period))
    return first, np.where(turned, end, reached)


def positions(mode: str, at: Any, size: Any, library: Any = NumPyLibrary) -> Any:
    """Map out-of-bounds positions to positions on the axis, as the mode specifies.

    Mode ``fill`` does not change positions. On an axis of size 4, position 6 becomes 2 in mode
    ``wrap``, 3 in mode ``edge`` and 0 in mode ``reflect``.
    """
    if isinstance(size, int) and size == 0:
        return at  # there are no windows
    if mode == "edge":
        return library.clip(at, 0, size - 1)
    if mode not in ("wrap", "reflect"):
        return at
    period = _period(mode, size, library)
    at = at % period
    return at if mode == "wrap" else library.where(at < size, at, period - at)


def arrange(call: Call, sizes: Sequence[int], dense: Array) -> None:
    """Rearrange the elements read for windows in modes ``edge`` and ``reflect``, in place.

    The shape of `dense` is ``call.indices.shape[:-1]`` followed by the shape of a window. For
    example, a window of size 4 that starts at -1 has the positions 1, 0, 1 and 2 in mode
    ``reflect``. Before this call, `dense` contains only the elements at positions 0, 1 and 2.
    """
    lead = call.indices.shape[:-1]
    starts = call.indices.reshape(math.prod(lead), len(call.window_shape))
    dense = with_padding(dense)
    if not lead:
        lead, dense = (1,), dense[np.newaxis]
    window_bytes = math.prod(dense.shape[len(lead) :]) * dense.dtype.itemsize
    step = max(1, _ARRANGED // max(window_bytes, 1))
    for axis, mode in enumerate(call.modes):
        size, wide = sizes[axis], call.window_shape[axis]
        if mode not in ("edge", "reflect") or not wide:
            continue
        at = near(mode, starts[:, axis], size, wide)
        outside = np.flatnonzero((at < 0) | (at > size - wide))
        if not len(outside):
            continue
        # Group windows by start, because those with the same start are rearranged in the same way.
        begins, kind = np.unique(at[outside], return_inverse=True)
        outside = outside[np.argsort(kind, kind="stable")]
        ends = np.cumsum(np.bincount(kind, minlength=len(begins)))
        for begin, members in zip(begins, np.split(outside, ends[:-1]), strict=True):
            first, _ = reach(mode, begin[np.newaxis], size, wide)
            taken = positions(mode, begin + np.arange(wide), size)
            taken -= first.clip(0, max(size - wide, 0))  # relative to the first position read
            for some in (members[n : n + step] for n in range(0, len(members), step)):
                where = np.unravel_index(some, lead)
                dense[where] = dense[where].take(taken, axis=axis + 1)


def gather_windows(call: Call) -> Array | _core.Refusal:
    """Gather windows in any mode.

    The core only copies windows that are within the bounds of data. If windows extend past the
    bounds, data is first extended to the bounding box of all windows, as ``numpy.pad`` would do. If
    the box is much larger than the windows that extend past the bounds, these windows are gathered
    element by element instead.
    """
    if call.mode in ("raise", "clip"):
        return call.run()
    # Copy the starts, which another thread could change between the check and the gather.
    call = replace(call, indices=call.indices.copy())
    check(call)
    window, count = call.window_shape, math.prod(call.indices.shape[:-1])
    sizes = call.data.shape[: len(window)]
    given = call.indices.reshape(count, len(window))
    # Columns, because NumPy finds the minimum of a contiguous column ten times as fast.
    flat = np.empty((len(window), count), np.int64).T
    for axis, (mode, size, wide) in enumerate(zip(call.modes, sizes, window, strict=True)):
        flat[:, axis] = near(mode, given[:, axis], size, wide)
    starts = flat.reshape(call.indices.shape)
    whole = replace(call, indices=starts, mode="fill")  # out-of-bounds windows are filled
    if not count or 0 in window:
        return whole.run()
    low, high = np.minimum.reduce(flat), np.maximum.reduce(flat)
    covered = [
        (first, last + wide)
        for first, last, wide in zip(low.tolist(), high.tolist(), window, strict=True)
    ]
    if all(first >= 0 and end <= size for (first, end), size in zip(covered, sizes, strict=True)):
        return whole.run()
    # Do not build a box that is much larger than the windows.
    # For two 2x2 windows at opposite corners of a 1000x1000 image, the box has 10**6 elements.
    box = math.prod(end - first for first, end in covered)
    if box > max(_CONTINUED, count) * math.prod(window):
        outside = np.flatnonzero(((flat < 0) | (flat > np.subtract(sizes, window))).any(axis=1))
        if box > _CONTINUED * math.prod(window) * len(outside):
            result = whole.run()
            if not isinstance(result, _core.Refusal):
                _copy_elements(call, flat, outside, result)
            return result
    return replace(whole, data=_continued(call, covered), indices=starts - low).run()


def _continued(call: Call, covered: Sequence[tuple[int, int]]) -> Array:
    """Return the box `covered`, extending data past the bounds as the mode of each axis says."""
    data: Array = call.data
    for axis, (mode, (first, end)) in enumerate(zip(call.modes, covered, strict=True)):
        size, begin, stop = data.shape[axis], 0, data.shape[axis]
        sticks_out = first < 0 or end > size
        if not sticks_out:
            begin, stop = first, end
        elif mode not in ("wrap", "reflect"):
            begin, stop = max(min(first, size - 1), 0), max(min(end, size), 1)
        data = data[(*(slice(None),) * axis, slice(begin, stop))]
        if sticks_out:
            at = positions(mode, np.arange(first, end), size) - begin
            data = _gather_axis(call, data, axis, at)
    return data


def _gather_axis(call: Call, data: Array, axis: int, at: Array) -> Any:
    """Gather slices of data along an axis. Slices at out-of-bounds positions are filled."""
    taken = replace(
        call,
        kind=Kind.GATHER,
        data=data,
        indices=at,
        axis=axis,
        mode="fill",
        out=None,
        window_shape=(),
        negative=False,
    )
    return taken.run()


def _copy_elements(call: Call, starts: Starts, chosen: Starts, out: Array) -> None:
    """Copy the windows in `chosen` to `out` element by element, one block of windows at a time."""
    lead, window = call.indices.shape[:-1], call.window_shape
    step = max(1, _ARRANGED // (8 * len(window) * math.prod(window)))
    by_element = replace(call, kind=Kind.GATHER_ND, mode="fill", negative=False, out=None)
    for some in (chosen[n : n + step] for n in range(0, len(chosen), step)):
        at = np.empty((len(some), *window, len(window)), np.int64)
        for axis, (mode, wide) in enumerate(zip(call.modes, window, strict=True)):
            along = starts[some, axis, np.newaxis] + np.arange(wide)
            along = positions(mode, along, call.data.shape[axis])
            shape = [len(some), *(1,) * len(window)]
            shape[axis + 1] = wide
            at[..., axis] = along.reshape(shape)
        taken: Any = replace(by_element, indices=at, window_shape=()).run()
        where: Any = np.unravel_index(some, lead) if lead else ()
        with_padding(out)[where] = with_padding(taken)


def view(data: Array, window: tuple[int, ...]) -> Array:
    """Return a view of all windows, with the axes of starts before the axes within a window."""
    depth = len(window)
    if data.dtype.kind == "T":
        data = data.astype(object)  # NumPy cannot create strided views of variable-width strings
    starts = (max(size - wide + 1, 0) for size, wide in zip(data.shape, window, strict=False))
    shape = (*starts, *window, *data.shape[depth:])
    strides = (*data.strides[:depth], *data.strides)
    return np.lib.stride_tricks.as_strided(data, shape, strides, writeable=False)


def check(call: Call) -> None:
    """Raise an error if the shapes or starts of a gather of windows are invalid."""
    check_shapes(call)
    modes, window, shape = call.modes, call.window_shape, call.data.shape
    # With slices of size 0, the core validates the starts but has nothing to copy.
    empty, starts = np.empty((*shape[: len(window)], 0)), arguments.native_indices(call)
    others = [axis for axis, mode in enumerate(modes) if mode != "raise"]
    mode = "fill" if others else "raise"  # in mode "fill", only types and sizes are checked
    call = replace(call, data=empty, indices=starts, mode=mode, fill_value=None, out=None)
    _raise_refusal(call, shape)
    if 0 < len(others) < len(modes):
        # Only axes in mode "raise" are checked, so other axes get short windows that start at 0.
        starts = starts.copy()
        starts[..., others] = 0
        pairs = zip(modes, window, shape, strict=False)
        window = tuple(wide if mode == "raise" else min(wide, size) for mode, wide, size in pairs)
        _raise_refusal(replace(call, indices=starts, mode="raise", window_shape=window), shape)


def _raise_refusal(call: Call, data: Sequence[int]) -> None:
    """Raise an error if the core refuses the call; the error reports `data` as the data shape."""
    refusal = call.run()
    if isinstance(refusal, _core.Refusal):
        arguments.raise_error(call, _core.Refusal((*refusal[:2], data, *refusal[3:])))


def result_shape(call: Call) -> tuple[int, ...]:
    window = call.window_shape
    return (*call.indices.shape[:-1], *window, *call.data.shape[len(window) :])


def check_shapes(call: Call) -> None:
    """Raise an error if the shapes of a gather of windows do not match. Sizes may be symbolic."""
    caller, window = call.caller, call.window_shape
    data, starts = call.data.shape, call.indices.shape
    if not starts:
        raise messages.rank_too_low(caller, call.indices_name, starts, 1, messages.TUPLES)
    if starts[-1] != len(window) or len(window) > len(data):
        raise messages.windows_do_not_fit(caller, data, starts, window)
    for axis, (mode, size) in enumerate(zip(call.modes, window, strict=True)):
        if size > data[axis] and (
            mode in ("raise", "clip") or (mode != "fill" and data[axis] == 0)
        ):
            raise messages.window_too_large(caller, axis, data, window)
