"""Errors of labels and of the axes that they name places on."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from ndgather.errors import AttributeValueError, DTypeError, LabelError, ShapeError
from ndgather.errors.shown_values import shown_value
from ndgather.errors.texts import listed, reason

if TYPE_CHECKING:
    from collections.abc import Hashable


def label_missing(
    caller: str,
    name: Hashable,
    position: tuple[int, ...],
    label: Any,
    index: Any,
    why: str,
    count: int,
    total: int,
    method: str | None,
) -> LabelError:
    where = f"[{', '.join(map(str, position))}]" if position else ""
    near = listed(map(str, _nearest(index, label)))
    others = f"; {count} of {total} labels are not found" if count > 1 else ""
    hint = "method='nearest' for the nearest label, or " if method is None else ""
    return LabelError(
        f"{caller}: {name}{where} = {label} is {why} (allowed: the {len(index)} labels of {name}; "
        f"nearest: {near}){others}; write {hint}missing='nan' for NaN",
        position=position,
        count=count,
    )


def _nearest(index: Any, label: Any) -> list[Any]:
    """Return the labels of an axis that one that is not there may stand for, two at most."""
    if isinstance(label, str):
        close: list[Any] = get_close_matches(label, map(str, index), 2)
        return close
    try:
        distances = abs(index - label)
        return list(index[distances.argsort()[:2]])
    except Exception:  # whatever labels answer that have no distance
        return []


def repeated_labels(caller: str, name: Hashable, index: Any) -> LabelError:
    first = index[index.duplicated()][0]
    return LabelError(
        f"{caller}: {name} = {first} stands more than once on its axis (allowed: labels that "
        f"differ); write .drop_duplicates({name!r}) first"
    )


def unsorted_labels(caller: str, name: Hashable, method: str) -> LabelError:
    return LabelError(
        f"{caller}: labels of {name} are unsorted or NaN, where method={method!r} needs an order "
        f"(allowed: labels that rise or fall); write .sortby({name!r}) first"
    )


def not_comparable(
    caller: str, name: Hashable, axis: object, labels: object, error: BaseException
) -> DTypeError:
    return DTypeError(
        f"{caller}: {name}.dtype = {labels} cannot be looked up on an axis of {axis} labels: "
        f"{reason(error)} (allowed: labels of that type)"
    )


def tolerance_value(caller: str, name: Hashable, tolerance: object, dtype: Any) -> DTypeError:
    what = "a duration" if dtype.kind in "mM" else "a number"
    return DTypeError(
        f"{caller}: tolerance = {shown_value(tolerance)} is no distance between labels of {name} "
        f"(allowed: {what}; where axes differ, a dict of name and tolerance)"
    )


def tolerance_size(caller: str, name: Hashable, size: int, labels: int) -> ShapeError:
    return ShapeError(
        f"{caller}: tolerance has {size} entries for {labels} labels of {name} (allowed: one for "
        f"all, or one for each)"
    )


def not_periodic(caller: str, name: Hashable, dtype: object) -> DTypeError:
    return DTypeError(
        f"{caller}: period[{name!r}] is given for {dtype} labels (allowed: numbers and times)"
    )


def period_value(caller: str, name: Hashable, period: object, dtype: Any) -> AttributeValueError:
    what = "a duration" if dtype.kind in "mM" else "a number above 0, such as 360"
    return AttributeValueError(
        f"{caller}: period[{name!r}] = {shown_value(period)} is no period (allowed: {what})"
    )


def period_too_short(
    caller: str, name: Hashable, first: object, last: object, period: object
) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: period[{name!r}] = {period} is shorter than the axis, whose labels are "
        f"{first}..{last} (allowed: {name}.max() - {name}.min() or more)"
    )


def no_labels(caller: str, name: Hashable) -> LabelError:
    return LabelError(
        f"{caller}: {name} has no labels, which a method could look up (allowed: a dimension with "
        f"a coordinate); write .isel for positions"
    )


def index_without_options(caller: str, name: Hashable, index: object) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: {name} has a {type(index).__name__} (allowed with missing='nan', period and "
        f"method='linear': the index of one coordinate, PandasIndex)"
    )


def not_interpolated(caller: str, name: Hashable, axis: object, labels: object) -> DTypeError:
    return DTypeError(
        f"{caller}: {name}.dtype = {labels} on an axis of {axis} labels cannot be interpolated at "
        f"(allowed: numbers on an axis of numbers, times on an axis of times)"
    )


def values_not_interpolated(caller: str, dtype: object) -> DTypeError:
    return DTypeError(
        f"{caller}: method = 'linear' has no meaning for values of {dtype} (allowed: numbers)"
    )


def tolerance_unused(caller: str) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: tolerance is given, but method = 'linear' looks for no nearest label (allowed: "
        f"None)"
    )
