"""Ranges along one axis match the plain loops in every mode and layout."""

import numpy as np
import pytest
from hypothesis import event, given, note
from hypothesis import strategies as st

import ndgather
from ndgather import gather_ranges, vjp
from ndgather.errors import (
    AttributeValueError,
    CallError,
    DTypeError,
    IndexOutOfBoundsError,
    ShapeError,
)
from tests.core.comparing import WRITEABLE_LAYOUTS
from tests.definitions import reference
from tests.definitions.calls import (
    LAYOUTS,
    assert_same_elements,
    assert_taken,
    element_bytes,
    expected,
)
from tests.definitions.draws import INDEX_DTYPES, MODES, distinct, random_generator
from tests.definitions.strategies import arranged, calls

DATA = np.array([10, 11, 20, 30, 31, 32])


@pytest.mark.parametrize("char", np.typecodes["AllInteger"])
@pytest.mark.parametrize("mode", MODES["gather_ranges"])
def test_integer_types_of_equal_size_are_interchangeable(mode, char):
    """NumPy has two 64-bit integer types, and only one of them is np.int64."""
    starts, stops = np.array([4, 0], char), np.array([6, 1], char)
    values, offsets = gather_ranges(DATA, starts, stops, mode=mode)
    assert (values.tolist(), offsets.tolist()) == ([31, 32, 10], [0, 2, 3])


FARTHEST = np.iinfo(np.int64)


@pytest.mark.parametrize("shape", [(6,), (2**63 - 1,)], ids=str)
@pytest.mark.parametrize(
    ("start", "stop", "error"),
    [
        (2**62, FARTHEST.min, AttributeValueError),
        (FARTHEST.min, FARTHEST.max, MemoryError),
        (FARTHEST.max, FARTHEST.min, AttributeValueError),
    ],
)
def test_stop_minus_start_does_not_overflow(shape, start, stop, error):
    """With 64-bit arithmetic, the last difference would be a range of one entry."""
    data = np.broadcast_to(np.uint8(1), shape)
    with pytest.raises(error, match=str(2**64 - 1 if error is MemoryError else stop)):
        gather_ranges(data, np.array([start]), np.array([stop]))


@given(call=calls("gather_ranges"))
def test_result_matches_the_definition(call):
    note(str(call))
    wanted = expected(call)
    found, offsets = gather_ranges(*call.arguments(), **call.options)
    assert_same_elements(found, wanted)
    data, starts, stops = call.arrays
    lengths = np.array([stop - start for start, stop in zip(starts, stops, strict=True)], np.int64)
    np.testing.assert_array_equal(offsets, [0, *np.cumsum(lengths)])
    assert offsets.dtype == np.int64
    assert found.flags.c_contiguous
    assert not np.shares_memory(found, data)
    assert_same_elements(gather_ranges(data, starts, lengths=lengths, **call.options)[0], wanted)
    event("empty" if not found.size else call.mode)


@given(call=calls("gather_ranges"), draws=st.data())
def test_out_may_have_any_layout(call, draws):
    wanted = expected(call)
    out = draws.draw(arranged(distinct(wanted.shape, call.data.dtype), WRITEABLE_LAYOUTS))
    before = b"" if out.dtype.hasobject else element_bytes(out)
    assert call.result(out=out) is out
    assert_taken(out, before, wanted)


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("of_out", sorted({*WRITEABLE_LAYOUTS} - {"mixed"}))
@pytest.mark.parametrize("of_data", sorted({*WRITEABLE_LAYOUTS} - {"mixed"}))
def test_data_and_out_may_have_different_layouts(of_data, of_out, axis, draws):
    """What is contiguous in one of both need not be in the other."""
    rng = random_generator(draws)
    shape = tuple(rng.integers(2, 5, 3))
    data = LAYOUTS[of_data](rng.integers(0, 1000, shape))
    starts = rng.integers(0, shape[axis], 3)
    stops = rng.integers(starts, shape[axis], endpoint=True)
    rows = [at for each in zip(starts, stops, strict=True) for at in range(*each)]
    wanted = data.take(rows, axis)
    out = LAYOUTS[of_out](np.full(wanted.shape, -1))
    before = element_bytes(out)
    gather_ranges(data, starts, stops, axis=axis, out=out)
    assert_taken(out, before, wanted)


