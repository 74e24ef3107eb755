"""Windows of stored arrays with any chunks, against plain loops."""

import itertools

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from ndgather import gather_windows
from ndgather.array_call import Call, Kind
from ndgather.errors import AttributeValueError, DTypeError, IndexOutOfBoundsError, ShapeError
from ndgather.stored.calls import gather
from ndgather.stored.chunks import Grid
from tests.definitions import reference
from tests.stored.cut_array import CutArray

MODES = ("raise", "clip", "fill", "wrap", "edge", "reflect")
DTYPES = ("?", "i1", "u2", ">i4", "f4", "f8", "c16", "M8[s]")


@st.composite
def calls(draw):
    """Draw an array, starts, a window shape and options; some windows extend past an end."""
    shape = tuple(draw(st.lists(st.integers(0, 9), min_size=1, max_size=3)))
    depth = draw(st.integers(0, len(shape)))
    mode = draw(st.sampled_from(MODES))
    modes = [mode] * depth
    if depth and draw(st.booleans()):
        modes = [draw(st.sampled_from(MODES)) for _ in range(depth)]
        mode = ",".join(modes)
    inside = ("raise", "clip")
    window = tuple(  # only mode fill supports windows longer than an empty axis
        draw(st.integers(0, size + 3 * (each == "fill" or (size > 0 and each not in inside))))
        for size, each in zip(shape, modes, strict=False)
    )
    lead = tuple(draw(st.lists(st.integers(0, 5), max_size=2)))
    starts = np.zeros((*lead, depth), draw(st.sampled_from(("i1", "i4", "i8", "u8"))))
    for p in np.ndindex(starts.shape):
        most = max(shape[p[-1]] - window[p[-1]], 0)
        stays = modes[p[-1]] == "raise"
        low = -12 if not stays and starts.dtype.kind == "i" else 0
        starts[p] = draw(st.integers(low, most if stays else 20))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    data = np.arange(1, np.prod(shape) + 1).astype(dtype).reshape(shape)
    return data, starts, window, mode


def listed(mode):
    return mode.split(",") if "," in mode else mode


def wanted(data, starts, window, mode):
    numbers = np.arange(1, data.size + 1).reshape(data.shape)
    places = reference.gather_windows(numbers, starts, window, listed(mode))
    values = np.concatenate([np.zeros(1, data.dtype), data.reshape(-1)])
    return values.astype(data.dtype)[places]


@given(call=calls(), draws=st.data())
def test_each_touched_chunk_of_any_grid_is_read_once(call, draws):
    data, starts, window, mode = call
    sizes = []
    for size in data.shape:
        cuts = draws.draw(st.lists(st.integers(min(size, 1), size), max_size=3))
        edges = sorted({0, size, *cuts})
        sizes.append([b - a for a, b in itertools.pairwise(edges)])
    reader = CutArray(data, Grid.of_sizes(sizes))
    desired = wanted(*call)
    out = np.empty(desired.shape[::-1], data.dtype).T if draws.draw(st.booleans()) else None
    made = Call(
        "gather_windows", Kind.GATHER_WINDOWS, data, starts, mode=mode, window_shape=window, out=out
    )
    np.testing.assert_array_equal(gather(made, reader), desired, strict=True)
    assert sorted(reader.reads) == touched(data, starts, window, mode, reader.grid)


def touched(data, starts, window, mode, grid):
    """Return the chunks that contain elements of the windows, element by element."""
    owner = np.zeros(data.shape, int)
    chunks = list(np.ndindex(*grid.counts))
    for number, chunk in enumerate(chunks):
        owner[grid.box(chunk)] = number + 1
    named = np.unique(reference.gather_windows(owner, starts, window, listed(mode)))
    return sorted(chunks[each - 1] for each in named if each)


def test_invalid_windows_are_refused_before_reads():
    data = np.arange(20).reshape(4, 5)
    reader = CutArray(data, Grid.regular((4, 5), (2, 2)))

    def call(starts, window=(2, 2), **options):
        made = Call("gather_windows", Kind.GATHER_WINDOWS, data, starts, window_shape=window)
        for name, value in options.items():
            object.__setattr__(made, name, value)
        return gather(made, reader)

    with pytest.raises(IndexOutOfBoundsError) as caught:
        call([[0, 0], [3, 4]])
    assert caught.value.position == (1, 0)
    assert "starts[1, 0] = 3 makes a window of size 2 extend past axis 0" in str(caught.value)
    with pytest.raises(ShapeError, match="window_shape"):
        call([[0, 0]], (9, 9))
    with pytest.raises(DTypeError, match=r"starts\.dtype"):
        call([[0.5, 0]])
    with pytest.raises(ShapeError, match=r"out\.shape"):
        call([[0, 0]], out=np.zeros((2, 2), int))
    with pytest.raises(ShapeError, match="more windows of a stored array"):
        call(np.broadcast_to(np.int8(0), (2**20, 2**13, 2)))
    with pytest.raises(AttributeValueError, match="does not use it"):
        call([[0, 0]], fill_value=3)
    assert reader.reads == []


@pytest.mark.parametrize("mode", ["raise", "fill"])
def test_many_small_windows_need_few_moves(mode):
    """Twenty thousand windows of 3 x 3 from 16 chunks take far less time than a loop."""
    data = np.random.default_rng(0).standard_normal((200, 200))
    starts = np.random.default_rng(1).integers(-2 if mode == "fill" else 0, 198, (20_000, 2))
    stored = zarr.create_array({}, data=data, chunks=(50, 50))
    found = gather_windows(stored, starts, (3, 3), mode=mode)
    padded = np.lib.stride_tricks.sliding_window_view(np.pad(data, 2), (3, 3))
    np.testing.assert_array_equal(found, padded[tuple(starts.T + 2)])


@pytest.mark.parametrize("mode", ["raise", "fill"])
def test_strings(mode):
    data = np.array(["ab", "", "cde", "f", "ghi"], np.dtypes.StringDType())
    stored = zarr.create_array(store={}, data=data, chunks=(2,))
    found = gather_windows(stored, [[0], [1], [2]], (3,), mode=mode)
    assert found.tolist() == [[*data[0:3]], [*data[1:4]], [*data[2:5]]]
    assert found.dtype == data.dtype


def test_out_may_share_memory_with_starts():
    data, count = np.arange(10), 2**17 + 50
    stored = zarr.create_array(store={}, data=data, chunks=(4,))
    memory = np.zeros(count * 2, np.int64)
    starts, out = memory[:count].reshape(count, 1), memory.reshape(count, 2)
    starts[:, 0] = np.arange(count) % 14 - 2
    expected = gather_windows(data, starts.copy(), (2,), mode="fill", fill_value=3)
    assert np.array_equal(
        gather_windows(stored, starts, (2,), mode="fill", fill_value=3, out=out), expected
    )
