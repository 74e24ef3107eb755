"""``ndgather sel``: look up values of a data set at the points of a table."""

import re
import sys
import warnings
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMES = pd.date_range("2010-07-01", periods=6, freq="12h")
LATITUDES = np.array([-10.0, 0.0, 10.0, 20.0])
LONGITUDES = np.arange(0.0, 360.0, 45.0)
SST = np.random.default_rng(3).normal(size=(6, 4, 8)).astype(np.float32)
POINTS = """\
name,time,lat,lon
A,2010-07-01T00:00,0,45
B,2010-07-03T12:00,20,315
A,2010-07-01T12:00,-10,0
"""
NEAR = """\
time,lat,lon
2010-07-01T04:00,4,50
2010-07-03T11:00,13,-50
"""


@pytest.fixture
def data(folder):
    """A data set in sst.nc and sst.zarr, and tables of points, in the working directory."""
    dims = ("time", "lat", "lon")
    data = xr.Dataset(
        {"sst": (dims, SST, {"units": "K"}), "depth": (dims[1:], SST[0] * 100)},
        {"time": TIMES, "lat": LATITUDES, "lon": LONGITUDES},
    )
    data.to_netcdf("sst.nc", engine="h5netcdf")
    data.to_zarr("sst.zarr", consolidated=False)
    with warnings.catch_warnings(action="ignore"):  # zarr: dtypes without a spec
        data.to_zarr("whole.zarr", consolidated=True)
    (folder / "points.csv").write_text(POINTS)
    (folder / "near.csv").write_text(NEAR)
    return data


@pytest.mark.parametrize("place", ["sst.nc", "sst.zarr"])
def test_values_become_a_column(ndgather, data, folder, place):
    outcome = ndgather(f"sel {place} points.csv -o out.csv")

    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith("out.csv: 3 rows of name, time, lat, lon, sst;")
    values = [str(SST[0, 1, 1]), str(SST[5, 3, 7]), str(SST[1, 0, 0])]
    lines = POINTS.splitlines()
    expected = [f"{lines[0]},sst", *(f"{a},{b}" for a, b in zip(lines[1:], values, strict=True))]
    assert (folder / "out.csv").read_text().splitlines() == expected


def test_the_table_in_the_help_is_written(ndgather, folder, capsys):
    axes = {"time": [0, 1], "lat": [-10.0, 0.0, 10.0], "lon": np.arange(0.0, 360, 90)}
    sst = xr.DataArray(np.arange(24.0).reshape(2, 3, 4), axes, tuple(axes), "sst")
    sst.to_dataset().to_netcdf("sst.nc", engine="h5netcdf")
    lines = ndgather("sel --help").out.splitlines()
    first = next(n for n, line in enumerate(lines) if line.split() == ["track.csv", "along.csv"])
    rows = [line.split() for line in lines[first + 1 : first + 4]]
    points, table = ("".join(f"{row[side]}\n" for row in rows) for side in (0, 1))
    (folder / "track.csv").write_text(points)

    outcome = ndgather("sel sst.nc track.csv -o along.csv --method nearest --period lon=360")

    assert (outcome.status, outcome.err) == (0, "")
    assert (folder / "along.csv").read_text() == table


def test_a_url_is_read_over_http(ndgather, data, served):
    assert ndgather(f"sel {served}/whole.zarr points.csv -o out.csv").err == ""
    np.testing.assert_array_equal(
        pd.read_csv("out.csv")["sst"].astype(np.float32), [SST[0, 1, 1], SST[5, 3, 7], SST[1, 0, 0]]
    )


