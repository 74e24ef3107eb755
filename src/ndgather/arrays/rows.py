"""Calls on NumPy arrays that the core cannot run in a single step.

This module handles object arrays and scatters that consist of several steps. For
``reduction="mean"`` with few updates, only rows that receive an update are copied, reduced and
written back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgather import arguments, dtypes, reductions, slow_path, windows
from ndgather.array_call import Array, Call, Kind, replace
from ndgather.arrays import lowering
from ndgather.arrays.lowering import Layout

_SPARSE = 8  # copy rows if a scatter updates fewer than 1 in 8 elements


class _NumPy(lowering.Library):
    """NumPy as a `Library`, restricted to functions that all supported NumPy versions have."""

    integers = staticmethod(windows.NumPyLibrary.integers)


def run(call: Call) -> Array:
    """Return the result of a call on plain NumPy arrays, written to `out` if it is given."""
    if call.indices.dtype.kind not in "iu":
        raise arguments.index_dtype(call.caller, call.indices.dtype, call.indices_name)
    call = replace(call, indices=call.indices.copy())  # `out` or a thread may change it
    if not call.scatters:
        _check_indices(call)
        return slow_path.deliver(call, _gathered(call))
    out, data = call.out, call.data
    arguments.check_updates(call, call.updates.shape, slow_path.result_shape(call))
    if out is not None:  # other scatters are checked while they run
        _check_indices(call)
        arguments.check_plain_out(call, data.shape)
    by_elements = data.dtype.hasobject or not data.itemsize or call.reduction == "none"
    is_sparse = _SPARSE * call.updates.size < data.size
    if not (by_elements or is_sparse) and reductions.has_start(call, data.dtype):
        return slow_path.deliver(call, slow_path.scatter_in_steps(call))
    in_place = isinstance(out, np.ndarray) and _memory_of(out) == _memory_of(data)
    result = out if in_place else data.copy()
    (_replace if by_elements else _reduce)(call, result)
    return slow_path.deliver(call, result)


def _check_indices(call: Call) -> None:
    """Check a call in the core, without checking updates and `out`."""
    nothing = np.broadcast_to(np.False_, call.data.shape)
    slow_path.run_plain(call.as_gather(data=nothing, fill_value=None, out=None))


def _memory_of(array: Array) -> tuple[Any, ...]:
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def _rows(call: Call) -> tuple[Layout, Array, Array | None]:
    """Return the layout, row numbers and out-of-bounds flags of a call. See `lowering.rows_of`."""
    library = _NumPy(np, call.data)
    with np.errstate(over="ignore"):  # indices far out of bounds may overflow
        found = lowering.rows_of(call, library, call.data.shape, call.indices.shape)
    has_axes = found[0].first > 0 or found[0].end < call.data.ndim
    arguments.check_rows_of_strings(call.caller, call.data.dtype, has_axes)
    return found


def _addressed(layout: Layout, array: Array, rows: Array) -> tuple[Array, tuple[Any, ...]]:
    """Return a view of an array and a NumPy index that selects `rows` from the view."""
    lead = (slice(None),) * layout.first
    if layout.first == layout.end:  # with empty index tuples, the whole array is one row
        return array[(*lead, np.newaxis)], (*lead, rows)
    return array, (*lead, *np.unravel_index(rows, array.shape[layout.first : layout.end]))


def _gathered(call: Call) -> Array:
    layout, rows, outside = _rows(call)
    fill = np.zeros((), call.data.dtype) if call.fill_value is None else call.fill_value
    if layout.count == 0 or rows.size == 0:
        return np.full(tuple(layout.result), fill, call.data.dtype)
    view, key = _addressed(layout, call.data, rows)
    taken: Array = view[key]
    if outside is not None:
        # NumPy 2.4 corrupts memory when it assigns a 0-d array of strings (numpy/numpy#32153).
        taken[(*key[: layout.first], outside)] = np.reshape(fill, (1,) * taken.ndim)
    taken = taken.reshape(tuple(layout.result))
    return taken if taken.flags.c_contiguous else taken.copy()


def _updates(call: Call) -> tuple[Layout, Array, Array]:
    """Return a scatter's layout, and the rows and values of all updates that are not dropped."""
    layout, rows, outside = _rows(call)
    updates = call.updates.reshape(len(rows), *call.data.shape[layout.end :])
    if outside is not None:
        rows, updates = rows[~outside], updates[~outside]
    return layout, rows, updates


def _replace(call: Call, result: Array) -> None:
    """Replace elements of the result, applying the last update at duplicate indices."""
    layout, rows, updates = _updates(call)
    if rows.size:
        view, key = _addressed(layout, result, rows)
        _assign(view, key, updates)


def _assign(view: Array, key: tuple[Any, ...], values: Array) -> None:
    """Assign values to elements, field by field if NumPy would overwrite gaps in the records."""
    names = view.dtype.names
    if not names or not dtypes.has_gaps(view.dtype):
        view[key] = values  # NumPy copies `values` if they overlap `view`
        return
    for name in names:
        _assign(view[name], key, values[name])


def _reduce(call: Call, result: Array) -> None:
    layout, rows, updates = _updates(call)
    if not rows.size:
        return
    touched, first, position = np.unique(rows, return_index=True, return_inverse=True)
    view, key = _addressed(layout, result, touched)
    part, position = view[key], position.reshape(-1, 1)
    if not reductions.has_start(call, part.dtype):  # initialize each row to its first update
        others = np.ones(len(rows), np.bool_)
        others[first] = False
        part, position, updates = updates[first], position[others], updates[others]
        call = replace(call, use_init_val=True)
    of_rows = replace(
        call, kind=Kind.SCATTER_ND, mode="raise", batch_dims=0, negative=True, out=None
    )
    view[key] = slow_path.scatter_in_steps(
        replace(of_rows, data=part, indices=position, updates=updates, out=None)
    )
