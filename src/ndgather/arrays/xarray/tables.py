"""Tables in files: rows of text as they are written, or columns of Parquet with their types.

A table is not converted: only the columns that somebody asks for are, and what is written is what
was read, with more columns behind.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ndgather import messages
from ndgather.errors import FileError
from ndgather.messages import plural, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
STDIN = Path("-")

_AT_ONCE = 1 << 16  # rows that are written at a time
_END = "\0"  # between rows of new columns: a text may have line breaks


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How the text of a table is written."""

    separator: str | None = None  # by default a comma, or a tab in .tsv
    decimal: str = "."
    encoding: str = "utf-8"

    def separator_of(self, path: Path) -> str:
        return self.separator or ("\t" if ".tsv" in path.suffixes else ",")


@dataclass(frozen=True, slots=True)
class TextTable:
    """Rows of text, with the line of each as it was read."""

    names: list[str]
    rows: list[list[str]]
    lines: list[str]  # of the header and of every row
    separator: str
    dialect: Dialect

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> pd.Series[Any]:
        at = self.names.index(name)
        return pd.Series([row[at] for row in self.rows], dtype=object, name=name)


@dataclass(frozen=True, slots=True)
class ParquetTable:
    """Columns of Arrow."""

    table: Any

    @property
    def names(self) -> list[str]:
        return [*map(str, self.table.column_names)]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def column(self, name: str) -> pd.Series[Any]:
        column = self.table.column(name)
        series: pd.Series[Any] = column.to_pandas()
        if column.null_count and "int" in str(column.type):  # which become floats
            series = pd.Series(column.to_pylist(), dtype=object)
        return series.rename(name)


Table = TextTable | ParquetTable


def read(path: Path, dialect: Dialect) -> Table:
    """Return the table in a file, or in standard input if the path is ``-``."""
    suffix = "" if path == STDIN else suffix_of(path)
    with messages.converted_errors(lambda error: messages.unreadable(path, error)):
        if suffix == ".parquet":
            return ParquetTable(_parquet().read_table(path))
        content = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
        if suffix.endswith(".gz"):
            content = gzip.decompress(content)
        return _text_table(path, content.decode(dialect.encoding), dialect)


def _text_table(path: Path, text: str, dialect: Dialect) -> TextTable:
    separator = dialect.separator_of(path)
    plain = text.removeprefix("\ufeff")
    if '"' in plain or plain.count("\r") != plain.count("\r\n"):
        rows, lines = _quoted(plain, separator)
    else:
        *lines, last = plain.split("\n")
        lines = [f"{line}\n" for line in lines] + ([last] if last else [])
        ends = [line.rstrip("\r\n") for line in lines]
        rows = [line.split(separator) if line else [] for line in ends]
    while rows and not rows[-1]:  # empty lines at the end
        rows.pop(), lines.pop()
    if not rows:
        raise FileError(f"{path}: cannot be read: No columns (allowed: a line with their names)")
    names = rows.pop(0)
    for at, row in enumerate(rows):
        if len(row) != len(names):
            others = [other for other in ",;\t|" if other != separator and other in lines[0]]
            hint = f"; write --separator {others[0]!r}" if others and len(names) == 1 else ""
            raise FileError(
                f"{path}: row[{at}] = {quoted(lines[at + 1].strip())} has "
                f"{plural(len(row), 'field')}, and the header has {len(names)} (allowed: as many "
                f"as the header, separated by {separator!r}){hint}"
            )
    lines[0] = text[: text.startswith("\ufeff")] + lines[0]
    return TextTable(names, rows, lines, separator, dialect)


def _quoted(text: str, separator: str) -> tuple[list[list[str]], list[str]]:
    """Return the rows of text with quotes, and the lines of each: quotes may have line breaks."""
    taken: list[str] = []
    rows, lines = [], []

    def each_line() -> Iterator[str]:
        for line in io.StringIO(text, newline=""):
            taken.append(line)
            yield line

    for row in csv.reader(each_line(), delimiter=separator, strict=True):
        rows.append(row)
        lines.append("".join(taken))
        taken.clear()
    return rows, lines