def test_methods_select_between_labels(ndgather, data):
    line = "sel sst.nc near.csv -o out.csv --period lon=360 --method"
    assert ndgather(f"{line} nearest").err == ""
    np.testing.assert_array_equal(
        pd.read_csv("out.csv")["sst"].astype(np.float32), [SST[0, 1, 1], SST[5, 2, 7]]
    )
    exact = ndgather(f"{line.removesuffix(' --method')} --tolerance lat=3.5")
    assert "--tolerance has no effect on exact labels" in exact.err
    assert ndgather(f"{line} nearest --tolerance lat=3.5 --missing nan").err == ""
    np.testing.assert_array_equal(pd.read_csv("out.csv")["sst"].isna(), [True, False])
    assert ndgather(f"{line} nearest --tolerance time=2h --missing nan").err == ""
    np.testing.assert_array_equal(pd.read_csv("out.csv")["sst"].isna(), [True, False])


def test_linear_equals_interp(ndgather, data):
    assert ndgather("sel sst.nc near.csv -o out.csv --period lon=360 --method linear").err == ""
    table = pd.read_csv("near.csv", parse_dates=["time"])
    at = {
        name: xr.DataArray(table[name] % 360 if name == "lon" else table[name], dims="point")
        for name in table
    }
    expected = data["sst"].interp(at).values
    np.testing.assert_allclose(pd.read_csv("out.csv")["sst"], expected, rtol=1e-5)


@pytest.mark.parametrize("count", [6, 2, 1])
def test_outer_writes_a_row_per_label(ndgather, data, folder, count):
    data.isel(time=slice(count)).to_zarr("short.zarr", consolidated=False)
    (folder / "stations.csv").write_text("lon,name,lat\n45,A,0\n315,B,20\n")
    line = "sel short.zarr stations.csv -o out.csv --variable sst --quiet"

    assert ("--outer" in ndgather(line).err) == (count > 1)
    (folder / "out.csv").unlink(missing_ok=True)
    outcome = ndgather(f"{line} --outer")

    assert outcome.err == ""
    table = pd.read_csv("out.csv", parse_dates=["time"])
    assert list(table) == ["lon", "name", "lat", "time", "sst"]
    assert table["name"].tolist() == ["A"] * count + ["B"] * count
    assert table["time"].tolist() == [*TIMES[:count], *TIMES[:count]]
    expected = np.concatenate([SST[:count, 1, 1], SST[:count, 3, 7]])
    np.testing.assert_array_equal(table["sst"].astype(np.float32), expected)


def test_all_variables_with_the_coordinates_are_read(ndgather, data, folder):
    (folder / "stations.csv").write_text("lat,lon\n20,315\n")
    assert (
        ndgather("sel sst.nc stations.csv -o out.csv --outer --variable depth --variable sst").err
        == ""
    )
    assert list(pd.read_csv("out.csv")) == ["lat", "lon", "time", "depth", "sst"]


def test_parquet_is_read_and_written(ndgather, data):
    points = pd.read_csv("points.csv", parse_dates=["time"])
    points.to_parquet("points.parquet")

    assert ndgather("sel sst.zarr points.parquet -o out.parquet").err == ""

    table = pd.read_parquet("out.parquet")
    pd.testing.assert_frame_equal(table[list(points)], points)
    np.testing.assert_array_equal(
        table["sst"], [SST[0, 1, 1], SST[5, 3, 7], SST[1, 0, 0]], strict=False
    )
    assert table["sst"].dtype == np.float32


def test_netcdf_is_written(ndgather, data):
    outcome = ndgather("sel sst.nc points.csv -o out.nc")

    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith("out.nc: 3 rows of name, time, lat, lon, sst;")
    with xr.open_dataset("out.nc", engine="h5netcdf") as table:
        assert dict(table.sizes) == {"point": 3}
        assert table["name"].values.tolist() == ["A", "B", "A"]
        assert (table["time"].values == TIMES[[0, 5, 1]].values).all()
        assert table["lat"].values.tolist() == [0.0, 20.0, -10.0]
        assert table["sst"].values.tolist() == [SST[0, 1, 1], SST[5, 3, 7], SST[1, 0, 0]]
        assert table["sst"].dtype == np.float32


