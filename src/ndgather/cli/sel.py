"""``ndgather sel``: look up values of a dataset at the points of a table."""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndgather import messages
from ndgather.cli.terminal import (
    BYTES,
    Named,
    add_common,
    require_output,
    scaled,
    shows_progress,
    time_text,
)
from ndgather.errors import AttributeValueError, FileError, LabelError, one_line
from ndgather.models import tensor_files
from ndgather.stored import Estimate, missing_chunks

if TYPE_CHECKING:
    from ndgather.stations.lookup import Plan

METHODS = ("nearest", "pad", "backfill", "linear")


class _Methods(argparse.Action):
    """Map coordinate names to methods. The empty name is for all coordinates without a method."""

    def __call__(self, _parser: Any, namespace: Any, values: Any, _option: Any = None) -> None:
        name, _, method = values.rpartition("=")
        if method not in METHODS:
            allowed = ", ".join(map(repr, METHODS))
            text = f"invalid choice: {method!r} (choose from {allowed})"
            raise argparse.ArgumentError(self, text)
        named = getattr(namespace, self.dest) or {}
        if name in named:
            raise argparse.ArgumentError(self, f"{name or 'a method for all'!r} is given twice")
        setattr(namespace, self.dest, {**named, name: method})


DESCRIPTION = """\
Look up the values of a dataset at the points of a table. Each row of POINTS is
a point: columns named like coordinates of DATA (lat, lon, time, ...) select it,
and other columns are kept. OUT has the columns of POINTS and a column for each
variable. If a variable has more dimensions, --outer writes a row for each of
their labels. Only the necessary parts of DATA are read.
"""

