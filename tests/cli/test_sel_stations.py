"""``ndgather sel`` at stations: meanings of axes, and hints that never lead to wrong values."""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import ndgather.arrays.xarray  # noqa: F401 - registers `.ndgather`

README = Path(__file__).parents[2] / "README.md"
LAT, LON = np.arange(90.0, -90.5, -15), np.arange(0.0, 360, 15)
TIMES = pd.date_range("2020-12-31", periods=2, freq="6h")
# Stations: name, latitude, longitude, and the row and column of the nearest label.
STATIONS = {
    "Quito": (-0.2, -78.5, 6, 19),
    "Honolulu": (21.3, -157.9, 5, 13),
    "Greenwich": (51.5, -0.1, 3, 0),
}


@pytest.fixture(params=["int16", "float32"])
def era5(request, folder):
    """A data set with names, units and packing as in ERA5, in era5.zarr and era5.nc."""
    dims = ("valid_time", "latitude", "longitude")
    values = 250 + np.arange(2 * len(LAT) * len(LON)).reshape(2, len(LAT), len(LON)) / 8
    data = xr.Dataset(
        {"t2m": (dims, values.astype("f4"), {"units": "K"})},
        {
            "valid_time": ("valid_time", TIMES, {"standard_name": "time", "long_name": "time"}),
            "latitude": ("latitude", LAT, {"units": "degrees_north", "standard_name": "latitude"}),
            "longitude": (
                "longitude",
                LON,
                {"units": "degrees_east", "standard_name": "longitude"},
            ),
        },
    )
    encoding = {"dtype": request.param}
    if request.param == "int16":
        encoding |= {"scale_factor": 0.125, "add_offset": 250.0, "_FillValue": -32767}
    data.to_netcdf("era5.nc", engine="h5netcdf", encoding={"t2m": encoding})
    data.to_zarr("era5.zarr", consolidated=False, encoding={"t2m": encoding})
    return values


def write(name, **columns):
    pd.DataFrame({"station": [*STATIONS], **columns}).to_csv(name, index=False)


def column(number):
    return [each[number] for each in STATIONS.values()]


@pytest.mark.parametrize(
    ("lat", "lon", "time"),
    [
        ("lat", "lon", "time"),
        ("latitude", "longitude", "valid_time"),
        ("LAT", "Long", "date"),
        ("y", "x", "time"),
    ],
)
def test_the_readme_command_works_on_era5(ndgather, era5, lat, lon, time):
    line = re.search(r"^(?:\$ )?ndgather (sel (\S+) .*)$", README.read_text(), re.MULTILINE)
    place = Path(line[2])
    Path("era5").with_suffix(place.suffix).rename(place)
    write("stations.csv", **{lat: column(0), lon: column(1), time: ["2020-12-31T06:00"] * 3})
    for option in ("", " --period lon=360", " --period longitude=360"):
        assert ndgather(line[1] + option).err == ""
        found = pd.read_csv("values.csv")["t2m"]
        np.testing.assert_allclose(found, era5[1, column(2), column(3)])


def test_command_and_accessor_agree(ndgather, era5):
    write("s.csv", lat=column(0), lon=column(1))
    assert ndgather("sel era5.nc s.csv -o out.csv --method nearest --outer").err == ""
    table = pd.read_csv("out.csv")
    with xr.open_dataset("era5.nc", engine="h5netcdf") as data:
        points = {"lat": ("p", column(0)), "lon": ("p", column(1))}
        found = data.t2m.ndgather.sel(points, method="nearest").transpose("p", ...)
        np.testing.assert_array_equal(found.values.ravel(), table["t2m"].astype("f4"))


