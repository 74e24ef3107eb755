"""Refusals of selections and their error texts."""

import re

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import ndgather
import ndgather.arrays.xarray
from ndgather.errors import (
    AttributeValueError,
    CallError,
    DTypeError,
    IndexOutOfBoundsError,
    LabelError,
    NdgatherError,
    ShapeError,
)
from tests.arrays.xarray_strategies import dataset

DATA = dataset()
POINTS = xr.DataArray([-60.0, 45.0, 0.0], dims="p", coords={"p": [10, 20, 30]})
UNSORTED = DATA.isel(lat=[0, 2, 1])
REPEATED = DATA.isel(lat=[0, 0, 1])
HOURS = xr.DataArray(np.arange(3.0), {"t": pd.date_range("2020-01-01", periods=3, freq="h")})
ZONED = pd.DatetimeIndex(HOURS.t[1:]).tz_localize("UTC")
GRID = np.zeros((2, 2))

REFUSED = {
    "unknown name": (lambda: DATA.ndgather.sel(lta=1.0), CallError, "did you mean 'lat'?"),
    "capitals": (lambda: DATA.ndgather.sel(Lon=1.0), CallError, "did you mean 'lon'?"),
    "unknown dimension": (lambda: DATA.ndgather.isel(tme=1), CallError, "did you mean 'time'?"),
    "label": (
        lambda: DATA.ndgather.sel(lat=POINTS),
        LabelError,
        "sel: lat[1] = 45.0 is not on the axis (allowed: the 5 labels of lat; nearest: 31.0, 60.0)"
        "; write method='nearest' for the nearest label",
    ),
    "labels": (
        lambda: DATA.ndgather.sel(lat=POINTS + 1),
        LabelError,
        "3 of 3 labels are missing; write method='nearest'",
    ),
    "scalar": (lambda: DATA.ndgather.sel(lat=44.0), LabelError, "sel: lat = 44.0 is not on"),
    "text": (
        lambda: DATA.t2m.swap_dims(time="month").isel(month=[1, 2]).ndgather.sel(month=["Fab"]),
        LabelError,
        "nearest: Feb",
    ),
    "tolerance": (
        lambda: DATA.ndgather.sel(lat=[45.0], method="nearest", tolerance=2),
        LabelError,
        "lat[0] = 45.0 is more than 2 away from any label",
    ),
    "tolerance of exact labels": (
        lambda: DATA.ndgather.sel(lat=[0.0], tolerance=2),
        AttributeValueError,
        "sel: tolerance is given, but method = None finds exact labels only",
    ),
    "tolerance of windows around exact labels": (
        lambda: DATA.ndgather.windows(lat=[0.0], size=1, method=None, tolerance=2),
        AttributeValueError,
        "windows: tolerance is given",
    ),
    "method": (
        lambda: DATA.ndgather.sel(lat=POINTS, method="closest"),
        AttributeValueError,
        "method = 'closest'",
    ),
    "missing": (
        lambda: DATA.ndgather.sel(lat=POINTS, missing="skip"),
        AttributeValueError,
        "missing = 'skip'",
    ),
    "unsorted": (
        lambda: UNSORTED.ndgather.sel(lat=POINTS, method="nearest"),
        LabelError,
        ".sortby('lat')",
    ),
    "repeated": (
        lambda: REPEATED.ndgather.sel(lat=[-60.0]),
        LabelError,
        "lat = -60.0 is duplicated",
    ),
    "a time zone": (
        lambda: HOURS.ndgather.sel(t=ZONED),
        DTypeError,
        "t = 2020-01-01 01:00:00+00:00 has a time zone, but the axis t does not (allowed: "
        "times without a zone); write pandas.DatetimeIndex(t).tz_convert(None) for UTC",
    ),
    "a time zone of a label between": (
        lambda: HOURS.ndgather.sel(t=ZONED[0], method="linear"),
        DTypeError,
        ".tz_convert(None)",
    ),
    "a time zone of the nearest": (
        lambda: HOURS.ndgather.sel(t=xr.DataArray(ZONED.to_numpy(), dims="p"), method="nearest"),
        DTypeError,
        "t.astype('M8[ns]')",
    ),
    "outside": (
        lambda: DATA.ndgather.isel(lat=xr.DataArray([[0, 1], [2, 5]], dims=("p", "q"))),
        IndexOutOfBoundsError,
        "isel: lat[1, 1] = 5 is out of bounds for lat, which has size 5 (allowed: -5..4)",
    ),
    "floats": (lambda: DATA.ndgather.isel(lat=[0.5]), DTypeError, "lat.dtype = float64"),
    "no names": (lambda: DATA.ndgather.sel(lat=GRID), ShapeError, "xarray.DataArray(lat, dims="),
    "no names of positions": (
        lambda: DATA.ndgather.isel(lat=GRID.astype(int)),
        ShapeError,
        "shape (2, 2)",
    ),
    "other type": (lambda: DATA.ndgather.sel(lat=["north"]), DTypeError, "cannot be looked up"),
    "twice": (
        lambda: DATA.ndgather.sel({"lat": 0.0}, lat=0.0),
        CallError,
        "both in indexers and by name",
    ),
    "no dict": (lambda: DATA.ndgather.sel([0.0]), DTypeError, "is not a dict"),
    "two of a dimension": (
        lambda: DATA.ndgather.sel(time="2001-01-01", month="Feb"),
        CallError,
        "time and month both select along time (allowed: one argument per dimension)\n",
    ),
    "two dimensions": (lambda: DATA.ndgather.sel(height=3.0), ShapeError, "coordinate height"),
    "sizes differ": (
        lambda: DATA.ndgather.isel(
            lat=xr.DataArray([0, 1], dims="p"), lon=xr.DataArray([0, 1, 2], dims="p")
        ),
        AttributeValueError,
        "the selection by lat, lon failed",
    ),
    "ragged labels": (
        lambda: DATA.ndgather.sel(lat=[[1], [1, 2]]),
        DTypeError,
        "lat = [[1], [1, 2]]",
    ),
    "ragged positions": (lambda: DATA.ndgather.isel(lat=[[1], [1, 2]]), DTypeError, "lat = [[1]"),
    "ragged linear": (
        lambda: DATA.t2m.ndgather.sel(lat=[[1], [1, 2]], method="linear"),
        DTypeError,
        "lat = [[1]",
    ),
    "labels of no dimension": (
        lambda: DATA.ndgather.sel(lat=("p", "q", [0.0])),
        DTypeError,
        "lat = ('p', 'q', [0.0])",
    ),
    "tuple of positions": (lambda: DATA.ndgather.isel(lat=(1, 2)), DTypeError, "lat = (1, 2)"),
    "method as an array": (
        lambda: DATA.ndgather.sel(lat=[0.0], method=np.array(["pad", "nearest"])),
        AttributeValueError,
        "method = ",
    ),
    "missing as an array": (
        lambda: DATA.ndgather.sel(lat=[0.0], missing=GRID),
        AttributeValueError,
        "missing = ",
    ),
    "period without a name": (
        lambda: DATA.ndgather.sel(lon=[0.0], period=360),
        DTypeError,
        "period = 360 is not a dict",
    ),
    "several periods": (
        lambda: DATA.ndgather.sel(lon=[0.0], period={"lon": np.array([360.0, 180.0])}),
        AttributeValueError,
        "period['lon']",
    ),
    "a data set": (
        lambda: ndgather.gather_nd(DATA, [[0]]),
        DTypeError,
        "gather_nd: data = Dataset is not an array (allowed: a DataArray, such as data['t2m'])",
    ),
    "a data set of nothing": (
        lambda: ndgather.gather_nd(xr.Dataset(), [[0]]),
        DTypeError,
        "data = Dataset is not an array (allowed: a DataArray); .ndgather.isel selects",
    ),
    "period of nothing": (
        lambda: DATA.ndgather.sel(lat=[0.0], period={"lno": 360}),
        CallError,
        "did you mean 'lon'?",
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), REFUSED.values(), ids=REFUSED)
def test_refusals(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert text in f"{caught.value}\n"
    assert isinstance(caught.value, NdgatherError)


def test_errors_give_the_position():
    with pytest.raises(KeyError) as caught:
        DATA.ndgather.sel(lat=POINTS)
    assert caught.value.position == (1,)
    assert caught.value.count == 1


def test_index_errors_give_the_position():
    points = {"lat": DATA.lat.values[:2].tolist()}
    for call, expected in (
        (lambda: DATA.ndgather.isel(lat=[0, 7, -9]), ((1,), 7, 2)),
        (
            lambda: DATA.ndgather.windows(points, size=3),
            ((0,), 0, 1),
        ),
    ):
        with pytest.raises(IndexOutOfBoundsError) as caught:
            call()
        error = caught.value
        assert (error.position, error.value, error.count) == expected
        assert error.size == DATA.sizes["lat"]


def near(**options):
    return DATA.ndgather.sel(**{"lat": [44.0]} | options)


def nan(**options):
    return DATA.ndgather.sel(lat=[np.nan], **options)


def no_time(**options):
    return HOURS.ndgather.sel(t=[np.datetime64("NaT", "s")], **options)


def window(**options):
    return DATA.t2m.ndgather.windows(**{"lat": [44.0], "size": 1, "method": None} | options)


def window_at_nan(**options):
    return DATA.t2m.ndgather.windows(lat=[np.nan], size=1, method=None, **options)


def added_at_nan(**options):
    return DATA.t2m.ndgather.add_at(1.0, lat=[np.nan], **options)


NEAREST, NAN = "method='nearest' for the nearest label", "missing='nan' for NaN"
WAYS = {
    near: [NEAREST, NAN],
    nan: [NAN],
    no_time: [NAN],
    window: [NEAREST],
    window_at_nan: [],
    added_at_nan: ["missing='drop' to drop them"],
}


@pytest.mark.parametrize(
    ("axis", "label"),
    [(pd.IntervalIndex.from_breaks([0, 1, 2, 9]), 9.5), (pd.Index([False, True, False]), 2)],
)
def test_errors_omit_nearest_labels_if_there_are_none(axis, label):
    data = xr.DataArray([1.0, 2.0, 3.0], {"x": axis}, ["x"])
    with pytest.raises(NdgatherError) as refused:
        data.ndgather.sel(x=[label])
    assert "nearest" not in str(refused.value).partition("; write ")[2]


@pytest.mark.parametrize("call", WAYS)
def test_hints_for_missing_labels_work(call):
    with pytest.raises(LabelError) as refused:
        call()
    ways = str(refused.value).partition("; write ")[2].split(", or ")
    assert [*filter(None, ways)] == WAYS[call]
    for way in WAYS[call]:
        name, _, value = way.partition(" ")[0].partition("=")
        call(**{name: value.strip("'")})


TIMES = pd.DatetimeIndex(HOURS.t[1:]).tz_localize("UTC").tz_convert("Asia/Tokyo")
OF_P = xr.DataArray(TIMES.to_numpy(), dims="p")
VALUES = np.arange(12.0).reshape(3, 4)
AXES = {"lat": [10.0, 20.0, 30.0], "lon": [1.0, 2.0, 3.0, 4.0]}
FIELD = xr.DataArray(VALUES, AXES, [*AXES])
LATS = xr.DataArray([10.0, 30.0], dims="lon")
ADDED = VALUES + np.pad([[1.0, 1.0], [2.0, 2.0]], ((0, 1), (0, 2)))
TURNED = FIELD.isel(lat=[0, 2, 1])
PARTIAL = FIELD.assign_coords(lat=[10.0, np.nan, 30.0])
# Data, method, labels by name, options, and the intended values.
MEANT = {
    "a time": (HOURS, "sel", {"t": TIMES[0]}, {}, 1.0),
    "a time of datetime": (HOURS, "sel", {"t": TIMES[0].to_pydatetime()}, {}, 1.0),
    "times": (HOURS, "sel", {"t": TIMES}, {}, [1.0, 2.0]),
    "a list of times": (HOURS, "sel", {"t": [*TIMES]}, {}, [1.0, 2.0]),
    "a column of times": (HOURS, "sel", {"t": pd.Series(TIMES)}, {}, [1.0, 2.0]),
    "an array of times": (HOURS, "sel", {"t": TIMES.to_numpy()}, {}, [1.0, 2.0]),
    "times in text": (HOURS, "sel", {"t": ["2020-01-01T10:00+09:00"]}, {}, [1.0]),
    "named times": (HOURS, "sel", {"t": OF_P}, {"method": "nearest"}, [1.0, 2.0]),
    "unsorted": (TURNED, "sel", {"lat": [19.0, 28.0]}, {"method": "nearest"}, VALUES[1:]),
    "NaN": (PARTIAL, "sel", {"lat": [11.0]}, {"method": "nearest"}, VALUES[:1]),
    "no labels": (FIELD.drop_vars("lat"), "sel", {"lat": 1}, {"method": "nearest"}, VALUES[1]),
    "dimensions": (FIELD, "windows", {"lat": LATS}, {"size": 1}, VALUES[[0, 2]]),
    "a filler": (FIELD, "sel", {"lat": [-9999.0]}, {"method": "nearest"}, [[np.nan] * 4]),
    "numbers": (FIELD, "add_at", {"values": [1.0, 2.0]}, {k: AXES[k][:2] for k in AXES}, ADDED),
}


@pytest.mark.filterwarnings("ignore:no explicit representation of timezones")
@pytest.mark.parametrize(
    ("data", "method", "labels", "options", "wanted"), MEANT.values(), ids=MEANT
)
def test_every_hint_works(data, method, labels, options, wanted):
    with pytest.raises(NdgatherError) as refused:
        getattr(data.ndgather, method)(**labels, **options)
    error = str(refused.value)
    hint = re.search(r"write (.*?)(?: for UTC| in Python first| instead of .*)?$", error)[1]
    names = {"pandas": pd, "numpy": np, "xarray": xr, "data": data}
    if hint.startswith("."):
        method, options = hint[1:], {}
    elif hint.startswith("data = "):
        data = eval(hint.removeprefix("data = "), names)
    elif re.match(r"\w+='\w+'$", hint):
        options = options | eval(f"dict({hint})")
    else:
        name = next(each for each in labels if re.search(rf"\b{each}\b", hint))
        hint = hint.removesuffix(" for some of them").replace("[...]", "['lat']")
        labels = labels | {name: eval(hint.replace("...", "'other'"), names | labels)}
    found = getattr(data.ndgather, method)(**labels, **options)
    np.testing.assert_array_equal(found.squeeze(), np.squeeze(wanted))
