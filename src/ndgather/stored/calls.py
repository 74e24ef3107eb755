"""Calls on stored arrays: plan, walk, move."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ndgather.stored import grouping, windows
from ndgather.stored.plan import plain_gather, plan, provide_out, stand_in
from ndgather.stored.walk import walk

if TYPE_CHECKING:
    from ndgather.array_call import Call
    from ndgather.stored.chunks import Array, Chunk, Reader


def gather(call: Call, reader: Reader) -> Array:
    """Carry out a gather whose data is what `reader` reads.

    All indices are checked, and `out` too, before the first chunk is read.
    """
    if call.kind == "gather_windows":
        return windows.gather(call, reader)
    grid = reader.grid
    call = plain_gather(replace(call, data=stand_in(grid.shape, reader.dtype)))
    made = plan(call, grid)
    out = provide_out(call, made.dense_shape)
    dense = made.axes.dense_view(out)
    points = made.points
    if points.outside:
        value = np.zeros((), reader.dtype) if call.fill_value is None else call.fill_value
        rank = len(made.axes.dense_positions)
        grouping.fill(points, *points.runs(len(points.chunks)), value, dense, rank)

    def use(step: int, chunk: Chunk, values: Array) -> None:
        group, _ = made.step(step)
        part = made.dense_part(dense, grid.box(chunk))
        grouping.move(points, *points.runs(group), made.axes.data_view(values), part)

    walk(call, reader, made.steps, lambda step: made.step(step)[1], use)
    return out if call.out is None else call.out