EXAMPLES = """\
examples:
  ndgather sel sst.nc track.csv -o along.csv --method nearest
      add the column sst for each time, lat and lon of a ship's track:

      track.csv                along.csv
      ship,time,lat,lon        ship,time,lat,lon,sst
      A,0,1,-85                A,0,1,-85,7.0
      A,1,8,170                A,1,8,170,22.0

  ndgather sel s3://bucket/era5.zarr stations.csv -o series.parquet --outer \\
      --method linear --variable t2m --period longitude=360
      write a time series for each station, interpolated between grid points;
      longitudes -10 and 350 are the same
  ndgather sel dem.tif points.csv -o heights.csv --method nearest \\
      --rename easting=x --rename northing=y
      read the pixel that contains each point, in the coordinates of the file

DATA is a file that xarray opens (netCDF, a zarr folder or its URL) or a GeoTIFF
with the coordinates x, y and band. DATA/GROUP is a group in a file; --variable
names its variables. POINTS and OUT are .csv, .tsv, .csv.gz, .tsv.gz or
.parquet. Either may be - for text from standard input or to standard output,
and OUT may be .nc, a netCDF file whose only dimension is "point". The columns
of POINTS are copied unchanged, but in .parquet and .nc a column that selects
points has the type of its labels. OUT is written completely or not at all.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("data", metavar="DATA", help="the dataset to read from")
    add("points", metavar="POINTS", type=Path, help="the table of points")
    add("-o", "--output", metavar="OUT", type=Path, help="the table with values")
    add(
        "--variable",
        metavar="NAME",
        action="append",
        default=[],
        help="a variable of DATA; may be repeated (default: all with these coordinates)",
    )
    add("--group", metavar="NAME", help="a group of DATA; the same as DATA/NAME")
    add(
        "--method",
        metavar="[NAME=]METHOD",
        action=_Methods,
        help="for points between the labels of DATA: use the 'nearest' label (at most half a step "
        "beyond the end of the axis), the label before ('pad') or after ('backfill'), or 'linear' "
        "interpolation (default: exact labels only); with NAME, for one coordinate only; may be "
        "repeated. Labels that are strings must always match exactly",
    )
    add(
        "--tolerance",
        metavar="NAME=DISTANCE",
        action=Named,
        read=_number,
        help="the maximum distance from a label of a coordinate: lat=0.5, time=1h; may be repeated",
    )
    add(
        "--missing",
        metavar="WHAT",
        choices=("raise", "nan"),
        default="raise",
        help="for points without a label: 'raise' an error (default) or write 'nan'",
    )
    add(
        "--period",
        metavar="NAME=LENGTH",
        action=Named,
        read=_number,
        help="the period of a coordinate, such as lon=360; may be repeated. Not needed for "
        "longitudes in degrees_east that cover the whole globe",
    )
    add(
        "--rename",
        metavar="COLUMN=NAME",
        action=Named,
        help="use a column as the coordinate NAME; may be repeated",
    )
    add(
        "--keep",
        metavar="COLUMN",
        action="append",
        default=[],
        help="copy this column although it is named like a coordinate; may be repeated",
    )
    add(
        "--outer",
        action="store_true",
        help="write a row for each label of the dimensions without a column, such as a time "
        "series for each station",
    )
    add(
        "--date-format",
        metavar="FORMAT",
        help="the format of times, such as %%d/%%m/%%Y %%H:%%M (default: as in 2010-07-14T06:30)",
    )
    add(
        "--separator",
        metavar="TEXT",
        type=_character,
        help="the separator of columns in text files (default: a comma, or a tab in .tsv)",
    )
    add(
        "--decimal",
        metavar="TEXT",
        type=_character,
        default=".",
        help="the decimal separator of numbers in text files, such as a comma (default: a point)",
    )
    add(
        "--encoding",
        metavar="NAME",
        default="utf-8",
        help="the encoding of text files (default: utf-8)",
    )
    add(
        "--add-labels",
        action="store_true",
        help="for each coordinate, also write the label of DATA that was used and its distance "
        "from the point, as NAME_label and NAME_distance",
    )
    add(
        "--missing-chunks",
        metavar="WHAT",
        choices=("fill", "raise"),
        default="fill",
        help="for chunks that are missing from DATA: use the 'fill' value (default) or 'raise' an "
        "error",
    )
    add(
        "--memory",
        metavar="SIZE",
        help="the memory limit for buffers, such as 512MiB; the result and 8 bytes per point are "
        "not included",
    )
    add("--quiet", action="store_true", help="hide the progress bar (shown only on terminals)")
    add(
        "--dry-run",
        action="store_true",
        help="print how much of DATA would be read, without reading values",
    )
    add("--json", action="store_true", help="print the summary or the dry run as JSON")
    add_common(parser)


def work(options: argparse.Namespace) -> None:
    require_output(options)
    try:
        from ndgather.arrays.xarray.selection import Request  # noqa: PLC0415 - slow, and an extra
        from ndgather.stations import lookup, tables  # noqa: PLC0415
    except ImportError as error:
        raise messages.reader_missing(str(options.data), error.name or "xarray") from None
    output, method = options.output, options.method
    if method is not None and [*method] == [""]:  # all coordinates use the same method
        method = method[""]
    if output not in (None, tables.PIPE):
        tables.suffix_of(output, tables.OUTPUTS)
        if Path(options.data).resolve() == output.resolve():
            raise FileError(
                f"{output}: is DATA, which the result would overwrite (allowed: another file)"
            )
        tensor_files.check_place(output, (output.suffix,))
    if options.date_format is not None:
        lookup.check_date_format(options.date_format)
    wanted = lookup.Lookup(
        place=options.data,
        points=options.points,
        group=options.group,
        variables=options.variable,
        rename=options.rename,
        keep=options.keep,
        outer=options.outer,
        date_format=options.date_format,
        add_labels=options.add_labels,
        dialect=tables.Dialect(
            separator=options.separator, decimal=options.decimal, encoding=options.encoding
        ),
        request=Request(
            caller="sel",
            method=method,
            tolerance=options.tolerance or None,
            missing=options.missing,
            period=options.period,
            in_shell=True,
        ),
        memory=options.memory,
        progress=shows_progress(options.quiet) or None,
    )
    if options.tolerance and options.method is None:
        raise AttributeValueError(
            "ndgather sel: --tolerance has no effect on exact labels "
            "(allowed: with --method nearest, pad, backfill or linear)"
        )
    start = time.perf_counter()
    try:
        is_default = options.missing_chunks == "fill"
        with nullcontext() if is_default else missing_chunks(options.missing_chunks):
            result: Any = wanted.plan() if options.dry_run else wanted.values()
    except LabelError as error:
        error.args = (str(error).replace("sel:", f"{options.points}:", 1),)
        raise
    if options.dry_run:
        print(_json_text(result) if options.json else _plan_text(options.points, result))
        return
    if output == tables.PIPE:
        with messages.converted_errors(_standard_output_error):
            result.print_to(sys.stdout.buffer)
    else:
        tensor_files.replace_file((output, lambda part: result.write(part, output)))
    seconds = time.perf_counter() - start
    rows, names = result.row_count, result.names
    if options.json:
        about = {"output": str(output), "rows": rows, "columns": names, "seconds": seconds}
        text = json.dumps(about, indent=2)
    else:
        of_names = one_line(", ".join(names))
        text = f"{output}: {messages.plural(rows, 'row')} of {of_names}; {time_text(seconds)}"
    if output != tables.PIPE or options.json:
        print(text, file=sys.stderr if output == tables.PIPE else sys.stdout)


def _standard_output_error(error: Exception) -> Exception:
    is_closed = isinstance(error, BrokenPipeError)
    return error if is_closed else messages.unwritable("standard output", error)


def _plan_text(points: Path, plan: Plan) -> str:
    return "\n".join(
        [
            *(f"{name}: {estimate_text(needed)}" for name, needed in plan.variables.items()),
            f"{points}: {messages.plural(plan.rows, 'row')}, "
            f"{scaled(plan.table_bytes, BYTES)} with the labels; "
            f"memory at most {scaled(plan.memory_bytes, BYTES)} in total",
        ]
    )


def _json_text(plan: Plan) -> str:
    return json.dumps(asdict(plan), indent=2)


def estimate_text(needed: Estimate) -> str:
    about = "" if needed.stored_is_known else "about "
    return (
        f"{messages.plural(needed.points, 'point')} in {messages.plural(needed.chunks, 'chunk')}: "
        f"{scaled(needed.decoded_bytes, BYTES)} to decode, "
        f"{about}{scaled(needed.stored_bytes, BYTES)} in storage; "
        f"the result has {scaled(needed.result_bytes, BYTES)}; "
        f"memory at most {scaled(needed.memory_bytes, BYTES)}"
    )


def _character(text: str) -> str:
    character = "\t" if text == "\\t" else text
    if len(character) != 1 or character.isalnum() or character in '\r\n"+-':
        raise argparse.ArgumentTypeError(f"{text!r} is not one character such as ; or \\t")
    return character


def _number(text: str) -> object:
    """Convert a text to a number if possible; a duration such as 1h remains a string."""
    try:
        return float(text)
    except ValueError:
        return text
