"""The points of one region, grouped by the block of data that they lie in."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather.errors import IndexOutOfBoundsError, index_errors, lazy_errors
from ndgather.stored.chunks import Grid, stand_in
from ndgather.stored.pieces import Places
from ndgather.stored.plan import plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ndgather.array_call import Call
    from ndgather.arrays.dask.layout import Chunks

    Array = NDArray[Any]

_MOST = 2**32  # entries of indices in a region: positions have four bytes


@dataclass(frozen=True, slots=True)
class Points:
    """Points by the number of their block along the indexed axes; 8 bytes each.

    Those of a block stand in C order of their positions. Positions whose index ``mode="fill"``
    leaves out of bounds are in no group.
    """

    blocks: NDArray[np.int64]  # rising
    starts: NDArray[np.int64]  # where the points of each block begin, and the end
    positions: NDArray[np.uint32]  # within the region, in C order
    bits: tuple[int, ...]
    local: NDArray[np.unsignedinteger[Any]]

    def of(self, block: int) -> slice:
        """Return where the points of a block stand."""
        at = int(np.searchsorted(self.blocks, block))
        if at == len(self.blocks) or self.blocks[at] != block:
            return slice(0, 0)
        return slice(int(self.starts[at]), int(self.starts[at + 1]))

    def places(self, block: int) -> Places:
        return Places(self.bits, self.local[self.of(block)])

    def without_places(self) -> Points:
        """Return what is needed to put values at positions."""
        return replace(self, local=self.local[:0])


def points_of(call: Call, sizes: Chunks, indexed: Sequence[int], indices: Array) -> Points:
    """Check the indices of a region and group its points.

    Raises
    ------
    IndexOutOfBoundsError
        An index is out of bounds; its position is that within the region.
    """
    if math.prod(indices.shape) > _MOST:
        raise lazy_errors.too_many_in_a_block(call.caller, indices.shape, _MOST)
    data = stand_in(tuple(map(sum, sizes)), np.dtype(np.uint8))
    call = replace(call, data=data, indices=indices)
    made = plan(call, Grid.of_sizes(sizes))
    found = made.points
    groups = range(len(found.chunks))
    runs = [
        slice(start, stop)
        for group in groups
        for start, stop in zip(*(line.tolist() for line in found.runs(group)), strict=True)
    ]
    counts = np.array([found.count(group) for group in groups], np.int64)
    positions = [found.positions[run] + run.start // found.block * found.block for run in runs]
    return Points(
        _numbers(found.chunks, sizes, made.axes.points, indexed),
        np.append(0, counts.cumsum()),
        np.concatenate([np.empty(0, np.uint32), *positions]).astype(np.uint32, copy=False),
        found.bits,
        np.concatenate([found.local[:0], *(found.local[run] for run in runs)]),
    )


def _numbers(
    chunks: NDArray[np.int64], sizes: Chunks, axes: Sequence[int], indexed: Sequence[int]
) -> NDArray[np.int64]:
    """Return the numbers of chunks along the indexed axes, those without elements counted too."""
    filled = {axis: np.flatnonzero(sizes[axis]) for axis in axes}
    numbers, rest, weight = np.zeros_like(chunks), chunks, 1
    for axis in reversed(axes):
        rest, at = np.divmod(rest, max(1, len(filled[axis])))
        if axis in indexed and len(chunks):
            numbers += weight * filled[axis][at]
            weight *= len(sizes[axis])
    return numbers


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong with the index values of some regions: the first bad entry in C order."""

    seen: int  # entries of indices that were looked at
    bad: int = 0
    position: tuple[int, ...] = ()
    value: int = 0
    axis: int = 0
    size: int = 0

    @classmethod
    def of(cls, error: IndexOutOfBoundsError, start: Sequence[int], seen: int) -> Verdict:
        """Return the verdict on a region that begins at `start`."""
        shift = (*start, *[0] * (len(error.position) - len(start)))
        position = tuple(p + s for p, s in zip(error.position, shift, strict=True))
        return cls(seen, error.count, position, error.value, error.axis, error.size)

    def refuse(self, call: Call, index_shape: Sequence[int]) -> None:
        """Raise the error that a call in memory raises, if an entry is bad.

        How many are bad in all is said where all were looked at.
        """
        if not self.bad:
            return
        total = math.prod(index_shape)
        count = self.bad if self.seen == total else 1
        if call.kind == "gather_windows":
            begins = self.size - call.window_shape[self.axis] + 1
            facts = self.position, self.value, self.axis, begins, 0, count, total
            raise index_errors.window_outside(call.caller, call.window_shape, *facts)
        raise index_errors.index_out_of_bounds(
            call.caller,
            self.position,
            self.value,
            self.axis,
            self.size,
            -self.size if call.negative else 0,
            count,
            total,
        )


def lowest(earlier: Verdict | None, *verdicts: Verdict) -> Verdict:
    """Return the verdict on several regions, all of which come after those of `earlier`."""
    if earlier is not None and earlier.bad:
        return earlier
    seen = sum(each.seen for each in verdicts) + (0 if earlier is None else earlier.seen)
    bad = [each for each in verdicts if each.bad]
    if not bad:
        return Verdict(seen)
    first = min(bad, key=lambda each: each.position)
    return replace(first, seen=seen, bad=sum(each.bad for each in bad))
