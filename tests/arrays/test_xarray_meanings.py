"""Axes found by their meaning, cyclic longitudes, and errors that explain why."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import ndgather.arrays.xarray  # noqa: F401 - registers `.ndgather`
from ndgather.errors import LabelError, NdgatherError

WRITTEN = {  # ways to write an axis: its name and attributes
    "lat": [
        ("latitude", {"units": "degrees_north"}),
        ("latitude", {}),
        ("nav", {"units": "degreesN"}),
        ("j", {"standard_name": "latitude", "units": "degrees"}),
        ("rows", {"standard_name": "latitude", "axis": "Y"}),
    ],
    "lon": [
        ("longitude", {"units": "degrees_east"}),
        ("long", {"units": "degrees_E", "axis": "X"}),
        ("i", {"standard_name": "longitude", "units": "degrees"}),
        ("columns", {"units": "degree_east"}),
    ],
    "time": [("valid_time", {}), ("t", {"axis": "T"}), ("when", {"standard_name": "time"})],
}
VALUES = {
    "lat": np.arange(90.0, -91.0, -30.0),
    "lon": np.arange(0.0, 360.0, 30.0),
    "time": pd.date_range("2020-01-01", periods=3),
}
GRID = np.arange(3 * 7 * 12.0).reshape(3, 7, 12)


def grid(**ways):
    """A grid of time, latitude and longitude with given names and attributes of its axes."""
    dims = [ways[name][0] for name in ("time", "lat", "lon")]
    coords = {way[0]: (way[0], VALUES[name], way[1]) for name, way in ways.items()}
    return xr.DataArray(GRID, coords, dims)


PLAIN = {name: ways[0] for name, ways in WRITTEN.items()}
WAYS = st.fixed_dictionaries({name: st.sampled_from(ways) for name, ways in WRITTEN.items()})
DEGREES = {"lat": st.integers(-90, 90), "lon": st.integers(-180, 359)}


def place(axis, label, period=None):
    """Find the nearest label with a loop, preferring the greater of two."""
    turns = (0,) if period is None else (-period, 0, period)
    distances = [(min(abs(each - label - turn) for turn in turns), -each) for each in axis]
    return distances.index(min(distances))


@given(WAYS, st.lists(st.tuples(DEGREES["lat"], DEGREES["lon"]), min_size=1, max_size=5), st.data())
def test_axes_are_found_by_their_meaning(ways, points, data):
    array = grid(**ways)
    names = {name: data.draw(st.sampled_from([name, ways[name][0]])) for name in ways}
    lat, lon = zip(*points, strict=True)
    half = [abs(n % 30 - 15) == 0 for n in (*lat, *lon)]
    if any(half):
        return
    labels = {names["lat"]: ("p", [*lat]), names["lon"]: ("p", [*lon])}
    labels[names["time"]] = ("p", [VALUES["time"][1]] * len(points))
    found = array.ndgather.sel(labels, method="nearest")
    at = [(place(VALUES["lat"], a), place(VALUES["lon"], b, 360)) for a, b in points]
    np.testing.assert_array_equal(found, [GRID[1, i, j] for i, j in at])
    explicit = array.ndgather.sel(labels, method="nearest", period={names["lon"]: 360})
    np.testing.assert_array_equal(explicit, found)
    added = array.ndgather.add_at(1.0, labels, method="nearest") - array
    for i, j in at:
        assert added.values[1, i, j] == at.count((i, j))
    windows = array.ndgather.windows(
        labels, size={names["lat"]: 1, names["lon"]: 1, names["time"]: 1}
    )
    np.testing.assert_array_equal(windows.values.ravel(), found)


@pytest.mark.parametrize(
    ("names", "labels"),
    {
        "lat latitude nav_lat": VALUES["lat"],
        "lon long lng longitude nav_lon": VALUES["lon"],
        "time valid_time datetime date timestamp": VALUES["time"],
        "station station_id station_name": ["a", "b"],
        "x easting": [0.0, 1.0],
        "y northing": [0.0, 1.0],
    }.items(),
)
def test_names_without_attributes_have_meanings(names, labels):
    for axis, name in itertools.permutations(names.split(), 2):
        data = xr.DataArray(np.arange(len(labels)), {axis: labels}, axis)
        assert data.ndgather.sel({name: ("p", [labels[1]])}).item() == 1


# From section 4 of the CF conventions.
UNITS = "degrees_{0} degree_{0} degree_{1} degrees_{1} degree{1} degrees{1}"


@pytest.mark.parametrize(
    ("attribute", "values", "name"),
    [
        ("units", UNITS.format("north", "N"), "lat"),
        ("units", UNITS.format("east", "E"), "lon"),
        ("standard_name", "latitude", "lat"),
        ("standard_name", "longitude", "lon"),
        ("standard_name", "time", "time"),
        ("standard_name", "projection_x_coordinate", "x"),
        ("standard_name", "projection_y_coordinate", "y"),
        ("axis", "X", "x"),
        ("axis", "Y", "y"),
        ("axis", "T", "time"),
        ("cf_role", "timeseries_id", "station"),
    ],
)
def test_one_attribute_gives_the_meaning(attribute, values, name):
    for value in values.split():
        axis = xr.Variable("k", [5, 7], {attribute: value})
        data = xr.DataArray([0, 1], {"k": axis}, "k")
        assert data.ndgather.sel({name: ("p", [7])}).item() == 1


def test_ambiguous_names_are_refused():
    data = xr.DataArray(
        np.zeros((2, 2)),
        {
            "lat_rho": ("lat_rho", [0.0, 1.0], {"units": "degrees_north"}),
            "lat_u": ("lat_u", [0.5, 1.5], {"units": "degrees_north"}),
        },
        ("lat_rho", "lat_u"),
    )
    with pytest.raises(NdgatherError, match="lat is not a dimension or coordinate"):
        data.ndgather.sel(lat=[0.0])


def test_two_names_of_one_axis_are_refused():
    with pytest.raises(NdgatherError, match="lat and nav_lat both select along latitude"):
        grid(**PLAIN).ndgather.sel(lat=[0.0], nav_lat=[0.0])


@pytest.mark.parametrize("start", [74.5, 20.0, -180.0, 0.0])
@given(st.lists(st.integers(0, 359), min_size=1, max_size=4), st.sampled_from([-360, 0, 360]))
def test_longitudes_are_found_after_full_turns(start, places, turn):
    axis = np.arange(start, start + 360)
    data = xr.DataArray(np.arange(360.0), {"lon": ("lon", axis, {"units": "degrees_east"})}, "lon")
    labels = axis[places] + turn
    fits = [start <= n <= start + 359 or -180 <= n <= 360 for n in labels]
    if all(fits):
        assert data.ndgather.sel(lon=labels).values.tolist() == places
    else:
        with pytest.raises(LabelError, match="is not a longitude"):
            data.ndgather.sel(lon=labels)


def refused(array, method="nearest", **labels):
    with pytest.raises(LabelError) as caught:
        array.ndgather.sel({name: ("p", each) for name, each in labels.items()}, method=method)
    return str(caught.value)


@pytest.mark.parametrize("method", [None, "nearest", "linear"])
@given(st.lists(st.tuples(DEGREES["lat"], st.integers(106, 250)), min_size=1, max_size=5))
def test_errors_mention_swapped_labels(method, points):
    lat, lon = map(list, zip(*points, strict=True))
    if method is None:
        lat, lon = [30 * (n // 30) for n in lat], [30 * (n // 30 + 1) for n in lon]
    error = refused(grid(**PLAIN), method, lat=lon, lon=lat)
    assert error.startswith("sel: lat[0] = ")
    assert error.endswith(
        "; are latitude and longitude swapped? (all labels of `lon` fit `latitude`)"
    )
    right = grid(**PLAIN).ndgather.sel(lat=("p", lat), lon=("p", lon), method=method)
    assert right.sizes["p"] == len(points)


@pytest.mark.parametrize(
    "filler", [-999, -9999.0, -99999, 9999, -32768, 1e20, 9.969209968386869e36]
)
@pytest.mark.parametrize("name", ["lat", "lon"])
@pytest.mark.parametrize("period", [{}, {"period": {"lon": 360}}])
def test_errors_mention_fillers_for_missing_values(name, filler, period):
    labels = {"lat": ("p", [0.0, 30.0]), "lon": ("p", [30.0, 60.0])}
    labels[name] = ("p", [30.0, filler])
    array = grid(**PLAIN)
    with pytest.raises(LabelError) as caught:
        array.ndgather.sel(labels, method="nearest", **period)
    assert re.search(r"; \S+ looks like a missing value: write missing='nan'$", str(caught.value))
    found = array.ndgather.sel(labels, method="nearest", missing="nan", **period)
    assert np.isnan(found.values).all(0).tolist() == [False, True]


@given(
    st.sampled_from([None, "nearest"]),
    st.sampled_from(["s", "ms", "us", "ns"]),
    st.sampled_from(["s", "ms", "us", "ns"]),
    st.sampled_from(["1700-02-03", "2019-12-29", "2035-06-07", "2262-01-01", "9999-12-31"]),
)
def test_times_beyond_the_grid(method, unit, of_label, date):
    if of_label == "ns" and date > "2262-02":
        return
    times = np.array(["2020-01-01", "2020-12-31"], f"M8[{unit}]")
    data = xr.DataArray([1.0, 2.0], {"time": times}, "time")
    if date == "2019-12-29" and method == "nearest":
        return  # within half a step
    label = np.array([date], f"M8[{of_label}]")
    if method is None and date == "2019-12-29":
        return
    end = ("before", "first", "2020-01-01") if date < "2020" else ("after", "last", "2020-12-31")
    text = refused(data, method, time=label)
    assert f"time[0] = {date} is {end[0]} the {end[1]} time of the grid, {end[2]} " in text or (
        method is None and "is not on the axis" in text
    )
    assert "tolerance" not in text
    assert "nearest" not in text


@given(
    st.floats(0.05, 20).map(lambda n: round(n, 2)),
    st.integers(2, 8),
    st.lists(st.floats(-400, 400).map(lambda n: round(n, 3)), min_size=1, max_size=4),
)
def test_a_tolerance_in_a_hint_is_at_most_two_steps(step, size, labels):
    axis = 10 + step * np.arange(size)
    data = xr.DataArray(np.arange(float(size)), {"x": axis}, "x")
    try:
        data.ndgather.sel(x=labels, method="nearest")
    except LabelError as error:
        hint = re.search(r"tolerance=\{'x': (\S+)\}", str(error))
        if hint is None:
            return
        limit = float(hint[1])
        assert limit <= 2 * step * (1 + 1e-9)
        found = data.ndgather.sel(x=labels, method="nearest", tolerance={"x": limit * (1 + 1e-12)})
        for label, value in zip(labels, found.values, strict=True):
            assert abs(axis[int(value)] - label) == min(abs(axis - label))


def test_strings_are_exact_with_every_method():
    data = xr.DataArray(
        np.arange(6.0).reshape(2, 3),
        {"station": ["AAA", "BBB"], "time": VALUES["time"]},
        ("station", "time"),
    )
    labels = {"station": ("p", ["BBB", "AAA"])}
    labels["time"] = ("p", pd.to_datetime(["2020-01-02T05:00", "2020-01-01T06:00"]))
    assert data.ndgather.sel(labels, method="nearest").values.tolist() == [4.0, 0.0]
    between = data.ndgather.sel(labels, method="linear")
    np.testing.assert_allclose(between, [3 + 29 / 24, 0.25])
    assert between.station.values.tolist() == ["BBB", "AAA"]
    labels["station"] = ("p", ["BBB", "CCC"])
    with pytest.raises(LabelError, match=r"station\[1\] = CCC is not on the axis"):
        data.ndgather.sel(labels, method="nearest")
    assert data.ndgather.sel(labels, method="linear", missing="nan").isnull().values.tolist() == [
        False,
        True,
    ]


@pytest.mark.parametrize("of_time", ["nearest", "pad", "backfill", None, "linear"])
@pytest.mark.parametrize("of_lat", ["nearest", "pad", "backfill", None, "linear"])
def test_a_method_for_each_axis(of_time, of_lat):
    """Selecting along one axis after the other yields the same result."""
    array = grid(**PLAIN).isel(longitude=3, drop=True)
    time, lat = pd.Timestamp("2020-01-02T05:00"), 20.0
    if of_time is None:
        time = VALUES["time"][1]
    if of_lat is None:
        lat = 30.0
    methods = {"time": of_time, "lat": of_lat}
    found = array.ndgather.sel(time=("p", [time]), lat=("p", [lat]), method=methods)
    one = array.ndgather.sel(valid_time=("p", [time]), method=of_time)
    both = one.ndgather.sel(latitude=lat, method=of_lat)
    np.testing.assert_allclose(found, both)


def test_errors_mention_degrees_on_a_map():
    metres = {"units": "m", "standard_name": "projection_x_coordinate"}
    data = xr.DataArray(np.zeros(9), {"x": ("x", 5e5 + 30 * np.arange(9.0), metres)}, "x")
    assert "the grid is in meters; reproject the points" in refused(data, x=[13.4, 12.0])
    east = xr.DataArray(np.zeros(9), {"x": ("x", np.arange(9.0), {"units": "degrees_east"})}, "x")
    text = refused(east, x=[500030.0])
    assert "the grid is in degrees; reproject the points" in text
    assert "tolerance" not in text


@pytest.mark.parametrize("method", [None, "nearest", "linear"])
@pytest.mark.parametrize("label", [500_030.0, 4e6])
def test_errors_mention_meters_on_a_geographic_grid(method, label):
    text = refused(grid(**PLAIN), method, lat=[4e6], lon=[label])
    assert text.endswith("the grid is in degrees; reproject the points, for example with pyproj")
    text = refused(grid(**PLAIN), method, lon=[label])
    assert text.endswith("the grid is in degrees; reproject the points, for example with pyproj")


@pytest.mark.parametrize(
    "label",
    ["2035", "2035-01-01", pd.Timestamp("2035-01-01"), np.datetime64("2035-01-01")],
    ids=["year", "text", "pandas", "numpy"],
)
@pytest.mark.parametrize("method", [None, "nearest"])
@pytest.mark.parametrize("listed", [False, True])
def test_errors_mention_later_dates_of_every_type(label, method, listed):
    with pytest.raises(
        LabelError, match="= 2035-01-01 is after the last time of the grid, 2020-01-03 "
    ):
        grid(**PLAIN).ndgather.sel(time=[label] if listed else label, method=method)


@pytest.mark.parametrize(("size", "has_hint"), [(5, False), (36, True)])
def test_a_period_is_suggested_only_around_the_earth(size, has_hint):
    data = xr.DataArray(np.arange(float(size)), {"lon": 10.0 * np.arange(size)}, "lon")
    text = refused(data, lon=[-100.0])
    assert ("period={'lon': 360} if longitudes go around" in text) == has_hint
