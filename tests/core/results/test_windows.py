"""Windows match the plain loops in every mode and layout."""

import numpy as np
import pytest
from hypothesis import event, given, note
from hypothesis import strategies as st

from ndgather import gather_windows, vjp
from ndgather.errors import (
    AttributeValueError,
    DTypeError,
    IndexOutOfBoundsError,
    NdgatherError,
    ShapeError,
)
from tests.core.comparing import WRITEABLE_LAYOUTS
from tests.definitions import reference
from tests.definitions.calls import assert_same_elements, assert_taken, element_bytes, expected
from tests.definitions.draws import INDEX_DTYPES, distinct
from tests.definitions.strategies import arranged, calls

DATA = np.arange(20).reshape(4, 5)


@given(call=calls("gather_windows"))
def test_result_matches_the_definition(call):
    note(str(call))
    before = call.indices.copy()
    actual = call.result()
    assert_same_elements(actual, expected(call))
    np.testing.assert_array_equal(call.indices, before)
    assert actual.flags.c_contiguous
    assert not np.shares_memory(actual, call.data)
    event("empty" if not actual.size else str(call.mode))


@pytest.mark.parametrize("mode", ["edge", "reflect"])
def test_windows_larger_than_one_block(mode):
    """All 150 windows begin at the same position; each has 19 MiB."""
    data = np.arange(5 * 4096.0).reshape(5, 4096)
    rows = [0, 0, 0, 1] if mode == "edge" else [2, 1, 0, 1]
    found = gather_windows(data, np.full((150, 1), -2), (4,), mode=mode)
    np.testing.assert_array_equal(found, np.broadcast_to(data[rows], found.shape), strict=True)


PADDED = {"wrap": "wrap", "edge": "edge", "reflect": "reflect", "fill": "constant"}


@given(data=st.data())
def test_out_of_bounds_windows_match_numpy_pad(data):
    """Pad each axis, then cut windows as slices; pads may be wider than the axis."""
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    depth = data.draw(st.integers(1, len(shape)))
    modes = [data.draw(st.sampled_from(sorted(PADDED))) for _ in range(depth)]
    window = tuple(data.draw(st.integers(0, size + 4)) for size in shape[:depth])
    count = data.draw(st.integers(0, 6))
    starts = np.array(
        [[data.draw(st.integers(-16, 16)) for _ in range(depth)] for _ in range(count)], np.int64
    ).reshape(count, depth)
    numbers = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    padded = numbers
    for axis, mode in enumerate(modes):
        pads = [(0, 0)] * numbers.ndim
        pads[axis] = (16, 16 + window[axis])
        padded = np.pad(padded, pads, PADDED[mode])
    cuts = [
        tuple(slice(s + 16, s + 16 + w) for s, w in zip(start, window, strict=True))
        for start in starts.tolist()
    ]
    desired = np.array([padded[cut] for cut in cuts]).reshape(count, *window, *shape[depth:])
    mode = modes[0] if len({*modes}) == 1 and data.draw(st.booleans()) else modes
    found = gather_windows(numbers, starts, window, mode=mode)
    np.testing.assert_array_equal(found, desired, strict=True)


def test_patch_across_the_date_line():
    """Latitudes end at the poles, and longitudes wrap around."""
    world = np.add.outer(np.arange(0, 180, 10), np.arange(0, 36) / 100)
    [patch] = gather_windows(world, [[16, 34]], (2, 4), mode=("raise", "wrap"))
    np.testing.assert_array_equal(patch, np.hstack([world[16:18, 34:], world[16:18, :2]]))
    [patch] = gather_windows(world, [[17, 34]], (2, 4), mode=("edge", "wrap"))
    np.testing.assert_array_equal(patch[0], patch[1])
    with pytest.raises(
        IndexOutOfBoundsError, match=r"starts\[0, 0\] = 17 makes a window of size 2"
    ):
        gather_windows(world, [[17, 34]], (2, 4), mode=("raise", "wrap"))


