"""The graphs of lazy results, the blocks that are computed, and refused calls."""

import pickle
import threading
import time
from functools import partial

import dask
import dask.array as da
import h5py
import numpy as np
import pytest
import tensorstore
import zarr
from dask import bag
from dask.base import tokenize

import ndgather
from ndgather.errors import (
    AttributeValueError,
    DTypeError,
    IndexOutOfBoundsError,
    NdgatherError,
    ShapeError,
)
from tests.definitions import reference

DATA = np.arange(10 * 12 * 14, dtype=np.float32).reshape(10, 12, 14)
CHUNKS = (3, 4, 5)


class Blocks:
    """A dask array that records which of its blocks are computed."""

    def __init__(self, values=DATA, chunks=CHUNKS):
        self.computed = []
        self._lock = threading.Lock()
        blocks = da.from_array(values, chunks=chunks)
        self.array = blocks.map_blocks(self._note, meta=blocks._meta)

    def _note(self, block, block_info=None):
        with self._lock:
            self.computed.append(tuple(block_info[0]["chunk-location"]))
        return block


def points(count, shape=DATA.shape):
    rng = np.random.default_rng(1)
    return np.stack([rng.integers(0, size, count) for size in shape], axis=-1)


def tasks_of(result):
    return len(dict(result.__dask_graph__()))


def test_nothing_is_computed_at_the_call():
    blocks, indices = Blocks(), Blocks(points(30), (10, 3))
    ndgather.gather_nd(blocks.array, points(30))
    ndgather.gather_nd(DATA, indices.array)
    ndgather.scatter_nd(blocks.array, points(30), np.zeros(30, np.float32))
    assert blocks.computed == indices.computed == []


def test_blocks_without_points_are_not_computed():
    blocks = Blocks()
    near = points(20, (3, 4, 14))
    result = ndgather.gather_nd(blocks.array, near).compute(scheduler="synchronous")
    np.testing.assert_array_equal(result, DATA[tuple(near.T)])
    assert sorted(blocks.computed) == [(0, 0, 0), (0, 0, 1), (0, 0, 2)]


def test_every_block_is_computed_once():
    blocks = Blocks()
    wanted = points(500)
    with dask.config.set({"array.chunk-size": 400}):
        result = ndgather.gather_nd(blocks.array, wanted)
    assert result.numblocks == (5,)
    np.testing.assert_array_equal(result.compute(scheduler="threads"), DATA[tuple(wanted.T)])
    assert len(blocks.computed) == len(set(blocks.computed)) == blocks.array.npartitions


def test_result_blocks_respect_the_chunk_size_of_dask():
    lazy = da.from_array(DATA, chunks=CHUNKS)
    with dask.config.set({"array.chunk-size": "1 kiB"}):
        assert max(ndgather.gather_nd(lazy, points(1000)).chunks[0]) <= 256
    assert ndgather.gather_nd(lazy, points(1000)).chunks == ((1000,),)
    assert ndgather.gather_nd(lazy, points(9)[:, :2]).chunks == ((9,), (5, 5, 4))


def test_graph_has_eight_bytes_per_point_and_few_tasks():
    wanted = points(50_000)
    lazy = da.from_array(DATA, chunks=CHUNKS)
    result = ndgather.gather_nd(lazy, wanted)
    assert len(pickle.dumps(dict(result.dask.layers[result.name]))) < 9 * len(wanted)
    touched = lazy.npartitions
    assert tasks_of(result) - tasks_of(lazy) <= touched + 1


def test_points_are_stored_once_for_all_blocks_of_their_slices():
    wanted = points(50_000, (10, 12))
    lazy = da.from_array(DATA, chunks=(3, 4, 1))
    with dask.config.set({"array.chunk-size": "1 GiB"}):
        result = ndgather.gather_nd(lazy, wanted)
    assert result.chunks == ((50_000,), (1,) * 14)
    assert len(pickle.dumps(dict(result.dask.layers[result.name]))) < 12 * len(wanted)
    found = result.compute(scheduler="synchronous")
    np.testing.assert_array_equal(found, DATA[tuple(wanted.T)], strict=True)


