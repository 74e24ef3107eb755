"""Look up values in a dataset for the points in a table, and add them to the table as columns.

The columns of a table contain strings or have Parquet types. Only columns that select points are
converted. The output consists of the unchanged input and additional columns.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray

from ndgather import messages
from ndgather.arrays.xarray import selection
from ndgather.arrays.xarray.arrays import ZARR_SUFFIX, Options, is_zarr, select, storage_options
from ndgather.arrays.xarray.engine import zarr_store
from ndgather.arrays.xarray.labels import (
    NAMES,
    WHOLE,
    is_projected,
    kind_of,
    match_axes,
    objects,
    parse_date,
)
from ndgather.arrays.xarray.selection import TRANSFORM, Request
from ndgather.errors import AttributeValueError, FileError, NdgatherError, one_line
from ndgather.messages import (
    did_you_mean,
    listed,
    plural,
    quoted,
    reason,
    shown_value,
    similar,
)
from ndgather.stations import rasters
from ndgather.stations.tables import (
    BLOCK,
    PIPE,
    Dialect,
    Table,
    read_table,
    with_row_bar,
    write_table,
    write_text,
)
from ndgather.stored.estimates import Estimate

_MISSING = frozenset(("", "NA", "NaN", "nan"))
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_INTEGER = re.compile(r"[+-]?\d{1,30}")
_NOT_OF_NUMBERS = re.compile(r"[^0-9.eE+-]")
_POSITION = re.compile(r"\d{1,18}")
_ZONE = r"(?:Z|[+-]\d\d(?::?\d\d)?)"
_CLOCK = r"\d\d(?::?\d\d(?::?\d\d(?:[.,]\d+)?)?)?"
_ISO = re.compile(rf"\d{{4}}-?\d\d-?\d\d(?:[T ]{_CLOCK} ?{_ZONE}?)?|\d{{4}}-\d\d")
_ZONED = re.compile(rf".*[T ]\d\d.*{_ZONE}")
_CELL = 200  # estimated memory per cell (a Python object), in bytes
_EXAMPLE = "such as 2010-07-14T06:30"
_LISTING = "PROPFIND"  # the HTTP method with which obstore lists a directory
_NO_DATA_SET = "an array has no coordinates (allowed: the group that contains it)"
_KEEP = "--keep COLUMN makes a column select nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """A lookup of values in a dataset for the points in a table.

    Columns whose names match labels of the dataset select points. All other columns are copied. If
    `variables` is empty, every variable with the dimensions of the points is read. If variables
    have additional dimensions, each point has a row for every combination of labels along them.
    """

    place: str
    points: Path
    group: str | None = None
    dialect: Dialect
    request: Request  # the options of the lookup
    memory: Any = None
    progress: Any = None
    variables: Sequence[str] = ()
    rename: Mapping[str, str] = field(default_factory=dict)  # maps columns to coordinates
    keep: Sequence[str] = ()  # columns that do not select points
    outer: bool = False  # whether a point may have several rows
    date_format: str | None = None
    add_labels: bool = False

    def values(self) -> Result:
        """Look up the points, and return a column of values for every variable."""
        with self._opened() as (table, chosen, labels):
            request = labels.request
            options = storage_options("sel", self.memory, self.progress)
            found, whole, absent = _select(chosen, labels.labels, labels.dim, request, options)
            added = labels.chosen(found, request.period) if self.add_labels else {}
            plain = found.reset_coords(drop=True).drop_vars(labels.dim, errors="ignore")
            others = [*plain.sizes]
            others.remove(labels.dim)
            new_names = [*map(str, (*others, *plain.data_vars, *added))]
            if len({*new_names} - {*table.names}) < len(new_names):
                taken = [n for n in new_names if n in table.names or new_names.count(n) > 1]
                raise self._error(
                    f"cannot get a column {taken[0]}, because the table or the data already have "
                    f"that name (allowed: other names)"
                )
            rows_per_point = math.prod(map(plain.sizes.__getitem__, others))
            return Result(
                lookup=self,
                table=table,
                data=plain,
                dim=labels.dim,
                others=others,
                added=added,
                new_names=new_names,
                rows_per_point=rows_per_point,
                row_count=rows_per_point * plain.sizes[labels.dim],
                labels=labels.of_table,
                whole=whole,
                absent=absent,
            )

    def plan(self) -> Plan:
        """Estimate the reads and the memory that `values` requires."""
        with self._opened() as (table, chosen, labels):
            request = labels.request
            options = storage_options("sel", self.memory)
            estimates = selection.estimate_labels(chosen, labels.labels, request, options)
            rows = max((len(each) for each in labels.of_table.values()), default=0)
            of_labels = sum(each.nbytes for each in labels.of_table.values())
            # Labels, positions and temporary arrays take about 6 times the memory of the labels.
            held = table.nbytes + 6 * of_labels
            cells = min(rows, BLOCK) * (len(table.names) + len(chosen.data_vars))
            results = sum(each.result_bytes for each in estimates.values())
            more = max((e.memory_bytes - e.result_bytes for e in estimates.values()), default=0)
            table_bytes = held + _CELL * cells
            return Plan(
                variables=estimates,
                rows=rows,
                table_bytes=table_bytes,
                memory_bytes=table_bytes + results + more,
            )

    @contextmanager
    def _opened(self) -> Iterator[tuple[Table, xarray.Dataset, _Labels]]:
        """Open the dataset, and yield the table, the chosen variables and the labels."""
        table = read_table(self.points, self.dialect)
        with opened(self.place, self.group) as data:
            dims_of = _dims_by_name(data)
            columns = self._selecting(table, data, dims_of)
            selected = dict.fromkeys(chain.from_iterable(map(dims_of.__getitem__, columns)))
            chosen = data[self._variables(data, selected)]
            chosen = chosen.assign_coords({n: data[n] for n in columns if n in data.coords})
            chosen.encoding = data.encoding
            self._check_complete(table, chosen, columns, selected)
            for name, array in chosen.data_vars.items():
                _check_packing(self.place, name, array)
            dim = "point"
            while dim in chosen.sizes or dim in chosen.variables:
                dim += "_"
            names: dict[Hashable, Hashable] = dict(columns.items())
            labels = _Labels(chosen, self.request.prepare(chosen, names), dim)
            read = {n: _Column(c, labels.index_of(n), table, self) for n, c in columns.items()}
            blocks = with_row_bar(
                table.columns(),
                self.progress,
                self.points,
                total=table.size or None,
                count=lambda block: len(block[0]),
            )
            for block in blocks:
                for column in read.values():
                    column.read(block[table.names.index(column.name)])
            for name, column in read.items():
                labels.add(name, column)
            if TRANSFORM in data.encoding:
                labels.find_pixels()
            yield table, chosen, labels

    def _error(self, text: str) -> FileError:
        return FileError(f"{self.points}: {one_line(text)}")

    def _selecting(
        self, table: Table, data: xarray.Dataset, dims_of: Mapping[Hashable, tuple[Hashable, ...]]
    ) -> dict[str, str]:
        """Map coordinates to the columns that contain labels of the coordinates."""
        known = [*map(str, dims_of)]
        free, written = [], []
        for column in table.names:
            if column not in self.keep:
                name = self.rename.get(column, column)
                free.append(column)
                written.append(name if name in known else name.casefold())
        axes = match_axes(data, written)
        for column in (*self.keep, *self.rename):
            new = self.rename.get(column)
            option = f"--keep {column}" if new is None else f"--rename {column}={new}"
            is_reversed = new in table.names and match_axes(data, [column.casefold(), column])
            reverse = f"; write --rename {new}={column}" if is_reversed else None
            _check_known(option, "column", column, table.names, reverse)
            if new is not None and new.casefold() not in axes:
                _check_known(option, "coordinate with labels", new, known)
        named = [
            (str(axes[name]), column)
            for column, name in zip(free, written, strict=True)
            if name in axes
        ]
        own = {*data.indexes, *data.sizes}  # names that take precedence
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
                    f"one of them; {_KEEP}; both in Python, with "
                    f"set_xindex(..., xarray.indexes.NDPointIndex))"
                )
            selecting[name] = column
        if not along.keys() & data.sizes.keys():
            hint = table.separator_hint or _hint(free, data.indexes)
            degrees = {"latitude", "longitude"}.intersection(map(NAMES.get, written))
            of_map = [data[name] for name in data.indexes if is_projected(data[name])]
            if degrees and of_map:
                hint = f"; {selection.reproject(data, of_map[0])}"
            raise self._error(
                f"has the columns {_listed(free)}, but none of them matches labels of the data "
                f"(allowed: {_listed(data.indexes)}){hint}{self._other_groups()}"
            )
        return selecting

    def _other_groups(self) -> str:
        """Return a hint that lists other groups, which may contain a requested name."""
        groups = groups_of(self.place, self.group)
        return f"; the file also has the groups {_listed(groups)}" if groups else ""

    def _variables(self, data: xarray.Dataset, dims: Iterable[Hashable]) -> list[str]:
        """Return the requested variables, or all variables with the dimensions of the points."""
        missing = None
        for name in self.variables:
            if name not in data.data_vars:
                raise FileError(
                    f"{self.place}: has no variable {name!r} (allowed: {_listed(data.data_vars)})"
                    f"{did_you_mean(name, data.data_vars)}{self._other_groups()}"
                )
            if missing is None and not {*dims} <= {*data[name].dims}:
                missing = name
        names = [*self.variables] or [
            str(name) for name, array in data.data_vars.items() if {*dims} <= {*array.dims}
        ]
        if missing is not None or not names:
            what = f"{missing} does not have" if names else "no variable has"
            raise FileError(
                f"{self.place}: {what} all the dimensions {_listed(dims)} of the points (allowed: "
                f"columns for dimensions of a variable; {_KEEP})"
            )
        for name in names if self.request.is_linear else ():
            if data[name].dtype.kind not in "uifcmM":
                raise FileError(
                    f"{self.place}: {name} has {data[name].dtype} values, which cannot be "
                    f"interpolated (allowed: --variable NAME of numbers; --method nearest)"
                )
        return names

    def _check_complete(
        self,
        table: Table,
        chosen: xarray.Dataset,
        columns: dict[str, str],
        selected: Mapping[Hashable, Any],
    ) -> None:
        """Raise FileError if points would have several rows because a dimension has no column."""
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
            f"has no column {_listed(others)}, so each point would have {plural(count, 'row')} "
            f"(allowed: the columns {_listed(dict.fromkeys([*columns, *others]))}, or --outer for "
            f"a row per label of {_listed(longer)}{keep}){_hint(near, others)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An estimate of the reads and the memory of a lookup."""

    variables: Mapping[str, Estimate]
    rows: int  # number of points in the table
    table_bytes: int  # memory for the table and its labels
    memory_bytes: int  # upper bound for the whole lookup


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A table of points and the values found for them."""

    lookup: Lookup
    table: Table
    data: xarray.Dataset  # the values
    dim: str  # the dimension of points
    others: Sequence[Hashable]  # other dimensions, with a row for each point and label
    added: Mapping[str, Any]  # additional columns, with a value for each point
    new_names: Sequence[str]  # names of all columns that are added to the table
    rows_per_point: int
    row_count: int
    labels: Mapping[str, Any]  # maps columns to converted labels
    whole: Sequence[str]  # variables that keep booleans or 64-bit integers despite missing values
    absent: Any  # flags of the points that have no value in these variables

    @property
    def names(self) -> list[str]:
        return [*self.table.names, *self.new_names]

    def write(self, part: Path, output: Path) -> None:
        typed = {}
        if output.name.endswith(".nc") or (
            output.name.endswith(".parquet") and self.table.metadata is None
        ):
            typed = {n: labels for n, labels in self.labels.items() if labels.dtype.kind != "O"}
        as_lines = self._can_copy_lines(output)
        blocks = self._blocks(output, typed, as_lines)
        write_table(part, output, blocks, self.table, as_lines=as_lines)

    def print_to(self, file: Any) -> None:
        as_lines = self._can_copy_lines(PIPE)
        blocks = self._blocks(PIPE, {}, as_lines)
        write_text(file, PIPE, blocks, self.table, as_lines=as_lines)

    def _can_copy_lines(self, output: Path) -> bool:
        """Return whether output rows can be lines of the table followed by unquoted numbers."""
        variables = map(self.data.__getitem__, (*self.others, *self.data.data_vars))
        kinds = {each.dtype.kind for each in (*variables, *self.added.values())}
        return (
            kinds <= {*"biuf"}
            and all(map(str.isidentifier, self.new_names))
            and self.table.has_plain_lines(output)
        )

    def _blocks(
        self, output: Path, typed: Mapping[str, Any], as_lines: bool
    ) -> Iterable[pd.DataFrame]:
        """Return the output rows, with text columns replaced by the columns in `typed`."""
        rows = self._rows(output, typed, as_lines)
        return with_row_bar(rows, self.lookup.progress, output, self.row_count, count=len)

    def _rows(
        self, output: Path, typed: Mapping[str, Any], as_lines: bool
    ) -> Iterator[pd.DataFrame]:
        times = "" if output.name.endswith((".nc", ".parquet")) else "mM"
        data = self.data.map(_texts_of_times, args=(times,))
        data = data.assign_coords({n: _texts_of_times(c, times) for n, c in data.coords.items()})
        added = {n: _texts_of_times(xarray.Variable("x", a), times) for n, a in self.added.items()}
        start, step = 0, max(1, BLOCK // max(1, self.rows_per_point))
        fronts = self.table.lines(step) if as_lines else self.table.frames(step)
        for block in fronts:
            at = slice(start, start := start + len(block))
            front = block.assign(**{n: labels[at] for n, labels in typed.items()} if typed else {})
            behind = self._values(data, at)
            rows = behind.index.to_numpy(np.intp)
            behind = behind.reset_index(drop=True)
            for name, each in added.items():
                behind[name] = each.values[at][rows]
            yield pd.concat([front.iloc[rows].reset_index(drop=True), behind], axis=1)

    def _values(self, data: xarray.Dataset, at: slice) -> pd.DataFrame:
        """Return a frame with the values of the points in `at`, which are numbered from 0."""
        with messages.converted_errors(
            lambda error: self.lookup._error(f"cannot be extended: {reason(error)}")
        ):
            values = data.isel({self.dim: at}).to_dataframe([self.dim, *self.others])
            values = values.reset_index([*self.others])
        for name in self.whole:
            missing = self.absent[at][values.index.to_numpy(np.intp)]
            array = values[name].to_numpy()
            kind = pd.arrays.BooleanArray if array.dtype == bool else pd.arrays.IntegerArray
            values[name] = kind(array, missing)
        return values


def _texts_of_times(array: Any, kinds: str) -> Any:
    """Convert times to strings if their dtype is in `kinds` or their calendar is non-standard.

    Parquet does not support non-standard calendars. All times of an array get the same format.
    """
    flat = pd.Series(array.values.ravel())
    if array.dtype.kind in kinds:
        texts = flat.astype(str).astype(object).mask(flat.isna().to_numpy(), None)
    elif array.dtype == object and hasattr(next(iter(flat.dropna()), None), "calendar"):
        texts = flat.map(str, na_action="ignore")
    else:
        return array
    return array.copy(data=texts.to_numpy(object).reshape(array.shape))


def _select(
    data: xarray.Dataset,
    labels: Mapping[Hashable, Any],
    dim: str,
    request: Request,
    options: Options,
) -> tuple[xarray.Dataset, list[str], Any]:
    """Return the selected values, the names of variables that keep their type, and missing points.

    64-bit integers and booleans keep their type even if points are missing. Other integers become
    floats.
    """
    data = data.copy(deep=False)
    wide = []
    if request.missing != "raise" and not request.is_linear:
        kept = ("bool", "int64", "uint64")
        wide = [name for name, array in data.data_vars.items() if array.dtype in kept]
    if not wide:
        return selection.select_labels(data, labels, request, options), [], None
    data, positions = selection.find_positions(data, labels, request)
    absent = np.any([np.asarray(each) < 0 for each in positions.values()], axis=0)
    if not absent.any() or absent.all():
        return select(data, positions, options, missing=request.missing), [], None
    alone = data[wide].copy(deep=False)
    found = select(data.drop_vars(wide), positions, options, missing=request.missing)
    there = {name: each[~absent] for name, each in positions.items()}
    present = select(alone, there, replace(options, plans=[]))
    present = present.isel({dim: (np.cumsum(~absent) - 1).clip(0)})
    found = found.assign({name: present[name].variable for name in wide})
    return found[[*data.data_vars]], [*map(str, wide)], absent


def _check_packing(place: str, name: Hashable, array: xarray.DataArray) -> None:
    """Raise FileError for packed values that xarray did not unpack."""
    notes = {str(key).casefold(): value for key, value in array.attrs.items()}
    for key in ("scale_factor", "add_offset"):
        if isinstance(text := array.encoding.get(key), str | bytes):
            notes[key] = text
    for keys in (("scale_factor",), ("add_offset",), ("slope", "intercept"), ("scale", "offset")):
        if not notes.keys() >= {*keys}:
            continue
        there = {key: notes[key] for key in keys}
        texts = [value for value in there.values() if isinstance(value, str)]
        if len(keys) == 1 or (array.dtype.kind in "iu" and not texts):
            plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in there.items()}
            shown = " and ".join(f"{key} = {shown_value(value)}" for key, value in plain.items())
            raise FileError(
                f"{place}: {name} has packed values, but {shown} cannot be applied (allowed: "
                f"numeric scale_factor and add_offset as in CF; --variable NAME of others)"
            )


def check_date_format(form: str) -> None:
    """Raise AttributeValueError for a time format that pandas cannot parse."""
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
        f"ndgather sel: --date-format = {quoted(form)} is not a time format: {why} (allowed: "
        f"directives of Python's strptime, such as %d/%m/%Y %H:%M)"
    )


def opened(place: str, group: str | None = None) -> xarray.Dataset:
    """Open a dataset lazily; ``FILE/GROUP`` refers to a group in a file."""
    path, opener, options = _opener_of(place, group)
    data: xarray.Dataset | None = None
    with messages.converted_errors(lambda error: _unreadable(place, error)):
        try:
            data = opener(xarray.open_dataset, **options)
        except Exception as error:
            if _LISTING in reason(error):  # other attempts would wait for its retries again
                raise
            _check_group(place, group)
            if not groups_of(place, group):
                raise
    if data is not None and data.data_vars:
        return data
    _check_group(place, group)
    groups = groups_of(place, group)
    if data is not None and not groups:
        return data
    what = options.get("group") or "the dataset"
    raise FileError(
        f"{one_line(place)}: {one_line(what)} has no variables (allowed: the groups "
        f"{_listed(groups)}); write {shlex.quote(f'{path}/{groups[0]}')}"
    )


def _check_group(place: str, group: str | None) -> None:
    """Raise FileError if a path leads to a variable instead of a dataset."""
    whole = place if group is None else f"{place}/{group}"
    outer, _, name = whole.rstrip("/").rpartition("/")
    names: list[str] = []
    with suppress(Exception):  # opening fails if the outer path is not a dataset
        _, opener, options = _opener_of(outer, None)
        with opener(xarray.open_dataset, **options) as data:
            names = [*map(str, data.data_vars)]
    if outer and name in names:
        raise FileError(
            f"{one_line(place)}: cannot be read: {_NO_DATA_SET}; write {shlex.quote(outer)} "
            f"--variable {shlex.quote(name)}"
        )


def groups_of(place: str, group: str | None = None) -> list[str]:
    with suppress(Exception):  # the file has no groups, or the store cannot list groups
        _, opener, options = _opener_of(place, group)
        found = opener(xarray.open_groups, **{**options, "group": None})
        return [name.strip("/") for name, data in found.items() if data.data_vars and name != "/"]
    return []


def _opener_of(place: str, group: str | None) -> tuple[str, Any, dict[str, Any]]:
    """Return the path of a file or store, a function that opens it, and options for xarray."""
    path = Path(place)
    if "://" not in place and not path.exists():
        inside = [each for each in path.parents if each.is_file() or each.suffix == ZARR_SUFFIX]
        if inside:
            path, inner = inside[0], str(path.relative_to(inside[0]))
            place, group = str(path), inner if group is None else f"{inner}/{group}"
    options: dict[str, Any] = {"chunks": None} | ({} if group is None else {"group": group})
    if is_zarr(place):
        options["engine"] = "zarr"

    def open_by(function: Any, **options: Any) -> Any:
        with warnings.catch_warnings():  # xarray warns about stores without consolidated metadata
            warnings.filterwarnings("ignore", "Failed to open Zarr store", RuntimeWarning)
            if "engine" in options:
                return function(zarr_store(place), **options)
            if not path.exists():
                raise FileNotFoundError(2, os.strerror(2))
            if path.suffix.lower() in rasters.SUFFIXES:
                return rasters.opened(place)
            return function(place, **options)

    return place, open_by, options


def _unreadable(place: str, error: Exception) -> NdgatherError:
    """Return the error for a place that cannot be opened or requires a missing package."""
    # xarray raises ValueError if no package for netCDF is installed.
    no_reader = isinstance(error, ValueError) and not any(map(find_spec, ("h5netcdf", "netCDF4")))
    if no_reader or isinstance(error, ImportError):
        return messages.reader_missing(place, getattr(error, "name", None))
    why = reason(error)
    if _LISTING in why:
        why = (
            "the server does not list its files, and the metadata of the group is not consolidated "
            "(allowed: a group after zarr.consolidate_metadata(store))"
        )
    elif type(error).__name__ == "ContainsArrayError":  # an exception of zarr
        why = _NO_DATA_SET
    elif isinstance(error, ValueError) and "did not find a match in any of xarray's" in why:
        why = "it is not a dataset (allowed: netCDF, zarr, GeoTIFF)"
    return FileError(f"{place}: cannot be read: {why}")


@dataclass(slots=True)
class _Labels:
    """The labels of points and the options of their lookup."""

    data: xarray.Dataset
    request: Request
    dim: str
    labels: dict[Hashable, Any] = field(default_factory=dict)
    asked: dict[Hashable, Any] = field(default_factory=dict)  # labels as given in the table
    of_table: dict[str, Any] = field(default_factory=dict)  # maps columns to labels

    def chosen(self, result: xarray.Dataset, periods: Mapping[Hashable, Any]) -> dict[str, Any]:
        """Return the selected labels of the data and their distances from the requested labels."""
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

    def index_of(self, name: str) -> Any:
        """Return the index of an axis, or None for an axis without labels."""
        if name not in self.data.coords or name in self.data.indexes:
            return self.data.indexes.get(name)
        values = np.atleast_1d(self.data[name].values)
        return xarray.Variable("x", values).to_index_variable().to_index()

    def add(self, name: str, texts: _Column) -> None:
        """Add a column's labels, which must equal the coordinate if the coordinate is scalar."""
        index, labels = texts.index, texts.labels()
        self.of_table[texts.name] = self.asked[name] = labels
        if name in self.data.coords and not self.data[name].ndim:
            if index.dtype.kind == "f" and labels.dtype.kind in "iuf":
                labels = labels.astype(index.dtype)
            differ: Any = np.array([label != index[0] for label in labels], np.bool)
            allowed = f"{index[0]}; --keep {texts.name} makes the column select nothing"
            texts.check(differ, f"is not the {name} of the data", allowed)
            return
        self.labels[name] = xarray.DataArray(labels, dims=self.dim)

    def find_pixels(self) -> None:
        """Replace labels of a raster with the centers of the pixels that contain them."""
        for name, array in self.labels.items():
            if name not in ("x", "y") or self.request.method_of(name) != "nearest":
                continue
            index, labels = self.data.indexes[name], array.values
            selection.labels_of(self.request, self.data, name, labels, index)  # may raise
            centers = rasters.centers(self.data, name, labels, self.request.period.get(name))
            tolerance = self.request.tolerance_of(name)
            if tolerance is not None:
                with np.errstate(invalid="ignore"):
                    centers = np.where(abs(centers - labels) <= tolerance, centers, labels)
            elif self.request.missing == "raise" and np.isnan(centers).any():
                absent = np.where(np.isnan(centers), -1, 0)
                raise selection.missing_labels(
                    self.request, self.data, name, labels, absent, self.labels
                )
            self.labels[name] = array.copy(data=centers)


