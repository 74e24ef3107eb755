"""Values of a data set in a file or a store at the points of a table, which pandas reads."""

from __future__ import annotations

import math
import os
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import xarray

from ndgather import messages
from ndgather.arrays.xarray import rasters
from ndgather.arrays.xarray.accessor import Accessor
from ndgather.errors import FileError, one_line
from ndgather.messages import did_you_mean, listed, shown_value, similar
from ndgather.stored import open_path

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from ndgather.stored.estimates import Estimate

SUFFIXES = (".csv", ".parquet")

_DIMS = {"Y": "y", "X": "x", "S": "band"}  # by the letters of tifffile
_PIXEL_IS_POINT = 2  # GeoTIFF 1.1, requirement 12.2
_ZONE = r"[T ]\d\d.*(?:Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)$"  # at the end of a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """How the columns of a table of points are read."""

    rename: Mapping[str, str] = field(default_factory=dict)  # from columns to coordinates
    outer: bool = False  # whether points may have many rows
    date_format: str | None = None

    def selecting(self, points: Path, table: pd.DataFrame, data: xarray.Dataset) -> dict[str, str]:
        """Return the columns that select, by the coordinates that they have the labels of."""
        for column, name in self.rename.items():
            for kind, each, known in (
                ("column", column, table.columns),
                ("coordinate with labels", name, data.indexes),
            ):
                if each not in known:
                    raise FileError(
                        f"--rename {column}={name}: {each} is no {kind} (allowed: "
                        f"{_listed(known)}){did_you_mean(each, known)}"
                    )
        named = {self.rename.get(column, column): column for column in table.columns}
        selecting = {name: column for name, column in named.items() if name in data.indexes}
        if not selecting:
            raise FileError(
                f"{points}: has the columns {_listed(table.columns)}, none of which is named as "
                f"labels of the data (allowed: {_listed(data.indexes)})"
                f"{_hint(table.columns, data.indexes)}"
            )
        return selecting

    def check_complete(
        self, points: Path, table: pd.DataFrame, chosen: xarray.Dataset, columns: dict[str, str]
    ) -> None:
        """Raise if a dimension of the variables has no column: points have a row per label."""
        selected = {chosen[name].dims[0] for name in columns}
        others = [str(dim) for dim in chosen.sizes if dim not in selected]
        hint = _hint([c for c in table.columns if c not in columns.values()], others)
        longer = [dim for dim in others if chosen.sizes[dim] > 1]
        if not (hint or (longer and not self.outer)):
            return
        count = math.prod(chosen.sizes[dim] for dim in longer)
        raise FileError(
            f"{points}: has no column {_listed(others)}, so that a point has {count} rows "
            f"(allowed: the columns {_listed(dict.fromkeys([*columns, *others]))}, or --outer for "
            f"a row per label of {_listed(longer)}){hint}"
        )


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


def values_at(
    place: str, points: Path, names: Sequence[str], how: Columns, options: Mapping[str, Any]
) -> pd.DataFrame:
    """Return the table of `points` with a column for every variable of the data set at `place`.

    Columns named as labels of the data set select; other columns are kept. `names` are the
    variables, or none for every variable that the points select from; `options` are those of
    `Accessor.sel`. A variable with more dimensions has a row for every one of their labels.
    """
    with _selection(place, points, names, how) as (table, chosen, labels, dim):
        return _joined(table, Accessor(chosen).sel(labels, **options), dim)


def estimates_at(
    place: str, points: Path, names: Sequence[str], how: Columns, options: Mapping[str, Any]
) -> dict[str, Estimate]:
    """Return what `values_at` would read of every variable that is stored in chunks."""
    with _selection(place, points, names, how) as (_, chosen, labels, _):
        accessor = Accessor(chosen)
        accessor._estimates = {}
        accessor.sel(labels, **options)
        return accessor._estimates


@contextmanager
def _selection(
    place: str, points: Path, names: Sequence[str], how: Columns
) -> Iterator[tuple[pd.DataFrame, xarray.Dataset, dict[Hashable, Any], str]]:
    """Open a data set; yield the points, the variables, the labels and the name of the points."""
    table = read(points)
    with opened(place) as data:
        columns = how.selecting(points, table, data)
        chosen = data[_variables(place, data, names, list(columns))]
        how.check_complete(points, table, chosen, columns)
        twice = [name for name in chosen.data_vars if name in table.columns]
        if twice:
            raise FileError(
                f"{points}: has a column {one_line(str(twice[0]))}, which is the name of a "
                f"variable that is selected (allowed: columns of other names)"
            )
        dim = "point"
        while dim in chosen.sizes:
            dim += "_"
        labels: dict[Hashable, Any] = {
            name: xarray.DataArray(
                _labels(points, table[column], data.indexes[name], how.date_format), dims=dim
            )
            for name, column in columns.items()
        }
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


