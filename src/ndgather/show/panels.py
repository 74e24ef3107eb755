"""An array as a panel: its planes, the cells that are drawn of it, and a box for each entry."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

from ndgather.errors.shape_errors import shown
from ndgather.show.cells import of_index
from ndgather.show.coordinates import with_gaps
from ndgather.show.scene import Box, Cell, Panel, Plane, State
from ndgather.show.trace import entries_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ndgather.show.selection import Sheet, Sheets
    from ndgather.show.trace import Named, Place, Region, Trace

    Mark: TypeAlias = tuple[int, Region, State, bool]  # an entry, and what it names in an array


def about(dtype: object, shape: Sequence[int]) -> str:
    return f"{dtype} {shown(shape)}"


def array_panel(
    name: str,
    dtype: object,
    shape: Sequence[int],
    sheets: Sheets,
    cell: Callable[[Place], Cell],
    marks: Sequence[Mark] = (),
    note: str = "",
    lists_entries: bool = False,
) -> Panel:
    """Return the panel of an array, of which some planes are drawn."""
    planes = tuple(_plane(name, sheet, shape, cell, marks) for sheet in sheets)
    if 0 in shape:
        planes, note = (), note or "no elements"
    count = math.prod(shape[: len(sheets[0].head)]) if sheets else 0
    if not note and len(planes) < count:
        note = f"{len(planes)} of {count:,} planes"
    return Panel(
        name=name,
        about=about(dtype, shape),
        planes=planes,
        note=note,
        lists_entries=lists_entries,
    )


def _plane(
    name: str,
    sheet: Sheet,
    shape: Sequence[int],
    cell: Callable[[Place], Cell],
    marks: Sequence[Mark],
) -> Plane:
    head, depth = sheet.head, len(sheet.head)
    # A missing axis of rows or columns has one row, or column, without a label.
    axes = [with_gaps(each, size) for each, size in zip(sheet.flat, shape[depth:], strict=True)]
    rows, columns = [(-1,)] * (2 - len(axes)) + axes
    cells = tuple(
        tuple(
            None
            if row is None or column is None
            else cell((*head, *(at for at in (row, column) if at >= 0)))
            for column in columns
        )
        for row in rows
    )
    boxes = tuple(
        box for mark in marks if (box := _box(mark, head, rows, columns, len(axes))) is not None
    )
    heading = f"{name}[{', '.join(map(str, head))}]" if depth else ""
    return Plane(
        heading=heading, rows=_labels(rows), columns=_labels(columns), cells=cells, boxes=boxes
    )


def _labels(coordinates: Sequence[int | None]) -> tuple[str | None, ...]:
    return tuple(None if at is None else "" if at < 0 else str(at) for at in coordinates)


def _box(
    mark: Mark,
    head: Place,
    rows: Sequence[int | None],
    columns: Sequence[int | None],
    rank: int,
) -> Box | None:
    entry, region, state, replaced = mark
    if not all(at in each for at, each in zip(head, region, strict=False)):
        return None
    ranges = [range(-1, 0)] * (2 - rank) + list(region[len(head) :])
    spans = [
        [number for number, at in enumerate(axis) if at is not None and at in each]
        for axis, each in zip((rows, columns), ranges, strict=True)
    ]
    if not all(spans):
        return None
    (top, *_, bottom), (left, *_, right) = ([*span, span[-1]] for span in spans)
    return Box(
        entry=entry, rows=(top, bottom), columns=(left, right), state=state, replaced=replaced
    )


def tuples_panel(name: str, dtype: object, trace: Trace) -> Panel:
    """Return the panel of indices that hold tuples: a row for each tuple that is drawn."""
    call = trace.call
    entries = trace.entries
    axes = [value.axis for value in entries[0].values] if entries else []
    lead = call.indices.shape[:-1]
    rows: list[str | None] = []
    cells: list[tuple[Cell | None, ...]] = []
    boxes = []
    columns = tuple(f"axis {axis}" for axis in axes) or ("",)
    for number, entry in enumerate(entries):
        if number and not _follows(entries[number - 1], entry, lead):
            rows.append(None)
            cells.append((None,) * len(columns))
        at = len(rows)
        rows.append(f"[{', '.join(map(str, entry.position))}]" if lead else "")
        cells.append(tuple(map(of_index, entry.values)) or (Cell("( )"),))
        boxes.append(
            Box(entry=number, rows=(at, at), columns=(0, len(columns) - 1), state=entry.state)
        )
    plane = Plane(
        heading="", rows=tuple(rows), columns=columns, cells=tuple(cells), boxes=tuple(boxes)
    )
    note = entries_note(trace)
    return Panel(
        name=name,
        about=about(dtype, call.indices.shape),
        planes=(plane,) if entries else (),
        note=note if entries else "no entries",
        lists_entries=True,
    )


def entries_note(trace: Trace) -> str:
    """Say how many entries are drawn, if not all are."""
    drawn, count = len(trace.entries), math.prod(entries_shape(trace.call))
    return "" if drawn == count else f"{drawn} of {count:,} entries"


def _follows(before: Named, after: Named, shape: Sequence[int]) -> bool:
    """Whether no position lies between those of two entries, in C order."""
    return _number(after.position, shape) == _number(before.position, shape) + 1


def _number(position: Place, shape: Sequence[int]) -> int:
    number = 0
    for at, size in zip(position, shape, strict=True):
        number = number * size + at
    return number