class _CellError(Exception):
    """An exception for cells that are not valid labels."""

    def __init__(self, bad: Any, *texts: str) -> None:
        super().__init__()
        self.bad, self.texts = bad, texts


class _Column:
    """A column whose cells become labels; `index` is None for an axis without labels."""

    def __init__(self, name: str, index: Any, table: Table, lookup: Lookup) -> None:
        self.name, self.index, self.table, self.lookup = name, index, table, lookup
        self.parts: list[Any] = []
        self.error: _CellError | None = None
        self.first, self.bad_count, self.row_count = 0, 0, 0
        self.zoned: bool | None = None  # whether times have a time zone; None if not yet known
        self.kind = None if index is None else kind_of(index)
        of_integers = index is not None and index.dtype.kind in "iu"
        self._is_exact = of_integers and lookup.request.method is None

    def read(self, column: Any) -> None:
        """Convert the cells of the column in a block of the table."""
        try:
            self.parts.append(self._labels_of(column))
        except _CellError as error:
            if self.error is None:
                self.error, self.first = error, self.row_count + int(np.argmax(error.bad))
            self.bad_count += int(np.sum(error.bad))
        self.row_count += len(column)

    def labels(self) -> Any:
        """Return all labels with the type of the axis; raise FileError if a cell is not a label."""
        if self.error is not None:
            raise self._error(self.first, self.bad_count, *self.error.texts)
        parts, self.parts = self.parts, []
        if len(parts) == 1:
            return parts[0]
        if self._is_exact and len({part.dtype for part in parts}) > 1:
            whole = [part for part in parts if part.dtype.kind in "iu" and part.size]
            if any(max(int(part.max()), -int(part.min())) > WHOLE for part in whole):
                parts = [part.astype(object) for part in parts]  # float64 would round
        return np.concatenate(parts)

    def check(self, bad: Any, what: str, allowed: str) -> None:
        if bad.any():
            raise self._error(int(np.argmax(bad)), int(np.sum(bad)), what, allowed)

    def _error(self, row: int, count: int, what: str, allowed: str, more: str = "") -> FileError:
        block = next(islice(self.table.columns(), row // BLOCK, None))
        cell = block[self.table.names.index(self.name)][row % BLOCK]
        others = f"; this affects {count} of {self.row_count} rows" if count > 1 else ""
        return FileError(
            f"{self.lookup.points}: {one_line(self.name)}[{row}] = "
            f"{shown_value('' if cell is None else str(cell).strip())} {what} (allowed: {allowed})"
            f"{others}{more}"
        )

    def _labels_of(self, column: Any) -> Any:
        cells: Sequence[str] = column
        if isinstance(column, pd.Series):  # from Parquet
            if column.dtype.kind == "M":
                times: Any = column.dt
                return (times.tz_convert(None) if times.tz else column).to_numpy()
            if column.dtype.kind in "iufm":
                return column.to_numpy()
            cells = ["" if value is None else str(value) for value in column]
        texts = [*map(str.strip, cells)]
        if self.index is None:
            allowed = "0 and above: the axis has no labels"
            _check(~_are(_POSITION, texts), "is not a position", allowed)
            return np.array([int(text) for text in texts], np.int64)
        if isinstance(self.index, xarray.CFTimeIndex):
            return self._of_calendar(texts)
        kind = self.kind
        if kind == "numbers":
            return self._numbers(texts)
        if kind == "times":
            return self._times(texts)
        if kind == "durations":
            return _durations(texts)
        if kind == "bytes":
            return objects(cell.encode(errors="surrogatepass") for cell in cells)
        if kind is None and len(self.index):
            raise FileError(
                f"{self.lookup.points}: {one_line(self.name)} has {self.index.dtype} labels, "
                f"which text cannot represent (allowed: numbers, strings, times and durations)"
            )
        return objects(cells)

    def _numbers(self, texts: Sequence[str]) -> Any:
        decimal = self.lookup.dialect.decimal
        if decimal != ".":
            texts = [text.replace(".", "?").replace(decimal, ".") for text in texts]
        joined = "".join(texts)
        if not (self._is_exact or _NOT_OF_NUMBERS.search(joined)):
            kind: Any = float if {*".eE"}.intersection(joined) else int
            with suppress(ValueError):  # parse plain numbers in Python, which is faster
                found = np.array([*map(kind, texts)])
                if found.dtype.kind in ("f" if kind is float else "iu"):
                    return found
        present = _are_present(texts)
        bad = present & ~_are(_NUMBER, texts)
        comma = bad.any() and decimal == "." and "," in texts[bad.argmax()]
        hint = "; write --decimal ',' for a decimal comma" if comma else ""
        _check(bad, "is not a number", f"numbers such as 1{decimal}5", hint)
        whole, numbers = _are(_INTEGER, texts), []
        for text, is_there, is_whole in zip(texts, present, whole, strict=True):
            numbers.append(int(text) if is_whole else float(text) if is_there else None)
        if texts and whole.all() and np.array(numbers).dtype.kind in "iu":
            return np.array(numbers)
        if self._is_exact and any(type(each) is int and abs(each) > WHOLE for each in numbers):
            return objects(numbers)  # float64 would round
        return np.array(numbers, float)

    def _of_calendar(self, texts: Sequence[str]) -> Any:
        labels, bad = objects([None] * len(texts)), np.zeros(len(texts), bool)
        calendar = self.index.calendar
        for row in np.flatnonzero(_are_present(texts)).tolist():
            try:
                labels[row] = parse_date(texts[row], calendar, self.lookup.date_format)
            except (ValueError, TypeError, OverflowError):
                bad[row] = True
        _check(bad, f"is not a time of the calendar {calendar}", f"times {_EXAMPLE}")
        return labels

    def _times(self, texts: Sequence[str]) -> Any:
        """Parse times in the requested format or in ISO 8601."""
        codes, distinct = pd.factorize(objects(texts))  # parse each distinct time once
        texts = distinct.tolist()
        form, present = self.lookup.date_format, _are_present(texts)
        zoned = _are(_ZONED, texts)
        if self.zoned is None and present.any():
            self.zoned = bool(zoned[present.argmax()])
        mixed = present & (zoned != self.zoned)
        allowed = f"all times with a time zone, or all without, {_EXAMPLE}"
        what = f"has {'no' if self.zoned else 'a'} time zone, unlike the first time"
        _check(mixed[codes], what, allowed)
        given = pd.Series(np.where(present, distinct, None), dtype=object)
        times = pd.to_datetime(given, utc=True, errors="coerce", format=form or "ISO8601")
        failed = present & times.isna().to_numpy()
        allowed = f"times in the format {form}, or without --date-format times {_EXAMPLE}"
        if form is None:
            failed |= present & ~_are(_ISO, texts)
            allowed = f"times {_EXAMPLE}; other formats with --date-format, such as %d/%m/%Y"
        _check(failed[codes], "is not a time", allowed)
        return times.dt.tz_localize(None).to_numpy()[codes]


def _durations(texts: Sequence[str]) -> Any:
    present = _are_present(texts)
    given = pd.Series(np.where(present, objects(texts), None))
    with warnings.catch_warnings(action="ignore"):
        found = pd.to_timedelta(given, errors="coerce")
    bad = present & (_are(_NUMBER, texts) | found.isna().to_numpy())
    _check(bad, "is not a duration with a unit", "durations such as 6h")
    return found.to_numpy("m8[ns]" if not len(found) else None)


def _check(bad: Any, what: str, allowed: str, more: str = "") -> None:
    if bad.any():
        raise _CellError(bad, what, allowed, more)


def _are_present(texts: Sequence[str]) -> Any:
    return np.array([text not in _MISSING for text in texts], bool)


def _are(form: re.Pattern[str], texts: Sequence[str]) -> Any:
    """Return whether each string fully matches a pattern."""
    return np.array([form.fullmatch(text) is not None for text in texts], bool)


def _check_known(
    option: str, kind: str, name: str, known: Iterable[Hashable], hint: str | None = None
) -> None:
    if name not in known:
        hint = did_you_mean(name, known) if hint is None else one_line(hint)
        raise FileError(
            f"{one_line(option)}: {one_line(name)} is not a {kind} (allowed: "
            f"{_listed(known)}){hint}"
        )


def _dims_by_name(data: xarray.Dataset) -> dict[Hashable, tuple[Hashable, ...]]:
    """Map the name of each coordinate and each unlabeled dimension to a tuple of dimensions."""
    coords = data.coords
    dims: dict[Hashable, tuple[Hashable, ...]] = {}
    for name in (*data.indexes, *coords, *data.sizes):
        dims[name] = coords[name].dims if name in coords else (name,)
    return dims


def _hint(columns: Iterable[str], names: Iterable[Hashable]) -> str:
    """Return a hint to rename columns whose names resemble names of coordinates."""
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
    """Return whether two names are equal or one is an abbreviation of at least three letters."""
    shorter, longer = sorted((one, other), key=len)
    return shorter == longer or (len(shorter) >= 3 and longer.startswith(shorter))


def _listed(names: Iterable[object]) -> str:
    return one_line(listed(map(str, names)))
