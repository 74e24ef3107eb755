"""Calls on stored arrays: plan, walk, move."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import dispatch, fallback, plain_arrays
from ndgather.errors import argument_errors, stored_errors
from ndgather.stored import grouping, scatter, windows
from ndgather.stored.gather_walk import copy_pieces
from ndgather.stored.pieces import Piece
from ndgather.stored.plan import plain_gather, plan, provide_out, with_data

if TYPE_CHECKING:
    from collections.abc import Callable

    from ndgather.array_call import Call
    from ndgather.stored.chunks import Array, Chunk, Reader, Writer
    from ndgather.stored.plan import Plans


def run(
    call: Call, stored: type, reader: Callable[[Any], Reader], writer: Callable[[Any], Writer]
) -> Any:
    """Carry out a call with arrays of the type `stored`; all but its data are read whole.

    Raises
    ------
    NdgatherError
        An argument is something else of the package of `stored`, such as a group, or `out` is
        stored and cannot take the result.
    """
    plain: dict[str, Any] = {}
    names = {"data": "data", "indices": call.indices_name, "updates": call.updates_name}
    for argument, name in names.items():
        value = getattr(call, argument)
        if isinstance(value, stored):
            if argument != "data":
                plain[argument] = plain_arrays.plain_array(call.caller, name, value)
        elif dispatch.adapter_name(value) == reader.__module__:
            raise stored_errors.not_this_type(call.caller, name, value, stored)
    if call.scatters and isinstance(call.data, stored):
        if call.out is not call.data:
            raise stored_errors.not_in_place(call.caller, call.out, call.data)
        return scatter.scatter(replace(call, **plain), writer(call.data))
    if isinstance(call.out, stored):
        raise argument_errors.out_not_an_array(call.caller, call.out)
    call = replace(call, **plain)
    if not isinstance(call.data, stored):
        return fallback.run(call)
    return gather(call, reader(call.data))


def gather(call: Call, reader: Reader, plans: Plans | None = None) -> Array:
    """Carry out a gather whose data is what `reader` reads.

    All indices are checked, and `out` too, before the first chunk is read. Gathers of the same
    points, by tuples and in the mode raise, may share their plans.
    """
    if call.kind == "gather_windows":
        return windows.gather(call, reader)
    grid = reader.grid
    call = plain_gather(with_data(call, grid, reader.dtype))
    made = plan(call, grid) if plans is None else plans.plan(call, grid)
    out = provide_out(call, made.dense_shape)
    dense = made.axes.dense_view(out)
    points = made.points
    value = np.zeros((), reader.dtype) if call.fill_value is None else call.fill_value
    grouping.fill(points, value, dense, grid.along(made.axes.slices).shape)

    def pieces_of(step: int, chunk: Chunk) -> list[Piece]:
        target = made.dense_part(dense, chunk)
        rank = len(made.axes.dense_positions)
        runs = points.runs(made.steps.group(step))
        return [Piece(points, runs, made.axes.data_view, target, rank)]

    copy_pieces(call, reader, made.steps, pieces_of)
    return out if call.out is None else call.out
