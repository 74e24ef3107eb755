"""What entries of indices name: a box of data, and a box of the array on the other side.

That array is the dense one: the result of a gather, the updates of a scatter. Only entries that are
drawn are traced, so that this costs the same for arrays of any size.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ndgather import dispatch, reference, slow_path
from ndgather.api import gather_nd, run
from ndgather.errors import DTypeError, NdgatherError
from ndgather.show.scene import State, within
from ndgather.slow_path import explain
from ndgather.stored import calls as stored_windows
from ndgather.stored.chunks import Grid, stand_in
from ndgather.stored.estimates import reader_of
from ndgather.stored.plan import Axes, axes_of, plan, with_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ndgather.array_call import Call
    from ndgather.stored.calls import WindowPlan
    from ndgather.stored.plan import Plan

    Array = NDArray[Any]


Region: TypeAlias = tuple[range, ...]  # one for each axis
Place: TypeAlias = tuple[int, ...]

# Entries that are drawn: so many at most, and of more of them so many.
_TUPLES, _WINDOWS, _INTEGERS = (16, 6), (6, 3), (30, 6)
MOST_ENTRIES = max(_TUPLES[0], _WINDOWS[0], _INTEGERS[0])
_OUTSIDE = {"fill": State.FILLED, "drop": State.DROPPED}


@dataclass(frozen=True, slots=True)
class IndexValue:
    """One integer of indices, the axis of data that it addresses, and the place that it names."""

    raw: int
    axis: int
    place: int | None
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """One entry of indices, a tuple or an integer, and what it names."""

    position: Place  # among the entries
    values: tuple[IndexValue, ...]
    state: State
    data: Region | None
    dense: Region


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The entries that are drawn, and the coordinates of them and of slices that are."""

    call: Call
    axes: Axes
    dense_shape: tuple[int, ...]
    entries: tuple[Named, ...]
    drawn: tuple[tuple[int, ...], ...]  # along each axis of the entries

    def entry_at(self, place: Place) -> Named:
        """Return the entry that an element of the dense array belongs to."""
        position = tuple(place[axis] for axis in self.axes.dense_positions)
        return next(entry for entry in self.entries if entry.position == position)

    def source(self, entry: Named, place: Place) -> Place | None:
        """Return which element of data meets the element of the dense array at a place."""
        if entry.data is None:
            return None
        found = [0] * self.call.data.ndim
        for axis, value in zip(self.axes.points, self._point(entry), strict=True):
            found[axis] = value
        for axis, other in zip(self.axes.slices, self.axes.dense_slices, strict=True):
            found[axis] = place[other]
        lead = len(entry.position)
        for axis in range(len(self.call.window_shape)):
            found[axis] += place[lead + axis]
        inside = all(0 <= at < size for at, size in zip(found, self.call.data.shape, strict=True))
        return tuple(found) if inside else None

    def _point(self, entry: Named) -> Place:
        return point(self.call, entry.position, [value.place or 0 for value in entry.values])


def entries_shape(call: Call) -> tuple[int, ...]:
    """Return the shape of indices, of which each entry is one element."""
    shape: tuple[int, ...] = call.indices.shape
    return shape if takes_integers(call) else shape[:-1]


def takes_integers(call: Call) -> bool:
    """Whether an entry is an integer, and not a tuple."""
    return call.kind in ("gather", "gather_elements", "scatter_elements")


def point(call: Call, position: Place, places: Sequence[int]) -> Place:
    """Return where an entry stands on the axes of data that positions fix (`Axes.points`)."""
    if call.kind == "gather_windows":
        return tuple(places)
    axis = int(call.axis) % max(call.data.ndim, 1)
    if call.kind.endswith("_elements"):
        return (*position[:axis], *places, *position[axis + 1 :])
    return (*position[: batch_dims(call)], *places)


def batch_dims(call: Call) -> int:
    """Return how many leading axes data and indices share."""
    if call.kind not in ("gather", "gather_nd"):
        return 0
    given = int(call.batch_dims)
    return given + call.indices.ndim if given < 0 else given


def traced(call: Call, dense_shape: tuple[int, ...], wanted: Place = ()) -> Trace:
    """Trace entries of a call whose shapes fit, the one at the position `wanted` among them."""
    lead = entries_shape(call)
    axes = _axes(call, len(lead))
    if takes_integers(call):
        most, some = _INTEGERS
    else:
        most, some = _WINDOWS if call.window_shape else _TUPLES
    drawn = within(
        lead, most if math.prod(lead) <= most else some, [(each,) for each in wanted[: len(lead)]]
    )
    entries = tuple(_named(call, axes, dense_shape, each) for each in itertools.product(*drawn))
    return Trace(call=call, axes=axes, dense_shape=dense_shape, entries=entries, drawn=drawn)


