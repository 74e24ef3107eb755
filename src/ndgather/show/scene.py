"""What a picture shows, before anything is measured: panels of planes of cells, boxes on them.

A scene is made once; `svg`, `html`, `png` and `text` each draw all of it.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from ndgather.errors.shown_values import shown_value
from ndgather.errors.texts import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class State(StrEnum):
    """What became of an element, or of an entry of indices."""

    PLAIN = "plain"
    ABSENT = "absent"  # its value was not read, or not computed
    FILLED = "filled"
    DROPPED = "dropped"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Cell:
    """One element: its value as text."""

    text: str
    state: State = State.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """What one entry of indices names in a plane: rows and columns that are drawn, both ends in."""

    entry: int
    rows: tuple[int, int]
    columns: tuple[int, int]
    state: State = State.PLAIN
    replaced: bool = False  # a later update took its place


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """Rows and columns of cells; a label of None stands for some that are left out."""

    heading: str
    rows: tuple[str | None, ...]
    columns: tuple[str | None, ...]
    cells: tuple[tuple[Cell | None, ...], ...]
    boxes: tuple[Box, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """An array: its name, what it is, the planes that are drawn, and what is left out of them."""

    name: str
    about: str
    planes: tuple[Plane, ...]
    note: str = ""
    lists_entries: bool = False  # whether each box is the entry itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """How many reads or writes lie where: counts by row and column of squares."""

    name: str
    about: str
    counts: tuple[tuple[int, ...], ...]
    note: str = ""


Part: TypeAlias = Panel | Map


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of indices that is drawn: its letter, and what it does in one sentence."""

    letter: str
    sentence: str
    state: State = State.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A call and what comes of it; the last part is where the data goes."""

    title: str
    summary: str
    parts: tuple[Part, ...]
    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()
    error: str | None = None


def letter(number: int) -> str:
    """Return the name of an entry: a to z, then aa, ab, ..."""
    first, last = divmod(number, 26)
    return (letter(first - 1) if first else "") + chr(ord("a") + last)


def chosen(
    size: int, most: int, wanted: Iterable[int] = (), with_ends: bool = True
) -> tuple[int, ...]:
    """Return at most so many coordinates of an axis, in order.

    Of a longer axis they are its first and its last if asked for, those wanted, the first of these
    before the others, and then those at its beginning.
    """
    if size <= most:
        return tuple(range(size))
    found = dict.fromkeys((0, size - 1)[:most] if with_ends else ())
    for each in (*dict.fromkeys(wanted), *range(most)):
        if len(found) >= most:
            break
        if 0 <= each < size:
            found[each] = None
    return tuple(sorted(found))


def within(
    shape: Sequence[int], most: int, wanted: Sequence[Iterable[int]] = ()
) -> tuple[tuple[int, ...], ...]:
    """Return coordinates along each axis of a shape, those wanted of it first.

    No more than `most` places have them.
    """
    limits = [min(size, most) for size in shape]
    while math.prod(limits) > most and max(limits, default=0) > 1:
        limits[limits.index(max(limits))] -= 1
    wanted = wanted or [()] * len(limits)
    return tuple(map(chosen, shape, limits, wanted))


def with_gaps(coordinates: Sequence[int], size: int) -> tuple[int | None, ...]:
    """Return coordinates with None wherever some are left out between two of them, or at an end."""
    found: list[int | None] = []
    before = -1
    for each in (*coordinates, size):
        if each > before + 1 and size:
            found.append(None)
        if each < size:
            found.append(each)
        before = each
    return tuple(found)


HEAD = 44.0  # of a panel: its name, and what it is
HEIGHT, ROW_GAP, COLUMN_GAP = 28.0, 13.0, 5.0  # of cells, and between them
GAP = 20.0  # the room of rows or columns that are left out
CHIP_HEIGHT = 14.0  # of the letter of an entry, half of which stands above its cell


class Grid(NamedTuple):
    """Where the rows and columns of a plane stand."""

    plane: Plane
    x: float
    y: float
    side: float  # the room of the labels of rows
    widths: Sequence[float]  # with the gap behind

    @property
    def lefts(self) -> list[float]:
        starts = itertools.accumulate(self.widths, initial=self.x + self.side)
        return list(starts)[:-1]

    @property
    def tops(self) -> list[float]:
        heights = [GAP if row is None else HEIGHT + ROW_GAP for row in self.plane.rows]
        return list(itertools.accumulate(heights, initial=self.y + _above(self.plane)))[:-1]

    def cell(self, row: int, column: int) -> tuple[float, float, float]:
        """Return the left and the top of a cell, and its width."""
        return self.lefts[column], self.tops[row], self.widths[column] - COLUMN_GAP


def plane_height(plane: Plane) -> float:
    rows = sum(GAP if row is None else HEIGHT + ROW_GAP for row in plane.rows)
    return _above(plane) + rows - ROW_GAP + 4


def _above(plane: Plane) -> float:
    heading = 18.0 if plane.heading else 0.0
    return heading + (18.0 if any(plane.columns) else 2.0) + CHIP_HEIGHT / 2 + 1


LONGEST = 10  # letters of a cell
_SHORT = 8  # letters of a number that is not rounded to four digits


def written(value: Any) -> str:
    """Write an element of an array in a few letters."""
    if value is np.ma.masked:
        return str(value)
    kind = getattr(getattr(value, "dtype", None), "kind", "O")
    if kind in "iub":
        text = str(value)
        return text if len(text) <= LONGEST else f"{float(value):.3e}"
    if kind == "f":
        return _short_number(value)
    if kind == "c":
        imaginary = _short_number(value.imag, 4)
        sign = "" if imaginary.startswith("-") else "+"
        return _cut(f"{_short_number(value.real, 4)}{sign}{imaginary}j", LONGEST + 4)
    if kind == "V" and value.dtype.names is None:
        try:
            return _short_number(np.float64(value))  # the small floats of other packages
        except (TypeError, ValueError):
            return _cut(shown_value(value))
    if kind in "MmUST" or isinstance(value, str):
        return _cut(one_line(str(value)) if kind in "Mm" else shown_value(value, _quoted))
    return _cut(one_line(shown_value(value)))


def _quoted(value: object) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)


def _short_number(value: Any, digits: int = 6) -> str:
    if not np.isfinite(value):
        return str(float(value))
    size = abs(float(value))
    if size and not 1e-3 <= size < 1e6:
        return f"{float(value):.3e}"
    text = _positional(value, digits)
    return text if len(text) <= _SHORT or size >= 100 else _positional(value, 4)


def _positional(value: Any, digits: int) -> str:
    return np.format_float_positional(value, precision=digits, fractional=False, trim="0")


def _cut(text: str, most: int = LONGEST) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


@dataclass(frozen=True, slots=True)
class Rect:
    """A rectangle with round corners; `style` is one of `theme.SHAPES`."""

    x: float
    y: float
    width: float
    height: float
    style: str
    weight: float = 1.0  # of a square of a map: how dark it is


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line."""

    x: float
    y: float
    to_x: float
    to_y: float
    style: str


@dataclass(frozen=True, slots=True)
class Label:
    """A text; `y` is its base line, `x` its start, middle or end."""

    x: float
    y: float
    text: str
    style: str
    anchor: str = "start"


Shape: TypeAlias = Rect | Line | Label


@dataclass(frozen=True, slots=True)
class Group:
    """What belongs to one entry of indices; `is_entry` where it is the entry itself."""

    entry: int
    sentence: str
    shapes: tuple[Shape, ...]
    is_entry: bool = False


@dataclass(frozen=True, slots=True)
class Drawing:
    """Shapes, and how much room they take."""

    width: float
    height: float
    items: tuple[Shape | Group, ...]