# The columns of a table, options, and the text of the error.
WRONG = {
    "swapped": (
        {"lat": column(1), "lon": column(0)},
        "",
        "latitude and longitude swapped? (all labels of `lon` fit `latitude`)",
    ),
    "a missing latitude": ({"lat": [0, -999, 0], "lon": column(1)}, "", "; -999 looks like a mis"),
    "a missing longitude": ({"lat": column(0), "lon": [0, 0, -9999]}, "", "; -9999 looks like a"),
    "metres": (
        {"lat": [4e6] * 3, "lon": [5e5] * 3},
        "",
        "the grid is in degrees; reproject the points, for example with pyproj",
    ),
    "a later year": (
        {"lat": column(0), "lon": column(1), "time": ["2035"] * 3},
        "",
        "is after the last time of the grid, 2020-12-31T06:00:00",
    ),
    "a reversed name": (
        {"lat": column(0), "lon": column(1)},
        "--rename latitude=lat",
        "; write --rename lat=latitude",
    ),
    "a reversed name with the meaning of an axis": (
        {"lat": column(0), "lon": column(1)},
        "--rename lng=lon",
        "; write --rename lon=lng",
    ),
    "a missing label": ({"lat": [0, None, 0], "lon": column(1)}, "", "labels of latitude); write"),
    "a missing time": (
        {"lat": column(0), "lon": column(1), "time": [""] * 3},
        "",
        "time[0] = NaT is not on the axis (allowed: the 2 labels of valid_time); 3 of 3 ",
    ),
    "a distance below 0": (
        {"lat": column(0), "lon": column(1)},
        "--tolerance lat=-1",
        "tolerance = -1.0 is not a distance",
    ),
}


@pytest.mark.parametrize(("columns", "options", "text"), WRONG.values(), ids=WRONG)
def test_errors_name_the_cause_and_hints_work(ndgather, era5, columns, options, text):
    if columns.get("time") == ["2035"] * 3:
        columns = columns | {"time": ["2035-01-01"] * 3}
    write("s.csv", **columns)
    line = "sel era5.nc s.csv -o out.csv --outer --method nearest "
    outcome = ndgather(line + options)
    assert outcome.status == 1
    assert text in outcome.err
    assert "--tolerance" not in outcome.err
    if options.startswith("--tolerance"):
        return
    hint = re.search(r"(?:write|value:) ((?:--\S+ \S+ ?)+)", outcome.err.replace(", or", " or"))
    if hint is not None:
        assert ndgather(line + hint[1]).err == ""
        found = pd.read_csv("out.csv")["t2m"].to_numpy().reshape(3, -1)
        rows = {row for row in range(3) if np.isfinite(found[row]).all()}
        assert rows <= {0, 1, 2}
        for row in rows - {n for n in range(3) if columns["lat"][n] != column(0)[n]}:
            if columns["lon"][row] == column(1)[row]:
                expected = era5[: found.shape[1], column(2)[row], column(3)[row]]
                np.testing.assert_allclose(found[row], expected)


@pytest.mark.parametrize(
    ("name", "units", "first", "label", "value"),
    [
        ("lon", "", 0, 359, 0.0),
        ("lon", "", 0, -40, 315.0),
        ("lon", "", -180, 359, 0.0),
        ("longitude", "degrees_east", 5, 366, 6.0),
        ("longitude", "degrees_east", 5, -354, 6.0),
        ("x", "degrees_east", 350, 5, 365.0),
    ],
)
def test_longitude_hints_select_the_right_label(ndgather, folder, name, units, first, label, value):
    lon = np.arange(first, first + (20.0 if units else 360.0), 1 if units else 45)
    coord = xr.DataArray(lon, dims=name, attrs={"units": units})
    xr.Dataset({"v": (name, lon)}, {name: coord}).to_netcdf("g.nc", engine="h5netcdf")
    (folder / "p.csv").write_text(f"{name}\n{label}\n")
    line = "sel g.nc p.csv -o out.csv --method nearest"
    error = ndgather(line).err
    assert "--tolerance" not in error
    assert ndgather(f"{line} {re.search(r'write (--period .*) if', error)[1]}").err == ""
    assert pd.read_csv("out.csv")["v"].tolist() == [value]


