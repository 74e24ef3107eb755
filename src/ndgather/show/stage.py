"""From an attempt to the scene: which panels there are, what is drawn of each, what is said."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather.errors import IndexOutOfBoundsError, NdgatherError
from ndgather.show import panels
from ndgather.show.resolve import can_be_planned, planned, takes_integers, traced
from ndgather.show.scene import Cell, Entry, Map, Panel, Scene, letter
from ndgather.stored.calls import WindowPlan
from ndgather.stored.chunks import Grid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from ndgather.show.panels import Mark
    from ndgather.show.resolve import Attempt, Place, Region, Trace
    from ndgather.show.scene import Part
    from ndgather.stored.plan import Plan

    Integers = NDArray[np.int64]
    Array = NDArray[Any]


_SQUARES = 24  # along each of two axes
_IN_A_ROW = 48  # along one axis


def read_map(attempt: Attempt, points: Sequence[int]) -> Iterator[Map]:
    """Yield the map of the entries that are in bounds, which name places on the axes `points`.

    There is none of a single place, and none of too many entries.
    """
    call, chunked = attempt.call, attempt.grid
    if call.mode == "raise":
        call = replace(call, mode="drop" if call.scatters else "fill")
    grid = chunked or _squares(call.data.shape, points)
    if not can_be_planned(call, grid):
        return
    with suppress(NdgatherError):  # where it is another error than that of an index
        made = planned(call, grid)
        axes, chunks, counts = _groups(made)
        if chunked is not None:
            about = f"{len(made.steps):,} of {math.prod(grid.counts):,} chunks are read"
        elif call.kind == "gather_windows":
            about = "how many windows meet a square"
        else:
            about = f"{int(counts.sum()):,} {'updates' if call.scatters else 'reads'} by place"
        yield from _map(grid, axes, chunks, counts, about, chunked is not None)


def _squares(shape: tuple[int, ...], points: Sequence[int]) -> Grid:
    """Return the grid of squares along the last two axes of `points`."""
    long = [axis for axis in points if shape[axis] > 1][-2:]
    most = _SQUARES if len(long) > 1 else _IN_A_ROW
    return Grid.regular(
        shape, [-(-size // most) if axis in long else size for axis, size in enumerate(shape)]
    )


def _groups(made: Plan | WindowPlan) -> tuple[tuple[int, ...], Integers, Integers]:
    """Return the axes of a grid, the numbers of its touched chunks, and how often each is."""
    if isinstance(made, WindowPlan):
        axes = tuple(range(len(made.call.window_shape)))
        chunks, first = made.parts.chunks, made.parts.first
        runs = made.parts.stops - made.parts.starts
    else:
        points = made.points
        axes, chunks, first = made.axes.points, points.chunks, points.first
        runs = points.stops - points.starts
    ends = np.concatenate(([0], np.cumsum(runs)))[first[: len(chunks) + 1]]
    return axes, chunks, np.diff(ends)


def _map(
    grid: Grid,
    axes: tuple[int, ...],
    chunks: Integers,
    counts: Integers,
    about: str,
    stored: bool,
) -> Iterator[Map]:
    along = grid.along(axes).counts
    long = [number for number, count in enumerate(along) if count > 1][-2:]
    if not long:
        return
    places = np.unravel_index(chunks, along)
    most = _SQUARES if len(long) > 1 else _IN_A_ROW
    widths = [-(-along[number] // most) for number in long]
    sizes = [-(-along[number] // width) for number, width in zip(long, widths, strict=True)]
    squares = np.zeros(sizes, np.int64)
    at: Any = tuple(places[number] // width for number, width in zip(long, widths, strict=True))
    np.add.at(squares, at, counts)
    rows = squares.reshape(-1, sizes[-1])
    names = [f"axis {axes[number]}" for number in long]
    where = f"down: {names[0]}, across: {names[1]}" if len(names) > 1 else f"across: {names[0]}"
    if stored:
        each = " x ".join(map(str, widths))
        unit = "a square is one chunk" if max(widths) == 1 else f"a square is {each} chunks"
    else:
        unit = f"a square is {_unit(grid, axes, long)}"
    others = [f"axis {axis}" for axis in axes if f"axis {axis}" not in names]
    if others:
        where = f"{where}, all of {', '.join(others)}"
    yield Map(
        name="where",
        about=about,
        counts=tuple(map(tuple, rows.tolist())),
        note=f"{where}; {unit}; darkest: {int(rows.max(initial=0)):,}",
    )


def _unit(grid: Grid, axes: tuple[int, ...], long: list[int]) -> str:
    sizes = [grid.steps[axes[number]] for number in long]
    if len(sizes) == 1:
        return f"{sizes[0]} in a row"
    return " x ".join(map(str, sizes))


def staged(attempt: Attempt, shape: tuple[int, ...] | None = None) -> Scene:
    """Return the scene of a call, whose caller may give a result another shape."""
    call = attempt.call
    can_be_traced = attempt.dense_shape is not None and call.indices.dtype.kind in "iu"
    stage = _Traced(attempt) if can_be_traced else _Untraced(attempt)
    parts = tuple(stage.parts())
    return Scene(
        title=panels.title(call),
        summary="; ".join(f"{part.name} {part.about}" for part in parts),
        parts=parts,
        entries=stage.entries(),
        notes=(*stage.notes(), *panels.of_shape(attempt, shape)),
        error=None if attempt.error is None else str(attempt.error),
    )


class _Untraced:
    """A call whose shapes or types do not fit: its arrays, and nothing that they name."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt, self.call = attempt, attempt.call

    def parts(self) -> Iterator[Part]:
        yield self.plain("data", self.call.data, self.attempt.readable)
        yield self.plain(self.call.indices_name, self.call.indices)
        if self.call.scatters:
            yield self.plain(self.call.updates_name, self.call.updates)

    def plain(self, name: str, array: Array, readable: bool = True) -> Panel:
        sheets, cell = panels.selected_of_array(array.shape), panels.cells_of_array(array, readable)
        return panels.array_panel(name, array.dtype, array.shape, sheets, cell)

    def entries(self) -> tuple[Entry, ...]:
        return ()

    def notes(self) -> tuple[str, ...]:
        return ()


