"""From labels to positions, and from positions to a selection of points or along axes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, cast

import numpy as np
import pandas as pd
import xarray
from xarray.indexes import NDPointIndex, PandasIndex

from ndgather import arguments
from ndgather.array_call import Array
from ndgather.arrays.xarray import arrays
from ndgather.arrays.xarray.arrays import Options
from ndgather.arrays.xarray.labels import (
    CIRCLE,
    Axes,
    check_longitudes,
    comparable,
    goes_around,
    look_up,
    not_comparable,
    zoned,
)
from ndgather.errors import (
    AttributeValueError,
    CallError,
    DTypeError,
    IndexOutOfBoundsError,
    LabelError,
    NdgatherError,
    ShapeError,
)
from ndgather.messages import converted_errors, did_you_mean, listed, reason, shown_value, subscript

_NAMED = xarray.DataArray | xarray.Variable
_CONVERTED = pd.Index | _NAMED


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


@contextmanager
def errors_of_xarray(caller: str, names: Iterable[Hashable]) -> Iterator[None]:
    """Turn the errors of a selection by xarray into those of this package."""
    try:
        yield
    except (MemoryError, OSError, NdgatherError):
        raise
    except Exception as error:
        raise AttributeValueError(
            f"{caller}: {listed(map(str, names))} cannot be selected by: {reason(error)} (allowed: "
            f"what xarray selects by)"
        ) from error


def check_dict(caller: str, argument: str, value: Any) -> None:
    if value is not None and not hasattr(value, "items"):
        raise DTypeError(
            f"{caller}: {argument} = {shown_value(value)} is not a dict (allowed: a dict by the "
            f"names of dimensions and coordinates)"
        )


def positions(
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
    for name in (name for name in labels if name not in others):
        dim, position = _of_one_axis(data, name, labels[name], request)
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
    if isinstance(dtype, np.dtype) and dtype.kind == "f":
        if labels.dtype.kind not in "biu":
            with converted_errors(
                lambda error: not_comparable(caller, name, dtype, labels.dtype, reason(error))
            ):
                labels = labels.astype(dtype, copy=False)
        elif labels.ndim == 0:
            held = labels.astype(dtype).item() == labels.item()
    if as_xarray and held and labels.ndim == 0 and not isinstance(label, xarray.DataArray):
        return index.dim, _by_index(index, name, label, request)  # it may select several
    if labels.dtype.kind == "b":
        return index.dim, _like(label, labels)
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
    return index.dim, _like(label, positions)


def _by_index(index: PandasIndex, name: Hashable, label: Any, request: Request) -> Any:
    with errors_of_xarray(request.caller, (name,)):
        try:
            return index.sel({name: label}).dim_indexers[index.dim]
        except KeyError:
            if isinstance(label, slice):
                raise
            labels = np.asarray(label)
            raise _missing(request, name, index.index, labels, np.full((), -1)) from None


def as_array(caller: str, name: Hashable, indexer: Any) -> Array:
    """Return labels or positions as an array; several axes must have names."""
    if hasattr(type(indexer), "untyped_storage"):  # of torch, whose memory may not be its own
        indexer = arguments.plain_array(caller, str(name), indexer)
    try:
        # NumPy asks an array of xarray for many attributes before it converts it.
        array = indexer.to_numpy() if isinstance(indexer, _CONVERTED) else np.asarray(indexer)
    except (TypeError, ValueError) as error:
        raise _not_an_indexer(caller, name, indexer) from error
    if array.ndim > 1 and not isinstance(indexer, _NAMED):
        raise ShapeError(
            f"{caller}: {name} is an array of shape {array.shape}, whose axes have no names "
            f"(allowed: one axis); write xarray.DataArray({name}, dims=[...])"
        )
    return array


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
    return comparable(caller, name, labels, axis)


def checked_positions(caller: str, name: Hashable, indexer: Any, size: int) -> Any:
    """Return positions counted from the front, in the form of `indexer`."""
    if isinstance(indexer, slice):
        return indexer
    if isinstance(indexer, tuple):
        raise _not_an_indexer(caller, name, indexer)
    array = as_array(caller, name, indexer)
    if array.dtype.kind == "b":
        return indexer
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise DTypeError(
            f"{caller}: {name}.dtype = {array.dtype} is not an integer type (allowed: positions; "
            f"labels are looked up by sel)"
        )
    least, greatest = (array.min(), array.max()) if array.size else (0, -1)
    if least < -size or greatest >= size:
        outside = (array < -size) | (array >= size)
        at, count = tuple(int(i) for i in np.argwhere(outside)[0]), int(outside.sum())
        allowed = f"allowed: {-size}..{size - 1}" if size else "the axis is empty"
        more = f"; {count} positions are out of bounds" if count > 1 else ""
        raise IndexOutOfBoundsError(
            f"{caller}: {name}{subscript(at)} = {int(array[at])} is outside of {name}, which has "
            f"size {size} ({allowed}){more}",
            position=at,
            value=int(array[at]),
            size=size,
            count=count,
        )
    array = array.astype(np.int64, copy=False)
    return _like(indexer, np.where(array < 0, array + size, array) if least < 0 else array)


def _like(indexer: Any, array: Any) -> Any:
    """Return `array` with the dimensions and coordinates of an indexer."""
    if isinstance(indexer, xarray.DataArray) and indexer.coords:
        return indexer.copy(deep=False, data=array)
    if isinstance(indexer, _NAMED):
        return xarray.Variable(indexer.dims, array)
    return array if array.ndim else int(array) if array >= 0 else array


def without_coords(indexer: Any, dims: Iterable[Hashable]) -> Any:
    """Return an indexer without the coordinates that the selection replaces."""
    if not isinstance(indexer, xarray.DataArray):
        return indexer
    replaced = [name for name in indexer.coords if name in dims]
    return indexer.drop_vars(replaced) if replaced else indexer


class PointwiseArray(arrays.LazyArray):
    """The array of a variable, from which `isel` of xarray gathers through this package."""

    __slots__ = ("_array", "_options", "_take")

    def __init__(self, array: Any, options: Options, take: Callable[..., Any]) -> None:
        super().__init__(array, array.shape)
        self._array, self._options, self._take = array, options, take

    def get_duck_array(self, dtype: Any = None) -> Any:
        return np.asarray(self._array)

    def select_points(self, indexer: Any) -> Any:
        return self._gathered(indexer.tuple)

    def _gathered(self, key: Iterable[Any]) -> Any:
        checked = tuple(k if isinstance(k, slice) else np.asarray(k, np.int64) for k in key)
        return self._take(self._array, checked, self._options)

    def select_along(self, indexer: Any) -> Any:
        kept = [k for k in indexer.tuple if isinstance(k, slice) or np.ndim(k)]
        lines = iter(np.ix_(*(k for k in kept if not isinstance(k, slice))))
        taken = self._gathered(next(lines) if np.ndim(k) else k for k in indexer.tuple)
        axes = sorted(range(len(kept)), key=lambda axis: isinstance(kept[axis], slice))
        return taken.transpose(np.argsort(axes))  # in the result, axes of arrays come first


def select(
    data: xarray.Dataset,
    positions: Mapping[Hashable, Any],
    options: Options,
    missing: str = "raise",
) -> xarray.Dataset:
    """Return what ``data.isel(positions)`` is.

    With "nan" for `missing`, every variable is NaN where a position is -1. The variables of `data`
    are changed: it has to be a copy, which nothing else uses.
    """
    by_array = {
        name: as_array(options.call.caller, name, p)
        for name, p in positions.items()
        if not isinstance(p, slice)
    }
    masked = set()
    if missing == "nan":
        masked = {name for name, array in by_array.items() if array.size and array.min() < 0}
    take = arrays.take if masked else arrays.take_present
    by_points = masked.union(name for name, array in by_array.items() if array.ndim)
    lost = [name for name in data.xindexes if masked.intersection(data.variables[name].dims)]
    bare = data.drop_indexes(lost) if lost else data
    for name, variable in bare.variables.items():
        if name in bare.xindexes or not by_points.intersection(variable.dims):
            continue
        array = arrays.array_of(variable)
        # Arrays of other libraries index themselves.
        if type(array) is np.ndarray or arrays.is_lazy(array):
            variable.data = PointwiseArray(array, options.of(name, variable), take)
    with errors_of_xarray(options.call.caller, positions):
        taken = bare.isel(positions)
    for name in lost:
        if name in taken.coords and taken[name].dims == (name,):
            taken = taken.set_xindex([name])
    return taken


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


def _not_an_indexer(caller: str, name: Hashable, indexer: object) -> DTypeError:
    return DTypeError(
        f"{caller}: {name} = {shown_value(indexer)} is not an array (allowed: labels or positions "
        f"in one array, or with their dimensions: ({name!r}, array))"
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
