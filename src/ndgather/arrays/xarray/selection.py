"""Selections by labels, which find positions and then gather or interpolate values."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from itertools import product
from typing import Any, cast

import numpy as np
import pandas as pd
import xarray
from numpy.typing import NDArray
from xarray.indexes import CoordinateTransformIndex, NDPointIndex, PandasIndex

from ndgather.array_call import Array
from ndgather.arrays.xarray import arrays
from ndgather.arrays.xarray.arrays import (
    Options,
    as_array,
    checked_positions,
    errors_of_xarray,
    select,
    with_dims_of,
)
from ndgather.arrays.xarray.labels import (
    CIRCLE,
    NAMES,
    NOT_A_TIME,
    Axes,
    SortedLabels,
    are_beyond,
    are_fillers,
    are_longitudes,
    are_texts,
    convert_labels,
    goes_around,
    is_longitude,
    is_projected,
    longitude_range,
    look_up,
    match_axes,
    meanings_of,
    not_comparable,
    sorted_axis,
    unit_of_map,
    zoned,
)
from ndgather.errors import (
    AttributeValueError,
    CallError,
    DTypeError,
    LabelError,
    NdgatherError,
    ShapeError,
)
from ndgather.messages import converted_errors, did_you_mean, listed, reason, shown_value, subscript
from ndgather.stored.estimates import Estimate

_NAMED = xarray.DataArray | xarray.Variable
_MEMORY = 2**27  # default limit for the temporary arrays of an interpolation
_VARIABLE = "<variable>"  # the name of a variable that is wrapped in a Dataset
_LEFT_OUT = {"sel": "nan", "add_at": "drop"}  # the value of `missing` for each function
_FAR = 5000  # larger numbers are not degrees, even if a track circles the earth several times
TRANSFORM = "transform"  # the key of a raster's transform in `encoding`
_MOST_TURNED = 540  # the largest longitude (180) plus a full turn, in degrees
_CORNER = "<corner>"  # the dimension of the neighbors of a point


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options of a lookup; see `Accessor.sel`.

    `method`, `tolerance` and `period` may be dicts. Their keys are names given by the caller, which
    `prepare` replaces with the names of axes.
    """

    caller: str
    method: Any = None
    tolerance: Any = None
    missing: str = "raise"
    period: Mapping[Hashable, Any] = field(default_factory=dict)
    around: frozenset[Hashable] = frozenset()  # axes of longitudes around the whole earth
    names: Mapping[Hashable, Hashable] = field(default_factory=dict)  # maps axes to given names
    axes: Axes = field(default_factory=dict)  # the sorted axes of earlier calls
    in_shell: bool = False  # whether hints show command-line options

    def prepare(self, data: xarray.Dataset, names: Mapping[Hashable, Hashable]) -> Request:
        """Return a request whose options refer to axes; `names` maps axes to the given names.

        Axes of longitudes that cover the whole earth get a period of 360 degrees.
        """
        by_axis = partial(by_axes, data, names=dict(zip(names.values(), names, strict=True)))
        period: dict[Hashable, Any] = by_axis(self.period)
        around = []
        for axis in names:
            if axis in period or axis not in data.coords or data[axis].ndim != 1:
                continue
            if not is_longitude(data[axis]):
                continue
            index = pandas_index(data, axis)
            if index is not None and goes_around(axis, index.index, self.axes):
                around.append(axis)
        method = by_axis(self.method)
        if isinstance(method, dict):  # the name "" stands for all other axes
            method = {**dict.fromkeys(names, method.pop("", None)), **method}
        return replace(
            self,
            method=method,
            tolerance=by_axis(self.tolerance),
            period=period | dict.fromkeys(around, CIRCLE),
            around=frozenset(around),
            names=names,
        )

    @property
    def is_linear(self) -> bool:
        methods = self.method.values() if isinstance(self.method, dict) else (self.method,)
        return "linear" in methods

    def method_of(self, axis: Hashable) -> Any:
        return self.method.get(axis) if isinstance(self.method, dict) else self.method

    def tolerance_of(self, axis: Hashable) -> Any:
        return self.tolerance.get(axis) if isinstance(self.tolerance, dict) else self.tolerance

    def name_of(self, axis: Hashable) -> Hashable:
        return self.names.get(axis, axis)

    def with_period(self, axis: Hashable) -> Request:
        return replace(self, period={**self.period, axis: CIRCLE})

    def option(self, name: str, value: Any, axis: Hashable | None = None) -> str:
        """Format an option for a hint, either in Python or for the command line."""
        if axis is None:
            return f"--{name} {value}" if self.in_shell else f"{name}={value!r}"
        written = self.name_of(axis)
        if self.in_shell:
            return f"--{name} {written}={value}"
        return f"{name}={{{written!r}: {value}}}"


def by_axes(data: xarray.Dataset, option: Any, names: Mapping[Hashable, Hashable]) -> Any:
    """Replace the names that are the keys of an option with the names of axes."""
    if not hasattr(option, "items") or not len(option):
        return option
    others = match_axes(data, [name for name in option if name not in names])
    known = {**others, **names}
    return {known.get(name, name): value for name, value in option.items()}


