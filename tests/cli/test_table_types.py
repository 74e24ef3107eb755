"""Column types, missing values and line formats: digits are kept, or the format is refused."""

import csv
import datetime
import decimal
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.test_sel_tables import run

BIG = 2**60 + 1
ZONE = "Europe/Berlin"
# Arrow types, values, and netCDF support: also beside missing values, only without them, or never.
TYPES = {
    "int8": (pa.int8(), [-5, 7], "always"),
    "int64": (pa.int64(), [-3, 2**53], "always"),
    "large int64": (pa.int64(), [BIG, -BIG], "alone"),
    "uint64": (pa.uint64(), [2**64 - 1, 0], "alone"),
    "float16": (pa.float16(), [1.5, -0.25], "always"),
    "float32": (pa.float32(), [0.5, 3.0], "always"),
    "float64": (pa.float64(), [0.1, 1e300], "always"),
    "bool": (pa.bool_(), [True, False], "alone"),
    "text": (pa.string(), ["a", 'é, "x"\n'], "always"),
    "large text": (pa.large_string(), ["a", "b"], "always"),
    "category": (pa.dictionary(pa.int32(), pa.string()), ["a", "b"], "always"),
    "bytes": (pa.binary(), [b"ab", b"c"], "always"),
    "decimal": (pa.decimal128(20, 2), [decimal.Decimal("1.10")] * 2, "never"),
    "time": (pa.timestamp("ms"), [datetime.datetime(2020, 1, 2, 3)] * 2, "always"),
    "zone": (
        pa.timestamp("ms", ZONE),
        [datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC)] * 2,
        "never",
    ),
    "date": (pa.date32(), [datetime.date(2020, 1, 2), datetime.date(1600, 1, 1)], "always"),
    "clock": (pa.time32("ms"), [datetime.time(1, 2, 3)] * 2, "never"),
    "duration": (pa.duration("s"), [datetime.timedelta(hours=5)] * 2, "always"),
    "list": (pa.list_(pa.int64()), [[1, 2], []], "never"),
    "struct": (pa.struct({"a": pa.int64()}), [{"a": 1}, {"a": 2}], "never"),
}

# The same for the values of a data set: with 8-byte integers, and beside missing labels.
VALUES = {
    "i1": ([-5, 7], "always"),
    "i4": ([2**31 - 1, -9], "always"),
    "i8": ([BIG, -BIG], "alone"),
    "<i8": ([-BIG, 9], "alone"),
    "u8": ([2**64 - 1, 2**53 + 1], "alone"),
    "f2": ([1.5, -0.25], "always"),
    "f4": ([0.1, 3.0], "always"),
    "f8": ([0.1, 1e300], "always"),
    "?": ([True, False], "alone"),
}


def is_held(held, has_missing):
    return held == "always" or (held == "alone" and not has_missing)


def texts(values):
    """Return the CSV cells for Python values."""
    return ["" if value is None else str(value) for value in values]


def as_python(values):
    """Return the values of a netCDF variable as Python objects, with None for missing values."""
    return [None if pd.isna(value) else value for value in values]


@pytest.mark.parametrize("has_missing", [False, True])
@pytest.mark.parametrize("dtype", VALUES)
def test_netcdf_keeps_digits_or_is_refused(dtype, has_missing):
    assert_kept("int8", dtype, "nc", False, has_missing)


@settings(max_examples=min(settings.default.max_examples, 150))
@given(
    *(st.sampled_from([*each]) for each in (TYPES, VALUES, ("csv", "parquet", "nc"))),
    st.booleans(),
    st.booleans(),
)
def test_digits_are_kept_or_the_format_is_refused(name, dtype, suffix, has_null, has_missing):
    assert_kept(name, dtype, suffix, has_null, has_missing)


