"""Results at the edges: rank 0, empty arrays, lists, other array types."""

import random
import sys
from dataclasses import replace

import numpy as np
import pytest

import ndgather
from ndgather.errors import DTypeError, IndexOutOfBoundsError
from tests.definitions.calls import assert_same_elements, assert_taken, element_bytes, expected
from tests.definitions.draws import FUNCTIONS as DRAWN
from tests.definitions.draws import distinct, draw_call

FUNCTIONS = (ndgather.gather_nd, ndgather.gather_elements, ndgather.gather)
DATA = np.arange(24).reshape(2, 3, 4)


def test_rank_0_result_is_an_array():
    result = ndgather.gather_nd(DATA, [1, 2, 3])
    assert_same_elements(result, np.array(23))
    assert_same_elements(ndgather.gather(np.arange(3), 2), np.array(2))
    out = np.array(-1)
    assert ndgather.gather_nd(DATA, [1, 2, 3], out=out) is out
    assert_same_elements(out, np.array(23))


def test_batch_dims_of_all_axes_of_data():
    """With ``b == data.ndim`` only depth 0 remains, and each element is repeated."""
    desired = np.array(np.broadcast_to(DATA[..., np.newaxis], (2, 3, 4, 2)))
    assert_same_elements(ndgather.gather_nd(DATA, np.zeros((2, 3, 4, 2, 0), int), 3), desired)
    assert_same_elements(ndgather.gather_nd(DATA, np.zeros((2, 3, 4, 0), int), 3), DATA)


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_index_into_an_empty_axis_is_an_error(mode):
    """Even if the slice is empty, because no index is valid."""
    for data in (np.zeros((0, 3)), np.zeros((0, 0))):
        for call in (
            lambda data: ndgather.gather_nd(data, [[0]], mode=mode),
            lambda data: ndgather.gather(data, [0], mode=mode),
        ):
            with pytest.raises(IndexOutOfBoundsError):
                call(data)
    with pytest.raises(IndexOutOfBoundsError):
        ndgather.gather_elements(np.zeros((0, 3)), [[0, 0, 0]], mode=mode)


def test_index_into_an_empty_axis_is_filled():
    data = np.zeros((0, 3))
    desired = np.full((1, 3), 5.0)
    for fill in (5, 5.0, np.float64(5)):
        options = {"mode": "fill", "fill_value": fill}
        assert_same_elements(ndgather.gather_nd(data, [[0]], **options), desired)
        assert_same_elements(ndgather.gather(data, [0], **options), desired)
        assert_same_elements(ndgather.gather_elements(data, [[0, 0, 0]], **options), desired)


def test_empty_lists_are_indices():
    """An empty list has no dtype."""
    vector = np.arange(3)
    assert_same_elements(ndgather.gather_elements(vector, []), np.zeros(0, int))
    assert_same_elements(ndgather.gather(vector, []), np.zeros(0, int))
    assert_same_elements(ndgather.gather(DATA, [[], []], 1), np.zeros((2, 2, 0, 4), int))
    assert_same_elements(ndgather.gather_nd(DATA, [[]]), DATA[np.newaxis].copy())


def test_lists_tuples_and_scalars_are_arrays():
    assert_same_elements(ndgather.gather_nd([[1, 2], [3, 4]], [[1, 0]]), np.array([3]))
    assert_same_elements(
        ndgather.gather_elements((1.5, 2.5), (1, 0, -1)), np.array([2.5, 1.5, 2.5])
    )
    assert_same_elements(ndgather.gather(["a", "bc"], [1]), np.array(["bc"]))
    assert_same_elements(ndgather.gather(range(5), np.int8(-1)), np.array(4))
    assert_same_elements(ndgather.gather([b"ab"], True * 0), np.array(b"ab"))


def test_memory_maps_give_plain_arrays(tmp_path):
    mapped = np.memmap(tmp_path / "data", np.int32, "w+", shape=(2, 3))
    mapped[...] = [[1, 2, 3], [4, 5, 6]]
    assert_same_elements(ndgather.gather(mapped, [1]), np.array([[4, 5, 6]], np.int32))
    indices = np.memmap(tmp_path / "indices", np.int64, "w+", shape=(1,))
    assert_same_elements(ndgather.gather(mapped, indices), np.array([[1, 2, 3]], np.int32))
    mapped.flush()