def merged(
    caller: str, indexers: Mapping[Hashable, Any] | None, by_name: dict[str, Any]
) -> dict[Hashable, Any]:
    """Merge indexers from a dict and keyword arguments, and convert tuples to Variables."""
    check_dict(caller, "indexers", indexers)
    if isinstance(indexers, pd.DataFrame):
        indexers = _points(caller, indexers)
    for name in by_name.keys() & (indexers or {}).keys():
        raise CallError(
            f"{caller}: {name} is given both in indexers and by name (allowed: one of them)"
        )
    result: dict[Hashable, Any] = dict(indexers or {})
    result.update(by_name)
    series = [name for name, indexer in result.items() if isinstance(indexer, pd.Series)]
    if len(series) > 1 and caller != "windows":
        raise ShapeError(
            f"{caller}: {listed(map(str, series))} are Series, which have no dimension and would "
            f"select every combination (allowed: a DataFrame with a point per row); write "
            f".ndgather.{caller}(table[{[*map(str, series)]}], ...), or for every combination "
            f"{series[0]}.to_numpy()"
        )
    for dim, indexer in result.items():
        if isinstance(indexer, tuple) and len(indexer) > 1:
            with suppress(TypeError, ValueError):  # keep a tuple that is a MultiIndex label
                result[dim] = xarray.Variable(*indexer)
    return result


def _points(caller: str, table: pd.DataFrame) -> dict[Hashable, Any]:
    """Return the columns of a table as labels with a common dimension."""
    if not table.columns.is_unique:
        repeated = table.columns[table.columns.duplicated()][0]
        raise CallError(
            f"{caller}: the table has several columns {repeated} (allowed: unique names)"
        )
    dim = table.index.name or "index"
    coords = {} if isinstance(table.index, pd.MultiIndex) else {dim: table.index}
    return {
        name: xarray.DataArray(labels.to_numpy(), coords, [dim], name)
        for name, labels in table.items()
    }


def resolve(
    data: xarray.Dataset, labels: Mapping[Hashable, Any], request: Request
) -> tuple[dict[Hashable, Any], Request]:
    axes = match_axes(data, labels)
    by_axis: dict[Hashable, Any] = {}
    for name, label in labels.items():
        axis = axes.get(name, name)
        if axis in by_axis:
            other = next(each for each in labels if axes.get(each) == axis)
            raise CallError(
                f"{request.caller}: {other} and {name} both select along {axis} (allowed: one of "
                f"them)"
            )
        by_axis[axis] = label
    names = {axes.get(name, name): name for name in labels}
    return by_axis, request.prepare(data, names)


def check_dict(caller: str, argument: str, value: Any) -> None:
    if value is not None and not hasattr(value, "items"):
        raise DTypeError(
            f"{caller}: {argument} = {shown_value(value)} is not a dict (allowed: a dict whose "
            f"keys are names of dimensions or coordinates)"
        )


def find_positions(
    data: xarray.Dataset, labels: Mapping[Hashable, Any], request: Request
) -> tuple[xarray.Dataset, dict[Hashable, Any]]:
    """Return a dataset and the positions for its `isel`, with -1 for missing labels."""
    caller = request.caller
    options = (request.period, request.method, request.tolerance)
    named = [name for option in options if isinstance(option, dict) for name in option]
    check_names(caller, data, dict.fromkeys((*labels, *named)))
    result: dict[Hashable, Any] = {}
    others: dict[int, dict[Hashable, Any]] = {}
    dims_of = [data[name].dims for name in labels]
    for (name, label), dims in zip(labels.items(), dims_of, strict=True):
        index = pandas_index(data, name)
        if name in data.xindexes and index is None:
            others.setdefault(id(data.xindexes[name]), {})[name] = label
            continue
        if dims_of.count(dims) > 1:
            alike = [each for each in labels if data[each].dims == dims]
            mesh = {*dims}.isdisjoint(alike) and "nearest" in map(request.method_of, alike)
            raise CallError(
                f"{caller}: {alike[0]} and {alike[1]} both select along {dims[0]} (allowed: one "
                f"argument per dimension){_for_points(alike) if mesh else ''}"
            )
        dim, position = _of_one_axis(data, name, index, labels, request)
        result[dim] = position
    for some in others.values():
        other: Any = data.xindexes[next(iter(some))]
        if caller == "sel" and not isinstance(other, NDPointIndex | CoordinateTransformIndex):
            _check_other(other, some, request)
            how = {"method": request.method_of(next(iter(some))), "tolerance": request.tolerance}
            with errors_of_xarray(caller, some):
                data = data.sel(some, **how)
        else:
            result |= _of_other_index(data, other, some, request)
    return data, {dim: without_coords(position, result) for dim, position in result.items()}


def _check_other(index: Any, labels: Mapping[Hashable, Any], request: Request) -> None:
    of_points = isinstance(index, NDPointIndex | CoordinateTransformIndex)
    if not request.period.keys().isdisjoint(labels) or (
        request.missing != "raise" and not of_points
    ):
        raise other_index(request.caller, next(iter(labels)), index)
    if isinstance(request.tolerance, dict):
        raise AttributeValueError(
            f"{request.caller}: tolerance is a dict, but {listed(map(str, labels))} are looked up "
            f"together (allowed: a single distance)"
        )