def assert_kept(name, dtype, suffix, has_null, has_missing):
    kind, values, held = TYPES[name]
    kept = pa.array([values[0], None if has_null else values[1], values[1]], kind)
    stored, value_held = VALUES[dtype]
    stored = np.array(stored, dtype)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        xr.Dataset({"v": ("lat", stored)}, {"lat": [1.0, 2.0]}).to_zarr(
            "d.zarr", consolidated=False
        )
        lat = [1.0, 9.0 if has_missing else 1.0, 2.0]
        pq.write_table(pa.table({"lat": lat, "kept": kept}), "p.parquet")
        line = ["sel", "d.zarr", "p.parquet", "-o", f"o.{suffix}", "--missing", "nan"]
        status, error = run(line)
        if suffix == "nc" and not (is_held(held, has_null) and is_held(value_held, has_missing)):
            column = "v" if is_held(held, has_null) else "kept"
            assert re.search(
                rf"o.nc: cannot be written: .*, as column '{column}' does \(allowed: ", error
            )
            assert not Path("o.nc").exists()
            return
        assert (status, error) == (0, "")
        found = stored.tolist()
        found = [found[0], None if has_missing else found[0], found[1]]
        if suffix == "parquet":
            table = pq.read_table("o.parquet")
            assert table["kept"].combine_chunks().equals(kept)
            assert table["v"].to_pylist() == found
        elif suffix == "csv":
            rows = [*csv.DictReader(io.StringIO(Path("o.csv").read_text(), newline=""))]
            if name == "duration":  # pandas also writes days
                cells = [None if not row["kept"] else pd.Timedelta(row["kept"]) for row in rows]
                assert cells == kept.to_pylist()
            elif kind not in (pa.float16(), pa.float32()) and "zone" not in name:
                assert [row["kept"] for row in rows] == texts(kept.to_pylist())
            if dtype in ("i8", "u8", "f8"):
                assert [row["v"] for row in rows] == texts(found)
        else:
            with h5py.File("o.nc") as file:
                for variable in file.values():
                    is_float16 = variable.dtype == np.float16  # not supported by netCDF
                    assert not is_float16
            # Nanoseconds cannot represent 1600.
            times = xr.coders.CFDatetimeCoder(time_unit="s")
            with xr.open_dataset("o.nc", engine="netcdf4", decode_times=times) as out:
                assert as_python(out["v"].values.tolist()) == found
                if name in ("bytes", "date", "time", "duration"):
                    return
                of_table = kept.to_pylist()
                if "text" in name or name == "category":
                    of_table = [value or "" for value in of_table]
                assert as_python(out["kept"].values.tolist()) == of_table


def words(*line, given=b""):
    """Run a command line in a separate process, with bytes on standard input."""
    return subprocess.run(
        [sys.executable, "-m", "ndgather", *line], check=False, capture_output=True, input=given
    )


@pytest.fixture
def grid(folder):
    """A data set whose values are the latitude."""
    lat = np.arange(4.0)
    xr.Dataset({"v": ("lat", lat)}, {"lat": lat}).to_netcdf("d.nc", engine="h5netcdf")
    return folder


def test_netcdf_column_names_are_checked(grid, ndgather):
    for header in ("id,id", "a/b,id", ",id"):
        Path("p.csv").write_text(f"lat,{header}\n1,2,3\n")
        assert "o.nc: cannot be written: a netCDF column" in ndgather("sel d.nc p.csv -o o.nc").err
        assert ndgather("sel d.nc p.csv -o o.csv").err == ""
        assert Path("o.csv").read_text() == f"lat,{header},v\n1,2,3,1.0\n"


