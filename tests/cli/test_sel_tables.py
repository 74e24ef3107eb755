"""``ndgather sel`` on drawn tables and data sets: values, or a one-line error."""

import csv
import gzip
import io
import os
import re
import tempfile
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from ndgather.cli import main
from tools import versions

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
SCALARS = [1.0, 3, "A", b"A", True, TIMES[0], pd.Timedelta("6h"), AXES["noleap"][0]]
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
        data = data.assign_coords(scalar=draw(st.sampled_from(SCALARS)))
    if draw(st.booleans()):
        axis = draw(st.sampled_from([*AXES]))
        if AXES[axis] is not None and len(AXES[axis]) == sizes[0]:
            data = data.assign_coords(Lat=(dims[0], AXES[axis]))
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
    cells = []
    for name in names:
        axis = [] if AXES.get(name) is None else AXES[name]
        there = [each.decode() if isinstance(each, bytes) else str(each) for each in axis]
        good = st.sampled_from(there or ["0", "1"])
        cells.append(st.one_of(good, good, good, st.sampled_from(CELLS)))
    rows = draw(st.lists(st.tuples(*cells).map(list), max_size=3))
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
def test_drawn_calls_write_a_table_or_a_one_line_error(data):
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


LATITUDES = [0.0, 1.0, 2.0, 3.0]


@pytest.fixture
def data(folder):
    """A data set in d.nc whose values are the latitude plus ten times the longitude."""
    lon = np.arange(0.0, 360.0, 30.0)
    grid = xr.DataArray(np.add.outer(LATITUDES, 10 * lon), {"lat": LATITUDES, "lon": lon})
    grid["lon"].attrs["units"] = "degrees_east"
    data = xr.Dataset({"v": grid, "w": grid[:, 0]})
    data.to_netcdf("d.nc", engine="h5netcdf")
    return data


def written(text, name="p.csv", encoding="utf-8"):
    Path(name).write_bytes(text.encode(encoding))


KEPT = [
    "id,lat\n00123,1\n00007,2\n",
    "country,lat\nNA,1\n,2\nnull,3\n",
    "h3,lat\n612345678901234567,1\n,2\n",
    "price,code,lat,flag\n1.10,1E3,1,True\n2.50,2E3,2,false\n",
    ",lat\n7,1\n",
    "note,note,lat\na,b,1\n",
    'lat,"a, b"\n1,"two\nlines"\n2,"say ""hi"""\n',
    "lat,date,when\n1,01/02/03,2020-01-01 00:00:00\n",
    " lat2 ,lat\n x , 1 \n",
    "lat,id\r\n1,2\r\n2,3\r\n",
    "\ufefflat,id\n1,2\n",
    "lat,é\n1,ü\n2,日本\n",
    "lat,id\n1,2",
    "lat,id\n1,2\n\n\n",
    "lat,id\n",
    "lat,id\r1,2\r2,3\r",
    'lat,id\n1,"two\r\nlines"\n',
    'lat,id\r\n1,"two\nlines"\r\n2,"two\rlines"\r\n',
    'lat,id\n1,"two\rlines"\n2,"three\n\rlines\r"\n',
    'lat,id\r1,"two\nlines"\r',
    'lat,"two\r\nlines"\n1,2\n',
    '\ufeff"a, b",lat\r\n1,2\r\n',
]


@pytest.mark.parametrize("text", KEPT)
def test_columns_are_copied_byte_for_byte(ndgather, data, text):
    written(text)
    assert ndgather("sel d.nc p.csv -o out.csv --variable w").err == ""
    out = Path("out.csv").read_bytes().decode()
    end = next((end for end in ("\r\n", "\n", "\r") if text.endswith(end)), "\n")
    records, body = [], text.rstrip("\r\n")
    for line in body.split(end):  # a record may have line breaks in quotes
        if records and records[-1].count('"') % 2:
            records[-1] += end + line
        else:
            records.append(line)
    names = next(csv.reader([records[0].removeprefix("\ufeff")]))
    at = names.index("lat")
    values = [float(next(csv.reader(io.StringIO(each, newline="")))[at]) for each in records[1:]]
    more = ["w", *map(str, values)]
    assert out == "".join(f"{a},{b}{end}" for a, b in zip(records, more, strict=True))