@given(call=calls("gather_ranges", dtypes=[np.dtype("i2")]), shift=st.integers(0, 30))
def test_out_may_overlap_data(call, shift):
    wanted = expected(call)
    memory = np.zeros(max(call.data.size, wanted.size) + shift, "i2")
    data = memory[: call.data.size].reshape(call.data.shape)
    data[...] = call.data
    out = memory[shift : shift + wanted.size].reshape(wanted.shape)
    call.result(data, call.indices, call.stops, out=out)
    assert_same_elements(out, wanted)


PADDED = np.dtype({"names": ["n", "x"], "formats": ["u1", "i4"], "offsets": [0, 4], "itemsize": 8})


@pytest.mark.parametrize(
    "call",
    [
        lambda data, out: gather_ranges(data, [0], [3], out=out)[0],
        lambda data, out: ndgather.gather(data, [0, 1, 2], out=out),
    ],
    ids=["gather_ranges", "gather"],
)
def test_fields_are_copied_into_an_out_that_overlaps(call):
    memory = np.arange(32, dtype=np.uint8)
    data, wanted = memory.view(PADDED), memory[:24].copy().view(PADDED)
    before = element_bytes(data[1:])
    out = call(data, data[1:])
    assert_taken(out, before, wanted)


def test_many_ranges_on_many_threads(threads):
    del threads
    rng = np.random.default_rng(0)
    data = rng.integers(0, 2**31, 1 << 20, dtype=np.int32)
    lengths = rng.integers(0, 50, 40_000)
    lengths[rng.integers(0, 40_000, 3)] = 300_000
    starts = rng.integers(0, len(data) - lengths)
    values, offsets = gather_ranges(data, starts, lengths=lengths)
    wanted = [data[start : start + count] for start, count in zip(starts, lengths, strict=True)]
    np.testing.assert_array_equal(values, np.concatenate(wanted))
    np.testing.assert_array_equal(offsets, [0, *np.cumsum(lengths)])


def test_one_range_is_shared_between_threads(threads):
    del threads
    data = np.arange(3 << 20).reshape(3, 1 << 20)
    for axis, wanted in ((0, data[1:3]), (1, data[:, 1:])):
        start, stop = [1], [data.shape[axis]]
        np.testing.assert_array_equal(gather_ranges(data, start, stop, axis=axis)[0], wanted)


def test_single_length_applies_to_all_ranges():
    values, offsets = gather_ranges(DATA, [0, 3], lengths=2)
    assert (values.tolist(), offsets.tolist()) == ([10, 11, 30, 31], [0, 2, 4])


@pytest.mark.parametrize(
    ("starts", "options", "error", "text"),
    [
        ([0, -2], {"stops": [1, 3]}, IndexOutOfBoundsError, r"starts\[1\] = -2 is before axis 0 of "
         r"data, which has size 6 \(allowed: 0\.\.5\); counted from the end, it is 4$"),
        ([-6], {"lengths": 1}, IndexOutOfBoundsError, "starts.*; counted from the end, it is 0$"),
        ([-7], {"lengths": 1}, IndexOutOfBoundsError, r"starts.*\(allowed: 0\.\.5\)$"),
        ([0, 7], {"stops": [1, 8]}, IndexOutOfBoundsError, r"starts\[1\] = 7 is beyond axis 0"),
        ([0, 4], {"stops": [1, 9]}, IndexOutOfBoundsError, r"stops\[1\] = 9 is beyond axis 0 of "
         r"data, which has size 6 \(allowed: 4\.\.6\)$"),
        ([0, 4, 5], {"lengths": [1, 3, 2]}, IndexOutOfBoundsError, r"lengths\[1\] = 3 from "
         r"starts\[1\] = 4 ends beyond axis 0 .*\(allowed: 0\.\.2\); 2 of 3 ranges are out of "
         r"bounds$"),
        ([0, 4], {"stops": [1, 3]}, AttributeValueError, r"stops\[1\] = 3 is before starts\[1\] = "
         r"4 \(allowed: 4 or more\)$"),
        ([0], {"lengths": [-1]}, AttributeValueError, r"lengths\[0\] = -1 is negative"),
        ([0], {}, CallError, "neither stops nor lengths is given"),
        ([0], {"stops": [1], "lengths": [1]}, CallError, "both stops and lengths are given"),
        ([[0]], {"stops": [[1]]}, ShapeError, r"starts\.shape = \(1, 1\) has 2 axes"),
        ([0], {"stops": [1, 2]}, ShapeError, r"stops\.shape = \(2,\) differs from starts\.shape"),
        ([0.5], {"stops": [1]}, DTypeError, "starts.* float64"),
        ([0], {"stops": [1.5]}, DTypeError, "stops.* float64"),
        ([True], {"lengths": [1]}, DTypeError, "starts.* bool"),
        ([0], {"stops": [1], "axis": 1}, AttributeValueError, "axis = 1"),
        ([0], {"stops": [1], "mode": "drop"}, AttributeValueError, "mode = 'drop'"),
        ([0], {"stops": [1], "fill_value": 3}, AttributeValueError, "fill_value"),
        ([0], {"stops": [1], "out": np.zeros(2, int)}, ShapeError, r"out\.shape = \(2,\)"),
        ([0], {"stops": [1], "out": np.zeros(1)}, DTypeError, r"out\.dtype"),
        ([0], {"lengths": 2**62}, IndexOutOfBoundsError, r"lengths\[0\]"),
    ],
)  # fmt: skip
def test_errors_name_the_entry(starts, options, error, text):
    with pytest.raises(error, match=f"^gather_ranges: {text}"):
        gather_ranges(DATA, starts, **options)


