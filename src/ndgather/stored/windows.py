"""Gathers of windows of stored arrays: each part of a window comes from the chunk it lies in."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import plain_arrays, windows
from ndgather.errors import stored_errors
from ndgather.stored.gather_walk import copy_pieces
from ndgather.stored.pieces import Piece
from ndgather.stored.plan import plain_gather, provide_out, with_data
from ndgather.stored.window_parts import BLOCK, MOST_WINDOWS, parts_of

if TYPE_CHECKING:
    from ndgather.array_call import Call
    from ndgather.stored.chunks import Array, Chunk, Reader


def gather(call: Call, reader: Reader) -> Array:
    """Carry out a gather of windows whose data is what `reader` reads.

    All starts are checked, and `out` too, before the first chunk is read.
    """
    grid, window = reader.grid, call.window_shape
    call = plain_gather(with_data(call, grid, reader.dtype))
    starts = plain_arrays.native_indices(call.caller, call.indices, call.indices_name)
    if math.prod(starts.shape[:-1]) > MOST_WINDOWS:
        raise stored_errors.too_many_windows(call.caller, starts.shape, MOST_WINDOWS)
    # A copy: another thread may change them, or `out` have their memory, while they are used.
    starts = starts.copy()
    call = replace(call, indices=starts)
    windows.check(call)
    depth = len(window)
    along, rest = grid.along(range(depth)), grid.along(range(depth, len(grid.shape)))
    out = provide_out(call, (*starts.shape[:-1], *window, *rest.shape))
    parts = parts_of(call, along)
    if call.mode == "fill":
        _fill(call, out)
    slices = math.prod(rest.counts)

    def chunk_of(step: int) -> Chunk:
        number, other = divmod(step, slices)
        at = np.unravel_index(int(parts.chunks[number]), along.counts) if depth else ()
        return (
            *map(int, at),
            *map(int, np.unravel_index(other, rest.counts) if rest.shape else ()),
        )

    def pieces_of(step: int, chunk: Chunk) -> list[Piece]:
        whole = grid.box(chunk)[depth:]
        number = step // slices
        pieces = []
        for kind in range(int(parts.first[number]), int(parts.first[number + 1])):
            low, high = parts.low[kind].tolist(), parts.high[kind].tolist()
            to: tuple[Any, ...] = (..., *map(slice, low, high), *whole)
            shape = tuple(end - begin for begin, end in zip(low, high, strict=True))
            runs = parts.starts[kind : kind + 1], parts.stops[kind : kind + 1]
            view = partial(windows.view, window=shape)
            pieces.append(Piece(parts.points, runs, view, out[to], starts.ndim - 1))
        return pieces

    copy_pieces(call, reader, len(parts.chunks) * slices, chunk_of, pieces_of)
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
