"""Where the rows and columns of a plane stand, and how much room a plane takes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndgather.show.scene import Plane

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
