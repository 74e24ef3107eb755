"""``ndgather sel`` on drawn tables and data sets: a table of values, or one line that says why not."""

import csv
import gzip
import io
import os
import tempfile
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from ndgather.cli import main

TIMES = pd.date_range("2020-01-01", periods=4)
AXES = {
    "lat": [0.0, 1.0, 2.0],
    "falling": [3.5, 1.5, -2.0],
    "number": [3, 1, 8],
    "one": [7.0],
    "nothing": np.empty(0),
    "repeated": [1.0, 1.0, 2.0],
    "holes": [1.0, np.nan, 2.0],
    "lon": np.arange(0.0, 360.0, 90.0),
    "time": TIMES,
    "seconds": np.array(["0850-01-01", "1000-01-01", "2500-01-01"], "M8[s]"),
    "step": pd.to_timedelta([0, 6, 12], "h"),
    "station": ["00123", "NA", "é"],
    "code": np.array([b"AB", b"C", b"NA"]),
    "noleap": xr.date_range("2020-01-01", periods=3, calendar="noleap", use_cftime=True),
    "days360": xr.date_range("2020-01-30", periods=3, calendar="360_day", use_cftime=True),
    "plain": None,
}
CELLS = [
    *("", "0", "1", "2", "-1", "1.0", "1.10", "0010", "1e3", "1e400", "nan", "NA", "inf", "1_0"),
    *("1,5", "00123", "é", "AB", "true", "2020-01-02", "2020-01-02T06:30Z", "20200102", "06:30"),
    *(
        "now",
        "2021.5",
        "21-02-03",
        "9999-12-31",
        "0001-01-01",
        "2020-02-30",
        "4 July",
        "02/01/2020",
    ),
    *("1600-01-01", "6h", "P1D", "-78", "120", "359.5", "612345678901234567", "9" * 30, "\u2028"),
    *('a "quoted" one', "two\nlines", " 1 ", "00:00", "July 1 2020", "--", "=1+1", "\ud7ff"),
]
NAMES = [*AXES, "id", "", "v", "Lat", "latitude", "scalar", "mask", "lat2d", "timezone", "point"]
DTYPES = ["f8", "i2", "u1", "bool", "U", "M8[ns]", "m8[ns]", "S", "c16", "cftime"]
METHODS = ["", "nearest", "pad", "backfill", "linear"]


@st.composite
def data_sets(draw):
    dims = draw(st.lists(st.sampled_from([*AXES]), min_size=1, max_size=2, unique=True))
    coords = {dim: AXES[dim] for dim in dims if AXES[dim] is not None}
    sizes = [2 if AXES[dim] is None else len(AXES[dim]) for dim in dims]
    kind = draw(st.sampled_from(DTYPES))
    numbers = np.arange(np.prod(sizes)).reshape(sizes)
    if kind == "cftime":
        values = xr.date_range("2020-01-01", periods=12, calendar="noleap", use_cftime=True)
        values = np.array(values)[numbers % 12]
    else:
        values = numbers.astype("i8" if kind[0] in "mM" else kind).astype(kind)
    data = xr.Dataset({"v": (dims, values)}, coords)
    if draw(st.booleans()):
        data["mask"] = (dims[:1], np.ones(sizes[0]))
    if draw(st.booleans()):
        data = data.assign_coords(scalar=1.0)
    if draw(st.booleans()) and len(dims) == 2:
        data = data.assign_coords(lat2d=(dims, numbers * 1.0))
    for dim in dims:
        if dim == "lon" and draw(st.booleans()):
            data[dim].attrs["units"] = "degrees_east"
    return data


@st.composite
def tables(draw, dims):
    names = draw(st.lists(st.sampled_from(NAMES), max_size=2))
    names = draw(st.permutations([*dims, *names]))
    cells = st.sampled_from(CELLS)
    rows = draw(st.lists(st.lists(cells, min_size=len(names), max_size=len(names)), max_size=3))
    if draw(st.integers(0, 9)) == 0 and rows:
        rows[-1] = rows[-1][: draw(st.integers(1, len(names)))]
    return [names, *rows]


def text_of(table, **options):
    text = io.StringIO()
    csv.writer(text, lineterminator=os.linesep, **options).writerows(table)
    return text.getvalue()


def run(line):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings(action="ignore"):
        try:
            status = main(line)
        except SystemExit as end:
            status = end.code
    return status, err.getvalue()


@settings(max_examples=min(settings.default.max_examples, 400))
@given(st.data())
def test_a_table_of_values_or_one_line_that_says_why_not(data):
    stored = data.draw(data_sets())
    table = data.draw(tables(stored["v"].dims))
    method = data.draw(st.sampled_from(METHODS))
    options = data.draw(
        st.lists(
            st.sampled_from(
                [
                    *("--outer", "--missing nan", "--add-labels", "--dry-run", "--variable v"),
                    *("--period lon=360", "--tolerance lat=0.5", "--tolerance time=1D"),
                    *("--keep lat", "--rename Lat=lat", "--decimal ,", "--date-format %d/%m/%Y"),
                ]
            ),
            max_size=3,
            unique=True,
        )
    )
    line = [word for option in options for word in option.split()]
    line += ["--method", method] if method else []
    output = data.draw(st.sampled_from(["out.csv", "out.tsv", "out.csv.gz", "out.parquet"]))
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        with warnings.catch_warnings(action="ignore"):
            try:
                stored.to_netcdf("d.nc", engine="h5netcdf")
            except (TypeError, ValueError, NotImplementedError):
                return
        Path("p.csv").write_text(text_of(table), encoding="utf-8", errors="surrogatepass")
        status, err = run(["sel", "d.nc", "p.csv", "-o", output, *line])
        assert status in (0, 1), err
        assert (status, err.count("\n")) in ((0, 0), (1, 1)), err
        if status == 0 and output == "out.csv" and "--dry-run" not in options:
            with Path(output).open(encoding="utf-8", newline="") as file:
                rows = [*csv.reader(file)]
            assert rows[0][: len(table[0])] == table[0]
            kept = [row[: len(table[0])] for row in rows[1:]]
            repeats = len(kept) // len(table[1:]) if table[1:] else 0
            assert kept == [row for row in table[1:] for _ in range(repeats)]