def write(
    part: Path,
    output: Path,
    table: Table,
    rows: NDArray[np.intp],
    more: pd.DataFrame,
    typed: Mapping[str, Any],
) -> None:
    """Write rows of a table with the columns of `more` behind to `part`, which becomes `output`.

    In Parquet, columns of text have the values of `typed`, if they are there.
    """
    suffix = suffix_of(output)

    def refused(error: Exception) -> Exception:
        return error if isinstance(error, OSError) else messages.unwritable(output, error)

    with messages.converted_errors(refused):
        if suffix == ".parquet":
            _write_parquet(part, table, rows, more, typed)
        else:
            _write_text(part, output, table, rows, more)


def _write_text(
    part: Path, output: Path, table: Table, rows: NDArray[np.intp], more: pd.DataFrame
) -> None:
    more.insert(0, "", "", allow_duplicates=True)  # what is written begins with a separator
    dialect = table.dialect if isinstance(table, TextTable) else Dialect()
    separator = dialect.separator_of(output)
    options: dict[str, Any] = {"index": False, "sep": separator, "decimal": dialect.decimal}
    if isinstance(table, TextTable):
        lines = [_without_end(line) for line in table.lines]
        end = table.lines[0][len(lines[0]) :] or "\n"
        if separator != table.separator:
            cells = [table.names, *table.rows]
            lines = [_line(row, separator) for row in cells]
    else:
        frame = table.table.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
        text = frame.to_csv(**options, lineterminator=_END)
        lines, end = text.split(_END)[:-1], "\n"
    compress = output.suffix == ".gz"
    with part.open("wb") as raw:
        # A name and a time would make the same table another file.
        packed: Any = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if compress else raw
        with io.TextIOWrapper(packed, dialect.encoding, newline="") as file:
            file.write(f"{lines[0]}{_line([*map(str, more.columns)], separator)}{end}")
            for start in range(0, len(rows), _AT_ONCE):
                values = more.iloc[start : start + _AT_ONCE].to_csv(
                    **options, header=False, lineterminator=_END
                )
                front = (lines[row + 1] for row in rows[start : start + _AT_ONCE])
                pairs = zip(front, values.split(_END), strict=False)
                file.write("".join(f"{a}{b}{end}" for a, b in pairs))


def _without_end(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")


def _line(cells: Sequence[str], separator: str) -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="").writerow(cells)
    return text.getvalue()


def _write_parquet(
    part: Path,
    table: Table,
    rows: NDArray[np.intp],
    more: pd.DataFrame,
    typed: Mapping[str, Any],
) -> None:
    parquet = _parquet()
    import pyarrow as pa  # noqa: PLC0415 - an extra

    if isinstance(table, ParquetTable):
        whole = table.table
    else:
        names = table.names
        columns = [typed[n] if n in typed else table.column(n).to_numpy() for n in names]
        whole = pa.table([pa.array(column) for column in columns], names)
    metadata = whole.schema.metadata  # of pandas: which columns are its index
    whole = whole.take(pa.array(rows))
    for name, values in more.items():
        whole = whole.append_column(str(name), pa.Array.from_pandas(values))
    parquet.write_table(whole.replace_schema_metadata(metadata), part)


def _parquet() -> Any:
    try:
        import pyarrow.parquet  # noqa: PLC0415 - an extra
    except ImportError:
        raise messages.extra_missing("pyarrow", "parquet") from None
    return pyarrow.parquet


def suffix_of(path: Path) -> str:
    """Return the one of `SUFFIXES` that a path has."""
    for suffix in SUFFIXES:
        if path.name.endswith(suffix):
            return suffix
    raise messages.unknown_suffix(path, SUFFIXES)
