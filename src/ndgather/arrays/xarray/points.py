"""Values of a data set in a file or a store at the points of a table."""

from __future__ import annotations

import math
import os
import re
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray

from ndgather import messages
from ndgather.arrays.xarray import rasters, selection, tables
from ndgather.arrays.xarray.accessor import Accessor
from ndgather.arrays.xarray.labels import kind_of, of_calendar, sorted_axis
from ndgather.errors import FileError, NdgatherError, one_line
from ndgather.messages import did_you_mean, listed, plural, shown_value, similar
from ndgather.stored import open_path

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from ndgather.arrays.xarray.tables import Dialect, Table
    from ndgather.stored.estimates import Estimate

_EAST = ("degrees_east", "degree_east", "degree_E", "degrees_E", "degreeE", "degreesE")  # of CF
_CIRCLE, _WEST, _FAR_EAST = 360.0, -180.0, 360.0
_MOST_DAYS = 100_000  # of a duration of pandas
_MISSING = ("", "NA", "NaN", "nan")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_INTEGER = re.compile(r"[+-]?\d+")
_ZONE = r"(?:Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)"
_CLOCK = r"\d\d(?::?\d\d(?::?\d\d(?:[.,]\d+)?)?)?"
_ISO = re.compile(rf"\d{{4}}-?\d\d-?\d\d(?:[T ]{_CLOCK} ?{_ZONE}?)?|\d{{4}}-\d\d")
_YEAR_FIRST = re.compile(r"(\d{4})[-/.](\d\d?)[-/.](\d\d?)(?!\d)")
# Other times have a year of four digits, and a month by its name or two numbers for month and day.
_DATE = re.compile(r"(?=.*\b\d{4}\b)(?:.*[A-Za-z]{3}|(?:.*?\b\d{1,2}\b){2}).*")
_ZONED = rf"[T ]\d\d.*{_ZONE}$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """How the columns of a table of points are read."""

    rename: Mapping[str, str] = field(default_factory=dict)  # from columns to coordinates
    keep: Sequence[str] = ()  # columns that select nothing
    outer: bool = False  # whether points may have many rows
    date_format: str | None = None
    add_labels: bool = False

    def selecting(self, points: Path, table: Table, data: xarray.Dataset) -> dict[str, str]:
        """Return the columns that select, by the coordinates that they have the labels of."""
        known = [*dict.fromkeys(map(str, (*data.indexes, *data.coords, *data.sizes)))]
        for column in self.keep:
            _check_known(f"--keep {column}", "column", column, table.names)
        for column, name in self.rename.items():
            option = f"--rename {column}={name}"
            _check_known(option, "column", column, table.names)
            _check_known(option, "coordinate with labels", name, known)
        named = [(self.rename.get(column, column), column) for column in self._free(table)]
        named = [(name, column) for name, column in named if name in known]
        own = {*data.indexes, *data.sizes}  # other coordinates select where none of these does
        indexed = {dim for name, _ in named if name in own for dim in _dims(data, name)}
        selecting: dict[str, str] = {}
        along: dict[Hashable, str] = {}
        for name, column in named:
            dims = _dims(data, name)
            if dims and name not in own and {*dims} <= indexed:
                continue  # another column selects along them
            if dims:
                selection.check_names("sel", data, [name])
            other = along.setdefault(next(iter(dims), name), column)
            if other is not column or name in selecting:
                raise FileError(
                    f"{points}: has the columns {_listed([other, column])}, which both select "
                    f"along {next(iter(dims), name)} (allowed: one of them; --keep COLUMN leaves a "
                    f"column alone)"
                )
            selecting[name] = column
        if not any(_dims(data, name) for name in selecting):
            raise FileError(
                f"{points}: has the columns {_listed(self._free(table))}, none of which is named "
                f"as labels of the data (allowed: {_listed(data.indexes)})"
                f"{_hint(self._free(table), data.indexes)}"
            )
        return selecting

    def _free(self, table: Table, selecting: Iterable[str] = ()) -> list[str]:
        return [column for column in table.names if column not in (*selecting, *self.keep)]

    def check_complete(
        self, points: Path, table: Table, chosen: xarray.Dataset, columns: dict[str, str]
    ) -> None:
        """Raise if a dimension of the variables has no column: points have a row per label."""
        selected = {dim for name in columns for dim in _dims(chosen, name)}
        others = [str(dim) for dim in chosen.sizes if dim not in selected]
        free = self._free(table, columns.values())
        hint, keep = _hint(free, others), ""
        longer = [dim for dim in others if chosen.sizes[dim] > 1]
        if not (hint or (longer and not self.outer)):
            return
        if hint:
            near = [column for column in free if _hint([column], others)]
            keep = f" with {' '.join(f'--keep {one_line(column)}' for column in near)}"
        count = math.prod(chosen.sizes[dim] for dim in longer)
        raise FileError(
            f"{points}: has no column {_listed(others)}, so that a point has {plural(count, 'row')}"
            f" (allowed: the columns {_listed(dict.fromkeys([*columns, *others]))}, or --outer for "
            f"a row per label of {_listed(longer)}{keep}){hint}"
        )


def _check_known(option: str, kind: str, name: str, known: Iterable[Hashable]) -> None:
    if name not in known:
        raise FileError(
            f"{one_line(option)}: {one_line(name)} is no {kind} (allowed: {_listed(known)})"
            f"{did_you_mean(name, known)}"
        )


def _dims(data: xarray.Dataset, name: str) -> tuple[Hashable, ...]:
    """Return the dimensions of a coordinate, or of a dimension without labels."""
    return data[name].dims if name in data.coords else (name,)


def _hint(columns: Iterable[str], names: Iterable[Hashable]) -> str:
    """Return the end of an error that renames columns with nearly the name of a coordinate."""
    hints = []
    known = [str(name) for name in names]
    for column in columns:
        plain = str(column).casefold()
        near = [name for name in known if _is_start(plain, name.casefold())]
        meant = near[0] if near else similar(column, known)
        if meant is not None:
            hints.append(f"--rename {one_line(str(column))}={meant}")
    return f"; write {' '.join(hints)}" if hints else ""


def _is_start(one: str, other: str) -> bool:
    """Whether one name is the other, or its first letters, at least three."""
    shorter, longer = sorted((one, other), key=len)
    return shorter == longer or (len(shorter) >= 3 and longer.startswith(shorter))


@dataclass(frozen=True, slots=True)
class Result:
    """The points of a table with values: what is written."""

    table: Table
    rows: Any  # of the table, for every row of the result
    values: pd.DataFrame
    labels: Mapping[str, Any]  # of the columns that select

    def write(self, part: Path, output: Path) -> None:
        typed = {name: labels for name, labels in self.labels.items() if labels.dtype.kind != "O"}
        tables.write(part, output, self.table, self.rows, self.values.copy(), typed)

    @property
    def names(self) -> list[str]:
        return [*self.table.names, *map(str, self.values.columns)]


def values_at(
    place: str,
    points: Path,
    names: Sequence[str],
    how: Columns,
    dialect: Dialect,
    options: Mapping[str, Any],
) -> Result:
    """Return the table of `points` with a column for every variable of the data set at `place`.

    Columns named as labels of the data set select; other columns are kept. `names` are the
    variables, or none for every variable that the points select from; `options` are those of
    `Accessor.sel`. A variable with more dimensions has a row for every one of their labels.
    """
    with _selection(place, points, names, how, dialect, options) as (table, chosen, columns, dim):
        result = Accessor(chosen).sel(columns.labels, **columns.options)
        values = _values(result, dim)
        rows = values.index.to_numpy(np.intp)
        values = values.reset_index(drop=True)
        if how.add_labels:
            for name, each in columns.chosen(result, dim).items():
                values[name] = each[rows]
        twice = [name for name in values.columns if str(name) in table.names]
        if twice:
            what = "a variable that is selected" if twice[0] in chosen else "a column that is added"
            raise FileError(
                f"{points}: has a column {one_line(str(twice[0]))}, which is the name of {what} "
                f"(allowed: columns of other names)"
            )
        return Result(table, rows, values, columns.of_table)


def estimates_at(
    place: str,
    points: Path,
    names: Sequence[str],
    how: Columns,
    dialect: Dialect,
    options: Mapping[str, Any],
) -> dict[str, Estimate]:
    """Return what `values_at` would read of every variable that is stored in chunks."""
    with _selection(place, points, names, how, dialect, options) as (_, chosen, columns, _):
        accessor = Accessor(chosen)
        accessor._estimates = {}
        accessor.sel(columns.labels, **columns.options)
        return accessor._estimates


@dataclass(slots=True)
class _Labels:
    """The labels of points, and the options of the call that looks them up."""

    points: Path
    options: dict[str, Any]
    labels: dict[Hashable, Any] = field(default_factory=dict)
    asked: dict[Hashable, Any] = field(default_factory=dict)  # before they are those of pixels
    of_table: dict[str, Any] = field(default_factory=dict)  # by the names of columns

    def chosen(self, result: xarray.Dataset, dim: str) -> dict[str, Any]:
        """Return the labels of the data that were taken, and their distances from those asked."""
        added = {}
        for name in self.labels:
            if name not in result.coords or result[name].dims != (dim,):
                continue
            found = result[name].to_index().to_numpy()
            added[f"{name}_label"] = found
            with messages.foreign_errors(FileError, f"--add-labels: {name} has no distances"):
                if kind_of(found) not in ("texts", "bytes", None):
                    distance = abs(found - self.asked[name])
                    period = (self.options["period"] or {}).get(name)
                    if period is not None and distance.dtype.kind == "f":
                        distance = np.minimum(distance % period, -distance % period)
                    added[f"{name}_distance"] = distance
        return added

    def add(
        self, data: xarray.Dataset, name: str, column: pd.Series[Any], how: Columns, decimal: str
    ) -> None:
        """Add the labels of a column, unless they lie far outside of the axis."""
        index = data.indexes.get(name)
        texts = _Texts(self.points, column, decimal, how.date_format)
        if index is None and name in data.coords:
            index = data[name].to_index() if data[name].ndim else pd.Index([data[name].values[()]])
        labels = texts.labels(index)
        self.of_table[str(column.name)] = self.asked[name] = labels
        if name in data.coords and not data[name].ndim:
            _check_scalar(texts, name, index, labels)
            return
        if index is not None and labels.size and labels.dtype.kind in "iufMO":
            labels = self._within(data, name, index, labels, texts)
        self.labels[name] = labels

    def _within(
        self, data: xarray.Dataset, name: str, index: pd.Index[Any], labels: Any, texts: _Texts
    ) -> Any:
        method, tolerance = self.options["method"], self.options["tolerance"] or {}
        period = (self.options["period"] or {}).get(name)
        centres = rasters.centres(data, name, labels) if method == "nearest" else labels
        if centres is not labels and name in tolerance:
            with np.errstate(invalid="ignore"):
                return np.where(abs(centres - labels) <= tolerance[name], centres, labels)
        if centres is not labels:
            return self._refused(data, name, labels, centres, np.isnan(centres), texts)
        of_period = None
        with_period = data[name].attrs.get("units") in _EAST and period is None
        if with_period and labels.dtype.kind in "iuf" and index.dtype.kind in "iuf":
            of_period = _whole_circle(name, index, labels)
        if of_period is not None:
            self.options["period"] = {**(self.options["period"] or {}), name: _CIRCLE}
            period = _CIRCLE
            with np.errstate(invalid="ignore"):
                outside = (labels < _WEST) | (labels > _FAR_EAST)
            if outside.any():
                raise texts.error(
                    outside, "is no longitude", f"{_WEST}..{_FAR_EAST}, or --period {name}=360"
                )
        if method != "nearest" or name in tolerance:
            return labels
        if not (index.is_monotonic_increasing or index.is_monotonic_decreasing or period):
            return labels  # the lookup refuses them
        if not index.is_unique or index.hasnans or not len(index):
            return labels
        pair = sorted_axis("sel", name, index, labels, period)
        if pair is None:
            return labels
        return self._refused(data, name, labels, labels, pair[0].outside(pair[1]), texts)

    def _refused(
        self,
        data: xarray.Dataset,
        name: str,
        labels: Any,
        result: Any,
        outside: Any,
        texts: _Texts,
    ) -> Any:
        """Raise for labels outside of the axis, or return them as missing ones."""
        outside = outside & ~pd.isna(labels)
        if not outside.any():
            return result
        if self.options["missing"] == "nan":
            if result.dtype.kind in "MO":
                return np.where(
                    outside, np.datetime64("NaT") if result.dtype.kind == "M" else None, result
                )
            return np.where(outside, np.nan, result)
        axis = data[name].values
        low, high = axis.min(), axis.max()
        asked = labels[outside]
        if axis.dtype.kind == "f":
            asked = asked.astype(axis.dtype)
        far: Any = np.maximum(low - asked, asked - high).max()
        if axis.dtype.kind == "M":
            days = [int(each.astype("M8[D]").astype(int)) for each in (low, high)]
            asked = asked.astype("M8[D]").astype(int)
            far = 1 + max(days[0] - asked.min(), asked.max() - days[1])
        elif axis.dtype.kind == "O":
            far = far.days + 1
        distance = f"{far}" if axis.dtype.kind in "iuf" else f"{far}D"
        nearest = f"--tolerance {name}={distance} for the nearest label"
        if distance.endswith("D") and far > _MOST_DAYS:
            nearest = "--missing nan for NaN"
        attrs, period = data[name].attrs, self.options["period"] or {}
        east = attrs.get("units") in _EAST or name.casefold().startswith("lon")
        around = (
            f"--period {name}=360 if they go around, or " if east and name not in period else ""
        )
        raise texts.error(
            outside,
            f"lies outside of {name} by half a step or more",
            f"{low}..{high}",
            f"; write {around}{nearest}",
        )


def _whole_circle(name: str, index: pd.Index[Any], labels: Any) -> Any:
    """Return the sorted axis if its longitudes go around the earth."""
    try:
        pair = sorted_axis("sel", name, index, labels, _CIRCLE)
    except NdgatherError:
        return None
    return pair[0] if pair is not None and len(index) > 1 and not len(pair[0].gap) else None


def _check_scalar(texts: _Texts, name: str, index: Any, labels: Any) -> None:
    """Raise if the points have another label than the one that all the data have."""
    value = index[0]
    with np.errstate(invalid="ignore"):
        differ = np.array([label != value for label in labels], bool)
    if differ.any():
        raise texts.error(
            differ,
            f"is not the {name} of the data",
            f"{value}; --keep {texts.column.name} leaves the column alone",
        )


@contextmanager
def _selection(
    place: str,
    points: Path,
    names: Sequence[str],
    how: Columns,
    dialect: Dialect,
    options: Mapping[str, Any],
) -> Iterator[tuple[Table, xarray.Dataset, _Labels, str]]:
    """Open a data set; yield the points, the variables, the labels and the name of the points."""
    table = tables.read(points, dialect)
    with opened(place) as data:
        columns = how.selecting(points, table, data)
        along = [name for name in columns if _dims(data, name)]
        chosen = data[_variables(place, data, names, along)]
        chosen = chosen.assign_coords({n: data[n] for n in columns if n in data.coords})
        chosen.encoding = data.encoding
        how.check_complete(points, table, chosen, columns)
        if options["method"] == "linear":
            _check_numbers(place, chosen)
        dim = "point"
        while dim in chosen.sizes or dim in chosen.coords:
            dim += "_"
        labels = _Labels(points, dict(options))
        for name, column in columns.items():
            labels.add(chosen, name, table.column(column), how, dialect.decimal)
        labels.labels = {n: xarray.DataArray(x, dims=dim) for n, x in labels.labels.items()}
        yield table, chosen, labels, dim


def opened(place: str) -> xarray.Dataset:
    """Open a data set without reading its arrays."""
    if open_path.is_tiff(place):
        return rasters.opened(place)
    is_zarr = "://" in place or Path(place).suffix == open_path.ZARR_SUFFIX or Path(place).is_dir()
    with messages.converted_errors(lambda error: open_path.unreadable(place, error)):
        if not is_zarr:
            if not Path(place).exists():
                raise FileNotFoundError(2, os.strerror(2))
            return xarray.open_dataset(place, chunks=None)
        with warnings.catch_warnings():  # xarray's, that it reads more files than it might
            warnings.filterwarnings("ignore", "Failed to open Zarr store", RuntimeWarning)
            return xarray.open_dataset(open_path.store_of(place), engine="zarr", chunks=None)


def _variables(
    place: str, data: xarray.Dataset, names: Sequence[str], columns: Sequence[str]
) -> list[str]:
    """Return the variables that are asked for, or all that have a dimension of the points."""
    dims = {dim for name in columns for dim in _dims(data, name)}
    for name in names:
        if name not in data.data_vars:
            raise FileError(
                f"{place}: has no variable {name!r} (allowed: {_listed(data.data_vars)})"
                f"{did_you_mean(name, data.data_vars)}"
            )
        if not dims <= {*data[name].dims}:
            raise FileError(
                f"{place}: {name} has the dimensions {_listed(data[name].dims)}, and the points "
                f"have labels of {_listed(columns)} (allowed: variables with all of them; --keep "
                f"COLUMN leaves a column alone)"
            )
    found = [str(name) for name, array in data.data_vars.items() if dims <= {*array.dims}]
    if not (names or found):
        raise FileError(
            f"{place}: no variable has all the dimensions {_listed(dims)} of the points (allowed: "
            f"columns for dimensions of one variable; --keep COLUMN leaves a column alone)"
        )
    return [*names] or found


def _check_numbers(place: str, chosen: xarray.Dataset) -> None:
    others = [name for name, array in chosen.data_vars.items() if array.dtype.kind not in "uifcmM"]
    if others:
        raise FileError(
            f"{place}: {others[0]} has values of {chosen[others[0]].dtype}, between which nothing "
            f"is interpolated (allowed: --variable NAME of numbers, or --method nearest)"
        )


class _Texts:
    """A column of a table, whose texts are read as labels of an axis."""

    def __init__(
        self, points: Path, column: pd.Series[Any], decimal: str, date_format: str | None
    ) -> None:
        self.points, self.column, self.decimal = points, column, decimal
        self.date_format = date_format
        self.texts = column.map(lambda value: "" if value is None else str(value)).str.strip()
        self.present = ~self.texts.isin(_MISSING)

    def error(self, bad: Any, what: str, allowed: str, more: str = "") -> FileError:
        bad = np.asarray(bad)
        row = int(bad.argmax())
        count = int(bad.sum())
        others = f"; so are {count} of {len(bad)} rows" if count > 1 else ""
        return FileError(
            f"{self.points}: {one_line(str(self.column.name))}[{row}] = "
            f"{shown_value(self.texts.iloc[row])} {what} (allowed: {allowed}){others}{more}"
        )

    def labels(self, index: pd.Index[Any] | None) -> Any:
        """Return the labels in the type of those of an axis; positions where it has none."""
        if self.column.dtype.kind == "M":  # of Parquet
            times: Any = self.column.dt
            return (times.tz_convert(None) if times.tz else self.column).to_numpy()
        if self.column.dtype.kind in "iufmb":
            return self.column.to_numpy()
        if index is None:
            bad = ~self._are(re.compile(r"\d{1,18}"))
            if bad.any():
                raise self.error(bad, "is not a position", "0 and above: the axis has no labels")
            return np.array([int(text) for text in self.texts] or [0])[: len(self.texts)]
        if isinstance(index, xarray.CFTimeIndex):
            return self._of_calendar(index)
        kind = kind_of(index)
        if kind == "times":
            return self._times() if len(self.texts) else np.empty(0, "M8[ns]")
        if kind == "numbers":
            return self._numbers()
        if kind == "durations":
            return self._durations()
        texts = self.column.map(lambda value: "" if value is None else str(value))
        if kind == "bytes":
            return np.array([text.encode() for text in texts] or [b""], object)[: len(texts)]
        if kind == "texts" or not len(index):
            return texts.to_numpy(object)
        raise FileError(
            f"{self.points}: {one_line(str(self.column.name))} has labels of {index.dtype}, which "
            f"no text stands for (allowed: numbers, texts, times and durations)"
        )

    def _are(self, form: re.Pattern[str], texts: pd.Series[Any] | None = None) -> pd.Series[Any]:
        """Return which texts have a form."""
        texts = self.texts if texts is None else texts
        return texts.map(lambda text: form.fullmatch(text) is not None).astype(bool)

    def _numbers(self) -> Any:
        texts = self.texts
        if self.decimal != ".":
            texts = texts.str.replace(".", "?", regex=False)
            texts = texts.str.replace(self.decimal, ".", regex=False)
        bad = self.present & ~self._are(_NUMBER, texts)
        if bad.any():
            comma = "; write --decimal ',' for a decimal comma"
            hint = comma if self.decimal == "." and "," in self.texts[bad].iloc[0] else ""
            raise self.error(bad, "is not a number", f"numbers such as 1{self.decimal}5", hint)
        if len(texts) and self._are(_INTEGER, texts).all():
            numbers = np.array([int(text) for text in texts])
            if numbers.dtype.kind in "iu":
                return numbers
        return texts.where(self.present, "nan").to_numpy(str).astype(np.float64)

    def _durations(self) -> Any:
        with warnings.catch_warnings(action="ignore"):
            durations = pd.to_timedelta(self.texts.where(self.present), errors="coerce")
        bad = self.present & (self._are(_NUMBER) | durations.isna())
        if bad.any():
            raise self.error(bad, "is not a duration with a unit", "durations such as 6h")
        return durations.to_numpy()

    def _of_calendar(self, index: xarray.CFTimeIndex) -> Any:
        labels = np.empty(len(self.texts), object)
        for row, text in enumerate(self.texts):
            if not self.present.iloc[row]:
                continue
            try:
                labels[row] = of_calendar(text, index, self.date_format)
            except (ValueError, TypeError, OverflowError):
                bad = np.arange(len(labels)) == row
                raise self.error(
                    bad,
                    f"is not a time of the calendar {index.calendar}",
                    "times such as 2010-07-14T06:30",
                ) from None
        return labels

    def _times(self) -> Any:
        """Return times; those that may be several are refused."""
        present, example = self.present, ", such as 2010-07-14T06:30"
        texts = self.texts.where(present)
        if self.date_format is None:
            texts = texts.map(_as_iso, na_action="ignore")

        def parsed(**options: Any) -> pd.Series[Any]:
            with warnings.catch_warnings(action="ignore"):  # of pandas, that it guesses
                return pd.to_datetime(texts, utc=True, errors="coerce", **options)

        zoned = texts.str.contains(_ZONED, na=False)
        mixed = present & (zoned != zoned.iloc[present.argmax()])
        if mixed.any():
            have = "has a time zone, and the first has none"
            raise self.error(
                mixed,
                have if zoned.iloc[mixed.argmax()] else "has no time zone, and the first has one",
                f"all times with a zone, or all without{example}",
            )
        times = parsed(format=self.date_format or "ISO8601")
        failed = present & times.isna()
        if self.date_format is None:
            iso = self._are(_ISO, texts.fillna(""))
            # Numbers behind a year are month and day, in this order, or nothing.
            others = self._are(_DATE) & ~self.texts.str.match(r"\d{4}\W?\d")
            failed = present & ~(iso | others)
            if not failed.any() and (present & ~iso).any():
                months, days = parsed(), parsed(dayfirst=True)
                both = [(each.isna() & present).any() for each in (months, days)]
                differ = present & (months != days)
                if not any(both) and differ.any():
                    raise self.error(
                        differ,
                        "is an ambiguous date",
                        f"--date-format %d/%m/%Y, --date-format %m/%d/%Y, or times{example}",
                    )
                times = days if both[0] else months
            failed |= present & times.isna()
        if failed.any():
            only = f"times as {self.date_format}, or without it times"
            allowed = "times" if self.date_format is None else only
            raise self.error(failed, "is not a time", f"{allowed}{example}")
        return times.dt.tz_localize(None).to_numpy()


def _as_iso(text: str) -> str:
    """Return a time that begins with its year as ISO 8601 writes it."""
    text = _YEAR_FIRST.sub(lambda found: f"{found[1]}-{found[2]:0>2}-{found[3]:0>2}", text, count=1)
    return re.sub(r" ?(?:UTC|GMT)$", "Z", text)


def _values(result: xarray.Dataset, dim: str) -> pd.DataFrame:
    """Return the values by the number of their point, a row for every label of other dimensions."""
    plain = result.reset_coords(drop=True).drop_vars(dim, errors="ignore")
    others = [name for name in plain.sizes if name != dim]
    frame = plain.to_dataframe(dim_order=[dim, *others]).reset_index(others)
    for name, values in frame.items():
        if values.dtype.kind == "O" and hasattr(next(iter(values), None), "calendar"):
            frame[name] = values.map(str)  # which Parquet has no type for
    return frame


def _listed(names: Iterable[object]) -> str:
    return one_line(listed(map(str, names)))