REFUSED = {
    "a label that is not there": (
        "sel sst.nc near.csv -o out.csv",
        r"near.csv: time\[0\] = .* is not on the axis .*write --method nearest for the nearest "
        r"label, or --missing nan for NaN",
    ),
    "no data": ("sel none.nc points.csv -o out.csv", r"none.nc: cannot be read: no such file .*"),
    "no zarr": ("sel none.zarr points.csv -o out.csv", r"none.zarr: cannot be read: .*"),
    "an array, which has no coordinates": (
        "sel sst.zarr/sst points.csv -o out.csv",
        r"sst.zarr/sst: cannot be read: an array has no coordinates \(allowed: the group .*\); "
        r"write sst.zarr --variable sst",
    ),
    "no table": ("sel sst.nc none.csv -o out.csv", r"none.csv: cannot be read: no such file .*"),
    "another kind of table": (
        "sel sst.nc points.xls -o out.csv",
        r"points.xls: unknown file type \(allowed: .csv, .tsv, .csv.gz, .tsv.gz, .parquet\)",
    ),
    "another kind of output": (
        "sel sst.nc points.csv -o out.txt",
        r"out.txt: unknown file type \(allowed: .csv, .tsv, .csv.gz, .tsv.gz, .parquet, .nc\)",
    ),
    "an empty table": (
        "sel sst.nc empty.csv -o out.csv",
        r"empty.csv: cannot be read: no columns.*",
    ),
    "no column that selects": (
        "sel sst.nc names.csv -o out.csv",
        r"names.csv: has the columns name, latitudes, but none of them matches labels of the data "
        r"\(allowed: time, lat, lon\); write --rename latitudes=lat",
    ),
    "a coordinate without a column": (
        "sel sst.nc stations.csv -o out.csv",
        r"stations.csv: has no column time, so each point would have 6 rows \(allowed: the columns "
        r"lat, lon, time, or --outer for a row per label of time\)",
    ),
    "a column of nearly the name": (
        "sel sst.nc other.csv -o out.csv",
        r"other.csv: has no column lat, so each point would have 4 rows \(allowed: .*\); write "
        r"--rename latitudes=lat",
    ),
    "a column of nearly the name, with other rows": (
        "sel sst.nc other.csv -o out.csv --outer",
        r"other.csv: has no column lat, .*; write --rename latitudes=lat",
    ),
    "no such column to rename": (
        "sel sst.nc other.csv -o out.csv --rename latitud=lat",
        r"--rename latitud=lat: latitud is not a column \(allowed: time, latitudes, lon\); did "
        r"you mean 'latitudes'\?",
    ),
    "no such coordinate to rename to": (
        "sel sst.nc other.csv -o out.csv --rename latitudes=level",
        r"--rename latitudes=level: level is not a coordinate with labels \(allowed: time, lat, "
        r"lon\)",
    ),
    "dates that may be two": (
        "sel sst.nc dates.csv -o out.csv",
        r"dates.csv: time\[0\] = '07/07/2010' is not a time \(allowed: times such as "
        r"2010-07-14T06:30; other formats with --date-format, such as %d/%m/%Y\); "
        r"this affects 2 of 2 rows",
    ),
    "dates of another format": (
        "sel sst.nc dates.csv -o out.csv --date-format %Y-%m-%d",
        r"dates.csv: time\[0\] = '07/07/2010' is not a time \(allowed: times in the format "
        r"%Y-%m-%d, .*\); this affects 2 of 2 rows",
    ),
    "times with and without a zone": (
        "sel sst.nc zones.csv -o out.csv",
        r"zones.csv: time\[1\] = '2010-07-01T12:00' has no time zone, unlike the first time "
        r"\(allowed: all times with a time zone, or all without, such as .*\)",
    ),
    "no such variable": (
        "sel sst.nc points.csv -o out.csv --variable t2m",
        r"sst.nc: has no variable 't2m' \(allowed: sst, depth\)",
    ),
    "a column called as the variable": (
        "sel sst.nc twice.csv -o out.csv",
        r"twice.csv: cannot get a column sst, because the table or the data already have that "
        r"name .*",
    ),
    "times that are none": (
        "sel sst.nc notimes.csv -o out.csv",
        r"notimes.csv: time\[0\] = 'yesterday' is not a time \(allowed: times such as .*\)",
    ),
}


