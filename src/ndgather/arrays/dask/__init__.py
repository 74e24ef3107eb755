"""dask arrays as data, updates or indices. The result is a lazy dask array.

The call checks its arguments, including the values of indices in memory, but computes nothing. Each
block of data is computed at most once, and only if an index selects part of the block. Lazy indices
are supported if data is in memory or stored, and are checked when the result is computed.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, cast

from ndgather import messages

if find_spec("dask") is None:
    raise messages.extra_missing("dask", "dask")

import numpy as np
from dask.array.core import Array as DaskArray
from dask.array.core import from_array

from ndgather import arguments, exchange, foreign, slow_path, windows
from ndgather.array_call import Call, replace, with_padding
from ndgather.arrays.dask.graphs import gather, gather_by_lazy_indices, scatter
from ndgather.arrays.dask.points import layout_of, masked
from ndgather.errors import AttributeValueError, DTypeError, ShapeError
from ndgather.messages import shown
from ndgather.stored.chunks import stand_in

_HIGHEST_RANK = 32  # the rank limit of NumPy functions that dask calls on blocks
_INSTEAD = {
    "out": "dask.array.store writes the result to an array",
    "memory": "dask's option array.chunk-size limits the size of blocks of the result",
    "progress": "dask.diagnostics.ProgressBar shows the progress of a computation",
    "executor": "the scheduler that computes the result runs its tasks",
}


def run(call: Call) -> DaskArray:
    caller = call.caller
    for option, instead in _INSTEAD.items():
        if getattr(call, option) is not None:
            raise AttributeValueError(
                f"{caller}: {option} is given, but dask arrays are lazy (allowed: None; {instead})"
            )
    data = _checked(caller, "data", call.data)
    if not isinstance(data, DaskArray):
        data = _in_memory_or_stored(call)
    indices = _checked(caller, call.indices_name, call.indices)
    if not isinstance(indices, DaskArray):
        # The graph contains views of the indices, so copy indices in case the caller changes them.
        indices = arguments.integer_indices(call).copy()
    elif indices.dtype.kind not in ("iuf" if indices.size == 0 else "iu"):
        raise arguments.index_dtype(caller, indices.dtype, call.indices_name, "dask")
    call = replace(call, data=data, indices=indices)
    _check_rank(caller, "data", data)
    _check_rank(caller, call.indices_name, indices)
    if call.scatters:
        call = replace(call, updates=_checked(caller, call.updates_name, call.updates))
    result = _scatter(call) if call.scatters else _gather(call)
    return cast("DaskArray", _checked(caller, "result", result))


def _check_rank(caller: str, name: str, array: Any) -> None:
    if array.ndim > _HIGHEST_RANK:
        raise messages.too_many_axes(caller, name, array.ndim, _HIGHEST_RANK)


def _checked(caller: str, name: str, value: Any) -> Any:
    """Return `value`, or raise an error if it is a dask object that is not supported."""
    if not isinstance(value, DaskArray):
        if exchange.adapter_name(type(value)) == __name__:
            raise messages.not_an_array(caller, name, value, "is a dask object, but not an array")
        return value
    _check_rank(caller, name, value)
    if any(np.isnan(size) for size in value.shape):
        raise ShapeError(
            f"{caller}: {name}.shape = {shown(value.shape)} is not known before {name} is computed "
            f"(allowed: known sizes; write {name}.compute_chunk_sizes())"
        )
    if type(value._meta) is not np.ndarray:
        if foreign.has_mask(value._meta):
            raise masked(caller, name)
        kind = f"{type(value._meta).__module__}.{type(value._meta).__qualname__}"
        raise DTypeError(
            f"{caller}: {name} = dask array has blocks of {kind} (allowed: blocks of "
            f"numpy.ndarray, such as {name}.map_blocks(numpy.asarray))"
        )
    return value


class _Stored:
    """A stored array with its shape and NumPy dtype."""

    def __init__(self, array: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.array, self.shape, self.dtype, self.ndim = array, shape, dtype, len(shape)


def _in_memory_or_stored(call: Call) -> Any:
    value = call.data
    if exchange.adapter_name(type(value)) is None or isinstance(value, np.ndarray):
        return arguments.plain_array(call.caller, "data", value)
    reader = exchange.opened(call)
    return _Stored(value, reader.grid.shape, reader.dtype)


def _lazy_indices(call: Call) -> DTypeError:
    name = call.indices_name
    return DTypeError(
        f"{call.caller}: {name} = dask array is lazy, but its values decide which blocks of data "
        f"are needed (allowed: {name} in memory; compute the {name} first: {name}.compute())"
    )


def _gather(call: Call) -> DaskArray:
    dtype = np.dtype(call.data.dtype)
    _check_but_values(call)
    if not isinstance(call.indices, DaskArray):
        fill = np.zeros((), dtype)
        if call.fill_value is not None:
            given = arguments.fill_element(call.caller, call.fill_value, dtype)
            with_padding(fill)[...] = with_padding(given)
        return gather(call, layout_of(call, call.data.chunks), fill)
    if isinstance(call.data, DaskArray):
        raise _lazy_indices(call)
    layout = layout_of(call, tuple((size,) for size in call.data.shape))
    return gather_by_lazy_indices(call, layout, getattr(call.data, "array", call.data), dtype)


def _scatter(call: Call) -> DaskArray:
    if isinstance(call.data, _Stored):
        raise DTypeError(
            f"{call.caller}: data = {type(call.data.array).__name__} object cannot be updated by "
            f"dask arrays (allowed: a dask or NumPy array; write indices.compute() and "
            f"updates.compute() to update a stored array in place)"
        )
    if isinstance(call.indices, DaskArray):
        raise _lazy_indices(call)
    if not isinstance(call.data, DaskArray):
        whole = call.data.dtype.hasobject or not call.data.nbytes
        call = replace(call, data=from_array(call.data, chunks=-1 if whole else "auto"))
    if not isinstance(call.updates, DaskArray):
        call = replace(call, updates=arguments.plain_updates(call, call.data.dtype))
    slices = _check_but_values(call)
    arguments.check_updates(call, call.updates.shape, slices)
    return scatter(call, layout_of(call, call.data.chunks))


def _check_but_values(call: Call) -> tuple[int, ...]:
    """Check all arguments except index values, and return the shape of the selected slices."""
    data, indices = call.data, call.indices
    small: dict[str, Any] = {"data": np.zeros((1,) * data.ndim, data.dtype)}
    if call.kind.windows:
        windows.check_shapes(replace(call, data=stand_in(data.shape, data.dtype)))
        slices: tuple[int, ...] = ()
        small["window_shape"] = (1,) * indices.shape[-1]
    else:
        slices = slow_path.result_shape(call)
    tuples = int(call.kind.tuples)
    small["indices"] = np.zeros(
        (*[1] * (indices.ndim - tuples), *indices.shape[indices.ndim - tuples :]),
        indices.dtype if indices.size else np.intp,  # empty indices may be floats
    )
    if call.scatters:
        if not np.can_cast(call.updates.dtype, data.dtype, "equiv"):
            names = call.updates.dtype, data.dtype, call.updates_name
            raise messages.updates_dtype(call.caller, *names)
        small["updates"] = np.zeros((1,) * len(slices), data.dtype)
    slow_path.run(replace(call, **small))
    return slices
