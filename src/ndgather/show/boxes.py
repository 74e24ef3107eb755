"""The boxes of entries on a plane: an outline around what each names, and its letter on top."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from ndgather.show.drawing import Group, Label, Line, Rect
from ndgather.show.grid import CHIP_HEIGHT, HEIGHT
from ndgather.show.scene import State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ndgather.show.drawing import Shape
    from ndgather.show.grid import Grid
    from ndgather.show.scene import Box, Entry, Plane

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
