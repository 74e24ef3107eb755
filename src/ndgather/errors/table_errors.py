"""Errors of tables of points and of the data sets that they select from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import FileError
from ndgather.errors.similar_names import did_you_mean
from ndgather.errors.texts import listed, one_line, reason

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable


def no_label_columns(
    path: object, columns: Iterable[object], labels: Iterable[object]
) -> FileError:
    return FileError(
        f"{path}: has the columns {_names(columns)}, none of which is named as labels of the data "
        f"(allowed: {_names(labels)})"
    )


def column_of_variable(path: object, name: Hashable) -> FileError:
    return FileError(
        f"{path}: has a column {one_line(str(name))}, as the variable is called that is selected "
        f"(allowed: columns of other names)"
    )


def no_times(path: object, name: Hashable, error: BaseException) -> FileError:
    return FileError(
        f"{path}: column {one_line(str(name))} holds no times: {one_line(reason(error))} "
        f"(allowed: times such as 2010-07-14T06:30)"
    )


def no_variable(place: object, name: str, names: Collection[object]) -> FileError:
    return FileError(
        f"{place}: has no variable {name!r} (allowed: {_names(names)}){did_you_mean(name, names)}"
    )


def _names(names: Iterable[object]) -> str:
    return one_line(listed(map(str, names)))
