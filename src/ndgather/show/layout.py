"""Compute the layout of a scene, including positions, column widths and styles."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from ndgather.show.evaluate import State
from ndgather.show.scene import Box, EntryLabel, Panel, Plane, Scene

# Colors, fonts and line widths, which `svg` writes as CSS.
# Colors of entries are from Okabe and Ito's palette, which suits all types of color vision.
MONOSPACE = 'ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace'
SANS = 'system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif'
ADVANCE = 0.602  # advance width of a monospaced font, relative to the font size
ENTRY_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9")
ON_ENTRY = ("#ffffff", "#000000", "#000000", "#000000", "#000000")

_NAMES = ("page", "ink", "faint", "line", "cell", "error", "on_error")
_LIGHT = ("#ffffff", "#1b2430", "#566172", "#c9d1dc", "#f2f4f8", "#c62828", "#ffffff")
_DARK = ("#161b22", "#e6eaf0", "#a2adbb", "#3d4755", "#222a35", "#ff7b72", "#000000")
THEMES = {
    "light": dict(zip(_NAMES, _LIGHT, strict=True)),
    "dark": dict(zip(_NAMES, _DARK, strict=True)),
}
ENTRY = "entry"  # a placeholder for the color of the entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """The font and color of a label."""

    size: float
    colour: str
    family: str = MONOSPACE
    bold: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Paint:
    """The fill and stroke of a rectangle or line; a fill or stroke of None is not painted."""

    fill: str | None = None
    fill_opacity: float = 1.0
    stroke: str | None = None
    stroke_opacity: float = 1.0
    width: float = 1.0
    dashes: tuple[float, ...] = ()
    radius: float = 4.0


TEXTS = {
    "title": Text(size=15, colour="ink", bold=True),
    "name": Text(size=14, colour="ink", family=SANS, bold=True),
    "about": Text(size=11.5, colour="faint"),
    "value": Text(size=13, colour="ink"),
    "bad": Text(size=13, colour="error", bold=True),
    "head": Text(size=10.5, colour="faint"),
    "note": Text(size=12, colour="faint", family=SANS),
    "arrow": Text(size=20, colour="faint", family=SANS),
    "error": Text(size=12.5, colour="error", bold=True),
    "wrong": Text(size=10, colour="on_error", bold=True),
    "letter": Text(size=10, colour=ENTRY, bold=True),
    "replaced": Text(size=10, colour="ink", bold=True),
}
SHAPES = {
    "page": Paint(fill="page", radius=8),
    "cell": Paint(fill="cell", stroke="line"),
    "absent": Paint(stroke="line", dashes=(2, 2)),
    "hatch": Paint(stroke="faint", stroke_opacity=0.35),
    "outside": Paint(fill="error", fill_opacity=0.12, stroke="error", width=2, dashes=(4, 2)),
    "alarm": Paint(fill="error", radius=3),
    "cross": Paint(stroke="error", width=1.2),
    "box": Paint(fill=ENTRY, fill_opacity=0.2, stroke=ENTRY, width=2),
    "chip": Paint(fill=ENTRY, radius=3),
    "gone": Paint(fill="page", stroke=ENTRY, radius=3),
}


def text_width(text: str, style: str) -> float:
    return len(text) * ADVANCE * TEXTS[style].size


@dataclass(frozen=True, slots=True)
class Rect:
    """A rectangle with rounded corners, whose style is a key of `SHAPES`."""

    x: float
    y: float
    width: float
    height: float
    style: str


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line from (x, y) to (x + dx, y + dy)."""

    x: float
    y: float
    dx: float
    dy: float
    style: str


@dataclass(frozen=True, slots=True)
class Label:
    """A text with the baseline y and, depending on `anchor`, its start, middle or end at x."""

    x: float
    y: float
    text: str
    style: str
    anchor: str = "start"


Shape: TypeAlias = Rect | Line | Label


@dataclass(frozen=True, slots=True)
class Group:
    """The shapes of an entry of indices; `is_entry` is true if they are in the panel of indices."""

    entry: int
    sentence: str
    shapes: tuple[Shape, ...]
    is_entry: bool = False


@dataclass(frozen=True, slots=True)
class Drawing:
    """A set of shapes and its total size."""

    width: float
    height: float
    items: tuple[Shape | Group, ...]


_HEAD = 44.0  # height of a panel's name and description
_HEIGHT, _ROW_GAP, _COLUMN_GAP = 28.0, 13.0, 5.0
_GAP = 20.0  # size of the mark for omitted rows or columns
_LEAST = 36.0
_CHIP_HEIGHT, _CHIP_GAP, _MOST_CHIPS = 14.0, 2.0, 4
_WIDEST_ROW = 340.0  # maximum total width of adjacent planes on a page that may be narrow
_WIDEST_PICTURE, _PLANES = 1040.0, 560.0
_MARGIN, _BETWEEN, _LINE = 20.0, 34.0, 18.0


