"""Values between the labels of axes, interpolated linearly from their neighbours."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import xarray
from numpy.typing import NDArray

from ndgather.arrays.xarray import arrays
from ndgather.arrays.xarray.arrays import Options
from ndgather.arrays.xarray.labels import NOT_A_TIME, sorted_axis
from ndgather.arrays.xarray.selection import (
    Request,
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

_MEMORY = 2**27  # that a call takes besides its result, by default
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
