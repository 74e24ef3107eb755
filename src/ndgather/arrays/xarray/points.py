"""Values of a data set in a file or a store at the points of a table in a file.

The columns of a table are texts as they are written, or have the types of Parquet. Only those that
select are converted, and what is written is what was read, with more columns behind.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray

from ndgather import messages
from ndgather.arrays.xarray import rasters, selection
from ndgather.arrays.xarray.arrays import storage_options
from ndgather.arrays.xarray.engine import ZARR_SUFFIX, zarr_store
from ndgather.arrays.xarray.labels import (
    NAMES,
    WHOLE,
    is_projected,
    kind_of,
    match_axes,
    objects,
    parse_date,
)
from ndgather.arrays.xarray.selection import Request
from ndgather.arrays.xarray.tables import Dialect, Table, read_table
from ndgather.errors import AttributeValueError, FileError, one_line
from ndgather.messages import (
    did_you_mean,
    listed,
    plural,
    quoted,
    reason,
    shown_value,
    similar,
)
from ndgather.stored.estimates import Estimate

_MISSING = frozenset(("", "NA", "NaN", "nan"))
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_INTEGER = re.compile(r"[+-]?\d{1,30}")
_POSITION = re.compile(r"\d{1,18}")
_ZONE = r"(?:Z|[+-]\d\d(?::?\d\d)?)"
_CLOCK = r"\d\d(?::?\d\d(?::?\d\d(?:[.,]\d+)?)?)?"
_ISO = re.compile(rf"\d{{4}}-?\d\d-?\d\d(?:[T ]{_CLOCK} ?{_ZONE}?)?|\d{{4}}-\d\d")
_ZONED = re.compile(rf".*[T ]\d\d.*{_ZONE}")
_EXAMPLE = "such as 2010-07-14T06:30"
_KEEP = "--keep COLUMN leaves a column alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """Which values of a data set are wanted, and how the table of points is read.

    Columns named as labels of the data set select; other columns are kept. `variables` are the
    names of variables, or none for every variable that the points select from. A variable with more
    dimensions has a row for every one of their labels.
    """

    place: str
    points: Path
    dialect: Dialect
    request: Request  # how labels are looked up
    memory: Any = None
    progress: Any = None
    variables: Sequence[str] = ()
    rename: Mapping[str, str] = field(default_factory=dict)  # from columns to coordinates
    keep: Sequence[str] = ()  # columns that select nothing
    outer: bool = False  # whether points may have many rows
    date_format: str | None = None
    add_labels: bool = False

    def values(self) -> Result:
        """Return the table of points with a column for every variable."""
        with self._opened() as (table, chosen, labels):
            request = labels.request
            options = storage_options("sel", self.memory, self.progress)
            result = selection.select_labels(
                chosen.copy(deep=False), labels.labels, request, options
            )
            plain = result.reset_coords(drop=True).drop_vars(labels.dim, errors="ignore")
            others = [name for name in plain.sizes if name != labels.dim]
            with messages.converted_errors(
                lambda error: self._error(f"gets no table: {reason(error)}")
            ):
                values = plain.to_dataframe(dim_order=[labels.dim, *others]).reset_index(others)
            rows = values.index.to_numpy(np.intp)
            values = values.reset_index(drop=True)
            added = labels.chosen(result, request.period) if self.add_labels else {}
            taken = [name for name in added if name in values]
            taken += [name for name in map(str, (*values, *added)) if name in table.names]
            if taken:
                raise self._error(
                    f"has a column {taken[0]}, or the data have, which is the name of what is "
                    f"added (allowed: other names)"
                )
            for name, each in added.items():
                values[name] = each[rows]
            for name, each in values.items():  # Parquet has no type for times of other calendars
                if each.dtype.kind == "O" and hasattr(next(iter(each.dropna()), None), "calendar"):
                    values[name] = each.map(str, na_action="ignore")
            return Result(table, rows, values, labels.of_table)

    def estimates(self) -> dict[str, Estimate]:
        """Return what `values` would read of every variable that is stored in chunks."""
        with self._opened() as (_, chosen, labels):
            request = labels.request
            estimates: dict[str, Estimate] = {}
            options = replace(storage_options("sel", self.memory), estimates=estimates)
            selection.select_labels(chosen.copy(deep=False), labels.labels, request, options)
            return estimates

    @contextmanager
    def _opened(self) -> Iterator[tuple[Table, xarray.Dataset, _Labels]]:
        """Open the data set; yield the points, the variables and the labels."""
        table = read_table(self.points, self.dialect)
        with opened(self.place) as data:
            dims_of = _dims_by_name(data)
            columns = self._selecting(table, data, dims_of)
            selected = dict.fromkeys([dim for name in columns for dim in dims_of[name]])
            chosen = data[self._variables(data, selected)]
            chosen = chosen.assign_coords({n: data[n] for n in columns if n in data.coords})
            chosen.encoding = data.encoding
            self._check_complete(table, chosen, columns, selected)
            dim = "point"
            while dim in chosen.sizes or dim in chosen.variables:
                dim += "_"
            names: dict[Hashable, Hashable] = dict(columns.items())
            labels = _Labels(chosen, self.request.prepare(chosen, names), dim)
            for name, column in columns.items():
                texts = _Texts(table.column(column), self)
                labels.add(name, texts)
            labels.find_pixels()
            yield table, chosen, labels

    def _error(self, text: str) -> FileError:
        return FileError(f"{self.points}: {one_line(text)}")

    def _selecting(
        self, table: Table, data: xarray.Dataset, dims_of: Mapping[Hashable, tuple[Hashable, ...]]
    ) -> dict[str, str]:
        """Return the columns that select, by the coordinates that they have the labels of."""
        known = [*map(str, dims_of)]
        free = [column for column in table.names if column not in self.keep]
        written = [self.rename.get(column, column) for column in free]
        written = [name if name in known else name.casefold() for name in written]
        axes = match_axes(data, written)
        for column in (*self.keep, *self.rename):
            name = self.rename.get(column)
            option = f"--keep {column}" if name is None else f"--rename {column}={name}"
            reverse = f"; write --rename {name}={column}" if name in table.names else None
            _check_known(option, "column", column, table.names, reverse)
            if name is not None:
                _check_known(option, "coordinate with labels", name, known)
        named = [
            (str(axes[name]), column)
            for column, name in zip(free, written, strict=True)
            if name in axes
        ]
        own = {*data.indexes, *data.sizes}  # other coordinates select where none of these does
        indexed = {dim for name, _ in named if name in own for dim in dims_of[name]}
        selecting: dict[str, str] = {}
        along: dict[Hashable, str] = {}
        for name, column in named:
            dims = dims_of[name]
            if dims and name not in own and {*dims} <= indexed:
                continue
            if len(dims) > 1:
                selection.check_names("sel", data, [name])
            dim = next(iter(dims), name)
            other = along.setdefault(dim, column)
            if other is not column or name in selecting:
                raise self._error(
                    f"has the columns {other}, {column}, which both select along {dim} (allowed: "
                    f"one of them; {_KEEP})"
                )
            selecting[name] = column
        if not along.keys() & data.sizes.keys():
            hint = _hint(free, data.indexes)
            degrees = {"latitude", "longitude"}.intersection(map(NAMES.get, written))
            if degrees and any(is_projected(data[name]) for name in data.indexes):
                hint = f"; {selection.reproject(data, in_metres=True)}"
            raise self._error(
                f"has the columns {_listed(free)}, none of which is named as labels of the data "
                f"(allowed: {_listed(data.indexes)}){hint}"
            )
        return selecting

    def _variables(self, data: xarray.Dataset, dims: Iterable[Hashable]) -> list[str]:
        """Return the variables that are asked for, or all that have the dimensions of points."""
        for name in self.variables:
            if name not in data.data_vars:
                raise FileError(
                    f"{self.place}: has no variable {name!r} (allowed: {_listed(data.data_vars)})"
                    f"{did_you_mean(name, data.data_vars)}"
                )
        names = [*self.variables] or [
            str(name) for name, array in data.data_vars.items() if {*dims} <= {*array.dims}
        ]
        missing = next((n for n in names if not {*dims} <= {*data[n].dims}), None)
        if missing is not None or not names:
            what = f"{missing} has not" if names else "no variable has"
            raise FileError(
                f"{self.place}: {what} all the dimensions {_listed(dims)} of the points (allowed: "
                f"columns for dimensions of one variable; {_KEEP})"
            )
        for name in names if self.request.is_linear else ():
            if data[name].dtype.kind not in "uifcmM":
                raise FileError(
                    f"{self.place}: {name} has values of {data[name].dtype}, between which nothing "
                    f"is interpolated (allowed: --variable NAME of numbers; --method nearest)"
                )
        return names

    def _check_complete(
        self,
        table: Table,
        chosen: xarray.Dataset,
        columns: dict[str, str],
        selected: Mapping[Hashable, Any],
    ) -> None:
        """Raise if a dimension of the variables has no column: points have a row per label."""
        others = [str(dim) for dim in chosen.sizes if dim not in selected]
        if not others:
            return
        free = [c for c in table.names if c not in (*columns.values(), *self.keep)]
        near = [column for column in free if _hint([column], others)]
        longer = [dim for dim in others if chosen.sizes[dim] > 1]
        if not (near or (longer and not self.outer)):
            return
        count = math.prod(chosen.sizes[dim] for dim in longer)
        keep = (
            f" with {' '.join(f'--keep {shlex.quote(column)}' for column in near)}" if near else ""
        )
        raise self._error(
            f"has no column {_listed(others)}, so that a point has {plural(count, 'row')} "
            f"(allowed: the columns {_listed(dict.fromkeys([*columns, *others]))}, or --outer for "
            f"a row per label of {_listed(longer)}{keep}){_hint(near, others)}"
        )


@dataclass(frozen=True, slots=True)
class Result:
    """The points of a table with values: what is written."""

    table: Table
    rows: Any  # of the table, for every row of the result
    values: pd.DataFrame
    labels: Mapping[str, Any]  # of the columns that select

    def write(self, part: Path, output: Path) -> None:
        typed = {name: labels for name, labels in self.labels.items() if labels.dtype.kind != "O"}
        self.table.write(part, output, self.rows, self.values, typed)

    @property
    def names(self) -> list[str]:
        return [*self.table.names, *map(str, self.values.columns)]


def check_date_format(form: str) -> None:
    """Raise AttributeValueError for a format of times that pandas does not read."""
    if "%" not in form:
        why = "it has no directive"
    else:
        try:
            pd.to_datetime(["?"], format=form, errors="coerce")
        except ValueError as error:
            why = reason(error)
        else:
            return
    raise AttributeValueError(
        f"ndgather sel: --date-format = {quoted(form)} is not a format of times: {why} (allowed: "
        f"directives of Python's strptime, such as %d/%m/%Y %H:%M)"
    )


def opened(place: str) -> xarray.Dataset:
    """Open a data set without reading its arrays."""
    is_zarr = "://" in place or Path(place).suffix == ZARR_SUFFIX or Path(place).is_dir()
    with messages.converted_errors(lambda error: _unreadable(place, error)):
        if not (is_zarr or Path(place).exists()):
            raise FileNotFoundError(2, os.strerror(2))
        if not is_zarr and Path(place).suffix.lower() in rasters.SUFFIXES:
            return rasters.opened(place)
        if not is_zarr:
            return xarray.open_dataset(place, chunks=None)
        with warnings.catch_warnings():  # xarray's, that it reads more files than it might
            warnings.filterwarnings("ignore", "Failed to open Zarr store", RuntimeWarning)
            return xarray.open_dataset(zarr_store(place), engine="zarr", chunks=None)


def _unreadable(place: str, error: Exception) -> FileError:
    """Return the error of a place that cannot be opened."""
    why = reason(error).partition(" Debug source:")[0]  # of obstore, with its structs
    if "PROPFIND" in why:  # how obstore lists the files of a folder
        why = (
            "the server does not list its files, and the metadata of the group is not in one file "
            "(allowed: a group after zarr.consolidate_metadata(store))"
        )
    elif type(error).__name__ == "ContainsArrayError":  # of zarr, which is an extra
        why = "an array has no coordinates (allowed: the group that it is in)"
    return FileError(f"{place}: cannot be read: {why}")


@dataclass(slots=True)
class _Labels:
    """The labels of points, and how they are looked up."""

    data: xarray.Dataset
    request: Request
    dim: str
    labels: dict[Hashable, Any] = field(default_factory=dict)
    asked: dict[Hashable, Any] = field(default_factory=dict)  # before they are those of pixels
    of_table: dict[str, Any] = field(default_factory=dict)  # by the names of columns

    def chosen(self, result: xarray.Dataset, periods: Mapping[Hashable, Any]) -> dict[str, Any]:
        """Return the labels of the data that were taken, and their distances from those asked."""
        added = {}
        for name in self.labels:
            if name in result.coords and result[name].dims == (self.dim,):
                found = result[name].to_index().to_numpy()
                added[f"{name}_label"] = found
                if kind_of(self.data[name].to_index()) not in ("texts", "bytes", None):
                    both = [pd.Series(each) for each in (found, self.asked[name])]
                    absent = both[0].isna() | both[1].isna()
                    both = [each.mask(absent) for each in both] if absent.any() else both
                    distance = abs(both[0] - both[1]).to_numpy()
                    period = periods.get(name)
                    if period is not None and distance.dtype.kind in "iuf":
                        distance = np.minimum(distance % period, -distance % period)
                    added[f"{name}_distance"] = distance
        return added

    def add(self, name: str, texts: _Texts) -> None:
        """Add the labels of a column, unless they lie far outside of the axis."""
        index: Any = None
        if name in self.data.coords:
            index = self.data.indexes.get(name)
            if index is None:
                values = np.atleast_1d(self.data[name].values)
                index = xarray.Variable("x", values).to_index_variable().to_index()
        labels = texts.labels(index)
        self.of_table[texts.name] = self.asked[name] = labels
        if name in self.data.coords and not self.data[name].ndim:
            if index.dtype.kind == "f" and labels.dtype.kind in "iuf":
                labels = labels.astype(index.dtype)
            differ: Any = np.array([label != index[0] for label in labels], np.bool)
            allowed = f"{index[0]}; --keep {texts.name} leaves the column alone"
            texts.check(differ, f"is not the {name} of the data", allowed)
            return
        self.labels[name] = xarray.DataArray(labels, dims=self.dim)

    def find_pixels(self) -> None:
        """Replace labels of a raster by the centres of the pixels that hold them."""
        for name, array in self.labels.items() if rasters.TRANSFORM in self.data.encoding else ():
            if name not in ("x", "y") or self.request.method_of(name) != "nearest":
                continue
            index, labels = self.data.indexes[name], array.values
            selection.labels_of(self.request, self.data, name, labels, index)  # refuses degrees
            centres = rasters.centres(self.data, name, labels, self.request.period.get(name))
            tolerance = self.request.tolerance_of(name)
            if tolerance is not None:
                with np.errstate(invalid="ignore"):
                    centres = np.where(abs(centres - labels) <= tolerance, centres, labels)
            elif self.request.missing == "raise" and np.isnan(centres).any():
                absent = np.where(np.isnan(centres), -1, 0)
                raise selection.missing_labels(
                    self.request, self.data, name, labels, absent, self.labels
                )
            self.labels[name] = array.copy(data=centres)


class _Texts:
    """A column of a table, whose texts are read as labels of an axis."""

    def __init__(self, column: pd.Series[Any], lookup: Lookup) -> None:
        self.name, self.lookup, self.column = str(column.name), lookup, column
        self.cells = ["" if value is None else str(value) for value in column]
        self.texts = [cell.strip() for cell in self.cells]
        self.present = np.array([text not in _MISSING for text in self.texts], bool)

    def error(self, bad: Any, what: str, allowed: str, more: str = "") -> FileError:
        row, count = int(np.argmax(bad)), int(np.sum(bad))
        others = f"; so are {count} of {len(bad)} rows" if count > 1 else ""
        return FileError(
            f"{self.lookup.points}: {one_line(self.name)}[{row}] = "
            f"{shown_value(self.texts[row])} {what} (allowed: {allowed}){others}{more}"
        )

    def labels(self, index: pd.Index[Any] | None) -> Any:
        """Return the labels in the type of those of an axis; positions where it has none."""
        if self.column.dtype.kind == "M":  # of Parquet
            times: Any = self.column.dt
            return (times.tz_convert(None) if times.tz else self.column).to_numpy()
        if self.column.dtype.kind in "iufm":
            return self.column.to_numpy()
        if index is None:
            allowed = "0 and above: the axis has no labels"
            self.check(~_are(_POSITION, self.texts), "is not a position", allowed)
            return np.array([int(text) for text in self.texts], np.int64)
        if isinstance(index, xarray.CFTimeIndex):
            return self._of_calendar(index)
        kind = kind_of(index)
        if kind == "numbers":
            return self._numbers(index.dtype.kind in "iu")
        readers: dict[str, Any] = {
            "times": self._times,
            "durations": self._durations,
            "bytes": lambda: objects(cell.encode(errors="surrogatepass") for cell in self.cells),
            "texts": lambda: objects(self.cells),
        }
        if kind is None and len(index):
            raise FileError(
                f"{self.lookup.points}: {one_line(self.name)} has labels of {index.dtype}, which "
                f"no text stands for (allowed: numbers, texts, times and durations)"
            )
        return readers[kind or "texts"]()

    def check(self, bad: Any, what: str, allowed: str, more: str = "") -> None:
        if bad.any():
            raise self.error(bad, what, allowed, more)

    def _numbers(self, of_integers: bool) -> Any:
        texts, decimal = self.texts, self.lookup.dialect.decimal
        if decimal != ".":
            texts = [text.replace(".", "?").replace(decimal, ".") for text in texts]
        bad = self.present & ~_are(_NUMBER, texts)
        comma = bad.any() and decimal == "." and "," in texts[bad.argmax()]
        hint = "; write --decimal ',' for a decimal comma" if comma else ""
        self.check(bad, "is not a number", f"numbers such as 1{decimal}5", hint)
        whole, numbers = _are(_INTEGER, texts), []
        for text, present, is_whole in zip(texts, self.present, whole, strict=True):
            numbers.append(int(text) if is_whole else float(text) if present else None)
        if texts and whole.all() and np.array(numbers).dtype.kind in "iu":
            return np.array(numbers)
        is_exact = of_integers and self.lookup.request.method is None
        if is_exact and any(type(each) is int and abs(each) > WHOLE for each in numbers):
            return objects(numbers)  # float64 would round them
        return np.array(numbers, float)

    def _durations(self) -> Any:
        with warnings.catch_warnings(action="ignore"):
            found = pd.to_timedelta(pd.Series(self._given(self.texts)), errors="coerce")
        bad = self.present & (_are(_NUMBER, self.texts) | found.isna().to_numpy())
        self.check(bad, "is not a duration with a unit", "durations such as 6h")
        return found.to_numpy("m8[ns]" if not len(found) else None)

    def _given(self, texts: Iterable[str]) -> Any:
        return np.where(self.present, objects(texts), None)

    def _of_calendar(self, index: xarray.CFTimeIndex) -> Any:
        labels = objects([None] * len(self.texts))
        for row in np.flatnonzero(self.present):
            try:
                labels[row] = parse_date(self.texts[row], index.calendar, self.lookup.date_format)
            except (ValueError, TypeError, OverflowError):
                what = f"is not a time of the calendar {index.calendar}"
                bad = np.arange(len(labels)) == row
                raise self.error(bad, what, f"times {_EXAMPLE}") from None
        return labels

    def _times(self) -> Any:
        """Return times in the format that is given, or as ISO 8601 writes them."""
        form, present = self.lookup.date_format, self.present
        zoned = _are(_ZONED, self.texts)
        mixed = present & (zoned != (present & zoned).any())
        if mixed.any():
            mixed = present & (zoned != zoned[present.argmax()])
            allowed = f"all times with a zone, or all without, {_EXAMPLE}"
            raise self.error(mixed, "and the first are not both in a time zone", allowed)
        given = pd.Series(self._given(self.texts), dtype=object)
        times = pd.to_datetime(given, utc=True, errors="coerce", format=form or "ISO8601")
        failed = present & times.isna().to_numpy()
        allowed = f"times as {form}, or without it times {_EXAMPLE}"
        if form is None:
            failed |= present & ~_are(_ISO, self.texts)
            allowed = f"times {_EXAMPLE}; others by --date-format, such as %d/%m/%Y"
        self.check(failed, "is not a time", allowed)
        return times.dt.tz_localize(None).to_numpy()


def _are(form: re.Pattern[str], texts: Sequence[str]) -> Any:
    """Return which texts have a form."""
    return np.array([form.fullmatch(text) is not None for text in texts], bool)


def _check_known(
    option: str, kind: str, name: str, known: Iterable[Hashable], hint: str | None = None
) -> None:
    if name not in known:
        hint = did_you_mean(name, known) if hint is None else one_line(hint)
        raise FileError(
            f"{one_line(option)}: {one_line(name)} is no {kind} (allowed: {_listed(known)}){hint}"
        )


def _dims_by_name(data: xarray.Dataset) -> dict[Hashable, tuple[Hashable, ...]]:
    """Return the dimensions of every coordinate, and of dimensions without labels."""
    coords = data.coords
    ordered = dict.fromkeys((*data.indexes, *coords, *data.sizes))
    return {name: coords[name].dims if name in coords else (name,) for name in ordered}


def _hint(columns: Iterable[str], names: Iterable[Hashable]) -> str:
    """Return the end of an error that renames columns with nearly the name of a coordinate."""
    hints = []
    known = [str(name) for name in names]
    for column in columns:
        plain = column.casefold()
        near = [name for name in known if _is_start(plain, name.casefold())]
        meant = near[0] if near else similar(column, known)
        if meant is not None:
            hints.append(f"--rename {shlex.quote(f'{column}={meant}')}")
    return one_line(f"; write {' '.join(hints)}") if hints else ""


def _is_start(one: str, other: str) -> bool:
    """Whether one name is the other, or its first letters, at least three."""
    shorter, longer = sorted((one, other), key=len)
    return shorter == longer or (len(shorter) >= 3 and longer.startswith(shorter))


def _listed(names: Iterable[object]) -> str:
    return one_line(listed(map(str, names)))
