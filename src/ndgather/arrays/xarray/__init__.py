"""The adapter for calls with xarray objects. Importing it registers the ``.ndgather`` accessor."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from ndgather import messages

if find_spec("xarray") is None:
    raise messages.extra_missing("xarray", "xarray")

import numpy as np
import xarray

from ndgather import arguments, exchange, slow_path
from ndgather.array_call import Call
from ndgather.arrays.xarray import arrays
from ndgather.arrays.xarray.accessor import Accessor, not_a_data_array
from ndgather.axes import Axes
from ndgather.errors import AttributeValueError, ShapeError
from ndgather.stored import calls
from ndgather.stored.chunks import Reader

__all__ = ["Accessor", "run"]

xarray.register_dataarray_accessor("ndgather")(Accessor)  # type: ignore[no-untyped-call]
xarray.register_dataset_accessor("ndgather")(Accessor)  # type: ignore[no-untyped-call]

_NAMED = xarray.DataArray | xarray.Variable


def run(call: Call) -> Any:
    """Run a call with xarray arguments.

    If `data` is a DataArray, the result is also a DataArray. Axes that replace indexed axes get the
    dimensions and coordinates of `indices`, if `indices` is a DataArray. All other axes keep the
    dimensions and coordinates of `data`.
    """
    for name, value in call.named():
        if not isinstance(value, _NAMED) and exchange.adapter_name(type(value)) == __name__:
            raise not_a_data_array(call.caller, name, value)
    data, indices = call.data, call.indices
    if isinstance(call.out, _NAMED) or (call.out is not None and isinstance(data, _NAMED)):
        raise AttributeValueError(
            f"{call.caller}: out is not supported with xarray arrays (allowed: None, or plain "
            f"arrays: data.data and out.data)"
        )
    plain = replace(
        call,
        data=array_behind(data),
        indices=array_behind(indices),
        updates=array_behind(call.updates),
    )
    if not isinstance(data, _NAMED):
        return slow_path.run(plain)
    result = _run(plain, arrays.chunks_of(data))
    named = data if isinstance(data, xarray.DataArray) else xarray.DataArray(data)
    if call.scatters:
        if hasattr(type(result), "untyped_storage"):
            result = arguments.plain_array(call.caller, call.updates_name, result)
        result = named.copy(deep=False, data=result)
    else:
        result = _with_names(call, named, indices, result)
    return result if isinstance(data, xarray.DataArray) else result.variable


def reader(data: Any) -> Reader:
    """Return a reader for the stored array that backs a DataArray."""
    inner = arrays.Source.whole(array_behind(data)).array
    if not arrays.is_lazy(inner):
        raise TypeError("the array is not lazy")
    return arrays.open_reader(inner, arrays.chunks_of(data), "data")


def array_behind(argument: Any) -> Any:
    """Return the array of a DataArray or Variable without reading a lazy array."""
    variable = argument.variable if isinstance(argument, xarray.DataArray) else argument
    return arrays.array_of(variable) if isinstance(variable, xarray.Variable) else argument


def _run(call: Call, chunks: Any) -> Any:
    if not arrays.is_lazy(call.data):
        return slow_path.run(call)
    if call.scatters:
        return slow_path.run(replace(call, data=np.asarray(call.data)))
    if call.fills:  # fill values must not be decoded
        return calls.gather(call, arrays.open_reader(call.data, chunks, "data"))
    return arrays.gather(call.data, call, arrays.Options(call, "data", chunks))


def _with_names(call: Call, data: xarray.DataArray, indices: Any, result: Any) -> xarray.DataArray:
    """Return the result of a gather with dimension names and all coordinates that remain valid."""
    if not hasattr(indices, "ndim"):  # a list, or a column of tuples
        indices = np.asarray(indices)
    names: Sequence[Hashable | None] = (None,) * np.ndim(indices)
    if isinstance(indices, _NAMED):
        names = indices.dims
    dims, axes = data.dims, Axes.of(call, data.ndim, np.shape(indices))
    # Aligned axes get their names from data, and the other axes of indices keep their own names.
    aligned = dims if call.kind.elements else dims[: len(axes.aligned)]
    of_indices = names[len(aligned) : len(axes.positions)]
    window = [dims[axis] for axis in axes.indexed[: len(axes.window)]]
    slices = [dims[axis] for axis in axes.slices]
    of_result = [*axes.in_dense((*aligned, *of_indices), window, slices)]
    # Drop the coordinates of an aligned axis if `gather_elements` reads only its first part.
    whole = [a for a in axes.aligned if result.shape[a] == data.shape[a]]
    kept = [*slices, *(dims[axis] for axis in whole)]
    named = [dim for dim in of_result if dim is not None]
    for dim in named:
        if named.count(dim) > 1:
            raise ShapeError(
                f"{call.caller}: indices.dims contains {dim}, a dimension of data that the result "
                f"keeps (allowed: other names); write indices.rename({dim}=...)"
            )
    free = (name for i in range(2 * len(of_result)) if (name := f"dim_{i}") not in named)
    of_result = [next(free) if dim is None else dim for dim in of_result]
    coords = {k: x for k, x in data.coords.items() if {*x.dims} <= {*kept}}
    if isinstance(indices, xarray.DataArray):
        more = {k: x for k, x in indices.coords.items() if {*x.dims} <= {*of_indices}}
        coords = {**coords, **more, **coords}
    return xarray.DataArray(result, coords, of_result, data.name, data.attrs)
