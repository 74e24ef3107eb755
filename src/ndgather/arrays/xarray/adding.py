"""The reverse of a selection by labels: values added where labels stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from ndgather import fallback, plain_arrays
from ndgather.array_call import Call
from ndgather.arrays.xarray import lazy_arrays
from ndgather.errors import selection_errors

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping


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
            plain = plain_arrays.plain_array(caller, "values", values)
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
    indices = lazy_arrays.tuples([np.asarray(each.data) for each in points.places])
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
    total = xarray.Variable(moved.dims, fallback.run(call))
    return array.copy(deep=False, data=total.transpose(*array.dims).data)


def _variable(caller: str, dim: Hashable, places: Any) -> xarray.Variable:
    if isinstance(places, slice) or np.asarray(places).dtype.kind == "b":
        raise selection_errors.no_points(caller, dim)
    if isinstance(places, xarray.DataArray):
        return places.variable
    if isinstance(places, xarray.Variable):
        return places
    return xarray.Variable((dim,) * np.ndim(places), places)