def _of_other_index(
    data: xarray.Dataset, index: Any, labels: Mapping[Hashable, Any], request: Request
) -> dict[Hashable, Any]:
    """Return the positions of labels on an index with several coordinates or levels.

    The position is -1 if a point is outside of the axes or farther away than the tolerance.
    """
    _check_other(index, labels, request)
    of_points = isinstance(index, NDPointIndex | CoordinateTransformIndex)
    how = {} if of_points else {"tolerance": request.tolerance}
    with errors_of_xarray(request.caller, labels):
        method = request.method_of(next(iter(labels)))
        found = index.sel(dict(labels), method=method, **how).dim_indexers
    if not of_points:
        return {dim: np.arange(data.sizes[dim])[position] for dim, position in found.items()}
    if isinstance(index, NDPointIndex) and request.tolerance is None:
        return dict(found)
    outside: Any = False
    inside = {}
    for dim, position in found.items():
        outside = outside | (position < 0) | (position >= data.sizes[dim])
        inside[dim] = position.clip(0, data.sizes[dim] - 1)
    squares: Any = 0.0
    for name, label in labels.items():
        at = xarray.as_variable(label) if isinstance(label, _NAMED) else np.asarray(label)
        squares = squares + (data[name].variable.isel(inside).astype(float) - at) ** 2
    distance = squares**0.5
    if request.tolerance is not None:
        outside = outside | ~(distance <= request.tolerance)
    if request.missing == "raise" and bool(outside.any()):
        first = tuple(int(i) for i in np.argwhere(outside.values)[0])
        limit = "half a step" if request.tolerance is None else shown_value(request.tolerance)
        raise LabelError(
            f"{request.caller}: the nearest point to ({listed(map(str, labels))}){subscript(first)}"
            f" is {distance.values[first]} away (allowed: {limit}){_hint(request)}",
            position=first,
            count=int(outside.sum()),
        )
    return {dim: position.where(~outside, -1).astype(np.intp) for dim, position in found.items()}


def _for_points(names: Iterable[Hashable]) -> str:
    return (
        f"; write data = data.set_xindex({[*names]}, xarray.indexes.NDPointIndex), then select "
        f"with all of these coordinates and method='nearest'"
    )


def check_name(caller: str, name: Hashable, names: Iterable[Hashable]) -> None:
    if name not in names:
        known = [*map(str, names)]
        raise CallError(
            f"{caller}: {name} is not a dimension or coordinate of the array (allowed: "
            f"{listed(known)}){did_you_mean(name, known)}"
        )


def check_names(caller: str, data: xarray.Dataset, names: Iterable[Hashable]) -> None:
    """Raise an error unless each name is a dimension, a 1-d coordinate or an indexed coordinate."""
    known = [*dict.fromkeys([*data.sizes, *data.xindexes, *data.coords])]
    for name in names:
        check_name(caller, name, known)
        if name not in data.sizes and data[name].ndim != 1 and name not in data.xindexes:
            dims = data[name].dims
            alike = [other for other in data.coords if data[other].dims == dims]
            raise ShapeError(
                f"{caller}: coordinate {name} has the dimensions ({listed(map(str, dims))}) "
                f"(allowed: a 1-d coordinate, or coordinates with an "
                f"xarray.indexes.NDPointIndex){_for_points(alike)}"
            )


def pandas_index(data: xarray.Dataset, name: Hashable) -> PandasIndex | None:
    """Return a pandas index for a 1-d coordinate, or None if it has another index or no labels."""
    index = data.xindexes.get(name)
    if type(index) is PandasIndex:
        return index
    if index is not None and not isinstance(index, CoordinateTransformIndex):
        return None
    if name not in data.coords or data[name].ndim != 1:
        return None
    variable = xarray.Variable(data[name].dims, data[name].values)
    return PandasIndex.from_variables({name: variable}, options={})


def _of_one_axis(
    data: xarray.Dataset,
    name: Hashable,
    index: PandasIndex | None,
    all_labels: Mapping[Hashable, Any],
    request: Request,
) -> tuple[Hashable, Any]:
    """Return the dimension along which labels select, and the positions of the labels."""
    caller, label = request.caller, all_labels[name]
    method, tolerance = request.method_of(name), request.tolerance_of(name)
    if index is None:
        if method is not None:
            raise no_labels(caller, name)
        return name, checked_positions(caller, name, label, data.sizes[name])
    if isinstance(label, slice):
        found = data.xindexes.get(name, index)
        return index.dim, _by_index(data, found, name, all_labels, request)
    if method in ("nearest", "linear") and are_texts(index.index):  # strings have no distance
        method = tolerance = None
    elif method is None and isinstance(request.tolerance, dict) and tolerance is not None:
        raise AttributeValueError(
            f"{caller}: tolerance[{name!r}] is given, but method = None finds exact labels only "
            f"(allowed: a method, for example 'nearest')"
        )
    dtype = index.coord_dtype
    as_xarray = method is None and request.missing == "raise" and name not in request.period
    of_time = isinstance(index.index, pd.DatetimeIndex | pd.TimedeltaIndex | xarray.CFTimeIndex)
    if as_xarray and of_time and isinstance(label, str):  # "2020-01" selects a month
        return index.dim, _by_index(data, index, name, all_labels, request)
    labels = labels_of(request, data, name, label, index.index)
    held = True
    if isinstance(dtype, np.dtype) and dtype.kind == "f" and labels.dtype != dtype:
        if labels.dtype.kind not in "biu":
            with converted_errors(
                lambda error: not_comparable(caller, name, dtype, labels.dtype, reason(error))
            ):
                labels = labels.astype(dtype)
        elif labels.ndim == 0:
            held = labels.astype(dtype).item() == labels.item()
    if as_xarray and held and labels.ndim == 0 and not isinstance(label, xarray.DataArray):
        return index.dim, _by_index(data, index, name, all_labels, request)  # handles duplicates
    if labels.dtype.kind == "b":
        return index.dim, with_dims_of(label, labels)
    positions = look_up(
        caller,
        name,
        index.index,
        labels,
        method=method,
        tolerance=tolerance,
        period=request.period.get(name),
        axes=request.axes,
    )
    if request.missing == "raise" and (positions < 0).any():
        raise missing_labels(request, data, name, labels, positions, all_labels)
    return index.dim, with_dims_of(label, positions)


