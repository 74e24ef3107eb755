"""The cases of the benchmark, listed in ``cases.csv``.

A row has the shapes of data and indices, including the tuple length, and the fields of `Case` that
differ from their defaults.
"""

from __future__ import annotations

import csv
from dataclasses import fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .case import Case

if TYPE_CHECKING:
    from collections.abc import Sequence


def _case(row: dict[str, str]) -> Case:
    types: dict[str, Any] = {field.name: type(field.default) for field in fields(Case)}
    options = (option.split("=") for option in row["options"].split(";") if option)
    named: dict[str, Any] = {name: types[name](value) for name, value in options}
    for name in ("name", "why", "group", "operator"):
        named[name] = row[name]
    data, indices = (tuple(map(int, row[name].split())) for name in ("data", "indices"))
    return Case(data_shape=data, index_shape=indices, **named)


with Path(__file__).with_name("cases.csv").open(newline="", encoding="utf-8") as _file:
    CASES = tuple(_case(row) for row in csv.DictReader(_file))


def select(names: Sequence[str] = ("*",), groups: Sequence[str] = ("*",)) -> tuple[Case, ...]:
    """Return the cases whose name and group match a glob, in the order of the table."""
    return tuple(
        case
        for case in CASES
        if any(fnmatchcase(case.name, glob) for glob in names)
        and any(fnmatchcase(case.group, glob) for glob in groups)
    )
