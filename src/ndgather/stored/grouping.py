"""Points by chunk: checked once, grouped stably, 8 bytes each."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ndgather.array_call import Call, Refusal, _core
from ndgather.errors import stored_errors
from ndgather.slow_path import explain
from ndgather.stored.chunks import stand_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ndgather.stored.chunks import Array, Grid

    Runs: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]  # where they start and stop

_MOST_BITS = 63  # of the coordinates of a point, with the number of its chunk
_LEAST_BLOCK = 1 << 18  # points that are sorted at once, in 28 bytes each
_MOST_BLOCK = (1 << 32) - 1  # positions within a block have 4 bytes
_BLOCKS = 16  # of many points: each lists its own chunks


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

    @classmethod
    def one_group(cls, bits: tuple[int, ...], local: Array, positions: Array) -> ChunkedPoints:
        """Return points of one chunk, whose number does not matter, as a single run."""
        count = len(local)
        start, stop = np.array([0]), np.array([count])
        first = np.array([0, 1])
        return cls(bits, local, positions, max(count, 1), start, first, start, stop, 0)

    def runs(self, group: int) -> Runs:
        """Return where the runs of a group start and stop; -1 are the points outside."""
        group %= len(self.first) - 1
        part = slice(self.first.item(group), self.first.item(group + 1))
        return self.starts[part], self.stops[part]

    def count(self, group: int) -> int:
        """Return how many points a group has."""
        starts, stops = self.runs(group)
        return int((stops - starts).sum())


def group(call: Call, axes: tuple[int, ...], grid: Grid) -> ChunkedPoints:
    """Check the indices of a call, and group its points by the chunks of the grid of `axes`.

    Raises
    ------
    NdgatherError
        The call is refused, as it would be for an array in memory.
    """
    if sum(max(0, size - 1).bit_length() for size in grid.shape) > _MOST_BITS:
        raise stored_errors.too_many_places(call.caller, call.data.shape, axes)
    bits = grid.bits
    shape = call.indices.shape[:-1] if call.kind.endswith("_nd") else call.indices.shape
    count = math.prod(shape)
    block = min(max(_LEAST_BLOCK, -(-count // _BLOCKS)), _MOST_BLOCK)
    local = np.empty(count, np.uint32 if sum(bits) <= 32 else np.uint64)
    positions = np.empty(count, np.uint32)
    plain = _without_data(call)

    def sort(begin: int) -> tuple[Array, Array]:
        part = slice(begin, begin + block)
        kind, *options = plain.arguments()
        result = _core.sort_points(kind, grid.steps, begin, local[part], positions[part], *options)
        if isinstance(result, Refusal):
            raise explain(call, result)
        return result

    begins = range(0, max(count, 1), block)
    if len(begins) == 1:
        sorted_blocks = [sort(0)]
    else:
        sorted_blocks = _all(sort, begins)
        _core.release_memory()  # what the sort took would stay while chunks are read
    return ChunkedPoints(
        bits, local, positions, block, *_directory(sorted_blocks, begins, count, grid)
    )


def _all(sort: Callable[[int], tuple[Array, Array]], begins: range) -> list[tuple[Array, Array]]:
    """Sort each block, by threads where the system gives some."""
    pool = ThreadPoolExecutor(_core.get_num_threads(), "ndgather-points")
    try:
        tasks = [pool.submit(sort, begin) for begin in begins]
    except RuntimeError:  # no thread can be had
        pool.shutdown(cancel_futures=True)
        return [sort(begin) for begin in begins]
    try:
        return [each.result() for each in tasks]
    finally:
        pool.shutdown(cancel_futures=True)


def _without_data(call: Call) -> Call:
    """Return the gather of bytes that addresses what `call` does: only indices count for it."""
    return Call(
        call.caller,
        call.kind.replace("scatter", "gather"),
        stand_in(call.data.shape, np.dtype(np.uint8)),
        call.indices,
        axis=call.axis,
        batch_dims=call.batch_dims,
        mode="fill" if call.mode == "drop" else call.mode,
        negative=call.negative,
    )


def _directory(
    sorted_blocks: list[tuple[Array, Array]], begins: Sequence[int], count: int, grid: Grid
) -> tuple[Array, Array, Array, Array, int]:
    """Return the chunks, and the runs of each, of blocks that are sorted by themselves.

    The blocks are used up: of many small chunks their lists take as much memory as the result.
    """
    # What stays is asked for first: behind it, what is freed goes back to the system.
    length = sum(len(each) for each, _ in sorted_blocks)
    starts, stops = np.empty(length, np.int64), np.empty(length, np.int64)
    numbers = np.concatenate([each for each, _ in sorted_blocks])
    begin = np.concatenate([at + b for (_, at), b in zip(sorted_blocks, begins, strict=True)])
    sorted_blocks.clear()
    order = np.argsort(numbers, kind="stable")
    np.take(begin, order, out=starts)
    np.take(np.append(begin[1:], count)[:length], order, out=stops)
    numbers = numbers[order]
    first = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1])[:length])
    chunks = numbers[first]
    outside = int(len(chunks) > 0 and int(chunks[-1]) == math.prod(grid.counts))
    return chunks[: len(chunks) - outside], np.append(first, length), starts, stops, outside


def move(
    points: ChunkedPoints,
    runs: Runs,
    chunk: Array,
    dense: Array,
    reduction: str | None = None,
    arithmetic: object = None,
) -> None:
    """Copy the points of some runs from a chunk to the dense array.

    Where a reduction is given, the dense array holds updates, which meet the elements of the chunk
    in order. The axes of the points come first in `chunk`, the axes of the positions in `dense`;
    the others are the slices, which have one shape in both.
    """
    if chunk.dtype.hasobject or chunk.itemsize == 0:
        _move_references(points, runs, chunk, dense, reduction)
        return
    if type(chunk) is not np.ndarray:
        chunk = np.ndarray.view(chunk, np.ndarray)
    if type(dense) is not np.ndarray:
        dense = np.ndarray.view(dense, np.ndarray)
    _core.move_points(
        chunk,
        dense,
        points.bits,
        points.local,
        points.positions,
        points.block,
        *runs,
        reduction,
        arithmetic,
    )


def _move_references(
    points: ChunkedPoints, runs: Runs, chunk: Array, dense: Array, reduction: str | None
) -> None:
    """Do as `move` with elements that are references, or have no bytes: NumPy counts these."""
    rank = dense.ndim - (chunk.ndim - len(points.bits))
    for start, stop in zip(*(each.tolist() for each in runs), strict=True):
        at = coordinates(points.bits, points.local[start:stop])
        where = places_of(points, start, stop, dense.shape[:rank])
        here = at or (np.zeros(stop - start, np.intp),)
        of_chunk = chunk if at else chunk[np.newaxis]
        of_dense = dense if rank else dense[np.newaxis]
        if reduction is None:
            of_dense[where] = of_chunk[here]
        else:
            of_chunk[here] = of_dense[where]  # NumPy leaves the last of those that repeat


def coordinates(bits: tuple[int, ...], local: Array) -> tuple[Array, ...]:
    """Return packed coordinates, see `ChunkedPoints`, as one array for each axis."""
    columns, rest = [], local.astype(np.int64)
    for each in reversed(bits):
        columns.append(rest & ((1 << each) - 1))
        rest >>= each
    return tuple(reversed(columns))


def places_of(
    points: ChunkedPoints, start: int, stop: int, shape: tuple[int, ...]
) -> tuple[Array, ...]:
    """Return the positions of a run as coordinates, one array for each dim of their shape."""
    flat = points.positions[start:stop].astype(np.int64) + start // points.block * points.block
    return np.unravel_index(flat, shape or (1,))


def fill(points: ChunkedPoints, value: Array, dense: Array, slices: tuple[int, ...]) -> None:
    """Set what belongs to indices outside to a value; `slices` are the sizes of the last axes."""
    if points.outside:
        everywhere = np.broadcast_to(value, (1,) * len(points.bits) + slices)  # at place 0
        move(points, points.runs(-1), everywhere, dense)