@pytest.mark.parametrize("calendar", ["noleap", "360_day"])
def test_out_of_range_times_in_other_calendars_are_reported(ndgather, folder, calendar):
    axis = xr.date_range("2020-12-01", periods=3, calendar=calendar, use_cftime=True)
    xr.Dataset({"v": ("time", np.arange(3.0))}, {"time": axis}).to_netcdf("c.nc", engine="h5netcdf")
    for text, where in (("2035-01-01", "after the last"), ("1900-01-01", "before the first")):
        (folder / "p.csv").write_text(f"time\n2020-12-02\n{text}\n")
        for method in ("", "--method nearest"):
            error = ndgather(f"sel c.nc p.csv -o out.csv {method}").err
            assert f"time[1] = {text} 00:00:00 is {where} time of the grid, 2020-12-0" in error


def test_an_unreadable_data_set_has_a_hint(ndgather, era5, folder):
    write("s.csv", lat=column(0), lon=column(1))
    for place in ("era5.nc/t2m", "era5.zarr/t2m", "era5.zarr/t2m/"):
        error = ndgather(f"sel {place} s.csv -o out.csv --outer --method nearest").err
        way = error.rpartition("; write ")[2].strip()
        assert way.endswith("--variable t2m")
        assert ndgather(f"sel {way} s.csv -o out.csv --outer --method nearest").err == ""
    assert "era5.nc/none: cannot be read: " in ndgather("sel era5.nc/none s.csv -o out.csv").err
    for name in ("text.nc", "text.grib"):
        (folder / name).write_text("no data")
        error = ndgather(f"sel {name} s.csv -o out.csv").err
        assert f"{name}: cannot be read: it is not a dataset (allowed: netCDF, zarr, Geo" in error


def test_the_data_set_is_never_overwritten(ndgather, era5, folder):
    write("p.csv", lat=column(0), lon=column(1))
    before = (folder / "era5.nc").read_bytes()
    refused = ndgather("sel era5.nc p.csv -o ./era5.nc --method nearest --outer")
    assert refused.status == 1
    assert "era5.nc: is DATA, which the result would overwrite" in refused.err
    assert (folder / "era5.nc").read_bytes() == before


def test_string_columns_and_a_method_per_column(ndgather, folder):
    xr.Dataset(
        {"t": (("station", "time"), np.arange(6.0).reshape(2, 3))},
        {"station": ["AAA", "BBB"], "time": pd.date_range("2020-01-01", periods=3)},
    ).to_netcdf("s.nc", engine="h5netcdf")
    (folder / "p.csv").write_text("station,time\nBBB,2020-01-02T17:00\n")
    for method, value in (
        ("nearest", 5.0),
        ("time=pad", 4.0),
        ("station=pad --method backfill", 5.0),
        ("linear", 4 + 17 / 24),
        ("time=linear", 4 + 17 / 24),
    ):
        assert ndgather(f"sel s.nc p.csv -o out.csv --method {method}").err == ""
        np.testing.assert_allclose(pd.read_csv("out.csv")["t"], [value])
    for options, text in (
        ("nearst", "invalid choice: 'nearst' (choose from 'nearest', "),
        ("time=pad --method time=nearest", "'time' is given twice"),
        ("tme=pad", "tme is not a dimension or coordinate"),
    ):
        assert text in ndgather(f"sel s.nc p.csv -o out.csv --method {options}").err


@pytest.mark.parametrize("form", ["%-d/%-m/%Y", "%s", "%", "mixed", "%d/%m/%Y %Q", "d.m.Y"])
def test_invalid_date_formats_are_errors(ndgather, era5, form):
    write("s.csv", lat=column(0), lon=column(1), time=["29/3/2020"] * 3)
    outcome = ndgather(
        f"sel era5.nc s.csv -o out.csv --date-format {shlex.quote(form)}".replace(" %Q", "%Q")
    )
    assert outcome.status == 1
    assert "is not a time format" in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.fixture