@pytest.mark.parametrize(
    ("name", "options", "text", "encoding"),
    [
        ("p.csv", "--separator ;", "lat;id\n1;2,5\n", "utf-8"),
        ("p.csv", "--separator ; --decimal ,", "lat;id\n1,0;2,5\n", "utf-8"),
        ("p.csv", "--separator \\t", "lat\tid\n1\t2,5\n", "utf-8"),
        ("p.tsv", "", "lat\tid\n1\t2,5\n", "utf-8"),
        ("p.tsv.csv", "", "lat,id\n1,2\n", "utf-8"),
        ("p.csv", "--encoding latin-1", "lat,é\n1,ü\n", "latin-1"),
        ("p.csv", "--encoding utf-16", "lat,é\n1,ü\n", "utf-16"),
    ],
)
def test_text_dialects_are_read(ndgather, data, name, options, text, encoding):
    written(text, name, encoding)
    output = "out" + Path(name).suffix
    assert ndgather(f"sel d.nc {name} -o {output} --variable w {options}").err == ""
    found = Path(output).read_text(encoding).replace("\ufeff", "").splitlines()
    separator = text[3]
    value = "1,0" if "--decimal" in options else "1.0"
    assert found == [
        f"{line}{separator}{more}"
        for line, more in zip(text.splitlines(), ("w", value), strict=True)
    ]


def test_compressed_text_and_standard_input_are_read(ndgather, data, monkeypatch):
    text = "lat,id\n1,00123\n"
    Path("p.csv.gz").write_bytes(gzip.compress(text.encode()))
    expected = "lat,id,w\n1,00123,1.0\n"
    assert ndgather("sel d.nc p.csv.gz -o out.csv --variable w").err == ""
    assert Path("out.csv").read_text() == expected
    for _ in range(2):
        assert ndgather("sel d.nc p.csv.gz -o out.csv.gz --variable w").err == ""
        content = Path("out.csv.gz").read_bytes()
        assert gzip.decompress(content).decode() == expected
    assert ndgather("sel d.nc p.csv.gz -o out.csv.gz --variable w").err == ""
    assert Path("out.csv.gz").read_bytes() == content
    assert content[3:8] == bytes(5)  # RFC 1952: no name and no time
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert ndgather("sel d.nc - -o out.csv --variable w").err == ""
    assert Path("out.csv").read_text() == expected


def test_text_is_converted_to_other_formats(ndgather, data):
    written('lat,id,text\n1,00123,"a\tb"\n2,,NA\n')
    assert ndgather("sel d.nc p.csv -o out.tsv --variable w").err == ""
    assert Path("out.tsv").read_text() == 'lat\tid\ttext\tw\n1\t00123\t"a\tb"\t1.0\n2\t\tNA\t2.0\n'
    assert ndgather("sel d.nc p.csv -o out.parquet --variable w").err == ""
    found = pq.read_table("out.parquet").to_pydict()
    assert found == {
        "lat": [1, 2],
        "id": ["00123", ""],
        "text": ["a\tb", "NA"],
        "w": [1.0, 2.0],
    }


def test_parquet_columns_keep_their_types(ndgather, data):
    table = pa.table(
        {
            "lat": pa.array([1.0, 3.0]),
            "id": pa.array([2**60 + 1, None], pa.int64()),
            "flag": pa.array([True, None]),
            "when": pa.array([1, None], pa.timestamp("ms", "Europe/Berlin")),
            "kind": pa.array(["a", None]).dictionary_encode(),
            "price": pa.array([1, None], pa.decimal128(9, 2)),
            "parts": pa.array([[1, 2], None]),
            "day": pa.array([1, None], pa.date32()),
        }
    )
    pq.write_table(table, "p.parquet")
    for options in ("--variable w", "--outer"):
        assert ndgather(f"sel d.nc p.parquet -o out.parquet {options}").err == ""
        found = pq.read_table("out.parquet").select(table.column_names)
        assert found.schema.equals(table.schema)
        assert found.slice(0, 1).equals(table.slice(0, 1))
        assert found.slice(len(found) - 1).equals(table.slice(1))
    assert ndgather("sel d.nc p.parquet -o out.csv --variable w").err == ""
    assert str(2**60 + 1) in Path("out.csv").read_text()
    text = "--separator ; --decimal , --encoding utf-16"
    assert ndgather(f"sel d.nc p.parquet -o out.csv --variable w {text}").err == ""
    lines = Path("out.csv").read_text("utf-16").splitlines()
    assert lines[0] == ";".join([*table.column_names, "w"])
    assert [line.rpartition(";")[2] for line in lines[1:]] == ["1,0", "3,0"]
    frame = pd.DataFrame({"lat": [1.0, 2.0], "id": [5, 6]}).set_index("id")
    for each in (frame, frame.reset_index(drop=True), frame.reset_index().iloc[1:]):
        each.to_parquet("p.parquet")
        assert ndgather("sel d.nc p.parquet -o out.parquet --variable w").err == ""
        found = pd.read_parquet("out.parquet")
        pd.testing.assert_frame_equal(found.drop(columns="w"), each)
        assert found["w"].tolist() == each["lat"].tolist()


