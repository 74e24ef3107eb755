"""Gather ranges from stored arrays, reading each touched chunk only once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ndgather import ranges
from ndgather.array_call import Array, Call
from ndgather.messages import LOGGER, plural
from ndgather.ranges import Integers, Ranges
from ndgather.stored.calls import provide_out
from ndgather.stored.chunks import Box, Chunk, Grid, Reader
from ndgather.stored.plan import count_up, with_data
from ndgather.stored.walk import walk


class RangePlan:
    """Ranges that are split at chunk boundaries, with their parts grouped by chunk.

    Chunk ``chunks[g]`` of the axis contains the parts ``first[g]:first[g + 1]``. Part p begins at
    position ``starts[p]`` of its chunk and is copied to position ``offsets[p]`` of the result.
    """

    def __init__(self, grid: Grid, axis: int, named: Ranges) -> None:
        self.grid, self.axis = grid, axis
        some = np.flatnonzero(named.lengths)
        starts = named.starts[some]
        stops, offsets = starts + named.lengths[some], named.offsets[some]
        first = grid.chunk_at(axis, starts)
        count = grid.chunk_at(axis, stops - 1) - first + 1
        chunk = np.repeat(first, count) + count_up(count)
        begin, end = grid.borders(axis, chunk)
        starts, stops, offsets = (np.repeat(array, count) for array in (starts, stops, offsets))
        low, high = np.maximum(starts, begin), np.minimum(stops, end)
        order = np.argsort(chunk, kind="stable")
        self.chunks, self.first = np.unique(chunk[order], return_index=True)
        self.first = np.append(self.first, len(chunk))
        self.starts = (low - begin)[order]
        self.lengths = (high - low)[order]
        self.offsets = (offsets + low - starts)[order]
        shape, length = grid.shape, int(named.offsets[-1])
        self.dense_shape = (*shape[:axis], length, *shape[axis + 1 :])
        self._others = (*grid.counts[:axis], *grid.counts[axis + 1 :])

    def __len__(self) -> int:
        return int(len(self.chunks) * math.prod(self._others))

    @property
    def nbytes(self) -> int:
        return 3 * int(self.starts.nbytes)

    def chunk(self, step: int) -> Chunk:
        group, rest = divmod(step, math.prod(self._others))
        others = tuple(map(int, np.unravel_index(rest, self._others))) if self._others else ()
        return (*others[: self.axis], self.chunks.item(group), *others[self.axis :])

    def job(self, step: int, out: Array) -> _RangeJob:
        """Return a job that copies the parts in a step's chunk to `out`."""
        group, chunk = step // math.prod(self._others), self.chunk(step)
        parts = slice(self.first.item(group), self.first.item(group + 1))
        box: Box = self.grid.box(chunk)
        target = out[(*box[: self.axis], slice(None), *box[self.axis + 1 :])]
        copied = self.starts[parts], self.lengths[parts], self.offsets[parts]
        return _RangeJob(chunk, self.axis, *copied, target)


@dataclass(frozen=True, slots=True)
class _RangeJob:
    chunk: Chunk
    axis: int
    starts: Integers
    lengths: Integers
    offsets: Integers
    out: Array
    is_read: bool = True

    def use(self, values: Array) -> None:
        ranges.copy(values, self.axis, self.starts, self.lengths, self.offsets, self.out)

    def send(self) -> tuple[Callable[[Array], Any], int]:
        count = int(self.lengths.sum())
        size = self.out.itemsize * count * math.prod(self.out.shape) // self.out.shape[self.axis]
        function = partial(_joined, axis=self.axis, starts=self.starts, lengths=self.lengths)
        return function, size + 2 * self.starts.nbytes

    def receive(self, result: Any) -> None:
        values = result.astype(self.out.dtype, copy=False)  # pickling may change the byte order
        begins = np.cumsum(self.lengths) - self.lengths
        ranges.copy(values, self.axis, begins, self.lengths, self.offsets, self.out)


def _joined(values: Array, axis: int, starts: Integers, lengths: Integers) -> Array:
    """Concatenate the parts of ranges that a chunk contains."""
    starts, lengths = (np.require(each, None, ["C", "A"]) for each in (starts, lengths))
    return ranges.joined(values, axis, starts, lengths)


def run_ranges(call: Call, reader: Reader, named: Ranges) -> Array:
    """Gather ranges that have already been checked to be in bounds."""
    call = with_data(call, reader.grid, reader.dtype)
    plan = RangePlan(reader.grid, call.axis, named)
    out = provide_out(call, plan.dense_shape)
    walk(call, reader, len(plan), lambda step: plan.job(step, out))
    LOGGER.info("%s: %s of %s read", call.caller, plural(len(plan), "chunk"), reader.name)
    return out if call.out is None else call.out
