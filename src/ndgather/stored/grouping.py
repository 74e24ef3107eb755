"""Points by chunk: checked once, grouped stably, 8 bytes each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather.array_call import Call
from ndgather.explain import explain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ndgather.stored.chunks import Array, Grid


@dataclass(frozen=True, slots=True)
class ChunkedPoints:
    """Points in groups, one for each touched chunk of a grid.

    Point i lies in its chunk at ``local[i]``, which holds a coordinate for each axis, with
    `bits[d]` bits for axis d, the last one lowest. Points were grouped block by block: it is point
    ``positions[i] + i // block * block`` of the call. Group g consists of the runs
    ``first[g]..first[g + 1]``, run r of the points ``starts[r]..stops[r]``; within each group the
    points stand in C order of their positions.
    """

    bits: tuple[int, ...]
    local: NDArray[Any]  # uint32, or uint64 where the bits are more than 32
    positions: NDArray[np.uint32]
    block: int
    chunks: NDArray[np.int64]  # rising: the number of the chunk of each group, in C order
    first: NDArray[np.int64]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    outside: int  # how many groups at the end have no chunk, but an index out of bounds: 0 or 1

    def runs(self, group: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where the runs of a group start and stop."""
        part = slice(int(self.first[group]), int(self.first[group + 1]))
        return self.starts[part], self.stops[part]

    def count(self, group: int) -> int:
        """Return how many points a group has."""
        starts, stops = self.runs(group)
        return int((stops - starts).sum())


def group(call: Call, axes: tuple[int, ...], grid: Grid) -> ChunkedPoints:
    """Check the indices of a call, and group its points by the chunks of the grid of `axes`."""
    numbers = np.zeros(call.indices.shape[: -1 if call.kind.endswith("_nd") else None], np.int64)
    local = np.zeros_like(numbers, np.uint64)
    outside = np.zeros(numbers.shape, bool)
    bits = tuple(max(0, each - 1).bit_length() for each in grid.largest)
    for d, axis in enumerate(axes):
        at = _coordinate(call, d, axis)
        outside |= at < 0
        step, count = grid.steps[d], grid.counts[d]
        if isinstance(step, int):
            chunk = at // step
            begin = chunk * step
        else:
            chunk = np.searchsorted(step, at, side="right") - 1
            begin = step[chunk]
        numbers = numbers * count + chunk
        local = (local << np.uint64(bits[d])) | (at - begin).astype(np.uint64)
    numbers = np.where(outside, np.iinfo(np.int64).max, numbers).reshape(-1)
    order = np.argsort(numbers, kind="stable")
    chunks, starts = np.unique(numbers[order], return_index=True)
    stops = np.append(starts[1:], numbers.size)[: len(starts)]
    any_outside = int(outside.any())
    return ChunkedPoints(
        bits,
        local.reshape(-1)[order].astype(np.uint32 if sum(bits) <= 32 else np.uint64),
        order.astype(np.uint32),
        max(1, numbers.size),
        chunks[: len(chunks) - any_outside],
        np.arange(len(chunks) + 1),
        starts,
        stops,
        any_outside,
    )


def _coordinate(call: Call, d: int, axis: int) -> NDArray[np.int64]:
    indices = call.indices
    size = call.data.shape[axis]
    tuples = call.kind.endswith("_nd")
    batch = int(call.batch_dims)
    if call.kind.endswith("_elements"):
        addressed = axis == int(call.axis) % call.data.ndim
    elif tuples:
        addressed = axis >= batch
    else:
        batch += indices.ndim if batch < 0 else 0
        addressed = d == batch
    if addressed:
        column = indices[..., d - batch] if tuples else indices
        fills = call.mode in ("fill", "drop")
        one = Call(
            call.caller,
            "gather",
            np.arange(size),
            column,
            mode="fill" if fills else call.mode,
            fill_value=np.array(-1) if fills else None,
        )
        result: Any = one.run()
        if isinstance(result, tuple):
            raise explain(call, result)
        return np.asarray(result)
    shape = indices.shape[: -1 if tuples else None]
    along = [1] * len(shape)
    along[axis] = shape[axis]
    return np.broadcast_to(np.arange(shape[axis]).reshape(along), shape)


def move(
    points: ChunkedPoints,
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    chunk: Array,
    dense: Array,
) -> None:
    """Copy the points of some runs from a chunk to the dense array.

    The axes of the points come first in `chunk`, the axes of the positions in `dense`; the others
    are the slices, which have one shape in both.
    """
    for local, position in _points_of(points, starts, stops):
        at: list[Any] = []
        rest = local.astype(np.uint64)
        for bits in reversed(points.bits):
            at.insert(0, (rest & np.uint64((1 << bits) - 1)).astype(np.intp))
            rest = rest >> np.uint64(bits)
        rank = dense.ndim - (chunk.ndim - len(points.bits))
        where = np.unravel_index(position, dense.shape[:rank]) if rank else ()
        dense[where] = chunk[tuple(at)] if at else chunk


def _points_of(
    points: ChunkedPoints, starts: NDArray[np.int64], stops: NDArray[np.int64]
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        base = start // points.block * points.block
        yield points.local[start:stop], points.positions[start:stop].astype(np.intp) + base


def fill(
    points: ChunkedPoints,
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    value: Array,
    dense: Array,
    rank: int,
) -> None:
    """Set the positions of some runs to a value; the first `rank` axes of `dense` are positions."""
    for _, position in _points_of(points, starts, stops):
        dense[np.unravel_index(position, dense.shape[:rank]) if rank else ()] = value
