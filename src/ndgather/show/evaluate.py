"""Evaluate a call, and determine which elements the entries of its indices address.

An entry of indices is an index tuple if ``call.kind.tuples`` is true, and otherwise an integer.
Each entry addresses a box of data and a box of the dense array, which is the result of a gather or
the updates of a scatter.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ndgather import arguments, exchange, slow_path, windows
from ndgather.api import gather_nd, run
from ndgather.array_call import Array, Call, replace
from ndgather.axes import Axes
from ndgather.errors import DTypeError, NdgatherError
from ndgather.stored.chunks import Grid, Reader, stand_in
from ndgather.stored.plan import make_plan, with_data

Position: TypeAlias = tuple[int, ...]
Region: TypeAlias = tuple[Sequence[int], ...]  # positions along each axis, in ascending order

# The maximum number of elements to read from a stored array and to compute in a call,
# and the maximum number of entries to check.
_MOST_READ, _MOST_RUN, _MOST_CHECKED = 200, 2**22, 2**22


class State(StrEnum):
    """The state of an element or of an entry of indices."""

    PLAIN = "plain"
    ABSENT = "absent"  # the value was neither read nor computed
    FILLED = "filled"
    DROPPED = "dropped"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation:
    """A call with its arguments converted to NumPy arrays, and its result or error.

    If `readable` is false, data stands in for a stored or lazy array of the same shape and dtype.
    `dense_shape` is None if the shapes are invalid.
    """

    call: Call
    readable: bool
    dense_shape: tuple[int, ...] | None = None
    result: Array | None = None
    error: NdgatherError | None = None
    notes: tuple[str, ...] = ()


def evaluate(call: Call, error: NdgatherError | None = None) -> Evaluation:
    """Run a call, or only check it if data is large or stored. If `error` is given, do neither."""
    data, readable, grid = _data(call)
    updates = _without_labels(call.updates)
    indices = arguments.native_indices(replace(call, indices=_without_labels(call.indices)))
    is_mapped = isinstance(call.data, np.memmap)
    array = updates
    if call.scatters:
        array = _numpy_array(call.caller, call.updates_name, updates)
    call = replace(call, data=data, indices=indices, updates=array)
    dense_shape = result = None
    notes: list[str] = []
    if error is None:
        try:
            dense_shape = slow_path.result_shape(call)
            size = max(math.prod(dense_shape), call.data.size if call.scatters else 0)
            call_with_updates = replace(call, updates=updates)
            if readable and not is_mapped and size <= _MOST_RUN:
                result = run(call_with_updates)
            else:
                notes += _check(call_with_updates, dense_shape, grid)
        except NdgatherError as raised:
            error = raised
    if not readable:
        notes.append("the picture has no values: nothing was read or computed")
    return Evaluation(
        call=call,
        readable=readable,
        dense_shape=dense_shape,
        result=result,
        error=error,
        notes=tuple(notes),
    )


def _data(call: Call) -> tuple[Array, bool, Grid | None]:
    """Return data as an array, a flag that is true if its values are readable, and its grid."""
    if exchange.store_of(call.data) is not None and not isinstance(call.data, np.memmap):
        reader: Reader = exchange.opened(call)
        if math.prod(reader.grid.shape) > _MOST_READ:
            return with_data(call, reader.grid, reader.dtype).data, False, reader.grid
        return gather_nd(call.data, np.zeros((1, 0), np.int64))[0], True, reader.grid
    data: Any = _without_labels(call.data)
    try:
        return _numpy_array(call.caller, "data", data), True, None
    except DTypeError:
        dtype, shape = getattr(data, "dtype", None), getattr(data, "shape", None)
        if not isinstance(dtype, np.dtype) or not isinstance(shape, tuple):
            raise
        chunks = getattr(data, "chunks", None)
        if isinstance(chunks, tuple) and all(isinstance(sizes, tuple) for sizes in chunks):
            return stand_in(shape, dtype), False, Grid.of_sizes(chunks)  # dask chunks
        return stand_in(shape, dtype), False, None


def shape_of(call: Call) -> tuple[int, ...]:
    return _data(call)[0].shape


def _without_labels(value: object) -> object:
    """Return the array in an xarray object, without computing a lazy array."""
    behind = getattr(exchange.adapter(value), "array_behind", None)
    return value if behind is None else behind(value)


def _numpy_array(caller: str, name: str, value: object) -> Array:
    if isinstance(value, np.ma.MaskedArray):
        return value
    return arguments.plain_array(caller, name, value)


def _check(call: Call, dense_shape: tuple[int, ...], grid: Grid | None) -> Iterable[str]:
    """Check a call without running it, and return notes for the picture."""
    if call.scatters:
        call = slow_path.plain_scatter(call)
        arguments.check_updates(call, call.updates.shape, dense_shape)
    else:
        call = arguments.checked(call, call.data.dtype)
    if math.prod(entries_shape(call)) > _MOST_CHECKED:
        return ["there are too many entries to check: only those in the picture were checked"]
    chunks = grid or Grid.regular(call.data.shape, call.data.shape)
    steps = len(make_plan(with_data(call, chunks, call.data.dtype), chunks))
    if grid is None:
        return []
    return [f"the call reads {steps:,} of {math.prod(chunks.counts):,} chunks"]


# If there are more entries than the first number of a pair, only the second number is drawn.
_TUPLES, _WINDOWS, _INTEGERS = (16, 6), (6, 3), (30, 6)
MOST_ENTRIES = max(_TUPLES[0], _WINDOWS[0], _INTEGERS[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of indices; if it addresses no element, its `start` and `data` are None."""

    position: Position  # its position in indices
    values: tuple[int, ...]
    coordinates: tuple[int | None, ...]  # normalized values, or None for an out-of-bounds value
    state: State
    start: Position | None  # the first element of `data`, along the axes `Axes.points`
    data: Region | None
    dense: Region


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnEntries:
    """The entries of indices that a picture shows."""

    call: Call
    axes: Axes
    dense_shape: tuple[int, ...]
    coordinates: tuple[tuple[int, ...], ...]
    entries: tuple[Entry, ...]  # the entries at all combinations of coordinates

    def entry_at(self, place: Position) -> Entry:
        position = tuple(place[axis] for axis in self.axes.positions)
        return next(entry for entry in self.entries if entry.position == position)

    def source(self, entry: Entry, place: Position) -> Position | None:
        """Return a dense element's position in data, or None if the position is out of bounds."""
        if entry.start is None:
            return None
        slices = [place[axis] for axis in self.axes.dense_slices]
        source = [*self.axes.in_data(entry.start, slices)]
        for axis, mode in enumerate(self.call.modes):
            size, wide = self.call.data.shape[axis], self.call.window_shape[axis]
            starts = windows.near(mode, np.array([source[axis]]), size, wide)
            at = windows.positions(mode, starts + place[self.axes.window[axis]], size)
            source[axis] = int(at[0])
        pairs = zip(source, self.call.data.shape, strict=True)
        return tuple(source) if all(0 <= at < size for at, size in pairs) else None


