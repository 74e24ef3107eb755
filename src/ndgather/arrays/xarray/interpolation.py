"""Values between the labels of axes, interpolated linearly from their neighbours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray

from ndgather.arrays.xarray.labels import sorted_axis
from ndgather.arrays.xarray.selection import (
    cast_labels,
    check_name,
    check_names,
    labels_of,
    no_labels,
    other_index,
    pandas_index,
    select,
    without_coords,
)
from ndgather.errors import DTypeError

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from numpy.typing import NDArray

    from ndgather.arrays.xarray.arrays import Options
    from ndgather.arrays.xarray.selection import Request

_VARIABLE = "<variable>"  # a name for it in a Dataset
_CORNER = "<corner>"  # the dimension of the neighbours of a point


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
        labels = labels_of(caller, name, indexer, axis.dtype)
        if axis.dtype.kind == "M" and labels.dtype.kind in "OUS":
            labels = cast_labels(caller, name, labels, "M8[ns]", axis.dtype)
        pair = sorted_axis(caller, name, axis, labels.ravel(), request.period.get(name))
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
        lower, upper, share = pair[0].brackets(pair[1])
        shape = labels.shape
        return cls(variable, lower.reshape(shape), upper.reshape(shape), share.reshape(shape))


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
    taken: Any = _selected(variable, positions, options)
    if variable.dtype.kind not in "mM":
        total = (taken * weights).sum(_CORNER, skipna=False)
    else:
        not_a_time = np.iinfo(np.int64).min
        times = taken.astype(np.int64)
        total = (times.where(times != not_a_time) * weights).sum(_CORNER, skipna=False)
        rounded = total.fillna(0).round().astype(np.int64)
        total = rounded.where(~total.isnull(), not_a_time).astype(variable.dtype)
    return xarray.Variable(total.dims, total.data, variable.attrs)
