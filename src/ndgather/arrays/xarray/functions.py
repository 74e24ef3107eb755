"""DataArrays in the gather and scatter functions: what the names of the result are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray
from xarray.core import indexing

from ndgather import fallback
from ndgather.arrays.xarray import lazy_arrays, readers
from ndgather.errors import selection_errors
from ndgather.stored import calls

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from ndgather.array_call import Call


def run(call: Call) -> Any:
    """Carry out a call with arguments of xarray.

    Where `data` is a DataArray, so is the result: its leading dimensions are those of `indices`,
    where that is a DataArray too, and its others those of `data`, with their coordinates.

    Raises
    ------
    NdgatherError
        An argument is a Dataset, `out` is of xarray or given for a DataArray, or the call is
        refused as it would be for arrays without names.
    """
    for name in ("data", "indices", "updates", "out"):
        if _is_no_array(getattr(call, name)):
            raise selection_errors.no_array(call.caller, name, getattr(call, name))
    data, indices = call.data, call.indices
    if isinstance(call.out, xarray.DataArray | xarray.Variable):
        raise selection_errors.out_with_names(call.caller)
    plain = replace(
        call,
        data=array_behind(data),
        indices=array_behind(indices),
        updates=array_behind(call.updates),
    )
    if not isinstance(data, xarray.DataArray | xarray.Variable):
        return _run(plain)
    if call.out is not None:
        raise selection_errors.out_with_names(call.caller)
    result = _run(plain, readers.chunks_of(data))
    named = data if isinstance(data, xarray.DataArray) else xarray.DataArray(data)
    if call.scatters:
        made = named.copy(deep=False, data=result)
    else:
        made = _named(call, named, indices, result)
    return made if isinstance(data, xarray.DataArray) else made.variable


def _is_no_array(argument: Any) -> bool:
    """Whether an argument is of xarray, but neither a DataArray nor a Variable."""
    if isinstance(argument, xarray.DataArray | xarray.Variable):
        return False
    return any(each.__module__.partition(".")[0] == "xarray" for each in type(argument).__mro__)


def array_behind(argument: Any) -> Any:
    """Return the array of a DataArray or Variable, without reading one that is lazy."""
    if isinstance(argument, xarray.DataArray):
        argument = argument.variable
    if not isinstance(argument, xarray.Variable):
        return argument
    array: Any = argument._data
    lazy = isinstance(array, indexing.ExplicitlyIndexed) and not argument._in_memory
    return array if lazy else argument.data


def _run(call: Call, chunks: Any = None) -> Any:
    if not isinstance(call.data, indexing.ExplicitlyIndexed):
        return fallback.run(call)
    if call.scatters:
        return fallback.run(replace(call, data=np.asarray(call.data)))
    if call.mode == "fill":  # with a value that is not to be decoded
        return calls.gather(call, readers.reader(call.data, chunks, "data"))
    stored, decode = lazy_arrays.innermost(call.data)
    if isinstance(stored, np.ndarray):
        return decode(fallback.run(replace(call, data=stored)))
    return decode(calls.gather(call, readers.reader(stored, chunks, "data")))


def _named(call: Call, data: xarray.DataArray, indices: Any, result: Any) -> xarray.DataArray:
    """Return the result of a gather with its dimensions and the coordinates that still hold."""
    if not hasattr(indices, "ndim"):  # lists, and columns whose elements are tuples
        indices = np.asarray(indices)
    given = isinstance(indices, xarray.DataArray | xarray.Variable)
    names: Sequence[Hashable | None] = indices.dims if given else (None,) * np.ndim(indices)
    if call.kind == "gather_elements":
        axis = int(call.axis) % data.ndim
        dims = [*data.dims]
        kept = [dim for i, dim in enumerate(dims) if i != axis and result.shape[i] == data.shape[i]]
        named_by_indices: list[Hashable | None] = []
    elif call.kind == "gather":
        axis = int(call.axis) % data.ndim
        batch = int(call.batch_dims) % (len(names) + 1 if call.batch_dims >= 0 else len(names))
        named_by_indices = [*names[batch:]]
        kept = [*data.dims[:axis], *data.dims[axis + 1 :]]
        dims = [*data.dims[:axis], *named_by_indices, *data.dims[axis + 1 :]]
    elif call.kind == "gather_windows":
        named_by_indices = [*names[:-1]]
        kept = [*data.dims[len(call.window_shape) :]]
        dims = [*named_by_indices, *data.dims]
    else:
        batch = int(call.batch_dims)
        depth = np.shape(indices)[-1] + batch
        named_by_indices = [*names[batch:-1]]
        kept = [*data.dims[:batch], *data.dims[depth:]]
        dims = [*data.dims[:batch], *named_by_indices, *data.dims[depth:]]
    coords = {name: each for name, each in data.coords.items() if set(each.dims) <= set(kept)}
    if isinstance(indices, xarray.DataArray):
        theirs = {
            name: each
            for name, each in indices.coords.items()
            if set(each.dims) <= set(named_by_indices) and name not in coords
        }
        coords |= theirs
    return xarray.DataArray(
        result, coords, _without_clashes(call.caller, dims), data.name, data.attrs
    )


def _without_clashes(caller: str, dims: Sequence[Hashable | None]) -> list[Hashable]:
    """Return dimensions where those without a name have one that xarray would give them."""
    taken = {each for each in dims if each is not None}
    if len(taken) < sum(each is not None for each in dims):
        twice = next(each for each in dims if each is not None and dims.count(each) > 1)
        raise selection_errors.dimension_twice(caller, twice)
    free = (name for i in range(2 * len(dims)) if (name := f"dim_{i}") not in taken)
    return [next(free) if each is None else each for each in dims]
