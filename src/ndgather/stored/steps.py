"""Which chunk is read in which step of a walk."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ndgather.stored.chunks import Chunk, Grid


@dataclass(frozen=True, slots=True)
class Steps:
    """For each group of points, one after another, the chunks that it needs.

    Along some axes that is the chunk in which the points lie, along the others every chunk.
    """

    chunks: NDArray[np.int64]  # of each group, along its axes: numbers in C order
    rank: int
    counts: tuple[tuple[int, int], ...]  # axes of groups, the last first, and their chunks
    other_counts: tuple[tuple[int, int], ...]  # the same of the other axes
    each: int  # chunks of a group

    @classmethod
    def of(cls, grid: Grid, axes: Sequence[int], chunks: NDArray[np.int64]) -> Steps:
        """Return the steps of groups whose chunks are numbered along `axes` of a grid."""
        others = [axis for axis in range(len(grid.shape)) if axis not in axes]
        counts, other_counts = (
            tuple(zip(some[::-1], grid.along(some).counts[::-1], strict=True))
            for some in (tuple(axes), others)
        )
        each = math.prod(count for _, count in other_counts)
        return cls(chunks, len(grid.shape), counts, other_counts, each)

    def __len__(self) -> int:
        return len(self.chunks) * self.each

    def group(self, step: int) -> int:
        """Return which group a step is for."""
        return step // self.each

    def chunk(self, step: int) -> Chunk:
        """Return which chunk a step needs."""
        group, rest = divmod(step, self.each)
        chunk = [0] * self.rank
        at = self.chunks.item(group)
        for axis, count in self.counts:
            at, chunk[axis] = divmod(at, count)
        for axis, count in self.other_counts:
            rest, chunk[axis] = divmod(rest, count)
        return tuple(chunk)
