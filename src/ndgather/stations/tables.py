"""Tables in text and Parquet files, with netCDF as an additional output format.

The cells of text tables are strings, and Parquet columns keep their types. Tables are parsed and
written in blocks of rows. Text files are kept in memory as bytes instead of parsed cells.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import xarray

from ndgather import messages
from ndgather.errors import FileError, one_line
from ndgather.messages import plural, quoted

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
OUTPUTS = (*SUFFIXES, ".nc")
PIPE = Path("-")  # standard input or output, as text
BLOCK = 2**13  # rows per block; larger blocks, with a list per row, slow down garbage collection

Block = TypeVar("Block")

_BYTE_ORDER_MARK = "\ufeff"
_LONGEST_CELL = 2**31 - 1
_WHOLE = 2**53  # float64 represents all integers up to this value


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The text format of a table."""

    separator: str | None = None  # None for a comma, or for a tab in .tsv files
    decimal: str = "."
    encoding: str = "utf-8"

    def separator_of(self, path: Path) -> str:
        return self.separator or ("\t" if path.name.endswith((".tsv", ".tsv.gz")) else ",")


class TextTable:
    """A text table, whose cells are strings."""

    metadata = None

    def __init__(self, path: Path, content: bytes, dialect: Dialect) -> None:
        self.path, self.dialect, self.nbytes = path, dialect, len(content)
        self._content = content
        self.size = 0  # the number of rows, or 0 until all rows have been read
        self._separator = dialect.separator_of(path)
        first: list[str] = []
        rows = self._rows(first)
        self.names = next(rows, [])
        if not self.names:
            raise FileError(
                f"{path}: cannot be read: no columns (allowed: a first line with their names)"
            )
        self.mark = _BYTE_ORDER_MARK if first[0].startswith(_BYTE_ORDER_MARK) else ""
        self.line_end = first[-1][len(first[-1].rstrip("\r\n")) :] or "\n"
        # Check the first rows now, so that a wrong separator is reported before other errors.
        self._check_rows([*islice(rows, BLOCK)], 0)

    def _rows(self, lines_read: list[str] | None = None) -> Iterator[list[str]]:
        """Yield the header and the rows, without trailing empty lines."""
        csv.field_size_limit(_LONGEST_CELL)
        with messages.converted_errors(lambda error: messages.unreadable(self.path, error)):
            file = io.BytesIO(self._content)
            lines = iter(io.TextIOWrapper(file, self.dialect.encoding, newline=""))
            first = next(lines, "")
            lines = chain([first.removeprefix(_BYTE_ORDER_MARK)], lines)
            if lines_read is not None:
                lines_read.append(first)
                lines = _noted(lines, lines_read)
            empty = 0
            for row in csv.reader(lines, delimiter=self._separator, strict=True):
                if not row:
                    empty += 1
                    continue
                if empty:
                    yield from repeat([], empty)
                    empty = 0
                yield row

    def columns(self, count: int = BLOCK) -> Iterator[list[Any]]:
        """Yield blocks of `count` rows as lists of columns; an empty table yields one block."""
        rows, start = self._rows(), 0
        next(rows)
        while (block := [*islice(rows, count)]) or not start:
            if start:
                self._check_rows(block, start)
            yield [*zip(*block, strict=True)] or [()] * len(self.names)
            start += len(block)
            if not block:
                break
        self.size = start

    def frames(self, count: int = BLOCK) -> Iterator[pd.DataFrame]:
        """Yield blocks of `count` rows as frames; an empty table yields one frame."""
        for columns in self.columns(count):
            frame = pd.DataFrame(dict(enumerate(columns)), dtype=object)
            yield frame.set_axis(self.names, axis=1)

    def has_plain_lines(self, output: Path) -> bool:
        """Return whether rows of text output can begin with the unchanged lines of this table."""
        of_utf8 = codecs.lookup(self.dialect.encoding).name == "utf-8"
        separators = {self._separator, self.dialect.separator_of(output)}
        is_clear = len(separators) == 1 and self.dialect.decimal != self._separator
        is_text = output == PIPE or not output.name.endswith((".nc", ".parquet"))
        quoted_or_broken = b'"' in self._content or b"\r" in self._content
        return is_text and of_utf8 and is_clear and not quoted_or_broken

    def lines(self, count: int = BLOCK) -> Iterator[pd.DataFrame]:
        """Yield frames with a single column of lines; the name of the column is the header line."""
        lines = io.TextIOWrapper(io.BytesIO(self._content), "utf-8", newline="\n")
        header = next(lines).removeprefix(_BYTE_ORDER_MARK).removesuffix("\n")
        for start in range(0, max(1, self.size), count):
            some = islice(lines, min(count, self.size - start))  # without trailing empty lines
            yield pd.DataFrame({header: [line.removesuffix("\n") for line in some]}, dtype=object)

    @property
    def separator_hint(self) -> str:
        """If the only column name contains another separator, a hint to use that separator."""
        others = [other for other in ",;\t|" if other != self._separator and other in self.names[0]]
        return f"; write --separator {others[0]!r}" if others and len(self.names) == 1 else ""

    def _check_rows(self, block: Sequence[Sequence[str]], start: int) -> None:
        names, separator = self.names, self._separator
        if not {*map(len, block)} - {len(names)}:
            return
        at, row = next(pair for pair in enumerate(block) if len(pair[1]) != len(names))
        raise FileError(
            f"{self.path}: row[{start + at}] = {quoted(separator.join(row))} has "
            f"{plural(len(row), 'field')}, but the header has {len(names)} (allowed: the same "
            f"number, separated by {separator!r}){self.separator_hint}"
        )