def test_array_interface_is_accepted():
    class Wrapped:
        __array_interface__ = DATA.__array_interface__

    assert_same_elements(ndgather.gather_nd(Wrapped(), [[1]]), DATA[1:].copy())


@pytest.mark.parametrize("data", [object(), {1: 2}, [[1, 2], [3]], lambda: 0])
@pytest.mark.parametrize("call", FUNCTIONS)
def test_non_arrays_are_refused(call, data):
    with pytest.raises(DTypeError):
        call(data, [[0]])
    with pytest.raises(DTypeError):
        call(np.arange(3), data)


@pytest.mark.parametrize("call", FUNCTIONS)
def test_result_is_new_and_writeable(call):
    data = np.arange(3)
    data.flags.writeable = False
    indices = np.array([[0]]) if call is ndgather.gather_nd else np.array([0])
    result = call(data, indices)
    result[...] = 9
    np.testing.assert_array_equal(data, [0, 1, 2], strict=True)


def test_out_of_a_subclass_keeps_its_class():
    out = np.zeros(1, np.int64).view(type("Tagged", (np.ndarray,), {}))
    assert ndgather.gather_nd(DATA, [[1, 2, 3]], out=out) is out
    np.testing.assert_array_equal(out.view(np.ndarray), [23], strict=True)


def test_empty_out_of_any_strides():
    out = np.lib.stride_tricks.as_strided(np.zeros(4), (0, 5), (0, 0))
    assert ndgather.gather_nd(np.zeros((2, 5)), np.zeros((0, 1), int), out=out) is out


@pytest.mark.parametrize("dtype", ["V0", "S0", "U0", []], ids=str)
def test_elements_of_zero_bytes(dtype):
    data = np.empty((2, 3), dtype)
    for width_kept in (data.dtype.itemsize,):
        actual = ndgather.gather_nd(data, [[1], [0], [1]])
        assert actual.shape == (3, 3)
        assert actual.dtype.itemsize == width_kept
    with pytest.raises(IndexOutOfBoundsError):
        ndgather.gather_nd(data, [[2]])


@pytest.mark.parametrize(
    ("shape", "place"), [((1, 46342, 46341), (0, 46341, 0)), ((2, 65536, 65535), (1, 0, 61440))]
)
def test_flat_offsets_beyond_32_bits(shape, place):
    """Shapes whose flat offsets need more than 32 bits, made by repeating one row."""
    row = np.arange(shape[-1], dtype=np.int32)
    data = np.broadcast_to(row, shape)
    assert_same_elements(ndgather.gather_nd(data, [place]), row[[place[-1]]])
    with pytest.raises(IndexOutOfBoundsError) as caught:
        ndgather.gather_nd(data, [(place[0], place[1], shape[2])])
    assert caught.value.axis == 2


@pytest.mark.parametrize("value", [(2, 0), (0, 2), (0, 3), (1, 2), (3, -1), (-3, 0), (0, -3)])
def test_each_component_is_checked_separately(value):
    """Several of these tuples have a flat offset within data."""
    with pytest.raises(IndexOutOfBoundsError) as caught:
        ndgather.gather_nd(np.arange(4).reshape(2, 2), [value])
    assert caught.value.position == (0, 0 if not -2 <= value[0] < 2 else 1)


@pytest.mark.parametrize(
    ("data_size", "lead"),
    [(2**20, (2**40,)), (2**30, (2**40,)), (2**61, (8, 8)), (2**62, (2**50,))],
)
def test_result_too_large_for_memory(data_size, lead):
    data = np.broadcast_to(np.int8(1), (data_size,))
    with pytest.raises(MemoryError):
        ndgather.gather_nd(data, np.zeros((*lead, 0), np.int8))


def test_result_too_large_for_memory_from_valid_indices():
    data = np.broadcast_to(np.int64(1), (3, 2**40))
    indices = np.broadcast_to(np.int8(2), (2**20, 1))
    before = indices.copy()
    with pytest.raises(MemoryError):
        ndgather.gather_nd(data, indices)
    np.testing.assert_array_equal(indices, before)
    with pytest.raises(MemoryError):
        ndgather.gather(data, np.broadcast_to(np.int8(0), (2**30,)), axis=1)


