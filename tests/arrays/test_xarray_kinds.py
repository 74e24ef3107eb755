"""Labels of every unit, calendar and type, distances equal to the tolerance, parts of a circle."""

import datetime
import itertools

import cftime
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import ndgather.arrays.xarray  # noqa: F401
from ndgather.errors import (
    AttributeValueError,
    CallError,
    DTypeError,
    LabelError,
    ShapeError,
)

UNITS = ["D", "h", "m", "s", "ms", "us", "ns"]
CALENDARS = ["standard", "proleptic_gregorian", "julian", "noleap", "all_leap", "360_day"]
METHODS = [None, "nearest", "pad", "backfill"]
DAYS = [0, 2, 3, 7]  # units of time axes


def array(labels, name="x", values=None):
    values = np.arange(float(len(labels))) if values is None else values
    return xr.DataArray(values, {name: labels}, name="v")


def days_by_loop(day, method, tolerance=None):
    """Search every label of an ascending axis of days: the definition."""
    wanted = {
        None: [each for each in DAYS if each == day],
        "nearest": DAYS,
        "pad": [each for each in DAYS if each <= day],
        "backfill": [each for each in DAYS if each >= day],
    }[method]
    found = min(wanted, key=lambda each: (abs(each - day), -each), default=None)
    if found is None or (tolerance is not None and abs(found - day) > tolerance):
        return np.nan
    return float(DAYS.index(found))


def linear_by_loop(day):
    for (at, low), (_, high) in itertools.pairwise(enumerate(DAYS)):
        if low <= day <= high:
            return at + (day - low) / (high - low)
    return np.nan


ASKED = [-1, 0, 1, 2, 3, 5, 7, 8]  # 1 and 5 are midpoints


@pytest.mark.parametrize("falling", [False, True])
@pytest.mark.parametrize(
    ("axis_unit", "label_unit"), [*zip(UNITS, UNITS[3:] + UNITS[:3], strict=True)]
)
def test_times_of_every_unit(axis_unit, label_unit, falling):
    axis = (np.datetime64("2000-01-01", "D") + np.array(DAYS)).astype(f"M8[{axis_unit}]")
    data = array(axis)[::-1] if falling else array(axis)
    labels = (np.datetime64("2000-01-01", "D") + np.array(ASKED)).astype(f"M8[{label_unit}]")
    for method in METHODS:
        turned = {"pad": "backfill", "backfill": "pad"}.get(method) if falling else None
        found = data.ndgather.sel(x=labels, method=turned or method, missing="nan")
        np.testing.assert_array_equal(found, [days_by_loop(day, method) for day in ASKED])
    found = data.ndgather.sel(x=labels, method="linear")
    np.testing.assert_allclose(found, [linear_by_loop(day) for day in ASKED])
    for tolerance in (0, 1, 2):
        limit = np.timedelta64(tolerance, "D")
        found = data.ndgather.sel(x=labels, method="nearest", tolerance=limit, missing="nan")
        np.testing.assert_array_equal(
            found, [days_by_loop(day, "nearest", tolerance) for day in ASKED]
        )


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("calendar", CALENDARS)
def test_times_of_every_calendar(calendar, written):
    axis = xr.date_range("2000-02-20", periods=20, calendar=calendar, use_cftime=True)
    data = array(axis[[10 + day for day in DAYS]])
    labels = axis[[10 + day for day in ASKED]].to_numpy()
    if written:
        labels = np.array([label.isoformat() for label in labels])
    for method in METHODS:
        found = data.ndgather.sel(x=labels, method=method, missing="nan")
        np.testing.assert_array_equal(found, [days_by_loop(day, method) for day in ASKED])
    found = data.ndgather.sel(x=labels, method="linear")
    np.testing.assert_allclose(found, [linear_by_loop(day) for day in ASKED])
    found = data.ndgather.sel(x=labels, method="nearest", tolerance="1D", missing="nan")
    np.testing.assert_array_equal(found, [days_by_loop(day, "nearest", 1) for day in ASKED])


@pytest.mark.parametrize("use_cftime", [False, True])
@pytest.mark.parametrize("label", ["2000-02", "2000", "2000-01-31", "2000-01-31T00:00"])
def test_strings_of_months_and_years_select_all_their_times(label, use_cftime):
    axis = xr.date_range("2000-01-30", periods=5, use_cftime=use_cftime)
    xr.testing.assert_identical(array(axis).ndgather.sel(x=label), array(axis).sel(x=label))


