"""``.ndgather`` of DataArrays and Datasets: select many points at once, and add at them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import xarray

from ndgather import arguments, slow_path
from ndgather.array_call import Call, Kind, WindowMode
from ndgather.arrays.xarray import arrays, selection
from ndgather.arrays.xarray.labels import Axes
from ndgather.arrays.xarray.windows import windows
from ndgather.errors import AttributeValueError, DTypeError, ShapeError
from ndgather.messages import listed, shown_value
from ndgather.stored.chunks import stand_in

T = TypeVar("T", xarray.DataArray, xarray.Dataset)
Method = Literal["nearest", "pad", "ffill", "backfill", "bfill", "linear"] | None

_VALUES = "<values>"  # the name of a DataArray in a Dataset
_METHODS = ("nearest", "pad", "backfill", "linear")
_SYNONYMS = {"ffill": "pad", "bfill": "backfill"}


class Accessor(Generic[T]):
    """The methods of ``.ndgather``: select and add at many labels or positions at once."""

    def __init__(self, data: T) -> None:
        self._data: T = data
        self._axes: Axes = {}  # sorted labels of earlier calls

    def __getstate__(self) -> dict[str, Any]:
        return {"_data": self._data, "_axes": {}}

    def sel(
        self,
        indexers: Mapping[Hashable, Any] | None = None,
        *,
        method: Method | Mapping[Hashable, Method] = None,
        tolerance: Any = None,
        missing: Literal["raise", "nan"] = "raise",
        period: Mapping[Hashable, Any] | None = None,
        memory: Any = None,
        progress: Any = None,
        executor: Any = None,
        **labels: Any,
    ) -> T:
        """Select by labels; labels with a shared dimension select points.

        With `i`, `j` the positions of the labels ``lat[p]``, ``lon[p]`` on their axes::

            out[..., p, ...] = array[..., i, j, ...]

        Parameters
        ----------
        indexers, **labels
            Labels along the dimensions, as for ``sel`` of xarray: DataArrays, arrays, lists,
            single labels, slices. A dict may have names that are options here. Every row of a
            DataFrame is a point, along a dimension with the name of its index, or ``index``. A
            name that is no coordinate selects along the only axis with the same meaning, such as
            ``lat`` along ``latitude``; so do the names in the options.
        method : {None, "nearest", "pad", "backfill", "linear"} or dict
            None looks up labels that are on the axis. "nearest" takes the nearest label, of two
            the greater, at most half a step outside of the axis (xarray takes the first or last
            label, however far it is); `tolerance` sets another limit. "pad" (or "ffill") takes the
            label before on the axis, "backfill" (or "bfill") the one after. "linear" interpolates
            between both, as ``interp`` does: NaN outside of the axis, and the value itself at a
            label of the axis. Slices ignore the method, and labels that are texts are exact with
            "nearest" and "linear". A dict has methods by name; axes that it lacks have None.
        tolerance : number, duration, array or dict, optional
            The greatest distance to the label that is taken. A dict has tolerances by name. With
            an NDPointIndex, a number limits the distance of points in all of its coordinates.
        missing : {"raise", "nan"}, default "raise"
            What happens if a label does not exist. With "nan", every variable of the axis is NaN
            there, its coordinate too, in the type that ``reindex`` gives: integers of 8 and 16
            bits become float32, other integers and booleans float64, text and objects object.
        period : dict, optional
            The length of a cyclic axis by name, such as ``{"lon": 360}``: labels are compared
            modulo this length, and the first and the last label of the axis are neighbours. If
            an axis covers a part of the period, the widest gap, which is more than 1.5 times as
            wide as all others, is not interpolated: "linear" gives NaN there. Longitudes that go
            around the earth have the period 360 if the units of their axis are "degrees_east".
        memory, progress, executor
            For arrays that are read lazily; see `ndgather.gather_nd`.

        Returns
        -------
        DataArray or Dataset
            The same as ``sel`` of xarray. Of an array that is read lazily, this call reads the
            chunks that hold a point; an array of dask stays lazy.

        Raises
        ------
        LabelError
            A label does not exist, labels of the axis repeat, or they are unsorted and a method
            needs an order.
        CallError, DTypeError, ShapeError, AttributeValueError
            A name or an option is unknown, or labels are of another type than the axis.
        StoredArrayError
            A chunk cannot be read.

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
        wanted = selection.merged("sel", indexers, labels)
        data = self._dataset()
        wanted, request = self._request(
            "sel", data, wanted, method, tolerance, period, missing, "nan"
        )
        options = arrays.storage_options("sel", memory, progress, executor)
        array: Any = self._data
        linear = any(request.method_of(axis) == "linear" for axis in wanted)
        if linear and isinstance(array, xarray.DataArray) and array.dtype.kind not in "uifc":
            raise DTypeError(
                f"sel: method = 'linear' has no meaning for values of {array.dtype} (allowed: "
                f"numbers)"
            )
        return self._like(selection.select_labels(data, wanted, request, options))

    def isel(
        self,
        indexers: Mapping[Hashable, Any] | None = None,
        *,
        memory: Any = None,
        progress: Any = None,
        executor: Any = None,
        **positions: Any,
    ) -> T:
        """Select by positions; positions with a shared dimension select points.

        Parameters
        ----------
        indexers, **positions
            Positions along the dimensions, as for ``isel`` of xarray. Negative positions count
            from the end.
        memory, progress, executor
            For arrays that are read lazily; see `ndgather.gather_nd`.

        Returns
        -------
        DataArray or Dataset
            The same as ``isel`` of xarray; chunks are read as by `sel`.

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
        data = self._dataset()
        checked = {}
        for name, indexer in selection.merged("isel", indexers, positions).items():
            selection.check_name("isel", name, data.sizes)
            checked[name] = arrays.checked_positions("isel", name, indexer, data.sizes[name])
        options = arrays.storage_options("isel", memory, progress, executor)
        return self._like(arrays.select(data, checked, options))

    def windows(
        self,
        indexers: Mapping[Hashable, Any] | None = None,
        *,
        size: int | Mapping[Hashable, int],
        method: Method | Mapping[Hashable, Method] = "nearest",
        tolerance: Any = None,
        period: Mapping[Hashable, Any] | None = None,
        mode: WindowMode | Mapping[Hashable, WindowMode] | None = None,
        memory: Any = None,
        progress: Any = None,
        executor: Any = None,
        **labels: Any,
    ) -> T:
        """Cut windows with labels in their middle; lists of labels are points, not axes.

        With `i`, `j` the positions of the labels ``lat[p]``, ``lon[p]``, and `u`, `v` from
        ``-(size // 2)`` on::

            out[p, ..., u, v] = array[..., i + u, j + v]

        Parameters
        ----------
        indexers, **labels
            The labels in the middle of the windows along some dimensions: DataArrays, which keep
            their dimensions, or lists and arrays, which share the dimension ``window``.
        size : int or dict
            The sizes of a window: one for all dimensions, or by name. In a window of even size the
            label is the first of the second half.
        method, tolerance
            How labels are looked up; see `sel`.
        period : dict, optional
            The length of a cyclic axis by name, such as ``{"lon": 360}``. Labels are compared
            modulo this length, and windows go around.
        mode : {"raise", "clip", "fill", "wrap", "edge", "reflect"} or dict, optional
            What happens to windows that stick out, for all dimensions or by name; see
            `ndgather.gather_windows`. What is filled is NaN, as in `sel`. Default: "wrap" for axes
            with a period, else "raise".
        memory, progress, executor
            For arrays that are read lazily; see `ndgather.gather_nd`.

        Returns
        -------
        DataArray or Dataset
            Windows of every variable that has one of the dimensions. Dimension ``lat`` becomes
            ``lat_offset``, the distance from the label in positions. Coordinates are cut as the
            values are: ``lat`` has the dimensions ``(window, lat_offset)``.

        Raises
        ------
        IndexOutOfBoundsError
            A window sticks out in mode "raise".
        LabelError, CallError, DTypeError, ShapeError, AttributeValueError, StoredArrayError
            As for `sel`; and AttributeValueError if labels do not fill a period.

        Examples
        --------
        >>> import numpy as np, xarray as xr
        >>> import ndgather.arrays.xarray
        >>> lat, lon = [-45.0, 0.0, 45.0], [0.0, 90.0, 180.0, 270.0]
        >>> sst = xr.DataArray(np.arange(12.0).reshape(3, 4), {"lat": lat, "lon": lon})
        >>> patches = sst.ndgather.windows(
        ...     lat=[0.0], lon=[-10.0], size=3, period={"lon": 360}
        ... )
        >>> patches.values[0]
        array([[ 3.,  0.,  1.],
               [ 7.,  4.,  5.],
               [11.,  8.,  9.]])
        >>> patches.lon.values
        array([[270.,   0.,  90.]])
        """
        wanted = selection.merged("windows", indexers, labels)
        data = self._dataset()
        wanted, request = self._request("windows", data, wanted, method, tolerance, period)
        options = arrays.storage_options("windows", memory, progress, executor)
        return self._like(windows(data, wanted, size, mode, request, options))

    def add_at(
        self,
        values: Any,
        indexers: Mapping[Hashable, Any] | None = None,
        *,
        method: Method | Mapping[Hashable, Method] = None,
        tolerance: Any = None,
        missing: Literal["raise", "drop"] = "raise",
        period: Mapping[Hashable, Any] | None = None,
        **labels: Any,
    ) -> T:
        """Add values at labels; values at a label that repeats are all added.

        With `i`, `j` the positions of the labels ``lat[p]``, ``lon[p]`` on their axes, in the
        order of the points::

            out[..., i, j, ...] += values[..., p, ...]

        Parameters
        ----------
        values : DataArray, array, number or list
            The values of the points, in the dtype of the array. A DataArray has some of the
            dimensions that `sel` returns for these labels, and is broadcast along the others; an
            array has all of them, in this order.
        indexers, **labels
            Where to add, as for `sel`, but without slices.
        method, tolerance, period
            How labels are looked up; see `sel`.
        missing : {"raise", "drop"}, default "raise"
            Whether to leave out values whose label does not exist.

        Returns
        -------
        DataArray
            A copy of the array with the values added, in memory.

        Raises
        ------
        LabelError, CallError, DTypeError, ShapeError, AttributeValueError
            As for `sel`; and DTypeError for a Dataset, or for `values` of another type.

        Examples
        --------
        >>> import numpy as np, xarray as xr
        >>> import ndgather.arrays.xarray
        >>> counts = xr.DataArray(np.zeros(3, int), {"lat": [-45.0, 0.0, 45.0]})
        >>> strikes = xr.DataArray([40.0, 2.0, 50.0], dims="strike")
        >>> counts.ndgather.add_at(1, lat=strikes, method="nearest").values
        array([0, 1, 2])
        """
        array: Any = self._data
        if isinstance(array, xarray.Dataset):
            raise not_a_data_array("add_at", "data", array)
        wanted = selection.merged("add_at", indexers, labels)
        data = self._dataset()
        wanted, request = self._request(
            "add_at", data, wanted, method, tolerance, period, missing, "drop"
        )
        _, positions = selection.find_positions(data, wanted, request)
        result: Any = _add_at(array, values, positions)
        return result  # type: ignore[no-any-return]  # a DataArray, as self._data

    def clear(self) -> None:
        """Drop the decoded chunks of data that `Engine` opened, so that its store is read again.

        Selections of points by ``engine="ndgather"`` do not see what is written to the store after
        their chunks were read, also by this process, until this call. It has no effect on other
        data, nor on values that xarray has loaded.

        Examples
        --------
        >>> import tempfile, xarray as xr
        >>> import ndgather.arrays.xarray
        >>> folder = tempfile.TemporaryDirectory()
        >>> _ = xr.DataArray([1.0, 2.0], dims="x", name="a").to_netcdf(f"{folder.name}/a.nc")
        >>> with xr.open_dataset(f"{folder.name}/a.nc", engine="ndgather") as data:
        ...     data.ndgather.clear()
        >>> folder.cleanup()
        """
        for variable in self._dataset().variables.values():
            kept = arrays.Source.of(arrays.array_of(variable)).cached
            if kept is not None:
                kept.clear()

    def _request(
        self,
        caller: str,
        data: xarray.Dataset,
        labels: Mapping[Hashable, Any],
        method: Any,
        tolerance: Any,
        period: Any,
        missing: Any = "raise",
        *absent: str,  # what else `missing` may be
    ) -> tuple[dict[Hashable, Any], selection.Request]:
        """Return labels by axis, and how they are looked up, with checked options."""
        allowed = _METHODS if caller == "sel" else _METHODS[:-1]
        if isinstance(method, Mapping):
            method = {
                name: None if one is None else _checked_method(caller, one, allowed)
                for name, one in method.items()
            }
        elif method is not None:
            method = _checked_method(caller, method, allowed)
        elif tolerance is not None:
            raise AttributeValueError(
                f"{caller}: tolerance is given, but method = None takes exact labels (allowed: a "
                f"method, such as 'nearest')"
            )
        missing = arguments.choice(caller, "missing", missing, ("raise", *absent))
        selection.check_dict(caller, "period", period)
        request = selection.Request(
            caller=caller,
            method=method,
            tolerance=tolerance,
            missing=missing,
            period=period or {},
            axes=self._axes,
        )
        return selection.resolve(data, labels, request)

    def _dataset(self) -> xarray.Dataset:
        """Return a data set with the same values, whose variables may be changed."""
        if isinstance(self._data, xarray.DataArray):
            return self._data.to_dataset(name=_VALUES)
        return self._data.copy(deep=False)

    def _like(self, data: xarray.Dataset) -> T:
        result: Any = data
        if isinstance(self._data, xarray.DataArray):
            result = data[_VALUES]
            result.name = self._data.name
        return result  # type: ignore[no-any-return]  # of the type of self._data


def _checked_method(caller: str, method: Any, allowed: tuple[str, ...]) -> str:
    method = _SYNONYMS.get(method, method) if isinstance(method, str) else method
    return arguments.choice(caller, "method", method, allowed)


def _add_at(
    array: xarray.DataArray, values: Any, positions: Mapping[Hashable, Any]
) -> xarray.DataArray:
    """Return `array` with `values` added at positions; positions of -1 are left out."""
    points: dict[Hashable, Any] = {}
    for dim, position in positions.items():
        if isinstance(position, slice) or np.asarray(position).dtype.kind == "b":
            raise DTypeError(
                f"add_at: {dim} is a slice or a mask (allowed: labels); leave a dimension out to "
                f"add along all of it"
            )
        variable = position.variable if isinstance(position, xarray.DataArray) else position
        if not isinstance(variable, xarray.Variable):
            variable = xarray.Variable((dim,) * np.ndim(position), position)
        points[dim] = variable
    with arrays.errors_of_xarray("add_at", positions):
        bare = xarray.Variable(array.dims, stand_in(array.shape, np.dtype(np.uint8)))
        sizes = bare.isel(points).sizes
    of_points = {dim for variable in points.values() for dim in variable.dims}
    for dim in of_points.intersection(array.dims):  # points may move along a dimension of the array
        points.setdefault(dim, xarray.Variable((dim,), np.arange(array.sizes[dim])))
    front = [dim for dim in array.dims if dim in points]
    behind = [dim for dim in array.dims if dim not in points]
    lead = {dim: size for dim, size in sizes.items() if dim in of_points}
    wanted = lead | {dim: array.sizes[dim] for dim in behind}
    updates: Any = _updates(array.dtype, values, sizes)
    updates = updates.set_dims(wanted).transpose(*wanted)
    indices = arrays.tuples([points[dim].set_dims(lead).transpose(*lead).values for dim in front])
    indices[(indices < 0).any(-1)] = np.iinfo(np.int64).max
    moved = array.variable.transpose(*front, *behind)
    call = Call(
        "add_at",
        Kind.SCATTER_ND,
        moved.data,
        indices,
        updates.data,
        reduction="add",
        mode="drop",
        updates_name="values",
    )
    total = xarray.Variable(moved.dims, slow_path.run(call))
    return array.copy(deep=False, data=total.transpose(*array.dims).data)


def _updates(dtype: Any, values: Any, sizes: Mapping[Hashable, int]) -> xarray.Variable:
    """Return `values` with the names of their dimensions, which are those of a selection."""
    variable = values.variable if isinstance(values, xarray.DataArray) else values
    if not isinstance(variable, xarray.Variable):
        plain = arguments.plain_array("add_at", "values", values)
        if not isinstance(values, np.ndarray) and plain.dtype.kind in "bui":
            plain = plain.astype(dtype)  # numbers and lists, as scatter_nd takes them
        if plain.ndim not in (0, len(sizes)):
            raise ShapeError(
                f"add_at: values is an array of shape {plain.shape} (allowed: a number, or the "
                f"dimensions ({listed(map(str, sizes))})); write xarray.DataArray(values, "
                f"dims=[...]) for some of them"
            )
        variable = xarray.Variable(tuple(sizes) if plain.ndim else (), plain)
    if any(sizes.get(dim) != size for dim, size in variable.sizes.items()):
        raise ShapeError(
            f"add_at: values.sizes = {shown_value(dict(variable.sizes))} are not those of the "
            f"points (allowed: some of {shown_value(dict(sizes))})"
        )
    return variable


def not_a_data_array(caller: str, argument: str, value: Any) -> DTypeError:
    names = [str(name) for name in getattr(value, "data_vars", ())]
    which = f", such as {argument}[{names[0]!r}]" if names else ""
    return DTypeError(
        f"{caller}: {argument} = {type(value).__name__} is not an array (allowed: a "
        f"DataArray{which}); .ndgather.isel selects from all variables of a Dataset"
    )