@pytest.mark.parametrize("mode", ["wrap", "edge", "reflect"])
@pytest.mark.parametrize("dtype", INDEX_DTYPES)
def test_extremes_of_every_index_type_in_periodic_modes(mode, dtype):
    limits = np.iinfo(dtype)
    starts = np.array([[limits.min], [limits.max]], dtype)
    found = gather_windows(np.arange(5), starts, (7,), mode=mode)
    same = [[int(start) % 40 if mode != "edge" else min(max(start, -9), 9)] for [start] in starts]
    desired = reference.gather_windows(np.arange(5), np.array(same), (7,), mode)
    np.testing.assert_array_equal(found, desired)


@pytest.mark.parametrize("mode", ["wrap", "edge", "reflect", ("fill", "wrap")])
def test_empty_axis_cannot_be_extended(mode):
    with pytest.raises(ShapeError, match=r"window_shape\[1\] = 2 is more than data.shape\[1\] = 0"):
        gather_windows(np.zeros((3, 0)), [[0, 0]], (1, 2), mode=mode)
    assert gather_windows(np.zeros((3, 0)), [[0, 9]], (1, 0), mode=mode).shape == (1, 1, 0)


@given(call=calls("gather_windows"), draws=st.data())
def test_out_may_have_any_layout(call, draws):
    wanted = expected(call)
    out = draws.draw(arranged(distinct(wanted.shape, call.data.dtype), WRITEABLE_LAYOUTS))
    before = b"" if out.dtype.hasobject else element_bytes(out)
    assert call.result(out=out) is out
    assert_taken(out, before, wanted)


@given(call=calls("gather_windows", dtypes=[np.dtype("i2")]), shift=st.integers(0, 30))
def test_out_may_overlap_data(call, shift):
    wanted = expected(call)
    memory = np.zeros(max(call.data.size, wanted.size) + shift, "i2")
    data = memory[: call.data.size].reshape(call.data.shape)
    data[...] = call.data
    out = memory[shift : shift + wanted.size].reshape(wanted.shape)
    call.result(data, call.indices, out=out)
    assert_same_elements(out, wanted)


@pytest.mark.parametrize("out", [DATA, DATA[:1], DATA[0]])
def test_overlapping_out_of_wrong_shape_is_refused(out):
    with pytest.raises(ShapeError, match=r"out\.shape"):
        gather_windows(DATA, [[-1, 0]], (1, 1), mode="fill", out=out)


@pytest.mark.parametrize("dtype", INDEX_DTYPES)
def test_extremes_of_every_index_type(dtype):
    limits = np.iinfo(dtype)
    starts = np.array([[limits.min], [limits.max], [1]], dtype)
    clipped = gather_windows(np.arange(5), starts, (2,), mode="clip")
    np.testing.assert_array_equal(clipped, [[0, 1], [3, 4], [1, 2]])
    filled = gather_windows(np.arange(5), starts, (2,), mode="fill", fill_value=-1)
    first = [0, 1] if limits.min == 0 else [-1, -1]
    np.testing.assert_array_equal(filled, [first, [-1, -1], [1, 2]])


