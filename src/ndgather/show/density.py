"""Where the reads or writes of all entries go: counts by square of data, or by chunk."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather.errors import NdgatherError
from ndgather.show.attempt import can_be_planned, planned
from ndgather.show.scene import Map
from ndgather.stored.chunks import Grid
from ndgather.stored.windows import WindowPlan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ndgather.show.attempt import Attempt
    from ndgather.stored.plan import Plan

    Integers = NDArray[np.int64]

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