def _by_index(
    data: xarray.Dataset,
    index: Any,
    name: Hashable,
    all_labels: Mapping[Hashable, Any],
    request: Request,
) -> Any:
    label = all_labels[name]
    with errors_of_xarray(request.caller, (name,)):
        try:
            return next(iter(index.sel({name: label}).dim_indexers.values()))
        except KeyError:
            if isinstance(label, slice):
                raise
            labels = np.asarray(label)
            with suppress(NdgatherError):  # strings and Timestamps may be times
                labels = convert_labels(request.caller, name, labels, index.index)
            absent = np.full((), -1)
            error = missing_labels(request, data, name, labels, absent, all_labels)
            raise error from None


def labels_of(
    request: Request, data: xarray.Dataset, name: Hashable, indexer: Any, axis: pd.Index[Any]
) -> Array:
    """Convert labels to an array of the axis's type; raise for times with a time zone."""
    caller, labels = request.caller, as_array(request.caller, name, indexer)
    written = request.names.get(name, name)
    if (
        written != name
        and NAMES.get(str(written).casefold()) in ("latitude", "longitude")
        and is_projected(data[name])
        and not (labels.dtype.kind in "iuf" and (abs(labels) > CIRCLE).any())
    ):
        raise LabelError(f"{caller}: {written} is in degrees; {reproject(data, data[name])}")
    around = name in request.around or (name in request.period and is_longitude(data[name]))
    if around and labels.dtype.kind in "iuf":
        valid = are_longitudes(axis, labels, any_turn=name not in request.around)
        if not valid.all():
            if request.missing == "raise":
                raise _no_longitude(request, data, name, labels, valid)
            labels = np.where(valid, labels, np.nan)
    naive = isinstance(axis.dtype, np.dtype) and axis.dtype.kind == "M"
    if naive and labels.dtype == object and labels.size:
        first = labels.flat[0]
        if getattr(first, "tzinfo", None) is not None:
            raise zoned(caller, name, first, labels, isinstance(indexer, _NAMED))
    return convert_labels(caller, name, labels, axis)


def without_coords(indexer: Any, dims: Iterable[Hashable]) -> Any:
    """Drop the coordinates of an indexer that the selection replaces."""
    if not isinstance(indexer, xarray.DataArray):
        return indexer
    replaced = [name for name in indexer.coords if name in dims]
    return indexer.drop_vars(replaced) if replaced else indexer


def select_labels(
    data: xarray.Dataset,
    labels: Mapping[Hashable, Any],
    request: Request,
    options: Options,
) -> xarray.Dataset:
    """Return the values of a dataset at labels, interpolated if necessary."""
    linear = []
    if request.is_linear:
        linear = [name for name in labels if request.method_of(name) == "linear"]
    if not linear:
        data, positions = find_positions(data, labels, request)
        return select(data, positions, options, missing=request.missing)
    if any(request.tolerance_of(name) is not None for name in linear):
        raise AttributeValueError(
            "sel: tolerance is given, but method = 'linear' does not look for the nearest label "
            "(allowed: None)"
        )
    return interpolate(data, labels, request, options)


def estimate_labels(
    data: xarray.Dataset, labels: Mapping[Hashable, Any], request: Request, options: Options
) -> dict[str, Estimate]:
    """Estimate how much data `select_labels` reads for each lazy variable."""
    positions: Mapping[Hashable, Any] = {}
    axes: dict[Hashable, _Neighbors] = {}
    if request.is_linear:
        axes = {name: _Neighbors.of(data, name, labels, request) for name in labels}
    else:
        data, positions = find_positions(data, labels, request)
    estimates = {}
    for name, variable in data.variables.items():
        if axes:
            positions, _ = _corners({dim: axes[dim] for dim in variable.dims if dim in axes})
        along = {n: positions[dim] for n, dim in enumerate(variable.dims) if dim in positions}
        if not along or name in data.xindexes:
            continue
        own = options.of(name, variable)
        points = {axis: np.asarray(each, np.int64) for axis, each in along.items()}
        estimate = arrays.estimate_points(arrays.array_of(variable), points, own)
        if estimate is not None:
            estimates[str(name)] = estimate
    return estimates


