"""Errors of what a selection is made by, and of arrays with named axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgather.errors import (
    AttributeValueError,
    CallError,
    DTypeError,
    IndexOutOfBoundsError,
    ShapeError,
)
from ndgather.errors.shown_values import shown_value
from ndgather.errors.similar_names import did_you_mean
from ndgather.errors.texts import listed, reason

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence


def unknown_name(caller: str, name: Hashable, names: Iterable[Hashable]) -> CallError:
    known = [str(each) for each in names]
    return CallError(
        f"{caller}: {name} is no dimension or coordinate of the array (allowed: "
        f"{listed(known)}){did_you_mean(name, known)}"
    )


def coordinate_rank(caller: str, name: Hashable, dims: Sequence[Hashable]) -> ShapeError:
    return ShapeError(
        f"{caller}: coordinate {name} has the dimensions ({listed(map(str, dims))}) (allowed: a "
        f"coordinate of one dimension)"
    )


def same_dimension(caller: str, name: Hashable, dim: Hashable) -> CallError:
    return CallError(
        f"{caller}: {name} selects along {dim}, which is selected along already (allowed: one "
        f"argument for each dimension)"
    )


def not_selectable(
    caller: str, given: Iterable[Hashable], error: BaseException
) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: {listed(map(str, given))} cannot be selected by: {reason(error)} (allowed: "
        f"what xarray selects by)"
    )


def unnamed_axes(caller: str, name: Hashable, shape: tuple[int, ...]) -> ShapeError:
    return ShapeError(
        f"{caller}: {name} is an array of shape {shape}, whose axes have no names (allowed: one "
        f"axis); write xarray.DataArray({name}, dims=[...])"
    )


def position_dtype(caller: str, name: Hashable, dtype: object) -> DTypeError:
    return DTypeError(
        f"{caller}: {name}.dtype = {dtype} is no integer type (allowed: positions; labels are "
        f"looked up by sel)"
    )


def position_outside(
    caller: str, name: Hashable, position: tuple[int, ...], value: int, size: int, count: int
) -> IndexOutOfBoundsError:
    where = f"[{', '.join(map(str, position))}]" if position else ""
    allowed = f"allowed: {-size}..{size - 1}" if size else "the axis is empty"
    others = f"; {count} positions are out of bounds" if count > 1 else ""
    return IndexOutOfBoundsError(
        f"{caller}: {name}{where} = {value} is outside of {name}, which has size {size} "
        f"({allowed}){others}",
        position=position,
        value=value,
        size=size,
        count=count,
    )


def not_a_dict(caller: str, argument: str, given: object) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument} = {shown_value(given)} is no dict (allowed: a dict by the names of "
        f"dimensions and coordinates)"
    )


def no_array_of_labels(caller: str, name: Hashable, given: object) -> DTypeError:
    return DTypeError(
        f"{caller}: {name} = {shown_value(given)} is no array (allowed: labels or positions in "
        f"one array, or with the dimensions that they have: ({name!r}, array))"
    )


def given_twice(caller: str, name: Hashable) -> CallError:
    return CallError(f"{caller}: {name} is given by indexers and by name (allowed: one of them)")


def no_array(caller: str, argument: str, value: Any) -> DTypeError:
    names = [str(name) for name in getattr(value, "data_vars", ())]
    which = f", such as {argument}[{names[0]!r}]" if names else ""
    return DTypeError(
        f"{caller}: {argument} = {type(value).__name__} is no array (allowed: a DataArray{which}); "
        f".ndgather.isel selects from all variables of a Dataset"
    )


def out_with_names(caller: str) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: out is given in a call with xarray arrays (allowed: None, or arrays without "
        f"names: data.data and out.data)"
    )


def dimension_twice(caller: str, dim: Hashable) -> ShapeError:
    return ShapeError(
        f"{caller}: indices.dims has {dim}, which is a dimension that the result keeps of data "
        f"(allowed: other names); write indices.rename({dim}=...)"
    )


def no_points(caller: str, name: Hashable) -> DTypeError:
    return DTypeError(
        f"{caller}: {name} is a slice or a mask (allowed: labels); leave a dimension out to add "
        f"along all of it"
    )


def values_dims(
    caller: str, given: Mapping[Hashable, int], sizes: Mapping[Hashable, int]
) -> ShapeError:
    return ShapeError(
        f"{caller}: values.sizes = {shown_value(dict(given))} are not those of the points "
        f"(allowed: some of {shown_value(dict(sizes))})"
    )


def values_rank(caller: str, shape: tuple[int, ...], dims: Sequence[Hashable]) -> ShapeError:
    return ShapeError(
        f"{caller}: values is an array of shape {shape} (allowed: a number, or the dimensions "
        f"({listed(map(str, dims))})); write xarray.DataArray(values, dims=[...]) for some of them"
    )