def rasters(folder):
    """Rasters with distinct pixels: a global one in degrees, and a map in meters."""
    rasterio = pytest.importorskip("rasterio")
    for name, crs, transform in (
        ("earth.tif", "EPSG:4326", rasterio.Affine(1, 0, 0, 0, -1, 90)),
        ("map.tif", "EPSG:32633", rasterio.Affine(1000, 0, 300_000, 0, -1000, 6_000_000)),
        ("feet.tif", "EPSG:2263", rasterio.Affine(1000, 0, 900_000, 0, -1000, 200_000)),
    ):
        options = {"width": 360, "height": 180, "count": 1, "dtype": "int32", "crs": crs}
        with rasterio.open(name, "w", driver="GTiff", transform=transform, **options) as file:
            file.write(np.arange(64800, dtype="i4").reshape(1, 180, 360))


@pytest.mark.parametrize("option", ["", "--period x=360", "--period lon=360"])
@pytest.mark.parametrize("names", ["x,y", "lon,lat", "longitude,latitude"])
def test_global_rasters_wrap_around(ndgather, folder, rasters, names, option):
    (folder / "p.csv").write_text(f"{names}\n-10,0.5\n350.0,0.5\n")
    assert ndgather(f"sel earth.tif p.csv -o out.csv --method nearest {option}").err == ""
    assert pd.read_csv("out.csv")["earth"].tolist() == [32390, 32390]


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        ("x,y", ""),
        ("lon,lat", ""),
        ("lon,lat", "--rename lon=x --rename lat=y"),
        ("east,north", "--rename east=x --rename north=y"),
    ],
)
@pytest.mark.parametrize("missing", ["", "--missing nan"])
def test_degrees_for_projected_rasters_fail(ndgather, folder, rasters, columns, options, missing):
    (folder / "p.csv").write_text(f"{columns}\n13.4,52.5\n12.0,52.0\n")
    outcome = ndgather(f"sel map.tif p.csv -o out.csv --method nearest {options} {missing}")
    if missing and "lon" not in columns:
        assert pd.read_csv("out.csv")["map"].isna().all()
        return
    text = "the raster is in EPSG:32633, meters; reproject the points, for example with pyproj"
    assert text in outcome.err
    error = ndgather(f"sel feet.tif p.csv -o out.csv --method nearest {options} {missing}").err
    assert text.replace("EPSG:32633, meters", "EPSG:2263, US survey foot") in error


@pytest.mark.parametrize(
    ("attrs", "value"),
    [
        ({}, 6.0),
        ({"scale_factor": 0.5, "add_offset": 1.0}, 4.0),
        ({"scale_factor": "0.5"}, "scale_factor = '0.5'"),
        ({"add_offset": np.bytes_(b"1")}, "add_offset = '1'"),
        ({"Slope": 0.5, "Intercept": 1.0}, "slope = 0.5 and intercept = 1.0"),
        ({"scale": 0.5, "offset": 1.0}, "scale = 0.5 and offset = 1.0"),
        ({"scale": "linear", "offset": 1.0}, 6.0),
        ({"offset": 1.0}, 6.0),
    ],
)
def test_packed_values_are_unpacked_or_an_error(ndgather, folder, attrs, value):
    h5py = pytest.importorskip("h5py")
    with h5py.File("p.nc", "w") as file:
        data = file.create_dataset("t", data=np.arange(12, dtype="i2").reshape(3, 4))
        data.attrs.update(attrs)
        for axis, (name, size) in enumerate({"lat": 3, "lon": 4}.items()):
            file[name] = np.arange(float(size))
            file[name].make_scale(name)
            data.dims[axis].attach_scale(file[name])
    (folder / "p.csv").write_text("lat,lon\n1,2\n")
    error = ndgather("sel p.nc p.csv -o out.csv").err
    if isinstance(value, str):
        assert f"p.nc: t has packed values, but {value} cannot be applied" in error
        assert not Path("out.csv").exists()
    else:
        assert error == ""
        assert pd.read_csv("out.csv")["t"].tolist() == [value]
