"""From a panel to a drawing: how wide columns are, where cells, boxes and letters stand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ndgather.show.boxes import drawn_boxes, letters_room
from ndgather.show.drawing import Drawing, Group, Label, Line, Rect
from ndgather.show.grid import COLUMN_GAP, GAP, HEAD, HEIGHT, ROW_GAP, Grid, plane_height
from ndgather.show.maps import map_drawing
from ndgather.show.scene import Cell, Map, Panel, State
from ndgather.show.theme import letters_width

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ndgather.show.drawing import Shape
    from ndgather.show.scene import Entry, Part

_LEAST = 36.0  # of a column
_WIDEST = 340.0  # planes side by side, on a page that may be narrow


def drawing(part: Part, entries: Sequence[Entry], widest_row: float = _WIDEST) -> Drawing:
    """Draw one part of a scene, as many of its planes in a row as have room."""
    if isinstance(part, Map):
        return map_drawing(part)
    items: list[Shape | Group] = [*_head(part)]
    x, y, tallest, widest = 0.0, HEAD + (16 if part.note else 0), 0.0, _head_width(part)
    if part.planes:
        side, widths_of = _label_width(part), _column_widths(part, entries)
        for plane in part.planes:
            widths, height = widths_of[plane.columns], plane_height(plane)
            width = max(side + sum(widths), letters_width(plane.heading, "head"))
            if x and x + width > widest_row:
                x, y, tallest = 0.0, y + tallest + 14, 0.0
            grid = Grid(plane, x, y, side, widths)
            items += _plane(grid, entries, part.lists_entries)
            x, tallest = x + width + 22, max(tallest, height)
            widest = max(widest, x - 22)
    return Drawing(math.ceil(widest), math.ceil(y + tallest + 2), tuple(items))


def _head(part: Part) -> Iterator[Label]:
    yield Label(0, 13, part.name, "name")
    yield Label(0, 31, part.about, "about")
    if part.note:
        yield Label(0, 48, part.note, "note")


def _head_width(part: Part) -> float:
    return max(0.9 * letters_width(part.note, "note"), letters_width(part.about, "about"))


def _label_width(panel: Panel) -> float:
    labels = [row for plane in panel.planes for row in plane.rows if row]
    return max((letters_width(each, "head") + 8 for each in labels), default=0.0)


def _column_widths(
    panel: Panel, entries: Sequence[Entry]
) -> dict[tuple[str | None, ...], list[float]]:
    """Return the widths of columns, the same for all planes that have the same ones."""
    found: dict[tuple[str | None, ...], list[float]] = {}
    for plane in panel.planes:
        least = [
            GAP - COLUMN_GAP if label is None else max(_LEAST, letters_width(label, "head") + 4)
            for label in plane.columns
        ]
        widths = found.setdefault(plane.columns, least)
        for row in plane.cells:
            for column, cell in enumerate(row):
                if cell is not None:
                    widths[column] = max(widths[column], letters_width(cell.text, "value") + 14)
        for first, last, room in letters_room(plane, entries):
            widths[first] = max(widths[first], room + 8 - (last - first) * _LEAST)
    return {columns: [width + COLUMN_GAP for width in widths] for columns, widths in found.items()}


def _plane(grid: Grid, entries: Sequence[Entry], is_entry: bool) -> Iterator[Shape | Group]:
    plane = grid.plane
    top = grid.y
    if plane.heading:
        yield Label(grid.x, top + 10, plane.heading, "head")
        top += 18
    for column, label in enumerate(plane.columns):
        if label:
            left, _, width = grid.cell(0, column)
            yield Label(left + width / 2, top + 9, label, "head", "middle")
    for row, texts in enumerate(plane.cells):
        yield from _row(grid, row, texts)
    yield from drawn_boxes(grid, entries, is_entry)
    for row, texts in enumerate(plane.cells):
        for column, cell in enumerate(texts):
            if cell is not None and cell.text:
                left, at, width = grid.cell(row, column)
                style = "bad" if cell.state is State.REFUSED else "value"
                yield Label(left + width / 2, at + 19, cell.text, style, "middle")


def _row(grid: Grid, row: int, texts: Sequence[Cell | None]) -> Iterator[Shape]:
    label = grid.plane.rows[row]
    if label:
        yield Label(grid.x + grid.side - 7, grid.tops[row] + 18, label, "head", "end")
    for column, cell in enumerate(texts):
        left, top, width = grid.cell(row, column)
        if cell is None:
            down, across = label is None, grid.plane.columns[column] is None
            y = top + (GAP - ROW_GAP) / 2 + 3 if down else top + 18
            yield Label(left + width / 2, y, "⋮" if down and not across else "…", "head", "middle")
            continue
        yield Rect(left, top, width, HEIGHT, "cell" if cell.text else "absent")
        if cell.state in (State.FILLED, State.DROPPED):
            yield from _hatch(left, top, width)


def _hatch(left: float, top: float, width: float) -> Iterator[Line]:
    """Yield slanted lines across a cell."""
    for start in range(6, int(width + HEIGHT), 9):
        begin, end = max(0.0, start - HEIGHT), min(width, start)
        yield Line(left + begin, top + start - begin, left + end, top + start - end, "hatch")
