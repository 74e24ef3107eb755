"""dask arrays as data, indices or updates: the result is a dask array, computed when it is wanted.

What the arguments are is checked at the call, and index values that are in memory too. A block of
data is computed at most once, and only if a point lies in it, unless the indices are lazy as well:
then nothing is known of them, and the graph has a task for each pair of a block of data and a block
of indices.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from dask.array.core import Array as DaskArray
from dask.array.core import from_array

from ndgather import dispatch, slow_path
from ndgather.arrays.dask.gather import gather_blocks, gather_known, gather_lazy
from ndgather.arrays.dask.layout import layout_of
from ndgather.arrays.dask.scatter import scatter
from ndgather.arrays.dask.tasks import StoredData, cut_indices
from ndgather.arrays.dask.windows import gather_lazy_windows, gather_windows
from ndgather.errors import argument_errors, lazy_errors
from ndgather.errors.texts import reason
from ndgather.slow_path import check_shapes, explain
from ndgather.stored.chunks import stand_in

if TYPE_CHECKING:
    from ndgather.array_call import Call

_INSTEAD = {
    "out": "dask.array.store writes the result where it is wanted",
    "memory": "dask's option array.chunk-size bounds the blocks of the result",
    "progress": "dask.diagnostics.ProgressBar shows how far a computation is",
    "executor": "the scheduler that computes the result runs its tasks",
}


def run(call: Call) -> DaskArray:
    """Return the array that the call computes, with nothing computed yet.

    Raises
    ------
    NdgatherError
        The call is refused, as it would be for arrays in memory; or an array has unknown chunk
        sizes or blocks that are no NumPy arrays; or an option is given that has no meaning here.
    """
    for option, instead in _INSTEAD.items():
        if getattr(call, option, None) is not None:
            raise lazy_errors.not_for_lazy(call.caller, option, instead)
    call = replace(
        call,
        data=_argument(call.caller, "data", call.data),
        indices=_argument(call.caller, call.indices_name, call.indices),
        updates=_argument(call.caller, "updates", call.updates) if call.scatters else None,
    )
    if call.kind == "gather_windows":
        return _gather_windows(call)
    return _scatter(call) if call.scatters else _gather(call)


def _argument(caller: str, name: str, value: Any) -> Any:
    """Return a dask array with known sizes, a stored array as it is, or a NumPy array."""
    if isinstance(value, DaskArray):
        if any(np.isnan(size) for size in value.shape):
            raise lazy_errors.unknown_sizes(caller, name, value.shape)
        if type(value._meta) is not np.ndarray:
            raise lazy_errors.other_blocks(caller, name, value._meta)
        return value
    adapter = dispatch.adapter_name(value)
    if adapter == __name__:
        raise argument_errors.not_an_array(caller, name, value, "is of dask, but not an array")
    if name == "data" and adapter is not None and not isinstance(value, np.ndarray):
        return _stored(caller, adapter, value)
    if name in ("indices", "starts"):
        return slow_path.native_indices(caller, value, name)
    return slow_path.plain_array(caller, name, value) if name == "data" else value


def _stored(caller: str, adapter: str, value: Any) -> StoredData:
    """Return a stored array with its shape and dtype in NumPy's terms."""
    try:
        reader = import_module(adapter).reader(value)
    except Exception as error:
        why = f"is not a stored array: {reason(error)}"
        raise argument_errors.not_an_array(caller, "data", value, why) from error
    return StoredData(value, reader.grid.shape, reader.dtype)


def _checked(call: Call) -> tuple[int, ...]:
    """Check all but the values of indices; return the shape of the slices that these name."""
    slices = slow_path.result_shape(call)
    ones = [1] * (call.indices.ndim - 1)
    last = call.indices.shape[-1:] if call.kind.endswith("_nd") else (1,) * call.indices.ndim
    indices = np.zeros((*ones, *last)[-call.indices.ndim or 1 :], call.indices.dtype)
    small = replace(call, data=np.zeros((1,) * call.data.ndim, call.data.dtype), indices=indices)
    if call.scatters:
        small = replace(small, updates=np.zeros((1,) * len(slices), call.updates.dtype))
    slow_path.run(small)
    return slices


def _gather(call: Call) -> DaskArray:
    _checked(call)
    fill = _fill_element(call)
    if not isinstance(call.indices, DaskArray):
        return gather_known(call, layout_of(call, call.data.chunks), fill)
    if isinstance(call.data, np.ndarray):
        call = replace(call, data=_cut_along(call))
    lazy = isinstance(call.data, DaskArray)
    chunks = call.data.chunks if lazy else tuple((size,) for size in call.data.shape)
    layout = layout_of(call, chunks)
    positions = call.indices.chunks[: len(layout.position_chunks)]
    layout = layout.with_positions(positions)
    call = replace(call, indices=cut_indices(layout, call.indices))
    if lazy and layout.indexed_blocks > 1:
        return gather_lazy(call, layout, fill)
    return gather_blocks(call, layout, fill)


def _fill_element(call: Call) -> np.ndarray[Any, Any]:
    dtype = np.dtype(call.data.dtype)
    if call.fill_value is None:
        return np.zeros((), dtype)
    return slow_path.fill_element(call.caller, call.fill_value, dtype)


def _gather_windows(call: Call) -> DaskArray:
    check_shapes(replace(call, data=stand_in(call.data.shape, call.data.dtype)))
    small = np.zeros((1,) * call.data.ndim, call.data.dtype)
    starts = np.zeros((1, *call.indices.shape[-1:]), call.indices.dtype)
    slow_path.run(replace(call, data=small, indices=starts, window_shape=(1,) * starts.shape[-1]))
    if isinstance(call.indices, DaskArray):
        return gather_lazy_windows(call, _fill_element(call))
    return gather_windows(call, _fill_element(call))


def _cut_along(call: Call) -> DaskArray:
    """Return data in memory as a dask array, cut along the aligned axes as indices are."""
    chunks = [[size] for size in call.data.shape]
    for axis in layout_of(call, tuple(map(tuple, chunks))).aligned:
        cut = call.indices.chunks[axis]
        rest = call.data.shape[axis] - sum(cut)
        chunks[axis] = [*cut, rest] if rest else [*cut]
    return cast("DaskArray", from_array(call.data, chunks=tuple(map(tuple, chunks))))


def _scatter(call: Call) -> DaskArray:
    if isinstance(call.data, np.ndarray):
        whole = call.data.dtype.hasobject or not call.data.itemsize
        call = replace(call, data=from_array(call.data, chunks=-1 if whole else "auto"))
    if not isinstance(call.data, DaskArray):
        raise lazy_errors.data_not_lazy(call.caller, call.data.array)
    if not isinstance(call.updates, DaskArray):
        updates = slow_path.plain_updates(
            call.caller, call.updates, call.data.dtype, call.updates_name
        )
        call = replace(call, updates=updates)
    slices = _checked(call)
    if call.updates.shape != slices:
        shapes = (call.data.shape, call.indices.shape, slices, call.updates.shape)
        raise explain(call, ("updates_shape", (0,), *shapes))
    return scatter(call, layout_of(call, call.data.chunks))
