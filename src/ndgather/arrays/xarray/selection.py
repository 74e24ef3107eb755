"""From labels to positions, and to the values there or interpolated between labels."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import product
from typing import Any, cast

import numpy as np
import pandas as pd
import xarray
from numpy.typing import NDArray
from xarray.indexes import NDPointIndex, PandasIndex

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
    NOT_A_TIME,
    Axes,
    check_longitudes,
    convert_labels,
    goes_around,
    look_up,
    not_comparable,
    sorted_axis,
    zoned,
)
from ndgather.errors import (
    AttributeValueError,
    CallError,
    DTypeError,
    LabelError,
    ShapeError,
)
from ndgather.messages import converted_errors, did_you_mean, listed, reason, shown_value, subscript

_NAMED = xarray.DataArray | xarray.Variable
_MEMORY = 2**27  # that an interpolation takes besides its result, by default
_VARIABLE = "<variable>"  # a name for it in a Dataset
_CORNER = "<corner>"  # the dimension of the neighbours of a point


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """How labels are looked up; the fields are options of `Accessor.sel`."""

    caller: str
    method: str | None = None
    tolerance: Any = None
    missing: str = "raise"
    period: Mapping[Hashable, Any] = field(default_factory=dict)
    around: frozenset[Hashable] = frozenset()  # whose period is that of longitudes
    axes: Axes = field(default_factory=dict)  # that are known from other calls

    def with_periods(self, data: xarray.Dataset, names: Iterable[Hashable]) -> Request:
        """Return the request with the period of axes whose units are those of longitudes."""
        around = []
        for name in names:
            if name in self.period or name not in data.coords or data[name].ndim != 1:
                continue
            index = data.xindexes.get(name)
            if index is None or type(index) is PandasIndex:
                index = cast("PandasIndex", pandas_index(data, name))
                if goes_around(name, index.index, data[name].attrs, self.axes):
                    around.append(name)
        if not around:
            return self
        period = {**self.period, **dict.fromkeys(around, CIRCLE)}
        return replace(self, period=period, around=frozenset(around))

    def tolerance_of(self, name: Hashable) -> Any:
        return self.tolerance.get(name) if isinstance(self.tolerance, dict) else self.tolerance


def merged(
    caller: str, indexers: Mapping[Hashable, Any] | None, by_name: dict[str, Any]
) -> dict[Hashable, Any]:
    """Return the indexers of a dict and of keyword arguments in one dict, with names for axes."""
    check_dict(caller, "indexers", indexers)
    if isinstance(indexers, pd.DataFrame):
        indexers = _points(caller, indexers)
    for name in by_name.keys() & (indexers or {}).keys():
        raise CallError(f"{caller}: {name} is given by indexers and by name (allowed: one of them)")
    result: dict[Hashable, Any] = dict(indexers or {})
    result.update(by_name)
    series = [name for name, indexer in result.items() if isinstance(indexer, pd.Series)]
    if len(series) > 1 and caller != "windows":
        raise ShapeError(
            f"{caller}: {listed(map(str, series))} are Series, which have no dimensions: they "
            f"would select every combination (allowed: a DataFrame, with a point in every row); "
            f"write .ndgather.{caller}(table[{[*map(str, series)]}], ...), or for every "
            f"combination {series[0]}.to_numpy()"
        )
    for dim, indexer in result.items():
        if isinstance(indexer, tuple) and len(indexer) > 1:
            with suppress(TypeError, ValueError):  # a label of several levels
                result[dim] = xarray.Variable(*indexer)
    return result


def _points(caller: str, table: pd.DataFrame) -> dict[Hashable, Any]:
    """Return the columns of a table as labels with a dimension that they share."""
    if not table.columns.is_unique:
        repeated = table.columns[table.columns.duplicated()][0]
        raise CallError(f"{caller}: the table has two columns {repeated} (allowed: one)")
    dim = table.index.name or "index"
    coords = {} if isinstance(table.index, pd.MultiIndex) else {dim: table.index}
    return {
        name: xarray.DataArray(labels.to_numpy(), coords, [dim], name)
        for name, labels in table.items()
    }


def check_dict(caller: str, argument: str, value: Any) -> None:
    if value is not None and not hasattr(value, "items"):
        raise DTypeError(
            f"{caller}: {argument} = {shown_value(value)} is not a dict (allowed: a dict by the "
            f"names of dimensions and coordinates)"
        )


def find_positions(
    data: xarray.Dataset, labels: Mapping[Hashable, Any], request: Request
) -> tuple[xarray.Dataset, dict[Hashable, Any]]:
    """Return a data set and the positions for its `isel`; a position of -1 has no label.

    xarray selects by an index that is not one of pandas, or has several levels.
    """
    caller = request.caller
    tolerances = request.tolerance if isinstance(request.tolerance, dict) else ()
    check_names(caller, data, (*labels, *request.period, *tolerances))
    result: dict[Hashable, Any] = {}
    others = {
        name: indexer
        for name, indexer in labels.items()
        if name in data.xindexes and type(data.xindexes[name]) is not PandasIndex
    }
    if others:
        indexes = {id(data.xindexes[name]): data.xindexes[name] for name in others}
        index: Any
        index, *more = indexes.values()
        of_points = isinstance(index, NDPointIndex) and not more
        if request.period or (request.missing != "raise" and not of_points):
            name = next(iter(others))
            raise other_index(caller, name, data.xindexes[name])
        with errors_of_xarray(caller, others):
            if of_points:
                found = index.sel(others, method=request.method).dim_indexers
                result |= _near(data, found, others, request)
            else:
                how = {"method": request.method, "tolerance": request.tolerance}
                data = data.sel(others, **how)
    for name, label in labels.items():
        if name in others:
            continue
        dim, position = _of_one_axis(data, name, label, request)
        if dim in result:
            raise CallError(
                f"{caller}: {name} selects along {dim}, which another argument selects along "
                f"(allowed: one argument for a dimension)"
            )
        result[dim] = position
    return data, {dim: without_coords(position, result) for dim, position in result.items()}


def _near(
    data: xarray.Dataset,
    found: Mapping[Hashable, Any],
    labels: Mapping[Hashable, Any],
    request: Request,
) -> dict[Hashable, Any]:
    """Return the positions of the nearest points, -1 for one that the tolerance excludes."""
    if request.tolerance is None:
        return dict(found)
    if isinstance(request.tolerance, dict):
        raise AttributeValueError(
            f"{request.caller}: tolerance is a dict, and the nearest points are looked up by "
            f"{listed(map(str, labels))} together (allowed: one distance, for all points)"
        )
    squares: Any = 0.0
    for name, label in labels.items():
        at = xarray.as_variable(label) if isinstance(label, _NAMED) else np.asarray(label)
        squares = squares + (data[name].variable.isel(found).astype(float) - at) ** 2
    distance = squares**0.5
    outside = ~(distance <= request.tolerance)
    if request.missing == "raise" and bool(outside.any()):
        first = tuple(int(i) for i in np.argwhere(outside.values)[0])
        raise LabelError(
            f"{request.caller}: the nearest point to ({listed(map(str, labels))}){subscript(first)}"
            f" is {distance.values[first]} from it (allowed: {shown_value(request.tolerance)})"
            f"{_hint(request)}",
            position=first,
            count=int(outside.sum()),
        )
    return {dim: position.where(~outside, -1).astype(np.intp) for dim, position in found.items()}


def check_name(caller: str, name: Hashable, names: Iterable[Hashable]) -> None:
    if name not in names:
        known = [*map(str, names)]
        raise CallError(
            f"{caller}: {name} is not a dimension or coordinate of the array (allowed: "
            f"{listed(known)}){did_you_mean(name, known)}"
        )


def check_names(caller: str, data: xarray.Dataset, names: Iterable[Hashable]) -> None:
    """Raise if a name is neither a dimension nor a coordinate of one dimension."""
    known = [*dict.fromkeys([*data.sizes, *data.xindexes, *data.coords])]
    for name in names:
        check_name(caller, name, known)
        if name not in data.sizes and data[name].ndim != 1 and name not in data.xindexes:
            dims = data[name].dims
            alike = [other for other in data.coords if data[other].dims == dims]
            raise ShapeError(
                f"{caller}: coordinate {name} has the dimensions ({listed(map(str, dims))}) "
                f"(allowed: a coordinate of one dimension, or of several with an "
                f"xarray.indexes.NDPointIndex); write data = data.set_xindex({alike}, "
                f"xarray.indexes.NDPointIndex), then select by all of these coordinates with "
                f"method='nearest'"
            )


def pandas_index(data: xarray.Dataset, name: Hashable) -> PandasIndex | None:
    """Return the index of the labels of `name`; None for a dimension without labels."""
    index = data.xindexes.get(name)
    if index is None and name in data.coords:
        return PandasIndex.from_variables({name: data[name].variable}, options={})
    return cast("PandasIndex | None", index)


def _of_one_axis(
    data: xarray.Dataset, name: Hashable, label: Any, request: Request
) -> tuple[Hashable, Any]:
    """Return the dimension that labels belong to, and their positions in it."""
    caller, index = request.caller, pandas_index(data, name)
    if index is None:
        if request.method is not None:
            raise no_labels(caller, name)
        return name, checked_positions(caller, name, label, data.sizes[name])
    if isinstance(label, slice):
        return index.dim, _by_index(index, name, label, request)
    dtype = index.coord_dtype
    as_xarray = request.method is None and request.missing == "raise" and name not in request.period
    of_time = isinstance(index.index, pd.DatetimeIndex | pd.TimedeltaIndex | xarray.CFTimeIndex)
    if as_xarray and of_time and isinstance(label, str):  # of a month, it is all of its times
        return index.dim, _by_index(index, name, label, request)
    labels = labels_of(request, name, label, index.index)
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
        return index.dim, _by_index(index, name, label, request)  # it may select several
    if labels.dtype.kind == "b":
        return index.dim, with_dims_of(label, labels)
    positions = look_up(
        caller,
        name,
        index.index,
        labels,
        method=request.method,
        tolerance=request.tolerance_of(name),
        period=request.period.get(name),
        axes=request.axes,
    )
    if request.missing == "raise" and (positions < 0).any():
        raise _missing(request, name, index.index, labels, positions)
    return index.dim, with_dims_of(label, positions)


def _by_index(index: PandasIndex, name: Hashable, label: Any, request: Request) -> Any:
    with errors_of_xarray(request.caller, (name,)):
        try:
            return index.sel({name: label}).dim_indexers[index.dim]
        except KeyError:
            if isinstance(label, slice):
                raise
            labels = np.asarray(label)
            raise _missing(request, name, index.index, labels, np.full((), -1)) from None


def labels_of(request: Request, name: Hashable, indexer: Any, axis: pd.Index[Any]) -> Array:
    """Return labels as an array; times with a zone are not those of an axis without."""
    caller, labels = request.caller, as_array(request.caller, name, indexer)
    if name in request.around:
        check_longitudes(caller, name, axis, labels)
    naive = isinstance(axis.dtype, np.dtype) and axis.dtype.kind == "M"
    if naive and labels.dtype == object and labels.size:
        first = labels.flat[0]
        if getattr(first, "tzinfo", None) is not None:
            raise zoned(caller, name, first)
    return convert_labels(caller, name, labels, axis)


def without_coords(indexer: Any, dims: Iterable[Hashable]) -> Any:
    """Return an indexer without the coordinates that the selection replaces."""
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
    """Return the values of a data set at labels, or between them."""
    if request.method != "linear":
        data, positions = find_positions(data, labels, request)
        return select(data, positions, options, missing=request.missing)
    if request.tolerance is not None:
        raise AttributeValueError(
            "sel: tolerance is given, but method = 'linear' looks for no nearest label (allowed: "
            "None)"
        )
    return interpolate(data, labels, request, options)


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """Labels to interpolate at along one dimension, and their neighbours on its axis."""

    labels: xarray.Variable
    lower: NDArray[np.intp]
    upper: NDArray[np.intp]
    share: NDArray[np.float64]  # of the upper neighbour

    @classmethod
    def of(
        cls, data: xarray.Dataset, name: Hashable, indexer: Any, request: Request
    ) -> _Neighbours:
        caller = request.caller
        check_name(caller, name, data.sizes)
        index = pandas_index(data, name)
        axis: Any = pd.RangeIndex(data.sizes[name]) if index is None else index.index
        if not isinstance(axis, pd.Index) or isinstance(axis, pd.MultiIndex):
            raise other_index(caller, name, index)
        labels = labels_of(request, name, indexer, axis)
        period = request.period.get(name)
        pair = sorted_axis(caller, name, axis, labels.ravel(), period, request.axes)
        if pair is None:
            raise DTypeError(
                f"{caller}: {name}.dtype = {labels.dtype} on an axis of {axis.dtype} labels cannot "
                f"be interpolated at (allowed: numbers on an axis of numbers, times on an axis of "
                f"times)"
            )
        if not len(axis):
            raise no_labels(caller, name)
        variable = indexer.variable if isinstance(indexer, xarray.DataArray) else indexer
        if not isinstance(variable, xarray.Variable):
            attrs = data[name].attrs if name in data.coords else {}
            variable = xarray.Variable((name,) if labels.ndim else (), labels, attrs)
        elif variable.dtype.kind in "OUT":  # texts on an axis of times
            variable = xarray.Variable(variable.dims, labels, variable.attrs)
        lower, upper, share = pair[0].brackets(pair[1])
        shape = labels.shape
        return cls(variable, lower.reshape(shape), upper.reshape(shape), share.reshape(shape))

    def of_block(self, block: Mapping[Hashable, Any]) -> _Neighbours:
        """Return the labels of a part of the result."""
        labels = self.labels
        key = tuple(block.get(dim, slice(None)) for dim in labels.dims)
        parts = (each[key] for each in (self.lower, self.upper, self.share))
        return _Neighbours(labels.isel(dict(zip(labels.dims, key, strict=True))), *parts)


def interpolate(
    data: xarray.Dataset, labels: Mapping[Hashable, Any], request: Request, options: Options
) -> xarray.Dataset:
    """Return values interpolated between labels, as ``data.interp(labels)`` does."""
    check_names(request.caller, data, labels)
    axes = {name: _Neighbours.of(data, name, array, request) for name, array in labels.items()}
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
            nearest = {
                dim: xarray.Variable((dim,), np.where(axis.share < 0.5, axis.lower, axis.upper))
                for dim, axis in along.items()
            }
            result = _selected(variable, nearest, options)
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
    variable: xarray.Variable, positions: Mapping[Hashable, Any], options: Options
) -> xarray.Variable:
    one = xarray.Dataset({_VARIABLE: variable.to_base_variable()})
    return select(one, positions, options)[_VARIABLE].variable


def _interpolated(
    variable: xarray.Variable, axes: Mapping[Hashable, _Neighbours], options: Options
) -> xarray.Variable:
    """Return the weighted sums of the neighbours of points, which are taken in blocks."""
    call, array = options.call, arrays.array_of(variable)
    blocks: list[dict[Hashable, Any]] = [{}]
    if options.estimates is None and (isinstance(array, np.ndarray) or arrays.is_lazy(array)):
        chunks = arrays.chunks_of(variable) or ()
        if len(chunks) != variable.ndim:
            chunks = (1,) * variable.ndim
        half = (call.memory or _MEMORY) // 2
        blocks = _blocks(variable, axes, dict(zip(variable.dims, chunks, strict=True)), half)
        # The other half is to read, if it is not too small for a chunk.
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


def _sizes(axes: Mapping[Hashable, _Neighbours]) -> dict[Hashable, int]:
    return {dim: n for axis in axes.values() for dim, n in axis.labels.sizes.items()}


def _blocks(
    variable: xarray.Variable,
    axes: Mapping[Hashable, _Neighbours],
    chunks: Mapping[Hashable, int],
    memory: int,
) -> list[dict[Hashable, Any]]:
    """Return the parts of a result, by dimension, that are computed in this much memory each.

    A dimension that stays is cut between chunks, so that each is read once. If that is not enough,
    points are taken in the order of their chunks.
    """
    points, kept = _sizes(axes), dict(variable.sizes)
    for dim in axes:
        del kept[dim]
    both = {dim: points.pop(dim) for dim in [*points] if kept.pop(dim, None) is not None}
    count = math.prod([*points.values(), *kept.values(), *both.values()])
    # The neighbours, and two terms and their sum.
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


def _weighted(
    variable: xarray.Variable, axes: Mapping[Hashable, _Neighbours], options: Options
) -> xarray.Variable:
    """Return the weighted sums of the neighbours of points."""
    corners = np.array([*product((0, 1), repeat=len(axes))])
    weights = xarray.Variable((_CORNER,), np.ones(len(corners)))
    positions = {}
    for axis, (dim, between) in enumerate(axes.items()):
        dims, upper = (_CORNER, *between.labels.dims), corners[:, axis]
        upper = upper.reshape(-1, *[1] * between.share.ndim)
        positions[dim] = xarray.Variable(dims, np.where(upper, between.upper, between.lower))
        share = np.where(upper, between.share, 1 - between.share)
        weights = weights * xarray.Variable(dims, share)
    taken = _selected(variable, positions, options)
    total: Any = 0
    for corner in range(len(corners)):
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
        f"{caller}: {name} has a {type(index).__name__} (allowed with missing='nan', period and "
        f"method='linear': the index of one coordinate, PandasIndex; with missing='nan' also "
        f"NDPointIndex)"
    )


def no_labels(caller: str, name: Hashable) -> LabelError:
    return LabelError(
        f"{caller}: {name} has no labels, which a method could look up (allowed: a dimension with "
        f"a coordinate); write .isel for positions"
    )


def _missing(
    request: Request, name: Hashable, index: pd.Index[Any], labels: Any, positions: Any
) -> LabelError:
    """Return the error of the first label that does not exist, with the nearest labels."""
    bad = np.argwhere(positions < 0)
    at = tuple(int(i) for i in bad[0])
    label, limit = labels[at], request.tolerance_of(name)
    if request.method == "nearest" and limit is None and len(index) and not pd.isna(label):
        return _outside(request, name, index, label, at, len(bad))
    near: list[Any] = []
    if isinstance(label, str):
        near = get_close_matches(label, map(str, index), 2)
    else:
        with suppress(Exception):  # labels without a distance may raise anything
            near = list(index[abs(index - label).argsort()[:2]])
    why = "not on the axis" if limit is None else f"further than {limit} from it"
    more = f"; {len(bad)} of {labels.size} labels are not found" if len(bad) > 1 else ""
    ordered = not isinstance(index, pd.IntervalIndex) and index.dtype.kind != "b"
    ordered &= request.method is None and not isinstance(label, str | bytes) and not pd.isna(label)
    hint = _hint(request, *["method='nearest' for the nearest label"] * ordered)
    return LabelError(
        f"{request.caller}: {name}{subscript(at)} = {label} is {why} (allowed: the {len(index)} "
        f"labels of {name}; nearest: {listed(map(str, near))}){more}{hint}",
        position=at,
        count=len(bad),
    )


def _outside(
    request: Request,
    name: Hashable,
    index: pd.Index[Any],
    label: Any,
    at: tuple[int, ...],
    count: int,
) -> LabelError:
    """Return the error of a label that is more than half a step outside of its axis.

    The error names no tolerance of more than two steps, which would lead to another place.
    """
    low, high = index.min(), index.max()
    ways = []
    with suppress(TypeError, ValueError, IndexError):  # a single label has no step
        far = max(low - label, label - high)
        step = abs(index[1] - index[0]) if label < low else abs(index[-1] - index[-2])
        if 0 * far < far <= 2 * step and index.dtype.kind in "iuf":
            ways.append(f"tolerance={{{name!r}: {far}}} for the nearest label")
    if str(name).casefold().startswith("lon") and name not in request.period:
        ways.insert(0, f"period={{{name!r}: 360}} if longitudes go around")
    more = f"; {count} labels lie outside" if count > 1 else ""
    return LabelError(
        f"{request.caller}: {name}{subscript(at)} = {label} lies outside of {name} by more than "
        f"half a step (allowed: {low}..{high}){more}{_hint(request, *ways)}",
        position=at,
        count=count,
    )


def _hint(request: Request, *ways: str) -> str:
    """Return what to write for labels that do not exist, which is not the same in every method."""
    leave_out = {"sel": "missing='nan' for NaN", "add_at": "missing='drop' to leave them out"}
    ways = (*ways, *filter(None, [leave_out.get(request.caller)]))
    return f"; write {', or '.join(ways)}" if ways else ""
