"""Values of a stored data set at the points of a table: csv and parquet files, by pandas."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import xarray

from ndgather import messages
from ndgather.arrays.xarray import accessor
from ndgather.errors import FileError, one_line
from ndgather.messages import did_you_mean, listed, reason
from ndgather.stored import open_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SUFFIXES = (".csv", ".parquet")

_ZARR_SUFFIX = ".zarr"


def values_at(
    place: str, points: Path, names: Sequence[str], options: Mapping[str, Any]
) -> pd.DataFrame:
    """Return the table of `points` with a column for every variable of the data set at `place`.

    Columns named as labels of the data set select; other columns are kept. `names` are the
    variables, or none for every variable that the points select from; `options` are those of
    `Accessor.sel`. A variable with more dimensions has a row for every one of their labels.
    """
    table = read(points)
    with opened(place) as data:
        columns = [name for name in table.columns if name in data.indexes]
        if not columns:
            raise FileError(
                f"{points}: has the columns {_listed(table.columns)}, none of which is named as "
                f"labels of the data (allowed: {_listed(data.indexes)})"
            )
        chosen = data[_variables(place, data, names, columns)]
        twice = [name for name in chosen.data_vars if name in table.columns]
        if twice:
            raise FileError(
                f"{points}: has a column {one_line(str(twice[0]))}, which is the name of a "
                f"variable that is selected (allowed: columns of other names)"
            )
        dim = "point"
        while dim in chosen.sizes:
            dim += "_"
        labels = {
            name: xarray.DataArray(_labels(points, table[name], data.indexes[name]), dims=dim)
            for name in columns
        }
        result = accessor.Accessor(chosen).sel(labels, **options)
        return _joined(table, result, dim)


def opened(place: str) -> xarray.Dataset:
    """Open a data set without reading its arrays."""
    is_zarr = "://" in place or Path(place).suffix == _ZARR_SUFFIX or Path(place).is_dir()
    try:
        if not is_zarr:
            if not Path(place).exists():
                raise FileNotFoundError(2, os.strerror(2))
            return xarray.open_dataset(place, chunks=None)
        with warnings.catch_warnings():  # xarray's, that it reads more files than it might
            warnings.filterwarnings("ignore", "Failed to open Zarr store", RuntimeWarning)
            return xarray.open_dataset(open_path.store_of(place), engine="zarr", chunks=None)
    except MemoryError:
        raise
    except Exception as error:  # a reader of a format may raise anything
        raise messages.unreadable(place, error) from error


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


def _labels(points: Path, column: pd.Series[Any], index: pd.Index[Any]) -> Any:
    """Return a column as labels of an axis; times are read where the axis has times."""
    if index.dtype.kind != "M" or column.dtype.kind == "M":
        return column.to_numpy()
    try:
        return pd.to_datetime(column, utc=True).dt.tz_localize(None).to_numpy()
    except (ValueError, TypeError) as error:
        raise FileError(
            f"{points}: column {one_line(str(column.name))} does not hold times: "
            f"{one_line(reason(error))} (allowed: times such as 2010-07-14T06:30)"
        ) from error


def _joined(table: pd.DataFrame, result: xarray.Dataset, dim: str) -> pd.DataFrame:
    """Return the table with the values, a row for every point and label of other dimensions."""
    table = table.set_axis(pd.RangeIndex(len(table), name=dim), axis="index")
    plain = result.reset_coords(drop=True).drop_vars(dim, errors="ignore")
    others = [name for name in plain.sizes if name != dim]
    values = plain.to_dataframe(dim_order=[dim, *others]).reset_index(others)
    return table.join(values, how="right" if others else "left").reset_index(drop=True)


def _listed(names: Iterable[object]) -> str:
    return one_line(listed(map(str, names)))