@dataclass(frozen=True, slots=True)
class _Neighbors:
    """Labels for an interpolation along a dimension, and their neighbors on the axis."""

    labels: xarray.Variable
    lower: NDArray[np.intp]
    upper: NDArray[np.intp]
    share: NDArray[np.float64]  # the weight of the upper neighbor, or NaN for a missing label
    is_linear: bool = True  # if False, `lower` and `upper` are equal

    @classmethod
    def of(
        cls,
        data: xarray.Dataset,
        name: Hashable,
        all_labels: Mapping[Hashable, Any],
        request: Request,
    ) -> _Neighbors:
        caller, indexer = request.caller, all_labels[name]
        if name in data.xindexes and pandas_index(data, name) is None:
            raise other_index(caller, name, data.xindexes[name])
        check_name(caller, name, data.sizes)
        index = pandas_index(data, name)
        axis: Any = pd.RangeIndex(data.sizes[name]) if index is None else index.index
        if request.method_of(name) != "linear" or are_texts(axis):
            return cls._of_labels(data, name, index, axis, all_labels, request)
        labels = labels_of(request, data, name, indexer, axis)
        period = request.period.get(name)
        pair = sorted_axis(caller, name, axis, labels.ravel(), period, request.axes)
        if pair is None:
            raise DTypeError(
                f"{caller}: {name}.dtype = {labels.dtype} does not allow interpolation on an axis "
                f"of {axis.dtype} labels (allowed: numbers on an axis of numbers, times on an axis "
                f"of times)"
            )
        if not len(axis):
            raise no_labels(caller, name)
        variable = indexer.variable if isinstance(indexer, xarray.DataArray) else indexer
        if not isinstance(variable, xarray.Variable):
            attrs = data[name].attrs if name in data.coords else {}
            variable = xarray.Variable((name,) if labels.ndim else (), labels, attrs)
        elif variable.dtype.kind in "OUT":  # strings that represent times
            variable = xarray.Variable(variable.dims, labels, variable.attrs)
        lower, upper, share = pair[0].brackets(pair[1])
        shape = labels.shape
        if request.missing == "raise" and np.isnan(share).any():
            positions = np.where(pair[0].outside(pair[1]), -1, 0).reshape(shape)
            hint = _swapped(request, data, name, all_labels) or _in_other_units(data, name, labels)
            if hint and (positions < 0).any():
                raise missing_labels(request, data, name, labels, positions, all_labels)
        return cls(variable, lower.reshape(shape), upper.reshape(shape), share.reshape(shape))

    @classmethod
    def _of_labels(
        cls,
        data: xarray.Dataset,
        name: Hashable,
        index: PandasIndex | None,
        axis: pd.Index[Any],
        all_labels: Mapping[Hashable, Any],
        request: Request,
    ) -> _Neighbors:
        """Look up labels without interpolation, and use the result as both neighbors."""
        _, position = _of_one_axis(data, name, index, all_labels, request)
        if isinstance(position, slice) or np.asarray(position).dtype == bool:
            position = np.arange(len(axis))[position]
        if not isinstance(position, _NAMED):
            position = xarray.Variable((name,) * np.ndim(position), position)
        at = np.asarray(position)
        found = xarray.Variable(position.dims, axis.to_numpy()[at])
        if (at < 0).any():
            found = found.where(at >= 0)  # type: ignore[no-untyped-call]
        share = np.where(at < 0, np.nan, 0.0)
        return cls(found, at.clip(0), at.clip(0), share, is_linear=False)

    def of_block(self, block: Mapping[Hashable, Any]) -> _Neighbors:
        labels = self.labels
        key = tuple(block.get(dim, slice(None)) for dim in labels.dims)
        parts = {n: getattr(self, n)[key] for n in ("lower", "upper", "share")}
        some = labels.isel(dict(zip(labels.dims, key, strict=True)))
        return replace(self, labels=some, **parts)


def interpolate(
    data: xarray.Dataset, labels: Mapping[Hashable, Any], request: Request, options: Options
) -> xarray.Dataset:
    """Interpolate between labels like ``data.interp(labels)``."""
    check_names(request.caller, data, labels)
    axes = {name: _Neighbors.of(data, name, labels, request) for name in labels}
    rest = data.drop_vars([name for name in axes if name in data.variables])
    coords: dict[Hashable, xarray.Variable] = {}
    variables: dict[Hashable, xarray.Variable] = {}
    for name, variable in rest.variables.items():
        along = {dim: axis for dim, axis in axes.items() if dim in variable.dims}
        if not along:
            continue
        rest = rest.drop_vars([name])
        options = replace(options, name=str(name))
        if variable.dtype.kind in "uifcmM":
            result = _interpolated(variable, along, options)
        elif all(axis.labels.dims == (dim,) for dim, axis in along.items()):
            nearest = {}
            for dim, axis in along.items():
                at = np.where(axis.share < 0.5, axis.lower, axis.upper)
                at = at if axis.is_linear else np.where(np.isnan(axis.share), -1, at)
                nearest[dim] = xarray.Variable((dim,), at)
            result = _selected(variable, nearest, options, request.missing)
        else:
            continue
        (coords if name in data.coords else variables)[name] = result
    coords |= {name: axis.labels for name, axis in axes.items()}
    interpolated = rest.assign(variables).assign_coords(coords)
    for indexer in labels.values():
        if isinstance(indexer, xarray.DataArray):
            for name, coord in without_coords(indexer, labels).coords.items():
                if name not in interpolated.variables:
                    interpolated = interpolated.assign_coords({name: coord})
    return interpolated


def _selected(
    variable: xarray.Variable,
    positions: Mapping[Hashable, Any],
    options: Options,
    missing: str = "raise",
) -> xarray.Variable:
    one = xarray.Dataset({_VARIABLE: variable.to_base_variable()})
    return select(one, positions, options, missing)[_VARIABLE].variable