def _axes(call: Call, lead: int) -> Axes:
    if call.kind != "gather_windows":
        return axes_of(call)
    depth, rank = len(call.window_shape), call.data.ndim
    dense_slices = tuple(range(lead + depth, lead + rank))
    return Axes(tuple(range(depth)), tuple(range(depth, rank)), tuple(range(lead)), dense_slices)


def _named(call: Call, axes: Axes, dense_shape: tuple[int, ...], position: Place) -> Named:
    values = index_values(call, position)
    dense = [range(size) for size in dense_shape]
    for axis, at in zip(axes.dense_positions, position, strict=True):
        dense[axis] = range(at, at + 1)
    states = [value.state for value in values if value.state is not State.PLAIN]
    state = State.REFUSED if State.REFUSED in states else next(iter(states), State.PLAIN)
    found: Region | None = None
    if state is State.PLAIN:
        found = _data_region(call, axes, point(call, position, [_place(each) for each in values]))
        if call.window_shape and not all(found):
            state, found = State.FILLED, None
    return Named(position=position, values=values, state=state, data=found, dense=tuple(dense))


def _data_region(call: Call, axes: Axes, named: Place) -> Region:
    region = [range(size) for size in call.data.shape]
    sizes = call.window_shape or (1,) * len(named)
    for axis, begin, size in zip(axes.points, named, sizes, strict=True):
        region[axis] = range(max(begin, 0), max(min(begin + size, call.data.shape[axis]), 0))
    return tuple(region)


def _place(value: IndexValue) -> int:
    return 0 if value.place is None else value.place


def index_values(call: Call, position: Place) -> tuple[IndexValue, ...]:
    """Return the integers of an entry, and what they name."""
    entry: Any = call.indices[position]
    if takes_integers(call):
        return (_index_value(call, int(entry), int(call.axis) % call.data.ndim),)
    first = batch_dims(call)
    return tuple(_index_value(call, int(raw), first + j) for j, raw in enumerate(entry))


def _index_value(call: Call, raw: int, axis: int) -> IndexValue:
    size, mode = call.data.shape[axis], call.mode
    if call.window_shape:
        size = size - call.window_shape[axis] + 1
        if mode == "fill":
            return IndexValue(raw, axis, raw, State.PLAIN)
    counts_from_end = call.negative and not call.window_shape
    if raw < 0 and not counts_from_end and mode in ("raise", "fill", "drop"):
        return IndexValue(raw, axis, None, _OUTSIDE.get(mode, State.REFUSED))
    try:
        place = reference.resolve(raw, size, mode)
    except IndexError:
        return IndexValue(raw, axis, None, State.REFUSED)
    return IndexValue(raw, axis, place, State.PLAIN if place is not None else _OUTSIDE[mode])


_MOST_READ = 200  # elements of a stored array: all of them are drawn


@dataclass(frozen=True, slots=True, eq=False)
class Drawable:
    """An array; where it is not readable it stands in for one with its shape and dtype."""

    array: Array
    readable: bool = True
    grid: Grid | None = None  # of the chunks of a stored or lazy array


def data_of(call: Call) -> Drawable:
    """Return the data of a call.

    Raises
    ------
    NdgatherError
        It is not an array.
    """
    module = dispatch.adapter_name(call.data) or ""
    if module.startswith("ndgather.stored.") and not isinstance(call.data, np.memmap):
        return _stored(call)
    data = without_names(call.data)
    try:
        return Drawable(plain_or_masked(call.caller, "data", data))
    except DTypeError:
        dtype, shape = getattr(data, "dtype", None), getattr(data, "shape", None)
        if not isinstance(dtype, np.dtype) or not _is_shape(shape):
            raise
        return Drawable(stand_in(shape, dtype), False, _grid(data))  # type: ignore[arg-type]  # it is


def without_names(value: object) -> object:
    """Return the array of what names its axes, without reading one that is lazy."""
    module = "ndgather.arrays.xarray"
    if dispatch.adapter_name(value) != module:
        return value
    array: object = import_module(f"{module}.accessor").array_behind(value)
    return array


def plain_or_masked(caller: str, name: str, value: object) -> Array:
    """Return an argument as an array of NumPy, with its mask if it has one.

    Raises
    ------
    NdgatherError
        It is not an array.
    """
    if isinstance(value, np.ma.MaskedArray):
        return value
    return slow_path.plain_array(caller, name, value)


def _stored(call: Call) -> Drawable:
    reader = reader_of(call)
    if math.prod(reader.grid.shape) > _MOST_READ:
        array = with_data(call, reader.grid, reader.dtype).data
        return Drawable(array, False, reader.grid)
    whole = gather_nd(call.data, np.zeros((1, 0), np.int64))[0]
    return Drawable(whole, True, reader.grid)