def _noted(lines: Iterable[str], noted: list[str]) -> Iterator[str]:
    for line in lines:
        noted.append(line)
        yield line


class ParquetTable:
    """A Parquet table, whose columns have Arrow types."""

    mark, line_end, separator_hint = "", "\n", ""

    def __init__(self, path: Path, dialect: Dialect) -> None:
        self.path, self.dialect = path, dialect
        with messages.converted_errors(lambda error: messages.unreadable(path, error)):
            self._table = _pyarrow().parquet.read_table(path)
        self.names = [*map(str, self._table.column_names)]
        self.nbytes, self.size = self._table.nbytes, len(self._table)
        self.metadata = self._table.schema.metadata or {}  # index columns for pandas

    def columns(self, count: int = BLOCK) -> Iterator[list[Any]]:
        for frame in self.frames(count):
            yield [numpy_column(column) for _, column in frame.items()]

    def frames(self, count: int = BLOCK) -> Iterator[pd.DataFrame]:
        for start in range(0, max(1, self.size), count):
            part = self._table.slice(start, count)
            yield part.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)

    def has_plain_lines(self, output: Path) -> bool:
        return False

    lines = frames


Table = TextTable | ParquetTable


def read_table(path: Path, dialect: Dialect) -> Table:
    """Read the table in a file, or in standard input if the path is ``-``."""
    suffix = "" if path == PIPE else suffix_of(path)
    if suffix == ".parquet":
        return ParquetTable(path, dialect)
    with messages.converted_errors(lambda error: messages.unreadable(path, error)):
        content = sys.stdin.buffer.read() if path == PIPE else path.read_bytes()
        if suffix.endswith(".gz"):
            content = gzip.decompress(content)
    return TextTable(path, content, dialect)


def with_row_bar(
    blocks: Iterable[Block],
    progress: Any,
    what: object,
    total: int | None,
    count: Callable[[Block], int],
) -> Iterable[Block]:
    """Return `blocks`; if `progress` is True, show a tqdm bar that counts their rows."""
    return _counted(blocks, what, total, count) if progress is True else blocks


def _counted(
    blocks: Iterable[Block], what: object, total: int | None, count: Callable[[Block], int]
) -> Iterator[Block]:
    from tqdm.auto import tqdm  # noqa: PLC0415 - an optional package

    name = one_line(str(what))
    with tqdm(desc=name, total=total, unit="row", unit_scale=True, leave=False) as bar:
        for block in blocks:
            yield block
            bar.update(count(block))


def write_table(
    part: Path,
    output: Path,
    blocks: Iterable[pd.DataFrame],
    like: Table,
    *,
    as_lines: bool = False,
) -> None:
    """Write rows to `part`, the temporary file of `output`, in the dialect of the table `like`."""
    suffix = suffix_of(output, OUTPUTS)

    def refused(error: Exception) -> Exception:
        return error if isinstance(error, OSError) else messages.unwritable(output, error)

    with messages.converted_errors(refused):
        if suffix == ".nc":
            _write_netcdf(part, output, pd.concat([*blocks], ignore_index=True))
        elif suffix == ".parquet":
            arrow = _pyarrow()
            parts = [arrow.Table.from_pandas(block, preserve_index=False) for block in blocks]
            table = arrow.concat_tables(parts, promote_options="default")
            with part.open("wb") as file:
                arrow.parquet.write_table(table.replace_schema_metadata(like.metadata), file)
        else:
            with part.open("wb") as file:
                if suffix.endswith(".gz"):  # omit the name and time for reproducible output
                    with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                        write_text(packed, output, blocks, like, as_lines=as_lines)
                else:
                    write_text(file, output, blocks, like, as_lines=as_lines)


class _Lines(io.StringIO):
    """A buffer that replaces csv's default line end; that line end makes csv quote line breaks."""

    end = ""

    def write(self, text: str) -> int:
        return super().write(text.removesuffix("\r\n") + self.end)


def write_text(
    file: Any, output: Path, blocks: Iterable[pd.DataFrame], like: Table, *, as_lines: bool = False
) -> None:
    """Write rows as text, with the separator and line ends of the table `like`.

    With `as_lines`, the first column contains whole lines, and no cell needs quotes.
    """
    dialect, separator = like.dialect, like.dialect.separator_of(output)
    encoder = codecs.getincrementalencoder(dialect.encoding)()
    is_first = True
    for block in blocks:
        lines = _Lines(newline="")
        if is_first and like.mark:
            lines.write(like.mark)
        lines.end = like.line_end
        columns = [_cells(column, dialect.decimal) for _, column in block.items()]
        rows = chain([block.columns] * is_first, zip(*columns, strict=True))
        if as_lines:
            lines.write(lines.end.join([separator.join(map(str, row)) for row in rows]))
        else:
            csv.writer(lines, delimiter=separator).writerows(rows)
        file.write(encoder.encode(lines.getvalue()))
        is_first = False
    file.flush()