def entries_shape(call: Call) -> tuple[int, ...]:
    shape: tuple[int, ...] = call.indices.shape
    return shape[:-1] if call.kind.tuples else shape


def batch_dims(call: Call) -> int:
    dims = int(call.batch_dims)
    return dims + call.indices.ndim if dims < 0 else dims


def resolve_entries(
    call: Call, dense_shape: tuple[int, ...], wanted: Position = ()
) -> DrawnEntries:
    """Choose the entries to draw, including the entry at `wanted`, and resolve them."""
    shape = entries_shape(call)
    most, fewer = _TUPLES if call.kind.tuples else _INTEGERS
    if call.window_shape:
        most, fewer = _WINDOWS
    limit = most if math.prod(shape) <= most else fewer
    coordinates = some_coordinates(shape, limit, [(at,) for at in wanted[: len(shape)]])
    axes = Axes.of(call, call.data.ndim, call.indices.shape)
    return DrawnEntries(
        call=call,
        axes=axes,
        dense_shape=dense_shape,
        coordinates=coordinates,
        entries=tuple(
            _entry(call, axes, dense_shape, position)
            for position in itertools.product(*coordinates)
        ),
    )


def _entry(call: Call, axes: Axes, dense_shape: tuple[int, ...], position: Position) -> Entry:
    entry: Any = call.indices[position]
    values = tuple(entry.tolist()) if call.kind.tuples else (int(entry),)
    coordinates = tuple(map(partial(_coordinate, call), values, axes.indexed))
    start = data = None
    if None not in coordinates:
        start = axes.point(position, coordinates)
        region: list[Sequence[int]] = [range(size) for size in call.data.shape]
        sizes = call.window_shape or (1,) * len(start)
        modes = call.modes or ("",) * len(start)
        for axis, begin, wide, mode in zip(axes.points, start, sizes, modes, strict=True):
            size = call.data.shape[axis]
            near = windows.near(mode, np.array([begin]), size, wide) if mode else begin
            at = windows.positions(mode, near + np.arange(wide), size)
            region[axis] = tuple(np.unique(at[(at >= 0) & (at < size)]).tolist())
        data = tuple(region)
        if call.window_shape and not all(data):
            start = data = None
    dense = [range(size) for size in dense_shape]
    for axis, at in zip(axes.positions, position, strict=True):
        dense[axis] = range(at, at + 1)
    return Entry(
        position=position,
        values=values,
        coordinates=coordinates,
        state=outside_state(call) if data is None else State.PLAIN,
        start=start,
        data=data,
        dense=tuple(dense),
    )


def outside_state(call: Call) -> State:
    if call.fills and not call.raises:
        return State.FILLED
    return State.DROPPED if call.mode == "drop" else State.ERROR


def _coordinate(call: Call, raw: int, axis: int) -> int | None:
    """Normalize an index value for an axis of data; return None if it is out of bounds."""
    size: int = call.data.shape[axis]
    if call.kind.windows:
        mode, wide = call.modes[axis], call.window_shape[axis]
        if mode in ("clip", "raise"):
            begin = int(windows.near("clip", np.array([raw]), size, wide)[0])
            return begin if mode == "clip" or begin == raw else None
        return raw  # in other modes, windows may extend past the axis
    if call.mode == "wrap" and size:
        return raw % size
    if call.mode == "clip" and size:
        return min(max(raw, 0), size - 1)
    lowest = -size if call.negative else 0
    return raw % size if lowest <= raw < size else None


def chosen(size: int, most: int, wanted: Iterable[int] = ()) -> tuple[int, ...]:
    """Choose at most `most` coordinates of an axis, and return them in ascending order.

    The first and last coordinates have the highest priority, followed by wanted coordinates.
    """
    if size <= most:
        return tuple(range(size))
    first = dict.fromkeys((0, size - 1, *(at for at in wanted if 0 <= at < size), *range(most)))
    return tuple(sorted(list(first)[:most]))


def some_coordinates(
    shape: Sequence[int], most: int, wanted: Sequence[Iterable[int]] = ()
) -> tuple[tuple[int, ...], ...]:
    """Choose coordinates along each axis, so that there are at most `most` combinations."""
    limits = [min(size, most) for size in shape]
    while math.prod(limits) > most and max(limits, default=0) > 1:
        limits[limits.index(max(limits))] -= 1
    return tuple(map(chosen, shape, limits, wanted or [()] * len(limits)))