@pytest.mark.parametrize("method", [*METHODS, "linear"])
@pytest.mark.parametrize(
    ("label", "why"),
    [
        (cftime.datetime(2000, 2, 1, calendar="noleap"), "times of the calendar noleap are not "),
        (np.datetime64("2000-02-01"), "times are not "),
        (datetime.datetime(2000, 2, 1), "times are not "),
        ("2000-02-31", "invalid day number"),
        ("now", "time data 'now' does not match format '%Y-%m-%d'"),
        (1.5, "numbers are not times of the calendar 360_day"),
    ],
)
def test_times_missing_from_the_calendar(label, why, method):
    axis = xr.date_range("2000-01-30", periods=5, calendar="360_day", use_cftime=True)
    for missing in ("raise", "nan"):
        with pytest.raises(DTypeError, match=rf"^sel: x\.dtype = .*: {why}"):
            array(axis).ndgather.sel(x=[label], method=method, missing=missing)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("far", ["9999-12-31", "0001-01-01"])
def test_times_beyond_the_unit_of_the_axis(unit, far):
    axis = pd.date_range("2000-01-01", periods=3).as_unit(unit)
    labels = np.array([far, "2000-01-02"], "M8[s]")
    late = far > "2000"
    sel = array(axis).ndgather.sel
    for method, found in (("pad", late), ("backfill", not late)):
        expected = [(2.0 if late else 0.0) if found else np.nan, 1.0]
        np.testing.assert_array_equal(sel(x=labels, method=method, missing="nan"), expected)
    for options in ({}, {"method": "nearest"}, {"method": "nearest", "tolerance": "1D"}):
        np.testing.assert_array_equal(sel(x=labels, missing="nan", **options), [np.nan, 1.0])
        with pytest.raises(LabelError, match=r"x\[0\]"):
            sel(x=labels, **options)
    np.testing.assert_array_equal(sel(x=labels, method="linear"), [np.nan, 1.0])
    if unit == "ns":  # its position in the year is undefined
        with pytest.raises(DTypeError):
            sel(x=labels, method="nearest", period={"x": "365D"})


def test_axes_beyond_the_unit_of_the_labels():
    axis = np.array(["0850-01-01", "1700-01-01", "2500-01-01"], "M8[s]")
    labels = np.array(["1701-01-01", "2200-01-01"], "M8[ns]")
    sel = array(axis).ndgather.sel
    assert sel(x=labels, method="nearest").values.tolist() == [1.0, 2.0]
    assert sel(x=labels, method="pad").values.tolist() == [1.0, 1.0]
    np.testing.assert_array_equal(sel(x=labels, missing="nan"), [np.nan, np.nan])
    assert 1 < sel(x=labels, method="linear").values[0] < 1.01
    between = np.array(["1700-01-01T00:00:00.5", "1699-12-31T23:59:59.5"], "M8[ns]")
    np.testing.assert_array_equal(sel(x=between, missing="nan"), [np.nan, np.nan])
    for method, missing in itertools.product(METHODS[1:], ("raise", "nan")):
        with pytest.raises(DTypeError, match="some are between two times of its unit"):
            sel(x=between, method=method, missing=missing)


# By axis: labels on it, and labels of other types, which are never on it.
TYPES = {
    "texts": (["00123", "NA"], [["NA"], np.array(["00123"], object)], [[123], [b"NA"], [1.0]]),
    "bytes": (np.array([b"AB", b"C"]), [np.array([b"C"])], [["AB"], [1]]),
    "durations": (
        pd.to_timedelta([0, 6], "h"),
        [[np.timedelta64(6, "h")], ["6h"], [datetime.timedelta(hours=6)]],
        [[6], [6.0], [np.datetime64("2000-01-01")], [b"6h"]],
    ),
    "times": (
        pd.date_range("2000-01-01", periods=2),
        [["2000-01-02"], [datetime.datetime(2000, 1, 2)], [datetime.date(2000, 1, 2)]],
        [[2], [1.5], [np.timedelta64(1, "D")], ["now"], ["yesterday"], [b"2000-01-01"]],
    ),
    "integers": ([3, 5], [[5], [5.0], np.array([5], "u1")], [["5"], [np.datetime64("2000")]]),
    "floats": ([3.5, 5.0], [[5], [5.0]], [["5"], [b"5"], [np.timedelta64(1, "D")]]),
}