def test_result_matches_sliding_window_view(threads):
    rng = np.random.default_rng(0)
    data = rng.standard_normal((60, 50, 40, 2))
    starts = rng.integers(0, 30, (2, 500, 3))
    view = np.lib.stride_tricks.sliding_window_view(data, (9, 7, 8), (0, 1, 2))
    wanted = np.moveaxis(view[tuple(np.moveaxis(starts, -1, 0))], 2, -1)
    np.testing.assert_array_equal(gather_windows(data, starts, (9, 7, 8)), wanted, strict=True)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (
            (DATA, [[0, 0], [1, 4], [-1, 0]], (2, 2)),
            IndexOutOfBoundsError,
            "gather_windows: starts[1, 1] = 4 makes a window of size 2 extend past axis 1 of "
            "data, which has size 5 (allowed: 0..3); 2 of 6 entries of starts are out of bounds",
        ),
        (
            (DATA, [[-1]], (1,)),
            IndexOutOfBoundsError,
            "gather_windows: starts[0, 0] = -1 makes a window of size 1 extend past axis 0 of "
            "data, which has size 4 (allowed: 0..3)",
        ),
        (
            (DATA, [0, 1], (2,)),
            ShapeError,
            "gather_windows: starts.shape[-1] = 2 does not match window_shape = (2,) and data "
            "(4, 5); starts.shape = (2,) (allowed: 1, as window_shape has); index tuples are "
            "on the last axis, as argwhere returns them",
        ),
        (
            (DATA, [[0, 0, 0]], (1, 1, 1)),
            ShapeError,
            "gather_windows: starts.shape[-1] = 3 does not match window_shape = (1, 1, 1) and data "
            "(4, 5); starts.shape = (1, 3) (allowed: 0..2); index tuples are on the last axis, as "
            "argwhere returns them",
        ),
        (
            (DATA, 3, (1,)),
            ShapeError,
            "gather_windows: starts.shape = () has rank 0 (allowed: rank 1 or more); index tuples "
            "are on the last axis, as argwhere returns them",
        ),
        (
            (DATA, [[0, 0]], (2, 6)),
            ShapeError,
            "gather_windows: window_shape[1] = 6 is more than data.shape[1] = 5: no window "
            "fits (allowed: 0..5, or mode='fill')",
        ),
        (
            (DATA, [[0, 0]], 2),
            ShapeError,
            "gather_windows: window_shape = 2 is not a shape (allowed: a sequence of "
            "non-negative integers)",
        ),
        (
            (DATA, [[0.0, 0.0]], (1, 1)),
            DTypeError,
            "gather_windows: starts.dtype = float64 is not an integer type (allowed: int8..int64, "
            "uint8..uint64); if all are whole numbers, write np.asarray(starts).astype(int)",
        ),
        (
            (np.broadcast_to(DATA[0, 0], 2**59), [[0], [0]], (2**59,)),
            ShapeError,
            f"gather_windows: window_shape = ({2**59},) selects too many elements of data "
            f"({2**59},) (allowed: less than 2**63 bytes and at most 64 axes in total)",
        ),
    ],
)
def test_invalid_calls_are_refused(arguments, error, text):
    with pytest.raises(error) as caught:
        gather_windows(*arguments)
    assert type(caught.value) is error
    assert str(caught.value) == text


@pytest.mark.parametrize("mode", ["fill", "wrap", "edge", "reflect"])
def test_error_for_too_many_windows_names_the_shape_of_data(mode):
    with pytest.raises(ShapeError, match=r"selects too many elements of data \(9, 2\) \(allowed"):
        gather_windows(np.zeros((9, 2)), [[-5]], (2**61,), mode=mode)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (
            {"mode": "pad"},
            AttributeValueError,
            "(allowed: 'raise', 'clip', 'fill', 'wrap', 'edge', 'reflect')",
        ),
        ({"mode": ("wrap", "Edge")}, AttributeValueError, "mode = 'Edge' is unknown"),
        (
            {"mode": ["wrap"] * 3},
            AttributeValueError,
            "has 3 modes for windows with 2 axes (allowed: one mode for all axes, or one per axis",
        ),
        ({"mode": 3}, AttributeValueError, "mode = 3 is unknown"),
        ({"mode": "edge", "fill_value": 1}, AttributeValueError, "mode = 'edge' does not use it"),
        ({"mode": "fill", "window_shape": (10**30, 1)}, ShapeError, "too many elements of data"),
        ({"fill_value": 3}, AttributeValueError, "mode = 'raise' does not use it"),
        ({"fill_value": 0.5, "mode": "fill"}, DTypeError, "fill_value = 0.5"),
        ({"out": np.zeros((1, 2, 3), int)}, ShapeError, "(allowed: (1, 2, 2))"),
        ({"out": np.zeros((1, 2, 2), int).T}, ShapeError, "out.shape = (2, 2, 1)"),
        ({"out": np.zeros((1, 2, 2), "f4")}, DTypeError, "out.dtype = float32"),
        ({"out": [0]}, DTypeError, "out = list object"),
    ],
)
def test_invalid_options_are_refused(options, error, text):
    with pytest.raises(error) as caught:
        gather_windows(**({"data": DATA, "starts": [[0, 0]], "window_shape": (2, 2)} | options))
    assert text in str(caught.value)


