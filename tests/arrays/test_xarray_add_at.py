"""`add_at` against a plain loop over the points."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import ndgather.arrays.xarray  # noqa: F401 - registers `.ndgather`
from ndgather.errors import AttributeValueError, DTypeError, LabelError, ShapeError
from tests.arrays.xarray_strategies import dataset

DATA = dataset().t2m
LAT, LON = DATA.lat.values, DATA.lon.values
SOME = settings(max_examples=settings().max_examples // 3)


@SOME
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=6), st.data())
def test_add_at_matches_a_loop_over_points(points, data):
    i = np.array([each[0] for each in points], int)
    j = np.array([each[1] for each in points], int)
    values = np.arange(3.0 * len(points)).reshape(len(points), 3) + 1
    expected = DATA.values.copy()
    for p, (row, column) in enumerate(points):
        expected[:, row, column] += values[p]
    labels = {"lat": xr.DataArray(LAT[i], dims="p"), "lon": xr.DataArray(LON[j], dims="p")}
    order = data.draw(st.permutations(["time", "lat", "lon"]))
    array = DATA.transpose(*order)
    given_values = xr.DataArray(values, dims=("p", "time"))
    found = array.ndgather.add_at(given_values, labels)
    xr.testing.assert_identical(found, array.copy(data=DATA.copy(data=expected).transpose(*order)))
    dims = array.ndgather.sel(labels).dims
    plain = array.ndgather.add_at(given_values.transpose(*dims).values, labels)
    xr.testing.assert_identical(plain, found)


def test_values_are_broadcast():
    lat = xr.DataArray([0.0, 0.0, 31.0], dims="p")
    found = DATA.ndgather.add_at(1, lat=lat)
    np.testing.assert_array_equal((found - DATA).isel(time=0, lon=0), [0, 0, 2, 1, 0])
    weights = xr.DataArray([1.0, 2.0, 4.0], dims="p")
    found = DATA.ndgather.add_at(weights, lat=lat, lon=90.0)
    np.testing.assert_array_equal((found - DATA).isel(time=1).sum("lat"), [0, 7, 0, 0])


def test_missing_labels():
    lat = xr.DataArray([0.0, 10.0, np.nan, 31.0], dims="p")
    values = xr.DataArray([1.0, 2.0, 4.0, 8.0], dims="p")
    found = DATA.ndgather.add_at(values, lat=lat, missing="drop")
    np.testing.assert_array_equal((found - DATA).isel(time=0, lon=0), [0, 0, 1, 8, 0])
    near = DATA.ndgather.add_at(values, lat=lat, method="nearest", tolerance=15, missing="drop")
    np.testing.assert_array_equal((near - DATA).isel(time=0, lon=0), [0, 0, 3, 8, 0])
    with pytest.raises(LabelError, match=r"add_at: lat\[1\] = 10.0"):
        DATA.ndgather.add_at(values, lat=lat)
    lon = xr.DataArray([LON[1], LON[1], LON[2], 1.0], dims="p")  # each has at least one of the two
    both = DATA.ndgather.add_at(values, lat=lat, lon=lon, missing="drop")
    expected = np.zeros(DATA.shape[1:])
    expected[LAT.tolist().index(0.0), 1] = 1
    np.testing.assert_array_equal((both - DATA).isel(time=0).transpose("lat", "lon"), expected)


def test_labels_across_the_seam_of_a_grid():
    found = DATA.ndgather.add_at(
        1.0, lat=[0.0, 1.0], lon=[350.0, -90.0], method="nearest", period={"lon": 360}
    )
    added = (found - DATA).isel(time=2)
    np.testing.assert_array_equal(added.sel(lat=0.0), [2, 0, 0, 2])
    assert added.sum() == 4


def test_points_along_a_dimension_of_the_array():
    track = xr.DataArray([0.0, 31.0, 60.0], dims="time")
    found = DATA.ndgather.add_at(1.0, lat=track)
    added = (found - DATA).isel(lon=0)
    np.testing.assert_array_equal(added, [[0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]])


POINTS = {"lat": xr.DataArray([0.0, 31.0], dims="p")}
REFUSED = {
    "dataset": (
        lambda: dataset().ndgather.add_at(1, POINTS),
        DTypeError,
        "Dataset is not an array",
    ),
    "slice": (lambda: DATA.ndgather.add_at(1.0, lat=slice(0, 1)), DTypeError, "is a slice"),
    "sizes": (
        lambda: DATA.ndgather.add_at(xr.DataArray([1.0], dims="p"), POINTS),
        ShapeError,
        "values.sizes = {'p': 1}",
    ),
    "dims": (
        lambda: DATA.ndgather.add_at(xr.DataArray([1.0], dims="q"), POINTS),
        ShapeError,
        "values.sizes = {'q': 1}",
    ),
    "rank": (lambda: DATA.ndgather.add_at(np.zeros(2), POINTS), ShapeError, "add_at: values"),
    "type": (
        lambda: DATA.ndgather.add_at(xr.DataArray([1, 2], dims="p"), POINTS),
        DTypeError,
        "add_at: values.dtype = int64",
    ),
    "ragged": (
        lambda: DATA.ndgather.add_at([[1], [1, 2]], POINTS),
        DTypeError,
        "add_at: values = list object is not an array",
    ),
    "linear": (
        lambda: DATA.ndgather.add_at(1.0, POINTS, method="linear"),
        AttributeValueError,
        "method = 'linear'",
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), REFUSED.values(), ids=REFUSED)
def test_refusals(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)