@pytest.mark.parametrize("kind", TYPES)
def test_labels_of_another_type_are_not_missing(kind):
    axis, there, others = TYPES[kind]
    data = array(axis)
    for labels in there:
        for missing in ("raise", "nan"):
            data.ndgather.sel(x=labels, missing=missing)
    for labels in others:
        for missing in ("raise", "nan"):
            with pytest.raises(DTypeError, match=r"sel: x\.dtype = .* cannot be looked up on an"):
                data.ndgather.sel(x=labels, missing=missing)


@pytest.mark.parametrize("dtype", ["i8", "f4", "f8"])
def test_masks_and_empty_lists_select_as_in_xarray(dtype):
    data = array(np.array([1, 0, 5], dtype))
    mask = np.array([True, False, True])
    for labels in (mask, [True, False, True], xr.DataArray(mask, dims="x"), np.zeros(3, bool)):
        xr.testing.assert_identical(data.ndgather.sel(x=labels), data.sel(x=labels))
    for call in (data.ndgather.isel, data.ndgather.sel):
        for empty in ([], np.zeros(0), np.zeros(0, dtype)):
            assert call(x=empty).sizes == {"x": 0}
            assert call(x=xr.DataArray(empty, dims="p")).sizes == {"p": 0}


# Times between two seconds, by the unit that can represent them.
FINER = {
    "times": ("M8", ["2000-01-01T00:00:01", "2000-01-01T00:00:02"], "2000-01-01T00:00:01.{}"),
    "durations": ("m8", ["1s", "2s"], "00:00:01.{}"),
}


@pytest.mark.parametrize("kind", FINER)
@pytest.mark.parametrize(("unit", "digits"), [("s", 3), ("s", 9), ("ms", 6), ("us", 9)])
def test_strings_finer_than_the_axis_are_missing(kind, unit, digits):
    code, ends, form = FINER[kind]
    seconds = pd.to_datetime(ends) if code == "M8" else pd.to_timedelta(ends)
    sel = array(seconds.to_numpy().astype(f"{code}[{unit}]")).ndgather.sel
    last_digit, late = form.format("1".rjust(digits, "0")), form.format("7".ljust(digits, "0"))
    for label in (last_digit, late):
        with pytest.raises(LabelError, match=r"x\[0\]"):
            sel(x=[label])
        np.testing.assert_array_equal(sel(x=[label], missing="nan"), [np.nan])
        assert sel(x=[label], method="pad").values == 0
        assert sel(x=[label], method="backfill").values == 1
        assert sel(x=[label], method="nearest").values == (label == late)


@pytest.mark.parametrize(
    ("fraction", "microseconds"),
    [("", 0), (".5", 500_000), (".05", 50_000), (".000001", 1), (".123456", 123_456)],
)
@pytest.mark.parametrize("calendar", CALENDARS)
def test_fractions_of_a_second_in_every_calendar(calendar, fraction, microseconds):
    moments = [
        cftime.datetime(2000, 2, 28, 6, 30, 59, each, calendar=calendar)
        for each in sorted({0, 1, 50_000, 123_456, 500_000})
    ]
    data = array(xr.CFTimeIndex(moments))
    found = data.ndgather.sel(x=[f"2000-02-28T06:30:59{fraction}"]).x.item()
    assert found.microsecond == microseconds
    later = data.ndgather.sel(x=[f"2000-02-28T06:30:59{fraction}"], method="nearest").x.item()
    assert later.microsecond == microseconds


@pytest.mark.parametrize("word", ["now", "today"])
def test_now_and_today_are_refused(word):
    today = pd.Timestamp.now().normalize()
    data = array(pd.date_range(today - pd.Timedelta(3, "D"), periods=7))
    for method in (None, "nearest", "linear"):
        with pytest.raises(DTypeError, match="'now' and 'today' change from call to call"):
            data.ndgather.sel(x=[word], method=method)


def test_strings_at_midpoints_select_the_greater_label():
    data = xr.Dataset({"name": ("x", ["a", "b"]), "v": ("x", [0.0, 1.0])}, {"x": [0.0, 2.0]})
    for turned in (data, data[{"x": [1, 0]}]):
        found = turned.ndgather.sel(x=[0.9, 1.0, 1.1], method="linear")
        assert found["name"].values.tolist() == ["a", "b", "b"]


@pytest.mark.parametrize("kind", ["M8[ns]", "m8[ns]"])
def test_interpolated_times_are_rounded(kind):
    values = np.array([10, 11, -20], "i8").view(kind)
    data = array([0.0, 1.0, 2.0], values=values).to_dataset()
    found = data.ndgather.sel(x=[0.25, 0.75, 1.9], method="linear")
    assert found["v"].values.view("i8").tolist() == [10, 11, -17]