class _Traced(_Untraced):
    """A call whose entries name something, or are refused one by one."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt)
        assert attempt.dense_shape is not None
        error = attempt.error
        wanted = error.position if isinstance(error, IndexOutOfBoundsError) else ()
        self.trace: Trace = traced(self.call, attempt.dense_shape, wanted)
        self.replaced = _replaced(self.trace)
        self.data_sheets = panels.of_data(self.trace, attempt.readable)

    def parts(self) -> Iterator[Part]:
        call, trace = self.call, self.trace
        yield self._data_panel("data", self.call.data, self.attempt.readable)
        if takes_integers(call):
            yield self._integers_panel()
        else:
            yield panels.tuples_panel(call.indices_name, call.indices.dtype, trace)
        if self.leaves_out or self.attempt.grid is not None:
            yield from read_map(self.attempt, trace.axes.points)
        if call.scatters:
            if call.updates.shape == trace.dense_shape:
                yield self._dense_panel(call.updates_name, panels.cells_of_array(call.updates))
            else:
                yield self.plain(call.updates_name, call.updates)
        yield self._result_panel()

    def _result_panel(self) -> Panel:
        result, call = self.attempt.result, self.call
        failed = self.attempt.error is not None
        note = "there is none: the call fails" if failed else ""
        if call.scatters:
            if not failed and result is None:
                note = "its values are not computed"
            shown = result if result is not None else call.data
            return self._data_panel("result", shown, result is not None, note)
        if result is not None:
            return self._dense_panel("result", panels.cells_of_array(result), note)
        return self._dense_panel("result", panels.of_gather(self.attempt, self.trace), note)

    @property
    def leaves_out(self) -> bool:
        """Whether some of data, or some entries, are not drawn."""
        some = bool(panels.entries_note(self.trace))
        return some or not panels.is_whole(self.data_sheets, self.call.data.shape)

    def _data_panel(self, name: str, array: Array, readable: bool, note: str = "") -> Panel:
        return panels.array_panel(
            name,
            array.dtype,
            array.shape,
            self.data_sheets,
            panels.cells_of_array(array, readable),
            self._marks([entry.data for entry in self.trace.entries], name == "result"),
            note,
        )

    def _dense_panel(self, name: str, cell: Callable[[Place], Cell], note: str = "") -> Panel:
        dtype = self.call.updates.dtype if self.call.scatters else self.call.data.dtype
        marks = self._marks([entry.dense for entry in self.trace.entries], name != "result")
        return panels.array_panel(
            name,
            dtype,
            self.trace.dense_shape,
            panels.selected_of_dense(self.trace),
            panels.cells_of_dense(self.trace, cell),
            marks,
            note,
        )

    def _integers_panel(self) -> Panel:
        trace, call = self.trace, self.call
        regions: list[Region | None] = [
            tuple(range(at, at + 1) for at in entry.position) for entry in trace.entries
        ]
        return panels.array_panel(
            "indices",
            call.indices.dtype,
            call.indices.shape,
            panels.of_entries(trace),
            panels.of_indices(trace),
            self._marks(regions),
            panels.entries_note(trace),
            lists_entries=True,
        )

    def _marks(self, regions: Sequence[Region | None], tells: bool = False) -> list[Mark]:
        return [
            (number, region, entry.state, tells and number in self.replaced)
            for number, (entry, region) in enumerate(zip(self.trace.entries, regions, strict=True))
            if region is not None
        ]

    def entries(self) -> tuple[Entry, ...]:
        return tuple(
            Entry(
                letter=letter(number),
                sentence=panels.of_entry(self.trace, entry),
                state=entry.state,
            )
            for number, entry in enumerate(self.trace.entries)
        )

    def notes(self) -> tuple[str, ...]:
        return (
            *panels.of_values(self.trace),
            *panels.of_repeats(self.trace),
            *panels.of_what_was_read(self.attempt),
        )


def _replaced(trace: Trace) -> set[int]:
    """Return the drawn entries of a scatter whose updates a later one replaces."""
    if not trace.call.scatters or trace.call.reduction != "none":
        return set()
    last = {entry.data: number for number, entry in enumerate(trace.entries)}
    return {
        number
        for number, entry in enumerate(trace.entries)
        if entry.data is not None and last[entry.data] != number
    }
