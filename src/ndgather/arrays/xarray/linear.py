"""Linear interpolation between labels: a gather of neighbours, and their weighted sum.

What xarray's `interp` gives, and where that is NaN: interpolation along several dimensions at once
is that of `scipy.interpolate.interpn` where their labels share a dimension; along one dimension it
is that of `interp1d`, and that of `numpy.interp` for a variable of this dimension alone. They
differ in which neighbours of a label of the axis itself count, if only by turning a NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray

from ndgather import slow_path
from ndgather.array_call import Call
from ndgather.arrays.xarray import arrays, selection
from ndgather.arrays.xarray.labels import axis_of_numbers
from ndgather.arrays.xarray.selection import check_names, label_array, pandas_index, without_coords
from ndgather.errors import label_errors, selection_errors

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from numpy.typing import NDArray

    from ndgather.arrays.xarray.arrays import Options
    from ndgather.arrays.xarray.labels import SortedLabels
    from ndgather.arrays.xarray.selection import Request


_CORNER = "<corner>"  # the dimension of the neighbours of a point


@dataclass(frozen=True, slots=True)
class Axis:
    """A dimension to interpolate along, and the labels to interpolate at."""

    labels: xarray.Variable
    numbers: NDArray[Any]  # of the labels, as they are compared
    of_axis: SortedLabels
    is_plain: bool  # its labels are int64 or float64, as numpy.interp takes them


def interpolate(
    data: xarray.Dataset, labels: Mapping[Hashable, Any], request: Request, options: Options
) -> xarray.Dataset:
    """Return what ``data.interp(labels)`` is, with labels modulo their periods.

    Raises
    ------
    NdgatherError
        A name is unknown, or labels are no numbers or times.
    """
    check_names(request.caller, data, labels)
    axes = {name: _axis(data, name, each, request) for name, each in labels.items()}
    rest = data.drop_vars([name for name in axes if name in data.variables])
    alike: dict[tuple[tuple[Hashable, str], ...], dict[Hashable, xarray.Variable]] = {}
    for name, each in rest.variables.items():
        if not axes.keys().isdisjoint(each.dims):
            alike.setdefault(_rules(each, axes), {})[name] = each.to_base_variable()
    touched = [name for variables in alike.values() for name in variables]
    made: dict[Hashable, xarray.Variable] = {}
    for rules, variables in alike.items():
        made |= _of_alike(variables, axes, dict(rules), options)
    result = rest.drop_vars(touched)
    coords = {name: each for name, each in made.items() if name in data.coords}
    result = result.assign({name: each for name, each in made.items() if name not in coords})
    result = result.assign_coords(coords | {name: each.labels for name, each in axes.items()})
    return result.assign_coords(_coords_of(labels, result))


def _axis(data: xarray.Dataset, name: Hashable, given: Any, request: Request) -> Axis:
    if name not in data.dims:
        raise selection_errors.unknown_name(request.caller, name, data.sizes)
    index = pandas_index(data, name)
    along = pd.RangeIndex(data.sizes[name]) if index is None else index.index
    if not isinstance(along, pd.Index) or isinstance(along, pd.MultiIndex):
        raise label_errors.index_without_options(request.caller, name, index)
    labels = label_array(request.caller, name, given, None)
    if along.dtype.kind == "M" and labels.dtype.kind in "OUS":
        labels = _dates(request.caller, name, along.dtype, labels)
    numbers, of_axis = axis_of_numbers(
        request.caller, name, along, labels.ravel(), request.of(name)["period"]
    )
    variable = given.variable if isinstance(given, xarray.DataArray) else given
    if not isinstance(variable, xarray.Variable):
        attrs = data[name].attrs if name in data.coords else {}
        variable = xarray.Variable((name,) if labels.ndim else (), labels, attrs)
    plain = along.dtype in (np.float64, np.int64) or along.dtype.kind in "mM"
    return Axis(variable, numbers, of_axis, plain)


def _dates(caller: str, name: Hashable, dtype: Any, labels: NDArray[Any]) -> NDArray[Any]:
    try:
        return labels.astype("M8[ns]")
    except (TypeError, ValueError) as error:
        raise label_errors.not_comparable(caller, name, dtype, labels.dtype, error) from error


def _rules(
    variable: xarray.Variable, axes: Mapping[Hashable, Axis]
) -> tuple[tuple[Hashable, str], ...]:
    """Return by which rule a variable is interpolated along each of its dimensions."""
    if variable.dtype.kind not in "uifcmM":
        return tuple((name, "nearest") for name in axes if name in variable.dims)
    rules: list[tuple[Hashable, str]] = []
    left = list(variable.dims)
    for together in _groups([name for name in axes if name in variable.dims], axes):
        new = list(dict.fromkeys(d for name in together for d in axes[name].labels.dims))
        others = [dim for dim in left if dim not in together and dim not in new]
        if len(together) > 1:
            rule = "right"
        else:
            wide = variable.dtype.kind != "c" and variable.dtype.name not in ("float16", "float32")
            is_interp = not others and axes[together[0]].is_plain and (wide or bool(rules))
            rule = "exact" if is_interp and variable.dtype.kind != "c" else "left"
        rules += [(name, rule) for name in together]
        left = others + new
    return tuple(rules)


def _groups(names: list[Hashable], axes: Mapping[Hashable, Axis]) -> Iterable[list[Hashable]]:
    """Yield the dimensions that are interpolated along together: those whose labels share one.

    A group ends where no dimension of its labels comes again.
    """
    dims = {name: set(axes[name].labels.dims) or {name} for name in names}
    group: list[Hashable] = []
    for at, name in enumerate(names):
        group.append(name)
        own = set().union(*(dims[each] for each in group))
        later = set().union(*(dims[each] for each in names[at + 1 :]))
        if own.isdisjoint(later):
            yield group
            group = []


def _of_alike(
    variables: dict[Hashable, xarray.Variable],
    axes: Mapping[Hashable, Axis],
    rules: Mapping[Hashable, str],
    options: Options,
) -> dict[Hashable, xarray.Variable]:
    """Return variables that are interpolated along the same dimensions, by the same rules."""
    if "nearest" in rules.values():
        if any(axes[name].labels.dims != (name,) for name in rules):
            return {}  # as by `interp`: values that are no numbers are reindexed, or left out
        places = {
            name: xarray.Variable((name,), each.of_axis.positions(each.numbers, "nearest", None))
            for name, each in axes.items()
            if name in rules
        }
        return dict(selection.select(xarray.Dataset(variables), places, options).variables)
    corners = list(product((0, 1), repeat=len(rules)))
    weights = xarray.Variable((_CORNER,), np.ones(len(corners)))
    places = {}
    for at, (name, rule) in enumerate(rules.items()):
        axis = axes[name]
        lower, upper, between = axis.of_axis.brackets(axis.numbers, rule)
        chosen = [corner[at] for corner in corners]
        dims, shape = (_CORNER, *axis.labels.dims), (len(corners), *axis.labels.shape)
        neighbours, shares = (lower, upper), (1 - between, between)
        places[name] = xarray.Variable(
            dims, np.stack([neighbours[each] for each in chosen]).reshape(shape)
        )
        share = np.stack([shares[each] for each in chosen]).reshape(shape)
        weights = weights * xarray.Variable(dims, share)
    taken = selection.select(xarray.Dataset(variables), places, options)
    return {name: _weighted(each, weights) for name, each in taken.variables.items()}


def _weighted(taken: xarray.Variable, weights: xarray.Variable) -> xarray.Variable:
    values: Any = taken
    not_a_time = np.iinfo(np.int64).min
    if taken.dtype.kind in "mM":
        values = taken.astype(np.int64)
        values = values.where(values != not_a_time)
    total = (values * weights).sum(_CORNER, skipna=False)
    if taken.dtype.kind in "mM":
        rounded = total.fillna(0).round().astype(np.int64)
        total = rounded.where(~total.isnull(), not_a_time).astype(taken.dtype)
    return xarray.Variable(total.dims, total.data, taken.attrs)


def _coords_of(labels: Mapping[Hashable, Any], result: xarray.Dataset) -> dict[Hashable, Any]:
    """Return the coordinates that come with labels and stand in no other's way."""
    return {
        name: coord
        for each in labels.values()
        if isinstance(each, xarray.DataArray)
        for name, coord in without_coords(each, labels).coords.items()
        if name not in result.variables
    }


