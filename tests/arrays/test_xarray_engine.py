"""``xr.open_dataset(path, engine="ndgather")`` against xarray's own engines."""

import pickle
import sys
from importlib.metadata import entry_points

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings

import ndgather
from ndgather import ChunkCache
from ndgather.arrays.xarray.engine import Engine
from ndgather.errors import AttributeValueError, ExtraMissingError, StoredArrayError
from tests.arrays.test_xarray_stored import PACKED, assert_same, written
from tests.arrays.xarray_strategies import isel_indexers

CHUNKS = {"t2m": (2, 2, 3), "plain": (1, 5, 2), "level": (2, 2)}
LAZY = {"chunks": None, "cache": False}


KINDS = ["zarr2", "zarr3", "netcdf", "zarr3 small cache", "netcdf no cache"]


@pytest.fixture(scope="module", params=KINDS)
def opened(request, tmp_path_factory):
    """Return a data set opened with the engine, and the same data loaded by xarray."""
    kind, *cache = request.param.split()
    kept = {"small": 100, "no": None}
    engine = {"engine": Engine} | ({"chunk_cache": kept[cache[0]]} if cache else {})
    path = tmp_path_factory.mktemp("data") / "data.zarr"
    data = written()
    sizes = "chunksizes" if kind == "netcdf" else "chunks"
    encoding = {name: {sizes: each} for name, each in CHUNKS.items()}
    encoding["t2m"] |= PACKED
    if kind == "netcdf":
        path = path.with_suffix(".nc")
        data.to_netcdf(path, engine="h5netcdf", encoding=encoding)
        with xr.open_dataset(path, **engine, **LAZY) as found:
            yield found, xr.load_dataset(path, engine="h5netcdf")
        return
    version = 2 if kind == "zarr2" else 3
    if version == 3:
        data = data.drop_vars("name")
    data.to_zarr(path, encoding=encoding, zarr_format=version, consolidated=False)
    options = {"consolidated": False, **LAZY}
    yield (
        xr.open_dataset(path, **engine, **options),
        xr.open_dataset(path, engine="zarr", **options).load(),
    )


@settings(max_examples=min(30, settings.default.max_examples))
@given(indexers=isel_indexers())
def test_isel(opened, indexers):
    lazy, loaded = opened
    try:
        expected = loaded.isel(indexers)
    except Exception as error:
        with pytest.raises(type(error)):
            lazy.isel(indexers).load()
        return
    assert_same(lazy.isel(indexers).load(), expected)