class _Grid(NamedTuple):
    """The positions of the rows and columns of a plane."""

    plane: Plane
    x: float
    y: float
    side: float
    widths: Sequence[float]  # the width of each column, including the gap to the next column

    @property
    def above(self) -> float:
        """The height of the heading and of the column labels."""
        heading = 18.0 if self.plane.heading else 0.0
        return heading + (18.0 if any(self.plane.columns) else 2.0) + _CHIP_HEIGHT / 2 + 1

    @property
    def height(self) -> float:
        heights = (_GAP if row is None else _HEIGHT + _ROW_GAP for row in self.plane.rows)
        return self.above + sum(heights) - _ROW_GAP + 4

    def cell(self, row: int, column: int) -> tuple[float, float, float]:
        left = self.x + self.side + sum(self.widths[:column])
        heights = (_GAP if label is None else _HEIGHT + _ROW_GAP for label in self.plane.rows[:row])
        return left, self.y + self.above + sum(heights), self.widths[column] - _COLUMN_GAP


def panel_drawing(
    panel: Panel, entries: Sequence[EntryLabel], widest_row: float = _WIDEST_ROW
) -> Drawing:
    """Draw a panel with as many planes per row as possible."""
    items: list[Shape | Group] = [
        Label(0, 13, panel.name, "name"),
        Label(0, 31, panel.about, "about"),
    ]
    if panel.note:
        items.append(Label(0, 48, panel.note, "note"))
    widest = max(0.9 * text_width(panel.note, "note"), text_width(panel.about, "about"))
    x, y, tallest = 0.0, _HEAD + (16 if panel.note else 0), 0.0
    labels = [row for plane in panel.planes for row in plane.rows if row]
    side = max((text_width(label, "head") + 8 for label in labels), default=0.0)
    widths = _column_widths(panel, entries)
    for plane in panel.planes:
        width = max(side + sum(widths[plane.columns]), text_width(plane.heading, "head"))
        if x and x + width > widest_row:
            x, y, tallest = 0.0, y + tallest + 14, 0.0
        grid = _Grid(plane, x, y, side, widths[plane.columns])
        items += _plane(grid, entries, panel.lists_entries)
        x, tallest, widest = x + width + 22, max(tallest, grid.height), max(widest, x + width)
    return Drawing(math.ceil(widest), math.ceil(y + tallest + 2), tuple(items))


def _column_widths(
    panel: Panel, entries: Sequence[EntryLabel]
) -> dict[tuple[str | None, ...], list[float]]:
    """Return the column widths, which planes with the same column labels share."""
    by_labels: dict[tuple[str | None, ...], list[float]] = {}
    for plane in panel.planes:
        least = [
            _GAP - _COLUMN_GAP if label is None else max(_LEAST, text_width(label, "head") + 4)
            for label in plane.columns
        ]
        widths = by_labels.setdefault(plane.columns, least)
        for row in plane.cells:
            for column, cell in enumerate(row):
                if cell is not None:
                    widths[column] = max(widths[column], text_width(cell.text, "value") + 14)
        corners: dict[tuple[int, int], list[Box]] = {}
        for box in plane.boxes:
            corners.setdefault((box.rows[0], box.columns[0]), []).append(box)
        for (_, first), boxes in corners.items():
            chips = sum(_chip_width(box, entries) for box in boxes[: _MOST_CHIPS + 1])
            others = (min(box.columns[1] for box in boxes) - first) * _LEAST
            widths[first] = max(widths[first], chips + 8 - others)
    return {
        columns: [width + _COLUMN_GAP for width in widths] for columns, widths in by_labels.items()
    }


def _plane(grid: _Grid, entries: Sequence[EntryLabel], is_entry: bool) -> Iterator[Shape | Group]:
    plane, top = grid.plane, grid.y
    if plane.heading:
        yield Label(grid.x, top + 10, plane.heading, "head")
        top += 18
    for column, column_label in enumerate(plane.columns):
        if column_label:
            left, _, width = grid.cell(0, column)
            yield Label(left + width / 2, top + 9, column_label, "head", "middle")
    texts = []
    for row, (row_label, cells) in enumerate(zip(plane.rows, plane.cells, strict=True)):
        if row_label:
            y = grid.cell(row, 0)[1] + 18
            yield Label(grid.x + grid.side - 7, y, row_label, "head", "end")
        for column, cell in enumerate(cells):
            left, top, width = grid.cell(row, column)
            middle = left + width / 2
            if cell is None:
                down = row_label is None
                y = top + (_GAP - _ROW_GAP) / 2 + 3 if down else top + 18
                text = "⋮" if down and plane.columns[column] is not None else "…"
                yield Label(middle, y, text, "head", "middle")
                continue
            yield Rect(left, top, width, _HEIGHT, "cell" if cell.text else "absent")
            if cell.state in (State.FILLED, State.DROPPED):
                for start in range(6, int(width + _HEIGHT), 9):
                    begin, end = max(0.0, start - _HEIGHT), min(width, start)
                    yield Line(left + begin, top + start - begin, end - begin, begin - end, "hatch")
            if cell.text:
                style = "bad" if cell.state is State.ERROR else "value"
                texts.append(Label(middle, top + 19, cell.text, style, "middle"))
    yield from _boxes(grid, entries, is_entry)
    yield from texts