def _cells(column: pd.Series[Any], decimal: str) -> Any:
    """Return the cells of a column for csv, with empty cells for missing values."""
    absent = column.isna().to_numpy()
    if column.dtype.kind == "f":
        values = column.to_numpy(_numpy_dtype(column.dtype), na_value=np.nan)
        cells: Any = values.tolist() if values.dtype == float else [*map(str, values)]
        if decimal != ".":
            cells = [str(cell).replace(".", decimal) for cell in cells]
    else:
        cells = column.tolist()
    if absent.any():
        cells = ["" if is_absent else cell for cell, is_absent in zip(cells, absent, strict=True)]
    return cells


def _write_netcdf(part: Path, output: Path, table: pd.DataFrame) -> None:
    messages.need("h5netcdf", "stores")
    columns: dict[str, Any] = {}
    for name, column in table.items():
        values: Any = f"the name {name!r}" if not name or "/" in str(name) else None
        if name in columns:
            values = "the same name as another column"
        values = values or _netcdf_values(column)
        if isinstance(values, str):
            raise FileError(
                f"{output}: cannot be written: a netCDF column cannot have {values}, as column "
                f"{one_line(str(name))!r} does (allowed: .parquet, which keeps all columns)"
            )
        columns[str(name)] = ("point", values)
    buffer = io.BytesIO()  # if the disk were full, HDF5 would crash the process
    xarray.Dataset(columns).to_netcdf(buffer, engine="h5netcdf")
    part.write_bytes(buffer.getbuffer())


def _netcdf_values(column: pd.Series[Any]) -> Any:
    """Return the values of a column for netCDF, or a description if netCDF does not support it."""
    dtype, absent = column.dtype, column.isna().to_numpy()
    kind = dtype.kind
    if kind in "OU":
        present = column[~absent].tolist()
        if all(isinstance(value, str) for value in present):
            if any("\0" in value for value in present):
                return "strings with NUL characters"
            return column.astype(object).where(~absent, "").to_numpy(object)
        if all(isinstance(value, bytes) and value[-1:] != b"\0" for value in present):
            return column.where(~absent, b"").to_numpy("S")
        return f"values of {_type_name(column, present)}"
    if kind not in "biufmM" or getattr(_arrow_type(dtype), "tz", None):
        return f"values of {_type_name(column, [])}"
    if kind == "b" and absent.any():
        return "both booleans and missing values"
    if kind in "iu" and absent.any():
        present = column[~absent].to_numpy(_numpy_dtype(dtype))
        if len(present) and max(int(present.max()), -int(present.min())) > _WHOLE:
            return "both integers above 2**53 and missing values"
        return column.to_numpy(float, na_value=np.nan)
    if kind == "f":
        return column.to_numpy(max(_numpy_dtype(dtype), np.dtype("f4")), na_value=np.nan)
    if kind in "mM" and _arrow_type(dtype) is not None:
        return np.asarray(_pyarrow().array(column))
    missing = {"M": np.datetime64("NaT"), "m": np.timedelta64("NaT")}
    return column.to_numpy(_numpy_dtype(dtype), na_value=missing.get(kind, 0))


def _numpy_dtype(dtype: Any) -> np.dtype[Any]:
    held: Any = getattr(dtype, "numpy_dtype", dtype)
    return np.dtype(held)  # type: ignore[no-any-return]


def _arrow_type(dtype: Any) -> Any:
    return getattr(dtype, "pyarrow_dtype", None)


def _type_name(column: pd.Series[Any], present: Sequence[object]) -> str:
    """Return the name of a type that netCDF does not support."""
    arrow = _arrow_type(column.dtype)
    if arrow is not None:
        return str(arrow)
    return type(present[0]).__name__ if present else str(column.dtype)


def numpy_column(column: pd.Series[Any]) -> pd.Series[Any]:
    """Convert an Arrow column to NumPy values, and keep integers even if values are missing."""
    if not isinstance(column.dtype, pd.ArrowDtype):
        return column
    if column.hasnans and column.dtype.kind in "iu":
        return column.astype(object).where(column.notna(), None)
    converted: pd.Series[Any] = _pyarrow().array(column).to_pandas()
    return converted


def _pyarrow() -> Any:
    messages.need("pyarrow", "parquet")
    import pyarrow.parquet  # noqa: PLC0415 - an extra

    return pyarrow


def suffix_of(path: Path, suffixes: Sequence[str] = SUFFIXES) -> str:
    for suffix in suffixes:
        if path.name.endswith(suffix):
            return suffix
    raise messages.unknown_suffix(path, suffixes)