def test_building_a_graph_takes_linear_time():
    def seconds(count):
        lazy = da.zeros(count, chunks=1)
        start = time.process_time()
        ndgather.gather(lazy, np.arange(count))
        return time.process_time() - start

    few = min(seconds(2_000) for _ in range(3))
    # 12 times if linear, 64 times if quadratic, plus time of other processes
    assert any(seconds(16_000) < 36 * few for _ in range(8))


def test_lazy_indices_make_two_tasks_per_block():
    indices = da.from_array(points(1000), chunks=(100, 3))
    result = ndgather.gather_nd(DATA, indices)
    assert tasks_of(result) - tasks_of(indices) <= 2 * indices.npartitions + 1


def test_equal_calls_have_equal_keys():
    lazy = da.from_array(DATA, chunks=CHUNKS)
    wanted, updates = points(20), np.ones(20, np.float32)
    indices = da.from_array(wanted, chunks=(7, 3))

    def names():
        return [
            ndgather.gather_nd(lazy, wanted).name,
            ndgather.gather_nd(lazy, wanted.astype(np.int32)).name,
            ndgather.gather_nd(DATA, indices).name,
            ndgather.scatter_nd(lazy, wanted, updates).name,
            ndgather.scatter_nd(lazy, wanted, da.from_array(updates, chunks=7)).name,
        ]

    first = names()
    assert first == names()
    others = [
        ndgather.gather_nd(lazy, wanted, mode="fill", fill_value=1).name,
        ndgather.gather_nd(lazy, wanted, mode="fill", fill_value=2).name,
        ndgather.gather_nd(lazy, wanted[::-1]).name,
        ndgather.scatter_nd(lazy, wanted, updates, reduction="add").name,
        ndgather.scatter_nd(lazy, wanted, updates + 1).name,
        ndgather.gather_nd(lazy[::-1], wanted).name,
        ndgather.gather_nd(DATA, da.from_array(wanted[::-1], chunks=(7, 3))).name,
        ndgather.gather_nd(DATA + 1, indices).name,
        ndgather.scatter_nd(lazy, wanted, da.from_array(updates + 1, chunks=7)).name,
    ]
    for call in (
        lambda **mode: ndgather.gather_nd(DATA, indices, **mode),
        lambda **mode: ndgather.gather_nd(lazy, wanted, **mode),
    ):
        others += [call(mode="wrap").name, call(mode="clip").name]
        others += [call(mode="fill", fill_value=fill).name for fill in (3, 4)]
    assert len(set(first + others)) == len(set(first)) + len(others)
    assert tokenize(ndgather.gather_nd(lazy, wanted)) == tokenize(ndgather.gather_nd(lazy, wanted))


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_every_scheduler_runs_the_graph(scheduler):
    wanted, updates = points(200), np.ones(200, np.float32)
    lazy, indices = da.from_array(DATA, chunks=CHUNKS), da.from_array(wanted, chunks=(60, 3))
    results = dask.compute(
        ndgather.gather_nd(lazy, wanted),
        ndgather.gather_nd(DATA, indices),
        ndgather.scatter_nd(lazy, wanted, updates, reduction="add"),
        scheduler=scheduler,
        num_workers=2,
    )
    added = DATA.copy()
    np.add.at(added, tuple(wanted.T), updates)
    for result, desired in zip(results, [DATA[tuple(wanted.T)]] * 2 + [added], strict=True):
        np.testing.assert_array_equal(result, desired, strict=True)


def test_first_bad_entry_is_reported_regardless_of_task_order():
    wanted = points(60)
    wanted[[58, 33, 12], [0, 1, 2]] = 99
    result = ndgather.gather_nd(DATA, da.from_array(wanted, chunks=(10, 3)))
    for part in (result, result[:10], result[50:], result[15:], result[::-1]):
        with pytest.raises(IndexOutOfBoundsError) as caught:
            part.compute(scheduler="threads")
        assert caught.value.position == (12, 2)
        assert "indices[12, 2] = 99 is outside axis 2 of data" in str(caught.value)
        assert str(caught.value).endswith("; 3 of 180 entries of indices are out of bounds")


