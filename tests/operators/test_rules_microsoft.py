"""A test for every rule of com.microsoft GatherND-1, named after the rule."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ndgather import errors
from ndgather.published import operator

OP = operator("GatherND", domain="com.microsoft")
ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_index_types_are_int32_and_int64(dtype):
    np.testing.assert_array_equal(OP(ROWS, np.array([[1]], dtype)), ROWS[1:], strict=True)


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "uint32", "uint64", "bool"])
def test_other_index_types_are_refused(dtype):
    with pytest.raises(errors.DTypeError, match=r"\(allowed: int32, int64\)"):
        OP(ROWS, np.array([[1]]).astype(dtype))


@pytest.mark.parametrize(
    "dtype",
    [
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128", "bool", "U1"),
    ],
)
def test_data_types_are_those_of_onnx_before_bfloat16(dtype):
    data = np.array(["0", "1"]).astype(np.int64).astype(dtype)
    np.testing.assert_array_equal(OP(data, np.array([[1]])), data[1:], strict=True)


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e5m2, ml_dtypes.int4, "datetime64[s]"])
def test_other_data_types_are_refused(dtype):
    with pytest.raises(errors.DTypeError, match=r"data\.dtype = .* is not supported"):
        OP(ROWS.astype(dtype), np.array([[1]]))


def test_bfloat16_is_refused():
    with pytest.raises(errors.DTypeError, match="bfloat16 is not supported"):
        OP(ROWS.astype(ml_dtypes.bfloat16), np.array([[1]]))


def test_there_are_no_attributes():
    with pytest.raises(errors.AttributeValueError, match=r"\(allowed: no attributes\)"):
        OP(ROWS, np.array([[1]]), batch_dims=0)


def test_ranks_are_at_least_1():
    with pytest.raises(errors.ShapeError, match=r"data.shape = \(\) has rank 0"):
        OP(np.float32(1), np.array([[0]]))
    with pytest.raises(errors.ShapeError, match=r"indices.shape = \(\) has rank 0"):
        OP(ROWS, np.array(0))


def test_depth_is_at_most_the_rank_of_data():
    with pytest.raises(errors.ShapeError, match="more than the 2 axes"):
        OP(ROWS, np.zeros((1, 3), np.int64))


def test_out_of_bounds_is_an_error_even_if_the_result_is_empty():
    for data in (ROWS, ROWS[:, :0]):
        with pytest.raises(errors.IndexOutOfBoundsError):
            OP(data, np.array([[2]]))


def test_depth_0_copies_data_for_each_tuple():
    taken = OP(ROWS, np.zeros((2, 0), np.int32))
    np.testing.assert_array_equal(taken, np.stack([ROWS, ROWS]), strict=True)


def test_unknown_depth_is_not_read_as_0():
    assert OP.infer_shape(("A", "B"), ("Q", 2)) == ("Q",)
    found = OP.infer_shape(("A", "B"), ("Q", "K"))
    assert found.first == ("Q",)
