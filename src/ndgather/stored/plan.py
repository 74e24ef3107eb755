"""The plan of a call on a stored array: its points grouped by chunk.

All indices are checked before the first chunk is read. A plan takes 8 bytes per point. For example,
``gather_nd(data, [[0, 5], [3, 1], [1, 4]])`` reads these chunks of shape (2, 3)::

           0  1  2 | 3  4  5
        0  .  .  . | .  .  a        chunk 1 (0, 1) contains the points a and c,
        1  .  .  . | .  c  .        at (0, 2) and (1, 1) of the chunk;
           --------+---------       chunk 2 (1, 0) contains b, at (1, 1);
        2  .  .  . | .  .  .        chunks 0 and 3 are not read
        3  .  b  . | .  .  .
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ndgather import arguments, windows
from ndgather.array_call import Array, Call, Mode, _core, replace
from ndgather.axes import Axes
from ndgather.errors import ShapeError
from ndgather.messages import shown
from ndgather.stored.chunks import Chunk, Grid, stand_in

Integers: TypeAlias = NDArray[np.int64]
Runs: TypeAlias = tuple[Integers, Integers]  # the start and stop of each run of points

_MOST_WINDOWS = 2**32  # window numbers are stored as uint32
_MOST_BITS = 63  # the packed coordinates of an element of data must fit in an int64

# Sorting takes 28 bytes per point of a block, and each block has its own list of chunks.
# Blocks should therefore be neither too large nor too numerous.
_LEAST_BLOCK = 1 << 18
_MOST_BLOCK = (1 << 32) - 1  # positions within a block are stored as uint32
_BLOCKS = 16
_WINDOW_BLOCK = 2**17  # the number of window parts that are grouped at a time


@dataclass(frozen=True, slots=True)
class Points:
    """Points grouped by chunk.

    ``offset_in_chunk[i]`` contains the coordinates of point i within its chunk, packed into
    ``bits[d]`` bits for each axis d, with the last axis in the lowest bits. The position of point i
    in the call is ``positions[i] + i // block * block``. Group g consists of the runs
    ``first[g]:first[g + 1]``, and run r consists of the points ``starts[r]:stops[r]``, sorted by
    position. For windows, `positions` contains window indices, and each point of run r represents
    the box ``low[r]:high[r]`` of its window. In the example above, the axes have 1 and 2 bits::

        points            a       c       b
        offset_in_chunk   0b0_10  0b1_01  0b1_01
        positions         0       2       1
        chunks            1               2         first   0  1  2
        starts            0               2         stops   2  3
    """

    bits: tuple[int, ...]
    offset_in_chunk: NDArray[np.unsignedinteger[Any]]  # uint32, or uint64 if necessary
    positions: NDArray[np.uint32]
    block: int
    chunks: Integers  # the flat chunk index of each group, in ascending order
    first: Integers
    starts: Integers
    stops: Integers
    outside: bool = False  # whether an extra last group contains the out-of-bounds points
    low: Integers | None = None
    high: Integers | None = None

    @classmethod
    def one_run(cls, bits: tuple[int, ...], offset_in_chunk: Array, positions: Array) -> Points:
        """Return points that form a single run, in a chunk whose index does not matter."""
        count = len(offset_in_chunk)
        start, stop = np.array([0]), np.array([count])
        return cls(
            bits, offset_in_chunk, positions, max(count, 1), start, np.array([0, 1]), start, stop
        )

    def runs(self, group: int) -> Runs:
        part = slice(self.first.item(group), self.first.item(group + 1))
        return self.starts[part], self.stops[part]

    def of_runs(self, runs: Runs) -> tuple[Array, Array]:
        """Return the packed coordinates and the positions of all points in `runs`."""
        parts = [slice(*pair) for pair in zip(*(ends.tolist() for ends in runs), strict=True)]
        number: Any = np.uint32 if len(self.positions) <= 2**32 else np.int64
        positions = [
            self.positions[part] + number(part.start // self.block * self.block) for part in parts
        ]
        return np.concatenate([self.offset_in_chunk[part] for part in parts]), np.concatenate(
            positions
        )

    @property
    def nbytes(self) -> int:
        arrays = (self.offset_in_chunk, self.positions, self.chunks, self.starts, self.stops)
        return sum(array.nbytes for array in arrays)


@dataclass(frozen=True, slots=True)
class ChunkCopy:
    """A copy, in either direction, between points of a chunk and ``dense[part]``."""

    points: Points
    runs: Runs
    view: Callable[[Array], Array]  # a function that moves the axes of points to the front
    part: tuple[Any, ...]

    def apart(self) -> tuple[PointsOfChunk, Array]:
        """Return the coordinates and positions as copies that do not refer to the plan."""
        offset_in_chunk, positions = self.points.of_runs(self.runs)
        return PointsOfChunk(self.points.bits, offset_in_chunk, self.view), positions


@dataclass(frozen=True, slots=True)
class PointsOfChunk:
    """Coordinates of points within a chunk, packed into 4 or 8 bytes per point."""

    bits: tuple[int, ...]
    offset_in_chunk: NDArray[np.unsignedinteger[Any]]
    view: Callable[[Array], Array]

    def coordinates(self) -> list[Integers]:
        """Return an array of coordinates for each axis that the points index.

        If two axes have 1 and 2 bits, 0b101 unpacks to ``0b101 >> 2 = 1`` on the first axis and
        ``0b101 & 0b11 = 1`` on the second axis.
        """
        columns, rest = [], self.offset_in_chunk.astype(np.int64)
        for count in reversed(self.bits):
            columns.append(rest & ((1 << count) - 1))
            rest >>= count
        return columns[::-1]


@dataclass(frozen=True)
class StoredPlan:
    """The points of a call, grouped by chunk, and the sequence of chunks to read.

    Each chunk is read in a separate step. A group of points needs a single chunk along the axes
    that the points index, and all chunks along the axes of their slices.
    """

    call: Call  # a call whose data is a stand-in with the stored shape and dtype
    axes: Axes
    grid: Grid
    points: Points
    dense_shape: tuple[int, ...]

    @cached_property
    def _counts(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]], int]:
        """Indexed axes and chunk counts, sliced axes and chunk counts, and the steps per group."""
        counts = self.grid.counts
        points = [(axis, counts[axis]) for axis in self.axes.points[::-1]]
        slices = [(axis, counts[axis]) for axis in self.axes.slices[::-1]]
        return points, slices, math.prod(map(counts.__getitem__, self.axes.slices))

    def __len__(self) -> int:
        return len(self.points.chunks) * self._counts[2]

    @property
    def nbytes(self) -> int:
        return self.points.nbytes

    def chunk(self, step: int) -> Chunk:
        """Return the chunk that a step reads.

        If slices extend through 5 chunks, step 7 reads the third chunk of the second group, because
        ``divmod(7, 5) == (1, 2)``.
        """
        of_points, of_slices, per_group = self._counts
        group, rest = divmod(step, per_group)
        chunk = [0] * len(self.grid.shape)
        number = self.points.chunks.item(group)
        for axis, count in of_points:
            number, chunk[axis] = divmod(number, count)
        for axis, count in of_slices:
            rest, chunk[axis] = divmod(rest, count)
        return tuple(chunk)

    def runs(self, step: int) -> Runs:
        return self.points.runs(step // self._counts[2])

    def copies(self, step: int, chunk: Chunk) -> list[ChunkCopy]:
        points, (starts, stops) = self.points, self.runs(step)
        box = self.grid.box(chunk) if self.axes.slices else ()
        slices = [box[axis] for axis in self.axes.slices]
        if points.low is None or points.high is None:
            return [ChunkCopy(points, (starts, stops), self.axes.data_view, (..., *slices))]
        first = self.points.first.item(step // self._counts[2])
        copies = []
        for run in range(first, first + len(starts)):
            low, high = points.low[run].tolist(), points.high[run].tolist()
            window = tuple(end - begin for begin, end in zip(low, high, strict=True))
            view = partial(windows.view, window=window)
            runs = points.starts[run : run + 1], points.stops[run : run + 1]
            copies.append(ChunkCopy(points, runs, view, (..., *map(slice, low, high), *slices)))
        return copies


def make_plan(call: Call, grid: Grid) -> StoredPlan:
    """Check the indices and options of a call, and group its points by chunk."""
    indices = arguments.integer_indices(call)
    if call.kind.windows:
        if math.prod(indices.shape[:-1]) > _MOST_WINDOWS:
            raise ShapeError(
                f"{call.caller}: starts.shape = {shown(indices.shape)} gives more windows of a "
                f"stored array than a call supports (allowed: at most {_MOST_WINDOWS})"
            )
        # Copy the starts, because another thread or a write to `out` may change them.
        call = replace(call, indices=indices.copy())
        windows.check(call)
        dense_shape = windows.result_shape(call)
    else:
        call = replace(call, indices=indices)
        dense_shape = arguments.slices_shape(call)
    axes = Axes.of(call, call.data.ndim, call.indices.shape)
    along = grid.along(axes.points)
    points = _window_points(call, along) if call.kind.windows else _points(call, along, axes.points)
    return StoredPlan(call, axes, grid, points, dense_shape)


def shared_plan(call: Call, grid: Grid, plans: list[StoredPlan]) -> StoredPlan:
    """Return the plan in `plans` that has the same indices and grid, or append a new plan."""
    for known in plans:
        if grid.is_like(known.grid) and np.array_equal(known.call.indices, call.indices):
            return known
    plans.append(make_plan(call, grid))
    return plans[-1]


def with_data(call: Call, grid: Grid, dtype: np.dtype[Any]) -> Call:
    """Check `call` after replacing its data with a stand-in of the given shape and dtype."""
    return arguments.checked(with_stand_in(call, grid, dtype), dtype, any_start=True)


def with_stand_in(call: Call, grid: Grid, dtype: np.dtype[Any]) -> Call:
    """Replace the data of `call` with an array that allocates only a single element."""
    try:
        data = stand_in(grid.shape, dtype)
    except ValueError:
        raise _too_many_places(call.caller, grid.shape, range(len(grid.shape))) from None
    return replace(call, data=data)


def _too_many_places(caller: str, shape: Sequence[int], axes: Sequence[int]) -> ShapeError:
    return ShapeError(
        f"{caller}: data of shape {shown(shape)} has too many elements along axes {shown(axes)} "
        f"(allowed: at most 2**63, with every size rounded up to a power of two)"
    )


def _points(call: Call, grid: Grid, axes: Sequence[int]) -> Points:
    """Check the indices of a call and group its points by the chunks along `axes`."""
    if sum([max(0, size - 1).bit_length() for size in grid.shape]) > _MOST_BITS:
        raise _too_many_places(call.caller, call.data.shape, axes)
    bits = grid.bits
    shape = call.indices.shape[:-1] if call.kind.tuples else call.indices.shape
    count = math.prod(shape)
    block = min(max(_LEAST_BLOCK, -(-count // _BLOCKS)), _MOST_BLOCK)
    offset_in_chunk = np.empty(count, np.uint32 if sum(bits) <= 32 else np.uint64)
    positions = np.empty(count, np.uint32)
    bare = Call(  # omits all arguments that do not affect the points
        call.caller,
        call.kind.gather,
        stand_in(call.data.shape, np.dtype(np.uint8)),
        call.indices,
        axis=call.axis,
        batch_dims=call.batch_dims,
        mode=Mode.FILL if call.mode == Mode.DROP else call.mode,
        negative=call.negative,
    )
    given = bare.arguments()

    def sort(begin: int) -> tuple[Array, Array]:
        part = slice(begin, begin + block)
        result = _core.sort_points(
            given, grid.chunk_lengths, begin, offset_in_chunk[part], positions[part]
        )
        if isinstance(result, _core.Refusal):
            arguments.raise_error(call, result)
        return result

    begins = range(0, max(count, 1), block)
    if len(begins) == 1:
        sorted_blocks = [sort(0)]
    else:
        try:
            with ThreadPoolExecutor(_core.get_num_threads(), "ndgather-points") as pool:
                sorted_blocks = list(pool.map(sort, begins))
        except RuntimeError:  # raised if no thread can be started
            sorted_blocks = [sort(begin) for begin in begins]
        _core.release_memory()  # frees the memory used for sorting
    runs = runs_of_blocks(sorted_blocks, begins, count, math.prod(grid.counts))
    return Points(bits, offset_in_chunk, positions, block, *runs)


def runs_of_blocks(
    sorted_blocks: list[tuple[Array, Array]], begins: Sequence[int], count: int, chunk_count: int
) -> tuple[Integers, Integers, Integers, Integers, bool]:
    """Merge blocks of sorted points; return the fields of `Points` that follow `block`.

    A block consists of its chunks, in ascending order, and the first point of each chunk. The list
    of blocks is cleared early, because it may be as large as the result. Two blocks of 4 points in
    the chunks 0 0 1 1 and 1 1 1 2 are merged as follows::

        sorted_blocks   ([0, 1], [0, 2])  ([1, 2], [0, 3])
        by chunk        0     1     1     2
        starts          0     2     4     7
        stops           2     4     7     8      chunk 1 has two runs: first is 0 1 3 4
    """
    # Allocate the results first, so that memory allocated later can be returned to the system.
    each = [numbers for numbers, _ in sorted_blocks]
    length = sum(map(len, each))
    starts, stops = np.empty(length, np.int64), np.empty(length, np.int64)
    numbers = np.concatenate(each)
    del each
    begin = np.concatenate([at + b for (_, at), b in zip(sorted_blocks, begins, strict=True)])
    sorted_blocks.clear()
    # A stable sort keeps the runs of a chunk in block order, so updates are applied in order.
    order = np.argsort(numbers, kind="stable")
    np.take(begin, order, out=starts)
    np.take(np.append(begin[1:], count)[:length], order, out=stops)
    numbers = numbers[order]
    first = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1])[:length])
    chunks = numbers[first]
    outside = bool(len(chunks) > 0 and int(chunks[-1]) == chunk_count)
    return chunks[: len(chunks) - outside], np.append(first, length), starts, stops, outside


def _window_points(call: Call, grid: Grid) -> Points:
    """Split windows at chunk boundaries, and group the parts by chunk and by box in the window.

    A part is the overlap of a window and a chunk. In this example, windows of size 4 start at the
    positions 1, 2 and 5 of an axis of size 9, which has chunks of length 3::

        axis       0  1  2 | 3  4  5 | 6  7  8
        window 0      0  1 | 2  3    |            chunk 0: 0..1 of window 1, 0..2 of 0
        window 1         0 | 1  2  3 |            chunk 1: 0..1 of 2, 1..4 of 1, 2..4 of 0
        window 2           |       0 | 1  2  3    chunk 2: 1..4 of 2
    """
    window = call.window_shape
    starts = call.indices.reshape(math.prod(call.indices.shape[:-1]), len(window))
    # For example, a window of size 4 overlaps at most 4 // 3 + 2 = 3 chunks of length 3.
    # In mode "wrap", a window may have more parts, so its block takes more memory.
    most_parts = math.prod(
        min(size // max(length, 1) + 2, max(count, 1))  # an empty axis has no chunks
        for size, length, count in zip(window, grid.shortest, grid.counts, strict=True)
    )
    length = max(1, _WINDOW_BLOCK // most_parts)
    blocks = [
        _window_block(call, starts[first : first + length], first, grid)
        for first in range(0, max(len(starts), 1), length)
    ]
    offset_in_chunk, positions, chunk, run_starts, low, high = map(
        np.concatenate, zip(*blocks, strict=True)
    )
    begins = np.cumsum([0, *(len(block[0]) for block in blocks)])
    run_starts += np.repeat(begins[:-1], [len(block[3]) for block in blocks])
    order = np.argsort(chunk, kind="stable")
    chunks, first = np.unique(chunk[order], return_index=True)
    return Points(
        grid.bits,
        offset_in_chunk,
        positions,
        int(begins[-1]) + 1,
        chunks,
        np.append(first, len(chunk)),
        run_starts[order],
        np.append(run_starts[1:], begins[-1])[order],
        low=low[order],
        high=high[order],
    )


def _window_block(call: Call, starts: Array, number: int, grid: Grid) -> tuple[Array, ...]:
    """Return the parts and runs of a block of windows; the first window has index `number`.

    A part has packed coordinates and a window index. A run has a chunk index, the index of its
    first part, and the box ``low:high`` that its parts occupy in their windows.
    """
    window, starts, low, high = _split_windows(call, starts, grid.shape)
    # Repeat each part for every chunk that it overlaps.
    # For example, a part in chunks 1 to 3 is repeated for chunks 1 + 0, 1 + 1 and 1 + 2.
    member = np.arange(len(window))
    chunk: list[Integers] = []
    for axis in range(len(grid.shape)):
        first = grid.chunk_at(axis, (starts + low)[member, axis])
        count = grid.chunk_at(axis, (starts + high)[member, axis] - 1) - first + 1
        member = np.repeat(member, count)
        chunk = [np.repeat(numbers, count) for numbers in (*chunk, first)]
        chunk[-1] += count_up(count)
    starts, low, high = starts[member], low[member], high[member]
    numbers = np.zeros(len(member), np.int64)
    offset_in_chunk = np.zeros(len(member), np.uint64)
    for axis in range(len(grid.shape)):
        begin, end = grid.borders(axis, chunk[axis])
        low[:, axis] = np.maximum(low[:, axis], begin - starts[:, axis])
        high[:, axis] = np.minimum(high[:, axis], end - starts[:, axis])
        at = (starts[:, axis] + low[:, axis] - begin).astype(np.uint64)
        offset_in_chunk = (offset_in_chunk << np.uint64(grid.bits[axis])) | at
        numbers = numbers * grid.counts[axis] + chunk[axis]
    # Parts with the same chunk and the same box form a run, which is copied by a single call.
    order = np.lexsort((*high.T, *low.T, numbers))
    keys = np.column_stack([numbers, low, high])[order]
    new = np.flatnonzero(np.append(True, (keys[1:] != keys[:-1]).any(axis=1))[: len(keys)])
    return (
        offset_in_chunk[order].astype(np.uint32 if sum(grid.bits) <= 32 else np.uint64),
        (window[member[order]] + number).astype(np.uint32),
        keys[new, 0],
        new,
        low[order[new]],
        high[order[new]],
    )


def _split_windows(call: Call, starts: Array, sizes: Sequence[int]) -> tuple[Array, ...]:
    """Split windows into parts that are copied from contiguous boxes of data.

    Return the arrays `window`, `starts`, `low` and `high`. Part i is the box ``low[i]:high[i]`` of
    window ``window[i]`` and is copied from data, beginning at ``starts[i] + low[i]``. A window that
    is in bounds has a single part. Here, a window of size 4 starts at -1 on an axis of size 6::

        elements     0  1  2  3
        fill         -  0  1  2     a single part: low 1, high 4, start -1
        wrap         5  0  1  2     two parts: 1..4 with start -1, and 0..1 with start 5
        edge         0  0  1  2     a single part, 0 1 2, which `arrange` turns into 0 0 1 2
        reflect      1  0  1  2     the same part, which `arrange` turns into 1 0 1 2
    """
    axes = list(enumerate(zip(call.modes, sizes, call.window_shape, strict=False)))
    window = np.arange(len(starts))
    begins, low, high = (np.empty(starts.shape, np.int64) for _ in range(3))
    for axis, (mode, size, wide) in axes:
        at = windows.near(mode, starts[:, axis], size, wide)
        low[:, axis], high[:, axis] = 0, wide
        if mode in ("fill", "wrap"):
            low[:, axis], high[:, axis] = _overlap(at, size, wide)
        elif mode in ("edge", "reflect") and wide:
            first, last = windows.reach(mode, at, size, wide)
            at = first.clip(0, max(size - wide, 0))
            low[:, axis], high[:, axis] = first - at, last - at + 1
        begins[:, axis] = at
    for axis, (mode, size, wide) in axes:
        if mode != "wrap" or not wide:
            continue
        # For example, a window of size 4 that starts at 5 on an axis of size 6 overlaps
        # ceil(9 / 6) = 2 repetitions of the axis.
        turns = -(-(begins[:, axis] + wide) // size)
        part = np.repeat(np.arange(len(turns)), turns)
        window, begins, low, high = (each[part] for each in (window, begins, low, high))
        begins[:, axis] -= count_up(turns) * size
        low[:, axis], high[:, axis] = _overlap(begins[:, axis], size, wide)
    copied = (low < high).all(axis=1)
    return window[copied], begins[copied], low[copied], high[copied]


def _overlap(starts: Integers, size: int, wide: int) -> Runs:
    """Return the range of in-bounds elements within each window, as starts and stops."""
    return np.maximum(-starts, 0), np.minimum(size - starts, wide)


def count_up(counts: Integers) -> Integers:
    """Concatenate ``arange(count)`` for all counts, so that 2, 0, 3 becomes 0, 1, 0, 1, 2."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
