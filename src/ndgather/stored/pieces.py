"""Where points lie in a chunk or block that is read elsewhere."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather.stored.grouping import ChunkedPoints, coordinates, move

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Places:
    """Where points lie in a block: their coordinates, as `ChunkedPoints` packs them."""

    bits: tuple[int, ...]
    local: NDArray[np.unsignedinteger[Any]]

    def read(self, block: Array) -> Array:
        """Return the values at these places; the axes that they have coordinates on come first."""
        count = len(self.local)
        values = np.empty((count, *block.shape[len(self.bits) :]), block.dtype)
        self.copy(np.arange(count, dtype=np.uint32), block, values)
        return values

    def copy(self, positions: Array, source: Array, target: Array) -> None:
        """Copy from these places of `source` to positions of `target`, whose axes come first."""
        if not len(self.local):
            return
        # What came from another process may begin at any byte.
        local, positions = (np.require(each, None, ["C", "A"]) for each in (self.local, positions))
        points = ChunkedPoints.one_group(self.bits, local, positions)
        move(points, points.runs(0), source, target)

    def coordinates(self) -> Array:
        """Return the places as tuples of indices."""
        unpacked = np.empty((len(self.local), len(self.bits)), np.intp)
        for axis, column in enumerate(coordinates(self.bits, self.local)):
            unpacked[:, axis] = column
        return unpacked


@dataclass(frozen=True, slots=True)
class Piece:
    """What is copied from one chunk: points that lie in it, to the part of the result they fill."""

    points: ChunkedPoints
    runs: tuple[Array, Array]
    view: Callable[[Array], Array]  # of the chunk: the axes of the points come first; is pickled
    target: Array  # the axes of the positions come first
    rank: int  # how many these are

    @property
    def value_bytes(self) -> int:
        """How many bytes there are for each point."""
        return math.prod(self.target.shape[self.rank :]) * self.target.itemsize

    def copy(self, chunk: Array) -> None:
        move(self.points, self.runs, self.view(chunk), self.target)


def write(values: Array, positions: Array, dense: Array) -> None:
    """Set the positions of `dense`, whose axes of positions come first, to values."""
    count = len(positions)
    places = Places((max(0, count - 1).bit_length(),), np.arange(count, dtype=np.uint32))
    places.copy(positions, values, dense)
