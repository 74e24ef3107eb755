"""What a picture shows, before anything is measured: panels of planes of cells, boxes on them.

A scene is made once; `svg`, `html`, `png` and `text` each draw all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


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