@pytest.mark.parametrize(
    "indexers",
    [{"lat": ("p", [0, 9]), "lon": ("p", [0, 0])}, {"lat": [0, 9]}, {"lat": -9, "lon": [0]}],
)
def test_out_of_bounds_positions_raise_in_both_engines(opened, indexers):
    for data in opened:
        with pytest.raises(IndexError):
            data.isel(indexers).load()


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
    "of a turned part": lambda data: data.isel(time=slice(None, None, -1), lat=[3, 3, 0]).isel(
        lon=("p", [1, 0])
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


def test_out_of_bounds_positions_are_index_errors(opened):
    for points in ([0, 99], [0, -99]):
        with pytest.raises(
            IndexError, match=r"isel: axis \d\[1\] = -?99 is out of bounds for axis \d"
        ):
            opened[0][["plain"]].isel(lat=("p", points), lon=("p", [0, 1]))


@pytest.fixture
def half_broken(tmp_path):
    """Return an array in which all chunks except the first of every row are damaged."""
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
    one = bad["a"].isel(p=1)
    with pytest.raises(OSError, match="cannot be read"):
        one.load()
    assert half_broken["a"].isel(y=7, x=7).isel().shape == ()  # a damaged chunk


@pytest.fixture
def stored(tmp_path):
    """Return a function that opens arrays a and b, and another that damages all their chunks."""
    values = np.arange(64, dtype="i4").reshape(8, 8)
    data = xr.Dataset({"a": (("y", "x"), values), "b": (("y", "x"), -values)})
    chunks = {name: {"chunks": (2, 2)} for name in "ab"}
    data.to_zarr(tmp_path / "a.zarr", encoding=chunks, consolidated=False)

    def opened(**options):
        path = tmp_path / "a.zarr"
        return xr.open_dataset(path, engine=Engine, consolidated=False, **LAZY, **options)

    def damage():
        for chunk in tmp_path.rglob("c/*/*"):
            chunk.write_bytes(b"damaged")

    return opened, damage


DIAGONAL = {"y": ("p", [7, 0, 7]), "x": ("p", [7, 0, 6])}
AT_DIAGONAL = [63, 0, 62]


def test_decoded_chunks_are_kept_for_later_selections(stored):
    opened, damage = stored
    data, other = opened(), opened(chunk_cache=None)
    first = data.isel(DIAGONAL).load()
    other.isel(DIAGONAL).load()
    damage()
    assert first.a.values.tolist() == data.isel(DIAGONAL).a.values.tolist() == AT_DIAGONAL
    assert data.a.ndgather.isel(DIAGONAL).values.tolist() == AT_DIAGONAL
    assert data.ndgather.isel(DIAGONAL).b.values.tolist() == [-63, 0, -62]
    assert ndgather.gather_nd(data.a, [[7, 7], [0, 0]]).values.tolist() == [63, 0]
    windows = data.ndgather.windows(y=[7], x=[7], size={"y": 2, "x": 1}, method=None, mode="clip")
    assert windows.a.values.tolist() == [[[55], [63]]]
    for call in (
        lambda: data.isel(y=("p", [7]), x=("p", [0])).load(),
        lambda: other.isel(DIAGONAL).load(),
        lambda: pickle.loads(pickle.dumps(data)).isel(DIAGONAL).load(),
    ):
        with pytest.raises(StoredArrayError, match="isel: chunk"):
            call()


PARTS = {
    "a slice": {"y": slice(1, None), "x": slice(0, 7, 2)},
    "turned": {"y": slice(None, None, -1)},
    "a list": {"y": [1, 2, 6], "x": [3, 0, 3, 5]},
    "one row": {"y": 5},
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("first", [False, True])
def test_functions_and_windows_of_a_part(stored, part, first):
    opened, _ = stored
    data, loaded = opened(), opened().load()
    if first:  # now the cache knows the whole array
        data.isel(DIAGONAL).load()
    lazy, plain = data.a.isel(part), loaded.a.isel(part)
    points = np.argwhere(plain.values >= 0)
    xr.testing.assert_identical(ndgather.gather_nd(lazy, points), ndgather.gather_nd(plain, points))
    xr.testing.assert_identical(ndgather.gather(lazy, [0, 2]), ndgather.gather(plain, [0, 2]))
    around = {"x": [1, 2, 3], "size": 2, "method": None}
    expected = plain.ndgather.windows(**around)
    xr.testing.assert_identical(lazy.ndgather.windows(**around), expected)
    assert data.isel(DIAGONAL).a.values.tolist() == AT_DIAGONAL


def test_slices_along_other_axes_keep_their_chunks(stored):
    opened, damage = stored
    data = opened()
    column = {"x": (("p", "q"), [[7, 0, 7]])}
    found = data.isel(column).load()
    damage()
    np.testing.assert_array_equal(found.a, data.isel(column).a)
    np.testing.assert_array_equal(found.a[:, 0], np.arange(64).reshape(8, 8)[:, [7, 0, 7]])


def test_variables_and_data_sets_share_a_budget(stored):
    opened, _ = stored
    cache = ChunkCache("1 MB")
    with opened(chunk_cache=cache) as data, opened(chunk_cache=cache) as other:
        data.isel(DIAGONAL).load()
        assert cache.info().chunks == 4
        other.isel(DIAGONAL).load()
        assert (cache.info().chunks, cache.info().bytes) == (8, 8 * 16)
        del other
    assert cache.info().chunks == 0
    small = ChunkCache(3 * 16)
    data = opened(chunk_cache=small)
    for _ in range(3):
        assert data.isel(DIAGONAL).a.values.tolist() == AT_DIAGONAL
        assert data.isel(DIAGONAL).b.values.tolist() == [-63, 0, -62]
        assert small.info().bytes <= 3 * 16
    assert small.info().evictions > 0


def test_closed_files_are_reopened(tmp_path):
    values = np.arange(64.0).reshape(8, 8)
    for name in ("a.nc", "b.nc"):
        data = xr.Dataset({"a": (("y", "x"), values)})
        data.to_netcdf(tmp_path / name, engine="h5netcdf", encoding={"a": {"chunksizes": (2, 2)}})
    with xr.set_options(file_cache_maxsize=1):
        first, second = (xr.open_dataset(tmp_path / n, engine=Engine) for n in ("a.nc", "b.nc"))
        for x in range(8):
            for data in (first, second):
                assert data.isel(x=("p", [x]), y=("p", [7])).a.values.tolist() == [56 + x]
        first.close()
        second.close()


@pytest.mark.parametrize("of", ["data set", "variable", "part"])
@pytest.mark.parametrize(
    "encoding", [{}, {"shards": (2, 4)}, {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}]
)
def test_clear_shows_later_writes(encoding, of, tmp_path):
    """Written through another object of the same process; slices show it immediately."""
    data = xr.Dataset({"a": (("y", "x"), np.arange(24.0).reshape(4, 6))})
    options = {"store": tmp_path / "z.zarr", "consolidated": False}
    data.to_zarr(**options, encoding={"a": {"chunks": (1, 2), **encoding}})
    points = {"y": xr.DataArray([3, 0], dims="p"), "x": xr.DataArray([5, 1], dims="p")}
    with xr.open_dataset(
        tmp_path / "z.zarr", engine=Engine, cache=False, consolidated=False
    ) as opened:
        kept = {"data set": opened, "variable": opened.a, "part": opened.a[1:]}[of]
        for offset in (0, 100, 200):
            (data + offset).isel(y=[3]).to_zarr(**options, region={"y": slice(3, 4)})
            kept.ndgather.clear()
            assert opened.a[3].values.tolist() == [offset + each for each in range(18, 24)]
            assert opened.a.isel(points).values.tolist() == [23 + offset, 1]
    assert data.ndgather.clear() is None  # in memory


def test_invalid_budgets_are_named(stored):
    opened, _ = stored
    with pytest.raises(AttributeValueError, match="ChunkCache: memory = 'much'"):
        opened(chunk_cache="much")


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


@pytest.mark.parametrize(("place", "package"), [("a.nc", "h5netcdf"), ("a.zarr", "zarr")])
def test_missing_packages_are_named(place, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ExtraMissingError) as caught:
        Engine().open_dataset(place)
    assert str(caught.value) == (
        f"this needs the package {package}, which is not installed (install it with: pip install "
        "'ndgather[stores]')"
    )
