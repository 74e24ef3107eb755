"""``ndgather sel``: values of a data set at the labels that a table lists."""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path
from typing import Any

from ndgather import messages
from ndgather.cli.options import (
    Named,
    add_command,
    add_common,
    add_options,
    add_reading,
    bar,
    estimate_text,
    require_output,
    time_text,
)
from ndgather.errors import AttributeValueError, LabelError, one_line
from ndgather.models.tensors import tensor_files
from ndgather.stored import missing_chunks

_ARGUMENT = re.compile(r"\b(method|missing)='(\w+)'")  # of Python, in hints
METHODS = ("nearest", "pad", "backfill", "linear")

DESCRIPTION = """\
Look up the values of a data set at the points of a table. Every row of POINTS
is a point: columns with the names of coordinates of DATA (lat, lon, time, ...)
select it; other columns are kept. OUT has the columns of POINTS and a column
for every variable. If a variable has more dimensions, --outer gives a row for
every one of their labels. Only the needed parts of DATA are read.
"""

EPILOG = """\
examples:
  ndgather sel sst.nc track.csv -o along.csv --method nearest
      the column sst for each time, lat and lon of the track of a ship:

      track.csv                along.csv
      ship,time,lat,lon        ship,time,lat,lon,sst
      A,0,1,-85                A,0,1,-85,7.0
      A,1,8,170                A,1,8,170,22.0

  ndgather sel s3://bucket/era5.zarr stations.csv -o series.parquet --outer \\
      --method linear --variable t2m --period longitude=360
      a time series for every station, interpolated between grid points;
      longitudes -10 and 350 are the same
  ndgather sel dem.tif points.csv -o heights.csv --method nearest \\
      --rename easting=x --rename northing=y
      the pixel that holds each point, in the coordinates of the file

DATA is a file that xarray opens: netCDF, a zarr folder or its URL; or a
GeoTIFF, with the coordinates x, y and band. POINTS and OUT are .csv, .tsv,
.csv.gz, .tsv.gz or .parquet; POINTS may be -, text from standard input, and OUT
.nc, a netCDF file whose only dimension is "point". The columns of POINTS are
written as they are; columns that select have the type of their labels in
.parquet and .nc. OUT is written completely or not at all.
"""


def add_to(commands: Any) -> None:
    summary = "look up the values of a data set at the labels in a table"
    parser = add_command(commands, "sel", summary, DESCRIPTION, EPILOG)
    table = """
        DATA             the data set to read from
        POINTS           the table of points
        -o --output OUT  the table with values
        --variable NAME  a variable of DATA; may be repeated (default: all that have these
                         coordinates)
        --method METHOD  for labels between those of DATA: the 'nearest' one, at most half a step
                         outside of them, the one before ('pad') or after ('backfill'), or 'linear'
                         interpolation (default: exact labels only)
        --tolerance NAME=DISTANCE  largest distance to the label, for a coordinate: lat=0.5,
                                   time=1h; may be repeated
        --missing WHAT   for labels that do not exist: 'raise' an error (default) or return 'nan'
        --period NAME=LENGTH  the period of a coordinate, such as lon=360; may be repeated.
                              Longitudes of units degrees_east that go around have it by themselves
        --rename COLUMN=NAME  the coordinate that a column of another name has; may be repeated
        --keep COLUMN    leave a column alone that has the name of a coordinate; may be repeated
        --outer          a row for every label of the dimensions without a column, such as a time
                         series for every station
        --date-format FORMAT  how times are written, such as %%d/%%m/%%Y %%H:%%M (default: as
                              2010-07-14T06:30)
        --separator TEXT   between the columns of text (default: a comma, or a tab in .tsv)
        --decimal TEXT     of numbers in text, such as a comma (default: a point)
        --encoding NAME    of text (default: utf-8)
        --add-labels       for every coordinate, add the label of DATA that was taken and its
                           distance, as NAME_label and NAME_distance
    """
    add_options(
        parser,
        table,
        points={"type": Path},
        output={"type": Path},
        variable={"action": "append", "default": []},
        method={"choices": METHODS},
        tolerance={"action": Named, "read": _number},
        missing={"choices": ("raise", "nan"), "default": "raise"},
        period={"action": Named, "read": _number},
        rename={"action": Named},
        keep={"action": "append", "default": []},
        separator={"type": _character},
        decimal={"type": _character, "default": "."},
        encoding={"default": "utf-8"},
    )
    add_reading(parser)
    add_common(parser, work)


def work(options: argparse.Namespace) -> None:
    require_output(options)
    try:
        from ndgather.arrays.xarray import points, tables  # noqa: PLC0415 - slow, and an extra
    except ImportError as error:
        raise messages.extra_missing(error.name or "xarray", "xarray") from None
    if options.output is not None:
        tables.suffix_of(options.output, tables.OUTPUTS)
        tensor_files.check_place(options.output, (options.output.suffix,))
    lookup = points.Lookup(
        place=options.data,
        points=options.points,
        variables=options.variable,
        rename=options.rename,
        keep=options.keep,
        outer=options.outer,
        date_format=options.date_format,
        add_labels=options.add_labels,
        dialect=tables.Dialect(
            separator=options.separator, decimal=options.decimal, encoding=options.encoding
        ),
        options={
            "method": options.method,
            "tolerance": options.tolerance or None,
            "missing": options.missing,
            "period": options.period or None,
            "memory": options.memory,
            "progress": None if options.dry_run else bar(options),
        },
    )
    if options.tolerance and options.method is None:
        raise AttributeValueError(
            "ndgather sel: --tolerance is given without --method, which takes exact labels "
            "(allowed: --method nearest, and others)"
        )
    start = time.perf_counter()
    try:
        with missing_chunks(options.missing_chunks):
            result: Any = lookup.estimates() if options.dry_run else lookup.values()
    except LabelError as error:
        error.args = (_ARGUMENT.sub(r"--\1 \2", str(error)),)
        raise
    if options.dry_run:
        for name, needed in result.items():
            print(f"{name}: {estimate_text(needed)}")
        return
    seconds = time.perf_counter() - start
    output = options.output
    tensor_files.replace_file((output, lambda part: result.write(part, output)))
    print(
        f"{output}: {messages.plural(len(result.rows), 'row')} of "
        f"{one_line(', '.join(result.names))}; {time_text(seconds)}"
    )


def _character(text: str) -> str:
    character = "\t" if text == "\\t" else text
    if len(character) != 1 or character.isalnum() or character in '\r\n"+-':
        raise argparse.ArgumentTypeError(f"{text!r} is not one character such as ; or \\t")
    return character


def _number(text: str) -> object:
    """Convert a length that is a number; a duration such as 1h stays a string."""
    try:
        return float(text)
    except ValueError:
        return text