def _interpolated(
    variable: xarray.Variable, axes: Mapping[Hashable, _Neighbors], options: Options
) -> xarray.Variable:
    call, array = options.call, arrays.array_of(variable)
    blocks: list[dict[Hashable, Any]] = [{}]
    if isinstance(array, np.ndarray) or arrays.is_lazy(array):
        chunks = arrays.chunks_of(variable) or ()
        if len(chunks) != variable.ndim:
            chunks = (1,) * variable.ndim
        half = (call.memory or _MEMORY) // 2
        blocks = _blocks(variable, axes, dict(zip(variable.dims, chunks, strict=True)), half)
        # Use half of the memory for reading, unless half of the memory is too small for a chunk.
        if call.memory is not None and half >= 3 * math.prod(chunks) * variable.dtype.itemsize:
            options = replace(options, call=replace(call, memory=half))
    if len(blocks) > 1:
        options = replace(options, plans=[])
    values = None
    for block in blocks:
        kept = {dim: part for dim, part in block.items() if isinstance(part, slice)}
        some = {dim: axis.of_block(block) for dim, axis in axes.items()}
        total = _weighted(variable.isel(kept), some, options)
        if len(blocks) == 1:
            return xarray.Variable(total.dims, total.data, variable.attrs)
        if values is None:
            sizes: dict[Hashable, int] = {**total.sizes, **_sizes(axes)}
            sizes |= {dim: variable.sizes[dim] for dim in kept}
            values = np.empty([sizes[dim] for dim in total.dims], total.dtype)
        values[tuple(block.get(dim, slice(None)) for dim in total.dims)] = total.data
    return xarray.Variable(total.dims, values, variable.attrs)


def _sizes(axes: Mapping[Hashable, _Neighbors]) -> dict[Hashable, int]:
    return {dim: n for axis in axes.values() for dim, n in axis.labels.sizes.items()}