def test_blocks_before_a_bad_entry_are_computed_for_large_indices():
    """Indices of more than 64 MiB are checked block by block."""
    size = 2**20
    good, bad = da.full(8 * size, 1, chunks=size), da.full(size, 99)
    result = ndgather.gather(DATA[:, 0, 0], da.concatenate([good, bad]))
    assert result[size:][0].compute(scheduler="sync") == DATA[1, 0, 0]
    with pytest.raises(IndexOutOfBoundsError, match=rf"{size} of {9 * size} entries"):
        result[-1:].compute(scheduler="sync")


LAZY_BOTH = {
    "gather": ("indices", ndgather.gather_nd),
    "windows": ("starts", partial(ndgather.gather_windows, window_shape=(1, 1, 1))),
    "scatter": ("indices", partial(ndgather.scatter_nd, updates=np.ones(9, np.float32))),
}


@pytest.mark.parametrize(("name", "call"), LAZY_BOTH.values(), ids=LAZY_BOTH)
def test_lazy_indices_into_lazy_data_are_refused(name, call):
    lazy, indices = da.from_array(DATA, chunks=CHUNKS), da.from_array(points(9), chunks=(4, 3))
    with pytest.raises(DTypeError, match=rf": {name} = dask array is lazy.*{name}\.compute\(\)"):
        call(lazy, indices)
    call(lazy, indices.compute())


def test_a_scatter_refuses_lazy_indices_into_data_in_memory_too():
    with pytest.raises(DTypeError, match=r"compute the indices first: indices\.compute\(\)"):
        ndgather.scatter_nd(DATA, da.from_array(points(9)), np.ones(9, np.float32))


def test_bad_index_in_memory_raises_at_the_call():
    wanted = points(60)
    wanted[[58, 33], [0, 1]] = 99
    lazy = da.from_array(DATA, chunks=CHUNKS)
    with dask.config.set({"array.chunk-size": 40}), pytest.raises(IndexOutOfBoundsError) as caught:
        ndgather.gather_nd(lazy, wanted)
    with pytest.raises(IndexOutOfBoundsError) as in_memory:
        ndgather.gather_nd(DATA, wanted)
    assert str(caught.value) == str(in_memory.value)


def test_unknown_sizes_are_refused():
    lazy = da.from_array(DATA, chunks=CHUNKS)
    unknown = lazy[lazy[:, 0, 0] > 100]
    with pytest.raises(ShapeError, match=r"data\.shape = \(nan, 12, 14\) .*compute_chunk_sizes"):
        ndgather.gather_nd(unknown, points(3))
    with pytest.raises(ShapeError, match=r"indices\.shape = .*indices\.compute_chunk_sizes"):
        ndgather.gather_nd(lazy, da.from_array(points(9), chunks=(3, 3))[da.ones(9, chunks=3) > 0])


def test_chunks_may_be_empty():
    lazy = da.from_array(DATA).rechunk(((0, 3, 0, 7), (12, 0), (0, 0, 14)))
    for call in (
        lambda data: ndgather.gather_nd(data, points(9)),
        lambda data: ndgather.gather(data, [9, 0, 2, 3], 0),
        lambda data: ndgather.scatter_nd(data, points(9), np.arange(9, dtype=DATA.dtype)),
    ):
        np.testing.assert_array_equal(call(lazy).compute(scheduler="synchronous"), call(DATA))
    result = ndgather.gather_elements(lazy, np.ones((1, 12, 14), int))
    assert result.chunks == ((1,), *lazy.chunks[1:])
    np.testing.assert_array_equal(result.compute(scheduler="synchronous"), DATA[1:2])


def test_blocks_other_than_numpy_arrays_are_refused():
    masked = da.ma.masked_array(da.from_array(DATA, chunks=CHUNKS), mask=False)
    with pytest.raises(DTypeError, match=r"data = dask array of masked .*ma\.filled\(data, value"):
        ndgather.gather_nd(masked, points(3))