@pytest.mark.parametrize(("line", "text"), REFUSED.values(), ids=REFUSED)
def test_errors_fit_on_one_line_and_keep_the_old_file(ndgather, data, folder, line, text):
    (folder / "empty.csv").write_text("")
    (folder / "names.csv").write_text("name,latitudes\nA,3\n")
    (folder / "twice.csv").write_text("time,lat,lon,sst\n2010-07-01,0,45,1\n")
    (folder / "notimes.csv").write_text("time,lat,lon\nyesterday,0,45\n")
    (folder / "stations.csv").write_text("lat,lon\n0,45\n")
    (folder / "other.csv").write_text("time,latitudes,lon\n2010-07-01,0,45\n")
    (folder / "dates.csv").write_text("time,lat,lon\n07/07/2010,0,45\n02/07/2010,0,45\n")
    times = "2010-07-01T00:00Z,0,45\n2010-07-01T12:00,0,45\n"
    (folder / "zones.csv").write_text(f"time,lat,lon\n{times}")
    (folder / "out.csv").write_text("what was there")
    before = {path.name for path in folder.iterdir()}

    outcome = ndgather(line)

    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err.count("\n") == 1
    assert re.fullmatch(rf"ndgather sel: error: {text}\n", outcome.err), outcome.err
    assert (folder / "out.csv").read_text() == "what was there"
    assert {path.name for path in folder.iterdir()} == before


def column(name):
    return pd.read_csv("out.csv")[name].astype(np.float32).tolist()


def test_rename_maps_columns_to_coordinates(ndgather, data, folder):
    (folder / "p.csv").write_text("when,latitude,lon\n2010-07-01,0,45\n")
    outcome = ndgather("sel sst.nc p.csv -o out.csv --rename latitude=lat --rename when=time")
    assert outcome.err == ""
    assert outcome.out.startswith("out.csv: 1 row of when, latitude, lon, sst; ")
    assert list(pd.read_csv("out.csv")) == ["when", "latitude", "lon", "sst"]
    assert column("sst") == [SST[0, 1, 1]]


@pytest.mark.parametrize(
    ("times", "option"),
    [
        (["01/07/2010", "03/07/2010"], " --date-format %d/%m/%Y"),
        (["07/01/2010", "07/03/2010"], " --date-format %m/%d/%Y"),
        (["2010-07-01", "2010-07-03 00:00"], ""),
        (["20100701", "20100703T00"], ""),
        (["July-1-2010", "July-3-2010"], " --date-format %B-%d-%Y"),
        (["2010-07-01T02:00+02:00", "2010-07-02T23:00-01:00"], ""),
    ],
)
def test_date_formats_are_parsed(ndgather, data, folder, times, option):
    rows = "".join(f"{time},0,45\n" for time in times)
    (folder / "p.csv").write_text(f"time,lat,lon\n{rows}")
    assert ndgather(f"sel sst.nc p.csv -o out.csv{option}").err == ""
    assert column("sst") == [SST[0, 1, 1], SST[4, 1, 1]]


@pytest.mark.parametrize("place", ["sst.nc", "sst.zarr"])
def test_a_dry_run_reports_the_bytes_to_read(ndgather, data, folder, place):
    outcome = ndgather(f"sel {place} points.csv --dry-run")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith("sst: 3 points in 1 chunk: 768 B to decode, ")
    assert not (folder / "out.csv").exists()
    line = f"sel {place} near.csv -o out.csv --dry-run --method linear --period lon=360"
    assert ndgather(line).out.startswith("sst: 16 points in ")


