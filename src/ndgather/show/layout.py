"""From a panel to a drawing: how wide columns are, where cells, boxes and letters stand."""

from __future__ import annotations

import itertools
import math
import textwrap
from typing import TYPE_CHECKING

from ndgather.show.scene import (
    CHIP_HEIGHT,
    COLUMN_GAP,
    GAP,
    HEAD,
    HEIGHT,
    ROW_GAP,
    Cell,
    Drawing,
    Grid,
    Group,
    Label,
    Line,
    Map,
    Panel,
    Rect,
    State,
    plane_height,
)
from ndgather.show.theme import ADVANCE, TEXTS, letters_width

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ndgather.show.scene import Box, Entry, Part, Plane, Scene, Shape


_CHIP_GAP, _MOST_CHIPS = 2.0, 4


def letters_room(plane: Plane, entries: Sequence[Entry]) -> Iterator[tuple[int, int, float]]:
    """Yield for each cell with letters the first and last column of its box, and their width."""
    for (_, column), boxes in _by_corner(plane).items():
        width = sum(_chip_width(_mark(box, entries)) + _CHIP_GAP for box in boxes)
        yield column, boxes[0].columns[1], width


def drawn_boxes(grid: Grid, entries: Sequence[Entry], is_entry: bool) -> Iterator[Shape | Group]:
    """Yield the boxes of a plane; those around one place lie within each other."""
    inside: dict[tuple[int, int], int] = {}  # how many boxes hold a cell already
    chips: dict[tuple[int, int], float] = {}  # how much of its upper edge letters take
    counts: dict[tuple[int, int], int] = {}
    for box in grid.plane.boxes:
        corner = (box.rows[0], box.columns[0])
        rows, columns = (range(first, last + 1) for first, last in (box.rows, box.columns))
        cells = list(itertools.product(rows, columns))
        level = max(inside.get(cell, 0) for cell in cells)
        for cell in cells:
            inside[cell] = level + 1
        counts[corner] = counts.get(corner, 0) + 1
        if counts[corner] > _MOST_CHIPS:
            continue
        text = _mark(box, entries)
        left = chips.get(corner, 0.0)
        chips[corner] = left + _chip_width(text) + _CHIP_GAP
        shapes = (*_outline(grid, box, min(level, 3)), *_chip(grid, corner, left, text, box))
        yield Group(box.entry, entries[box.entry].sentence, shapes, is_entry)
    for corner, count in counts.items():
        if count > _MOST_CHIPS:
            left, top, _ = grid.cell(*corner)
            yield Label(left + 6 + chips[corner], top - 3, f"+{count - _MOST_CHIPS}", "head")


def _outline(grid: Grid, box: Box, level: int) -> Iterator[Shape]:
    left, top, _ = grid.cell(box.rows[0], box.columns[0])
    right, bottom, width = grid.cell(box.rows[1], box.columns[1])
    inset = level * 3.0
    yield Rect(
        left + inset,
        top + inset,
        right + width - left - 2 * inset,
        bottom + HEIGHT - top - 2 * inset,
        "refused" if box.state is State.REFUSED else "box",
    )


def _chip(
    grid: Grid, corner: tuple[int, int], after: float, text: str, box: Box
) -> Iterator[Shape]:
    left, top, _ = grid.cell(*corner)
    refused = box.state is State.REFUSED
    x, y, width = left + 4 + after, top - CHIP_HEIGHT / 2 - 1, _chip_width(text)
    yield Rect(x, y, width, CHIP_HEIGHT, "alarm" if refused else "chip")
    yield Label(x + width / 2, y + 10.5, text, "wrong" if refused else "letter", "middle")
    if box.replaced:
        yield Line(x - 1, y + CHIP_HEIGHT / 2, x + width + 1, y + CHIP_HEIGHT / 2, "cross")


def _by_corner(plane: Plane) -> dict[tuple[int, int], list[Box]]:
    """Return the boxes that begin at a cell; of very many the first."""
    found: dict[tuple[int, int], list[Box]] = {}
    for box in plane.boxes:
        found.setdefault((box.rows[0], box.columns[0]), []).append(box)
    return {corner: boxes[: _MOST_CHIPS + 1] for corner, boxes in found.items()}


