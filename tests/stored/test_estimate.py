"""The reads and the memory that `estimate` predicts without reading the array."""

import h5py
import numpy as np
import obstore.store
import pytest
import tensorstore
import xarray as xr
import zarr

import ndgather
from ndgather.errors import DTypeError, IndexOutOfBoundsError, ShapeError
from ndgather.stored import estimate

DATA = np.arange(40 * 50, dtype=np.int32).reshape(40, 50)
INDICES = np.array([[3, 4], [5, 6], [39, 49], [0, 11]])


def test_estimates_match_what_calls_read():
    z = zarr.create_array(store={}, data=DATA, chunks=(10, 10))
    told = []
    ndgather.gather_nd(z, INDICES, progress=lambda done, total: told.append(total))
    found = estimate("gather_nd", z, INDICES)
    assert (found.points, found.chunks, found.decoded_bytes) == (4, told[-1], 3 * 400)
    assert found.result_bytes == 16
    assert estimate("gather", z, [3, 4], axis=1).chunks == 4
    with pytest.raises(DTypeError, match="estimate: data = ndarray object is not a stored array"):
        estimate("gather_nd", DATA, INDICES)
    with pytest.raises(IndexOutOfBoundsError):
        estimate("gather_nd", z, [[40, 0]])


def test_estimates_of_windows():
    z = zarr.create_array(store={}, data=DATA, chunks=(10, 10))
    starts, told = [[8, 0], [8, 1], [-3, 49]], []
    options = {"mode": "fill", "progress": lambda done, total: told.append(total)}
    result = ndgather.gather_windows(z, starts, (4, 5), **options)
    found = estimate("gather_windows", z, starts, window_shape=(4, 5), mode="fill")
    assert (found.points, found.chunks) == (3, told[-1])
    assert found.chunks == 3
    assert found.result_bytes == result.nbytes
    assert found.memory_bytes > result.nbytes
    with pytest.raises(ShapeError, match="estimate: "):
        estimate("gather_windows", z, starts, window_shape=(4,))
    with pytest.raises(ShapeError, match="estimate: window_shape = None"):
        estimate("gather_windows", z, starts)


@pytest.mark.parametrize("kind", ["nd", "elements"])
def test_memory_includes_results_but_not_updates(kind):
    """For equal reads, a scatter needs less memory than a gather, by the size of the result."""
    z = zarr.create_array(store={}, data=DATA, chunks=(10, 10))
    indices = np.zeros((500, 2) if kind == "nd" else (40, 50), int)
    gathered, scattered = (estimate(f"{each}_{kind}", z, indices) for each in ("gather", "scatter"))
    assert gathered.result_bytes == scattered.result_bytes == 4 * (500 if kind == "nd" else 2000)
    assert gathered.memory_bytes - scattered.memory_bytes == gathered.result_bytes


def sizes(folder):
    return sum(each.stat().st_size for each in folder.rglob("c/*/*"))


def test_stored_bytes_match_the_store(tmp_path):
    every = np.argwhere(DATA >= 0)
    z = zarr.create_array(tmp_path / "a.zarr", data=DATA, chunks=(10, 10))
    found = estimate("gather_nd", z, every)
    assert (found.stored_bytes, found.stored_is_known) == (sizes(tmp_path / "a.zarr"), True)
    sharded = zarr.create_array(tmp_path / "b.zarr", data=DATA, chunks=(10, 10), shards=(20, 50))
    indices_bytes = 2 * (16 * 10 + 4)
    found = estimate("gather_nd", sharded, every)
    assert found.stored_bytes == sizes(tmp_path / "b.zarr") - indices_bytes
    assert found.stored_is_known
    with h5py.File(tmp_path / "c.h5", "w") as file:
        array = file.create_dataset("a", data=DATA, chunks=(10, 10), compression="gzip")
        found = estimate("gather_nd", array, every)
        assert (found.stored_bytes, found.stored_is_known) == (array.id.get_storage_size(), True)
    in_memory = zarr.create_array(store={}, data=DATA, chunks=(10, 10))
    found = estimate("gather_nd", in_memory, every)
    assert (found.stored_bytes, found.stored_is_known) == (sizes(tmp_path / "a.zarr"), True)
    with zarr.storage.ZipStore(tmp_path / "a.zip", mode="w") as store:
        zipped = zarr.create_array(store, data=DATA, chunks=(10, 10))
        assert not estimate("gather_nd", zipped, every).stored_is_known
    elsewhere = tensorstore.open(
        {"driver": "zarr3", "kvstore": f"file://{tmp_path}/a.zarr/"}
    ).result()
    found = estimate("gather_nd", elsewhere, every)
    assert (found.stored_bytes, found.stored_is_known) == (found.decoded_bytes, False)