@dataclass(frozen=True, slots=True)
class Points:
    """Where points stand on some dimensions of an array, and the dimensions that others keep."""

    front: tuple[Hashable, ...]  # of the array: those that points stand on
    behind: tuple[Hashable, ...]  # the others
    places: tuple[xarray.Variable, ...]  # on the dimensions of `front`, all of one shape
    order: tuple[Hashable, ...]  # of the dimensions of a selection

    @classmethod
    def of(cls, caller: str, array: xarray.DataArray, places: Mapping[Hashable, Any]) -> Points:
        named = {dim: _variable(caller, dim, each) for dim, each in places.items()}
        theirs = {dim for each in named.values() for dim in each.dims}
        for dim in array.dims:
            if dim in theirs and dim not in named:  # points move along a dimension that is kept
                named[dim] = xarray.Variable((dim,), np.arange(array.sizes[dim]))
        front = tuple(dim for dim in array.dims if dim in named)
        try:
            alike = xarray.broadcast(*(xarray.DataArray(named[dim]) for dim in front))
        except ValueError as error:
            raise selection_errors.not_selectable(caller, places, error) from error
        order: dict[Hashable, None] = {}
        for dim in array.dims:
            order.update(dict.fromkeys(named[dim].dims if dim in named else (dim,)))
        behind = tuple(dim for dim in array.dims if dim not in named)
        return cls(front, behind, tuple(each.variable for each in alike), tuple(order))

    def updates(self, caller: str, array: xarray.DataArray, values: Any) -> xarray.Variable:
        """Return `values` for each point: its dimensions first, and then those that are kept."""
        sizes = {dim: array.sizes[dim] for dim in self.behind}
        for each in self.places:
            sizes |= dict(each.sizes)
        if isinstance(values, xarray.DataArray):
            values = values.variable
        if not isinstance(values, xarray.Variable):
            plain = slow_path.plain_array(caller, "values", values)
            if not isinstance(values, np.ndarray) and plain.dtype.kind in "bui":
                plain = plain.astype(array.dtype)  # numbers and lists, as scatter_nd takes them
            if plain.ndim not in (0, len(self.order)):
                raise selection_errors.values_rank(caller, plain.shape, self.order)
            values = xarray.Variable(self.order if plain.ndim else (), plain)
        stray = {dim: size for dim, size in values.sizes.items() if sizes.get(dim) != size}
        if stray:
            raise selection_errors.values_dims(caller, values.sizes, sizes)
        lead = self.places[0].dims if self.places else ()
        wanted = {dim: sizes[dim] for dim in (*lead, *self.behind)}
        made: xarray.Variable = values.set_dims(wanted).transpose(*wanted)
        return made