@pytest.mark.parametrize("method", ["nearest", "linear"])
@pytest.mark.parametrize("option", ["", " --dry-run"])
def test_memory_is_limited(ndgather, data, folder, option, method):
    line = f"sel sst.zarr points.csv -o out.csv --method {method}{option} --memory"
    assert ndgather(f"{line} 1MiB").err == ""
    error = ndgather(f"{line} 40").err
    assert "memory = 40 bytes is too small for a chunk of " in error
    assert "memory = 'much'" in ndgather(f"{line} much").err


def test_missing_chunks_can_be_an_error(ndgather, data, folder):
    (folder / "sst.zarr" / "sst" / "c" / "0" / "0" / "0").unlink()
    for option in ("", " --missing-chunks fill"):
        assert ndgather(f"sel sst.zarr points.csv -o out.csv{option}").err == ""
        assert pd.read_csv("out.csv")["sst"].isna().all()
        Path("out.csv").unlink()
    outcome = ndgather("sel sst.zarr points.csv -o out.csv --missing-chunks raise")
    assert outcome.status == 1
    assert "chunk (0, 0, 0) of " in outcome.err
    assert "the chunk does not exist" in outcome.err


def test_a_server_may_not_list_files(ndgather, data, served):
    outcome = ndgather(f"sel {served}/sst.zarr points.csv -o out.csv")
    assert outcome.status == 1
    assert "the server does not list its files" in outcome.err
    assert "zarr.consolidate_metadata(store)" in outcome.err
    assert "PROPFIND" not in outcome.err


def test_malformed_options_are_usage_errors(ndgather, data):
    outcome = ndgather("sel sst.nc points.csv -o out.csv --period 360")
    assert outcome.status == 2
    assert "'360' is not of the form NAME=LENGTH" in outcome.err


@pytest.fixture
def ship_track(folder, monkeypatch):
    """The modules of the example and its picture, with small model runs as samples."""
    years = xr.date_range("1990", periods=12, freq="YS", calendar="360_day", use_cftime=True)
    axes = {"time": years, "latitude": np.linspace(15, 60, 10), "longitude": np.arange(225.0, 315)}
    values = np.random.default_rng(1).normal(280, 9, [len(axis) for axis in axes.values()])
    for run in ("A1B", "E1"):
        samples = xr.DataArray(values.astype("f4"), axes, name="air_temperature")
        samples.to_netcdf(folder / f"{run}_north_america.nc", engine="h5netcdf")
    monkeypatch.setitem(sys.modules, "iris_sample_data", SimpleNamespace(path=str(folder)))
    monkeypatch.syspath_prepend(EXAMPLES)
    example, picture = import_module("ship_track"), import_module("ship_track_picture")
    (folder / "output").mkdir()
    monkeypatch.setattr(example, "OUTPUT", folder / "output")
    yield example, picture
    for name in ("ship_track", "ship_track_data", "ship_track_picture"):
        del sys.modules[name]


def test_the_picture_shows_commands_that_ran(ship_track, ndgather, folder, capsys):
    example, picture = ship_track
    cities = example.climate_at_cities()
    ran = re.findall(r"^\$ (.*)$", capsys.readouterr().out, re.MULTILINE)
    time = ("time", TIMES)
    log = xr.Dataset(
        {"time": time, "latitude": ("time", range(6)), "longitude": ("time", range(6))}
    )
    reading = xr.Dataset(
        {
            "shown": (("latitude", "longitude"), np.zeros((2, 3))),
            "linear": ("time", np.full(6, 300.0)),
            "moorings": (("time", "mooring"), np.full((6, 4), 300.0)),
        },
        {"time": time},
    )
    figure = picture.draw("2010-07-01", "1 MiB", log, reading, cities)
    shown = [text.get_text()[2:] for text in figure.texts if text.get_text().startswith("$ ")]
    assert shown
    assert set(shown) <= set(ran)
    for file in (folder / "output").glob("*.csv"):
        file.rename(folder / file.name)
    (folder / "output" / "A1B.nc").rename(folder / "A1B.nc")
    for line in shown:
        outcome = ndgather(line.removeprefix("ndgather "))
        assert (outcome.status, outcome.err) == (0, "")
        assert "48 rows of city, latitude, longitude, time, air_temperature" in outcome.out


