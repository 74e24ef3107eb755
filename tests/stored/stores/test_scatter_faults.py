"""Scatters into failing stores report what was written, and each object is complete."""

import multiprocessing
import os
import resource
import shutil
import subprocess
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import h5py
import numpy as np
import pytest
import zarr

import ndgather
from ndgather.errors import AttributeValueError, NdgatherError, StoredArrayError
from ndgather.stored import zarr as zarr_arrays
from ndgather.stored.chunks import Buffers

SHAPE = (64, 96)
RNG = np.random.default_rng(0)
VALUES = RNG.random(SHAPE)
POINTS = np.stack([RNG.integers(0, size, 3000) for size in SHAPE], axis=-1)
UPDATES = RNG.random(3000)
ADDED = ndgather.scatter_nd(VALUES, POINTS, UPDATES, reduction="add")
LAYOUTS = {
    "chunks": {"chunks": (32, 48), "compressors": None},
    "shards": {"chunks": (8, 16), "shards": (32, 48), "compressors": None},
    "format-2": {"chunks": (32, 48), "zarr_format": 2, "compressors": None},
}


@pytest.fixture(params=LAYOUTS)
def stored(request, tmp_path):
    return zarr.create_array(store=tmp_path / "a.zarr", data=VALUES, **LAYOUTS[request.param])


def add(stored, points=POINTS, updates=UPDATES):
    return ndgather.scatter_nd(stored, points, updates, reduction="add", out=stored)


def test_each_shard_is_written_once_and_as_in_memory(stored):
    assert add(stored) is stored
    np.testing.assert_array_equal(stored[...], ADDED)


def test_missing_chunks_are_filled_before_updates(tmp_path):
    stored = zarr.create_array(
        store=tmp_path / "b.zarr", shape=SHAPE, chunks=(32, 48), dtype="f8", fill_value=2
    )
    add(stored)
    expected = ndgather.scatter_nd(np.full(SHAPE, 2.0), POINTS, UPDATES, reduction="add")
    np.testing.assert_array_equal(stored[...], expected)


def test_updates_do_not_change_memory_of_the_store(stored):
    stores = {"files": stored, "memory": zarr.create_array({}, data=VALUES, **LAYOUTS["chunks"])}
    for each in stores.values():
        values = zarr_arrays.writer(each).read((0, 0), Buffers())
        if values.flags.writeable:
            values[...] = -1
        np.testing.assert_array_equal(each[...], VALUES)