def add_at(
    caller: str,
    array: xarray.DataArray,
    values: Any,
    places: Mapping[Hashable, Any],
) -> xarray.DataArray:
    """Return `array` with `values` added at positions along dimensions; those of -1 are left out.

    Raises
    ------
    NdgatherError
        The dimensions or the type of `values` are not those of a selection.
    """
    points = Points.of(caller, array, places)
    updates = points.updates(caller, array, values)
    indices = arrays.tuples([np.asarray(each.data) for each in points.places])
    indices[(indices < 0).any(-1)] = np.iinfo(np.int64).max
    moved = array.variable.transpose(*points.front, *points.behind)
    call = Call(
        caller,
        "scatter_nd",
        moved.data,
        indices,
        updates.data,
        reduction="add",
        mode="drop",
        updates_name="values",
    )
    total = xarray.Variable(moved.dims, slow_path.run(call))
    return array.copy(deep=False, data=total.transpose(*array.dims).data)


def _variable(caller: str, dim: Hashable, places: Any) -> xarray.Variable:
    if isinstance(places, slice) or np.asarray(places).dtype.kind == "b":
        raise selection_errors.no_points(caller, dim)
    if isinstance(places, xarray.DataArray):
        return places.variable
    if isinstance(places, xarray.Variable):
        return places
    return xarray.Variable((dim,) * np.ndim(places), places)