def _is_shape(shape: object) -> bool:
    return isinstance(shape, tuple) and all(isinstance(size, int) for size in shape)


def _grid(data: object) -> Grid | None:
    """Return the grid of a lazy array whose chunks are listed for each axis, as dask has them."""
    chunks = getattr(data, "chunks", None)
    if isinstance(chunks, tuple) and all(isinstance(each, tuple) for each in chunks):
        return Grid.of_sizes(chunks)
    return None


_MOST_RUN = 2**22  # elements of a call that is carried out
_MOST_CHECKED = 2**24  # entries, or parts of windows: each takes some bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attempt:
    """A call with plain arrays, and what came of it.

    `data` of the call stands in for a stored array, whose chunks are those of `grid`; `readable`
    says whether values are there to be drawn. `dense_shape` is None where the shapes do not fit.
    `checked` is False where there are too many entries to look at all of them.
    """

    call: Call
    readable: bool
    grid: Grid | None
    dense_shape: tuple[int, ...] | None
    result: Array | None
    error: NdgatherError | None
    checked: bool = True


def attempted(call: Call) -> Attempt:
    """Convert the arrays of a call, and carry it out or check it.

    Raises
    ------
    NdgatherError
        An argument is not an array: there is nothing to draw.
    """
    given = replace(call, updates=without_names(call.updates))
    call, readable, grid = _with_plain_arrays(call)
    dense_shape, result, error = None, None, None
    checked = True
    try:
        dense_shape = _dense_shape(call)
        if readable and not _is_large(given, call, dense_shape):
            result = run(replace(call, updates=given.updates))
        else:
            if call.scatters:
                _check_updates(replace(call, updates=given.updates), dense_shape)
            checked = can_be_planned(call, grid)
            if checked:
                planned(call, grid)
    except NdgatherError as found:
        error = found
    return Attempt(
        call=call,
        readable=readable,
        grid=grid,
        dense_shape=dense_shape,
        result=result,
        error=error,
        checked=checked,
    )


def refused(call: Call, error: NdgatherError) -> Attempt:
    """Return the attempt of a call that its caller does not make."""
    call, readable, grid = _with_plain_arrays(call)
    return Attempt(
        call=call, readable=readable, grid=grid, dense_shape=None, result=None, error=error
    )


def can_be_planned(call: Call, grid: Grid | None) -> bool:
    """Whether the points of a call, or the parts of its windows, are few enough to be listed."""
    parts = math.prod(entries_shape(call))
    if grid is not None:
        pairs = zip(call.window_shape, grid.largest, strict=False)
        parts *= math.prod(-(-wide // max(chunk, 1)) + 1 for wide, chunk in pairs)
    return parts <= _MOST_CHECKED


def planned(call: Call, grid: Grid | None) -> Plan | WindowPlan:
    """Check a call, and group its points by the chunks of a grid: by none, all of data is one."""
    shape = call.data.shape
    grid = grid or Grid.regular(shape, shape)
    call = with_data(call, grid, call.data.dtype)
    if call.kind == "gather_windows":
        return stored_windows.plan_windows(call, grid)
    return plan(call, grid)


def _with_plain_arrays(call: Call) -> tuple[Call, bool, Grid | None]:
    drawable = data_of(call)
    indices, updates = without_names(call.indices), without_names(call.updates)
    indices = slow_path.native_indices(call.caller, indices, call.indices_name)
    if call.scatters:
        updates = plain_or_masked(call.caller, call.updates_name, updates)
    plain = replace(call, data=drawable.array, indices=indices, updates=updates)
    return plain, drawable.readable, drawable.grid


def _is_large(given: Call, call: Call, dense_shape: tuple[int, ...]) -> bool:
    """Whether a call reads more than is drawn of a mapped file, or takes long."""
    elements = max(math.prod(dense_shape), call.data.size if call.scatters else 0)
    return isinstance(given.data, np.memmap) or elements > _MOST_RUN


def _dense_shape(call: Call) -> tuple[int, ...]:
    if call.kind != "gather_windows":
        return slow_path.result_shape(call)
    slow_path.check_shapes(call)
    depth = len(call.window_shape)
    return (*call.indices.shape[:-1], *call.window_shape, *call.data.shape[depth:])


def _check_updates(call: Call, dense_shape: tuple[int, ...]) -> None:
    plain = slow_path.plain_scatter(call)
    if plain.updates.shape != dense_shape:
        facts = (call.data.shape, call.indices.shape, dense_shape, plain.updates.shape)
        raise explain(plain, ("updates_shape", (0, 0), *facts))
