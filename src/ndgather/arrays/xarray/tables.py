"""Tables in files: text with separators, Parquet, and netCDF as output.

Cells of text are kept as they are written; columns of Parquet keep their types.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray
from numpy.typing import NDArray

from ndgather import messages
from ndgather.errors import FileError
from ndgather.messages import plural, quoted

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
OUTPUTS = (*SUFFIXES, ".nc")
STDIN = Path("-")
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How the text of a table is written."""

    separator: str | None = None  # by default a comma, or a tab in .tsv
    decimal: str = "."
    encoding: str = "utf-8"

    def separator_of(self, path: Path) -> str:
        return self.separator or ("\t" if path.name.endswith((".tsv", ".tsv.gz")) else ",")


class _Lines(io.TextIOWrapper):
    """Text that csv writes: with its own end of lines, it quotes all cells with line breaks."""

    end = ""

    def write(self, text: str) -> int:
        return super().write(text.removesuffix("\r\n") + self.end)


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of texts, or of the types of Arrow."""

    frame: pd.DataFrame
    dialect: Dialect
    mark: str = ""  # before the text
    line_end: str = "\n"
    metadata: Any = None  # of Parquet, such as which columns are an index

    @property
    def names(self) -> list[str]:
        return [*map(str, self.frame.columns)]

    def column(self, name: str) -> pd.Series[Any]:
        column = self.frame.iloc[:, self.names.index(name)]
        if not isinstance(column.dtype, pd.ArrowDtype):
            return column
        if column.hasnans and column.dtype.kind in "iu":  # which would become floats
            return column.astype(object).where(column.notna(), None)
        of_numpy: pd.Series[Any] = _pyarrow().array(column).to_pandas()
        return of_numpy.rename(name)

    def write(
        self,
        part: Path,
        output: Path,
        rows: NDArray[np.intp],
        more: pd.DataFrame,
        typed: Mapping[str, Any],
    ) -> None:
        """Write rows with the columns of `more` behind to `part`, which becomes `output`.

        In Parquet and netCDF, columns of text have the values of `typed`, if they are there.
        """
        suffix, frame = suffix_of(output, OUTPUTS), self.frame
        if suffix == ".nc" or (suffix == ".parquet" and self.metadata is None):
            frame = frame.assign(**typed)
        front = frame.iloc[rows].reset_index(drop=True)
        whole = pd.concat([front, more.reset_index(drop=True)], axis=1)

        def refused(error: Exception) -> Exception:
            return error if isinstance(error, OSError) else messages.unwritable(output, error)

        if suffix == ".nc":
            messages.need("h5netcdf", "stores")
            columns = {name: ("point", column.to_numpy()) for name, column in whole.items()}
            with messages.converted_errors(refused):
                xarray.Dataset(columns).to_netcdf(part, engine="h5netcdf")
            return
        with messages.converted_errors(refused), part.open("wb") as raw:
            if suffix == ".parquet":
                arrow = _pyarrow().Table.from_pandas(whole, preserve_index=False)
                arrow = arrow.replace_schema_metadata(self.metadata)
                _pyarrow().parquet.write_table(arrow, raw)
                return
            # A name and a time would make the same table another file.
            is_packed = suffix.endswith(".gz")
            with (
                gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if is_packed else raw as file,
                _Lines(file, self.dialect.encoding, newline="") as lines,
            ):
                lines.write(self.mark)
                lines.end = self.line_end
                whole.to_csv(
                    lines,
                    sep=self.dialect.separator_of(output),
                    index=False,
                    lineterminator="\r\n",
                    decimal=self.dialect.decimal,
                )


def read_table(path: Path, dialect: Dialect) -> Table:
    """Return the table in a file, or in standard input if the path is ``-``."""
    suffix = "" if path == STDIN else suffix_of(path)
    with messages.converted_errors(lambda error: messages.unreadable(path, error)):
        if suffix == ".parquet":
            table = _pyarrow().parquet.read_table(path)
            frame = table.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
            return Table(frame, dialect, metadata=table.schema.metadata or {})
        content = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
        if suffix.endswith(".gz"):
            content = gzip.decompress(content)
        text = content.decode(dialect.encoding)
        plain = text.removeprefix(_BYTE_ORDER_MARK)
        separator = dialect.separator_of(path)
        stream = io.StringIO(plain, newline="")
        lines = csv.reader(stream, delimiter=separator, strict=True)
        rows = [*islice(lines, 1)]
        first = plain[: stream.tell()]
        rows += lines
    while rows and not rows[-1]:  # empty lines at the end
        rows.pop()
    if not rows:
        raise FileError(f"{path}: cannot be read: No columns (allowed: a line with their names)")
    names = rows.pop(0)
    for at, row in enumerate(rows):
        if len(row) != len(names):
            others = [other for other in ",;\t|" if other != separator and other in "".join(names)]
            hint = f"; write --separator {others[0]!r}" if others and len(names) == 1 else ""
            raise FileError(
                f"{path}: row[{at}] = {quoted(separator.join(row))} has "
                f"{plural(len(row), 'field')}, and the header has {len(names)} (allowed: as many "
                f"as the header, separated by {separator!r}){hint}"
            )
    end = first[len(first.rstrip("\r\n")) :] or "\n"
    mark = text[: len(text) - len(plain)]
    return Table(pd.DataFrame(rows, columns=names, dtype=object), dialect, mark, end)


def _pyarrow() -> Any:
    messages.need("pyarrow", "parquet")
    import pyarrow.parquet  # noqa: PLC0415 - an extra

    return pyarrow


def suffix_of(path: Path, suffixes: Sequence[str] = SUFFIXES) -> str:
    """Return the one of `suffixes` that a path has."""
    for suffix in suffixes:
        if path.name.endswith(suffix):
            return suffix
    raise messages.unknown_suffix(path, suffixes)
