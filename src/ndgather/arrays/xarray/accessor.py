"""The ``.ndgather`` accessor of DataArrays and Datasets."""

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
from ndgather.stored.cache import CachedArray
from ndgather.stored.chunks import stand_in

T = TypeVar("T", xarray.DataArray, xarray.Dataset)
Method = Literal["nearest", "pad", "ffill", "backfill", "bfill", "linear"] | None

_VALUES = "<values>"  # the name of a DataArray in a Dataset
_METHODS = ("nearest", "pad", "backfill", "linear")
_SYNONYMS = {"ffill": "pad", "bfill": "backfill"}


class Accessor(Generic[T]):
    """Methods that select many points or windows of an array, or add values at many points."""

    def __init__(self, data: T) -> None:
        self._data: T = data
        self._axes: Axes = {}  # the sorted axes of earlier calls

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

        This method works like xarray's ``sel``, but reads each chunk of a lazy array at most once,
        and only if the chunk contains a point.

        Parameters
        ----------
        indexers, **labels
            Labels along the dimensions, as for xarray's ``sel``: DataArrays, arrays, lists, single
            labels or slices. Use a dict for dimensions that have the name of an option. Each row of
            a DataFrame is a point; the new dimension is named after the index of the DataFrame, or
            ``index``. Without a coordinate ``lat``, the name ``lat`` selects along the only axis of
            latitudes. This also applies to other common names, and to names in options.
        method : {None, "nearest", "pad", "backfill", "linear"} or dict
            How to look up a label:

            - None: the label must be on the axis.
            - "nearest": use the nearest label, or the greater label if two are equally near. Labels
              may be at most half a step outside of the axis, unless there is a `tolerance`.
              (xarray uses the first or last label, no matter how far away it is.)
            - "pad" (or "ffill"): use the preceding label of the axis.
            - "backfill" (or "bfill"): use the following label of the axis.
            - "linear": interpolate like xarray's ``interp``; outside of the axis, return NaN.

            Slices ignore the method, and strings must always be on the axis. A dict maps names to
            methods; all other names have the method None.
        tolerance : number, duration, array or dict, optional
            The maximum distance to the selected label. A dict maps names to tolerances. With an
            NDPointIndex, a number limits the distance between points.
        missing : {"raise", "nan"}, default "raise"
            Whether a missing label raises an error or yields NaN in the coordinate and every
            variable of the axis. As in ``reindex``, 8-bit and 16-bit integers become float32, other
            integers and booleans become float64, and strings become objects.
        period : dict, optional
            The period of a cyclic axis, for example ``{"lon": 360}``. Labels are compared modulo
            the period, so that the first and last labels of the axis are neighbors. If an axis
            covers only a part of the period, "linear" yields NaN in the widest gap if this gap is
            more than 1.5 times as wide as all other gaps. For longitudes in "degrees_east" that
            cover the whole earth, the period is detected.
        memory, progress, executor
            Options for lazy arrays; see `ndgather.gather_nd`.

        Returns
        -------
        DataArray or Dataset
            The same as xarray's ``sel``. A dask array stays lazy.

        Raises
        ------
        LabelError
            If a label is missing, labels of the axis are duplicates, or they are unsorted although
            the method requires sorted labels.
        CallError, DTypeError, ShapeError, AttributeValueError
            If a name or an option is unknown, or the type of the labels differs from the axis.
        StoredArrayError
            If a chunk cannot be read.

        Notes
        -----
        If ``lat[p]`` and ``lon[p]`` are at positions `i` and `j` of their axes::

            out[..., p, ...] = array[..., i, j, ...]

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
                f"sel: method = 'linear' is not supported for data.dtype = {array.dtype} (allowed: "
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
            Positions along the dimensions, as for xarray's ``isel``. Negative positions count from
            the end.
        memory, progress, executor
            Options for lazy arrays; see `ndgather.gather_nd`.

        Returns
        -------
        DataArray or Dataset
            The same as xarray's ``isel``. Lazy arrays are read as in `sel`.

        Raises
        ------
        IndexOutOfBoundsError
            If a position is out of bounds; the error reports the first in C order.
        CallError, DTypeError, ShapeError, AttributeValueError, StoredArrayError
            See `sel`.

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
        """Return windows centered at labels.

        Parameters
        ----------
        indexers, **labels
            The labels at the centers of the windows. Lists and NumPy arrays share the new dimension
            ``window``; DataArrays keep their dimensions.
        size : int or dict
            The window size, either the same for all dimensions or by name. In a window of even size
            the label is the first element of the second half.
        method, tolerance
            How to look up labels; see `sel`.
        period : dict, optional
            The period of a cyclic axis, for example ``{"lon": 360}``. Labels are compared modulo
            the period, and windows wrap around by default.
        mode : {"raise", "clip", "fill", "wrap", "edge", "reflect"} or dict, optional
            How to treat windows that extend past an end of an axis, for all dimensions or by name;
            see `ndgather.gather_windows`. "fill" fills with NaN, as in `sel`. The default is "wrap"
            for axes with a period and "raise" for other axes.
        memory, progress, executor
            Options for lazy arrays; see `ndgather.gather_nd`.

        Returns
        -------
        DataArray or Dataset
            The windows of every variable that has one of the dimensions. Dimension ``lat`` becomes
            ``lat_offset``, the distance from the label in positions. Coordinates get windows too,
            so that ``lat`` has the dimensions ``(window, lat_offset)``.

        Raises
        ------
        IndexOutOfBoundsError
            If a window extends past an end of an axis in mode "raise".
        LabelError, CallError, DTypeError, ShapeError, AttributeValueError, StoredArrayError
            See `sel`; in addition, AttributeValueError if a cyclic axis does not cover its period.

        Notes
        -----
        If ``lat[p]`` and ``lon[p]`` are at positions `i` and `j`, and `u` and `v` begin at
        ``-(size // 2)``::

            out[p, ..., u, v] = array[..., i + u, j + v]

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
        """Return a copy of the array with values added at labels, including duplicate labels.

        Parameters
        ----------
        values : DataArray, array, number or list
            The values to add, with the dtype of the array. An array must have the dimensions that
            `sel` returns for these labels; a DataArray may have only some of them and is broadcast.
        indexers, **labels
            Labels as for `sel`, except slices.
        method, tolerance, period
            How to look up labels; see `sel`.
        missing : {"raise", "drop"}, default "raise"
            Whether a missing label raises an error or its values are dropped.

        Returns
        -------
        DataArray
            The updated copy, in memory.

        Raises
        ------
        LabelError, CallError, DTypeError, ShapeError, AttributeValueError
            See `sel`; in addition, DTypeError for a Dataset, or if `values` has another dtype.

        Notes
        -----
        If ``lat[p]`` and ``lon[p]`` are at positions `i` and `j` of their axes, then for each point
        in order::

            out[..., i, j, ...] += values[..., p, ...]

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
        """Drop the cached chunks of data opened with ``engine="ndgather"``.

        Call this method after any process has written to the store. Otherwise, selections of points
        may return outdated values from the cache. Other data, and values that xarray has already
        loaded, are not affected.

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
        *absent: str,  # other allowed values of `missing`
    ) -> tuple[dict[Hashable, Any], selection.Request]:
        """Return a dict that maps axes to labels, and a request with validated options."""
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
                f"{caller}: tolerance is given, but method = None finds exact labels only "
                f"(allowed: a method, for example 'nearest')"
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
        """Return the data as a Dataset, copied shallowly so that its variables may be modified."""
        if isinstance(self._data, xarray.DataArray):
            return self._data.to_dataset(name=_VALUES)
        return self._data.copy(deep=False)

    def _like(self, data: xarray.Dataset) -> T:
        result: Any = data
        if isinstance(self._data, xarray.DataArray):
            result = data[_VALUES]
            result.name = self._data.name
        return result  # type: ignore[no-any-return]  # the type of self._data


def _checked_method(caller: str, method: Any, allowed: tuple[str, ...]) -> str:
    method = _SYNONYMS.get(method, method) if isinstance(method, str) else method
    return arguments.choice(caller, "method", method, allowed)


def _add_at(
    array: xarray.DataArray, values: Any, positions: Mapping[Hashable, Any]
) -> xarray.DataArray:
    """Return a copy of `array` with `values` added at positions, ignoring positions of -1."""
    points: dict[Hashable, Any] = {}
    for dim, position in positions.items():
        if isinstance(position, slice) or np.asarray(position).dtype.kind == "b":
            raise DTypeError(
                f"add_at: {dim} is a slice or a mask (allowed: labels); omit a dimension to add "
                f"along all of it"
            )
        variable = position.variable if isinstance(position, xarray.DataArray) else position
        if not isinstance(variable, xarray.Variable):
            variable = xarray.Variable((dim,) * np.ndim(position), position)
        points[dim] = variable
    with arrays.errors_of_xarray("add_at", positions):
        bare = xarray.Variable(array.dims, stand_in(array.shape, np.dtype(np.uint8)))
        sizes = bare.isel(points).sizes
    of_points = {dim for variable in points.values() for dim in variable.dims}
    for dim in of_points.intersection(array.dims):  # labels may vary along a dimension of the array
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
    if isinstance(moved.data, CachedArray):  # a scatter would write to the store
        moved = moved.copy(deep=False, data=np.asarray(moved.data))
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
    """Convert `values` to a Variable with some or all of the dimensions of a selection."""
    variable = values.variable if isinstance(values, xarray.DataArray) else values
    if not isinstance(variable, xarray.Variable):
        plain = arguments.plain_array("add_at", "values", values)
        if not isinstance(values, np.ndarray) and plain.dtype.kind in "bui":
            plain = plain.astype(dtype)  # scatter_nd also casts numbers and lists
        if plain.ndim not in (0, len(sizes)):
            raise ShapeError(
                f"add_at: values is an array of shape {plain.shape} (allowed: a number, or an "
                f"array with the dimensions ({listed(map(str, sizes))})); write "
                f"xarray.DataArray(values, dims=[...]) for some of them"
            )
        variable = xarray.Variable(tuple(sizes) if plain.ndim else (), plain)
    if any(sizes.get(dim) != size for dim, size in variable.sizes.items()):
        raise ShapeError(
            f"add_at: values.sizes = {shown_value(dict(variable.sizes))} do not match the points "
            f"(allowed: some of {shown_value(dict(sizes))})"
        )
    return variable


def not_a_data_array(caller: str, argument: str, value: Any) -> DTypeError:
    names = [str(name) for name in getattr(value, "data_vars", ())]
    which = f", such as {argument}[{names[0]!r}]" if names else ""
    return DTypeError(
        f"{caller}: {argument} = {type(value).__name__} is not an array (allowed: a "
        f"DataArray{which}); .ndgather.isel selects from all variables of a Dataset"
    )
