"""Windows around labels against a loop over the labels with `isel`."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import ndgather.arrays.xarray  # noqa: F401 - registers `.ndgather`
from ndgather.errors import (
    AttributeValueError,
    CallError,
    DTypeError,
    IndexOutOfBoundsError,
    LabelError,
    ShapeError,
)

LAT, LON = np.arange(-40.0, 50.0, 10.0), np.arange(0.0, 360.0, 30.0)
WORLD = xr.Dataset(
    {
        "sst": (("time", "lat", "lon"), np.arange(3 * 9 * 12.0).reshape(3, 9, 12), {"units": "K"}),
        "mask": (("lat", "lon"), np.arange(9 * 12).reshape(9, 12) % 3 == 0),
        "level": (("lon", "lat"), np.arange(9 * 12, dtype="i2").reshape(12, 9)),
        "run": ("time", [1, 2, 3]),
    },
    {
        "time": np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "M8[ns]"),
        "lat": LAT,
        "lon": LON,
        "zone": ("lat", list("abcdefghi")),
        "area": (("lat", "lon"), np.arange(9 * 12.0).reshape(9, 12) / 7),
        "version": 4,
    },
)


def padded(position, size, mode):
    if mode == "wrap":
        return position % size
    if mode == "reflect":
        while not 0 <= position < size:
            position = -position if position < 0 else 2 * size - 2 - position
        return position
    return min(max(position, 0), size - 1)


def by_loop(data, points, sizes, modes):
    """Yield the boxes that `isel` selects, point by point; NaN outside in mode fill."""
    for point in points:
        picked, inside = {}, {}
        for dim, at in point.items():
            size, wide = data.sizes[dim], sizes[dim]
            start = at - wide // 2
            if modes[dim] == "clip":
                start = min(max(start, 0), size - wide)
            there = range(start, start + wide)
            picked[dim] = [padded(position, size, modes[dim]) for position in there]
            kept = [modes[dim] != "fill" or 0 <= position < size for position in there]
            inside[dim] = xr.DataArray(kept, dims=dim)
        window = data.isel(picked).drop_vars([*point])
        if not all(bool(each.all()) for each in inside.values()):
            window = window.where(inside["lat"] & inside["lon"])
        yield window


@settings(max_examples=60)
@given(data=st.data())
def test_windows_match_a_loop(data):
    modes = {
        dim: data.draw(st.sampled_from(["clip", "fill", "wrap", "edge", "reflect"]))
        for dim in ("lat", "lon")
    }
    sizes = {"lat": data.draw(st.integers(1, 9)), "lon": data.draw(st.integers(1, 12))}
    count = data.draw(st.integers(1, 5))
    rows = [data.draw(st.integers(0, 8)) for _ in range(count)]
    columns = [data.draw(st.integers(0, 11)) for _ in range(count)]
    names = ["sst", "level"]
    found = WORLD[names].ndgather.windows(
        lat=LAT[rows] + 2, lon=list(LON[columns] - 3), size=sizes, mode=modes
    )
    assert found.sst.dims == ("window", "time", "lat_offset", "lon_offset")
    assert found.level.dims == ("window", "lon_offset", "lat_offset")
    assert found.lat.dims == ("window", "lat_offset")
    points = [{"lat": row, "lon": column} for row, column in zip(rows, columns, strict=True)]
    for number, window in enumerate(by_loop(WORLD[names], points, sizes, modes)):
        for name in names:
            np.testing.assert_array_equal(found[name][number].values, window[name].values)


def test_coordinates_are_cut_too():
    strikes = xr.Dataset(
        {"lat": ("strike", [1.0, -39.0]), "lon": ("strike", [-5.0, 91.0])}, {"strike": ["x", "y"]}
    )
    found = WORLD.ndgather.windows(
        lat=strikes.lat,
        lon=strikes.lon,
        size={"lat": 3, "lon": 4},
        period={"lon": 360},
        mode={"lat": "fill"},
    )
    assert found.lat.values.tolist()[0] == [-10, 0, 10]
    np.testing.assert_array_equal(found.lat[1], [np.nan, -40, -30])
    assert found.lon.values.tolist() == [[300, 330, 0, 30], [30, 60, 90, 120]]
    assert found.lat_offset.values.tolist() == [-1, 0, 1]
    assert found.lon_offset.values.tolist() == [-2, -1, 0, 1]
    assert found.strike.values.tolist() == ["x", "y"]
    assert found.zone.values.tolist()[0] == ["d", "e", "f"]
    assert found.area.dims == ("strike", "lat_offset", "lon_offset")
    assert found.version == 4
    assert found.sst.attrs == {"units": "K"}
    xr.testing.assert_identical(found.run.drop_vars("version"), WORLD.run.drop_vars("version"))
    assert found.mask.dtype == float
    assert float(found.sst.sel(strike="y", lat_offset=0, lon_offset=0)[0]) == 3.0


def test_one_label_and_one_dimension():
    sst = WORLD.sst
    one = sst.ndgather.windows(lat=0.0, lon=180.0, size=3)
    assert one.dims == ("time", "lat_offset", "lon_offset")
    np.testing.assert_array_equal(one, sst[:, 3:6, 5:8])
    days = sst.ndgather.windows(time=["2020-01-02"], size=2)
    assert days.dims == ("window", "time_offset", "lat", "lon")
    np.testing.assert_array_equal(days[0], sst[:2])
    assert days.time.values.tolist() == [[*sst.time.values[:2].tolist()]]
    xr.testing.assert_identical(
        days.lat.drop_vars(["zone", "version"]), sst.lat.drop_vars(["zone", "version"])
    )


def test_grids_of_windows():
    found = WORLD.sst.ndgather.windows(
        lat=("y", [-20.0, 0.0, 20.0]), lon=("x", [90.0, 180.0]), size=3
    )
    assert found.dims == ("y", "x", "time", "lat_offset", "lon_offset")
    assert found.lat.dims == ("y", "lat_offset")
    assert found.lon.dims == ("x", "lon_offset")
    np.testing.assert_array_equal(found[1, 0], WORLD.sst[:, 3:6, 2:5])


@pytest.mark.parametrize("kind", ["zarr", "dask", "engine", "netcdf"])
def test_lazy_arrays(kind, tmp_path):
    world = WORLD.drop_vars(["zone"])
    encoding = {"sst": {"dtype": "i4", "scale_factor": 0.5, "_FillValue": -1}}
    if kind == "netcdf":
        world.to_netcdf(tmp_path / "a.nc", engine="h5netcdf", encoding=encoding)
        opened = xr.open_dataset(tmp_path / "a.nc", engine="h5netcdf")
    else:
        encoding["sst"]["chunks"] = (1, 4, 5)
        world.to_zarr(tmp_path / "a.zarr", consolidated=False, encoding=encoding)
        more = (
            {"engine": "ndgather", "chunk_cache": "1 MiB"}
            if kind == "engine"
            else {"engine": "zarr"}
        )
        opened = xr.open_dataset(
            tmp_path / "a.zarr", chunks={} if kind == "dask" else None, consolidated=False, **more
        )
    options = {"size": 4, "period": {"lon": 360}, "mode": {"lat": "fill"}}
    labels = {"lat": [40.0, 3.0], "lon": [0.0, 100.0]}
    found = opened.ndgather.windows(labels, **options)
    assert (found.sst.chunks is not None) == (kind == "dask")
    expected = world.ndgather.windows(labels, **options)
    xr.testing.assert_equal(found.compute(), expected)
    with opened:
        pass


def test_coordinates_of_two_dimensions():
    """Windows on the axes of a curvilinear grid."""
    y, x = np.meshgrid(np.arange(6.0), np.arange(7.0), indexing="ij")
    data = xr.DataArray(
        np.arange(42.0).reshape(6, 7),
        dims=("y", "x"),
        coords={"lat": (("y", "x"), y + x / 100), "lon": (("y", "x"), x - y / 100)},
    )
    data = data.set_xindex(["lat", "lon"], xr.indexes.NDPointIndex)
    points = {"lat": xr.DataArray([2.1, 3.0], dims="p"), "lon": xr.DataArray([3.0, 2.0], dims="p")}
    found = data.ndgather.windows(points, size={"y": 2, "x": 3})
    np.testing.assert_array_equal(found[0], data.values[1:3, 2:5])
    assert found.lat.dims == ("p", "y_offset", "x_offset")


@pytest.mark.parametrize(
    ("labels", "options", "error", "text"),
    [
        (
            {"lat": [0.0, 40.0], "lon": [30.0, 60.0]},
            {"size": 3},
            IndexOutOfBoundsError,
            r"windows: lat\[1\] is at position 8: a window of size 3 around it extends past "
            r"an end of lat, which has size 9 \(allowed: positions 1..7, or mode={'lat': ...} with "
            r"'clip', ",
        ),
        (
            {"lat": 0.0},
            {"size": 10},
            IndexOutOfBoundsError,
            r"size 9 \(allowed: mode={'lat': ...} with 'fill', 'wrap', 'edge' or 'reflect'\)",
        ),
        (
            {"lat": [0.0]},
            {"size": {"lon": 3}},
            CallError,
            r"no entry for lat \(allowed: a number, or a size for each dimension\)",
        ),
        (
            {"lat": [0.0]},
            {"size": 1, "mode": {"latt": "fill"}},
            CallError,
            r"mode has an entry for latt, which has no labels \(allowed: lat\); did you mean 'lat'",
        ),
        ({"lat": [0.0]}, {"size": -1}, ShapeError, r"size = \[-1\] is not a shape"),
        (
            {"lat": [0.0]},
            {"size": 1, "mode": "pad"},
            AttributeValueError,
            "mode = 'pad' is unknown",
        ),
        (
            {"lat": [0.0], "lon": [1.0, 2.0]},
            {"size": 1},
            ShapeError,
            "lon has 2 labels along window",
        ),
        (
            {"lat": ("lon", [0.0])},
            {"size": 1},
            ShapeError,
            r"the labels lat have dimension lon, which is also a dimension of data .*rename\(lon=",
        ),
        ({"lat": slice(0, 3)}, {"size": 1}, DTypeError, "lat is a slice or a mask"),
        ({"lat": [True, False]}, {"size": 1}, DTypeError, "lat is a slice or a mask"),
        ({"latt": [0.0]}, {"size": 1}, CallError, "latt is not a dimension"),
        ({}, {"size": 1}, CallError, "no labels are given"),
        ({"lat": [3.0]}, {"size": 1, "method": None}, LabelError, "is not on the axis"),
        ({"lat": [3.0]}, {"size": 1, "tolerance": 1.0}, LabelError, "more than 1.0 away"),
        (
            {"lat": [0.0]},
            {"size": 3, "period": {"lat": 360}},
            AttributeValueError,
            "first label is 280.0, but other labels are 10.0 apart, so windows cannot wrap",
        ),
    ],
)
def test_refusals(labels, options, error, text):
    with pytest.raises(error, match=text):
        WORLD.ndgather.windows(labels, **options)


DTYPES = [
    "?",
    *("i1", "u2", ">i4", "u8", "f2", "f4", "f8", "c16"),
    "M8[ns]",
    "m8[s]",
    "S3",
    "U3",
    "O",
]
DTYPES += [np.dtypes.StringDType(), np.dtype([("a", "i4"), ("b", ">f8")]), "V3"]


def plain(element):
    return element.item() if isinstance(element, np.generic) else element


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("mode", ["raise", "clip", "fill", "wrap", "edge", "reflect"])
def test_windows_of_every_dtype(dtype, mode):
    """Each element is an element of the array, or missing as in `sel`."""
    if np.dtype(dtype).names:
        values = np.array([(n, n / 2) for n in range(6)], dtype)
    elif np.dtype(dtype).kind == "V":
        values = np.frombuffer(b"abcdefghijklmnopqr", dtype)
    else:
        values = np.array([1, 0, 1, 1, 0, 1]).astype(str if np.dtype(dtype).kind in "TSU" else "i8")
        values = values.astype(dtype)
    data = xr.DataArray(values, {"x": np.arange(6.0)}, "x")
    centres = [1, 4] if mode == "raise" else [0, 5]
    found = data.ndgather.windows(x=[float(n) for n in centres], size=3, mode=mode)
    missing = data.ndgather.sel(x=[0.0, 9.0], missing="nan").values
    for row, centre in zip(found.values, centres, strict=True):
        start = min(max(centre - 1, 0), 3) if mode == "clip" else centre - 1
        for element, at in zip(row, range(start, start + 3), strict=True):
            places = {"wrap": at % 6, "edge": min(max(at, 0), 5), "reflect": 5 - abs(5 - abs(at))}
            place = places.get(mode, at)
            if 0 <= place < 6:
                assert plain(element) == plain(values[place])
            else:
                assert str(element) == str(missing[1])
    assert found.dtype == (missing.dtype if mode == "fill" else values.dtype)


@pytest.mark.parametrize("mode", ["fill", "clip"])
@pytest.mark.parametrize("part", [{"x": [1, 1, 2, 3, 5]}, {"x": [0, 0, 2, 2, 7], "y": [3, 3, 0]}])
def test_windows_of_lazy_parts_with_duplicate_positions(part, mode, tmp_path):
    values = np.arange(48.0).reshape(8, 6)
    data = xr.Dataset({"v": (("x", "y"), values)}, {"x": np.arange(8.0), "y": np.arange(6.0)})
    chunks = {"v": {"chunks": (3, 2)}}
    data.to_zarr(tmp_path / "a.zarr", consolidated=False, encoding=chunks)
    lazy = xr.open_dataset(tmp_path / "a.zarr", engine="zarr", chunks=None, consolidated=False)
    found = lazy.v.isel(part).ndgather.windows({"x": [part["x"][4]]}, size=3, mode=mode)
    taken = values[part["x"]][:, part.get("y", slice(None))]
    past = np.full_like(taken[:1], np.nan)
    expected = taken[2:5] if mode == "clip" else np.concatenate([taken[3:5], past])
    np.testing.assert_array_equal(found.values[0], expected)