def test_ranks_up_to_the_limit_of_numpy():
    data = np.arange(16).reshape((1,) * 30 + (2, 2, 2, 2) + (1,) * 30)
    place = (0,) * 30 + (1, 0, 1, 1) + (0,) * 30
    assert_same_elements(ndgather.gather_nd(data, [place]), np.array([11]))
    assert_same_elements(ndgather.gather_nd(data, place), np.array(11))
    indices = np.ones((1,) * 33 + (1,) + (1,) * 30, int)
    taken = ndgather.gather_elements(data, indices, 33)
    assert_same_elements(taken, np.ones(indices.shape, int))
    assert_same_elements(ndgather.gather(data, 1, 30), data[(0,) * 30 + (1,)][(np.newaxis,) * 30])


@pytest.mark.parametrize("order", ["C", "F"])
def test_many_axes_that_do_not_merge(order):
    """Slices and positions have a gap on every axis."""
    whole = np.asarray(np.arange(4**6).reshape((4,) * 6), order=order)
    data = whole[tuple(slice(None, None, 2 - d % 2 * 3) for d in range(6))]
    lead = np.random.default_rng(0).integers(-data.shape[0], data.shape[0], (3, 2, 4, 1))
    indices = lead[:, ::-1, ::2]
    assert_same_elements(ndgather.gather_nd(data, indices), data[indices[..., 0]].copy())


def test_references_are_counted():
    """The result owns objects, `out` releases its old ones, and errors leave them alone."""
    kept, other = object(), object()
    data = np.array([kept, other, None], object)
    before = sys.getrefcount(kept)
    result = ndgather.gather_nd(data, [[0], [0], [1]])
    assert sys.getrefcount(kept) == before + 2
    assert ndgather.gather(data, [1, 2, 2], out=result) is result
    assert sys.getrefcount(kept) == before
    with pytest.raises(IndexOutOfBoundsError):
        ndgather.gather(data, [0, 0, 3], out=result)
    assert sys.getrefcount(kept) == before
    assert result.tolist() == [other, None, None]
    many = np.zeros(600_000, int)  # in reused memory
    assert ndgather.gather(data, many)[-1] is kept
    for indices in (np.append(many, 3), [3]):
        with pytest.raises(IndexOutOfBoundsError):
            ndgather.gather(data, indices)
    assert sys.getrefcount(kept) == before
    assert ndgather.gather(np.empty(2, object), [1, 0]).tolist() == [
        None,
        None,
    ]  # without references
    for mode in ("wrap", "clip", "fill"):
        for _ in range(100):
            ndgather.gather_elements(data, [0, 1, 5], mode=mode)
    assert sys.getrefcount(kept) == before


def test_strings_of_any_length():
    """Long strings are stored outside the array; result and `out` have their own arenas."""
    kind = np.dtypes.StringDType()
    data = np.array(["", "short", "of a middling length", "long " * 100], kind)
    indices = np.array([3, 0, 2, 1, -1])
    desired = data[indices]
    result = ndgather.gather(data, indices)
    out = np.array(["x" * 50] * 5, np.dtypes.StringDType())
    assert ndgather.gather(data, indices, out=out) is out
    del data
    np.testing.assert_array_equal(result, desired, strict=True)
    np.testing.assert_array_equal(out, desired, strict=True)


@pytest.mark.parametrize("shape", [(4, 1), (4, 3), (4, 1, 2)])
def test_rows_of_strings_are_correct_or_refused(shape):
    """NumPy before 2.3.2 mixes up the strings of rows, or frees them twice."""
    data = np.array([f"{n} " * 60 for n in range(np.prod(shape))], np.dtypes.StringDType())
    data = data.reshape(shape)
    calls = [
        lambda: ndgather.gather_nd(data, [[2], [0]]),
        lambda: ndgather.gather(data, [2, 0]),
        lambda: ndgather.scatter_nd(data, [[2], [0]], data[2:]),
    ]
    plain = data.astype(object)
    for call, rows in zip(calls, [plain[[2, 0]], plain[[2, 0]], None], strict=True):
        if np.lib.NumpyVersion(np.__version__) < "2.3.2":
            with pytest.raises(DTypeError, match=r"mixes up .* \(allowed: NumPy 2\.3\.2 or newer"):
                call()
        elif rows is not None:
            assert call().tolist() == rows.tolist()
        else:
            assert call()[[2, 0]].tolist() == plain[2:].tolist()
    points = [[*n] for n in np.ndindex(shape)]
    assert ndgather.gather_nd(data, points).tolist() == plain.ravel().tolist()