def test_full_disk(stored, tmp_path):
    first = POINTS[(POINTS < (32, 48)).all(axis=1)]
    before = {each for each in tmp_path.rglob("*") if each.is_file()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(StoredArrayError, match=r"chunk \(0, 0\).* cannot be written") as failed:
            add(stored, first, UPDATES[: len(first)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert failed.value.box == (slice(0, 32), slice(0, 48))
    assert failed.value.written == ()
    np.testing.assert_array_equal(stored[...], VALUES)
    assert {each for each in tmp_path.rglob("*") if each.is_file()} == before


@pytest.fixture
def small_disk(tmp_path):
    """Return a folder on its own file system of 1 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder]
    if shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        pytest.skip("may not mount a file system here")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_disk_becomes_full_during_a_scatter(small_disk):
    """Missing chunks are written until the disk is full; they are complete, and no others exist."""
    shape, side = (512, 1024), 128  # 32 chunks of 128 KiB
    stored = zarr.create_array(
        small_disk / "a.zarr", shape=shape, chunks=(side, side), dtype="f8", compressors=None
    )
    points = np.argwhere(np.ones(shape, bool))[::3]
    updates = RNG.random(len(points))
    with pytest.raises(StoredArrayError, match=r"cannot be written: .*[Nn]o space left") as failed:
        add(stored, points, updates)
    written = set(failed.value.written)
    assert 4 <= len(written) <= 8
    assert failed.value.chunk not in written
    expected = np.zeros(shape)
    np.add.at(expected, tuple(points.T), updates)
    for row, column in np.ndindex(shape[0] // side, shape[1] // side):
        box = slice(row * side, row * side + side), slice(column * side, column * side + side)
        desired = expected[box] if (row, column) in written else np.zeros((side, side))
        np.testing.assert_array_equal(stored[box], desired)
    files = [each for each in (small_disk / "a.zarr").rglob("*") if each.is_file()]
    assert len(files) == len(written) + 1  # and zarr.json; the failed write leaves nothing


def test_disk_becomes_full_during_an_hdf5_scatter(small_disk):
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(400_000))
    places = np.argwhere(np.ones((512, 512), bool))[::3]
    with h5py.File(small_disk / "a.h5", "w") as file:
        stored = file.create_dataset("a", (512, 512), "f8", chunks=(128, 128))
        with pytest.raises(StoredArrayError, match="cannot be written: ") as failed:
            add(stored, places, np.ones(len(places)))
        ballast.unlink()  # otherwise the library fails again and ends the process
    written = set(failed.value.written)
    assert 2 <= len(written) <= 6
    with h5py.File(small_disk / "a.h5") as file:
        for row, column in written:
            box = slice(row * 128, row * 128 + 128), slice(column * 128, column * 128 + 128)
            inside = (places // 128 == (row, column)).all(axis=1)
            assert file["a"][box].sum() == inside.sum()


def test_damaged_chunks_are_not_replaced(stored, tmp_path):
    file = tmp_path / "a.zarr" / stored.metadata.encode_chunk_key((1, 1))
    file.write_bytes(file.read_bytes()[:-5])
    damaged = file.read_bytes()
    with pytest.raises(StoredArrayError, match=r"chunk \(1, 1\)") as failed:
        add(stored)
    assert file.read_bytes() == damaged
    values = stored[:32]
    for number, columns in enumerate((slice(0, 48), slice(48, 96))):
        written = (0, number) in failed.value.written
        expected = (ADDED if written else VALUES)[:32, columns]
        np.testing.assert_array_equal(values[:, columns], expected)


def test_read_only_arrays_are_refused(stored, tmp_path):
    with pytest.raises(AttributeValueError, match="out is read-only"):
        add(zarr.open_array(tmp_path / "a.zarr", mode="r"))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = VALUES
    with h5py.File(tmp_path / "a.h5", "r") as file, pytest.raises(AttributeValueError):
        add(file["a"])


def test_invalid_indices_leave_the_array_unchanged(stored):
    points = POINTS.copy()
    points[-1] = 64, 0
    with pytest.raises(ndgather.errors.IndexOutOfBoundsError):
        add(stored, points)
    np.testing.assert_array_equal(stored[...], VALUES)


def test_icechunk_sessions_are_atomic(tmp_path):
    icechunk = pytest.importorskip("icechunk")
    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path)))
    session = repository.writable_session("main")
    zarr.create_array(store=session.store, name="a", data=VALUES, chunks=(32, 48))
    session.commit("values")

    failing = repository.writable_session("main")
    points = np.array([[0, 0], [64, 0]])
    with pytest.raises(NdgatherError):
        add(zarr.open_array(failing.store, path="a"), points, np.ones(2))
    adding = repository.writable_session("main")
    array = zarr.open_array(adding.store, path="a")
    add(array)

    def committed():
        return zarr.open_array(repository.readonly_session("main").store, path="a", mode="r")

    np.testing.assert_array_equal(committed()[...], VALUES)
    adding.commit("added")
    np.testing.assert_array_equal(committed()[...], ADDED)
    np.testing.assert_array_equal(ndgather.gather_nd(committed(), POINTS), ADDED[tuple(POINTS.T)])


@pytest.mark.parametrize("executor", [None, ThreadPoolExecutor(1)], ids=["here", "executor"])
@pytest.mark.parametrize("mode", ["raise", "drop"])
def test_overwritten_chunks_are_not_read(tmp_path, mode, executor):
    stored = zarr.create_array(tmp_path / "a.zarr", data=VALUES, chunks=(16, 32))
    (tmp_path / "a.zarr" / "c" / "1" / "0").write_bytes(b"damaged")
    places = np.add(
        np.argwhere(np.ones((17, 33), bool))[::-1], [16, 0]
    )  # more than the chunk, reversed
    places = np.concatenate([places, places[40:]])
    updates = np.arange(len(places), dtype=float)
    ndgather.scatter_nd(stored, places, updates, mode=mode, out=stored, executor=executor)
    expected = VALUES.copy()
    for place, each in zip(places.tolist(), updates.tolist(), strict=True):
        expected[tuple(place)] = each
    np.testing.assert_array_equal(stored[...], expected)


def test_partially_overwritten_chunks_are_read(tmp_path):
    stored = zarr.create_array(tmp_path / "a.zarr", data=VALUES, chunks=(16, 32))
    places = np.argwhere(np.ones((16, 32), bool))
    places[5] = places[4]
    ndgather.scatter_nd(stored, places, np.zeros(len(places)), out=stored)
    assert stored[0, 5] == VALUES[0, 5]
    (tmp_path / "a.zarr" / "c" / "0" / "0").write_bytes(b"damaged")
    places = np.argwhere(np.ones((16, 32), bool))
    with pytest.raises(StoredArrayError, match="cannot be read"):
        add(stored, places, np.zeros(len(places)))
    with pytest.raises(StoredArrayError, match="cannot be read"):
        ndgather.scatter_nd(stored, places[1:], np.zeros(len(places) - 1), out=stored)


class Killing:
    """Passes tasks to a pool, and kills its worker instead of running the third."""

    def __init__(self, pool):
        self.pool, self.count = pool, 0

    def submit(self, function, *arguments):
        self.count += 1
        if self.count == 3:
            return self.pool.submit(os._exit, 1)
        return self.pool.submit(function, *arguments)


def test_killed_workers_raise(tmp_path):
    stored = zarr.create_array(tmp_path / "a.zarr", data=VALUES, chunks=(16, 48))
    pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
    options = {"reduction": "add", "out": stored, "executor": Killing(pool)}
    with pool, pytest.raises(StoredArrayError, match="BrokenProcessPool") as caught:
        ndgather.scatter_nd(stored, POINTS, UPDATES, **options)
    written = caught.value.written
    assert len(written) < 8
    expected = VALUES.copy()
    for row, column in written:
        box = slice(16 * row, 16 * row + 16), slice(48 * column, 48 * column + 48)
        expected[box] = ADDED[box]
    np.testing.assert_array_equal(stored[...], expected)