UNLIKE = {
    "masked": (np.ma.array([1, 2], mask=[1, 0], dtype="f4"), "f4"),
    "wider floats": (np.array([0.1, 2]), "f4"),
    "integers that wrap": (np.array([300, 2]), "u1"),
    "floats for integers": (np.array([1.5, 2]), "i8"),
    "longer texts": (np.array(["abc", "d"]), "U1"),
    "numbers for texts": (np.array([1, 2]), "U30"),
    "numbers for durations": (np.array([1, 2]), "m8[s]"),
    "integers that complex numbers round": (np.array([2**53 + 1, 1]), "c16"),
    "years that nanoseconds do not reach": (np.array(["9000", "2000"], "M8[Y]"), "M8[ns]"),
}


@pytest.mark.parametrize(("block", "dtype"), UNLIKE.values(), ids=UNLIKE)
def test_blocks_with_undeclared_dtypes_are_refused(block, dtype):
    """dask does not verify the declared dtype of blocks that it has not computed."""
    lazy = da.from_delayed(dask.delayed(lambda: block)(), (2,), dtype)
    assert type(lazy._meta) is np.ndarray
    for call in (
        lambda lazy: ndgather.gather(lazy, [0]),
        lambda lazy: ndgather.gather_nd(lazy, [[1], [9]], mode="fill"),
        lambda lazy: ndgather.gather_windows(lazy, [[0]], (2,)),
        lambda lazy: ndgather.scatter_nd(lazy, [[1]], np.zeros(1, lazy.dtype)),
        lambda lazy: ndgather.scatter_nd(np.zeros(2, lazy.dtype), [[1], [0]], lazy),
        lambda lazy: ndgather.scatter_nd(da.from_array(np.zeros(2, lazy.dtype)), [[1], [0]], lazy),
    ):
        with pytest.raises(DTypeError) as refused:
            call(lazy).compute(scheduler="synchronous")
        hint = str(refused.value).partition("; write ")[2]
        if hint:
            names = {"numpy": np, "data": lazy, "updates": lazy}
            call(eval(hint, names)).compute(scheduler="synchronous")


def test_blocks_with_narrower_dtypes_are_accepted():
    for block, dtype in ((np.array([1, 2], "i2"), "f4"), (np.array(["a", "b"]), "U3")):
        lazy = da.from_delayed(dask.delayed(lambda block=block: block)(), (2,), dtype)
        found = ndgather.gather(lazy, [1, 0]).compute(scheduler="synchronous")
        np.testing.assert_array_equal(found, block[::-1].astype(dtype), strict=True)


@pytest.mark.parametrize(
    ("option", "value", "hint"),
    [
        ("out", np.empty(3, np.float32), "dask.array.store"),
        ("memory", "1 GiB", "array.chunk-size"),
        ("progress", print, "ProgressBar"),
        ("executor", type("", (), {"submit": print})(), "scheduler"),
    ],
)
def test_options_of_eager_calls_are_refused(option, value, hint):
    lazy = da.from_array(DATA, chunks=CHUNKS)
    with pytest.raises(AttributeValueError, match=f"gather_nd: {option} is given.*{hint}"):
        ndgather.gather_nd(lazy, points(3), **{option: value})


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda d, i: ndgather.gather_nd(d, i.astype(float)), DTypeError, "is not an integer type"),
        (lambda d, i: ndgather.gather_nd(d, i, batch_dims=1), ShapeError, r"indices\.shape\[0\]"),
        (lambda d, i: ndgather.gather_nd(d, i, mode="none"), AttributeValueError, "mode = 'none'"),
        (lambda d, i: ndgather.gather(d, i, axis=3), AttributeValueError, "axis = 3"),
        (lambda d, i: ndgather.gather_nd(d, i, fill_value=1), AttributeValueError, "fill_value"),
        (
            lambda d, i: ndgather.scatter_nd(d, i, np.zeros(4, np.float32)),
            ShapeError,
            r"updates\.shape = \(4,\)",
        ),
        (
            lambda d, i: ndgather.scatter_nd(d, i, da.zeros(9, dtype="f8")),
            DTypeError,
            r"updates\.dtype = float64 differs",
        ),
    ],
)
def test_errors_of_calls_in_memory_are_raised_at_the_call(call, error, text):
    lazy = da.from_array(DATA, chunks=CHUNKS)
    with pytest.raises(error, match=text):
        call(lazy, points(9))
    if "updates" not in text:
        with pytest.raises(error, match=text):
            call(DATA, da.from_array(points(9), chunks=(4, 3)))


