"""Gathers of windows of stored arrays: each part of a window comes from the chunk it lies in."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import plain_arrays, windows
from ndgather.errors import stored_errors
from ndgather.stored.gather_walk import copy_pieces
from ndgather.stored.pieces import Piece
from ndgather.stored.plan import plain_gather, provide_out, with_data
from ndgather.stored.steps import Steps
from ndgather.stored.window_parts import BLOCK, MOST_WINDOWS, parts_of

if TYPE_CHECKING:
    from ndgather.array_call import Call
    from ndgather.stored.chunks import Array, Chunk, Grid, Reader
    from ndgather.stored.window_parts import Parts


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """The parts of the windows of a call by chunk, and the steps in which these are read."""

    call: Call  # with plain starts, and a stand-in for data
    parts: Parts
    dense_shape: tuple[int, ...]
    steps: Steps


def plan(call: Call, grid: Grid) -> WindowPlan:
    """Check all of a call but its `out`, and find the parts of its windows.

    Raises
    ------
    NdgatherError
        The call is refused, as it would be for an array in memory.
    """
    window = call.window_shape
    starts = plain_arrays.native_indices(call.caller, call.indices, call.indices_name)
    if math.prod(starts.shape[:-1]) > MOST_WINDOWS:
        raise stored_errors.too_many_windows(call.caller, starts.shape, MOST_WINDOWS)
    # A copy: another thread may change them, or `out` have their memory, while they are used.
    call = replace(call, indices=starts.copy())
    windows.check(call)
    along = range(len(window))
    parts = parts_of(call, grid.along(along))
    shape = (*starts.shape[:-1], *window, *grid.shape[len(window) :])
    return WindowPlan(call, parts, shape, Steps.of(grid, along, parts.chunks))


def gather(call: Call, reader: Reader) -> Array:
    """Carry out a gather of windows whose data is what `reader` reads.

    All starts are checked, and `out` too, before the first chunk is read.
    """
    grid, depth = reader.grid, len(call.window_shape)
    made = plan(plain_gather(with_data(call, grid, reader.dtype)), grid)
    call, parts, steps = made.call, made.parts, made.steps
    out = provide_out(call, made.dense_shape)
    if call.mode == "fill":
        _fill(call, out)
    rank = call.indices.ndim - 1

    def pieces_of(step: int, chunk: Chunk) -> list[Piece]:
        whole = grid.box(chunk)[depth:]
        number = steps.group(step)
        pieces = []
        for kind in range(int(parts.first[number]), int(parts.first[number + 1])):
            low, high = parts.low[kind].tolist(), parts.high[kind].tolist()
            to: tuple[Any, ...] = (..., *map(slice, low, high), *whole)
            shape = tuple(end - begin for begin, end in zip(low, high, strict=True))
            runs = parts.starts[kind : kind + 1], parts.stops[kind : kind + 1]
            view = partial(windows.view, window=shape)
            pieces.append(Piece(parts.points, runs, view, out[to], rank))
        return pieces

    copy_pieces(call, reader, steps, pieces_of)
    return out if call.out is None else call.out


def _fill(call: Call, out: Array) -> None:
    """Fill the windows that stick out; what of them lies in data is copied over it later."""
    window, lead = call.window_shape, call.indices.shape[:-1]
    starts = call.indices.reshape(math.prod(lead), len(window))
    sizes = call.data.shape[: len(window)]
    value = np.zeros((), call.data.dtype) if call.fill_value is None else call.fill_value
    for first in range(0, len(starts), BLOCK):
        some = windows.signed(starts[first : first + BLOCK])
        low, high = windows.shared_parts(some, sizes, window)
        outside = np.flatnonzero(((low > 0) | (high < window)).any(axis=1)) + first
        if len(outside):
            out[np.unravel_index(outside, lead) if lead else ()] = value