def _blocks(
    variable: xarray.Variable,
    axes: Mapping[Hashable, _Neighbors],
    chunks: Mapping[Hashable, int],
    memory: int,
) -> list[dict[Hashable, Any]]:
    """Split a result into blocks that each need at most `memory` bytes.

    A dimension without labels is split at chunk borders, so that each chunk is read once. If the
    blocks are still too large, points are sorted by chunk and split.
    """
    points, kept = _sizes(axes), dict(variable.sizes)
    for dim in axes:
        del kept[dim]
    both = {dim: points.pop(dim) for dim in [*points] if kept.pop(dim, None) is not None}
    count = math.prod([*points.values(), *kept.values(), *both.values()])
    # The size includes the neighbors of all points and three temporary arrays for the weighted sum.
    size = count * (variable.dtype.itemsize * 2 ** len(axes) + 3 * max(8, variable.dtype.itemsize))
    cuts: dict[Hashable, list[Any]] = {}
    if size > memory and kept:
        dim = max(kept, key=lambda dim: kept[dim] / chunks[dim])
        length = max(1, kept[dim] * memory // (size * chunks[dim])) * chunks[dim]
        cuts[dim] = [slice(at, at + length) for at in range(0, kept[dim], length)]
        size = size * length // kept[dim]
    if size > memory and points:
        dim = max(points, key=lambda dim: points[dim])
        alone = [(axis.lower, chunks[d]) for d, axis in axes.items() if axis.labels.dims == (dim,)]
        order = np.lexsort([np.arange(points[dim]), *(lower // step for lower, step in alone)])
        length = max(1, points[dim] * memory // size)
        cuts[dim] = [order[at : at + length] for at in range(0, points[dim], length)]
    return [dict(zip(cuts, parts, strict=True)) for parts in product(*cuts.values())]


def _corners(
    axes: Mapping[Hashable, _Neighbors],
) -> tuple[dict[Hashable, xarray.Variable], xarray.Variable]:
    """Return the neighbors' positions along each dimension, and the neighbors' weights.

    In two dimensions, if the upper neighbors have the weights s and t, the four corners have the
    weights ``(1 - s) (1 - t)``, ``(1 - s) t``, ``s (1 - t)`` and ``s t``.
    """
    corners = np.array([*product(*([0, 1][: 1 + each.is_linear] for each in axes.values()))])
    weights = xarray.Variable((_CORNER,), np.ones(len(corners)))
    positions = {}
    for axis, (dim, between) in enumerate(axes.items()):
        dims, upper = (_CORNER, *between.labels.dims), corners[:, axis]
        upper = upper.reshape(-1, *[1] * between.share.ndim)
        positions[dim] = xarray.Variable(dims, np.where(upper, between.upper, between.lower))
        share = np.where(upper, between.share, 1 - between.share)
        weights = weights * xarray.Variable(dims, share)
    return positions, weights


def _weighted(
    variable: xarray.Variable, axes: Mapping[Hashable, _Neighbors], options: Options
) -> xarray.Variable:
    positions, weights = _corners(axes)
    taken = _selected(variable, positions, options)
    total: Any = 0
    for corner in range(weights.sizes[_CORNER]):
        values: Any = taken.isel({_CORNER: corner})
        if variable.dtype.kind in "mM":
            values = values.astype(np.int64)
            values = values.where(values != NOT_A_TIME)
        total = total + values * weights.isel({_CORNER: corner})
    if variable.dtype.kind in "mM":
        rounded = total.fillna(0).round().astype(np.int64)
        total = rounded.where(~total.isnull(), NOT_A_TIME).astype(variable.dtype)
    return total  # type: ignore[no-any-return]  # a Variable


def other_index(caller: str, name: Hashable, index: object) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: {name} has a {type(index).__name__} (allowed with missing, period and "
        f"method='linear': a PandasIndex; with missing also an NDPointIndex)"
    )


def no_labels(caller: str, name: Hashable) -> LabelError:
    return LabelError(
        f"{caller}: {name} has no labels that a method could look up (allowed: a dimension with a "
        f"coordinate); write .isel instead of .{caller} for positions"
    )


def missing_labels(
    request: Request,
    data: xarray.Dataset,
    name: Hashable,
    labels: Any,
    positions: Any,
    all_labels: Mapping[Hashable, Any],
) -> LabelError:
    """Return the error for the first missing label, which lists the nearest labels."""
    index: Any = cast("PandasIndex", pandas_index(data, name)).index
    bad = np.argwhere(positions < 0)
    at = tuple(int(i) for i in bad[0])
    label, limit = labels[at], request.tolerance_of(name)
    is_time = isinstance(label, np.datetime64) or hasattr(label, "calendar")
    is_number = (is_time or isinstance(label, np.number)) and not pd.isna(label)
    if limit is None and is_number and len(index):
        axis = _numeric_axis(request, name, index, labels)
        is_outside = axis is not None and axis[0].outside(axis[1]).reshape(labels.shape)[at]
        is_outside = is_outside or are_beyond(index, labels)[at]
        if is_outside or request.method_of(name) == "nearest":
            return _outside(request, data, name, labels, positions, all_labels)
    near: list[Any] = []
    if isinstance(label, str):
        near = get_close_matches(label, map(str, index), 2)
    else:
        with suppress(Exception):  # subtracting arbitrary objects may raise any error
            near = list(index[abs(index - label).argsort()[:2]])
    why = "not on the axis" if limit is None else f"more than {limit} away from any label"
    more = f"; {len(bad)} of {labels.size} labels are missing" if len(bad) > 1 else ""
    ordered = not isinstance(index, pd.IntervalIndex) and index.dtype.kind != "b"
    ordered &= request.method_of(name) is None and not isinstance(label, str | bytes)
    ordered = ordered and not pd.isna(label)
    way = f"{request.option('method', 'nearest')} for the nearest label"
    hint = _hint(request, *[way] * ordered)
    nearest = "" if pd.isna(label) else f"; nearest: {listed(map(_shown, near))}"
    return LabelError(
        f"{request.caller}: {request.name_of(name)}{subscript(at)} = {_shown(label)} is {why} "
        f"(allowed: the {len(index)} labels of {name}{nearest}){more}{hint}",
        position=at,
        count=len(bad),
    )


def _numeric_axis(
    request: Request, name: Hashable, index: pd.Index[Any], labels: Array
) -> tuple[SortedLabels, Array] | None:
    """Return the sorted labels of an axis and `labels` as numbers, or None for other types."""
    with suppress(NdgatherError):
        period = request.period.get(name)
        return sorted_axis(request.caller, name, index, np.ravel(labels), period, request.axes)
    return None


def _outside(
    request: Request,
    data: xarray.Dataset,
    name: Hashable,
    labels: Any,
    positions: Any,
    all_labels: Mapping[Hashable, Any],
) -> LabelError:
    """Return the error for a label more than half a step outside of its axis."""
    index: Any = cast("PandasIndex", pandas_index(data, name)).index
    low, high = index.min(), index.max()
    bad = positions < 0
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    label = labels[at]
    why = f"is {'' if TRANSFORM in data.encoding else 'more than half a step '}outside of {name}"
    method = request.method_of(name)
    if method is None:
        why = "is not on the axis"
    if index.dtype.kind == "M" or hasattr(label, "calendar"):
        first = label < low
        why = f"is {'before' if first else 'after'} the {'first' if first else 'last'} time of the "
        why += f"grid, {_shown(low if first else high)}"
    hint = _for_a_filler(request, label) or _swapped(request, data, name, all_labels)
    hint = hint or _in_other_units(data, name, labels)
    if not hint:
        ways = []
        if index.dtype.kind in "iuf" and len(index) > 1 and name not in request.period:
            ends, wrong = index.to_numpy()[[0, 1, -2, -1]], labels[bad]
            if index.dtype.kind in "iu":  # differences could wrap around
                ends, wrong = ends.astype(object), wrong.astype(object)
            far = np.maximum(min(ends) - wrong, wrong - max(ends)).max()
            steps = np.abs(np.diff(ends))[[0, 2]]
            is_place = "latitude" not in meanings_of(data[name]) or abs(labels[bad]).max() <= 90
            # A label more than two steps away is probably wrong, so do not suggest a tolerance.
            if _fit_after_turns(request, data, name, labels[bad]):
                ways = [f"{request.option('period', CIRCLE, name)} if longitudes go around"]
            elif method == "nearest" and is_place and 0 < far <= 2 * steps.min():
                ways = [f"{request.option('tolerance', far, name)} for the nearest label"]
        hint = _hint(request, *ways)
    count = int(bad.sum())
    more = f"; {count} labels are outside" if count > 1 else ""
    return LabelError(
        f"{request.caller}: {request.name_of(name)}{subscript(at)} = {_shown(label)} {why} "
        f"(allowed: {_shown(low)}..{_shown(high)}){more}{hint}",
        position=at,
        count=count,
    )


def _no_longitude(
    request: Request, data: xarray.Dataset, name: Hashable, labels: Array, valid: NDArray[np.bool]
) -> LabelError:
    at = tuple(int(i) for i in np.argwhere(~valid)[0])
    count = int((~valid).sum())
    more = f"; {count} of {labels.size} labels are not" if count > 1 else ""
    hint = _for_a_filler(request, labels[at])
    way = ""
    if not hint and abs(labels[at]) > _FAR:
        hint = f"; {reproject(data, None)}"
    elif not hint:
        way = f", or {request.option('period', CIRCLE, name)}"
    low, high = longitude_range(data[name].values)
    return LabelError(
        f"{request.caller}: {request.name_of(name)}{subscript(at)} = {labels[at]} is not a "
        f"longitude (allowed: {low}..{high}{way}){more}{hint}",
        position=at,
        count=count,
    )


def _for_a_filler(request: Request, label: Any) -> str:
    """Return a hint if a label is a common filler for missing values, else an empty string."""
    if np.asarray(label).dtype.kind not in "iuf" or not are_fillers(label):
        return ""
    word = _LEFT_OUT.get(request.caller)
    way = "omit it" if word is None else f"write {request.option('missing', word)}"
    return f"; {label:g} looks like a missing value: {way}"


def _swapped(
    request: Request, data: xarray.Dataset, name: Hashable, labels: Mapping[Hashable, Any]
) -> str:
    """Return a hint if the labels of two axes seem to be swapped, else an empty string."""
    pairs = {"latitude": "longitude", "longitude": "latitude", "x": "y", "y": "x"}
    own = meanings_of(data[name])
    for other in labels:
        if other not in data.coords or other == name:
            continue
        if {pairs.get(each) for each in own}.isdisjoint(meanings_of(data[other])):
            continue
        if _fit(request, data, name, labels[other]) and _fit(request, data, other, labels[name]):
            first, second = sorted((name, other), key=lambda n: n != name)
            given = request.name_of(other)
            text = f"; are {first} and {second} swapped? (all labels of `{given}` fit `{name}`)"
            if request.in_shell:
                right = {request.name_of(name): other, given: name}
                ways = [f"--rename {column}={axis}" for column, axis in right.items()]
                text += f"; if so, write {' '.join(ways)}"
            return text
    return ""


def _fit(request: Request, data: xarray.Dataset, name: Hashable, labels: Any) -> bool:
    """Return whether all labels are numbers within the range of an axis."""
    index, array = pandas_index(data, name), np.asarray(labels)
    if index is None or array.dtype.kind not in "iuf":
        return False
    array = array[np.isfinite(array) & ~are_fillers(array)]
    pair = _numeric_axis(request, name, index.index, array)
    if pair is None or not array.size or pair[0].outside(pair[1]).any():
        return False
    is_turned = name in request.around
    return not is_turned or bool(are_longitudes(index.index, array, any_turn=False).all())


def _fit_after_turns(request: Request, data: xarray.Dataset, name: Hashable, labels: Array) -> bool:
    """Return whether shifts by multiples of 360 degrees bring all labels into the axis's range."""
    named = NAMES.get(str(name).casefold()) == "longitude"
    if not (named or "longitude" in meanings_of(data[name])) or (abs(labels) > _MOST_TURNED).any():
        return False
    return _fit(request.with_period(name), data, name, labels)


def _in_other_units(data: xarray.Dataset, name: Hashable, labels: Array) -> str:
    """Return a hint if labels are in degrees but the axis is in meters, or vice versa."""
    low, high = data[name].values.min(), data[name].values.max()
    present = np.abs(labels[np.isfinite(labels)]) if labels.dtype.kind in "iuf" else np.empty(0)
    in_meters = is_projected(data[name])
    in_degrees = not meanings_of(data[name]).isdisjoint(("latitude", "longitude"))
    if not present.size or not (
        (in_meters and present.max() <= CIRCLE < max(abs(low), abs(high)))
        or (in_degrees and present.min() > _MOST_TURNED)
    ):
        return ""
    return f"; {reproject(data, data[name] if in_meters else None)}"


def reproject(data: xarray.Dataset, axis: xarray.DataArray | None) -> str:
    """Return a hint to reproject points to the units of `axis`, or to degrees if `axis` is None."""
    system = data.encoding.get("crs")
    what = f"the raster is in {system}, " if system else "the grid is in "
    units = "degrees" if axis is None else unit_of_map(axis)
    return f"{what}{units}; reproject the points, for example with pyproj"


def _shown(label: Any) -> str:
    """Format a label, omitting trailing parts of a time that are zero."""
    text = str(label)
    if not isinstance(label, np.datetime64 | pd.Timestamp) or pd.isna(label):
        return text
    date, _, clock = text.replace("T", " ").partition(" ")
    clock = clock.rstrip("0").rstrip(".") if "." in clock else clock
    return date if clock in ("", "00:00:00") else f"{date}T{clock}"


def _hint(request: Request, *ways: str) -> str:
    """Return a hint that lists `ways` and, if supported, a value for the option `missing`."""
    word = _LEFT_OUT.get(request.caller)
    what = {"nan": "for NaN", "drop": "to drop them"}
    ways = (*ways, *([f"{request.option('missing', word)} {what[word]}"] if word else []))
    return f"; write {', or '.join(ways)}" if ways else ""
