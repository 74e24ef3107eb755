"""Which parts of which windows lie in which chunk.

A part of a window is a point of its chunk, with a slice: where it begins, and its shape. Parts of
one chunk that have one place within their windows are of one kind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ndgather import windows
from ndgather.stored.grouping import ChunkedPoints

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgather.array_call import Call
    from ndgather.stored.chunks import Array, Grid

    Integers = NDArray[np.int64]

MOST_WINDOWS = 2**32  # whose numbers have 4 bytes
BLOCK = 2**17  # parts that are grouped at a time: what that takes is a few MiB


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of all windows, by chunk and by kind.

    Chunk ``chunks[c]`` has the kinds ``first[c]..first[c + 1]``. Parts of kind i are the points
    ``starts[i]..stops[i]``, and each is the box ``low[i]..high[i]`` of its window.
    """

    points: ChunkedPoints  # whose positions are the numbers of windows
    chunks: Integers
    first: Integers
    starts: Integers
    stops: Integers
    low: Integers
    high: Integers


@dataclass(frozen=True, slots=True)
class _Block:
    """The parts of some windows: as in `Parts`, with the chunk of each kind."""

    local: NDArray[np.unsignedinteger]
    positions: NDArray[np.uint32]
    chunk: Integers
    starts: Integers
    low: Integers
    high: Integers


def parts_of(call: Call, grid: Grid) -> Parts:
    """Return the parts of the windows of a call; `grid` is that of the axes of windows."""
    window = call.window_shape
    starts = call.indices.reshape(math.prod(call.indices.shape[:-1]), len(window))
    some = max(1, BLOCK // _most_parts(window, grid))
    blocks = [
        _block(call, starts[first : first + some], first, grid)
        for first in range(0, max(len(starts), 1), some)
    ]
    begins = np.cumsum([0, *(len(each.local) for each in blocks)])
    chunk = np.concatenate([each.chunk for each in blocks])
    first_points = np.concatenate(
        [each.starts + begin for each, begin in zip(blocks, begins[:-1], strict=True)]
    )
    stops = np.append(first_points[1:], begins[-1])
    order = np.argsort(chunk, kind="stable")
    chunks, first = np.unique(chunk[order], return_index=True)
    points = ChunkedPoints(
        grid.bits,
        np.concatenate([each.local for each in blocks]),
        np.concatenate([each.positions for each in blocks]),
        int(begins[-1]) + 1,
        chunks,
        first,
        first_points,
        stops,
        0,
    )
    return Parts(
        points,
        chunks,
        np.append(first, len(chunk)),
        first_points[order],
        stops[order],
        np.concatenate([each.low for each in blocks])[order],
        np.concatenate([each.high for each in blocks])[order],
    )


def _most_parts(window: tuple[int, ...], grid: Grid) -> int:
    """Return how many chunks a window can meet."""
    shortest = (
        step if isinstance(step, int) else int(np.diff(step).min(initial=1)) for step in grid.steps
    )
    return math.prod(
        min(size // step + 2, count)
        for size, step, count in zip(window, shortest, grid.counts, strict=True)
    )


def _block(call: Call, starts: Array, number: int, grid: Grid) -> _Block:
    """Return the parts of some windows; `number` is that of the first."""
    window, shape = np.array(call.window_shape, np.int64), np.array(grid.shape, np.int64)
    starts = windows.signed(starts).clip(-window, shape)
    if call.mode != "fill":
        starts = starts.clip(0, shape - window)
    low, high = windows.shared_parts(starts, grid.shape, call.window_shape)
    member = np.flatnonzero((low < high).all(axis=1))
    chunk: list[Integers] = []
    for axis, step in enumerate(grid.steps):
        first = _chunk_at(step, (starts + low)[member, axis])
        count = _chunk_at(step, (starts + high)[member, axis] - 1) - first + 1
        member = np.repeat(member, count)
        chunk = [np.repeat(each, count) for each in (*chunk, first)]
        chunk[-1] += np.arange(len(member)) - np.repeat(np.cumsum(count) - count, count)
    starts, low, high = starts[member], low[member], high[member]
    numbers = np.zeros(len(member), np.int64)
    local = np.zeros(len(member), np.uint64)
    for axis, step in enumerate(grid.steps):
        begin, end = _bounds(step, grid.shape[axis], chunk[axis])
        low[:, axis] = np.maximum(low[:, axis], begin - starts[:, axis])
        high[:, axis] = np.minimum(high[:, axis], end - starts[:, axis])
        at = (starts[:, axis] + low[:, axis] - begin).astype(np.uint64)
        local = (local << np.uint64(grid.bits[axis])) | at
        numbers = numbers * grid.counts[axis] + chunk[axis]
    order = np.lexsort((*high.T, *low.T, numbers))
    keys = np.column_stack([numbers, low, high])[order]
    new = np.flatnonzero(np.append(True, (keys[1:] != keys[:-1]).any(axis=1))[: len(keys)])
    return _Block(
        local[order].astype(np.uint32 if sum(grid.bits) <= 32 else np.uint64),
        (member[order] + number).astype(np.uint32),
        keys[new, 0],
        new,
        low[order[new]],
        high[order[new]],
    )


def _chunk_at(step: int | Integers, at: Integers) -> Integers:
    return at // step if isinstance(step, int) else np.searchsorted(step, at, side="right") - 1


def _bounds(step: int | Integers, size: int, chunk: Integers) -> tuple[Integers, Integers]:
    """Return where chunks begin and end along one axis."""
    if isinstance(step, int):
        return chunk * step, np.minimum((chunk + 1) * step, size)
    return step[chunk], step[chunk + 1]
