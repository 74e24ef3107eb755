"""A selection by positions, carried out by xarray with the arrays of variables exchanged.

xarray says what dimensions, coordinates, names and attributes the result has; where it indexes
the array of a variable, it indexes one of ours, which gathers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray
from xarray.core import indexing

from ndgather.arrays.xarray import keys, lazy_arrays, readers
from ndgather.errors import NdgatherError, selection_errors

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from ndgather.arrays.xarray.lazy_arrays import Options


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
        return lazy_arrays.take(self._array, entries, self._options)

    def _by_axes(self, key: tuple[Any, ...]) -> Any:
        taken = lazy_arrays.take(self._array, keys.of_outer(key), self._options)
        return taken.transpose(keys.outer_order(key))


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
    chunks = readers.chunks_of(variable)
    return PointwiseArray(_array_of(variable), replace(options, name=str(name), chunks=chunks))


def _array_of(variable: xarray.Variable) -> Any:
    """Return what stands behind a variable, without reading it."""
    array: Any = variable._data
    return variable.values if isinstance(array, indexing.PandasIndexingAdapter) else array


def _is_ours(variable: xarray.Variable) -> bool:
    """Whether values are gathered here; arrays of other libraries index themselves."""
    array: Any = variable._data
    return type(array) is np.ndarray or isinstance(array, indexing.ExplicitlyIndexed)
