"""Axes of every type that xarray supports, and labels at every boundary of a method.

Labels are on the axis, at midpoints, at the tolerance and one step beyond it, before and after the
axis. Axes have no, one or many labels, ascending or descending, or times of every unit and
calendar. The definition is a search over all labels with Python numbers: of two equally near labels
the greater is selected, as pandas documents it, and a tolerance is inclusive.
"""

import itertools
from fractions import Fraction

import cftime
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import ndgather.arrays.xarray  # noqa: F401 - registers `.ndgather`
from ndgather.errors import DTypeError, LabelError, NdgatherError

METHODS = [None, "nearest", "pad", "backfill"]
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
CALENDARS = ("standard", "proleptic_gregorian", "julian", "noleap", "all_leap", "360_day")
FEW = settings(max_examples=max(5, min(500, settings().max_examples // 5)))  # of 91 cases


@st.composite
def axes(draw):
    """Draw ascending or descending axes, and labels at their boundaries with a tolerance."""
    numbers = sorted(draw(st.sets(st.integers(-50, 50), max_size=7)))
    numbers = [2 * number for number in numbers]  # even, so that there are midpoints
    tolerance = draw(st.sampled_from([None, 0, 1, 2, 5, 1000]))
    near = {*numbers, *((a + b) // 2 for a, b in itertools.pairwise(numbers))} or {0}
    steps = {0, 1, *([] if tolerance is None else [tolerance, tolerance + 1])}
    labels = sorted({label + sign * step for label in near for step in steps for sign in (1, -1)})
    labels = draw(st.permutations(labels))[:20]
    return numbers[:: draw(st.sampled_from([1, -1]))], labels, tolerance


def searched(axis, label, method, tolerance):
    """Return the position of a label by its definition, or -1."""
    rises = len(axis) < 2 or axis[0] < axis[-1]
    if method is None:
        among = [each for each in axis if each == label]
    elif method == "nearest":
        among = axis
    else:
        smaller = (method == "pad") == rises
        among = [each for each in axis if (each <= label if smaller else each >= label)]
    found = min(among, key=lambda each: (abs(each - label), -each), default=None)
    if found is None or (method and tolerance is not None and abs(found - label) > tolerance):
        return -1
    if method == "nearest" and tolerance is None:  # at most half a step outside of the axis
        low, *_, high = sorted(axis) if len(axis) > 1 else axis * 2
        beside = sorted(axis)[1] if label < low and len(axis) > 1 else sorted(axis)[-2:][0]
        if not low <= label <= high and 2 * abs(found - label) > abs(found - beside):
            return -1
    return axis.index(found)


def check(axis, labels, method, tolerance, expected, peer=True):
    """Select by labels; check found and missing labels, and compare the former with xarray."""
    data = xr.DataArray(np.arange(1.0, len(axis) + 1), {"t": axis}, ["t"])
    options = {"method": method, "tolerance": tolerance if method else None}
    points = xr.DataArray(labels, dims="p")
    found = data.ndgather.sel(t=points, missing="nan", **options)
    assert np.where(found.isnull(), -1, found - 1).astype(int).tolist() == expected
    missing = [n for n, at in enumerate(expected) if at < 0]
    if missing:
        with pytest.raises(LabelError) as refused:
            data.ndgather.sel(t=points, **options)
        assert refused.value.position == (missing[0],)
        assert refused.value.count == len(missing)
    present = points.isel(p=np.array([n for n, at in enumerate(expected) if at >= 0], int))
    ours = data.ndgather.sel(t=present, **options)
    assert (ours - 1).astype(int).values.tolist() == [at for at in expected if at >= 0]
    if peer and len(axis) and present.size:
        xr.testing.assert_identical(ours, data.sel(t=present, **options))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8"])
@FEW
@given(axes())
def test_numbers(dtype, method, drawn):
    axis, labels, tolerance = drawn
    expected = [searched(axis, each, method, tolerance) for each in labels]
    check(np.array(axis, dtype), np.array(labels, dtype), method, tolerance, expected)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("of_labels", UNITS)
@FEW
@given(axes(), st.sampled_from("Mm"), st.sampled_from(METHODS), st.data())
def test_times_of_every_unit(of_labels, unit, drawn, kind, method, data):
    """Labels with another unit than the axis are compared exactly, even between its times."""
    axis, labels, tolerance = drawn
    coarse = min(UNITS[unit], UNITS[of_labels])  # the unit of the drawn numbers

    def ticks(numbers, per_second):
        """Return numbers in a unit, slightly off the steps if it is the finer unit."""
        factor = per_second // coarse
        off = st.sampled_from([0, 0, 0, 1, -1, factor // 4] if factor > 1 else [0])
        return [number * factor + data.draw(off) for number in numbers]

    axis, labels = ticks(axis, UNITS[unit]), ticks(labels, UNITS[of_labels])
    of_axis, of_labels_ = (
        [Fraction(each, per_second) for each in numbers]
        for numbers, per_second in ((axis, UNITS[unit]), (labels, UNITS[of_labels]))
    )
    limit = None if tolerance is None else Fraction(tolerance, UNITS[unit])
    check(
        np.array(axis, np.int64).astype(f"{kind}8[{unit}]"),
        np.array(labels, np.int64).astype(f"{kind}8[{of_labels}]"),
        method,
        None if tolerance is None else np.timedelta64(tolerance, unit),
        [searched(of_axis, each, method, limit) for each in of_labels_],
        peer=unit == of_labels,
    )


@pytest.mark.parametrize("calendar", CALENDARS)
@pytest.mark.parametrize("step", ["hours", "days", "microseconds"])
@FEW
@given(
    axes(),
    st.sampled_from(["1500-02-28 12:00:00", "1582-10-01", "2000-02-28 23:59:59"]),
    st.sampled_from(METHODS),
)
def test_times_of_every_calendar(step, calendar, drawn, date, method):
    """Times around days that only some calendars have."""
    axis, labels, tolerance = drawn
    since = f"{step} since {date}"

    def times(numbers):
        result = np.empty(len(numbers), object)
        result[:] = [cftime.num2date(number, since, calendar=calendar) for number in numbers]
        return result

    if not axis:
        return  # has no calendar
    limit = None if tolerance is None else pd.Timedelta(tolerance, step).to_pytimedelta()
    expected = [searched(axis, each, method, tolerance) for each in labels]
    index = xr.CFTimeIndex(times(axis))
    check(index, times(labels), method, limit, expected, peer=False)


@pytest.mark.parametrize("calendar", CALENDARS)
def test_strings_of_every_calendar(calendar):
    """A string is a time in the calendar of the axis; only some calendars have 30 February."""
    numbers = [0, 1, 2, 30]
    axis = cftime.num2date(numbers, "days since 2001-02-28", calendar=calendar)
    data = xr.DataArray(numbers, {"t": xr.CFTimeIndex(axis)}, ["t"])
    texts = [time.strftime("%Y-%m-%d") for time in axis]
    assert data.ndgather.sel(t=("p", texts)).values.tolist() == numbers
    assert data.ndgather.sel(t=("p", texts), method="nearest").values.tolist() == numbers
    if calendar == "360_day":
        assert data.ndgather.sel(t=("p", ["2001-02-30"])).values.tolist() == [2]
    else:
        with pytest.raises(DTypeError, match=r"t\.dtype = .* cannot be looked up"):
            data.ndgather.sel(t=("p", ["2001-02-30"]))


@pytest.mark.parametrize("method", METHODS)
@FEW
@given(axes(), st.data())
def test_duplicate_labels(method, drawn, data):
    """Duplicate labels are refused if they are selected, and have no effect otherwise."""
    axis, labels, tolerance = drawn
    if not axis:
        return
    twice = data.draw(st.sets(st.sampled_from(axis), max_size=3))
    repeated = [each for each in axis for _ in range(1 + (each in twice))]
    array = xr.DataArray(np.arange(len(repeated)), {"t": np.array(repeated, float)}, ["t"])
    options = {"method": method, "tolerance": tolerance if method else None, "missing": "nan"}
    for label in labels:
        at = searched(axis, label, method, tolerance)
        if at >= 0 and axis[at] in twice:
            with pytest.raises(LabelError, match="is duplicated on its axis"):
                array.ndgather.sel(t=("p", [label]), **options)
        else:
            found = array.ndgather.sel(t=("p", [label]), **options).values[0]
            assert (found == repeated.index(axis[at])) if at >= 0 else np.isnan(found)


@pytest.mark.parametrize("falls", [False, True])
@FEW
@given(axes(), st.data())
def test_slices_of_labels(falls, drawn, data):
    """A slice includes both ends and follows the order of the axis."""
    axis, labels, _ = drawn
    axis = sorted(axis, reverse=falls)
    if len(axis) < 2:
        return  # neither ascending nor descending
    low, high = sorted(data.draw(st.tuples(*[st.sampled_from(labels)] * 2)))
    ends = (high, low) if falls else (low, high)
    array = xr.DataArray(np.array(axis, float), {"t": np.array(axis, float)}, ["t"])
    found = array.ndgather.sel(t=slice(*ends))
    assert found.values.tolist() == [each for each in axis if low <= each <= high]


@FEW
@given(axes(), st.sampled_from([None, "M8[s]", "M8[ns]"]))
def test_values_between_labels(drawn, dtype):
    """The value at a label, the mean of two at a midpoint, NaN outside."""
    axis, labels, _ = drawn
    if not axis:
        return
    values = [3.0 * each for each in axis]
    of_axis, of_labels = np.array(axis, "i8"), np.array(labels, "i8")
    if dtype is not None:
        of_axis, of_labels = of_axis.astype(dtype), of_labels.astype(dtype)
    data = xr.DataArray(values, {"t": of_axis}, ["t"])
    found = data.ndgather.sel(t=("p", of_labels), method="linear").values
    expected = [3.0 * each if min(axis) <= each <= max(axis) else np.nan for each in labels]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_long_tolerances_are_exact(unit, more):
    """120 days have more nanoseconds than a float represents exactly."""
    days = 120 * 86_400 * UNITS[unit]
    axis = np.array([0, 10**17 if unit == "ns" else 10 * days], f"M8[{unit}]")
    data = xr.DataArray([1.0, 2.0], {"t": axis}, ["t"])
    label = xr.Variable("p", np.array([days + more], f"M8[{unit}]"))
    for tolerance in ("120 days", np.timedelta64(120, "D"), pd.Timedelta(120, "D")):
        found = data.ndgather.sel(t=label, method="pad", tolerance=tolerance, missing="nan")
        assert np.isnan(found.values[0]) == (more > 0)


LIMITS = [0, 1, 2**31, 2**62, 2**63 - 2, 2**63 - 1]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("of_labels", UNITS)
@FEW
@given(
    st.lists(st.sampled_from(LIMITS), min_size=1, max_size=3, unique=True),
    st.lists(st.tuples(st.sampled_from(LIMITS), st.sampled_from([1, -1])), min_size=1, max_size=4),
)
def test_dates_at_the_limits_of_every_unit(unit, of_labels, method, axis, labels):
    """Dates are found exactly, or refused if the unit of the axis cannot represent them."""
    axis, labels = sorted(axis), [sign * number for number, sign in labels]
    of_axis = [Fraction(each, UNITS[unit]) for each in axis]
    expected = [
        searched(of_axis, Fraction(each, UNITS[of_labels]), method, None) for each in labels
    ]
    data = xr.DataArray(np.arange(len(axis)), {"t": np.array(axis).astype(f"M8[{unit}]")}, ["t"])
    points = ("p", np.array(labels).astype(f"M8[{of_labels}]"))
    try:
        found = data.ndgather.sel(t=points, method=method, missing="nan").values
    except DTypeError:
        return
    assert np.where(np.isnan(found), -1, found).tolist() == expected
    if -1 in expected:
        with pytest.raises(LabelError):
            data.ndgather.sel(t=points, method=method)
    try:
        between = data.ndgather.sel(t=points, method="linear").values
    except DTypeError:  # between two ticks of an axis beyond the range of the finer unit
        return
    ends = [Fraction(each, UNITS[of_labels]) for each in labels]
    inside = [of_axis[0] <= each <= of_axis[-1] for each in ends]
    assert (~np.isnan(between)).tolist() == inside


@pytest.mark.parametrize("more", [0, 1])
def test_tolerances_of_times_beyond_the_unit_of_the_axis(more):
    axis = np.array([0, 10, 20], "M8[ns]")
    data = xr.DataArray([1.0, 2.0, 3.0], {"t": axis}, ["t"])
    labels = np.array(["3000-01-01", "1700-01-01"][: 2 - more] + ["1970-01-01"] * more, "M8[s]")
    for tolerance, expected in (
        ("5 days", [np.nan, 1.0 if more else np.nan]),
        (["3000 W", "15000 W"], [np.nan, 1.0]),
    ):
        options = {"method": "nearest", "tolerance": tolerance, "missing": "nan"}
        found = data.ndgather.sel(t=("p", labels), **options).values
        np.testing.assert_array_equal(found, expected)
    for tolerance in ("abc", -5, np.timedelta64("NaT"), object(), [1, 2, 3]):
        with pytest.raises(NdgatherError, match=r"^sel: tolerance "):
            data.ndgather.sel(t=("p", labels), method="nearest", tolerance=tolerance)


INTEGERS = [0, 1, 7, 2**53 + 1, 2**62 + 1, 2**63 - 1, 2**63, 2**63 + 10, 2**64 - 11, 2**64 - 1]


@pytest.mark.parametrize("method", [*METHODS, "linear"])
@pytest.mark.parametrize("tolerance", [None, 6])
@FEW
@given(
    st.lists(st.sampled_from(INTEGERS), min_size=1, max_size=3, unique=True),
    st.lists(st.tuples(st.sampled_from(INTEGERS), st.integers(-12, 12)), min_size=1, max_size=6),
    st.booleans(),
    st.booleans(),
)
def test_integers_at_the_limits(method, tolerance, axis, labels, signed, descends):
    """Integers are looked up exactly, or refused if a type does not hold all of them."""
    shift = -(2**63) if signed else 0
    axis = [each + shift for each in sorted(axis, reverse=descends)]
    labels = [number + step + shift for number, step in labels]
    labels = [each for each in labels if shift <= each < 2**64 + shift]
    dtype = np.int64 if signed else np.uint64
    data = xr.DataArray(np.arange(1.0, len(axis) + 1), {"t": np.array(axis, dtype)}, ["t"])
    if method == "linear":
        found = data.ndgather.sel(t=("p", np.array(labels, dtype)), method="linear").values
        for label, value in zip(labels, found, strict=True):
            low = max((each for each in axis if each <= label), default=None)
            high = min((each for each in axis if each >= label), default=None)
            if low is None or high is None:
                assert np.isnan(value)
            else:
                share = Fraction(label - low, high - low) if high > low else 0
                first, second = axis.index(low) + 1, axis.index(high) + 1
                assert abs(value - float(first + (second - first) * share)) < 1e-14
        return
    expected = [searched(axis, each, method, tolerance) for each in labels]
    check(np.array(axis, dtype), np.array(labels, dtype), method, tolerance, expected, peer=False)
    other = [each for each in labels if -(2**63) <= each < 2**63]
    try:
        found = data.ndgather.sel(
            t=("p", np.array(other, np.int64)),
            method=method,
            tolerance=tolerance if method else None,
            missing="nan",
        )
    except DTypeError:
        assert (min(other) < 0, max(axis) >= 2**63) == (True, True)
    else:
        expected = [searched(axis, each, method, tolerance) for each in other]
        assert np.where(found.isnull(), -1, found - 1).astype(int).tolist() == expected