# A part of the circle, in the order of the axis, and the position of the gap.
REGIONS = {
    "east of zero": [0.0, 1, 2, 3, 4],
    "across zero": [358.0, 359, 0, 1, 2],
    "across zero, sorted": [0.0, 1, 2, 358, 359],
    "falling": [20.0, 10, 0, -10],
    "half": [*np.arange(0.0, 200, 10)],
    "one label": [5.0],
    "two labels": [5.0, 15.0],
}


@pytest.mark.parametrize("labels", REGIONS.values(), ids=REGIONS)
def test_nothing_is_interpolated_across_the_gap_of_a_region(labels):
    data = array(labels)
    ring = sorted(label % 360 for label in labels)
    steps = np.diff([*ring, ring[0] + 360])
    middle = ring[int(steps.argmax())] + steps.max() / 2
    asked = [middle, middle - 360, middle + 360]
    found = data.ndgather.sel(x=asked, method="linear", period={"x": 360})
    assert np.isnan(found).all()
    np.testing.assert_array_equal(
        data.ndgather.sel(x=labels, method="linear", period={"x": 360}), data
    )
    inside = [(a + b) / 2 for a, b in itertools.pairwise(labels) if abs(a - b) <= 10]
    expected = [(i + j) / 2 for i, j in itertools.pairwise(range(len(labels)))]
    expected = [
        each
        for each, (a, b) in zip(expected, itertools.pairwise(labels), strict=True)
        if abs(a - b) <= 10
    ]
    found = data.ndgather.sel(x=inside, method="linear", period={"x": 360})
    np.testing.assert_allclose(found, expected)
    if len(labels) > 1 and labels != REGIONS["across zero, sorted"]:
        with pytest.raises(AttributeValueError, match="windows cannot wrap"):
            data.ndgather.windows(x=[labels[-1]], size=3, period={"x": 360})


@pytest.mark.parametrize("turn", [0, 2])
@pytest.mark.parametrize("falling", [False, True])
@pytest.mark.parametrize(
    ("labels", "goes_around"),
    [
        ([0.0, 90, 180, 270], True),
        ([0.0, 80, 160, 240], True),  # the gap is exactly 1.5 steps
        ([0.0, 79, 158, 237], False),
        ([0.0, 60, 120, 180, 240, 330], True),  # half a step
        ([0.0, 60, 120, 180, 240, 331], None),  # shorter: only windows refuse it
    ],
)
def test_linear_and_windows_agree_on_cyclic_axes(labels, goes_around, falling, turn):
    labels = np.roll(labels, turn)[:: -1 if falling else 1]
    data = array(labels)
    first, last = sorted(labels)[0], sorted(labels)[-1]
    seam = data.ndgather.sel(x=[(last + first + 360) / 2], method="linear", period={"x": 360})
    assert bool(np.isnan(seam[0])) is (goes_around is False)
    if turn == 0:
        around = {"x": [labels[0]], "size": 3, "period": {"x": 360}}
        if goes_around:
            assert data.ndgather.windows(**around).values.tolist() == [[len(labels) - 1, 0, 1]]
        else:
            with pytest.raises(AttributeValueError, match="windows cannot wrap"):
                data.ndgather.windows(**around)


def test_windows_around_a_year_of_days():
    days = pd.date_range("2001-01-01", periods=365)
    found = array(days).ndgather.windows(x=[days[0]], size=3, period={"x": "365D"})
    assert found.values.tolist() == [[364, 0, 1]]
    with pytest.raises(AttributeValueError, match="windows cannot wrap"):
        array(days[:100]).ndgather.windows(x=[days[0]], size=3, period={"x": "365D"})


GRID = array([0.0, 1, 2], "lat", np.arange(3.0)).expand_dims(lon=[0.0, 1, 2, 3]).T
TABLE = pd.DataFrame({"lat": [0.0, 2.0, 1.0], "lon": [3.0, 0.0, 1.0]})


