"""Lookups of labels against pandas and against a plain search over the axis."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from ndgather.arrays.xarray.labels import look_up
from ndgather.errors import AttributeValueError, DTypeError, LabelError, ShapeError
from tools import versions

SIZES = st.integers(0, 12)


@st.composite
def axes(draw, elements, min_size=0):
    """Draw distinct labels, ascending or descending, equidistant or not."""
    labels = sorted(draw(st.sets(elements, min_size=min_size, max_size=12)))
    if draw(st.booleans()) and labels:
        step = draw(st.sampled_from([0.25, 1.0, 3.0]))
        labels = [labels[0] + step * i for i in range(len(labels))]
    return labels[:: draw(st.sampled_from([1, -1]))]


QUARTERS = st.integers(-4000, 4000).map(lambda number: number / 4)
# Far enough apart that rounding alone does not make distances equal.
NUMBERS = st.one_of(QUARTERS, st.floats(-1e6, 1e6, width=32).map(lambda number: round(number, 3)))


def by_loop(axis, label, method, tolerance):
    """Search every label of the axis: the definition."""
    rises = len(axis) < 2 or axis[0] < axis[-1]
    if math.isnan(label):
        return -1
    if method is None:
        candidates = [each for each in axis if each == label]
    elif method == "pad":
        candidates = [each for each in axis if (each <= label if rises else each >= label)]
    elif method == "backfill":
        candidates = [each for each in axis if (each >= label if rises else each <= label)]
    else:
        candidates = axis
    found = min(candidates, key=lambda each: (abs(each - label), -each), default=None)
    if found is None or (tolerance is not None and not abs(found - label) <= tolerance):
        return -1
    return axis.index(found)


@given(
    axes(NUMBERS),
    st.lists(st.one_of(NUMBERS, st.just(math.nan)), max_size=8),
    st.sampled_from([None, "nearest", "pad", "backfill"]),
    st.sampled_from([None, 0.25, 2, 1e3]),
    st.data(),
)
def test_floats(axis, labels, method, tolerance, data):
    if axis:
        labels = labels + data.draw(st.lists(st.sampled_from(axis), max_size=4))
        middles = [(a + b) / 2 for a, b in itertools.pairwise(axis)]
        labels = labels + middles[:4]
    if method is None:
        tolerance = None
    index = pd.Index(np.array(axis, np.float64))
    found = look_up("sel", "x", index, np.array(labels, float), method=method, tolerance=tolerance)
    assert found.tolist() == [by_loop(axis, each, method, tolerance) for each in labels]
    peer = index.get_indexer(pd.Index(labels, dtype=float), method=method, tolerance=tolerance)
    if versions.order(pd.__version__) < [3]:
        peer[np.isnan(labels)] = -1  # pandas finds NaN on an axis of one label
    np.testing.assert_array_equal(found, peer, strict=True)


@given(
    st.sampled_from(["f4", "f8", "i4", "i8", "u2", "M8[s]", "M8[ns]", "m8[us]"]),
    st.sampled_from(["f4", "f8", "i8", "M8[ms]", "M8[ns]", "m8[s]"]),
    axes(st.integers(0, 1000), min_size=1),
    st.lists(st.integers(-10, 1010), max_size=40),
    st.sampled_from([None, "nearest", "pad", "backfill"]),
)
def test_other_types(axis_type, label_type, axis, labels, method):
    kinds = np.dtype(axis_type).kind + np.dtype(label_type).kind
    if ("M" in kinds or "m" in kinds) and kinds[0] != kinds[1]:
        return
    index = pd.Index(np.array(np.array(axis).astype(int)).astype(axis_type)).drop_duplicates()
    given_labels = np.array(labels, np.int64).astype(label_type)
    found = look_up("sel", "x", index, given_labels, method=method)
    wide = index.astype("i8") if axis_type == "u2" else index  # pandas computes 0 - 1 = 65535
    peer = wide.get_indexer(pd.Index(given_labels), method=method)
    np.testing.assert_array_equal(found, peer, strict=True)


NUMBER_DTYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]
BITS = (7, 8, 16, 24, 32, 53, 63, 64)
BORDERS = [sign * (2**bits + more) for bits in BITS for more in (-1, 0, 1) for sign in (1, -1)]


def around_borders(dtype):
    """Return the numbers of a dtype near the limits of other dtypes, as Python numbers."""
    if np.dtype(dtype).kind != "f":
        bounds = np.iinfo(dtype)
        return [each for each in BORDERS if bounds.min <= each <= bounds.max]
    with np.errstate(over="ignore"):
        floats = np.array([0.0, 0.5, *map(float, BORDERS)]).astype(dtype)
    return floats[np.isfinite(floats)].tolist()


@pytest.mark.parametrize("method", [None, "nearest", "pad", "backfill"])
@pytest.mark.parametrize("dtype", NUMBER_DTYPES)
def test_numbers_of_other_dtypes_are_compared_exactly_or_refused(dtype, method):
    """Refuse lookups that float64 would round: integers from 2**53 on with floats."""
    axis = sorted({*around_borders(dtype)})
    exact = [Fraction(each) for each in axis]
    index = pd.Index(np.array(axis, "f8" if dtype == "f2" else dtype))
    for other, label in [(each, n) for each in NUMBER_DTYPES for n in around_borders(each)]:
        try:
            (found,) = look_up("sel", "x", index, np.array([label], other), method=method)
        except DTypeError:
            assert {np.dtype(each).kind == "f" for each in (dtype, other)} == {True, False}
            assert any(type(n) is int and abs(n) >= 2**53 for n in (*axis, label))
            continue
        at = Fraction(label)
        nearest = min(abs(each - at) for each in exact)
        wanted = {
            None: [n for n, each in enumerate(exact) if each == at],
            "nearest": [n for n, each in enumerate(exact) if abs(each - at) == nearest],
            "pad": [n for n, each in enumerate(exact) if each <= at][-1:],
            "backfill": [n for n, each in enumerate(exact) if each >= at][:1],
        }
        assert found in (wanted[method] or [-1]), (other, label)


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("dtype", [each for each in NUMBER_DTYPES if each != "f2"])
def test_nearest_and_its_hint_end_outside_of_an_axis_of_every_dtype(dtype, step):
    axis = np.array([10, 12, 14], dtype)[::step]
    array = xr.DataArray(np.array([10.0, 12, 14])[::step], {"x": axis}, "x")
    for other in NUMBER_DTYPES:
        labels = np.array([8, 9, 10, 14, 15, 16], other)
        found = array.ndgather.sel(x=labels, method="nearest", missing="nan")
        np.testing.assert_array_equal(found, [np.nan, 10, 10, 14, 14, np.nan])
        for label, is_near in ((6, True), (18, True), (5, False), (19, False)):
            data = array if is_near else array.isel(x=[0, 0, 1, 2])
            with pytest.raises(LabelError, match="more than half a step outside of x") as refused:
                data.ndgather.sel(x=np.array([label], other), method={"x": "nearest"})
            assert ("; write tolerance={'x': 4" in str(refused.value)) == is_near
            assert ("tolerance" in str(refused.value)) == is_near


@pytest.mark.parametrize("missing", ["raise", "nan"])
@pytest.mark.parametrize("scalar", [False, True])
@pytest.mark.parametrize(("dtype", "bits"), [("f4", 24), ("f8", 53)])
def test_sel_never_rounds_an_integer_to_the_floats_of_an_axis(dtype, bits, scalar, missing):
    array = xr.DataArray([0.0, 1.0], {"x": np.array([0.25, 2**bits], dtype)}, "x")
    for label in (2**bits, 2**bits + 1, 2**bits + 2):
        given = {"x": label if scalar else [label], "missing": missing}
        if bits == 53 and not (scalar and missing == "raise"):
            with pytest.raises(DTypeError, match=r"float64 rounds integers above 2\*\*53"):
                array.ndgather.sel(**given)
        elif label == 2**bits:
            assert array.ndgather.sel(**given).item() == 1
        elif missing == "nan":
            assert np.isnan(array.ndgather.sel(**given).item())
        else:
            with pytest.raises((LabelError, DTypeError)):
                array.ndgather.sel(**given)


@pytest.mark.parametrize("other", [2**60, -(2**60)])
def test_floats_that_no_rounded_integer_equals_are_found(other):
    array = xr.DataArray([0.0, 1.0, 2.0], {"x": np.array([other, 1, 2])}, "x")
    assert array.ndgather.sel(x=[1.0, 2.0]).values.tolist() == [1.0, 2.0]
    found = array.ndgather.sel(x=[1.5, np.nan, np.inf, 2.0], missing="nan").values
    np.testing.assert_array_equal(found, [np.nan, np.nan, np.nan, 2.0])
    with pytest.raises(DTypeError):
        array.ndgather.sel(x=[float(other)])


@pytest.mark.parametrize(
    "axis",
    [
        np.linspace(90, -90, 721),
        np.arange(0, 360, 0.25),
        np.sort(np.random.default_rng(0).standard_normal(1000)),
        np.geomspace(1e-12, 1e12, 500),
        np.concatenate([np.linspace(0, 1e-9, 300), [1.0]]),
        np.array([-np.inf, 0.0, 1.0, 2.0]),
        np.array([-1.7e308, 0.0, 1.7e308]),
        np.array([0.0, 5e-324, 1e-323]),
    ],
    ids=["lat", "lon", "random", "geometric", "crowded", "infinite", "longest", "shortest"],
)
@pytest.mark.parametrize("method", [None, "nearest", "pad", "backfill"])
def test_many_labels_at_once(axis, method):
    rng = np.random.default_rng(1)
    finite = axis[np.isfinite(axis)]
    labels = np.concatenate(
        [
            rng.choice(finite, 40_000),
            rng.choice(finite, 60_000) * rng.random(60_000),
            np.nextafter(finite, np.inf),
            np.nextafter(finite, -np.inf),
            [np.nan, finite.min() - 1, finite.max() + 1],
        ]
    )
    index = pd.Index(axis)
    with np.errstate(all="ignore"):
        peer = index.get_indexer(pd.Index(labels), method=method)
    peer[np.isnan(labels)] = -1  # pandas 2 selects one of the ends
    np.testing.assert_array_equal(look_up("sel", "x", index, labels, method=method), peer)


def test_labels_keep_their_shape():
    index = pd.Index([10, 20, 30])
    assert look_up("sel", "x", index, np.array([[30], [10]])).tolist() == [[2], [0]]
    assert look_up("sel", "x", index, np.array(20)).shape == ()


@pytest.mark.parametrize("period", [None, 1000])
def test_tolerances_of_several_blocks_of_labels(period):
    labels = np.arange(100_000) % 1000 + 0.25
    tolerances = np.where(np.arange(100_000) % 7 < np.arange(100_000) / 20_000, 0.25, 0.125)
    index = pd.Index(np.arange(1000.0))
    options = {"method": "nearest", "tolerance": tolerances, "period": period}
    found = look_up("sel", "x", index, labels, **options)
    expected = np.where(tolerances == 0.25, np.arange(100_000) % 1000, -1)
    np.testing.assert_array_equal(found, expected)


# Lookups on an axis that its cache must distinguish, by their difference.
ONE_AXIS = {
    "numbers": (
        pd.Index([0, 90, 180, 270]),
        [
            (np.array([350, 90]), None),
            (np.array([350, 90]), 360),
            (np.array([350, 90]), 300),
            (np.array([350, 90]), 300.5),
            (np.array([350.5, 90.25]), None),
            (np.array([350.5, 90.25]), 360),
            (np.array([350.5, 90.25]), 300),
        ],
    ),
    "times": (
        pd.Index(np.array(["2000-01-01", "2000-01-03", "2000-01-09"], "M8[s]")),
        [
            (np.array(["2000-01-04", "2000-01-10"], f"M8[{unit}]"), period)
            for unit in ("s", "ms", "us", "ns")
            for period in (None, "9 days", "8.5 days")
        ],
    ),
}


@pytest.mark.parametrize("kind", ONE_AXIS)
def test_lookups_are_independent(kind):
    axis, lookups = ONE_AXIS[kind]

    def found(index, lookup):
        labels, period = lookup
        options = {"method": "nearest", "period": period}
        return look_up("sel", "x", index, labels, **options).tolist()

    alone = [found(axis.copy(), lookup) for lookup in lookups]
    assert len({*map(tuple, alone)}) > 1
    for (first, _), (second, expected) in itertools.permutations(
        zip(lookups, alone, strict=True), 2
    ):
        index = axis.copy()
        found(index, first)
        assert found(index, second) == expected, (first, second)


@pytest.mark.parametrize("method", ["nearest", "ffill", "linear"])
@pytest.mark.parametrize("kind", [xr.DataArray, xr.Dataset])
def test_labels_replaced_in_place_are_found(kind, method):
    array = xr.DataArray(np.arange(3.0), {"x": [0.0, 10, 20]}, dims="x", name="v")
    data = array if kind is xr.DataArray else array.to_dataset()
    for labels in ([0.0, 10, 20], [20.0, 10, 0], [5.0, 15, 25]):
        data.coords["x"] = labels
        fresh = data.copy(deep=True).ndgather.sel(x=[10.0], method=method)
        xr.testing.assert_identical(data.ndgather.sel(x=[10.0], method=method), fresh)


def test_strings_and_unsorted_labels_by_pandas():
    assert look_up("sel", "x", pd.Index(["b", "a"]), np.array(["a", "c"])).tolist() == [1, -1]
    assert look_up("sel", "x", pd.Index([3.0, 1.0, 2.0]), np.array([2, 9])).tolist() == [2, -1]


def on_a_ring(axis, label, period, method):
    """Search all images of all labels: the definition."""
    images = [(each + turn * period, i) for i, each in enumerate(axis) for turn in range(-4, 5)]
    rises = len(axis) < 2 or axis[0] < axis[-1] or sorted(axis, reverse=True) != list(axis)
    if method == "pad":
        images = [each for each in images if (each[0] <= label if rises else each[0] >= label)]
    if method == "backfill":
        images = [each for each in images if (each[0] >= label if rises else each[0] <= label)]
    return {i for v, i in images if abs(v - label) == min(abs(each - label) for each, _ in images)}


@given(
    st.lists(st.integers(0, 359), min_size=1, max_size=8, unique=True),
    st.integers(-360, 360),
    st.lists(st.integers(-720, 720), min_size=1, max_size=8),
    st.sampled_from(["nearest", "pad", "backfill"]),
    st.sampled_from([np.int64, np.float64]),
    st.sampled_from(["rising", "falling", "any"]),
)
def test_labels_modulo_a_period(axis, shift, labels, method, dtype, order):
    if order != "any":
        axis = sorted(axis, reverse=order == "falling")
    axis = [each + shift for each in axis]
    index = pd.Index(np.array(axis, dtype))
    found = look_up("sel", "lon", index, np.array(labels, dtype), method=method, period=360)
    for each, position in zip(labels, found, strict=True):
        assert position in on_a_ring(axis, each, 360, method)
    exact = look_up("sel", "lon", index, np.array(labels, dtype), period=360)
    for each, position in zip(labels, exact, strict=True):
        same = [i for i, label in enumerate(axis) if (label - each) % 360 == 0]
        assert [position] == (same or [-1])


def test_both_ends_of_a_closed_ring_are_labels():
    index = pd.Index(np.arange(-180.0, 181.0, 90.0))
    labels = np.array([-180.0, 180.0, 540.0, 170.0, 190.0, -190.0])
    found = look_up("sel", "lon", index, labels, method="nearest", period=360)
    assert found[:2].tolist() == [0, 4]
    assert set(found[2:].tolist()) <= {0, 4}


def test_times_modulo_a_year():
    index = pd.Index(np.array(["2000-01-16", "2000-06-16", "2000-12-16"], "M8[ns]"))
    labels = np.array(["2001-01-01", "1999-06-20"], "M8[ns]")
    found = look_up("sel", "time", index, labels, method="nearest", period="365 days")
    assert found.tolist() == [0, 1]


@pytest.mark.parametrize("method", [None, "nearest", "pad", "backfill"])
def test_unused_duplicate_labels_do_not_matter(method):
    index = pd.Index([1.0, 2, 2, 5, 8, 8, 9])
    found = look_up("sel", "x", index, np.array([[5.0, 9], [1, 9]]), method=method)
    assert found.tolist() == [[3, 6], [0, 6]]
    assert look_up("sel", "x", index, np.array([7.0, 5])).tolist() == [-1, 3]
    names = pd.Index(["b", "a", "b", "c"])
    assert look_up("sel", "x", names, np.array(["c", "a", "d"])).tolist() == [3, 1, -1]


@pytest.mark.parametrize(
    ("index", "labels", "options", "error", "text"),
    [
        (pd.Index([1, 2, 2]), [1, 2], {}, LabelError, "x = 2 is duplicated"),
        (pd.Index([1, 2, 2]), [3], {"method": "nearest"}, LabelError, "x = 2 is duplicated"),
        (
            pd.Index([1, 2, math.nan]),
            [1],
            {"method": "nearest"},
            LabelError,
            "labels of x contain NaN",
        ),
        (pd.Index([1, math.nan]), [1], {"period": 360}, LabelError, "labels of x contain NaN"),
        (pd.Index([1, 3, 2]), [1], {"method": "nearest"}, LabelError, ".sortby('x')"),
        (pd.Index([1.0, 2]), [1], {"method": "nearest", "tolerance": "1h"}, DTypeError, "a number"),
        (
            pd.Index(np.array([1, 2], "M8[s]")),
            np.array([1], "M8[s]"),
            {"method": "nearest", "tolerance": 0.5j},
            DTypeError,
            "a duration",
        ),
        (
            pd.Index([1.0, 2]),
            [1.0],
            {"method": "nearest", "tolerance": [1, 2, 3]},
            ShapeError,
            "3 entries for 1 labels",
        ),
        (pd.Index([1, 400]), [1], {"period": 360}, AttributeValueError, "1..400"),
        (pd.Index([1, 2]), [1], {"period": -1}, AttributeValueError, "period['x'] = -1"),
        (pd.Index([1, 2]), [1], {"period": "far"}, AttributeValueError, "period['x'] = 'far'"),
        (pd.Index(["a"]), ["a"], {"period": 360}, DTypeError, "numbers and times"),
        (pd.Index(["a", "b"]), [1.5], {"method": "nearest"}, DTypeError, "cannot be looked up"),
    ],
)
def test_invalid_lookups_raise(index, labels, options, error, text):
    with pytest.raises(error) as caught:
        look_up("sel", "x", index, np.asarray(labels), **options)
    assert text in str(caught.value)
    assert str(caught.value).startswith("sel: ")
