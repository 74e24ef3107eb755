"""A call that is to be drawn: its arrays, and the result or the error that it comes to.

A call on large arrays, and on those that are not read, is checked but not carried out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import fallback, plain_arrays, windows
from ndgather.api import run
from ndgather.errors import NdgatherError
from ndgather.explain import explain
from ndgather.show.arguments import data_of, plain_or_masked, without_names
from ndgather.show.trace import entries_shape
from ndgather.stored import windows as stored_windows
from ndgather.stored.chunks import Grid
from ndgather.stored.plan import plain_gather, plan, with_data

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgather.array_call import Call
    from ndgather.stored.plan import Plan
    from ndgather.stored.windows import WindowPlan

    Array = NDArray[Any]

_MOST_RUN = 2**22  # elements of a call that is carried out
_MOST_CHECKED = 2**24  # entries, or parts of windows: each takes some bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attempt:
    """A call with plain arrays, and what came of it.

    `data` of the call stands in for a stored array, whose chunks are those of `grid`; `readable`
    says whether values are there to be drawn. `dense_shape` is None where the shapes do not fit.
    `checked` is False where there are too many entries to look at all of them.
    """

    call: Call
    readable: bool
    grid: Grid | None
    dense_shape: tuple[int, ...] | None
    result: Array | None
    error: NdgatherError | None
    checked: bool = True


def attempted(call: Call) -> Attempt:
    """Convert the arrays of a call, and carry it out or check it.

    Raises
    ------
    NdgatherError
        An argument is not an array: there is nothing to draw.
    """
    given = replace(call, updates=without_names(call.updates))
    call, readable, grid = _with_plain_arrays(call)
    dense_shape, result, error = None, None, None
    checked = True
    try:
        dense_shape = _dense_shape(call)
        if readable and not _is_large(given, call, dense_shape):
            result = run(replace(call, updates=given.updates))
        else:
            if call.scatters:
                _check_updates(replace(call, updates=given.updates), dense_shape)
            checked = can_be_planned(call, grid)
            if checked:
                planned(call, grid)
    except NdgatherError as found:
        error = found
    return Attempt(
        call=call,
        readable=readable,
        grid=grid,
        dense_shape=dense_shape,
        result=result,
        error=error,
        checked=checked,
    )


def refused(call: Call, error: NdgatherError) -> Attempt:
    """Return the attempt of a call that its caller does not make."""
    call, readable, grid = _with_plain_arrays(call)
    return Attempt(
        call=call, readable=readable, grid=grid, dense_shape=None, result=None, error=error
    )


def can_be_planned(call: Call, grid: Grid | None) -> bool:
    """Whether the points of a call, or the parts of its windows, are few enough to be listed."""
    parts = math.prod(entries_shape(call))
    if grid is not None:
        pairs = zip(call.window_shape, grid.largest, strict=False)
        parts *= math.prod(-(-wide // max(chunk, 1)) + 1 for wide, chunk in pairs)
    return parts <= _MOST_CHECKED


def planned(call: Call, grid: Grid | None) -> Plan | WindowPlan:
    """Check a call, and group its points by the chunks of a grid: by none, all of data is one."""
    shape = call.data.shape
    grid = grid or Grid.regular(shape, shape)
    call = with_data(call, grid, call.data.dtype)
    if call.kind == "gather_windows":
        return stored_windows.plan(plain_gather(call), grid)
    return plan(call if call.scatters else plain_gather(call), grid)


def _with_plain_arrays(call: Call) -> tuple[Call, bool, Grid | None]:
    drawable = data_of(call)
    indices, updates = without_names(call.indices), without_names(call.updates)
    indices = plain_arrays.native_indices(call.caller, indices, call.indices_name)
    if call.scatters:
        updates = plain_or_masked(call.caller, call.updates_name, updates)
    plain = replace(call, data=drawable.array, indices=indices, updates=updates)
    return plain, drawable.readable, drawable.grid


def _is_large(given: Call, call: Call, dense_shape: tuple[int, ...]) -> bool:
    """Whether a call reads more than is drawn of a mapped file, or takes long."""
    elements = max(math.prod(dense_shape), call.data.size if call.scatters else 0)
    return isinstance(given.data, np.memmap) or elements > _MOST_RUN


def _dense_shape(call: Call) -> tuple[int, ...]:
    if call.kind != "gather_windows":
        return fallback.result_shape(call)
    windows.check_shapes(call)
    depth = len(call.window_shape)
    return (*call.indices.shape[:-1], *call.window_shape, *call.data.shape[depth:])


def _check_updates(call: Call, dense_shape: tuple[int, ...]) -> None:
    plain = fallback.plain_scatter(call)
    if plain.updates.shape != dense_shape:
        facts = (call.data.shape, call.indices.shape, dense_shape, plain.updates.shape)
        raise explain(plain, ("updates_shape", (0, 0), *facts))