@pytest.mark.parametrize("start", range(len(DATA) + 1))
def test_range_may_end_at_the_end_of_the_axis(start):
    size, starts = len(DATA), np.array([0, start])
    values, _ = gather_ranges(DATA, starts, lengths=np.array([1, size - start]))
    assert values.tolist() == [DATA[0], *DATA[start:]]
    for options in ({"stops": [1, size + 1]}, {"lengths": [1, size + 1 - start]}):
        ends = {name: np.array(each) for name, each in options.items()}
        with pytest.raises(IndexOutOfBoundsError, match=r"\[1\] = "):
            gather_ranges(DATA, starts, **ends)


def test_error_has_attributes():
    with pytest.raises(IndexOutOfBoundsError) as caught:
        gather_ranges(np.zeros((3, 4)), [0, 2, 3], [1, 6, 9], axis=-1)
    error = caught.value
    assert (error.position, error.value, error.axis, error.size, error.count) == ((1,), 6, 1, 4, 2)


def test_empty_ranges_are_valid_anywhere_and_scalars_are_refused():
    values, offsets = gather_ranges(DATA, [99, -99], [99, -99])
    assert (values.tolist(), offsets.tolist()) == ([], [0, 0, 0])
    assert gather_ranges(DATA, [], [])[1].tolist() == [0]
    assert gather_ranges(np.zeros((0, 2)), [0], [0])[0].shape == (0, 2)
    with pytest.raises(ShapeError, match="data"):
        gather_ranges(3, [0], [1])
    with pytest.raises(IndexOutOfBoundsError, match=r"size 0 \(allowed: empty ranges\)"):
        gather_ranges(np.zeros(0), [0], [1])
    with pytest.raises(ShapeError, match="size 0 cannot be read with mode = 'wrap'"):
        gather_ranges(np.zeros(0), [0], [1], mode="wrap")
    assert gather_ranges(np.zeros(0), [0], [1], mode="fill")[0].tolist() == [0]


@pytest.mark.parametrize("dtype", INDEX_DTYPES)
def test_extremes_of_every_index_type(dtype):
    limits = np.iinfo(dtype)
    with pytest.raises(IndexOutOfBoundsError):
        gather_ranges(
            DATA, np.array([limits.min, limits.max - 1], dtype), lengths=1 + (limits.min == 0) * 6
        )
    ends = np.array([limits.max], dtype)
    assert gather_ranges(DATA, ends, ends)[0].size == 0


FAR = [
    sign * 2**power + by for power in (60, 61, 62, 63) for sign in (-1, 1) for by in (-6, -1, 0, 1)
]
FAR = [start for start in FAR if -(2**63) <= start < 2**63] + [2**63, 2**63 + 5, 2**64 - 9]


@pytest.mark.parametrize("mode", MODES["gather_ranges"])
@pytest.mark.parametrize("start", FAR)
@pytest.mark.parametrize("length", [0, 1, 7])
def test_huge_starts_match_python_integers(mode, start, length):
    """Like unbounded Python integers, starts are neither clipped nor wrapped at 64 bits."""
    kind = np.uint64 if start >= 2**63 else np.int64
    length = min(length, np.iinfo(kind).max - start)
    size = len(DATA)
    starts, stops = np.array([1, start], kind), np.array([3, start + length], kind)
    for options in ({"stops": stops}, {"lengths": np.array([2, length])}):
        if mode == "raise" and length:
            with pytest.raises(IndexOutOfBoundsError, match=rf"starts\[1\] = {start} is ") as error:
                gather_ranges(DATA, starts, **options, mode=mode)
            assert error.value.value == start
            continue
        positions = [1, 2, *range(start, start + length)]
        if mode == "wrap":
            wanted = [DATA[at % size] for at in positions]
        elif mode == "clip":
            wanted = [DATA[min(max(at, 0), size - 1)] for at in positions]
        else:
            wanted = [DATA[at] if 0 <= at < size else 0 for at in positions]
        values, offsets = gather_ranges(DATA, starts, **options, mode=mode)
        assert values.tolist() == wanted
        assert offsets.tolist() == [0, 2, 2 + length]
        if length:
            begins, ends = np.array([1, start + length], kind), np.array([3, start], kind)
            text = rf"stops\[1\] = {start} is before starts\[1\] = {start + length} "
            with pytest.raises(AttributeValueError, match=text):
                gather_ranges(DATA, begins, ends, mode=mode)


