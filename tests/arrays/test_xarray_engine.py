"""``xr.open_dataset(path, engine="ndgather")``: what xarray's own engines give, point for point."""

import pickle
from importlib.metadata import entry_points

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from tests.arrays.test_xarray_stored import PACKED, assert_same, written
from tests.arrays.xarray_strategies import isel_indexers

from ndgather.arrays.xarray.engine import Engine

CHUNKS = {"t2m": (2, 2, 3), "plain": (1, 5, 2), "level": (2, 2)}
LAZY = {"chunks": None, "cache": False}


@pytest.fixture(scope="module", params=["zarr2", "zarr3", "netcdf"])
def opened(request, tmp_path_factory):
    """Return a data set of the engine, and the same as xarray reads it whole."""
    path = tmp_path_factory.mktemp("data") / "data.zarr"
    data = written()
    sizes = "chunksizes" if request.param == "netcdf" else "chunks"
    encoding = {name: {sizes: each} for name, each in CHUNKS.items()}
    encoding["t2m"] |= PACKED
    if request.param == "netcdf":
        path = path.with_suffix(".nc")
        data.to_netcdf(path, engine="h5netcdf", encoding=encoding)
        with xr.open_dataset(path, engine=Engine, **LAZY) as found:
            yield found, xr.load_dataset(path, engine="h5netcdf")
        return
    version = 2 if request.param == "zarr2" else 3
    if version == 3:
        data = data.drop_vars("name")
    data.to_zarr(path, encoding=encoding, zarr_format=version, consolidated=False)
    options = {"consolidated": False, **LAZY}
    yield (
        xr.open_dataset(path, engine=Engine, **options),
        xr.open_dataset(path, engine="zarr", **options).load(),
    )


@settings(max_examples=30)
@given(indexers=isel_indexers())
def test_isel(opened, indexers):
    lazy, loaded = opened
    try:
        expected = loaded.isel(indexers)
    except Exception as error:
        with pytest.raises(type(error).__mro__[-3]):
            lazy.isel(indexers).load()
        return
    assert_same(lazy.isel(indexers).load(), expected)


POINTS = {
    "lat": xr.DataArray([31.0, -60.0, 31.0], dims="p"),
    "lon": xr.DataArray([90.0, 270.0, 90.0], dims="p"),
}
CALLS = {
    "sel": lambda data: data.sel(POINTS),
    "nearest": lambda data: data.sel(POINTS, method="nearest"),
    "negative": lambda data: data.isel(lat=("p", [-1, 0]), lon=("p", [1, -2])),
    "of a part": lambda data: data.isel(time=[2, 0], lat=slice(1, None)).isel(
        lat=("p", [0, 1]), lon=("p", [1, 0])
    ),
    "part of points": lambda data: data.sel(POINTS).isel(p=[2, 0], time=1),
    "points of points": lambda data: data.sel(POINTS).isel(p=("q", [0, 2]), time=("q", [1, 0])),
    "turned points": lambda data: data.sel(POINTS).transpose("p", ...).isel(p=slice(1, 3)),
    "turned before": lambda data: data.transpose("lon", ...).sel(POINTS),
    "two axes": lambda data: data.isel(lat=(("a", "b"), [[0, 1]]), lon=(("a", "b"), [[2, 0]])),
    "arithmetic": lambda data: (data[["t2m", "plain"]].sel(POINTS) + 1).mean("p"),
    "accessor": lambda data: data.ndgather.sel(POINTS),
    "accessor nearest": lambda data: data.ndgather.sel(POINTS, method="nearest", missing="nan"),
    "interp": lambda data: data[["plain"]].interp(POINTS, method="nearest"),
    "a copy": lambda data: data.copy(deep=True).sel(POINTS),
    "a pickle": lambda data: pickle.loads(pickle.dumps(data.sel(POINTS))),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_selections(opened, call):
    lazy, loaded = opened
    assert_same(call(lazy).load(), call(loaded))


def test_positions_outside_are_index_errors(opened):
    for points in ([0, 99], [0, -99]):
        with pytest.raises(IndexError, match=r"isel: axis \d\[1\] = -?99 is outside of axis \d"):
            opened[0][["plain"]].isel(lat=("p", points), lon=("p", [0, 1]))


@pytest.fixture
def half_broken(tmp_path):
    """Return an array of which all chunks but the first of every row are damaged."""
    path = tmp_path / "a.zarr"
    data = xr.Dataset({"a": (("y", "x"), np.arange(64.0).reshape(8, 8))})
    data.to_zarr(path, encoding={"a": {"chunks": (2, 2)}}, consolidated=False)
    for chunk in (path / "a" / "c").rglob("*"):
        if chunk.is_file() and chunk.name != "0":
            chunk.write_bytes(b"damaged")
    return xr.open_dataset(path, engine=Engine, consolidated=False, **LAZY)


def test_only_chunks_with_points_are_read_and_only_when_needed(half_broken):
    good = half_broken.isel(y=("p", [7, 0]), x=("p", [1, 0]))
    bad = half_broken.isel(y=("p", [7, 0]), x=("p", [1, 7]))
    assert not good["a"]._in_memory
    assert good["a"].values.tolist() == [57, 0]
    with pytest.raises(OSError, match=r"isel: chunk \(0, 3\) of .*cannot be read"):
        bad.load()


def test_stores_and_urls(tmp_path):
    xr.Dataset({"a": ("x", [1.0, 2])}).to_zarr(store := zarr.storage.MemoryStore(), zarr_format=2)
    with xr.open_dataset(store, engine=Engine, chunks=None) as data:
        assert data.a.isel(x=xr.DataArray([[1]], dims=("p", "q"))).values.tolist() == [[2]]


def test_the_engine_has_a_name(tmp_path):
    if "ndgather" not in {each.name for each in entry_points(group="xarray.backends")}:
        pytest.skip("the package was installed before it had the engine")
    xr.Dataset({"a": ("x", [1.0, 2])}).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "a.nc", engine="ndgather") as data:
        assert data.a.values.tolist() == [1, 2]
