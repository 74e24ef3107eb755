"""Selections against xarray: values, coordinates, names, dimensions and attributes."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import ndgather.arrays.xarray  # noqa: F401 - registers `.ndgather`
from ndgather.errors import AttributeValueError, LabelError, NdgatherError, ShapeError
from tests.arrays.xarray_strategies import dataset, isel_indexers

SOME = settings(max_examples=settings().max_examples // 3)  # an example creates some 20 arrays
DATA = dataset()
FALLING = dataset(descending=True)


def outcome(select, *arguments, **options):
    try:
        return select(*arguments, **options)
    except Exception as error:
        return error


def assert_same(ours, theirs):
    if isinstance(theirs, Exception):
        assert isinstance(ours, NdgatherError), (ours, theirs)
    else:
        assert not isinstance(ours, Exception), ours
        xr.testing.assert_identical(ours, theirs)
        of = (ours.variables, theirs.variables) if isinstance(ours, xr.Dataset) else ({}, {})
        for name, each in of[1].items():
            assert of[0][name].dims == each.dims
            assert of[0][name].dtype == each.dtype
        assert set(ours.xindexes) == set(theirs.xindexes)


@SOME
@given(isel_indexers())
def test_isel_of_a_dataset(indexers):
    assert_same(outcome(DATA.ndgather.isel, indexers), outcome(DATA.isel, indexers))


@SOME
@given(isel_indexers())
def test_isel_of_an_array(indexers):
    array = DATA.t2m.transpose("lat", "time", "lon")
    assert_same(outcome(array.ndgather.isel, indexers), outcome(array.isel, indexers))


@SOME
@given(isel_indexers(), st.sampled_from([DATA, FALLING]))
def test_sel_of_labels(indexers, data):
    labels = {}
    for name, each in indexers.items():
        if isinstance(each, slice):
            start, stop = data[name].values[each.start], data[name].values[each.stop]
            labels[name] = slice(start, stop)
        elif isinstance(each, xr.DataArray):
            labels[name] = each.copy(data=data[name].values[each.values])
        else:
            labels[name] = data[name].values[each]
    assert_same(outcome(data.ndgather.sel, labels), outcome(data.sel, labels))


@SOME
@given(
    isel_indexers({"lat": 5, "lon": 4}, lambda _: st.floats(-80, 280, width=16) | st.just(31.0)),
    st.sampled_from(["nearest", "pad", "backfill"]),
    st.sampled_from([None, 20, 500]),
    st.sampled_from([DATA, FALLING]),
)
def test_sel_by_a_method(indexers, method, tolerance, data):
    labels = {name: each for name, each in indexers.items() if not isinstance(each, slice)}
    options = {"method": method, "tolerance": tolerance}
    ours = outcome(data.ndgather.sel, labels, **options)
    if method == "nearest" and tolerance is None and any_far_outside(data, labels):
        assert isinstance(ours, LabelError)
    else:
        assert_same(ours, outcome(data.sel, labels, **options))


def any_far_outside(data, labels):
    """Return whether a label is more than half a step outside of its axis: xarray allows those."""
    for name, each in labels.items():
        axis = np.sort(data[name].values).astype(float)
        values = np.ravel(getattr(each, "values", each))
        below, above = (axis[1] - axis[0]) / 2, (axis[-1] - axis[-2]) / 2
        if np.any((values < axis[0] - below) | (values > axis[-1] + above)):
            return True
    return False


def test_empty_selections():
    array = xr.DataArray(np.arange(3.0), dims="x", name="a")
    xr.testing.assert_identical(array.ndgather.isel(), array.isel())
    xr.testing.assert_identical(array.ndgather.sel({}), array.sel({}))


POINTS = xr.DataArray([-60.0, 45.0, 0.0], dims="p", coords={"p": [10, 20, 30]})
WITH_A_MISSING_POINT = DATA.ndgather.sel(lat=POINTS, missing="nan")


def test_missing_labels_affect_all_variables_of_the_axis():
    found = DATA.ndgather.isel(lat=POINTS.copy(data=[0, 0, 2]))
    for name in ("t2m", "mask", "name", "object", "height", "lat"):
        ours, whole = WITH_A_MISSING_POINT[name], found[name]
        assert ours.dims == whole.dims
        assert ours.isel(p=1).isnull().all()
        kept = ours.isel(p=[0, 2])
        np.testing.assert_array_equal(kept.values, whole.isel(p=[0, 2]).values.astype(ours.dtype))
    for name in ("level", "seen", "count", "lon", "time", "run"):
        xr.testing.assert_identical(
            WITH_A_MISSING_POINT[name].drop_vars("p", errors="ignore"),
            found[name].drop_vars("p", errors="ignore"),
        )
    assert WITH_A_MISSING_POINT.attrs == DATA.attrs
    assert WITH_A_MISSING_POINT.t2m.attrs == DATA.t2m.attrs


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "u2", "i4", "i8", "f4", "f8", "c8", "M8[ns]", "m8[s]", "U1", "O"]
)
def test_missing_values_have_the_dtypes_of_reindex(dtype):
    values = np.array([1, 2, 3]).astype(dtype)
    array = xr.DataArray(values, dims="x", coords={"x": [1.0, 2.0, 3.0]})
    ours = array.ndgather.sel(x=[1.0, 9.0, 3.0], missing="nan")
    theirs = array.reindex(x=[1.0, 9.0, 3.0])
    assert ours.dtype == theirs.dtype
    xr.testing.assert_identical(ours.drop_vars("x"), theirs.drop_vars("x"))
    every = array.ndgather.sel(x=[3.0, 1.0], missing="nan")
    xr.testing.assert_identical(every, array.sel(x=[3.0, 1.0]))


def test_missing_labels_in_scalars_and_lists():
    one = DATA.ndgather.sel(lat=45.0, missing="nan")
    assert one.t2m.dims == ("time", "lon")
    assert one.t2m.isnull().all()
    assert np.isnan(one.lat)
    grid = DATA.ndgather.sel(lat=[45.0, 0.0], lon=[90.0, 91.0], missing="nan")
    assert grid.t2m.dims == ("time", "lat", "lon")
    np.testing.assert_array_equal(grid.lat, [np.nan, 0.0])
    np.testing.assert_array_equal(grid.t2m.isnull().isel(time=0), [[True, True], [False, True]])
    assert grid.t2m.sel(time="2001-01-02")[1, 0] == DATA.t2m.sel(time="2001-01-02", lat=0, lon=90)


def test_slices_with_a_method():
    times = slice("2001-01-02", "2001-01-05")
    ours = DATA.ndgather.sel(time=times, lat=POINTS, method="nearest")
    xr.testing.assert_identical(ours, DATA.sel(time=times).sel(lat=POINTS, method="nearest"))


def test_coordinates_that_are_not_dimensions():
    unique = DATA.assign_coords(number=("time", [5, 3, 4]))
    labels = xr.DataArray([4, 5], dims="p")
    found = unique.ndgather.sel(number=labels)
    xr.testing.assert_identical(found, unique.isel(time=xr.DataArray([2, 0], dims="p")))


def test_dask_arrays_stay_lazy():
    lazy = DATA.drop_vars("object").chunk({"lat": 2})
    ours = lazy.ndgather.sel(lat=POINTS.copy(data=[31.0, 0.0, 60.0]), method="nearest")
    assert ours.t2m.chunks is not None
    theirs = lazy.sel(lat=POINTS.copy(data=[31.0, 0.0, 60.0]), method="nearest")
    xr.testing.assert_identical(ours.compute(), theirs.compute())
    linear = lazy.t2m.drop_vars("month").ndgather.sel(lat=[15.0], method="linear")
    assert linear.chunks is not None
    xr.testing.assert_allclose(linear.compute(), DATA.t2m.drop_vars("month").interp(lat=[15.0]))


def test_xarray_handles_multi_indexes():
    stacked = DATA[["t2m"]].drop_vars(["height", "month", "run"]).stack(place=("lat", "lon"))
    points = xr.DataArray([0, 2], dims="p")
    times = xr.DataArray(DATA.time.values[[2, 0]], dims="p")
    ours = stacked.ndgather.sel(place=(0.0, 90.0), time=times)
    xr.testing.assert_identical(ours, stacked.sel(place=(0.0, 90.0), time=times))
    ours = stacked.ndgather.sel(lat=31.0, time=times)
    xr.testing.assert_identical(ours, stacked.sel(lat=31.0).sel(time=times))
    xr.testing.assert_identical(stacked.ndgather.isel(place=points), stacked.isel(place=points))
    with pytest.raises(AttributeValueError, match="PandasMultiIndex"):
        stacked.ndgather.sel(place=(0.0, 95.0), missing="nan")


def test_date_strings():
    for label in ("2001-01-02", "2001-01", ["2001-01-02", "2001-01-05"]):
        xr.testing.assert_identical(DATA.ndgather.sel(time=label), DATA.sel(time=label))
    near = DATA.ndgather.sel(time=["2001-01-03T06"], method="nearest", tolerance="2 days")
    xr.testing.assert_identical(near, DATA.isel(time=[1]))


def test_dimensions_named_like_an_option():
    data = xr.DataArray([1, 2, 3], dims="method", coords={"method": [10, 20, 30]})
    xr.testing.assert_identical(data.ndgather.sel({"method": [30]}), data.sel({"method": [30]}))


def test_axes_of_categories_and_of_intervals():
    lat = DATA.t2m.drop_vars(["height"])
    categories = lat.assign_coords(lat=pd.CategoricalIndex(list("abcde")))
    intervals = lat.assign_coords(lat=pd.IntervalIndex.from_breaks(np.arange(6.0)))
    for data, labels, other in ((categories, ["b", "a", "b"], "z"), (intervals, [0.5, 4.25], 9.0)):
        points = xr.DataArray(labels, dims="p")
        xr.testing.assert_identical(data.ndgather.sel(lat=points), data.sel(lat=points))
        with pytest.raises(LabelError, match=f"lat.0. = {other}"):
            data.ndgather.sel(lat=[other])


def test_synonyms_of_methods():
    for name in ("ffill", "bfill"):
        ours = DATA.ndgather.sel(lat=POINTS, method=name)
        xr.testing.assert_identical(ours, DATA.sel(lat=POINTS, method=name))


def test_tuples_of_dimensions_and_data():
    places = ("p", [3, 0])
    xr.testing.assert_identical(DATA.ndgather.isel(lat=places), DATA.isel(lat=places))
    bare = DATA.drop_vars("lat")
    xr.testing.assert_identical(bare.ndgather.sel(lat=places), bare.sel(lat=places))
    field = DATA.t2m.drop_vars(["height", "month"])
    labels = ("p", [15.0, -45.0])
    ours = field.ndgather.sel(lat=labels, method="linear")
    xr.testing.assert_allclose(ours, field.interp(lat=labels))
    ours = DATA.ndgather.sel(lat=("p", [31.0, -60.0]))  # xarray's `sel` does not support it
    xr.testing.assert_identical(ours, DATA.isel(lat=places))


@pytest.mark.parametrize("lazy", [False, True])
def test_two_dimensional_coordinates(tmp_path, lazy):
    rng = np.random.default_rng(0)
    coords = {"lat": (("y", "x"), rng.random((4, 5))), "lon": (("y", "x"), rng.random((4, 5)))}
    data = xr.Dataset({"t": (("time", "y", "x"), rng.random((3, 4, 5)))}, coords)
    if lazy:
        data.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
        data = xr.open_dataset(tmp_path / "a.nc", engine="h5netcdf", cache=False)
    opened = data
    points = {"lat": ("p", [0.1, 0.9, 0.5]), "lon": ("p", [0.2, 0.3, 0.5])}
    points = {name: xr.DataArray(labels, dims=dim) for name, (dim, labels) in points.items()}
    with pytest.raises(ShapeError, match=r"data.set_xindex\(\['lat', 'lon'\], xarray.indexes.NDPo"):
        data.ndgather.sel(points, method="nearest")
    data = data.set_xindex(["lat", "lon"], xr.indexes.NDPointIndex)
    expected = data.sel(points, method="nearest")
    xr.testing.assert_identical(data.ndgather.sel(points, method="nearest"), expected)
    expected = expected.isel(time=[2, 0])
    ours = data.isel(time=[2, 0]).ndgather.sel(points, method="nearest")
    xr.testing.assert_identical(ours, expected)
    with pytest.raises(AttributeValueError, match="only supports selection with method='nearest'"):
        data.ndgather.sel(points)
    opened.close()


def grid(lon, units="degrees_east"):
    """Return an array whose values equal its longitudes."""
    lon = np.asarray(lon, float)
    return xr.DataArray(lon, {"lon": ("lon", lon, {"units": units})}, ["lon"])


@pytest.mark.parametrize("method", [None, "nearest", "pad", "backfill", "linear"])
@pytest.mark.parametrize("lon", [np.arange(0, 360, 10.0), np.arange(170, -190, -10.0)])
def test_longitudes_are_cyclic_by_their_units(lon, method):
    data = grid(lon)
    asked = xr.DataArray([-80.0, -160.0, -20.0, 350.0, 0.0], dims="p")
    found = data.ndgather.sel(lon=asked, method=method)
    np.testing.assert_array_equal(found % 360, asked % 360)
    # As a string, the units have the same effect as a period.
    expected = grid(lon, "").ndgather.sel(lon=asked, method=method, period={"lon": 360})
    np.testing.assert_array_equal(found, expected)


def test_nearest_longitude_across_the_seam():
    data = grid(np.arange(360.0))
    found = data.ndgather.sel(lon=("p", [359.7, -0.6, -78.5]), method="nearest")
    assert found.values.tolist() == [0.0, 359.0, 282.0]
    np.testing.assert_allclose(data.ndgather.sel(lon=[-78.5], method="linear"), 281.5)
    with pytest.raises(LabelError, match=r"sel: lon\[1\] = 1000.0 is not a longitude"):
        data.ndgather.sel(lon=[0.0, 1000.0], method="nearest")


@pytest.mark.parametrize("first", [74.0, 20.0])
def test_axes_beyond_360_degrees(first):
    data = grid(np.arange(first, first + 360.0, 2.0))
    last = data.lon.values[-1]
    for label, found in ((last, last), (first, first), (last - 360, last), (first - 0.4, first)):
        assert data.ndgather.sel(lon=[label], method="nearest").values.tolist() == [found]


@pytest.mark.parametrize("labels", [[0.0, 29.9], [0.0, -14.9], [0.0, 30.1], [0.0, -15.1]])
def test_nearest_labels_are_at_most_half_a_step_outside(labels):
    data = xr.DataArray(np.arange(3.0), {"x": [-10.0, 0.0, 20.0]}, ["x"])
    values = np.zeros(2)
    if labels[1] in (29.9, -14.9):
        at = 2 if labels[1] > 0 else 0
        assert data.ndgather.sel(x=labels, method="nearest").values.tolist() == [1.0, at]
        return
    for call in (
        lambda: data.ndgather.sel(x=labels, method="nearest"),
        lambda: data.ndgather.windows(x=labels, size=1),
        lambda: data.ndgather.add_at(values, x=labels, method="nearest"),
    ):
        with pytest.raises(LabelError, match=r"x\[1\] = .* is more than half a step outside of x"):
            call()
    found = data.ndgather.sel(x=labels, method="nearest", missing="nan")
    np.testing.assert_array_equal(found, [1.0, np.nan])
    assert data.ndgather.sel(x=labels, method="nearest", tolerance=11).size == 2


def test_windows_and_sums_are_cyclic_by_the_units():
    data = grid(np.arange(0, 360, 90.0))
    assert data.ndgather.windows(lon=[-10.0], size=3).values.tolist() == [[270.0, 0.0, 90.0]]
    assert data.ndgather.add_at(1.0, lon=[-90.0]).values.tolist() == [0, 90, 180, 271]


def test_reassigned_labels_are_found():
    data = xr.DataArray(np.arange(3.0), {"x": [1.0, 2.0, 3.0]}, ["x"])
    options = {"method": "nearest", "period": {"x": 100}}
    assert data.ndgather.sel(x=[2.0], **options).item() == 1
    data["x"] = [2.0, 4.0, 6.0]
    assert data.ndgather.sel(x=[2.0], **options).item() == 0
