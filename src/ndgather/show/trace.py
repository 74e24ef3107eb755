"""What entries of indices name: a box of data, and a box of the array on the other side.

That array is the dense one: the result of a gather, the updates of a scatter. Only entries that are
drawn are traced, so that this costs the same for arrays of any size.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ndgather import reference
from ndgather.show.coordinates import within
from ndgather.show.scene import State
from ndgather.stored.plan import Axes, axes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndgather.array_call import Call

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
