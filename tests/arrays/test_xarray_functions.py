"""DataArrays in the functions: values of plain arrays, and names that remain valid."""

import numpy as np
import pytest
import xarray as xr

import ndgather
from ndgather.errors import AttributeValueError, DTypeError, IndexOutOfBoundsError, ShapeError
from tests.arrays.xarray_strategies import dataset

DATA = dataset().t2m
INDICES = xr.DataArray(
    [[[0, 1], [2, 4]], [[1, 0], [-1, -1]]],
    dims=("orbit", "p", "place"),
    coords={"p": [10, 20], "place": ["t", "y"], "speed": ("orbit", [1.0, 2.0])},
)


def test_gather_nd():
    found = ndgather.gather_nd(DATA, INDICES)
    assert isinstance(found, xr.DataArray)
    assert found.dims == ("orbit", "p", "lon")
    assert set(found.coords) == {"p", "speed", "lon", "run"}
    assert (found.name, found.attrs) == ("t2m", DATA.attrs)
    np.testing.assert_array_equal(found, ndgather.gather_nd(DATA.values, INDICES.values))
    xr.testing.assert_identical(found.lon, DATA.lon.drop_vars("month", errors="ignore"))


def test_gather_nd_with_unnamed_indices():
    found = ndgather.gather_nd(DATA, INDICES.values)
    assert found.dims == ("dim_0", "dim_1", "lon")
    every = ndgather.gather_nd(DATA, np.array([[0, 0, 0]]), mode="wrap")
    assert every.dims == ("dim_0",)
    whole = ndgather.gather_nd(DATA, np.zeros((1, 0), int))
    assert whole.dims == ("dim_0", "time", "lat", "lon")
    assert "height" in whole.coords
    np.testing.assert_array_equal(whole[0], DATA)


def test_gather():
    indices = xr.DataArray([[0, 4], [1, 1]], dims=("a", "b"), coords={"b": [5, 6]})
    found = ndgather.gather(DATA, indices, axis=-2)
    assert found.dims == ("time", "a", "b", "lon")
    assert set(found.coords) == {"time", "month", "lon", "b", "run"}
    np.testing.assert_array_equal(found, ndgather.gather(DATA.values, indices.values, axis=1))


def test_gather_elements():
    indices = xr.DataArray(np.array([[[4, 0]], [[1, 1]]]), dims=("time", "y", "lon"))
    found = ndgather.gather_elements(DATA, indices, axis=1)
    assert found.dims == ("time", "lat", "lon")
    assert set(found.coords) == {"run"}
    expected = ndgather.gather_elements(DATA.values, indices.values, axis=1)
    np.testing.assert_array_equal(found, expected)
    whole = ndgather.gather_elements(DATA, np.zeros((3, 1, 4), int), axis=1)
    assert set(whole.coords) == {"time", "month", "lon", "run"}


def test_gather_windows():
    starts = INDICES[0] % 2
    found = ndgather.gather_windows(DATA, starts, (2, 2))
    assert found.dims == ("p", "time", "lat", "lon")
    assert set(found.coords) == {"p", "speed", "lon", "run"}
    expected = [DATA[t : t + 2, lat : lat + 2] for t, lat in starts.values]
    np.testing.assert_array_equal(found, expected)
    one = ndgather.gather_windows(DATA, np.array([1]), (1,))
    assert one.dims == ("time", "lat", "lon")
    xr.testing.assert_identical(one.lat, DATA.lat)


def test_scatters_keep_all_names():
    updates = xr.DataArray(np.ones((2, 2, 4)), dims=("orbit", "p", "lon"))
    found = ndgather.scatter_nd(DATA, INDICES, updates, reduction="add")
    xr.testing.assert_identical(found.drop_attrs() * 0, DATA.drop_attrs() * 0)
    assert found.attrs == DATA.attrs
    expected = ndgather.scatter_nd(DATA.values, INDICES.values, updates.values, reduction="add")
    np.testing.assert_array_equal(found, expected)
    ones = np.zeros((1, 5, 4), int)
    moved = ndgather.scatter_elements(DATA, ones, ones * 1.0, axis=0)
    xr.testing.assert_identical(moved.coords.to_dataset(), DATA.coords.to_dataset())


def test_plain_data_yield_plain_results():
    found = ndgather.gather_nd(DATA.values, INDICES)
    assert type(found) is np.ndarray
    out = np.empty((2, 2, 4))
    assert ndgather.gather_nd(DATA.values, INDICES, out=out) is out


def test_lazy_data_read_only_touched_chunks(tmp_path):
    packed = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}
    data = DATA.drop_vars("month")
    data.to_dataset().to_zarr(
        tmp_path / "z", encoding={"t2m": {"chunks": (1, 5, 4), **packed}}, consolidated=False
    )
    (damaged,) = (tmp_path / "z" / "t2m").glob("**/2/0/0")
    damaged.write_bytes(b"damaged")
    lazy = xr.open_zarr(tmp_path / "z", chunks=None, consolidated=False).t2m
    indices = xr.DataArray([[0, 1], [1, 4]], dims=("p", "k"))
    expected = ndgather.gather_nd(data, indices)
    xr.testing.assert_identical(ndgather.gather_nd(lazy, indices), expected)
    filled = ndgather.gather_nd(lazy, [[0, 9], [1, 4]], mode="fill", fill_value=-1.0)
    np.testing.assert_array_equal(filled, [[-1.0] * 4, expected.values[1]])


REFUSED = {
    "dataset": (lambda: ndgather.gather_nd(dataset(), [[0]]), DTypeError, "such as data['t2m']"),
    "dataset as indices": (
        lambda: ndgather.gather_nd(DATA, dataset()),
        DTypeError,
        "gather_nd: indices = Dataset is not an array",
    ),
    "tree": (lambda: ndgather.gather(xr.DataTree(), [0]), DTypeError, "DataTree is not an array"),
    "out": (
        lambda: ndgather.gather_nd(DATA, [[0]], out=np.empty((1, 5, 4))),
        AttributeValueError,
        "data.data and out.data",
    ),
    "out with names": (
        lambda: ndgather.scatter_nd(DATA.values, [[0]], DATA.values[:1], out=DATA),
        AttributeValueError,
        "out is not supported with xarray arrays",
    ),
    "outside": (
        lambda: ndgather.gather_nd(DATA, INDICES + 3),
        IndexOutOfBoundsError,
        "indices[0, 0, 0] = 3",
    ),
    "a name twice": (
        lambda: ndgather.gather_nd(DATA, INDICES.rename(p="lon")),
        ShapeError,
        "indices.dims contains lon",
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), REFUSED.values(), ids=REFUSED)
def test_refusals(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)