@pytest.mark.parametrize(
    ("table", "dim"),
    [
        (TABLE, "index"),
        (TABLE.set_index(pd.Index(["a", "b", "c"], name="station")), "station"),
        (TABLE.set_index(pd.MultiIndex.from_arrays([[1, 1, 2], [1, 2, 1]])), "index"),
        (TABLE.iloc[::-1], "index"),
    ],
)
def test_table_rows_are_points(table, dim):
    data = GRID + 10 * GRID.lon
    expected = [lat + 10 * lon for lat, lon in zip(table["lat"], table["lon"], strict=True)]
    for method in (None, "nearest", "linear"):
        found = data.ndgather.sel(table, method=method)
        assert found.dims == (dim,)
        assert found.values.tolist() == expected
    assert data.ndgather.isel(table.astype(int)).values.tolist() == expected
    added = (data * 0).ndgather.add_at(1.0, table)
    assert added.sum() == 3
    assert added.sel(lat=0, lon=3) == 1


def test_series_would_select_every_combination():
    lat, lon = TABLE["lat"], TABLE["lon"]
    for call in (
        GRID.ndgather.sel,
        GRID.ndgather.isel,
        lambda **at: GRID.ndgather.add_at(1.0, **at),
    ):
        with pytest.raises(ShapeError, match=r"lat, lon are Series.*table\[\['lat', 'lon'\]\]"):
            call(lat=lat.astype(int), lon=lon.astype(int))
    assert GRID.ndgather.sel(lat=lat).shape == (3, 4)
    assert GRID.ndgather.sel(lat=lat.to_numpy(), lon=lon.to_numpy()).shape == (3, 3)
    with pytest.raises(CallError, match="name is not a dimension"):
        GRID.ndgather.sel(TABLE.assign(name="A"))
    with pytest.raises(CallError, match="several columns lat"):
        GRID.ndgather.sel(pd.concat([TABLE, TABLE], axis=1))


@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "f2"])
def test_distances_to_points_do_not_wrap(dtype):
    coords = {name: (("r", "c"), np.array([[0, 100], [7, 120]], dtype)) for name in ("lat", "lon")}
    data = xr.DataArray([[1.0, 2.0], [3.0, 4.0]], coords, ("r", "c"))
    data = data.set_xindex(["lat", "lon"], xr.indexes.NDPointIndex)
    labels = {name: xr.DataArray(np.array([60, 108], dtype), dims="p") for name in ("lat", "lon")}
    options = {**labels, "method": "nearest", "missing": "nan"}  # 40 and 8 away on the two axes
    near = data.ndgather.sel(**options, tolerance=11.4)
    np.testing.assert_array_equal(near, [np.nan, 2])
    np.testing.assert_array_equal(data.ndgather.sel(**options, tolerance=56.6), [2, 2])
    np.testing.assert_array_equal(data.ndgather.sel(**options, tolerance=11.3), [np.nan] * 2)


@given(
    st.lists(st.tuples(st.integers(-3, 6), st.integers(-3, 6)), min_size=1, max_size=5),
    st.sampled_from([0.0, 1.0, 5.0**0.5, 2.0]),
)
def test_a_tolerance_with_an_index_of_points(points, limit):
    places = [(0, 0), (0, 2), (3, 0), (3, 3)]
    coords = {name: (("r", "c"), np.reshape(each, (2, 2)) * 1.0) for name, each in zip(
        ("lat", "lon"), zip(*places, strict=True), strict=True
    )}  # fmt: skip
    data = xr.DataArray(np.arange(4.0).reshape(2, 2), coords, ("r", "c"))
    data = data.set_xindex(["lat", "lon"], xr.indexes.NDPointIndex)
    lat, lon = (xr.DataArray(np.array(each, float), dims="p") for each in zip(*points, strict=True))
    expected = []
    for row, column in points:
        far = [((row - y) ** 2 + (column - x) ** 2) ** 0.5 for y, x in places]
        found = int(data.ndgather.sel(lat=float(row), lon=float(column), method="nearest"))
        assert far[found] == min(far)  # any of several equally near points
        expected.append(float(found) if min(far) <= limit else np.nan)
    options = {"lat": lat, "lon": lon, "method": "nearest", "tolerance": limit}
    text = r"tolerance is a dict, .*allowed: a single distance"
    with pytest.raises(AttributeValueError, match=text):
        data.ndgather.sel(**options | {"tolerance": {"lat": limit}})
    np.testing.assert_array_equal(data.ndgather.sel(**options, missing="nan"), expected)
    if np.isnan(expected).any():
        with pytest.raises(LabelError, match=r"the nearest point to \(lat, lon\)\[\d\] is .* away"):
            data.ndgather.sel(**options)
    else:
        np.testing.assert_array_equal(data.ndgather.sel(**options), expected)
