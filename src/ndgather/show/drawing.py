"""A drawing: shapes at places, in the units of CSS pixels, whatever writes or paints them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


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
