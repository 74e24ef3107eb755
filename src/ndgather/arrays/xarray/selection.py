"""From what a caller selects by to positions along dimensions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import xarray
from xarray.core import indexing
from xarray.indexes import PandasIndex

from ndgather import array_call
from ndgather.array_call import Call
from ndgather.arrays.xarray import arrays
from ndgather.arrays.xarray.arrays import Options
from ndgather.arrays.xarray.labels import look_up
from ndgather.errors import NdgatherError, label_errors, option_errors, selection_errors

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from numpy.typing import NDArray


METHODS = ("nearest", "pad", "backfill", "linear")
_OTHER_NAMES = {"ffill": "pad", "bfill": "backfill"}  # that xarray and pandas have too


def one_dict(
    caller: str, first: Mapping[Hashable, Any] | None, second: dict[str, Any]
) -> dict[Hashable, Any]:
    """Return what is selected by, whether given by one dict or by name."""
    if first is not None and not hasattr(first, "items"):
        raise selection_errors.not_a_dict(caller, "indexers", first)
    both = next((name for name in first or () if name in second), None)
    if both is not None:
        raise selection_errors.given_twice(caller, both)
    return {name: _named(each) for name, each in (dict(first or {}) | second).items()}


def _named(given: Any) -> Any:
    """Return dimensions and data in a tuple as the variable that xarray makes of them."""
    if not isinstance(given, tuple) or len(given) < 2:
        return given
    try:
        return xarray.Variable(*given)
    except (TypeError, ValueError):
        return given  # a label of several levels


def as_array(caller: str, name: Hashable, given: Any) -> NDArray[Any]:
    """Return labels or positions as an array; one of several axes has to name them."""
    try:
        array = given.to_numpy() if isinstance(given, pd.Index) else np.asarray(given)
    except (TypeError, ValueError) as error:
        raise selection_errors.no_array_of_labels(caller, name, given) from error
    if array.ndim > 1 and not isinstance(given, xarray.DataArray | xarray.Variable):
        raise selection_errors.unnamed_axes(caller, name, array.shape)
    return array


def method(caller: str, given: Any, allowed: tuple[str, ...] = METHODS) -> str | None:
    """Return the name of a method of looking up labels; None for labels as they are."""
    if given is None:
        return None
    name = _OTHER_NAMES.get(given, given) if isinstance(given, str) else given
    return choice(caller, "method", name, allowed)


def choice(caller: str, option: str, value: Any, allowed: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise option_errors.unknown_choice(caller, option, value, allowed)
    return value


def periods(caller: str, given: Any) -> Mapping[Hashable, Any]:
    """Return the periods of axes by name."""
    if given is not None and not hasattr(given, "items"):
        raise selection_errors.not_a_dict(caller, "period", given)
    return given or {}


def options(caller: str, memory: Any, progress: Any, executor: Any) -> Options:
    """Return the options of calls on stored arrays."""
    call = Call(caller, "gather_nd", None, None)
    call = array_call.checked(replace(call, memory=memory, progress=progress, executor=executor))
    return Options(caller, call.memory, call.progress, call.executor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """How labels are looked up."""

    caller: str
    method: str | None = None
    tolerance: Any = None
    missing: str = "raise"
    period: Mapping[Hashable, Any] = field(default_factory=dict)

    def of(self, name: Hashable) -> dict[str, Any]:
        """Return the options of `look_up` for one name."""
        tolerance = self.tolerance
        if isinstance(tolerance, dict):
            tolerance = tolerance.get(name)
        return {
            "method": self.method,
            "tolerance": tolerance,
            "period": self.period.get(name),
        }


def positions(
    data: xarray.Dataset, labels: Mapping[Hashable, Any], request: Request
) -> tuple[xarray.Dataset, dict[Hashable, Any]]:
    """Return what ``isel`` has to be called on and with, to select by these labels.

    A position of -1 stands for a label that is not found. Labels of an index that is not one of
    pandas, or that has several levels, are selected by xarray.

    Raises
    ------
    NdgatherError
        A name is unknown, labels are not found, or they cannot be looked up.
    """
    check_names(request.caller, data, labels)
    check_names(request.caller, data, request.period)
    if isinstance(request.tolerance, dict):
        check_names(request.caller, data, request.tolerance)
    left_to_xarray = {
        name: each for name, each in labels.items() if _is_of_another_index(data, name)
    }
    if left_to_xarray:
        data = _by_xarray(data, left_to_xarray, request)
    found: dict[Hashable, Any] = {}
    for name, each in labels.items():
        if name not in left_to_xarray:
            dim, position = _of_one_axis(data, name, each, request)
            if dim in found:
                raise selection_errors.same_dimension(request.caller, name, dim)
            found[dim] = position
    return data, {dim: without_coords(each, found) for dim, each in found.items()}


def check_names(caller: str, data: xarray.Dataset, names: Mapping[Hashable, Any]) -> None:
    known = [*dict.fromkeys([*data.sizes, *data.xindexes, *data.coords])]
    for name in names:
        if name not in known:
            raise selection_errors.unknown_name(caller, name, known)
        if name not in data.sizes and data[name].ndim != 1:
            raise selection_errors.coordinate_rank(caller, name, data[name].dims)


def pandas_index(data: xarray.Dataset, name: Hashable) -> PandasIndex | None:
    """Return the index of the labels of `name`; None for a dimension without labels."""
    index = data.xindexes.get(name)
    if index is None and name in data.coords:
        return PandasIndex.from_variables({name: data[name].variable}, options={})
    return cast("PandasIndex | None", index)  # the others are left to xarray


def _is_of_another_index(data: xarray.Dataset, name: Hashable) -> bool:
    index = data.xindexes.get(name)
    return index is not None and type(index) is not PandasIndex


def _by_xarray(
    data: xarray.Dataset, labels: dict[Hashable, Any], request: Request
) -> xarray.Dataset:
    if request.period or request.missing != "raise":
        name = next(iter(labels))
        raise label_errors.index_without_options(request.caller, name, data.xindexes[name])
    try:
        return data.sel(labels, method=request.method, tolerance=request.tolerance)
    except (MemoryError, OSError, NdgatherError):
        raise
    except Exception as error:
        raise selection_errors.not_selectable(request.caller, labels, error) from error


def _of_one_axis(
    data: xarray.Dataset, name: Hashable, label: Any, request: Request
) -> tuple[Hashable, Any]:
    """Return the dimension that labels belong to, and their positions in it."""
    index = pandas_index(data, name)
    if index is None:
        if request.method is not None:
            raise label_errors.no_labels(request.caller, name)
        return name, checked_positions(request.caller, name, label, data.sizes[name])
    if isinstance(label, slice):
        return index.dim, _by_index(index, name, label, request)
    labels = label_array(request.caller, name, label, index.coord_dtype)
    if _is_scalar_of_many(label, labels, request, name):
        return index.dim, _by_index(index, name, label, request)
    if labels.dtype.kind == "b":
        return index.dim, like(label, labels)
    found = look_up(request.caller, name, index.index, labels, **request.of(name))
    if request.missing == "raise" and (found < 0).any():
        raise _missing(request, name, index.index, labels, found)
    return index.dim, like(label, found)


def _is_scalar_of_many(label: Any, labels: Any, request: Request, name: Hashable) -> bool:
    """Whether one label may mean a range: part of a date, or a label that repeats."""
    plain = request.method is None and request.missing == "raise" and name not in request.period
    return plain and labels.ndim == 0 and not isinstance(label, xarray.DataArray)


def _by_index(index: PandasIndex, name: Hashable, label: Any, request: Request) -> Any:
    try:
        return index.sel({name: label}).dim_indexers[index.dim]
    except KeyError as error:
        if isinstance(label, slice):
            raise selection_errors.not_selectable(request.caller, {name: label}, error) from error
        labels = np.asarray(label)
        raise _missing(request, name, index.index, labels, np.full((), -1)) from None
    except MemoryError:
        raise
    except Exception as error:
        raise selection_errors.not_selectable(request.caller, {name: label}, error) from error


def label_array(caller: str, name: Hashable, label: Any, dtype: Any) -> Any:
    """Return labels as an array, in the type of a coordinate of floats."""
    labels = as_array(caller, name, label)
    if isinstance(dtype, np.dtype) and dtype.kind == "f" and labels.dtype.kind != "b":
        try:
            return labels.astype(dtype, copy=False)
        except (TypeError, ValueError) as error:
            raise label_errors.not_comparable(caller, name, dtype, labels.dtype, error) from error
    return labels


def checked_positions(caller: str, name: Hashable, given: Any, size: int) -> Any:
    """Return positions counted from the front, in the form in which they are given.

    Raises
    ------
    IndexOutOfBoundsError
        A position is outside of the axis.
    DTypeError
        They are no integers.
    """
    if isinstance(given, slice):
        return given
    if isinstance(given, tuple):
        raise selection_errors.no_array_of_labels(caller, name, given)
    array = as_array(caller, name, given)
    if array.dtype.kind == "b":
        return given
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise selection_errors.position_dtype(caller, name, array.dtype)
    outside = (array < -size) | (array >= size)
    if outside.any():
        at = tuple(int(i) for i in np.argwhere(outside)[0])
        count = int(outside.sum())
        raise selection_errors.position_outside(caller, name, at, int(array[at]), size, count)
    array = array.astype(np.int64, copy=False)
    return like(given, np.where(array < 0, array + size, array))


def like(given: Any, array: Any) -> Any:
    """Return `array` with the dimensions and coordinates of what it stands for."""
    if isinstance(given, xarray.DataArray):
        return given.copy(deep=False, data=array)
    if isinstance(given, xarray.Variable):
        return xarray.Variable(given.dims, array)
    return array if array.ndim else int(array) if array >= 0 else array


def without_coords(position: Any, dims: Mapping[Hashable, Any]) -> Any:
    """Return positions without the coordinates that those of the selection take the place of."""
    if not isinstance(position, xarray.DataArray):
        return position
    return position.drop_vars([name for name in position.coords if name in dims])


def _missing(
    request: Request, name: Hashable, index: pd.Index[Any], labels: Any, found: Any
) -> NdgatherError:
    bad = np.argwhere(found < 0)
    at = tuple(int(i) for i in bad[0])
    label = labels[at]
    limit = request.of(name)["tolerance"]
    why = "not on the axis" if limit is None else f"further than {limit} from it"
    return label_errors.label_missing(
        request.caller, name, at, label, index, why, len(bad), labels.size, request.method
    )


class PointwiseArray(indexing.ExplicitlyIndexed):
    """Stands in a variable for its array, and gathers when it is indexed."""

    __slots__ = ("_array", "_options", "dtype", "shape")

    def __init__(self, array: Any, options: Options) -> None:
        self._array, self._options = array, options
        self.shape, self.dtype = array.shape, array.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=object))

    @property
    def vindex(self) -> _Indexed:
        return _Indexed(self._by_points)

    @property
    def oindex(self) -> _Indexed:
        return _Indexed(self._by_axes)

    def __getitem__(self, key: Any) -> Any:
        return self._by_axes(key.tuple)

    def get_duck_array(self) -> Any:
        return np.asarray(self._array)

    def _by_points(self, key: tuple[Any, ...]) -> Any:
        entries = tuple(k if isinstance(k, slice) else np.asarray(k, np.int64) for k in key)
        return arrays.take(self._array, entries, self._options)

    def _by_axes(self, key: tuple[Any, ...]) -> Any:
        taken = arrays.take(self._array, arrays.of_outer(key), self._options)
        return taken.transpose(arrays.outer_order(key))


class _Indexed:
    def __init__(self, take: Any) -> None:
        self._take = take

    def __getitem__(self, key: Any) -> Any:
        return self._take(key.tuple)


def select(
    data: xarray.Dataset, positions: Mapping[Hashable, Any], options: Options
) -> xarray.Dataset:
    """Return what ``data.isel(positions)`` is; where a position is -1, all variables are NaN.

    Raises
    ------
    ShapeError
        The positions do not fit each other.
    """
    arrays = {name: np.asarray(p) for name, p in positions.items() if not isinstance(p, slice)}
    masked = {name for name, each in arrays.items() if (each < 0).any()}
    by_points = masked.union(name for name, each in arrays.items() if each.ndim)
    lost = [name for name in data.xindexes if masked.intersection(data.variables[name].dims)]
    bare = data.drop_indexes(lost)
    exchanged = {
        name: xarray.Variable(each.dims, _pointwise(name, each, options), each.attrs, each.encoding)
        for name, each in bare.variables.items()
        if by_points.intersection(each.dims) and name not in bare.xindexes and _is_ours(each)
    }
    coords = {name: each for name, each in exchanged.items() if name in bare.coords}
    variables = {name: each for name, each in exchanged.items() if name not in bare.coords}
    stand_in = bare.assign_coords(xarray.Coordinates(coords, indexes={})).assign(variables)
    try:
        taken = stand_in.isel(positions)
    except (MemoryError, OSError, NdgatherError):
        raise
    except Exception as error:
        raise selection_errors.not_selectable(options.caller, positions, error) from error
    again: list[Hashable] = [
        name for name in lost if name in taken.coords and taken[name].dims == (name,)
    ]
    for name in again:
        taken = taken.set_xindex([name])
    return taken


def _pointwise(name: Hashable, variable: xarray.Variable, options: Options) -> PointwiseArray:
    chunks = arrays.chunks_of(variable)
    return PointwiseArray(_array_of(variable), replace(options, name=str(name), chunks=chunks))


def _array_of(variable: xarray.Variable) -> Any:
    """Return what stands behind a variable, without reading it."""
    array: Any = variable._data
    return variable.values if isinstance(array, indexing.PandasIndexingAdapter) else array


def _is_ours(variable: xarray.Variable) -> bool:
    """Whether values are gathered here; arrays of other libraries index themselves."""
    array: Any = variable._data
    return type(array) is np.ndarray or isinstance(array, indexing.ExplicitlyIndexed)