def read(path: Path) -> pd.DataFrame:
    """Return the table in a csv or parquet file."""
    check_suffix(path)
    try:
        return pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    except MemoryError:
        raise
    except ImportError:
        raise messages.extra_missing("pyarrow", "parquet") from None
    except Exception as error:  # a parser may raise anything
        raise messages.unreadable(path, error) from error


def write(path: Path, table: pd.DataFrame, suffix: str) -> None:
    """Write a table to `path` in the format of files with that suffix."""
    if suffix == ".csv":
        table.to_csv(path, index=False)
        return
    try:
        table.to_parquet(path, index=False)
    except ImportError:
        raise messages.extra_missing("pyarrow", "parquet") from None


def check_suffix(path: Path) -> None:
    if path.suffix not in SUFFIXES:
        raise messages.unknown_suffix(path, SUFFIXES)


def _variables(
    place: str, data: xarray.Dataset, names: Sequence[str], columns: Sequence[str]
) -> list[str]:
    """Return the variables that are asked for, or all that have a dimension of the points."""
    for name in names:
        if name not in data.data_vars:
            raise FileError(
                f"{place}: has no variable {name!r} (allowed: {_listed(data.data_vars)})"
                f"{did_you_mean(name, data.data_vars)}"
            )
    if names:
        return list(names)
    dims = {data[name].dims[0] for name in columns}
    return [str(name) for name, array in data.data_vars.items() if dims <= set(array.dims)]


def _labels(
    points: Path, column: pd.Series[Any], index: pd.Index[Any], date_format: str | None
) -> Any:
    """Return a column as labels of an axis; times are read where the axis has times."""
    if index.dtype.kind != "M":
        return column.to_numpy()
    if column.dtype.kind == "M":
        return column.dt.tz_convert(None) if column.dt.tz else column.to_numpy()
    present = column.notna()
    texts = column.astype(str).where(present)

    def error(bad: pd.Series[Any], what: str, allowed: str) -> FileError:
        row = int(bad.argmax())
        more = f"; so are {int(bad.sum())} of {len(bad)} rows" if bad.sum() > 1 else ""
        return FileError(
            f"{points}: {one_line(str(column.name))}[{row}] = {shown_value(texts[row])} {what} "
            f"(allowed: {allowed}, such as 2010-07-14T06:30){more}"
        )

    def parsed(**options: Any) -> pd.Series[Any]:
        with warnings.catch_warnings(action="ignore"):  # of pandas, that it guesses
            return pd.to_datetime(texts, utc=True, errors="coerce", **options)

    zoned = texts.str.contains(_ZONE, na=False)
    mixed = present & (zoned != zoned[present.argmax()])
    if mixed.any():
        have = "has a time zone, and the first has none"
        raise error(
            mixed,
            have if zoned[mixed.argmax()] else "has no time zone, and the first has one",
            "all times with a zone, or all without",
        )
    times = parsed(format=date_format or "ISO8601")
    failed = present & times.isna()
    if failed.any() and date_format is None:
        months, days = parsed(), parsed(dayfirst=True)
        both = [(each.isna() & present).any() for each in (months, days)]
        differ = present & (months != days)
        if not any(both) and differ.any():
            raise error(
                differ,
                "is an ambiguous date",
                "--date-format %d/%m/%Y, --date-format %m/%d/%Y, or times",
            )
        times = days if both[0] else months
        failed = present & times.isna()
    if failed.any():
        allowed = "times" if date_format is None else f"times as {date_format}, or without it times"
        raise error(failed, "is not a time", allowed)
    return times.dt.tz_localize(None).to_numpy()


def _joined(table: pd.DataFrame, result: xarray.Dataset, dim: str) -> pd.DataFrame:
    """Return the table with the values, a row for every point and label of other dimensions."""
    table = table.set_axis(pd.RangeIndex(len(table), name=dim), axis="index")
    plain = result.reset_coords(drop=True).drop_vars(dim, errors="ignore")
    others = [name for name in plain.sizes if name != dim]
    values = plain.to_dataframe(dim_order=[dim, *others]).reset_index(others)
    return table.join(values, how="right" if others else "left").reset_index(drop=True)


def _listed(names: Iterable[object]) -> str:
    return one_line(listed(map(str, names)))