REFUSED = {
    "a longer row": ("lat\n1\n2,x\n", "", r"row\[1\] = '2,x' has 2 fields, but the header has 1"),
    "a shorter row": ("lat,lon\n1,0\n2\n", "", r"row\[1\] = '2' has 1 field, .* header has 2"),
    "an empty row": ("lat,lon\n1,0\n\n2,0\n", "", r"row\[1\] = '' has 0 fields"),
    "a comma at the end": ("lat,lon\n1,0,\n", "", r"row\[0\] = '1,0,' has 3 fields"),
    "semicolons": ("lat;lon\n1,5;0\n", "", r"row\[0\] .*; write --separator ';'"),
    "two columns": ("lat,lat\n1,2\n", "", "has the columns lat, lat, which both select along lat"),
    "two columns, renamed": (
        "lat,y\n1,2\n",
        "--rename y=lat",
        "has the columns lat, y, which both select along lat",
    ),
    "a decimal comma": ('lat\n"1,5"\n', "", r"lat\[0\] = '1,5' is not a number .*--decimal ','"),
    "a decimal point": ('lat\n"1,5"\n1.5\n', "--decimal ,", r"lat\[1\] = '1.5' is not a number"),
    "no number": (
        "lat\n1\nx\n1_0\n",
        "",
        r"lat\[1\] = 'x' is not a number .*; this affects 2 of 3 rows",
    ),
    "quotes without end": ('lat,id\n1,"a\n2,b\n', "", "cannot be read: unexpected end of data"),
    "another encoding": ("lat,id\n1,ü\n", "--encoding ascii", "cannot be read: .*ascii"),
    "a label that is empty": ('lat\n1\n""\n', "", r".*lat\[1\] = nan is not on the axis"),
}


@pytest.mark.parametrize(("text", "options", "error"), REFUSED.values(), ids=REFUSED)
def test_errors_in_text_name_the_row(ndgather, data, text, options, error):
    written(text)
    outcome = ndgather(f"sel d.nc p.csv -o out.csv --variable w {options}")
    assert (outcome.status, outcome.err.count("\n")) == (1, 1)
    assert re.match(rf"ndgather sel: error: (p.csv: )?{error}", outcome.err), outcome.err
    assert not Path("out.csv").exists()


@pytest.fixture
def times(folder):
    xr.Dataset({"v": ("time", np.arange(4.0))}, {"time": TIMES}).to_netcdf(
        "t.nc", engine="h5netcdf"
    )


@pytest.mark.parametrize(
    "text",
    [
        *(
            "06:30",
            "now",
            "today",
            "2021.5",
            "2021",
            "21-02-03",
            "4 July",
            "2020-02-30",
            "20200132",
        ),
        *("2020-01-02T25:00", "2020-13-01", "1577923200", "2020-W01-3", "02/2020", "yesterday"),
        *("Jan 2 2020", "2 January 2020", "2020/01/02", "2020/1/2", "2020.01.02", "2020-Jan-02"),
        *("2020/1", "--", "2020-01-02T06:30 noon", "02.01.20", "2020-01-02,5", "1e3", "0"),
    ],
)
def test_invalid_times_name_the_row(ndgather, times, text):
    written(text_of([["time"], ["2020-01-01"], [text]]))
    for options in ("", "--method nearest", "--method nearest --missing nan"):
        outcome = ndgather(f"sel t.nc p.csv -o out.csv {options}")
        assert outcome.status == 1
        quoted = re.escape(repr(text))
        assert re.match(rf"ndgather sel: error: p.csv: time\[1\] = {quoted} is ", outcome.err)


@pytest.mark.parametrize(
    "text",
    [
        *("2020-01-02", "2020-01-02T00:00", "2020-01-02 00:00:00.000", "20200102", "20200102T00"),
        *("2020-01-02T00:00Z", "2020-01-02T02:00+02:00", "2020-01-02 00:00-0000"),
    ],
)
def test_equivalent_times_are_equal(ndgather, times, text):
    written(text_of([["time"], [text]]))
    assert ndgather("sel t.nc p.csv -o out.csv").err == ""
    assert pd.read_csv("out.csv")["v"].tolist() == [1.0]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "+05:30"])