def test_tables_are_piped(grid):
    text = "lat,id\n1,007\n3,\n"
    done = words("sel", "d.nc", "-", "-o", "-", "--json", given=text.encode())
    assert done.returncode == 0
    assert done.stdout.decode() == "lat,id,v\n1,007,1.0\n3,,3.0\n"
    summary = json.loads(done.stderr)
    assert summary.pop("seconds") > 0
    assert summary == {"output": "-", "rows": 2, "columns": ["lat", "id", "v"]}
    quiet = words("sel", "d.nc", "-", "-o", "-", given=text.encode())
    assert (quiet.stdout, quiet.stderr) == (done.stdout, b"")
    assert not (grid / "-").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_full_and_closed_pipes(grid):
    Path("p.csv").write_text("lat\n1\n")
    line = [sys.executable, "-m", "ndgather", "sel", "d.nc", "p.csv", "-o", "-"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(line, check=False, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    error = "ndgather sel: error: standard output: cannot be written: no space left on device\n"
    assert done.stderr == error
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(line, check=False, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_json_prints_the_summary(grid, ndgather):
    Path("p.csv").write_text("lat\n1\n2\n")
    summary = json.loads(ndgather("sel d.nc p.csv -o o.csv --json").out)
    assert summary.pop("seconds") > 0
    assert summary == {"output": "o.csv", "rows": 2, "columns": ["lat", "v"]}
    plan = json.loads(ndgather("sel d.nc p.csv --dry-run --json").out)
    assert (plan["rows"], plan["variables"]["v"]["points"]) == (2, 2)
    assert plan["memory_bytes"] > plan["variables"]["v"]["memory_bytes"]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Athens", "America/St_Johns"])
def test_times_with_a_zone_are_converted_to_utc(folder, ndgather, zone):
    hours = pd.date_range("2020-01-01", periods=24, freq="h")
    values = xr.Dataset({"v": ("time", np.arange(24.0))}, {"time": hours})
    values.to_netcdf("hours.nc", engine="h5netcdf")
    pd.DataFrame({"time": hours[[12]].tz_localize("UTC").tz_convert(zone)}).to_parquet("t.parquet")
    assert ndgather("sel hours.nc t.parquet -o o.csv").err == ""
    assert Path("o.csv").read_text().splitlines()[1].endswith(",12.0")


def test_a_dry_run_counts_the_table(grid, ndgather):
    plans = []
    for count in (10, 10_000):
        Path("p.csv").write_text("lat,text\n" + f"1,{'x' * 100}\n" * count)
        plans.append(json.loads(ndgather("sel d.nc p.csv --dry-run --json").out))
        last = ndgather("sel d.nc p.csv --dry-run").out.splitlines()[-1]
        assert re.fullmatch(
            rf"p.csv: {count} rows, .* with the labels; memory at most .* in total", last
        )
    more = plans[1]["memory_bytes"] - plans[0]["memory_bytes"]
    assert more > 9_990 * (100 + 8)  # the text and a label


def test_cells_may_have_any_length(grid, ndgather):
    polygon = "POLYGON((" + ",".join(f"{i}.1 {i}.2" for i in range(20_000)) + "))"
    Path("p.csv").write_text(f'lat,geometry\n1,"{polygon}"\n')
    assert ndgather("sel d.nc p.csv -o o.csv").err == ""
    assert Path("o.csv").read_text() == f'lat,geometry,v\n1,"{polygon}",1.0\n'


# Line formats of a table, which has more rows than a block.
FORMS = {
    "plain": ("{},{}\n", ","),
    "quoted": ('{},"{}, and more"\n', ","),
    "of Windows": ("{},{}\r\n", ","),
    "semicolons": ("{};{}\n", ";"),
    "without an end": ("{},{}\n", ","),
}


@pytest.mark.parametrize(
    ("form", "output"),
    [
        *((form, "o.csv") for form in FORMS),
        *(("quoted", output) for output in ("o.tsv", "o.csv.gz", "o.parquet", "o.nc")),
    ],
)
def test_tables_of_many_blocks_are_complete(grid, ndgather, form, output):
    line, separator = FORMS[form]
    rows = [(i % 4, f"s{i}") for i in range(20_000)]
    content = line.format("lat", "id") + "".join(line.format(*row) for row in rows)
    Path("p.csv").write_bytes(content.removesuffix("\n" * (form == "without an end")).encode())
    assert ndgather(f"sel d.nc p.csv -o {output} --separator {separator}").err == ""
    if output.endswith(".parquet"):
        found = pd.read_parquet(output)
    elif output.endswith(".nc"):
        found = xr.open_dataset(output, engine="h5netcdf").to_dataframe()
    else:
        found = pd.read_csv(output, sep=separator)
    named = [row[1] + ", and more" * (form == "quoted") for row in rows]
    assert found.iloc[:, 1].tolist() == named
    assert found["lat"].tolist() == found["v"].tolist() == [row[0] for row in rows]


@pytest.mark.parametrize("far", [8_192, 19_999])
def test_errors_name_rows_in_later_blocks(grid, ndgather, far):
    rows = ["1,a"] * 20_000
    cases = {"x,a": f"lat[{far}] = 'x' is not a number", "1": f"row[{far}] = '1' has 1 field"}
    for bad, text in cases.items():
        lines = [*rows[:far], bad, *rows[far + 1 :]]
        Path("p.csv").write_text("lat,id\n" + "\n".join(lines))
        error = ndgather("sel d.nc p.csv -o o.csv").err
        assert text in error
        assert "this affects" not in error
    Path("p.csv").write_text("lat,id\n" + "\n".join(["x,a", *rows, "y,b", *rows, "z,c"]))
    assert (
        "lat[0] = 'x' is not a number (allowed: numbers such as 1.5); this affects 3 of 40003 rows"
        in (ndgather("sel d.nc p.csv -o o.csv").err)
    )


@pytest.mark.parametrize(("big", "dtype"), [(BIG, "f8"), (-BIG - 1, "i8")])
def test_labels_that_differ_between_blocks(folder, ndgather, big, dtype):
    """One block has missing or small labels, another has large labels."""
    axis = np.array([1, big, big + 1])
    values = np.array([0, 1, 2], dtype)
    xr.Dataset({"v": ("n", values)}, {"n": axis}).to_netcdf("n.nc", engine="h5netcdf")
    texts = [*[1, ""] * 4_096, *[big + 1, big] * 4_096]
    Path("n.csv").write_text("n,id\n" + "".join(f"{text},a\n" for text in texts))
    assert ndgather("sel n.nc n.csv -o o.csv --missing nan").err == ""
    found = pd.read_csv("o.csv")["v"]
    np.testing.assert_array_equal(found, [*[0.0, np.nan] * 4_096, *[2.0, 1.0] * 4_096])


def test_zones_that_differ_between_blocks(folder, ndgather):
    times = pd.date_range("2020-01-01", periods=2)
    xr.Dataset({"v": ("time", [0.0, 1.0])}, {"time": times}).to_netcdf("t.nc", engine="h5netcdf")
    Path("t.csv").write_text("time\n" + "2020-01-01\n" * 9_000 + "2020-01-02T00:00Z\n")
    error = ndgather("sel t.nc t.csv -o o.csv").err
    assert "time[9000] = '2020-01-02T00:00Z' has a time zone, unlike the first time" in error
    Path("t.csv").write_text("time\n" + "2020-01-01\n" * 9_000 + "2020-01-02T00:00\n")
    assert ndgather("sel t.nc t.csv -o o.csv --add-labels").err == ""
    assert {*pd.read_csv("o.csv")["time_label"]} == {"2020-01-01", "2020-01-02"}