def _boxes(grid: _Grid, entries: Sequence[EntryLabel], is_entry: bool) -> Iterator[Shape | Group]:
    """Yield the boxes of a plane, nesting boxes that overlap."""
    inside: dict[tuple[int, int], int] = {}
    chips: dict[tuple[int, int], float] = {}  # total width of the letters at the top of each cell
    counts: dict[tuple[int, int], int] = {}
    for box in grid.plane.boxes:
        corner = (box.rows[0], box.columns[0])
        rows, columns = (range(first, last + 1) for first, last in (box.rows, box.columns))
        cells = list(itertools.product(rows, columns))
        level = max(inside.get(cell, 0) for cell in cells)
        inside.update(dict.fromkeys(cells, level + 1))
        counts[corner] = counts.get(corner, 0) + 1
        if counts[corner] > _MOST_CHIPS:
            continue
        used = chips.get(corner, 0.0)
        chips[corner] = used + _chip_width(box, entries)
        shapes = tuple(_box(grid, box, entries, min(level, 3) * 3.0, used))
        yield Group(box.entry, entries[box.entry].sentence, shapes, is_entry)
    for corner, count in counts.items():
        if count > _MOST_CHIPS:
            left, top, _ = grid.cell(*corner)
            yield Label(left + 6 + chips[corner], top - 3, f"+{count - _MOST_CHIPS}", "head")


def _box(
    grid: _Grid, box: Box, entries: Sequence[EntryLabel], inset: float, used: float
) -> Iterator[Shape]:
    """Yield the outline of a box, and the letter of its entry at the upper edge."""
    is_error = entries[box.entry].state is State.ERROR
    left, top, _ = grid.cell(box.rows[0], box.columns[0])
    right, bottom, last_width = grid.cell(box.rows[1], box.columns[1])
    width, height = right + last_width - left, bottom + _HEIGHT - top
    style = "outside" if is_error else "box"
    yield Rect(left + inset, top + inset, width - 2 * inset, height - 2 * inset, style)
    x, y = left + 4 + used, top - _CHIP_HEIGHT / 2 - 1
    width = _chip_width(box, entries) - _CHIP_GAP
    text, style = _chip_text(box, entries), "wrong" if is_error else "letter"
    chip = "alarm" if is_error else "chip"
    if box.replaced:
        chip, style = "gone", "replaced"
    yield Rect(x, y, width, _CHIP_HEIGHT, chip)
    if box.replaced:
        yield Line(x - 2, y + _CHIP_HEIGHT / 2, width + 4, 0, "cross")  # behind the letter
    yield Label(x + width / 2, y + 10.5, text, style, "middle")


def _chip_text(box: Box, entries: Sequence[EntryLabel]) -> str:
    entry = entries[box.entry]
    return entry.letter + ("✗" if entry.state is State.ERROR else "")


def _chip_width(box: Box, entries: Sequence[EntryLabel]) -> float:
    """Return the width of a box's letter, including the gap to the next letter."""
    return 8 + 6.1 * len(_chip_text(box, entries)) + _CHIP_GAP


def picture_drawing(scene: Scene) -> Drawing:
    """Draw a whole scene; a panel that would exceed the maximum width starts a new row."""
    drawings = [panel_drawing(panel, scene.entries, _PLANES) for panel in scene.panels]
    items: list[Shape | Group] = []
    x, y = _MARGIN, _MARGIN + 40
    tallest = widest = 0.0
    for number, drawing in enumerate(drawings):
        if number and x + _BETWEEN + drawing.width > _WIDEST_PICTURE:
            x, y, tallest = _MARGIN, y + tallest + _BETWEEN, 0.0
        elif number:
            x += _BETWEEN
        if number == len(drawings) - 1 and x > _MARGIN:
            items.append(Label(x - _BETWEEN / 2, y + 14, "→", "arrow", "middle"))
        items += (_moved(item, x, y) for item in drawing.items)
        x += drawing.width
        tallest, widest = max(tallest, drawing.height), max(widest, x)
    y += tallest + 26
    widest = max(widest, _MARGIN + text_width(scene.title, "title"), 320.0)
    texts = [(scene.error, "error")] if scene.error is not None else []
    for text, style in (*texts, *((note, "note") for note in scene.notes)):
        letters = max(int((widest - _MARGIN) / (ADVANCE * TEXTS[style].size)), 20)
        for line in textwrap.wrap(text, letters) or [""]:
            items.append(Label(_MARGIN, y, line, style))
            y += _LINE
    width, height = math.ceil(widest + _MARGIN), math.ceil(y)
    title = Label(_MARGIN, _MARGIN + 12, scene.title, "title")
    return Drawing(width, height, (Rect(0, 0, width, height, "page"), title, *items))


def _moved(item: Shape | Group, x: float, y: float) -> Shape | Group:
    if isinstance(item, Group):
        return replace(item, shapes=tuple(_moved(shape, x, y) for shape in item.shapes))  # type: ignore[misc]
    return replace(item, x=item.x + x, y=item.y + y)
