"""What is written in the cells of a panel: values, and what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgather.show.scene import Cell, State
from ndgather.show.values import written

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ndgather.show.attempt import Attempt
    from ndgather.show.trace import IndexValue, Place, Trace

    Array = NDArray[Any]


def of_array(array: Array, readable: bool = True) -> Callable[[Place], Cell]:
    """Return what writes the elements of an array."""
    if not readable:
        return lambda _: Cell("", State.ABSENT)
    return lambda place: Cell(written(array[place]))


def of_gather(attempt: Attempt, trace: Trace) -> Callable[[Place], Cell]:
    """Return what writes elements of a result that was not computed, from those of data."""
    data, failed = attempt.call.data, attempt.error is not None

    def cell(place: Place) -> Cell:
        source = trace.source(trace.entry_at(place), place)
        if source is None:
            return Cell("", State.REFUSED if failed else State.FILLED)
        if failed or not attempt.readable:
            return Cell("", State.ABSENT)
        return Cell(written(data[source]))

    return cell


def of_dense(trace: Trace, cell: Callable[[Place], Cell]) -> Callable[[Place], Cell]:
    """Return what writes elements as `cell` does, and tells those that no element of data meets."""

    def told(place: Place) -> Cell:
        entry, found = trace.entry_at(place), cell(place)
        if found.state is not State.PLAIN or trace.source(entry, place) is not None:
            return found
        return Cell(found.text, entry.state if entry.data is None else State.FILLED)

    return told


def of_index(value: IndexValue) -> Cell:
    """Write an integer of indices, and what it becomes."""
    if value.state is State.FILLED:
        return Cell(f"{value.raw}→fill", State.FILLED)
    if value.state is State.DROPPED:
        return Cell(f"{value.raw}→drop", State.DROPPED)
    if value.state is State.REFUSED or value.place == value.raw:
        return Cell(str(value.raw), value.state)
    return Cell(f"{value.raw}→{value.place}")


def of_indices(trace: Trace) -> Callable[[Place], Cell]:
    """Return what writes the integers of indices that hold one for each entry."""
    known = {entry.position: entry.values[0] for entry in trace.entries}
    return lambda place: of_index(known[place])