@pytest.mark.parametrize("data", ["lazy", "in memory", "stored"])
def test_errors_of_bad_starts_equal_the_call_in_memory(data):
    starts = np.array([[0, 0], [2, 1], [9, 11], [-1, 0], [0, 0]])
    with pytest.raises(IndexOutOfBoundsError) as in_memory:
        ndgather.gather_windows(DATA, starts, (2, 2))
    source = DATA if data == "in memory" else zarr.create_array({}, data=DATA)
    if data == "lazy":
        source = da.from_array(DATA, chunks=CHUNKS)
    else:
        starts = da.from_array(starts, chunks=(2, 1))
    with pytest.raises(IndexOutOfBoundsError) as caught:
        np.asarray(ndgather.gather_windows(source, starts, (2, 2)))
    assert str(caught.value) == str(in_memory.value)
    assert caught.value.position == in_memory.value.position


def test_windows_read_each_block_once():
    blocks = Blocks()
    starts = np.zeros((9, 1), int)
    starts[:, 0] = range(9)
    with dask.config.set({"array.chunk-size": 400}):
        result = ndgather.gather_windows(blocks.array, starts, (2,))
    assert result.numblocks[0] > 2
    result.compute(scheduler="sync")
    assert len(blocks.computed) == len(set(blocks.computed)) == blocks.array.npartitions


@pytest.mark.parametrize("value", [dask.delayed(DATA), bag.from_sequence([1, 2])])
def test_dask_objects_other_than_arrays_are_refused(value):
    lazy = da.from_array(DATA, chunks=CHUNKS)
    with pytest.raises(DTypeError, match=r"data = .* is a dask object, but not an array"):
        ndgather.gather_nd(value, points(3))
    with pytest.raises(DTypeError, match=r"indices = .* is a dask object, but not an array"):
        ndgather.gather_nd(lazy, value)
    with pytest.raises(DTypeError, match=r"updates = .* is a dask object, but not an array"):
        ndgather.scatter_nd(lazy, points(3), value)


def test_every_store_accepts_lazy_indices(tmp_path):
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/t.zarr"}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        stores = [
            file.create_dataset("a", data=DATA),
            zarr.create_array(tmp_path / "a.zarr", data=DATA),
            tensorstore.open(
                spec, create=True, dtype=tensorstore.float32, shape=DATA.shape
            ).result(),
            np.memmap(tmp_path / "a.raw", DATA.dtype, "w+", shape=DATA.shape),
        ]
        wanted = points(20)
        indices = da.from_array(wanted, chunks=(6, 3))
        for store in stores:
            store[...] = DATA
            found = ndgather.gather_nd(store, indices)
            assert found.chunks == ((6, 6, 6, 2),)
            np.testing.assert_array_equal(found.compute(), DATA[tuple(wanted.T)], strict=True)
        with pytest.raises(DTypeError, match="is not a stored array"):
            ndgather.gather_nd(file, indices)
        with pytest.raises(DTypeError, match="cannot be updated by dask arrays"):
            ndgather.scatter_nd(stores[0], indices, da.zeros(20, dtype="f4"))


@pytest.mark.parametrize(
    ("call", "shape", "result"),
    [
        (ndgather.gather_nd, (0, 2), (0, 14)),
        (ndgather.gather, (2, 0), (2, 0, 12, 14)),
        (ndgather.gather_elements, (0, 12, 14), (0, 12, 14)),
        (partial(ndgather.gather_windows, window_shape=(2, 3)), (0, 2), (0, 2, 3, 14)),
    ],
)
def test_empty_lazy_indices_may_be_floats(call, shape, result):
    """`numpy.array([])` has this dtype."""
    found = call(DATA, da.zeros(shape))
    assert (found.shape, found.compute().shape) == (result, result)


