"""From a call to what it does in each chunk: which axes indices address, and points by chunk."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import slow_path
from ndgather.array_call import _core
from ndgather.errors import argument_errors, stored_errors
from ndgather.slow_path import explain
from ndgather.stored import grouping
from ndgather.stored.chunks import stand_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ndgather.array_call import Call
    from ndgather.stored.chunks import Array, Chunk, Grid
    from ndgather.stored.grouping import ChunkedPoints


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


@dataclass(frozen=True, slots=True)
class Axes:
    """What the axes of a call are for.

    A position of the walk, one for each tuple of indices, fixes a place on the `points` axes of
    data; all of the `slices` axes are copied for it. `dense` is the array on the other side: the
    result of a gather, the updates of a scatter.
    """

    points: tuple[int, ...]  # of data
    slices: tuple[int, ...]  # of data
    dense_positions: tuple[int, ...]  # of the dense array
    dense_slices: tuple[int, ...]  # of the dense array, in the order of `slices`

    def data_view(self, data: Array) -> Array:
        """Return `data`, or a chunk of it, with the points axes first."""
        return data.transpose(self.points + self.slices)

    def dense_view(self, dense: Array) -> Array:
        """Return the dense array with the axes of the positions first."""
        return dense.transpose(self.dense_positions + self.dense_slices)


def axes_of(call: Call) -> Axes:
    """Return what the axes of a call are for, whose shapes fit."""
    rank, indices = call.data.ndim, call.indices.ndim
    if call.kind.endswith("_elements"):
        every = tuple(range(rank))
        return Axes(every, (), every, ())
    if call.kind.endswith("_nd"):
        depth = int(call.batch_dims) + call.indices.shape[-1]
        axes = tuple(range(rank))
        count = indices - 1
        slices = tuple(range(count, count + rank - depth))
        return Axes(axes[:depth], axes[depth:], tuple(range(count)), slices)
    axis = int(call.axis) % rank
    batch = int(call.batch_dims) % (indices + 1 if call.batch_dims >= 0 else max(indices, 1))
    inner = indices - batch
    positions = (*range(batch), *range(axis, axis + inner))
    behind = range(axis + inner, rank + inner - 1)
    return Axes(
        (*range(batch), axis),
        (*range(batch, axis), *range(axis + 1, rank)),
        positions,
        (*range(batch, axis), *behind),
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """The points of a call by chunk, and the steps in which these are read."""

    call: Call  # with plain indices, and a stand-in for data that has its shape and dtype
    axes: Axes
    grid: Grid
    points: ChunkedPoints
    dense_shape: tuple[int, ...]
    steps: Steps

    def dense_part(self, dense: Array, chunk: Chunk) -> Array:
        """Return the part of the view of the dense array that belongs to a chunk."""
        if not self.axes.slices:
            return dense
        box = self.grid.box(chunk)
        part: tuple[Any, ...] = (..., *(box[axis] for axis in self.axes.slices))
        view: Array = dense[part]
        return view


def plan(call: Call, grid: Grid) -> Plan:
    """Check all of a call but its `out` and updates, and group its points by chunk.

    Raises
    ------
    NdgatherError
        The call is refused, as it would be for an array in memory.
    """
    call = replace(call, indices=slow_path.native_indices(call.caller, call.indices))
    dense_shape = slow_path.result_shape(call)
    axes = axes_of(call)
    points = grouping.group(call, axes.points, grid.along(axes.points))
    steps = Steps.of(grid, axes.points, points.chunks)
    return Plan(call, axes, grid, points, dense_shape, steps)


class Plans:
    """The plans of several gathers, of which those of the same points in chunks alike are one."""

    def __init__(self) -> None:
        self._made: list[Plan] = []

    def plan(self, call: Call, grid: Grid) -> Plan:
        """Return `plan`; a call with an executor uses points up, and so it gets a copy of these."""
        for made in self._made:
            if grid.is_like(made.grid) and np.array_equal(made.call.indices, call.indices):
                break
        else:
            made = plan(call, grid)
            self._made.append(made)
        if call.executor is None:
            return made
        return replace(made, points=replace(made.points, local=made.points.local.copy()))


def with_data(call: Call, grid: Grid, dtype: np.dtype[Any]) -> Call:
    """Return `call`, checked, with a stand-in for data of the shape and dtype that are stored."""
    try:
        data = stand_in(grid.shape, dtype)
    except ValueError:
        axes = range(len(grid.shape))
        raise stored_errors.too_many_places(call.caller, grid.shape, axes) from None
    return slow_path.checked(replace(call, data=data), dtype)


def provide_out(call: Call, shape: tuple[int, ...]) -> Array:
    """Return the array that takes a result: the caller's `out`, if it can, or a new one."""
    if call.out is None:
        try:
            return np.empty(shape, call.data.dtype)
        except (MemoryError, ValueError):
            raise argument_errors.result_too_large(call.caller, shape) from None
    out: Array = call.out
    if isinstance(out, np.ndarray):
        out = slow_path.plain_array(call.caller, "out", out)
    like = stand_in(shape, call.data.dtype)
    refusal = _core.check_out(out, like)
    if refusal[0] != "none":
        raise explain(replace(call, out=out), refusal)
    return out
