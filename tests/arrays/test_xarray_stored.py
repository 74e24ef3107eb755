"""Selections from files against loaded arrays; only touched chunks are read."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from importlib.metadata import version

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import ndgather.arrays.xarray
from ndgather.array_call import Call, Kind
from ndgather.arrays.xarray.engine import Engine
from ndgather.errors import NdgatherError
from ndgather.stored.chunks import Grid, stand_in
from ndgather.stored.plan import shared_plan
from tests.arrays.xarray_strategies import SIZES, dataset, isel_indexers
from tools import versions

FEW = max(8, settings.default.max_examples // 6)
PACKED = {"dtype": "i2", "scale_factor": 0.5, "add_offset": 10.0, "_FillValue": -99}


def written():
    """Return variables that are stored with other dtypes than they are read with."""
    data = dataset()[["t2m", "mask", "level", "name", "seen"]].drop_vars("month")
    gaps = data.t2m.where(data.t2m % 7 != 0)
    return data.assign(t2m=gaps, plain=data.t2m.astype("f4"), big=data.level.astype(">f8"))


@pytest.fixture(
    scope="module", params=["zarr2", "zarr3", "shards", "h5netcdf", "netcdf3", "unchunked"]
)
def opened(request, tmp_path_factory):
    if request.param == "shards" and versions.order(version("zarr")) < [3, 1, 6]:
        pytest.skip("this version of zarr fails at parts of shards")
    path = tmp_path_factory.mktemp("data") / "data"
    data = written()
    chunks = {"t2m": (2, 2, 3), "plain": (1, 5, 2), "level": (2, 2)}
    if request.param.startswith(("zarr", "shards")):
        encoding = {name: {"chunks": each} for name, each in chunks.items()}
        encoding["t2m"] |= PACKED
        if request.param == "shards":
            encoding["plain"]["shards"] = (2, 5, 4)
        form = 2 if request.param == "zarr2" else 3
        if form == 3:
            data = data.drop_vars("name")
        data.to_zarr(path, encoding=encoding, zarr_format=form, consolidated=False)
        opened = [xr.open_zarr(path, chunks=None, consolidated=False) for _ in range(2)]
        yield opened[0], opened[1].load()
        return
    if request.param == "netcdf3":
        data = data.drop_vars("seen")
        encoding, engine = {"t2m": PACKED}, "scipy"
    else:
        engine = "h5netcdf"
        encoding = {"t2m": PACKED}
        if request.param == "h5netcdf":
            encoding = {name: {"chunksizes": each} for name, each in chunks.items()}
            encoding["t2m"] |= PACKED
    data.to_netcdf(path, engine=engine, encoding=encoding)
    with xr.open_dataset(path, engine=engine) as found:
        yield found, xr.load_dataset(path, engine=engine)


def assert_same(ours, theirs):
    xr.testing.assert_identical(ours, theirs)
    for name, each in theirs.variables.items():
        assert ours[name].dtype == each.dtype


def assert_same_isel(lazy, loaded, indexers):
    """Assert that both select the same, or that both raise."""
    try:
        expected = loaded.isel(indexers)
    except Exception:
        with pytest.raises(NdgatherError):
            lazy.ndgather.isel(indexers)
        return
    assert_same(lazy.ndgather.isel(indexers), expected)


@settings(max_examples=FEW)
@given(indexers=isel_indexers())
def test_isel(opened, indexers):
    lazy, loaded = opened
    assert_same_isel(lazy, loaded, indexers)


POINTS = {
    "lat": xr.DataArray([31.0, -60.0, 31.0], dims="p"),
    "lon": xr.DataArray([90.0, 270.0, 90.0], dims="p"),
}
VIEWS = {
    "a part": lambda data: data.isel(time=slice(1, None), lat=slice(None, None, -1)),
    "turned": lambda data: data.transpose("lon", "lat", "time"),
    "chosen": lambda data: data.isel(time=[2, 0], lat=[0, 1, 3]),
    "one": lambda data: data.isel(time=1),
    "points already": lambda data: data.isel(time=xr.DataArray([[0, 1], [2, 0]], dims=("a", "b"))),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_selections_of_selections(opened, view):
    lazy, loaded = (view(each) for each in opened)
    assert_same(lazy.ndgather.sel(POINTS), loaded.sel(POINTS))
    ours = lazy.ndgather.sel(POINTS | {"lat": [31.0, 44.0]}, missing="nan")
    theirs = loaded.ndgather.sel(POINTS | {"lat": [31.0, 44.0]}, missing="nan")
    assert_same(ours, theirs)


@st.composite
def parts(draw):
    """Draw `isel` indexers that cut, reverse, thin out or drop some axes."""
    part = {}
    for name, size in SIZES.items():
        place = st.integers(-size, size - 1)
        how = draw(st.sampled_from(["whole", "slice", "list", "one"]))
        if how == "slice":
            step = draw(st.sampled_from([1, 2, -1, -2]))
            part[name] = slice(draw(place), draw(place), step)
            if not range(size)[part[name]]:
                part[name] = slice(None, None, step)
        elif how == "list":
            part[name] = draw(st.lists(place, min_size=1, max_size=4))
        elif how == "one":
            part[name] = draw(place)
    return part


@settings(max_examples=FEW)
@given(part=parts(), drawn=st.data())
def test_isel_of_a_part(opened, part, drawn):
    lazy, loaded = (each.isel(part) for each in opened)
    sizes = {name: size for name, size in loaded.sizes.items() if name in SIZES and size}
    # xarray fails for empty slices of reversed axes in files, so there are no slices here.
    indexers = {} if not sizes else drawn.draw(isel_indexers(sizes))
    indexers = {name: each for name, each in indexers.items() if not isinstance(each, slice)}
    assert_same_isel(lazy, loaded, indexers)


@pytest.mark.parametrize("steps", [slice(5, 3900), slice(None, None, -2), [*range(0, 4000, 3)]])
def test_series_of_a_part_need_no_index_per_value(tmp_path, steps):
    values = np.arange(4000 * 100, dtype="f4").reshape(4000, 10, 10)
    data = xr.Dataset({"a": (("t", "y", "x"), values)})
    data.to_zarr(tmp_path / "z", encoding={"a": {"chunks": (500, 5, 5)}}, consolidated=False)
    points = {name: xr.DataArray(np.arange(200) % 7, dims="p") for name in "yx"}
    with xr.open_dataset(tmp_path / "z", engine=Engine, consolidated=False, chunks=None) as lazy:
        tracemalloc.start()
        found = lazy.a.isel(t=steps).isel(points).values
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    np.testing.assert_array_equal(found, data.a.isel(t=steps).isel(points))
    assert peak < 3 * found.nbytes + 2**20


def test_unselected_values_are_not_kept(opened):
    lazy, _ = opened
    lazy.ndgather.sel(POINTS)
    assert "t2m" in repr(lazy)
    assert not lazy.t2m._in_memory


@pytest.fixture
def half_broken(tmp_path):
    """Write an array in which all chunks except the first of each row are damaged."""
    data = xr.DataArray(
        np.arange(64.0).reshape(8, 8), dims=("y", "x"), coords={"x": np.arange(8)}, name="a"
    )
    data.to_dataset().to_zarr(
        tmp_path / "z", encoding={"a": {"chunks": (2, 2)}}, zarr_format=3, consolidated=False
    )
    for chunk in (tmp_path / "z" / "a" / "c").rglob("*"):
        if chunk.is_file() and chunk.name != "0":
            chunk.write_bytes(b"damaged")
    return xr.open_zarr(tmp_path / "z", chunks=None, consolidated=False).a, data


def test_chunks_without_points_are_not_read(half_broken):
    lazy, data = half_broken
    points = {"y": xr.DataArray([7, 0, 3], dims="p"), "x": xr.DataArray([0, 1, 1], dims="p")}
    np.testing.assert_array_equal(lazy.ndgather.isel(points), data.isel(points))
    np.testing.assert_array_equal(lazy.ndgather.isel(x=[1]), data.isel(x=[1]))
    far = {"x": [1, 9], "y": 0}
    cut = lazy.isel(x=slice(1, None, -1)).ndgather.isel(y=("p", [7, 0, 7]))
    np.testing.assert_array_equal(cut, data.isel(x=[1, 0], y=[7, 0, 7]))
    assert lazy.ndgather.sel(far, missing="nan").isnull().values.tolist() == [False, True]
    # Several chunks cannot be read; threads read them concurrently.
    with pytest.raises(
        NdgatherError, match=r"isel: chunk \((\d), 1\) of .*, which holds \[.*, 2:4\]"
    ):
        lazy.isel(y=slice(1, None), x=slice(3, None, -1)).ndgather.isel(x=[0])


class CountingExecutor(ThreadPoolExecutor):
    tasks = 0

    def submit(self, *args, **kwargs):
        self.tasks += 1
        return super().submit(*args, **kwargs)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("isel", {"x": [0, 1]}),
        ("sel", {"x": [0, 1]}),
        ("sel", {"x": [0, 0.5], "method": "linear"}),
        ("windows", {"x": [1], "size": 2}),
    ],
)
def test_options_of_lazy_arrays(half_broken, method, arguments):
    lazy, data = half_broken
    select = partial(getattr(lazy.ndgather, method), **arguments)
    calls = []
    select(progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (4, 4)
    with CountingExecutor(2) as executor:
        found = select(executor=executor)
    assert executor.tasks > 0
    xr.testing.assert_identical(found, getattr(data.ndgather, method)(**arguments))
    with pytest.raises(NdgatherError, match="memory"):
        select(memory=8)
    with pytest.raises(NdgatherError, match=f"{method}: memory = 'much'"):
        select(memory="much")


def test_variables_with_equal_chunks_share_a_plan(tmp_path):
    values = np.arange(40 * 50.0).reshape(40, 50)
    data = xr.Dataset({name: (("y", "x"), k * values) for k, name in enumerate("abc", 1)})
    chunks = {"a": (8, 10), "b": (8, 10), "c": (9, 7)}
    encoding = {name: {"chunks": each} for name, each in chunks.items()}
    data.to_zarr(tmp_path / "data", encoding=encoding, consolidated=False)
    opened = xr.open_zarr(tmp_path / "data", chunks=None, consolidated=False)
    points = {
        "y": xr.DataArray([39, 0, 8, 0], dims="p"),
        "x": xr.DataArray([1, 49, 9, 0], dims="p"),
    }
    for pool in (None, ThreadPoolExecutor(2)):
        assert_same(opened.ndgather.isel(points, executor=pool), data.isel(points))

    plans, grid = [], Grid.regular((40, 50), (8, 10))
    indices = np.array([[39, 1], [0, 49]])
    call = Call("sel", Kind.GATHER_ND, stand_in((40, 50), np.dtype("f8")), indices)
    made = shared_plan(call, grid, plans)
    same = replace(call, data=stand_in((40, 50), np.dtype("i2")), indices=indices.copy())
    assert shared_plan(same, Grid.regular((40, 50), (8, 10)), plans) is made
    assert shared_plan(same, Grid.regular((40, 50), (9, 7)), plans) is not made
    assert shared_plan(replace(same, indices=indices[::-1]), grid, plans) is not made


def test_windows_and_sums_of_a_cached_array():
    """Windows read only the chunks that they overlap; sums and `transpose` read all of them."""
    values = np.arange(48.0).reshape(6, 8)
    cached = ndgather.cached(zarr.create_array({}, data=values, chunks=(2, 4)))
    data = xr.DataArray(cached, {"x": np.arange(6), "y": np.arange(8)})
    loaded = data.copy(data=values)
    windows = [each.ndgather.windows(x=[1, 4], y=[1, 2], size=2) for each in (data, loaded)]
    xr.testing.assert_identical(*windows)
    assert cached.info().decodes == 3
    sums = [each.ndgather.add_at(1.0, x=[1, 4]) for each in (data, loaded)]
    xr.testing.assert_identical(*sums)
    xr.testing.assert_identical(data.transpose("y", "x"), loaded.transpose("y", "x"))