def test_axis_that_is_not_an_integer_is_refused():
    lazy = da.from_array(DATA, chunks=CHUNKS)
    with pytest.raises(DTypeError, match=r"gather: axis = 1\.5 is not an integer"):
        ndgather.gather(lazy, [0], axis=1.5)
    with pytest.raises(AttributeValueError, match=r"axis = .* is out of range"):
        ndgather.gather(lazy, [0], axis=2**70)


def test_block_of_another_shape_raises():
    lazy = da.from_array(DATA, chunks=CHUNKS).map_blocks(lambda block: block[1:], dtype="f4")
    with pytest.raises(NdgatherError, match="a block of data has shape"):
        ndgather.gather_nd(lazy, points(9)).compute(scheduler="synchronous")


def test_the_functions_work_in_map_blocks():
    rows = da.from_array(np.arange(24).reshape(6, 4), chunks=(2, 4))
    indices = np.array([3, 0])
    mapped = rows.map_blocks(ndgather.gather, indices, axis=1, dtype=int, chunks=((2, 2, 2), (2,)))
    np.testing.assert_array_equal(mapped.compute(), np.arange(24).reshape(6, 4)[:, [3, 0]])


def test_later_changes_of_arguments_do_not_affect_the_result():
    """Indices, starts, updates and fill values keep their values at the time of the call."""
    values = np.arange(24.0).reshape(6, 4)
    data = da.from_array(values.copy(), chunks=(2, 3))
    indices, starts = np.array([[5], [0], [3]]), np.array([[-2, 0], [4, 1]])
    updates, fill = np.ones((3, 4)), np.array(7.0)
    far = np.array([[9], [0]])
    modes = ("edge", "reflect", "fill", "wrap")
    lazy = [
        ndgather.gather_nd(data, indices),
        ndgather.scatter_nd(data, indices, updates, reduction="add"),
        ndgather.scatter_nd(values, indices, da.from_array(updates.copy()), reduction="add"),
        ndgather.gather_nd(data, far, mode="fill", fill_value=fill),
        *(ndgather.gather_windows(data, starts, (4, 2), mode=(mode, "clip")) for mode in modes),
    ]
    expected = [
        reference.gather_nd(values, indices),
        *[reference.scatter_nd(values, indices, updates, "add")] * 2,
        reference.gather_nd(values, far, mode="fill", fill_value=7.0),
        *(reference.gather_windows(values, starts, (4, 2), (mode, "clip")) for mode in modes),
    ]
    for array in (indices, starts, updates, far, fill):
        array[...] = 1
    for each, wanted in zip(lazy, expected, strict=True):
        np.testing.assert_array_equal(each.compute(), wanted, strict=True)


@pytest.mark.parametrize("bad", [[(1, 0), (0, 3)], [(0, 3), (1, 0)], [(3, 3), (2, 0)]])
def test_first_error_in_c_order_may_be_in_any_block(bad):
    indices = np.zeros((4, 4), int)
    for value, place in enumerate(bad, 70):
        indices[place] = value
    lazy = da.from_array(indices, chunks=(2, 2))
    for call in (
        lambda: ndgather.gather(np.arange(5), lazy),
        lambda: ndgather.gather_elements(np.zeros((5, 4)), lazy),
    ):
        with pytest.raises(IndexOutOfBoundsError) as caught:
            call().compute(scheduler="sync")
        assert caught.value.position == min(bad)
        assert caught.value.value == indices[min(bad)]


def test_different_calls_with_lazy_indices_have_different_keys():
    """dask computes each key only once."""
    rows = np.array([[0, 9], [2, 1]])
    lazy, data = da.from_array(rows, chunks=(1, 2)), np.arange(12.0).reshape(3, 4)
    calls = [
        {"mode": "fill"},
        *({"mode": "fill", "fill_value": value} for value in (1.0, 2.0, np.nan)),
        *({"mode": mode} for mode in ("wrap", "clip")),
        *({"mode": mode, "axis": 1} for mode in ("wrap", "clip", "fill")),
    ]
    found = dask.compute(*(ndgather.gather(data, lazy, **options) for options in calls))
    for options, array in zip(calls, found, strict=True):
        np.testing.assert_array_equal(array, ndgather.gather(data, rows, **options))
