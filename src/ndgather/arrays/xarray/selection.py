"""From labels or positions to a selection: by points, by axes, or interpolated between labels."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import product
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import xarray
from xarray.core import indexing
from xarray.indexes import PandasIndex

from ndgather.arrays.xarray import arrays
from ndgather.arrays.xarray.labels import look_up, not_comparable, sorted_axis
from ndgather.errors import (
    AttributeValueError,
    CallError,
    DTypeError,
    IndexOutOfBoundsError,
    LabelError,
    NdgatherError,
    ShapeError,
)
from ndgather.messages import did_you_mean, listed, reason, shown_value

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from numpy.typing import NDArray

    from ndgather.arrays.xarray.arrays import Options

_CORNER = "<corner>"  # the dimension of the neighbours of a point


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """How labels are looked up; the fields are options of `Accessor.sel`."""

    caller: str
    method: str | None = None
    tolerance: Any = None
    missing: str = "raise"
    period: Mapping[Hashable, Any] = field(default_factory=dict)

    def tolerance_of(self, name: Hashable) -> Any:
        return self.tolerance.get(name) if isinstance(self.tolerance, dict) else self.tolerance


def merged(
    caller: str, indexers: Mapping[Hashable, Any] | None, by_name: dict[str, Any]
) -> dict[Hashable, Any]:
    """Return indexers of a dict and those of keyword arguments in one dict."""
    check_dict(caller, "indexers", indexers)
    both = next((name for name in indexers or () if name in by_name), None)
    if both is not None:
        raise CallError(f"{caller}: {both} is given by indexers and by name (allowed: one of them)")
    return {name: _variable(each) for name, each in (dict(indexers or {}) | by_name).items()}


def check_dict(caller: str, argument: str, value: Any) -> None:
    if value is not None and not hasattr(value, "items"):
        raise DTypeError(
            f"{caller}: {argument} = {shown_value(value)} is not a dict (allowed: a dict by the "
            f"names of dimensions and coordinates)"
        )


def _variable(indexer: Any) -> Any:
    """Return a Variable of a tuple of dimensions and data."""
    if not isinstance(indexer, tuple) or len(indexer) < 2:
        return indexer
    try:
        return xarray.Variable(*indexer)
    except (TypeError, ValueError):
        return indexer  # a label of several levels


def positions(
    data: xarray.Dataset, labels: Mapping[Hashable, Any], request: Request
) -> tuple[xarray.Dataset, dict[Hashable, Any]]:
    """Return a data set and the positions for its `isel`; a position of -1 has no label.

    xarray selects by an index that is not one of pandas, or has several levels.
    """
    caller = request.caller
    check_names(caller, data, labels)
    check_names(caller, data, request.period)
    if isinstance(request.tolerance, dict):
        check_names(caller, data, request.tolerance)
    others = {
        name: each
        for name, each in labels.items()
        if name in data.xindexes and type(data.xindexes[name]) is not PandasIndex
    }
    if others:
        if request.period or request.missing != "raise":
            name = next(iter(others))
            raise other_index(caller, name, data.xindexes[name])
        try:
            data = data.sel(others, method=request.method, tolerance=request.tolerance)
        except (MemoryError, OSError, NdgatherError):
            raise
        except Exception as error:
            raise not_selectable(caller, others, error) from error
    found: dict[Hashable, Any] = {}
    for name, each in labels.items():
        if name not in others:
            dim, position = _of_one_axis(data, name, each, request)
            if dim in found:
                raise CallError(
                    f"{caller}: {name} selects along {dim}, which another argument selects along "
                    f"(allowed: one argument for each dimension)"
                )
            found[dim] = position
    return data, {dim: _without_coords(each, found) for dim, each in found.items()}


def check_names(caller: str, data: xarray.Dataset, names: Iterable[Hashable]) -> None:
    """Raise if a name is neither a dimension nor a coordinate of one dimension."""
    known = [*dict.fromkeys([*data.sizes, *data.xindexes, *data.coords])]
    for name in names:
        if name not in known:
            raise unknown_name(caller, name, known)
        if name not in data.sizes and data[name].ndim != 1:
            raise ShapeError(
                f"{caller}: coordinate {name} has the dimensions "
                f"({listed(map(str, data[name].dims))}) (allowed: a coordinate of one dimension)"
            )


def _pandas_index(data: xarray.Dataset, name: Hashable) -> PandasIndex | None:
    """Return the index of the labels of `name`; None for a dimension without labels."""
    index = data.xindexes.get(name)
    if index is None and name in data.coords:
        return PandasIndex.from_variables({name: data[name].variable}, options={})
    return cast("PandasIndex | None", index)


def _of_one_axis(
    data: xarray.Dataset, name: Hashable, label: Any, request: Request
) -> tuple[Hashable, Any]:
    """Return the dimension that labels belong to, and their positions in it."""
    caller, index = request.caller, _pandas_index(data, name)
    if index is None:
        if request.method is not None:
            raise _no_labels(caller, name)
        return name, checked_positions(caller, name, label, data.sizes[name])
    if isinstance(label, slice):
        return index.dim, _by_index(index, name, label, request)
    labels, dtype = _as_array(caller, name, label), index.coord_dtype
    if isinstance(dtype, np.dtype) and dtype.kind == "f" and labels.dtype.kind != "b":
        labels = _cast(caller, name, labels, dtype, dtype)
    as_xarray = request.method is None and request.missing == "raise" and name not in request.period
    if as_xarray and labels.ndim == 0 and not isinstance(label, xarray.DataArray):
        return index.dim, _by_index(index, name, label, request)  # it may select several
    if labels.dtype.kind == "b":
        return index.dim, _like(label, labels)
    found = look_up(
        caller,
        name,
        index.index,
        labels,
        method=request.method,
        tolerance=request.tolerance_of(name),
        period=request.period.get(name),
    )
    if request.missing == "raise" and (found < 0).any():
        raise _missing(request, name, index.index, labels, found)
    return index.dim, _like(label, found)


def _by_index(index: PandasIndex, name: Hashable, label: Any, request: Request) -> Any:
    try:
        return index.sel({name: label}).dim_indexers[index.dim]
    except MemoryError:
        raise
    except Exception as error:
        if isinstance(error, KeyError) and not isinstance(label, slice):
            labels = np.asarray(label)
            raise _missing(request, name, index.index, labels, np.full((), -1)) from None
        raise not_selectable(request.caller, {name: label}, error) from error


def _as_array(caller: str, name: Hashable, indexer: Any) -> NDArray[Any]:
    """Return labels or positions as an array; several axes must have names."""
    try:
        array = indexer.to_numpy() if isinstance(indexer, pd.Index) else np.asarray(indexer)
    except (TypeError, ValueError) as error:
        raise _not_an_array(caller, name, indexer) from error
    if array.ndim > 1 and not isinstance(indexer, xarray.DataArray | xarray.Variable):
        raise ShapeError(
            f"{caller}: {name} is an array of shape {array.shape}, whose axes have no names "
            f"(allowed: one axis); write xarray.DataArray({name}, dims=[...])"
        )
    return array


def _cast(caller: str, name: Hashable, labels: Any, dtype: Any, of_axis: object) -> Any:
    try:
        return labels.astype(dtype, copy=False)
    except (TypeError, ValueError) as error:
        raise not_comparable(caller, name, of_axis, labels.dtype, error) from error


def checked_positions(caller: str, name: Hashable, indexer: Any, size: int) -> Any:
    """Return positions counted from the front, in the form of `indexer`."""
    if isinstance(indexer, slice):
        return indexer
    if isinstance(indexer, tuple):
        raise _not_an_array(caller, name, indexer)
    array = _as_array(caller, name, indexer)
    if array.dtype.kind == "b":
        return indexer
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise DTypeError(
            f"{caller}: {name}.dtype = {array.dtype} is not an integer type (allowed: positions; "
            f"labels are looked up by sel)"
        )
    outside = (array < -size) | (array >= size)
    if outside.any():
        at, count = tuple(int(i) for i in np.argwhere(outside)[0]), int(outside.sum())
        allowed = f"allowed: {-size}..{size - 1}" if size else "the axis is empty"
        more = f"; {count} positions are out of bounds" if count > 1 else ""
        raise IndexOutOfBoundsError(
            f"{caller}: {name}{_where(at)} = {int(array[at])} is outside of {name}, which has "
            f"size {size} ({allowed}){more}",
            position=at,
            value=int(array[at]),
            size=size,
            count=count,
        )
    array = array.astype(np.int64, copy=False)
    return _like(indexer, np.where(array < 0, array + size, array))


def _like(indexer: Any, array: Any) -> Any:
    """Return `array` with the dimensions and coordinates of an indexer."""
    if isinstance(indexer, xarray.DataArray):
        return indexer.copy(deep=False, data=array)
    if isinstance(indexer, xarray.Variable):
        return xarray.Variable(indexer.dims, array)
    return array if array.ndim else int(array) if array >= 0 else array


def _without_coords(indexer: Any, dims: Iterable[Hashable]) -> Any:
    """Return an indexer without the coordinates that the selection replaces."""
    if not isinstance(indexer, xarray.DataArray):
        return indexer
    return indexer.drop_vars([name for name in indexer.coords if name in dims])


class PointwiseArray(indexing.ExplicitlyIndexedNDArrayMixin):
    """The array of a variable, from which `isel` of xarray gathers through this package."""

    __slots__ = ("_options", "array")

    def __init__(self, array: Any, options: Options) -> None:
        self.array, self._options = array, options

    def get_duck_array(self) -> Any:
        return np.asarray(self.array)

    def _vindex_get(self, indexer: Any) -> Any:
        key = tuple(k if isinstance(k, slice) else np.asarray(k, np.int64) for k in indexer.tuple)
        return arrays.take(self.array, key, self._options)

    def _oindex_get(self, indexer: Any) -> Any:
        kept = [k for k in indexer.tuple if isinstance(k, slice) or np.ndim(k)]
        lines = iter(np.ix_(*(np.asarray(k, np.int64) for k in kept if not isinstance(k, slice))))
        key = tuple(
            k if isinstance(k, slice) else next(lines) if np.ndim(k) else np.asarray(k, np.int64)
            for k in indexer.tuple
        )
        taken = arrays.take(self.array, key, self._options)
        axes = sorted(range(len(kept)), key=lambda axis: isinstance(kept[axis], slice))
        return taken.transpose(np.argsort(axes))  # in the result, axes of arrays come first

    __getitem__ = _oindex_get


def select(
    data: xarray.Dataset, positions: Mapping[Hashable, Any], options: Options
) -> xarray.Dataset:
    """Return what ``data.isel(positions)`` is; where a position is -1, every variable is NaN."""
    by_array = {name: np.asarray(p) for name, p in positions.items() if not isinstance(p, slice)}
    masked = {name for name, each in by_array.items() if (each < 0).any()}
    by_points = masked.union(name for name, each in by_array.items() if each.ndim)
    lost = [name for name in data.xindexes if masked.intersection(data.variables[name].dims)]
    bare = data.drop_indexes(lost)
    exchanged = {
        name: xarray.Variable(each.dims, _pointwise(name, each, options), each.attrs, each.encoding)
        for name, each in bare.variables.items()
        if by_points.intersection(each.dims) and name not in bare.xindexes and _is_ours(each)
    }
    coords = {name: exchanged.pop(name) for name in bare.coords if name in exchanged}
    stand_in = bare.assign_coords(xarray.Coordinates(coords, indexes={})).assign(exchanged)
    try:
        taken = stand_in.isel(positions)
    except (MemoryError, OSError, NdgatherError):
        raise
    except Exception as error:
        raise not_selectable(options.caller, positions, error) from error
    again = [name for name in lost if name in taken.coords and taken[name].dims == (name,)]
    for index in again:
        taken = taken.set_xindex([index])
    return taken


def _pointwise(name: Hashable, variable: xarray.Variable, options: Options) -> PointwiseArray:
    array: Any = variable._data
    if isinstance(array, indexing.PandasIndexingAdapter):
        array = variable.values
    chunks = arrays.chunks_of(variable)
    return PointwiseArray(array, replace(options, name=str(name), chunks=chunks))


def _is_ours(variable: xarray.Variable) -> bool:
    """Whether values are gathered here; arrays of other libraries index themselves."""
    array: Any = variable._data
    return type(array) is np.ndarray or isinstance(array, indexing.ExplicitlyIndexed)


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
        if name not in data.dims:
            raise unknown_name(caller, name, data.sizes)
        index = _pandas_index(data, name)
        axis: Any = pd.RangeIndex(data.sizes[name]) if index is None else index.index
        if not isinstance(axis, pd.Index) or isinstance(axis, pd.MultiIndex):
            raise other_index(caller, name, index)
        labels = _as_array(caller, name, indexer)
        if axis.dtype.kind == "M" and labels.dtype.kind in "OUS":
            labels = _cast(caller, name, labels, "M8[ns]", axis.dtype)
        pair = sorted_axis(caller, name, axis, labels.ravel(), request.period.get(name))
        if pair is None:
            raise DTypeError(
                f"{caller}: {name}.dtype = {labels.dtype} on an axis of {axis.dtype} labels cannot "
                f"be interpolated at (allowed: numbers on an axis of numbers, times on an axis of "
                f"times)"
            )
        if not len(axis):
            raise _no_labels(caller, name)
        variable = indexer.variable if isinstance(indexer, xarray.DataArray) else indexer
        if not isinstance(variable, xarray.Variable):
            attrs = data[name].attrs if name in data.coords else {}
            variable = xarray.Variable((name,) if labels.ndim else (), labels, attrs)
        lower, upper, share = pair[0].brackets(pair[1])
        shape = labels.shape
        return cls(variable, lower.reshape(shape), upper.reshape(shape), share.reshape(shape))


def interpolate(
    data: xarray.Dataset, labels: Mapping[Hashable, Any], request: Request, options: Options
) -> xarray.Dataset:
    """Return values interpolated between labels, as ``data.interp(labels)`` does."""
    check_names(request.caller, data, labels)
    axes = {name: _Neighbours.of(data, name, each, request) for name, each in labels.items()}
    rest = data.drop_vars([name for name in axes if name in data.variables])
    touched = {
        name: variable
        for name, variable in rest.variables.items()
        if not axes.keys().isdisjoint(variable.dims)
    }
    made = {}
    for name, variable in touched.items():
        along = {dim: axis for dim, axis in axes.items() if dim in variable.dims}
        one = xarray.Dataset({name: variable.to_base_variable()})
        if variable.dtype.kind in "uifcmM":
            made[name] = _interpolated(one, along, options)[name].variable
        elif all(axis.labels.dims == (dim,) for dim, axis in along.items()):
            nearest = {
                dim: xarray.Variable((dim,), np.where(axis.share < 0.5, axis.lower, axis.upper))
                for dim, axis in along.items()
            }
            made[name] = select(one, nearest, options)[name].variable
    coords = {name: each for name, each in made.items() if name in data.coords}
    result = rest.drop_vars(touched)
    result = result.assign({name: each for name, each in made.items() if name not in coords})
    result = result.assign_coords(coords | {name: axis.labels for name, axis in axes.items()})
    return result.assign_coords(
        {
            name: coord
            for each in labels.values()
            if isinstance(each, xarray.DataArray)
            for name, coord in _without_coords(each, labels).coords.items()
            if name not in result.variables
        }
    )


def _interpolated(
    data: xarray.Dataset, axes: Mapping[Hashable, _Neighbours], options: Options
) -> xarray.Dataset:
    """Return the weighted sums of the neighbours of points."""
    corners = np.array([*product((0, 1), repeat=len(axes))])
    weights = xarray.Variable((_CORNER,), np.ones(len(corners)))
    places = {}
    for axis, (dim, between) in enumerate(axes.items()):
        dims, upper = (_CORNER, *between.labels.dims), corners[:, axis]
        upper = upper.reshape(-1, *[1] * between.share.ndim)
        places[dim] = xarray.Variable(dims, np.where(upper, between.upper, between.lower))
        share = np.where(upper, between.share, 1 - between.share)
        weights = weights * xarray.Variable(dims, share)
    return select(data, places, options).map(
        lambda taken: _weighted(taken.variable, weights), keep_attrs=True
    )


def _weighted(taken: xarray.Variable, weights: xarray.Variable) -> xarray.Variable:
    values: Any = taken
    is_time = taken.dtype.kind in "mM"
    not_a_time = np.iinfo(np.int64).min
    if is_time:
        values = taken.astype(np.int64)
        values = values.where(values != not_a_time)
    total = (values * weights).sum(_CORNER, skipna=False)
    if is_time:
        rounded = total.fillna(0).round().astype(np.int64)
        total = rounded.where(~total.isnull(), not_a_time).astype(taken.dtype)
    return xarray.Variable(total.dims, total.data, taken.attrs)


def unknown_name(caller: str, name: Hashable, names: Iterable[Hashable]) -> CallError:
    known = [str(each) for each in names]
    return CallError(
        f"{caller}: {name} is not a dimension or coordinate of the array (allowed: "
        f"{listed(known)}){did_you_mean(name, known)}"
    )


def not_selectable(caller: str, names: Iterable[Hashable], error: Exception) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: {listed(map(str, names))} cannot be selected by: {reason(error)} (allowed: "
        f"what xarray selects by)"
    )


def other_index(caller: str, name: Hashable, index: object) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: {name} has a {type(index).__name__} (allowed with missing='nan', period and "
        f"method='linear': the index of one coordinate, PandasIndex)"
    )


def _no_labels(caller: str, name: Hashable) -> LabelError:
    return LabelError(
        f"{caller}: {name} has no labels, which a method could look up (allowed: a dimension with "
        f"a coordinate); write .isel for positions"
    )


def _not_an_array(caller: str, name: Hashable, indexer: object) -> DTypeError:
    return DTypeError(
        f"{caller}: {name} = {shown_value(indexer)} is not an array (allowed: labels or positions "
        f"in one array, or with their dimensions: ({name!r}, array))"
    )


def _missing(
    request: Request, name: Hashable, index: pd.Index[Any], labels: Any, found: Any
) -> LabelError:
    """Return the error of the first label that is not found, with the labels nearest to it."""
    bad = np.argwhere(found < 0)
    at = tuple(int(i) for i in bad[0])
    label, limit = labels[at], request.tolerance_of(name)
    near: list[Any] = []
    if isinstance(label, str):
        near = get_close_matches(label, map(str, index), 2)
    else:
        with suppress(Exception):  # labels without a distance may raise anything
            near = list(index[abs(index - label).argsort()[:2]])
    why = "not on the axis" if limit is None else f"further than {limit} from it"
    more = f"; {len(bad)} of {labels.size} labels are not found" if len(bad) > 1 else ""
    hint = "method='nearest' for the nearest label, or " if request.method is None else ""
    return LabelError(
        f"{request.caller}: {name}{_where(at)} = {label} is {why} (allowed: the {len(index)} "
        f"labels of {name}; nearest: {listed(map(str, near))}){more}; write {hint}missing='nan' "
        f"for NaN",
        position=at,
        count=len(bad),
    )


def _where(position: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, position))}]" if position else ""