@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.3.2", reason="NumPy mixes up rows of strings"
)
@pytest.mark.parametrize("fill_value", ["", "short", "☃" * 9, "long " * 60])
@pytest.mark.parametrize("shape", [(36, 1), (6, 6), (6, 3, 2), (36, 1, 1)])
def test_strings_of_any_length_are_filled(shape, fill_value):
    kind = np.dtypes.StringDType()
    texts = ["0", "middle " * 3, "long " * 50, "x" * 255, "y" * 256, ""]
    data = np.array([texts[n:] + texts[:n] for n in range(6)], kind).reshape(shape)
    indices = [[5], [99], [2], [-99], [2], [0]]
    options = {"mode": "fill", "fill_value": fill_value}
    filled = np.full(data.shape[1:], fill_value, kind).tolist()
    rows = [filled if abs(n) == 99 else data[n].tolist() for (n,) in indices]
    for out in (None, np.full((6, *data.shape[1:]), "before " * 9, kind)):
        found = ndgather.gather_nd(data, np.array(indices), **options, out=out)
        assert found.tolist() == rows
    starts = np.array([0, len(data) - 2])
    found, _ = ndgather.gather_ranges(data, starts, lengths=np.array([1, 4]), **options)
    assert found.tolist() == [data[0].tolist(), *data[-2:].tolist(), filled, filled]


def test_missing_strings_stay_missing():
    kind = np.dtypes.StringDType(na_object=None)
    data = np.array(["a", None], kind)
    assert ndgather.gather(data, [1, 0, 1]).tolist() == [None, "a", None]


def test_structures_with_references():
    kind = np.dtype([("name", "O"), ("number", "i4")])
    data = np.array([("one", 1), (["two"], 2)], kind)
    result = ndgather.gather_nd(data, [[1], [0], [1]])
    assert result.dtype == kind
    assert result.tolist() == [(["two"], 2), ("one", 1), (["two"], 2)]
    assert result["name"][0] is data["name"][1]


@pytest.mark.parametrize("function", ["gather", "gather_nd", "gather_elements", "gather_windows"])
def test_fields_with_references_keep_other_fields_of_out(function):
    kind = np.dtype([("name", "O"), ("number", "i4"), ("last", "i2")])
    data = np.array([("one", 1, 7), (["two"], 2, 8)], kind)[["name", "last"]]
    indices = [[1], [0]] if function in ("gather_nd", "gather_windows") else [1, 0]
    window = {"window_shape": (1,)} if function == "gather_windows" else {}
    out = np.array([("", 3, 0), ("", 4, 0)], kind)
    view = out[["name", "last"]].reshape(2, *window.get("window_shape", ()))
    assert getattr(ndgather, function)(data, indices, out=view, **window) is view
    assert out.tolist() == [(["two"], 3, 8), ("one", 4, 7)]


def record(choose, depth=2):
    """Draw a record dtype with gaps: nested, aligned, views of fields, subarrays."""
    fields = []
    for name in "abcd"[: choose.randint(1, 4)]:
        kinds = [np.dtype(kind) for kind in ("u1", ">i2", "f8", "S3", "V5", "g")]
        kind = (
            record(choose, depth - 1) if depth and choose.random() < 0.3 else choose.choice(kinds)
        )
        fields.append((name, kind, choose.choice([(), (), (2,), (1, 2)])))
    whole = np.dtype(fields, align=choose.random() < 0.5)
    chosen = [name for name in whole.names if choose.random() < 0.6]
    return np.zeros(1, whole)[chosen].dtype if chosen else whole


@pytest.mark.parametrize("function", [name for name in DRAWN if not name.startswith("vjp")])
def test_padding_of_records_is_unchanged(function, draws):
    for number in range(60):
        seed = f"{draws.random()} {number}"
        choose = random.Random(seed)
        reductions = {"reductions": ("none",)}
        call = draw_call(
            choose, function, dtypes=[record(choose)], flavours=["value"], **reductions
        )
        print(f"Random({seed!r})\n{call}")
        try:
            desired = expected(call)
        except IndexError:  # rarely, if the index dtype is narrow
            continue
        out = distinct((*desired.shape, 2), desired.dtype)[..., choose.randrange(2)]
        if call.scatters and choose.random() < 0.5:
            out.view(f"V{out.itemsize}")[...] = call.data.view(f"V{out.itemsize}")
            call = replace(call, data=out)
        before = element_bytes(out)
        assert call.result(out=out) is out
        assert_taken(out, before, desired)