@pytest.fixture
def groups(folder):
    """Files groups.nc and groups.zarr with data in PRODUCT and a deeper group, not at the root."""
    for group, value in (("PRODUCT", 1.0), ("PRODUCT/more", 2.0)):
        data = xr.Dataset({"no2": ("lat", [value, 0.0])}, {"lat": [1.0, 2.0]})
        data.to_netcdf("groups.nc", group=group, engine="h5netcdf", mode="a")
        data.to_zarr("groups.zarr", group=group, consolidated=False)
    (folder / "p.csv").write_text("lat\n1\n")
    return folder


@pytest.mark.parametrize("file", ["groups.nc", "groups.zarr"])
def test_a_group_of_a_file_is_read(ndgather, groups, file):
    places = {"{}/PRODUCT": 1.0, "{} --group PRODUCT": 1.0, "{}/PRODUCT --group more": 2.0}
    for place, value in {**places, "{}/PRODUCT/more": 2.0}.items():
        assert ndgather(f"sel {place.format(file)} p.csv -o out.csv").err == ""
        assert column("no2") == [value]
    for place in ("{}", "{}/none", "{} --group none", "{}/PRODUCT/none"):
        error = ndgather(f"sel {place.format(file)} p.csv -o out.csv").err
        assert "has no variables (allowed: the groups PRODUCT, PRODUCT/more); write" in error
        way = re.search(r"; write (\S+)", error)[1]
        assert ndgather(f"sel {way} p.csv -o out.csv").err == ""
        assert column("no2") == [1.0]
    for place in ("{}/PRODUCT/no2", "{}/PRODUCT/more/no2", "{} --group PRODUCT/no2"):
        error = ndgather(f"sel {place.format(file)} p.csv -o out.csv").err
        assert "an array has no coordinates (allowed: the group that contains it); write" in error
        way = re.search(r"; write (\S+ --variable no2)", error)[1]
        assert ndgather(f"sel {way} p.csv -o out.csv").err == ""
        assert column("no2") == [2.0 if "more" in place else 1.0]
    error = ndgather(f"sel {file}/PRODUCT p.csv -o out.csv --variable NO2").err
    assert "has no variable 'NO2' (allowed: no2)" in error
    assert "the file also has the groups more" in error.replace("PRODUCT, PRODUCT/more", "more")


@pytest.mark.parametrize("file", ["groups.nc", "groups.zarr"])
def test_the_engine_opens_groups(groups, file):
    options = {} if file.endswith("nc") else {"consolidated": False}
    with xr.open_datatree(file, engine="ndgather", **options) as tree:
        points = xr.DataArray([2.0, 1.0], dims="p")
        assert tree["PRODUCT"]["no2"].sel(lat=points).values.tolist() == [0.0, 1.0]
        assert tree["PRODUCT/more"]["no2"].sel(lat=points).values.tolist() == [0.0, 2.0]
    with xr.open_datatree(file, engine="ndgather", group="PRODUCT", **options) as tree:
        assert tree["more"]["no2"].values.tolist() == [2.0, 0.0]


def test_mesh_locations_lead_to_a_hint_about_the_index(ndgather, folder):
    mesh = xr.Dataset({"v": ("cell", [1.0, 2.0])}, {"lat": ("cell", [1.0, 2.0])})
    mesh.assign_coords(lon=("cell", [3.0, 4.0])).to_netcdf("m.nc", engine="h5netcdf")
    (folder / "p.csv").write_text("lat,lon\n1,3\n")
    error = ndgather("sel m.nc p.csv -o out.csv --method nearest").err
    assert "both in Python, with set_xindex(..., xarray.indexes.NDPointIndex)" in error
