"""``.ndgather`` of DataArrays and Datasets: selection by many labels at once, and its reverse."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import numpy as np
import xarray
from xarray.core import indexing

from ndgather import slow_path
from ndgather.arrays.xarray import arrays, linear, selection
from ndgather.errors import label_errors, selection_errors
from ndgather.stored import calls

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from ndgather.array_call import Call


T = TypeVar("T", xarray.DataArray, xarray.Dataset)
Method = Literal["nearest", "pad", "ffill", "backfill", "bfill", "linear"] | None

_ARRAY = "<the array>"  # the name of a DataArray in a Dataset made of it


class Accessor(Generic[T]):
    """Gathers by labels and positions; the methods of ``.ndgather``."""

    def __init__(self, data: T) -> None:
        self._data: T = data

    def sel(
        self,
        indexers: Mapping[Hashable, Any] | None = None,
        *,
        method: Method = None,
        tolerance: Any = None,
        missing: Literal["raise", "nan"] = "raise",
        period: Mapping[Hashable, Any] | None = None,
        memory: Any = None,
        progress: Any = None,
        executor: Any = None,
        **labels: Any,
    ) -> T:
        """Select by labels, of many points at once where labels share a dimension.

        With `i`, `j` the positions of the labels ``lat[p]``, ``lon[p]`` on their axes::

            out[..., p, ...] = array[..., i, j, ...]

        Parameters
        ----------
        indexers, **labels
            What to select along each dimension, as for ``sel`` of xarray: DataArrays, arrays,
            lists, single labels, slices. A dict serves for names that are options here.
        method : {None, "nearest", "pad", "backfill", "linear"}
            Which label a given one stands for: itself; the nearest, of two the greater; the one
            before or after it on the axis; or both, interpolated between as by ``interp``, which
            is NaN outside of the axis. Slices are always looked up as they are. Other names of
            "pad" and "backfill" are "ffill" and "bfill".
        tolerance : number, duration, array or dict, optional
            How far away a label may be. A dict has one tolerance for each name.
        missing : {"raise", "nan"}, default "raise"
            What becomes of labels that are not found. By ``nan`` all variables of the axis are
            NaN there, its coordinate too; where that occurs, they get the types that ``reindex``
            gives: integers of 8 and 16 bits and float32, other integers and booleans float64,
            text and objects object.
        period : dict, optional
            By name, the length of an axis that is a ring, such as ``{"lon": 360}``: labels are
            compared modulo it, and neighbours are found across its seam. Without it an axis ends
            where its labels end: on one of longitudes from 0 to 350, -5 is next to 0, and 359
            next to 350.
        memory, progress, executor
            For arrays that are read lazily; see `ndgather.gather_nd`.

        Returns
        -------
        DataArray or Dataset
            As ``sel`` of xarray returns it. Of arrays that are read lazily the chunks that hold a
            point are read in this call; arrays of dask stay lazy.

        Raises
        ------
        LabelError
            A label is not found, labels of the axis repeat, or are unsorted where a method needs
            an order.
        CallError, DTypeError, ShapeError, AttributeValueError
            A name or an option is unknown, or labels are not of the kind of the axis.
        StoredArrayError
            A chunk could not be read.

        Examples
        --------
        >>> import numpy as np, xarray as xr
        >>> import ndgather.arrays.xarray
        >>> lat, lon = [-45.0, 0.0, 45.0], [0.0, 90.0, 180.0, 270.0]
        >>> sst = xr.DataArray(
        ...     np.arange(12.0).reshape(3, 4), {"lat": lat, "lon": lon}, name="sst"
        ... )
        >>> track = {"lat": ("p", [-40.0, 1.0]), "lon": ("p", [359.0, -91.0])}
        >>> track = {name: xr.DataArray(labels, dims=dim) for name, (dim, labels) in track.items()}
        >>> sst.ndgather.sel(track, method="nearest", period={"lon": 360}).values
        array([0., 7.])
        >>> sst.ndgather.sel(lat=46.0, lon=0.0)
        Traceback (most recent call last):
        ...
        ndgather.errors.LabelError: sel: lat = 46.0 is not on the axis (allowed: the 3 labels of \
lat; nearest: 45.0, 0.0); write method='nearest' for the nearest label, or missing='nan' for NaN
        """
        caller = "sel"
        wanted = selection.one_dict(caller, indexers, labels)
        request = selection.Request(
            caller=caller,
            method=selection.method(caller, method),
            tolerance=tolerance,
            missing=selection.choice(caller, "missing", missing, ("raise", "nan")),
            period=selection.periods(caller, period),
        )
        if method == "linear" and tolerance is not None:
            raise label_errors.tolerance_unused(caller)
        options = selection.options(caller, memory, progress, executor)
        if method == "linear":
            return self._like(linear.interpolate(self._numeric(caller), wanted, request, options))
        data, positions = selection.positions(_dataset(self._data), wanted, request)
        return self._like(selection.select(data, positions, options))

    def isel(
        self,
        indexers: Mapping[Hashable, Any] | None = None,
        *,
        memory: Any = None,
        progress: Any = None,
        executor: Any = None,
        **positions: Any,
    ) -> T:
        """Select by positions, of many points at once where positions share a dimension.

        Parameters
        ----------
        indexers, **positions
            What to select along each dimension, as for ``isel`` of xarray. Negative positions
            count from the end.
        memory, progress, executor
            For arrays that are read lazily; see `ndgather.gather_nd`.

        Returns
        -------
        DataArray or Dataset
            As ``isel`` of xarray returns it; read as by `sel`.

        Raises
        ------
        IndexOutOfBoundsError
            A position is outside of its axis; the error names the first in C order.
        CallError, DTypeError, ShapeError, AttributeValueError, StoredArrayError
            As for `sel`.

        Examples
        --------
        >>> import numpy as np, xarray as xr
        >>> import ndgather.arrays.xarray
        >>> sst = xr.DataArray(np.arange(12.0).reshape(3, 4), dims=("lat", "lon"))
        >>> sst.ndgather.isel(lat=("p", [0, 2]), lon=("p", [1, -1])).values
        array([ 1., 11.])
        """
        caller = "isel"
        wanted = selection.one_dict(caller, indexers, positions)
        data = _dataset(self._data)
        for name in wanted:
            if name not in data.sizes:
                raise selection_errors.unknown_name(caller, name, data.sizes)
        checked = {
            name: selection.checked_positions(caller, name, each, data.sizes[name])
            for name, each in wanted.items()
        }
        options = selection.options(caller, memory, progress, executor)
        return self._like(selection.select(data, checked, options))

    def add_at(
        self,
        values: Any,
        indexers: Mapping[Hashable, Any] | None = None,
        *,
        method: Literal["nearest", "pad", "ffill", "backfill", "bfill"] | None = None,
        tolerance: Any = None,
        missing: Literal["raise", "drop"] = "raise",
        period: Mapping[Hashable, Any] | None = None,
        **labels: Any,
    ) -> T:
        """Add values where labels stand, each of them, where labels repeat too.

        With `i`, `j` the positions of the labels ``lat[p]``, ``lon[p]`` on their axes, in the
        order of the points::

            out[..., i, j, ...] += values[..., p, ...]

        Parameters
        ----------
        values : DataArray, array, number or list
            The values of the points. A DataArray has some of the dimensions that `sel` gives for
            these labels, and is broadcast along the others; an array has all of them in this
            order. The dtype is that of the array.
        indexers, **labels
            Where to add, as for `sel`, slices apart.
        method, tolerance, period
            How labels are looked up; see `sel`.
        missing : {"raise", "drop"}, default "raise"
            Whether values whose label is not found are left out.

        Returns
        -------
        DataArray
            The array with the values added, in memory; its coordinates, name and attributes.

        Raises
        ------
        LabelError, CallError, DTypeError, ShapeError, AttributeValueError
            As for `sel`; and DTypeError where this is a Dataset, or `values` are of another type.

        Examples
        --------
        >>> import numpy as np, xarray as xr
        >>> import ndgather.arrays.xarray
        >>> counts = xr.DataArray(np.zeros(3, int), {"lat": [-45.0, 0.0, 45.0]})
        >>> strikes = xr.DataArray([40.0, 2.0, 50.0], dims="strike")
        >>> counts.ndgather.add_at(1, lat=strikes, method="nearest").values
        array([0, 1, 2])
        """
        caller = "add_at"
        own: Any = self._data
        if isinstance(own, xarray.Dataset):
            raise selection_errors.no_array(caller, "data", own)
        wanted = selection.one_dict(caller, indexers, labels)
        request = selection.Request(
            caller=caller,
            method=selection.method(caller, method, selection.METHODS[:-1]),
            tolerance=tolerance,
            missing=selection.choice(caller, "missing", missing, ("raise", "drop")),
            period=selection.periods(caller, period),
        )
        _, places = selection.positions(_dataset(own), wanted, request)
        made: Any = linear.add_at(caller, own, values, places)
        return made  # type: ignore[no-any-return]  # a DataArray, as self._data

    def _numeric(self, caller: str) -> xarray.Dataset:
        own: Any = self._data
        if isinstance(own, xarray.DataArray) and own.dtype.kind not in "uifc":
            raise label_errors.values_not_interpolated(caller, own.dtype)
        return _dataset(own)

    def _like(self, data: xarray.Dataset) -> T:
        own: Any = self._data
        made: Any = data if isinstance(own, xarray.Dataset) else data[_ARRAY].rename(own.name)
        return made  # type: ignore[no-any-return]  # of the type of self._data


def _dataset(data: xarray.DataArray | xarray.Dataset) -> xarray.Dataset:
    if isinstance(data, xarray.Dataset):
        return data
    return xarray.Dataset({_ARRAY: data.variable}, coords=data.coords)


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
    result = _run(plain, arrays.chunks_of(data))
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
        return slow_path.run(call)
    if call.scatters:
        return slow_path.run(replace(call, data=np.asarray(call.data)))
    if call.mode == "fill":  # with a value that is not to be decoded
        return calls.gather(call, arrays.open_reader(call.data, chunks, "data"))
    stored, decode = arrays.innermost(call.data)
    if isinstance(stored, np.ndarray):
        return decode(slow_path.run(replace(call, data=stored)))
    return decode(calls.gather(call, arrays.open_reader(stored, chunks, "data")))


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