def test_huge_starts_on_an_empty_axis():
    assert gather_ranges(DATA[:0], [2**62], [2**62 + 2], mode="fill")[0].tolist() == [0, 0]
    with pytest.raises(ShapeError, match="size 0 cannot be read with mode = 'wrap'"):
        gather_ranges(DATA[:0], [2**62], [2**62 + 2], mode="wrap")
    with pytest.raises(MemoryError):
        gather_ranges(DATA, [-(2**63)], [2**62], mode="clip")


def test_results_that_do_not_fit_in_memory():
    with pytest.raises(MemoryError, match="gather_ranges"):
        gather_ranges(DATA, np.zeros(2**13, int), lengths=2**50, mode="wrap")
    data = np.broadcast_to(np.zeros(1), 2**50)
    with pytest.raises(MemoryError):
        gather_ranges(data, np.zeros(2**10, int), lengths=2**50)
    for mode in ("wrap", "clip", "fill"):
        for length in (2**58, 2**60 - 1, 2**60, 2**61, 2**62, 2**63 - 1):
            with pytest.raises(MemoryError):
                gather_ranges(DATA, [-5], lengths=length, mode=mode)


def test_mapped_files(tmp_path):
    np.save(tmp_path / "a.npy", DATA)
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r+")
    values, _ = gather_ranges(mapped, [3], [6])
    assert type(values) is np.ndarray
    assert values.tolist() == [30, 31, 32]
    out = np.load(tmp_path / "a.npy", mmap_mode="r+")[:2]
    assert gather_ranges(DATA, [4], [6], out=out)[0] is out
    assert np.load(tmp_path / "a.npy")[:2].tolist() == [31, 32]


def test_masked_arrays_and_lists():
    masked = np.ma.array(DATA, mask=DATA == 30)
    values, _ = gather_ranges(masked, [2], [5])
    assert values.mask.tolist() == [False, True, False]
    assert gather_ranges([1, 2, 3], [1], [3])[0].tolist() == [2, 3]


@given(call=calls("gather_ranges", dtypes=[np.dtype("f8"), np.dtype("i4")], modes=["raise"]))
def test_gradient_adds_each_range_at_its_source(call):
    data, starts, stops = call.arrays
    axis = call.options["axis"]
    starts, stops = starts.astype(int), stops.astype(int)
    values, offsets = reference.gather_ranges(data, starts, stops, axis)
    cotangent = np.arange(1, values.size + 1).astype(data.dtype).reshape(values.shape)
    wanted = np.zeros(data.shape, data.dtype)
    for start, stop, first in zip(starts, stops, offsets, strict=False):
        for n in range(stop - start):
            lead = (slice(None),) * (axis % data.ndim)
            wanted[(*lead, start + n)] += cotangent[(*lead, first + n)]
    found = vjp.gather_ranges(cotangent, data.shape, starts, stops, axis=axis)
    np.testing.assert_array_equal(found, wanted, strict=True)
    lengths = stops - starts
    found = vjp.gather_ranges(cotangent, data.shape, starts, lengths=lengths, axis=axis)
    np.testing.assert_array_equal(found, wanted)


def test_errors_of_the_gradient():
    with pytest.raises(ShapeError, match=r"vjp\.gather_ranges: cotangent\.shape = \(3,\)"):
        vjp.gather_ranges(np.zeros(3), (4,), [0], [2])
    with pytest.raises(IndexOutOfBoundsError, match=r"vjp\.gather_ranges: stops\[0\] = 5"):
        vjp.gather_ranges(np.zeros(5), (4,), [0], [5])
    with pytest.raises(DTypeError, match="cotangent"):
        vjp.gather_ranges(np.zeros(2, bool), (4,), [0], [2])


def test_function_is_public():
    assert "gather_ranges" in ndgather.__all__
