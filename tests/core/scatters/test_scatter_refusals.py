"""Refused scatters: the class and the full text of the error, and that nothing is modified."""

import ml_dtypes
import numpy as np
import pytest

import ndgather
from ndgather.errors import (
    AttributeValueError,
    DTypeError,
    IndexOutOfBoundsError,
    NdgatherError,
    ShapeError,
)

INTS = np.arange(6).reshape(2, 3)
READ_ONLY = np.arange(6).reshape(2, 3)
READ_ONLY.flags.writeable = False
REPEATED = np.lib.stride_tricks.as_strided(np.zeros(3, int), (2, 3), (0, 8))
OBJECTS = np.array([[None, 1, 2], ["a", 4, 5]], object)
ALL = "'none', 'add', 'sub', 'mul', 'min', 'max', 'mean'"

ND = {"data": INTS, "indices": np.array([[0], [1]]), "updates": INTS}
ELEMENTS = {"data": INTS, "indices": np.array([[1, 0, 1]]), "updates": INTS[:1]}

CASES = [
    # index values
    (ND | {"indices": [[0], [2]]}, IndexOutOfBoundsError,
     "scatter_nd: indices[1, 0] = 2 is outside axis 0 of data, which has size 2 (allowed: -2..1)"),
    (ND | {"indices": np.array([[[0, -4]], [[3, 0]]]), "updates": np.zeros((2, 1), int)},
     IndexOutOfBoundsError,
     "scatter_nd: indices[0, 0, 1] = -4 is outside axis 1 of data, which has size 3 (allowed: "
     "-3..2); 2 of 4 entries of indices are out of bounds"),
    (ND | {"indices": [[0], [2]], "reduction": "mean"}, IndexOutOfBoundsError,
     "scatter_nd: indices[1, 0] = 2 is outside axis 0 of data, which has size 2 (allowed: -2..1)"),
    (ND | {"data": OBJECTS, "indices": [[0], [-3]], "updates": OBJECTS}, IndexOutOfBoundsError,
     "scatter_nd: indices[1, 0] = -3 is outside axis 0 of data, which has size 2 (allowed: "
     "-2..1)"),
    (ELEMENTS | {"indices": [[1, 0, 2]]}, IndexOutOfBoundsError,
     "scatter_elements: indices[0, 2] = 2 is outside axis 0 of data, which has size 2 (allowed: "
     "-2..1)"),
    # shapes
    (ND | {"updates": INTS[:1]}, ShapeError,
     "scatter_nd: updates.shape = (1, 3) does not match indices and data (allowed: (2, 3)); "
     "updates are not broadcast"),
    (ND | {"data": OBJECTS, "updates": OBJECTS[:, :2]}, ShapeError,
     "scatter_nd: updates.shape = (2, 2) does not match indices and data (allowed: (2, 3)); "
     "updates are not broadcast"),
    (ND | {"updates": 5, "reduction": "mean"}, ShapeError,
     "scatter_nd: updates.shape = () does not match indices and data (allowed: (2, 3)); updates "
     "are not broadcast"),
    (ELEMENTS | {"updates": INTS}, ShapeError,
     "scatter_elements: updates.shape = (2, 3) does not match indices and data (allowed: (1, 3)); "
     "updates are not broadcast"),
    (ND | {"indices": np.zeros((2, 3), int)}, ShapeError,
     "scatter_nd: indices.shape[-1] = 3 is more than the 2 axes that data (2, 3) has; "
     "indices.shape = (2, 3) (allowed: 0..2); index tuples are on the last axis, as argwhere "
     "returns them"),
    (ND | {"indices": 0}, ShapeError,
     "scatter_nd: indices.shape = () has rank 0 (allowed: rank 1 or more); index tuples are on "
     "the last axis, as argwhere returns them"),
    (ELEMENTS | {"indices": np.zeros((1, 4), int), "updates": np.zeros((1, 4), int)}, ShapeError,
     "scatter_elements: indices.shape[1] = 4 is more than data.shape[1] = 3: indices (1, 4) may "
     "be larger than data (2, 3) only on axis 0 (allowed: 0..3)"),
    (ELEMENTS | {"indices": [0]}, ShapeError,
     "scatter_elements: indices.shape = (1,) has rank 1, but data.shape = (2, 3) has rank 2 "
     "(allowed: the same rank); to index whole slices, use gather or scatter_nd"),
    # types
    (ND | {"indices": [[0.0], [1.0]]}, DTypeError,
     "scatter_nd: indices.dtype = float64 is not an integer type (allowed: int8..int64, "
     "uint8..uint64); if all are whole numbers, write np.asarray(indices).astype(int)"),
    (ND | {"indices": [[False], [True]]}, DTypeError,
     "scatter_nd: indices.dtype = bool is not an integer type (allowed: int8..int64, "
     "uint8..uint64); the index tuples of a mask are np.argwhere(indices)"),
    (ND | {"updates": INTS.astype("f4")}, DTypeError,
     "scatter_nd: updates.dtype = float32 differs from data.dtype = int64 (allowed: int64)"),
    (ND | {"data": OBJECTS}, DTypeError,
     "scatter_nd: updates.dtype = int64 differs from data.dtype = object (allowed: object)"),
    (ND | {"updates": [[1, 2, 3], [4, 5.5, 6]]}, DTypeError,
     "scatter_nd: updates[1, 1] = 5.5 cannot be represented in data.dtype = int64 (allowed: "
     "values of that type, floats may be rounded)"),
    (ND | {"updates": np.ma.masked_array(INTS)}, DTypeError,
     "scatter_nd: updates = masked array would lose its mask (allowed: a plain array with its "
     "masked elements filled)"),
    (ND | {"data": {1: 2}}, DTypeError,
     "scatter_nd: data = dict object is not an array (allowed: an array, a number or nested "
     "lists of numbers)"),
    # reductions and modes
    (ND | {"reduction": "ADD"}, AttributeValueError,
     f"scatter_nd: reduction = 'ADD' is unknown (allowed: {ALL}); write 'add'"),
    (ND | {"reduction": None}, AttributeValueError,
     f"scatter_nd: reduction = None is unknown (allowed: {ALL})"),
    (ND | {"reduction": "sum", "use_init_val": False}, AttributeValueError,
     f"scatter_nd: reduction = 'sum' is unknown (allowed: {ALL}); write 'add'"),
    (ND | {"data": INTS.astype("F"), "updates": INTS.astype("F"), "reduction": "min"}, DTypeError,
     "scatter_nd: reduction = 'min' is not defined for data.dtype = complex64 (allowed: 'none', "
     "'add', 'sub', 'mul', 'mean')"),
    (ND | {"data": INTS > 2, "updates": INTS > 2, "reduction": "mean"}, DTypeError,
     "scatter_nd: reduction = 'mean' is not defined for data.dtype = bool (allowed: 'none', "
     "'add', 'sub', 'mul', 'min', 'max')"),
    (ND | {"mode": "fill"}, AttributeValueError,
     "scatter_nd: mode = 'fill' is unknown (allowed: 'raise', 'wrap', 'clip', 'drop')"),
    (ND | {"mode": "fill", "reduction": "mean"}, AttributeValueError,
     "scatter_nd: mode = 'fill' is unknown (allowed: 'raise', 'wrap', 'clip', 'drop')"),
    (ELEMENTS | {"axis": 2}, AttributeValueError,
     "scatter_elements: axis = 2 is out of range for data of shape (2, 3) (allowed: -2..1)"),
    (ELEMENTS | {"axis": 0.5}, DTypeError,
     "scatter_elements: axis = 0.5 is not an integer (allowed: an integer); the order is data, "
     "indices, updates, axis"),
    (ELEMENTS | {"data": 1, "indices": 0, "updates": 1}, ShapeError,
     "scatter_elements: data.shape = () has rank 0 (allowed: rank 1 or more)"),
    # out
    (ND | {"out": [1]}, DTypeError,
     "scatter_nd: out = list object is not an array (allowed: a NumPy array)"),
    (ND | {"out": np.zeros((2, 3))}, DTypeError,
     "scatter_nd: out.dtype = float64 differs from data.dtype = int64 (allowed: int64)"),
    (ND | {"out": np.zeros((3, 2), int)}, ShapeError,
     "scatter_nd: out.shape = (3, 2) differs from the shape of the result (allowed: (2, 3))"),
    (ND | {"data": READ_ONLY, "out": READ_ONLY}, AttributeValueError,
     "scatter_nd: out is read-only (allowed: a writeable array)"),
    (ND | {"data": READ_ONLY, "out": READ_ONLY, "reduction": "mean"}, AttributeValueError,
     "scatter_nd: out is read-only (allowed: a writeable array)"),
    (ND | {"out": REPEATED}, AttributeValueError,
     "scatter_nd: out.strides = (0, 8) let elements of out share memory (allowed: strides "
     "without overlap)"),
    (ND | {"data": REPEATED, "out": REPEATED}, AttributeValueError,
     "scatter_nd: out.strides = (0, 8) let elements of out share memory (allowed: strides "
     "without overlap)"),
    (ND | {"out": REPEATED, "use_init_val": False, "reduction": "add"}, AttributeValueError,
     "scatter_nd: out.strides = (0, 8) let elements of out share memory (allowed: strides "
     "without overlap)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    CASES,
    ids=[f"{k} {text[:50]}" for k, (*_, text) in enumerate(CASES)],
)
def test_refusal(arguments, error, text):
    before = INTS.copy()
    function = getattr(ndgather, text.partition(":")[0])
    with pytest.raises(NdgatherError) as caught:
        function(**arguments)
    assert type(caught.value) is error
    assert str(caught.value) == text
    np.testing.assert_array_equal(INTS, before, strict=True)


NO_NUMBERS = ["S2", "U2", "M8[s]", "m8[s]", "V3", "V1", "O", [("a", "i4")], np.dtypes.StringDType()]


@pytest.mark.parametrize("reduction", ["add", "sub", "mul", "min", "max", "mean"])
@pytest.mark.parametrize("dtype", [np.dtype(each) for each in NO_NUMBERS], ids=str)
def test_non_numbers_can_only_be_replaced(dtype, reduction):
    data = np.zeros(3, dtype)
    for use_init_val in (True, False):
        with pytest.raises(DTypeError) as caught:
            ndgather.scatter_nd(
                data, [[0]], data[:1], reduction=reduction, use_init_val=use_init_val
            )
        assert str(caught.value) == (
            f"scatter_nd: reduction = {reduction!r} is not defined for data.dtype = {dtype} "
            f"(allowed: 'none')"
        )
    np.testing.assert_array_equal(ndgather.scatter_nd(data, [[0]], data[:1]), data, strict=True)


KEPT = [
    ("i1", [-128, 127], [-128, 127]),
    ("u8", [2**64 - 1, 2**63], [2**64 - 1, 2**63]),
    ("f4", [0.1, 1e-60], [np.float32(0.1), 0.0]),
    ("f4", [2**24 + 1, 1], [2.0**24, 1.0]),
    ("f4", [np.inf, np.nan], [np.inf, np.nan]),
    ("c8", [1, 2], [1, 2]),
    ("c16", [1.5, 2j], [1.5, 2j]),
    ("?", [True, False], [True, False]),
    ("U3", ["a", "abc"], ["a", "abc"]),
    ("S3", [b"a", b"abc"], [b"a", b"abc"]),
    ("O", [None, [1]], [None, [1]]),
    ("M8[s]", [np.datetime64("2020-01-01", "s"), np.datetime64("NaT", "s")], None),
    (ml_dtypes.int4, [-8, 7], [-8, 7]),
    (ml_dtypes.float8_e4m3fn, [447, 0.3], [448, 0.3125]),
    (ml_dtypes.bfloat16, [1, 0.1], [1, ml_dtypes.bfloat16(0.1)]),
    (">i2", [300, -300], [300, -300]),
    ("f8", [], []),
]


@pytest.mark.parametrize(("dtype", "given", "held"), KEPT, ids=str)
def test_lists_of_representable_values(dtype, given, held):
    data = np.zeros(2, dtype)
    indices = np.arange(len(given))[:, np.newaxis]
    expected = np.zeros(2, dtype)
    for k, value in enumerate(given if held is None else held):
        expected[k] = value
    result = ndgather.scatter_nd(data, indices, given)
    np.testing.assert_array_equal(result, expected, strict=True)


LOST = [
    ("i1", [128, 0]),
    ("u1", [-1, 0]),
    ("i8", [2**63, 0]),
    ("u8", [2**64, 0]),
    ("i8", [1.0, 2]),
    ("i8", [True, False]),
    ("?", [0, 1]),
    ("f4", [1e39, 0]),
    ("f2", [70_000, 0]),
    ("f4", [1j, 0]),
    ("U2", ["abc", "a"]),
    ("f8", ["1", "2"]),
    ("M8[s]", [1, 2]),
    (ml_dtypes.int4, [8, 0]),
    (ml_dtypes.float8_e4m3fn, [np.inf, 0]),
    (ml_dtypes.float8_e4m3fn, [1000, 0]),
    (ml_dtypes.float6_e2m3fn, [100, 0]),
    (ml_dtypes.float8_e8m0fnu, [0.0, 1]),
]


@pytest.mark.parametrize(("dtype", "given"), LOST, ids=str)
def test_lists_of_unrepresentable_values_are_refused(dtype, given):
    data = np.zeros(2, dtype)
    with pytest.raises(DTypeError) as caught:
        ndgather.scatter_nd(data, [[0], [1]], given)
    assert str(caught.value) == (
        f"scatter_nd: updates[0] = {given[0]!r} cannot be represented in data.dtype = {data.dtype} "
        f"(allowed: values of that type, floats may be rounded)"
    )


def test_other_byte_orders_are_accepted():
    data = np.arange(4, dtype=">i4")
    for dtype in ("<i4", ">i4"):
        result = ndgather.scatter_nd(data, np.array([[1]], ">u2"), np.array([70_000], dtype))
        np.testing.assert_array_equal(result, np.array([0, 70_000, 2, 3], ">i4"), strict=True)


def test_subclasses_are_accepted_and_kept():
    class Marked(np.ndarray):
        pass

    data = np.arange(3).view(Marked)
    result = ndgather.scatter_nd(data, [[0]], np.array([9]).view(Marked))
    assert type(result) is Marked
    assert result.tolist() == [9, 1, 2]
    assert ndgather.scatter_nd(data, [[0]], [9], out=data) is data
    assert data.tolist() == [9, 1, 2]


# Counts at which checks of the indices come in other blocks or rounds than the writes.
@pytest.mark.parametrize("count", [1, 255, 256, 257, 1023, 1024, 1025, 2_300_000])
@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize("place", [0, 255, 256, -1])
def test_one_bad_index_leaves_data_unchanged(count, reduction, place, threads):
    data = np.zeros(count + 1, np.float32)
    indices = np.arange(count)[:, np.newaxis]
    if place >= count:
        return
    indices[place] = count + 1
    with pytest.raises(IndexOutOfBoundsError) as caught:
        ndgather.scatter_nd(
            data, indices, np.ones(count, np.float32), reduction=reduction, out=data
        )
    assert caught.value.position == (place % count, 0)
    assert not data.any()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_fill_value_may_be_a_view_of_out(place):
    out = np.array([5.0, 6.0, 7.0, 8.0])
    fill = out[place : place + 1].reshape(())
    expected = [2, fill[()], fill[()], 3]
    result = ndgather.gather_nd(
        np.array([1.0, 2, 3]), [[1], [9], [9], [2]], mode="fill", fill_value=fill, out=out
    )
    assert result.tolist() == expected