@pytest.mark.parametrize("mode", ["raise"])
def test_error_has_attributes_and_out_is_unchanged(mode):
    out = np.arange(8).reshape(2, 2, 2)
    before = element_bytes(out)
    with pytest.raises(IndexOutOfBoundsError) as caught:
        gather_windows(DATA, [[0, 0], [3, 9]], (2, 2), mode=mode, out=out)
    error = caught.value
    assert (error.position, error.value, error.axis, error.size) == ((1, 0), 3, 0, 4)
    assert error.count == 2
    assert element_bytes(out) == before


@pytest.mark.parametrize("dtype", INDEX_DTYPES)
def test_one_negative_start_of_many_is_out_of_bounds(dtype):
    """The axis is longer than small index types reach, and the starts fill several blocks."""
    if np.dtype(dtype).kind == "u":
        return
    starts = np.zeros((300, 1), dtype)
    starts[200] = -1
    for size in (200, 40_000):
        out = np.full((300, 3), 7)
        with pytest.raises(IndexOutOfBoundsError) as caught:
            gather_windows(np.arange(size), starts, (3,), out=out)
        assert (caught.value.position, caught.value.count) == ((200, 0), 1)
        assert (out == 7).all()


@given(call=calls("gather_windows", dtypes=[np.dtype("f8")]))
def test_gradient_adds_each_window_at_its_source(call):
    shape, starts, options = call.data.shape, call.indices, call.options
    window, mode = options["window_shape"], options["mode"]
    numbers = np.arange(call.data.size).reshape(shape)
    sources = reference.gather_windows(numbers, starts, window, mode, -1)
    cotangent = distinct(sources.shape, np.dtype("i8")).astype("f8")
    wanted = np.zeros(call.data.size + 1)  # the last element stands for filled elements
    for source, value in zip(sources.flat, cotangent.flat, strict=True):
        wanted[source] += value
    found = vjp.gather_windows(cotangent, shape, starts, window, mode=mode)
    np.testing.assert_array_equal(found, wanted[:-1].reshape(shape), strict=True)


def test_gradient_uses_bounded_memory():
    starts = np.random.default_rng(1).integers(0, 200, (30_000, 2))
    cotangent = np.random.default_rng(2).standard_normal((30_000, 8, 9))
    wanted = np.zeros((208, 210))
    for start, each in zip(starts, cotangent, strict=True):
        wanted[start[0] : start[0] + 8, start[1] : start[1] + 9] += each
    found = vjp.gather_windows(cotangent, (208, 210), starts, (8, 9))
    np.testing.assert_array_equal(found, wanted, strict=True)


@pytest.mark.parametrize(
    "arguments",
    [
        ((np.zeros((1, 2, 3)), (4, 5), [[0, 0]], (2, 2))),
        ((np.zeros((1, 2, 2)), (4, 5), [[3, 0]], (2, 2))),
        ((np.zeros((1, 2, 2)), (4, 1), [[0, 0]], (2, 2))),
        ((np.zeros((1, 2, 2), bool), (4, 5), [[0, 0]], (2, 2))),
        ((np.zeros((1, 2, 2)), (4, 5), [[0.5, 0]], (2, 2))),
    ],
)
def test_invalid_gradients_are_refused(arguments):
    with pytest.raises(NdgatherError, match=r"vjp\.gather_windows: "):
        vjp.gather_windows(*arguments)