def _mark(box: Box, entries: Sequence[Entry]) -> str:
    return entries[box.entry].letter + ("✗" if box.state is State.REFUSED else "")


def _chip_width(text: str) -> float:
    return 8 + 6.1 * len(text)


_SQUARE = 10.0


def map_drawing(part: Map) -> Drawing:
    items: list[Shape] = [Label(0, 13, part.name, "name"), Label(0, 31, part.about, "about")]
    lines = part.note.split("; ")
    most = max(itertools.chain.from_iterable(part.counts), default=0)
    top = HEAD + 6
    for row, counts in enumerate(part.counts):
        for column, count in enumerate(counts):
            place = (column * (_SQUARE + 1), top + row * (_SQUARE + 1), _SQUARE, _SQUARE)
            weight = 0.25 + 0.75 * math.log1p(count) / math.log1p(most) if count else 1.0
            items.append(Rect(*place, "square" if count else "empty", round(weight, 2)))
    y = top + len(part.counts) * (_SQUARE + 1) + 14
    items += [Label(0, y + 15 * number, line, "note") for number, line in enumerate(lines)]
    texts = [letters_width(part.about, "about"), *(letters_width(each, "note") for each in lines)]
    width = max(*texts, len(part.counts[0]) * (_SQUARE + 1))
    return Drawing(math.ceil(width), math.ceil(y + 15 * len(lines) - 8), tuple(items))


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


_MARGIN, _BETWEEN = 20.0, 34.0
_WIDEST_PICTURE = 1040.0
_PLANES = 560.0  # in a row
_LINE = 18.0


def composed(scene: Scene) -> Drawing:
    """Return the drawing of a whole scene; parts go on below where they would be too wide."""
    drawings = [drawing(part, scene.entries, _PLANES) for part in scene.parts]
    items: list[Shape | Group] = []
    x, y = _MARGIN, _MARGIN + 40
    tallest = widest = 0.0
    for number, each in enumerate(drawings):
        if number and x + _BETWEEN + each.width > _WIDEST_PICTURE:
            x, y, tallest = _MARGIN, y + tallest + _BETWEEN, 0.0
        elif number:
            x += _BETWEEN
        if number == len(drawings) - 1 and x > _MARGIN:
            items.append(Label(x - _BETWEEN / 2, y + 14, "→", "arrow", "middle"))
        items += (moved(item, x, y) for item in each.items)
        x += each.width
        tallest, widest = max(tallest, each.height), max(widest, x)
    y += tallest + 26
    widest = max(widest, _MARGIN + len(scene.title) * ADVANCE * TEXTS["title"].size, 320.0)
    for text, style in _below(scene, widest - _MARGIN):
        items.append(Label(_MARGIN, y, text, style))
        y += _LINE
    width, height = math.ceil(widest + _MARGIN), math.ceil(y)
    page = Rect(0, 0, width, height, "page")
    title = Label(_MARGIN, _MARGIN + 12, scene.title, "title")
    return Drawing(width, height, (page, title, *items))


def _below(scene: Scene, width: float) -> Iterator[tuple[str, str]]:
    """Yield the error and the notes, in lines that fit."""
    texts = [(note, "note") for note in scene.notes]
    if scene.error is not None:
        texts.insert(0, (scene.error, "error"))
    for text, style in texts:
        letters = max(int(width / (ADVANCE * TEXTS[style].size)), 20)
        for line in textwrap.wrap(text, letters) or [""]:
            yield line, style


def moved(item: Shape | Group, x: float, y: float) -> Shape | Group:
    """Return an item of a drawing elsewhere on the sheet."""
    match item:
        case Group(entry, sentence, shapes, is_entry):
            inner = tuple(_moved(shape, x, y) for shape in shapes)
            return Group(entry, sentence, inner, is_entry)
        case _:
            return _moved(item, x, y)


def _moved(shape: Shape, x: float, y: float) -> Shape:
    match shape:
        case Rect():
            return Rect(
                shape.x + x, shape.y + y, shape.width, shape.height, shape.style, shape.weight
            )
        case Line():
            return Line(shape.x + x, shape.y + y, shape.to_x + x, shape.to_y + y, shape.style)
        case Label():
            return Label(shape.x + x, shape.y + y, shape.text, shape.style, shape.anchor)
