"""Linear interpolation against `interp`, and against plain arithmetic across the seam."""

import tracemalloc
import warnings

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import ndgather.arrays.xarray  # noqa: F401 - registers `.ndgather`
from ndgather.errors import AttributeValueError, DTypeError, LabelError
from tests.arrays.xarray_strategies import dataset, isel_indexers

SOME = settings(max_examples=settings().max_examples // 3)


def gaps():
    data = dataset().drop_vars(["object", "mask", "name", "month"])
    return data.assign(
        t2m=data.t2m.where(data.t2m % 11 != 5),
        level=data.level,
        single=data.t2m.isel(time=0, drop=True).astype("f4"),
        profile=("lat", [1.0, np.nan, 3.0, 5.0, 9.0]),
        wave=("lon", np.array([1, 2j, np.nan, 4])),
        seen=data.seen.where(data.seen.astype(int) != 2),
    )


DATA = gaps()
WHOLE = DATA.drop_vars("seen").fillna(0.0).assign(seen=("time", np.array([1, 3, 9], "m8[ns]")))


def assert_same(ours, theirs):
    xr.testing.assert_allclose(ours, theirs)
    assert ours.attrs == theirs.attrs
    assert set(ours.xindexes) == set(theirs.xindexes)
    variables = theirs.variables if isinstance(theirs, xr.Dataset) else theirs.coords
    for name, each in variables.items():
        assert ours[name].dims == each.dims, name
        assert ours[name].dtype == each.dtype, name
        assert ours[name].attrs == each.attrs, name


def interp(data, labels):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return data.interp(labels)


PLACES = st.one_of(
    st.sampled_from([-60.0, -30.0, 0.0, 31.0, 60.0, 90.0, 180.0]), st.floats(-70, 280, width=16)
)
WITHOUT_SLICES = isel_indexers({"lat": 5, "lon": 4}, lambda _: PLACES).filter(
    lambda labels: (
        not any(isinstance(each, slice) or np.size(each) == 0 for each in labels.values())
    )
)


ORDERS = {"rising": slice(None), "falling": slice(None, None, -1), "unsorted": [2, 0, 1, 4, 3]}


@SOME
@given(
    WITHOUT_SLICES,
    st.sampled_from(list(ORDERS)),
    st.booleans(),
    st.sampled_from([None, 1, 500, 2000, 8000]),
)
def test_linear_matches_interp(labels, order, with_gaps, memory):
    data = (DATA if with_gaps else WHOLE).isel(lat=ORDERS[order])
    off_axis = 0.01 if with_gaps else 0.0
    labels = {name: _of_floats(each) + off_axis for name, each in labels.items()}
    try:
        found = data.ndgather.sel(labels, method="linear", memory=memory)
    except LabelError as error:  # labels outside that fit the other axis
        assert "swapped?" in str(error)  # noqa: PT017
        return
    assert_same(found, interp(data, labels))


def _of_floats(labels):
    if isinstance(labels, xr.DataArray):
        return labels.astype(float)
    return np.asarray(labels, float) if isinstance(labels, list) else labels


def test_missing_neighbors_do_not_affect_values_at_labels():
    profile = DATA.profile.ndgather.sel(lat=[-60.0, -45.0, 0.0], method="linear")
    np.testing.assert_array_equal(profile, [1.0, np.nan, 3.0])


def test_times():
    times = xr.DataArray(
        np.array(["2001-01-01T12", "2001-01-03", "1999-01-01"], "M8[ns]"), dims="p"
    )
    lat = xr.DataArray([10.0, -45.0, 0.0], dims="p", attrs={"units": "degrees"})
    labels = {"time": times, "lat": lat}
    data = DATA.drop_vars("seen")
    assert_same(data.ndgather.sel(labels, method="linear"), interp(data, labels))
    assert_same(data.ndgather.sel(time=times, method="linear"), interp(data, {"time": times}))
    text = data.ndgather.sel(time=["2001-01-04"], method="linear")
    assert_same(text, interp(data, {"time": ["2001-01-04"]}))


def test_durations():
    days = xr.DataArray([0.0, 1.0, 3.0], dims="day")
    spent = xr.DataArray(
        np.array([2, 4, "NaT"], "m8[s]").astype("m8[ns]"), dims="day", coords={"day": days}
    )
    ours = spent.to_dataset(name="a").ndgather.sel(day=[0.5, 2.0, 9.0], method="linear").a
    expected = np.array([3, "NaT", "NaT"], "m8[s]").astype("m8[ns]")
    np.testing.assert_array_equal(ours, expected, strict=True)


def test_other_dtypes_use_the_nearest_label_or_are_dropped():
    data = dataset()[["mask", "name"]]
    ours = data.ndgather.sel(lat=[20.0, 70.0], lon=[80.0], method="linear")
    nearest = data.sel(lat=[20.0, 70.0], lon=[80.0], method="nearest")
    np.testing.assert_array_equal(ours.mask, nearest.mask, strict=True)
    np.testing.assert_array_equal(ours.name, nearest.name, strict=True)
    points = data.ndgather.sel(lat=xr.DataArray([20.0], dims="p"), method="linear")
    assert not points.data_vars


@pytest.mark.parametrize("labels", [[0.5, 1.5], [0.25, 1.75], [0.75, 1.25]])
@pytest.mark.parametrize("dtype", [object, "U1", "S1"])
def test_text_half_way_is_that_of_the_upper_label(labels, dtype):
    words, numbers = np.array(["a", "b", "c"], dtype), [1.0, 2.0, 3.0]
    data = xr.Dataset({"word": ("x", words), "v": ("x", numbers)}, {"x": [0.0, 1.0, 2.0]})
    ours = data.ndgather.sel(x=labels, method="linear")
    expected = words[[int(label + 0.5) for label in labels]]
    np.testing.assert_array_equal(ours.word.values, expected)


def test_single_arrays():
    labels = {"lat": xr.DataArray([[10.0], [20.0]], dims=("p", "q")), "lon": 33.0}
    for array in (DATA.t2m, DATA.single, DATA.profile):
        own = {name: each for name, each in labels.items() if name in array.dims}
        assert_same(array.ndgather.sel(own, method="linear"), interp(array, own))


def test_labels_along_a_dimension_of_the_array_itself():
    track = xr.DataArray([10.0, 20.0, 30.0], dims="time", coords={"time": DATA.time})
    ours = DATA[["t2m"]].ndgather.sel(lat=track, method="linear")
    assert_same(ours, interp(DATA[["t2m"]], {"lat": track}))


def test_dimensions_without_labels():
    data = xr.DataArray([[1.0, 3.0], [5.0, 9.0]], dims=("x", "y"))
    labels = {"x": xr.DataArray([0.5], dims="p"), "y": xr.DataArray([0.25], dims="p")}
    assert_same(data.ndgather.sel(labels, method="linear"), interp(data, labels))


def test_across_the_seam():
    lon = xr.DataArray([300.0, -45.0, 359.0, 360.0, 270.0], dims="p")
    row = DATA.t2m.isel(time=0, lat=1, drop=True)
    row = row.fillna(0.0)
    ours = row.ndgather.sel(lon=lon, method="linear", period={"lon": 360})
    last, first = row.values[3], row.values[0]
    expected = [last + (first - last) * share for share in (1 / 3, 0.5, 89 / 90, 1.0, 0.0)]
    np.testing.assert_allclose(ours, expected)
    np.testing.assert_array_equal(ours.lon, lon)


RINGS = {
    "a wide step inside": ([0, 90, 270], [45, 180, 315, -45], [45, 180, 135, 135]),
    "a region with a wide step": (
        [10, 20, 60],
        [15, 40, 60, 61, 0, 200],
        [15, 40, 60, *[None] * 3],
    ),
    "that falls": ([270, 90, 0], [45, 180, 315], [45, 180, 135]),
    "a region across the seam": (
        [350, 355, 0, 5],
        [352, 358, 4, 6, 180],
        [352, 142, 4, *[None] * 2],
    ),
    "a region across the seam, sorted": ([0, 5, 350], [2, 355, 180], [2, 175, None]),
    "two": ([0, 90], [45, 91, -1], [45, None, None]),
    "one": ([10], [10, 370, 20], [10, 10, None]),
    "both ends": ([0, 180, 360], [90, 270, 361, -90], [90, 270, 1, 270]),
}


@pytest.mark.parametrize(("axis", "labels", "expected"), RINGS.values(), ids=RINGS)
def test_only_the_gap_of_a_region_is_not_interpolated(axis, labels, expected):
    """An axis is interpolated like in xarray within its range, and across the seam of a ring."""
    row = xr.DataArray(np.array(axis, float), {"lon": np.array(axis, float)})
    found = row.ndgather.sel(lon=labels, method="linear", period={"lon": 360})
    np.testing.assert_allclose(found, np.array(expected, float))


def test_stored_arrays(tmp_path):
    data = DATA[["t2m", "level", "single"]]
    data.to_zarr(tmp_path / "z", encoding={"t2m": {"chunks": (1, 2, 2)}}, consolidated=False)
    lazy = xr.open_zarr(tmp_path / "z", chunks=None, consolidated=False)
    labels = {
        "lat": xr.DataArray([10.0, -45.0, 60.0], dims="p"),
        "lon": xr.DataArray([10.0, 45.0, 260.0], dims="p"),
    }
    assert_same(lazy.ndgather.sel(labels, method="linear"), interp(data, labels))


REFUSED = {
    "text": (lambda: DATA.ndgather.sel(lat=["a"], method="linear"), DTypeError, "lat.dtype = "),
    "name": (
        lambda: dataset()["name"].ndgather.sel(lat=[1.0], method="linear"),
        DTypeError,
        "'linear'",
    ),
    "tolerance": (
        lambda: DATA.ndgather.sel(lat=[1.0], method="linear", tolerance=1),
        AttributeValueError,
        "tolerance is given",
    ),
    "repeated": (
        lambda: DATA.isel(lat=[0, 0]).ndgather.sel(lat=[1.0], method="linear"),
        LabelError,
        "is duplicated",
    ),
    "NaN on the axis": (
        lambda: DATA.reindex(lat=[1.0, np.nan]).ndgather.sel(lat=[1.0], method="linear"),
        LabelError,
        "labels of lat contain NaN",
    ),
    "empty": (
        lambda: DATA.isel(lat=[]).ndgather.sel(lat=[1.0], method="linear"),
        LabelError,
        "no labels",
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), REFUSED.values(), ids=REFUSED)
def test_refusals(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)


SERIES = (250, 30, 40)  # 2 MiB, and 4 MB for the series of 2,000 points
STACKS = {
    "cubes": (25, 15, 20),
    "series": (250, 5, 5),
    "maps": (5, 30, 40),
    "shared": (250, 30, 4),
}


@pytest.mark.parametrize("chunks", STACKS)
@pytest.mark.parametrize("format", ["zarr", "h5netcdf"])
def test_series_stay_within_memory(format, chunks, tmp_path):
    """Each chunk is read once if blocks end between chunks; otherwise, points are sorted."""
    rng = np.random.default_rng(0)
    axes = {"time": np.arange(250), "lat": np.arange(30.0), "lon": np.arange(40.0)}
    data = xr.DataArray(rng.random(SERIES), axes, name="a").to_dataset()
    count, options = 2000, {}
    if format == "zarr":
        options = {"consolidated": False}
        data.to_zarr(tmp_path / "a", encoding={"a": {"chunks": STACKS[chunks]}}, **options)
    else:
        sizes = {"a": {"chunksizes": STACKS[chunks]}}
        data.to_netcdf(tmp_path / "a", engine="h5netcdf", encoding=sizes)
    points = {
        "lat": xr.DataArray(rng.uniform(0, 29, count), dims="p"),
        "lon": xr.DataArray(rng.uniform(0, 39, count), dims="p"),
    }
    read = []
    with xr.open_dataset(
        tmp_path / "a", engine=format, chunks=None, cache=False, **options
    ) as stored:
        stored.a.ndgather.sel(lat=[0.5], method="linear")  # imports modules
        tracemalloc.start()
        try:
            found = stored.a.ndgather.sel(
                points,
                method="linear",
                memory="2 MiB",
                progress=lambda done, total: read.append(total) if done == total else None,
            )
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert found.nbytes == 8 * 250 * count
    assert most - found.nbytes < 3 * 2**20
    xr.testing.assert_allclose(found, data.a.interp(points))
    all_chunks = np.prod([-(-n // step) for n, step in zip(SERIES, STACKS[chunks], strict=True)])
    assert sum(read) <= (all_chunks if chunks == "maps" else len(read) * all_chunks / 4)


@pytest.mark.parametrize("memory", [None, 1, 500, 2000])
def test_attributes_are_kept_with_little_memory(memory):
    data = WHOLE[["t2m"]]
    data["t2m"] = data.t2m.assign_attrs(units="K").transpose("lon", "time", "lat")
    data["lat"] = data.lat.assign_attrs(units="degrees_north")
    for labels in ({"lat": [1.5, 20.0]}, {"lat": ("p", [1.5, 20.0]), "lon": ("p", [1.0, 100.0])}):
        found = data.ndgather.sel(labels, method="linear", memory=memory)
        assert (found.t2m.attrs, found.lat.attrs) == ({"units": "K"}, data.interp(labels).lat.attrs)
        assert_same(found, interp(data, labels))