def test_parquet_times_are_utc(ndgather, times, zone, unit):
    """CSV texts with the same offset are converted to UTC as well."""
    found = pd.DatetimeIndex(TIMES[[2, 0]], tz="UTC").as_unit(unit)
    column = pa.array([each.value // 10**9 for each in found], pa.int64()).cast(pa.timestamp("s"))
    pq.write_table(pa.table({"time": column.cast(pa.timestamp(unit, zone))}), "p.parquet")
    assert ndgather("sel t.nc p.parquet -o out.csv").err == ""
    assert pd.read_csv("out.csv")["v"].tolist() == [2.0, 0.0]
    if zone is not None:
        written("time\n" + "".join(f"{each.tz_convert(zone).isoformat()}\n" for each in found))
        assert ndgather("sel t.nc p.csv -o out.csv").err == ""
        assert pd.read_csv("out.csv")["v"].tolist() == [2.0, 0.0]


CALENDARS = ["noleap", "360_day", "all_leap", "julian", "standard"]


@pytest.mark.parametrize("calendar", CALENDARS)
def test_times_use_the_calendar_of_the_axis(ndgather, folder, calendar):
    axis = xr.date_range("2001-02-27", periods=6, calendar=calendar, use_cftime=True)
    xr.Dataset({"v": ("time", np.arange(6.0))}, {"time": axis}).to_netcdf("c.nc", engine="h5netcdf")
    decoded = {} if calendar != "standard" else {"decode": True}
    words = [each.isoformat() for each in axis]
    written(text_of([["time"], *([word] for word in words)]))
    for options in ("", "--method nearest", "--method linear"):
        assert ndgather(f"sel c.nc p.csv -o out.csv {options}").err == ""
        assert pd.read_csv("out.csv")["v"].tolist() == [*range(6)]
    written("time\n" + "".join(each.strftime("%d/%m/%Y\n") for each in axis))
    if not decoded:
        assert ndgather("sel c.nc p.csv -o out.csv --date-format %d/%m/%Y").err == ""
        assert pd.read_csv("out.csv")["v"].tolist() == [*range(6)]
    written("time\n2001-02-27\n2001-02-31\n")
    error = ndgather("sel c.nc p.csv -o out.csv").err
    assert "time[1] = '2001-02-31' is not a time" in error


def test_other_calendars_work_in_every_format(ndgather, folder):
    axis = xr.date_range("2001-02-27", periods=3, calendar="noleap", use_cftime=True)
    xr.Dataset({"v": (("time", "lat"), np.zeros((3, 2)))}, {"time": axis, "lat": [0, 1]}).to_netcdf(
        "c.nc", engine="h5netcdf"
    )
    written("lat\n1\n")
    for suffix in ("csv", "parquet"):
        assert ndgather(f"sel c.nc p.csv -o out.{suffix} --outer").err == ""
    assert pd.read_parquet("out.parquet")["time"].tolist() == [str(each) for each in axis]


# Labels, options, and the expected values or the start of an error.
FAR = {
    "inside": ("lat", ["0.4", "2.6"], "", [0.0, 3.0]),
    "half a step": ("lat", ["-0.5", "3.5"], "", [0.0, 3.0]),
    "further": (
        "lat",
        ["1", "3.6"],
        "",
        r"p.csv: lat\[1\] = 3.6 is more than half a step outside .*--tolerance lat=0.6",
    ),
    "further, tolerated": ("lat", ["1", "3.6"], "--tolerance lat=0.7", [1.0, 3.0]),
    "further, missing": ("lat", ["1", "120"], "--missing nan", [1.0, np.nan]),
    "other methods": ("lat", ["120"], "--method pad", [3.0]),
    "linear": ("lat", ["120"], "--method linear", [np.nan]),
}


@pytest.mark.parametrize(("name", "labels", "options", "expected"), FAR.values(), ids=FAR)
def test_nearest_extends_half_a_step_past_the_end(ndgather, data, name, labels, options, expected):
    written(text_of([[name], *([label] for label in labels)]))
    method = "" if "--method" in options else "--method nearest"
    outcome = ndgather(f"sel d.nc p.csv -o out.csv --variable w {method} {options}")
    if isinstance(expected, str):
        assert re.search(expected, outcome.err), outcome.err
    else:
        assert outcome.err == ""
        np.testing.assert_array_equal(pd.read_csv("out.csv")["w"], expected)


# An axis with unequal steps, and the labels half a step past its ends, as decimal text.
UNEVEN = {
    "rising": ([0.0, 1, 3, 7], "-0.5", "9"),
    "falling": ([7.0, 3, 1, 0], "-0.5", "9"),
    "decimals": ([2.1, 2.4, 2.6999999999999997], "1.95", "2.85"),
    "more decimals": ([0.7, 1.4, 2.0999999999999996], "0.35", "2.45"),
    "decimals below 0": ([-0.7, -1.4, -2.0999999999999996], "-2.45", "-0.35"),
}


@pytest.mark.parametrize(("axis", "low", "high"), UNEVEN.values(), ids=UNEVEN)
def test_half_a_step_depends_on_the_nearer_end(ndgather, folder, axis, low, high):
    data = xr.Dataset({"v": ("x", np.arange(float(len(axis))))}, {"x": axis})
    data.to_netcdf("d.nc", engine="h5netcdf")
    line = "sel d.nc p.csv -o out.csv --method nearest"
    written(f"x\n{low}\n{high}\n")
    assert ndgather(line).err == ""
    ends = [float(np.argmin(axis)), float(np.argmax(axis))]
    assert pd.read_csv("out.csv")["v"].tolist() == ends
    for label in (float(low) - 0.001, float(high) + 0.001):
        written(f"x\n{label}\n")
        assert f"p.csv: x[0] = {label} is more than half a step outside of x" in ndgather(line).err


def test_the_hint_selects_the_right_longitude(ndgather, folder):
    lon = np.arange(0.0, 360.0, 5.0)
    xr.Dataset({"v": ("longitude", lon)}, {"longitude": lon}).to_netcdf("g.nc", engine="h5netcdf")
    written("longitude\n10\n-78\n")
    line = "sel g.nc p.csv -o out.csv --method nearest"
    error = ndgather(line).err
    assert "p.csv: longitude[1] = -78 is more than half a step outside of longitude" in error
    assert "--tolerance" not in error  # 78 degrees away
    way = re.search(r"write (--period \S+) if ", error)[1]
    assert ndgather(f"{line} {way}").err == ""
    assert pd.read_csv("out.csv")["v"].tolist() == [10.0, 280.0]


@pytest.mark.parametrize("method", ["", "--method nearest", "--method linear"])
def test_global_longitudes_are_detected(ndgather, data, method):
    written("lat,lon\n1,-30\n2,330\n3,-180\n0,360\n")
    assert ndgather(f"sel d.nc p.csv -o out.csv --variable v {method}").err == ""
    assert pd.read_csv("out.csv")["v"].tolist() == [3301.0, 3302.0, 1803.0, 0.0]
    written("lat,lon\n1,-30\n2,4000\n")
    error = ndgather(f"sel d.nc p.csv -o out.csv --variable v {method}").err
    assert (
        "p.csv: lon[1] = 4000 is not a longitude (allowed: -180.0..360.0, or --period lon=360)"
        in error
    )


# The units of longitudes in the CF conventions, and other units.
EAST = ["degrees_east", "degree_east", "degree_E", "degrees_E", "degreeE", "degreesE"]


@pytest.mark.parametrize("units", [*EAST, "degrees_north", "degrees", "DEGREES_EAST", ""])
def test_only_longitude_units_are_periodic(ndgather, folder, units):
    lon = xr.DataArray(np.arange(0.0, 360.0, 90.0), dims="x", attrs={"units": units})
    xr.Dataset({"v": ("x", lon.values)}, {"x": lon}).to_netcdf("u.nc", engine="h5netcdf")
    written("x\n-90\n")
    outcome = ndgather("sel u.nc p.csv -o out.csv")
    if units in EAST:
        assert outcome.err == ""
        assert pd.read_csv("out.csv")["v"].tolist() == [270.0]
    else:
        assert "x[0] = -90 is not on the axis" in outcome.err


@pytest.mark.parametrize("units", ["degrees_east", "m"])
def test_regional_longitudes_are_not_periodic(ndgather, folder, units):
    lon = xr.DataArray(np.arange(0.0, 11.0), dims="lon", attrs={"units": units})
    xr.Dataset({"v": ("lon", lon.values)}, {"lon": lon}).to_netcdf("r.nc", engine="h5netcdf")
    written("lon\n-75\n")
    line = "sel r.nc p.csv -o out.csv --method"
    for options in ("", "--period lon=360"):
        assert (
            "is more than half a step outside of lon" in ndgather(f"{line} nearest {options}").err
        )
        assert ndgather(f"{line} linear {options}").err == ""
        assert pd.read_csv("out.csv")["v"].isna().all()
    written("lon\n355\n-5\n365\n")  # 365 is valid only if the axis is periodic
    assert ndgather("sel r.nc p.csv -o out.csv --missing nan").err == ""
    assert pd.read_csv("out.csv")["v"].isna().all()
    assert ndgather("sel r.nc p.csv -o out.csv --missing nan --period lon=360").err == ""
    assert pd.read_csv("out.csv")["v"].tolist()[2] == 5.0


def test_a_region_across_zero_has_a_gap(ndgather, folder):
    lon = [0.0, 1.0, 2.0, 358.0, 359.0]
    xr.Dataset({"v": ("lon", lon)}, {"lon": lon}).to_netcdf("z.nc", engine="h5netcdf")
    written("lon\n-1.2\n180\n")
    line = "sel z.nc p.csv -o out.csv --method nearest --period lon=360"
    error = ndgather(line).err
    assert "p.csv: lon[1] = 180.0 is more than half a step outside of lon" in error
    assert ndgather(f"{line} {re.search('write (--.*) for', error)[1]}").err == ""
    assert pd.read_csv("out.csv")["v"][0] == 359.0


def test_dates_outside_the_axis_have_a_hint(ndgather, times):
    for text in ("2021-01-01", "1900-01-01"):
        written(f"time\n2020-01-02\n{text}\n")
        line = "sel t.nc p.csv -o out.csv --method nearest"
        error = ndgather(line).err
        end = "before the first" if text < "2020" else "after the last"
        assert f"p.csv: time[1] = {text} is {end} time of the grid, 2020-01-0" in error
        assert "--tolerance" not in error  # it would select a value from a different year
        assert ndgather(f"{line} {re.search('write (--.*) for', error)[1]}").err == ""
        assert pd.read_csv("out.csv")["v"].isna().tolist() == [False, True]
    written("time\n2020-01-04T12:00\n2020-01-04T12:01\n")
    assert "time[1] = " in ndgather(line).err
    if versions.order(pd.__version__) < [3]:  # older versions cannot represent times after 2262
        return
    written("time\n9999-12-31\n")
    assert "write --missing nan" in ndgather(line).err
    assert ndgather(f"{line} --missing nan").err == ""
    assert pd.read_csv("out.csv")["v"].isna().all()


def test_add_labels_writes_label_and_distance(ndgather, data, times):
    written("id,lat,lon\na,0.4,-40\nb,2.75,359\n")
    line = "-o out.csv --variable v --method nearest --add-labels"
    assert ndgather(f"sel d.nc p.csv {line}").err == ""
    out = pd.read_csv("out.csv")
    more = ["lat_label", "lat_distance", "lon_label", "lon_distance"]
    assert list(out) == ["id", "lat", "lon", "v", *more]
    np.testing.assert_allclose(out[more], [[0, 0.4, 330, 10], [3, 0.25, 0, 1]])
    written("time\n2020-01-02T06:00\n")
    assert ndgather(f"sel t.nc p.csv {line}").err == ""
    out = pd.read_csv("out.csv")
    assert out["time_label"].tolist() == ["2020-01-02"]
    assert pd.to_timedelta(out["time_distance"]).tolist() == [pd.Timedelta("6h")]


@pytest.mark.parametrize("dtype", ["i4", "f4", "f8"])
def test_distances_go_around_a_period(ndgather, folder, dtype, draws):
    axis = np.array([0, 90, 170, 300], dtype)
    xr.Dataset({"v": ("lon", axis)}, {"lon": axis}).to_netcdf("p.nc", engine="h5netcdf")
    scale = 1 if dtype == "i4" else 4
    labels = np.array([draws.randint(-2000 * scale, 2000 * scale) for _ in range(20)]) / scale
    written("lon\n" + "".join(f"{label:g}\n" for label in labels))
    line = "sel p.nc p.csv -o out.csv --method nearest --period lon=360 --add-labels"
    assert ndgather(line).err == ""
    out = pd.read_csv("out.csv")
    turns = 360 * np.arange(-6, 7)[:, np.newaxis]
    for label, *found in zip(labels, out["lon_label"], out["lon_distance"], strict=True):
        distances = np.abs(axis.astype(float) + turns - label).min(axis=0)
        assert found[1] == distances.min()
        assert found[1] == distances[list(axis).index(found[0])]


@pytest.mark.parametrize("method", ["nearest", "linear"])
def test_a_missing_label_has_no_distance(ndgather, folder, method):
    for axis in ("noleap", "lat", "time"):
        xr.Dataset({"v": (axis, np.arange(float(len(AXES[axis]))))}, {axis: AXES[axis]}).to_netcdf(
            "m.nc", engine="h5netcdf"
        )
        for texts in ([""], [str(AXES[axis][1]), ""]):
            written(text_of([[axis], *([text] for text in texts)]))
            line = f"sel m.nc p.csv -o out.csv --add-labels --missing nan --method {method}"
            assert ndgather(line).err == ""
            out = pd.read_csv("out.csv", skip_blank_lines=False)
            assert out[f"{axis}_distance"].isna().tolist() == [text == "" for text in texts]


def test_keep_copies_a_column(ndgather, data):
    written("lat,lon\n1,here\n")
    assert "lon[0] = 'here' is not a number" in ndgather("sel d.nc p.csv -o out.csv").err
    assert ndgather("sel d.nc p.csv -o out.csv --keep lon --variable w").err == ""
    assert Path("out.csv").read_text() == "lat,lon,w\n1,here,1.0\n"
    error = ndgather("sel d.nc p.csv -o out.csv --keep lom").err
    assert "--keep lom: lom is not a column (allowed: lat, lon); did you mean 'lon'?" in error
    written("lat,lonely\n1,x\n")
    error = ndgather("sel d.nc p.csv -o out.csv --outer").err
    assert "with --keep lonely); write --rename lonely=lon" in error
    assert ndgather("sel d.nc p.csv -o out.csv --outer --keep lonely").err == ""


def test_hints_quote_names_with_spaces(ndgather, data):
    written("lat, lon\n1,2\n")
    error = ndgather("sel d.nc p.csv -o out.csv --outer").err
    assert error.rstrip().endswith("with --keep ' lon'); write --rename ' lon=lon'")


def test_a_scalar_coordinate_must_match(ndgather, folder):
    data = xr.Dataset({"v": ("lat", np.arange(3.0))}, {"lat": [0.0, 1, 2]})
    data = data.assign_coords(time=TIMES[0], level=850.0, name="run 1")
    data.to_netcdf("s.nc", engine="h5netcdf")
    written("lat,time,level,name\n1,2020-01-01,850,run 1\n2,2020-01-01T00:00,8.5e2,run 1\n")
    assert ndgather("sel s.nc p.csv -o out.csv").err == ""
    assert pd.read_csv("out.csv")["v"].tolist() == [1.0, 2.0]
    for name, text in (("time", "2020-01-02"), ("level", "500"), ("name", "run 2"), ("level", "")):
        written(text_of([["lat", name], ["1", text]]))
        error = ndgather("sel s.nc p.csv -o out.csv").err
        assert f"p.csv: {name}[0] = {text!r} is not the {name} of the data" in error
        assert ndgather(f"sel s.nc p.csv -o out.csv --keep {name}").err == ""


def test_dimensions_without_labels_are_indexed_by_position(ndgather, folder):
    values = np.arange(24.0).reshape(4, 3, 2)
    xr.Dataset({"v": (("time", "y", "x"), values)}, {"time": TIMES}).to_netcdf(
        "n.nc", engine="h5netcdf"
    )
    written("time,y,x\n2020-01-02,2,1\n")
    assert ndgather("sel n.nc p.csv -o out.csv").err == ""
    assert pd.read_csv("out.csv")["v"].tolist() == [values[1, 2, 1]]
    for text in ("-1", "1.0", "", "x", "2"):
        written(text_of([["time", "y", "x"], ["2020-01-02", "0", text]]))
        assert re.search(r"x\[0\] = .* is ", ndgather("sel n.nc p.csv -o out.csv").err)


def test_two_dimensional_latitudes_are_explained(ndgather, folder):
    grid = np.arange(6.0).reshape(2, 3)
    data = xr.Dataset(
        {"v": (("y", "x"), grid)}, {"lat": (("y", "x"), grid), "lon": (("y", "x"), grid)}
    )
    data.to_netcdf("c.nc", engine="h5netcdf")
    written("lat,lon\n1,1\n")
    error = ndgather("sel c.nc p.csv -o out.csv --method nearest").err
    assert "coordinate lat has the dimensions (y, x)" in error
    assert "set_xindex(['lat', 'lon'], xarray.indexes.NDPointIndex)" in error
    written("y,x,lat,lon\n1,1,9,9\n")  # y and x select; the other columns are copied
    assert ndgather("sel c.nc p.csv -o out.csv").err == ""
    assert Path("out.csv").read_text() == "y,x,lat,lon,v\n1,1,9,9,4.0\n"


AXIS_TEXTS = {
    "station ids": (["00123", "00007"], ["00123", "00007"], []),
    "a station called NA": (["NA", "DE"], ["NA", "DE"], []),
    "bytes": (np.array([b"AB", b"C"]), ["AB", "C"], []),
    "durations": (pd.to_timedelta([0, 6], "h"), ["0h", "6h"], ["6", "six"]),
    "large numbers": ([2**60 + 1, 2**60 + 2], [str(2**60 + 1), str(2**60 + 2)], ["1,0", "1_0"]),
}


@pytest.mark.parametrize("name", AXIS_TEXTS)
def test_text_is_converted_to_the_label_type(ndgather, folder, name):
    axis, texts, others = AXIS_TEXTS[name]
    xr.Dataset({"v": ("x", [0.0, 1.0])}, {"x": axis}).to_netcdf("d.nc", engine="h5netcdf")
    for missing in ("", "--missing nan"):
        written(text_of([["x"], *([text] for text in texts)]))
        assert ndgather(f"sel d.nc p.csv -o out.csv {missing}").err == ""
        assert pd.read_csv("out.csv")["v"].tolist() == [0.0, 1.0]
        for text in others:
            written(text_of([["x"], [text]]))
            assert "x[0] = " in ndgather(f"sel d.nc p.csv -o out.csv {missing}").err


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int8"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_integers_beside_missing_values_keep_their_digits(ndgather, folder, suffix, dtype):
    """float64 would round the labels to other labels of the axis."""
    most = np.iinfo(dtype).max
    axis, labels = [most - 1, most], [most, None, most - 1, None if most < 2**53 else most - 2]
    data = xr.Dataset({"v": ("x", [0.0, 1.0])}, {"x": np.array(axis, dtype)})
    data.to_netcdf("d.nc", engine="h5netcdf")
    if suffix == "csv":
        written(text_of([["x", "id"], *[["" if n is None else n, "1"] for n in labels]]))
    else:
        pq.write_table(pa.table({"x": pa.array(labels, dtype)}), "p.parquet")
    for options in ("", "--add-labels"):
        line = f"sel d.nc p.{suffix} -o out.csv --missing nan {options}"
        assert ndgather(line).err == ""
        found = pd.read_csv("out.csv", skip_blank_lines=False)
        np.testing.assert_array_equal(found["v"], [1, np.nan, 0, np.nan])
    assert "x[1] = " in ndgather(f"sel d.nc p.{suffix} -o out.csv").err
    written(f"x\n{most}\n1.5\n")
    assert ndgather("sel d.nc p.csv -o out.csv --missing nan").err == ""
    np.testing.assert_array_equal(pd.read_csv("out.csv")["v"], [1, np.nan])
    for method in ("nearest", "pad", "backfill", "linear"):
        error = ndgather(f"sel d.nc p.csv -o out.csv --missing nan --method {method}").err
        text = "x.dtype = float64 cannot be looked up on an axis of u?int64 labels"
        assert bool(re.search(text, error)) == (most > 2**53), error


def test_a_scalar_coordinate_may_have_single_precision(ndgather, folder):
    data = xr.Dataset({"v": ("lat", np.arange(3.0))}, {"lat": [0.0, 1, 2]})
    data.assign_coords(sigma=np.float32(0.995)).to_netcdf("s.nc", engine="h5netcdf")
    written("lat,sigma\n1,0.995\n")
    assert ndgather("sel s.nc p.csv -o out.csv").err == ""
    written("lat,sigma\n1,0.9951\n")
    assert "sigma[0] = '0.9951' is not the sigma" in ndgather("sel s.nc p.csv -o out.csv").err


def test_missing_times_in_other_calendars(ndgather, folder):
    axis = AXES["noleap"]
    data = xr.Dataset({"v": ("noleap", np.arange(3.0)), "start": ("noleap", np.array(axis))})
    data.assign_coords(noleap=axis).to_netcdf("c.nc", engine="h5netcdf")
    written(f"noleap\n9999-01-01\n{axis[1]}\n2020-01-05\n")
    line = "sel c.nc p.csv --method nearest --missing nan --add-labels -o"
    for suffix in ("csv", "parquet"):
        assert ndgather(f"{line} out.{suffix}").err == ""
    for out in (pd.read_csv("out.csv"), pd.read_parquet("out.parquet")):
        for name in ("start", "noleap_label"):
            assert out[name].isna().tolist() == [True, False, True]
            assert out[name][1] == str(axis[1])


def test_a_variable_may_be_called_point(ndgather, folder):
    data = xr.Dataset(
        {"point": ("lat", [1.0, 2.0]), "point_": ("lat", [3.0, 4.0])}, {"lat": [0, 1]}
    )
    data.to_netcdf("p.nc", engine="h5netcdf")
    written("lat\n1\n0\n")
    assert ndgather("sel p.nc p.csv -o out.csv").err == ""
    assert Path("out.csv").read_text() == "lat,point,point_\n1,2.0,4.0\n0,1.0,3.0\n"
