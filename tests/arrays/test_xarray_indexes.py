"""Labels of every index class of xarray, against plain loops over the labels."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from xarray.indexes import CoordinateTransform, CoordinateTransformIndex, NDPointIndex, RangeIndex

import ndgather.arrays.xarray  # noqa: F401 - registers `.ndgather`
from ndgather.errors import LabelError, NdgatherError


class Shifted(CoordinateTransform):
    """Two-dimensional coordinates a = 10 + 2 x and b = 5 - y."""

    def __init__(self, sizes):
        super().__init__(["a", "b"], sizes)

    def forward(self, dim_positions):
        return {"a": 10 + 2 * dim_positions["x"], "b": 5 - dim_positions["y"]}

    def reverse(self, coord_labels):
        return {"x": (coord_labels["a"] - 10) / 2, "y": 5 - coord_labels["b"]}


def on_a_line(kind, size):
    """Return an array of ones with the labels 0, 1, 2, ... along x."""
    labels = np.arange(float(size))
    coords = {"x": labels}
    if kind == "RangeIndex":
        coords = xr.Coordinates.from_xindex(RangeIndex.arange(0.0, float(size), 1.0, dim="x"))
    return xr.DataArray(np.ones(size), coords=coords, dims="x")


LINES = pytest.mark.parametrize("kind", ["PandasIndex", "RangeIndex"])
LABELS = st.lists(st.integers(-4, 40).map(lambda n: n / 4), min_size=1, max_size=6)


def nearest(label, size):
    """Return the position of the nearest label, preferring the greater; None beyond half a step."""
    inside = [n for n in range(size) if abs(n - label) <= 0.5]
    return max(inside, default=None)


@LINES
@given(st.integers(2, 8), LABELS)
def test_indexes_of_a_line(kind, size, labels):
    data = on_a_line(kind, size)
    places = [nearest(label, size) for label in labels]
    expected = np.ones(size)
    for place in places:
        if place is not None:
            expected[place] += 1
    points = ("p", labels)
    found = data.ndgather.add_at(1.0, x=points, method="nearest", missing="drop")
    np.testing.assert_array_equal(found, expected)
    numbered = data.copy(data=np.arange(float(size)))
    found = numbered.ndgather.sel(x=points, method="nearest", missing="nan")
    wanted = [np.nan if place is None else place for place in places]
    np.testing.assert_array_equal(found, wanted)
    between = numbered.ndgather.sel(x=points, method="linear")
    wanted = [label if 0 <= label <= size - 1 else np.nan for label in labels]
    np.testing.assert_array_equal(between, wanted)
    if None in places:
        for call in (numbered.ndgather.sel, numbered.ndgather.windows):
            with pytest.raises(LabelError):
                call(x=points, method="nearest", **({"size": 1} if "windows" in repr(call) else {}))
        return
    windows = numbered.ndgather.windows(x=labels, size=3, mode="edge")
    assert windows.dims == ("window", "x_offset")
    wanted = [[min(max(p + off, 0), size - 1) for off in (-1, 0, 1)] for p in places]
    np.testing.assert_array_equal(windows, wanted)


LEVELS = pd.MultiIndex.from_product([[10.0, 20.0], [0.0, 1.0, 2.0]], names=["lat", "lon"])


@given(st.sampled_from([10.0, 20.0, 30.0]), st.sampled_from([0.0, 1.0, 2.0, 3.0]))
def test_multi_indexes(lat, lon):
    coords = xr.Coordinates.from_pandas_multiindex(LEVELS, "s")
    data = xr.DataArray(np.arange(6.0), coords=coords, dims="s")
    for labels, chosen in (
        ({"lat": lat}, [n for n, each in enumerate(LEVELS) if each[0] == lat]),
        ({"s": (lat, lon)}, [n for n, each in enumerate(LEVELS) if each == (lat, lon)]),
        ({"lat": lat, "lon": lon}, [n for n, each in enumerate(LEVELS) if each == (lat, lon)]),
    ):
        if not chosen:
            with pytest.raises(NdgatherError):
                data.ndgather.add_at(1.0, labels)
            continue
        expected = np.arange(6.0)
        expected[chosen] += 1
        np.testing.assert_array_equal(data.ndgather.add_at(1.0, labels), expected)
        found = data.ndgather.windows(labels, size=3, method=None, mode="edge").values
        wanted = [[min(max(n + off, 0), 5) for off in (-1, 0, 1)] for n in chosen]
        np.testing.assert_array_equal(found.reshape(-1, 3), wanted)
    for labels in ({"lat": [10.0, 20.0]}, {"s": ("p", [1.0])}):
        with pytest.raises(NdgatherError):
            data.ndgather.add_at(1.0, labels)
    with pytest.raises(NdgatherError, match="PandasMultiIndex"):
        data.ndgather.sel(lat=10.0, method="linear")


POINTS = st.lists(
    st.tuples(*[st.integers(-4, 40).map(lambda n: n / 4 + 0.125)] * 2), min_size=1, max_size=5
)


@pytest.mark.parametrize("kind", ["CoordinateTransformIndex", "NDPointIndex"])
@given(st.integers(2, 4), st.integers(2, 4), POINTS)
def test_nearest_points_in_two_coordinates(kind, width, height, points):
    transform = Shifted({"x": width, "y": height})
    data = xr.DataArray(np.zeros((width, height)), dims=("x", "y"))
    if kind == "NDPointIndex":
        places = np.meshgrid(np.arange(width), np.arange(height), indexing="ij")
        at = transform.forward(dict(zip("xy", places, strict=True)))
        data = data.assign_coords({name: (("x", "y"), each) for name, each in at.items()})
        data = data.set_xindex(["a", "b"], NDPointIndex)
    else:
        index = CoordinateTransformIndex(transform)
        data = data.assign_coords(xr.Coordinates.from_xindex(index))
    # x and y of the points, never at a midpoint
    near = [tuple(int(np.floor(n + 0.5)) for n in point) for point in points]
    if kind == "NDPointIndex":
        near = [(min(max(i, 0), width - 1), min(max(j, 0), height - 1)) for i, j in near]
    inside = [0 <= i < width and 0 <= j < height for i, j in near]
    expected = np.zeros((width, height))
    for (i, j), is_inside in zip(near, inside, strict=True):
        if is_inside:
            expected[i, j] += 1
    labels = {
        "a": ("p", [10 + 2 * x for x, _ in points]),
        "b": ("p", [5 - y for _, y in points]),
    }
    found = data.ndgather.add_at(1.0, labels, method="nearest", missing="drop")
    np.testing.assert_array_equal(found, expected)
    if all(inside):
        np.testing.assert_array_equal(data.ndgather.add_at(1.0, labels, method="nearest"), expected)
        cut = data.ndgather.windows(labels, size=1)
        assert cut.sizes == {"p": len(points), "x_offset": 1, "y_offset": 1}
    else:
        for call in (data.ndgather.sel, lambda q, method: data.ndgather.add_at(1.0, q)):
            with pytest.raises(NdgatherError):
                call(labels, method="nearest")
    with pytest.raises(NdgatherError, match=kind):
        data.ndgather.sel(labels, method="linear")


def test_single_labels_alone():
    data = xr.DataArray(np.zeros((3, 4)), {"x": [0.0, 1, 2], "y": [0.0, 1, 2, 3]}, ("x", "y"))
    for labels, count in (
        ({"x": [2.0], "y": [1.0]}, 1),
        ({"x": 2.0, "y": 1.0}, 1),
        ({"x": 2.0}, 4),
        ({"x": xr.DataArray(2.0)}, 4),
        ({"x": 1.9, "method": "nearest"}, 4),
        ({"x": 9.0, "missing": "drop"}, 0),
    ):
        assert data.ndgather.add_at(1.0, **labels).values.sum() == count


def test_errors_for_meshes_suggest_an_index_of_points():
    data = xr.DataArray([1.0, 2, 3], {"lat": ("c", [3.0, 1, 2]), "lon": ("c", [1.0, 3, 2])}, "c")
    points = {"lat": ("p", [1.1]), "lon": ("p", [2.9])}
    with pytest.raises(NdgatherError) as refused:
        data.ndgather.sel(points, method="nearest")
    hint = str(refused.value).partition("; write data = ")[2].partition(", then")[0]
    assert hint == "data.set_xindex(['lat', 'lon'], xarray.indexes.NDPointIndex)"
    data = data.set_xindex(["lat", "lon"], NDPointIndex)
    assert data.ndgather.sel(points, method="nearest").values.tolist() == [2.0]
