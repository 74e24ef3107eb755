"""``.ndgather`` of DataArrays and Datasets: selection by many labels at once, and its reverse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import xarray

from ndgather.arrays.xarray import adding, arguments, linear, pointwise, selection
from ndgather.errors import label_errors, selection_errors

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

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
        wanted = arguments.one_dict(caller, indexers, labels)
        request = selection.Request(
            caller=caller,
            method=arguments.method(caller, method),
            tolerance=tolerance,
            missing=arguments.choice(caller, "missing", missing, ("raise", "nan")),
            period=arguments.periods(caller, period),
        )
        if method == "linear" and tolerance is not None:
            raise label_errors.tolerance_unused(caller)
        options = arguments.options(caller, memory, progress, executor)
        if method == "linear":
            return self._like(linear.interpolate(self._numeric(caller), wanted, request, options))
        data, positions = selection.positions(_dataset(self._data), wanted, request)
        return self._like(pointwise.select(data, positions, options))

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
        wanted = arguments.one_dict(caller, indexers, positions)
        data = _dataset(self._data)
        for name in wanted:
            if name not in data.sizes:
                raise selection_errors.unknown_name(caller, name, data.sizes)
        checked = {
            name: selection.checked_positions(caller, name, each, data.sizes[name])
            for name, each in wanted.items()
        }
        options = arguments.options(caller, memory, progress, executor)
        return self._like(pointwise.select(data, checked, options))

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
        wanted = arguments.one_dict(caller, indexers, labels)
        request = selection.Request(
            caller=caller,
            method=arguments.method(caller, method, arguments.METHODS[:-1]),
            tolerance=tolerance,
            missing=arguments.choice(caller, "missing", missing, ("raise", "drop")),
            period=arguments.periods(caller, period),
        )
        _, places = selection.positions(_dataset(own), wanted, request)
        made: Any = adding.add_at(caller, own, values, places)
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
