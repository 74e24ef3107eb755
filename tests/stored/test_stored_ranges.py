"""Ranges of stored arrays against plain loops; each touched chunk is read once."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import h5py
import numpy as np
import pytest
import tensorstore
import zarr
from hypothesis import given
from hypothesis import strategies as st

from ndgather import gather_ranges
from ndgather.array_call import Call, Kind
from ndgather.errors import AttributeValueError, DTypeError, IndexOutOfBoundsError, ShapeError
from ndgather.ranges import read
from ndgather.stored import estimate
from ndgather.stored.chunks import Grid
from ndgather.stored.ranges import run_ranges
from tests.definitions import reference
from tests.stored.cut_array import CutArray

DTYPES = ("?", "i1", ">i4", "f4", "c16", "M8[s]")


@st.composite
def calls(draw, modes=("raise", "wrap", "clip", "fill")):
    """Draw an array, starts, stops and options."""
    mode = draw(st.sampled_from(modes))
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    axis = draw(st.integers(0, len(shape) - 1))
    near = st.integers(0, shape[axis]) if mode == "raise" else st.integers(-12, 20)
    ends = [sorted(pair) for pair in draw(st.lists(st.tuples(near, near), max_size=6))]
    starts, stops = np.array(ends, np.int64).reshape(-1, 2).T
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    data = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    return data, starts, stops, {"axis": axis, "mode": mode}


@given(call=calls(("raise",)), draws=st.data())
def test_each_touched_chunk_is_read_once(call, draws):
    data, starts, stops, options = call
    axis = options["axis"]
    cuts = []
    for size in data.shape:
        some = draws.draw(st.sets(st.integers(1, max(size - 1, 1)), max_size=4))
        cuts.append(np.diff([0, *sorted(each for each in some if each < size), size]))
    cut = CutArray(data, Grid.of_sizes(cuts))
    named = read("gather_ranges", starts, stops, None, data.shape[axis])
    found = run_ranges(Call("gather_ranges", Kind.GATHER, cut, None, axis=axis), cut, named)
    wanted, _ = reference.gather_ranges(data, starts, stops, axis)
    np.testing.assert_array_equal(found, wanted, strict=True)
    touched = {
        chunk
        for chunk in np.ndindex(cut.grid.counts)
        for start, stop in zip(starts, stops, strict=True)
        if max(start, cut.grid.box(chunk)[axis].start) < min(stop, cut.grid.box(chunk)[axis].stop)
    }
    assert sorted(cut.reads) == sorted(touched)


DATA = np.arange(3000).reshape(1000, 3)
STARTS, STOPS = [990, 5, 7, 5, 300], [1000, 8, 7, 8, 520]


def test_tensorstore_and_hdf5(tmp_path):
    wanted, offsets = reference.gather_ranges(DATA, np.array(STARTS), np.array(STOPS))
    spec = {"driver": "zarr", "kvstore": {"driver": "memory"}}
    stored = tensorstore.open(
        spec, create=True, dtype="int64", shape=DATA.shape, chunk_layout=tensorstore.ChunkLayout(
            read_chunk_shape=(70, 2)
        ),
    ).result()  # fmt: skip
    stored.write(DATA).result()
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("a", data=DATA, chunks=(70, 2), compression="gzip")
        for array in (stored, dataset):
            found = gather_ranges(array, STARTS, STOPS)
            np.testing.assert_array_equal(found[0], wanted)
            np.testing.assert_array_equal(found[1], offsets)
        with pytest.raises(DTypeError, match="is not a stored array"):
            gather_ranges(file, STARTS, STOPS)


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_executors_and_progress(pool, tmp_path):
    stored = zarr.create_array(tmp_path / "a.zarr", data=DATA, chunks=(50, 2))
    told = []
    with pool(2) as executor:
        found, _ = gather_ranges(
            stored, STARTS, STOPS, executor=executor, progress=lambda *counts: told.append(counts)
        )
    np.testing.assert_array_equal(
        found, np.concatenate([DATA[a:b] for a, b in zip(STARTS, STOPS, strict=True)])
    )
    assert told[-1] == (14, 14)


def test_variable_length_strings():
    with h5py.File("texts", "w", driver="core", backing_store=False) as file:
        texts = np.array([f"row {n}" for n in range(20)], object)
        stored = file.create_dataset("a", data=texts, chunks=(6,), dtype=h5py.string_dtype())
        values, offsets = gather_ranges(stored, [4, 0], [9, 2])
        wanted = [*texts[4:9], *texts[:2]]
        assert [value.decode() for value in values] == wanted
        assert offsets.tolist() == [0, 5, 7]


def test_errors_are_raised_before_reads():
    reads = []
    stored = zarr.create_array({}, data=DATA, chunks=(50, 3))
    with pytest.raises(IndexOutOfBoundsError, match=r"gather_ranges: stops\[1\] = 1001 is beyond"):
        gather_ranges(stored, [0, 1], [1, 1001], progress=lambda *counts: reads.append(counts))
    with pytest.raises(ShapeError, match=r"out\.shape"):
        gather_ranges(stored, [0], [1], out=np.zeros((2, 3), int), progress=reads.append)
    with pytest.raises(AttributeValueError, match="memory = 1 bytes is too small"):
        gather_ranges(stored, [0], [1], memory=1)
    assert not reads


def test_estimate():
    stored = zarr.create_array({}, data=DATA, chunks=(50, 2))
    told = []
    values, _ = gather_ranges(stored, STARTS, STOPS, progress=lambda *counts: told.append(counts))
    found = estimate("gather_ranges", stored, STARTS, stops=STOPS)
    assert (found.points, found.chunks) == (236, told[-1][1])
    assert found.result_bytes == values.nbytes
    assert found.stored_is_known
    assert found.memory_bytes > values.nbytes
    beyond = estimate("gather_ranges", stored, [-3, 998], lengths=5, mode="fill")
    assert (beyond.points, beyond.chunks) == (10, 4)
    with pytest.raises(IndexOutOfBoundsError, match=r"estimate: lengths\[0\] = 5"):
        estimate("gather_ranges", stored, [998], lengths=5)


def test_subclasses_of_memory_maps(tmp_path):
    class Mapped(np.memmap):
        """Subclasses of memory maps are stored arrays too."""

    np.arange(20.0).tofile(tmp_path / "data")
    mapped = Mapped(tmp_path / "data", np.float64, "r", shape=(20,))
    found, offsets = gather_ranges(mapped, [15, 2], lengths=[3, 2])
    np.testing.assert_array_equal(found, [15.0, 16.0, 17.0, 2.0, 3.0])
    np.testing.assert_array_equal(offsets, [0, 3, 5])