@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_maps_are_counted_in_pages(tmp_path, order):
    mapped = np.memmap(tmp_path / "a", np.int32, "w+", shape=(3000, 3000), order=order)
    points = [[0, 0], [0, 1023], [0, 1024], [2999, 2999]]  # three pages if rows are contiguous
    found = estimate("gather_nd", mapped, points if order == "C" else np.flip(points, 1))
    assert (found.points, found.chunks) == (4, 3)
    assert found.stored_is_known
    assert found.stored_bytes == 4 * (1024 + 1024 + 3000 - 2048)
    assert estimate("scatter_nd", mapped, points).result_bytes == 16


def test_missing_chunks_have_no_bytes(tmp_path):
    z = zarr.create_array(tmp_path / "a.zarr", shape=(40, 50), chunks=(10, 10), dtype="i4")
    z[:10, :10] = 1
    found = estimate("gather_nd", z, [[0, 0], [39, 49]])
    assert (found.stored_bytes, found.stored_is_known) == (sizes(tmp_path / "a.zarr"), True)
    in_memory = zarr.create_array(store={}, shape=(40, 50), chunks=(10, 10), dtype="i4")
    found = estimate("gather_nd", in_memory, [[0, 0], [39, 49]])
    assert (found.stored_bytes, found.stored_is_known) == (0, True)
    sharded = zarr.create_array(
        tmp_path / "b.zarr", shape=(40, 50), chunks=(10, 10), shards=(20, 50), dtype="i4"
    )
    sharded[:10, :10] = 1
    found = estimate("gather_nd", sharded, [[0, 0], [0, 49], [39, 49]])  # also of a written shard
    index_bytes = 16 * 10 + 4
    assert found.stored_bytes == sizes(tmp_path / "b.zarr") - index_bytes
    assert found.stored_is_known


@pytest.fixture
def one_thread():
    before = ndgather.get_num_threads()
    ndgather.set_num_threads(1)
    yield
    ndgather.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_terms_of_the_memory():
    """Eight bytes per point, the result, two chunks for decoding, and a chunk per read."""
    kept = {"shape": (640,), "chunks": (10,), "dtype": "f4"}
    near = zarr.create_array(store={}, **kept)
    far = zarr.create_array(zarr.storage.ObjectStore(obstore.store.MemoryStore()), **kept)
    wide = zarr.create_array(store={}, **kept | {"dtype": "f8"})
    rows = np.arange(0, 640, 10)[:, None]

    def memory(array, rows):
        return estimate("gather_nd", array, rows).memory_bytes

    assert memory(near, np.tile(rows, (5, 1))) - memory(near, rows) == 4 * 64 * (8 + 4)
    assert memory(wide, rows) - memory(near, rows) == 64 * 4 + 3 * 40
    assert memory(far, rows) - memory(near, rows) == (16 - 1) * 40
    assert memory(far, rows[:8]) - memory(near, rows[:8]) == (8 - 1) * 40
    for kvstore in ("memory://", {"driver": "ocdbt", "base": "memory://"}):
        spec = {"driver": "zarr3", "kvstore": kvstore, "metadata": near.metadata.to_dict()}
        array = tensorstore.open(spec, create=True).result()
        assert memory(array, rows) == memory(near, rows)


def test_objects_that_are_not_stored_are_refused(tmp_path):
    with h5py.File(tmp_path / "closed.h5", "w") as file:
        closed, empty = file.create_dataset("a", data=[1.0]), file.create_dataset("b", dtype="f4")
        with pytest.raises(DTypeError, match=r"estimate: data = Dataset object"):
            estimate("gather_nd", empty, [[0]])
    for kind, data in {"Group": zarr.create_group(store={}), "Dataset": closed}.items():
        with pytest.raises(DTypeError, match=f"estimate: data = {kind} object"):
            estimate("gather_nd", data, [[0]])


@pytest.mark.parametrize("engine", ["zarr", "h5netcdf"])
def test_lazy_dataarrays(tmp_path, engine):
    data = xr.Dataset({"t": (("y", "x"), DATA)})
    if engine == "zarr":
        data.to_zarr(tmp_path / "a", encoding={"t": {"chunks": (10, 10)}}, zarr_format=2)
    else:
        data.to_netcdf(tmp_path / "a", encoding={"t": {"chunksizes": (10, 10)}}, engine=engine)
    with xr.open_dataset(tmp_path / "a", engine=engine, chunks=None) as opened:
        found = estimate("gather_nd", opened["t"], [[0, 0], [39, 49], [0, 1]])
        assert (found.points, found.chunks) == (3, 2)
        assert found.decoded_bytes == 200 * DATA.itemsize
        assert found.stored_is_known
        assert not opened["t"]._in_memory


def test_other_dataarrays_are_refused_with_a_hint():
    array = xr.DataArray(DATA)
    for data in (array, array.chunk(), array.to_dataset(name="a")):
        with pytest.raises(DTypeError, match=r"or a lazy DataArray: xarray.open_da"):
            estimate("gather_nd", data, [[0, 0]])
