"""A test for every rule of the OpenVINO specifications, named after the rule.

Source: https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets.html
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ndgather import errors
from ndgather.published import operator
from ndgather.published.schema import Duplicates, TensorType

ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def openvino(name, version):
    return operator(name, domain="openvino", version=version)


GATHER_ND = pytest.mark.parametrize("op", [openvino("GatherND", 5), openvino("GatherND", 8)])
GATHER = pytest.mark.parametrize("op", [openvino("Gather", version) for version in (1, 7, 8)])
BATCHED_GATHER = pytest.mark.parametrize("op", [openvino("Gather", 7), openvino("Gather", 8)])
GATHER_ELEMENTS = openvino("GatherElements", 6)


# GatherND


@GATHER_ND
def test_complex_is_not_supported(op):
    with pytest.raises(errors.DTypeError, match="complex64 is not supported"):
        op(ROWS.astype(np.complex64), np.array([[1]]))


@GATHER_ND
@pytest.mark.parametrize("batch_dims", [-1, 2])
def test_gather_nd_batch_dims_is_below_both_ranks(op, batch_dims):
    with pytest.raises(errors.AttributeValueError, match=r"allowed: 0\.\.1"):
        op(ROWS, np.zeros((2, 3, 1), np.int64), batch_dims=batch_dims)


@GATHER_ND
@pytest.mark.parametrize("shape", [(1, 3), (4, 3)])
def test_gather_nd_batch_axes_are_equal(op, shape):
    with pytest.raises(errors.ShapeError, match="batch axes must be equal"):
        op(np.zeros(shape), np.zeros((2, 1), np.int64), batch_dims=1)


@GATHER_ND
def test_gather_nd_depth_has_no_lower_bound(op):
    taken = op(ROWS, np.zeros((2, 0), np.int64))
    np.testing.assert_array_equal(taken, np.stack([ROWS, ROWS]), strict=True)


@GATHER_ND
def test_gather_nd_depth_is_at_most_r_less_b(op):
    with pytest.raises(errors.ShapeError, match="more than the 1 axes"):
        op(ROWS, np.zeros((2, 2), np.int64), batch_dims=1)


@GATHER_ND
@pytest.mark.parametrize("value", [2, 2**32, 2**40])
def test_undefined_out_of_bounds_raises(op, value):
    with pytest.raises(errors.IndexOutOfBoundsError):
        op(ROWS, np.array([[value]]))


# GatherElements


@pytest.mark.parametrize("dtype", INTEGERS)
def test_gather_elements_index_types_are_int32_and_int64(dtype):
    indices = np.zeros((2, 3), dtype)
    if dtype in {"int32", "int64"}:
        assert GATHER_ELEMENTS(ROWS, indices, axis=0).shape == (2, 3)
        return
    with pytest.raises(errors.DTypeError, match=r"\(allowed: int32, int64\)"):
        GATHER_ELEMENTS(ROWS, indices, axis=0)


def test_gather_elements_axis_is_required():
    with pytest.raises(errors.AttributeValueError, match="axis is missing"):
        GATHER_ELEMENTS(ROWS, np.zeros((2, 3), np.int64))


def test_gather_elements_axis_range():
    assert GATHER_ELEMENTS(ROWS, np.zeros((2, 9), np.int64), axis=-1).shape == (2, 9)
    for axis in (2, -3):
        with pytest.raises(errors.AttributeValueError, match=r"allowed: -2\.\.1"):
            GATHER_ELEMENTS(ROWS, np.zeros((2, 3), np.int64), axis=axis)


@pytest.mark.parametrize("shape", [(1, 3), (3, 3)])
def test_gather_elements_off_axis_sizes_are_equal(shape):
    with pytest.raises(errors.ShapeError, match=r"differs from data\.shape\[0\]"):
        GATHER_ELEMENTS(ROWS, np.zeros(shape, np.int64), axis=1)
    assert GATHER_ELEMENTS.infer_shape((3, "W"), ("R", "C"), axis=1) == (3, "C")


# Gather


@GATHER
@pytest.mark.parametrize("dtype", INTEGERS)
def test_gather_index_types_are_all_integers(op, dtype):
    taken = op(ROWS, np.array([1], dtype), 0)
    np.testing.assert_array_equal(taken, ROWS[1:], strict=True)


@GATHER
@pytest.mark.parametrize("dtype", ["bool", "float32"])
def test_gather_other_index_types_are_refused(op, dtype):
    with pytest.raises(errors.DTypeError, match=r"indices\.dtype = "):
        op(ROWS, np.array([1], dtype), 0)


@GATHER
def test_gather_axis_is_an_input(op):
    np.testing.assert_array_equal(op(ROWS, [0, 2], 1), ROWS[:, [0, 2]], strict=True)
    np.testing.assert_array_equal(op(ROWS, [0, 2], np.array([1], np.int8)), ROWS[:, [0, 2]])
    np.testing.assert_array_equal(op(ROWS, [0, 2], axis=-1), ROWS[:, [0, 2]], strict=True)
    with pytest.raises(errors.AttributeValueError, match="2 inputs given"):
        op(ROWS, [0])


@GATHER
def test_gather_axis_is_one_integer_in_range(op):
    with pytest.raises(errors.ShapeError, match="not a single value"):
        op(ROWS, [0], [0, 1])
    with pytest.raises(errors.ShapeError, match="not a single value"):
        op(ROWS, [0], [[0]])
    with pytest.raises(errors.DTypeError, match=r"axis\.dtype = float64"):
        op(ROWS, [0], 0.0)
    for axis in (2, -3):
        with pytest.raises(errors.AttributeValueError, match=r"allowed: -2\.\.1"):
            op(ROWS, [0], axis)


def test_gather_1_has_no_batch_dims():
    with pytest.raises(errors.AttributeValueError, match="no attribute"):
        openvino("Gather", 1)(ROWS, [0], 0, batch_dims=0)


@BATCHED_GATHER
def test_gather_batch_dims_counts_from_the_rank_of_indices(op):
    data = np.arange(1, 11).reshape(2, 5)
    indices = np.array([[0, 0, 4], [4, 0, 0]])
    for batch_dims in (1, -1):
        taken = op(data, indices, 1, batch_dims=batch_dims)
        np.testing.assert_array_equal(taken, [[1, 1, 5], [10, 6, 6]])


@BATCHED_GATHER
def test_gather_batch_dims_may_be_all_of_indices(op):
    taken = op(ROWS, np.array([2, 0]), 1, batch_dims=1)
    np.testing.assert_array_equal(taken, [2, 3])


@BATCHED_GATHER
@pytest.mark.parametrize("batch_dims", [-3, 3])
def test_gather_batch_dims_range(op, batch_dims):
    with pytest.raises(errors.AttributeValueError, match=r"allowed: -2\.\.2"):
        op(ROWS, np.zeros((2, 1, 1), np.int64), 1, batch_dims=batch_dims)


@BATCHED_GATHER
@pytest.mark.parametrize(("axis", "batch_dims"), [(0, 1), (-2, 1), (1, 2), (0, -1)])
def test_gather_batch_dims_is_at_most_axis(op, axis, batch_dims):
    with pytest.raises(errors.AttributeValueError, match="batch axes"):
        op(ROWS, np.zeros((2, 3), np.int64), axis, batch_dims=batch_dims)


@BATCHED_GATHER
def test_gather_negative_batch_dims_may_exceed_the_rank_of_data(op):
    with pytest.raises(errors.AttributeValueError, match="batch axes"):
        op(np.zeros(3), np.zeros((3, 1, 1), np.int64), 0, batch_dims=-1)


@BATCHED_GATHER
def test_gather_batch_axes_are_equal(op):
    with pytest.raises(errors.ShapeError, match="batch axes must be equal"):
        op(ROWS, np.zeros((3, 1), np.int64), 1, batch_dims=1)


@pytest.mark.parametrize("version", [1, 7])
@pytest.mark.parametrize("value", [-1, 5, 2**32])
def test_gather_undefined_out_of_bounds_raises_before_8(version, value):
    with pytest.raises(errors.IndexOutOfBoundsError, match=r"allowed: 0\.\.1\)"):
        openvino("Gather", version)(ROWS, [value], 0)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("columns", [0, 1])
def test_gather_negative_index_raises_for_every_size_of_the_axis(dtype, columns):
    """Along long axes, an index type may have no values beyond the end."""
    for size in (127, 128, 129, 255, 256, 257):
        data = np.zeros((size, columns))
        bad = -1 if dtype.startswith("int") else size
        if bad <= np.iinfo(dtype).max:
            with pytest.raises(errors.IndexOutOfBoundsError, match=rf"= {bad} is outside axis 0"):
                openvino("Gather", 7)(data, np.array([0, bad], dtype), 0)


# scatters: types, attributes and shapes


def infer_scatter_nd(version, *shapes, **named):
    return openvino("ScatterNDUpdate", version).infer_shape(*shapes, **named)


def infer_scatter_elements(version, *shapes, **named):
    return openvino("ScatterElementsUpdate", version).infer_shape(*shapes, **named)


@pytest.mark.parametrize("version", [3, 15])
def test_scatter_nd_update_shapes(version):
    shapes = (1000, 256, 10, 15), (25, 125, 3), (25, 125, 15)
    assert infer_scatter_nd(version, *shapes) == (1000, 256, 10, 15)
    assert infer_scatter_nd(version, (4, 5), (3, 0), (3, 4, 5)) == (4, 5)
    with pytest.raises(errors.ShapeError, match=r"updates\.shape"):
        infer_scatter_nd(version, (4, 5), (3, 1), (3, 4))
    with pytest.raises(errors.ShapeError, match="more than the 2 axes"):
        infer_scatter_nd(version, (4, 5), (3, 3), (3,))


@pytest.mark.parametrize(("version", "dtype"), [(3, "bool"), (3, "string"), (15, "string")])
def test_scatter_nd_update_accepts_numeric_types(version, dtype):
    data, indices = TensorType(dtype, (4,)), TensorType("int32", (3, 1))
    with pytest.raises(errors.DTypeError, match="is not supported"):
        openvino("ScatterNDUpdate", version).infer(data, indices, TensorType(dtype, (3,)))


def test_scatter_nd_update_15_accepts_bool():
    data, indices = TensorType("bool", (4,)), TensorType("int32", (3, 1))
    found = openvino("ScatterNDUpdate", 15).infer(data, indices, TensorType("bool", (3,)))
    assert found.outputs == (data,)


@pytest.mark.parametrize("version", [3, 12])
def test_scatter_elements_update_shapes(version):
    shapes = (1000, 256, 7, 7), (125, 20, 7, 6), (125, 20, 7, 6)
    assert infer_scatter_elements(version, *shapes, axis=0) == (1000, 256, 7, 7)
    with pytest.raises(errors.ShapeError, match=r"updates\.shape"):
        infer_scatter_elements(version, (4, 5), (3, 5), (3, 4), axis=0)
    with pytest.raises(errors.ShapeError, match=r"more than data\.shape"):
        infer_scatter_elements(version, (4, 5), (3, 6), (3, 6), axis=0)


def test_scatter_elements_update_12_may_be_longer_along_the_axis():
    shapes = (4, 5), (9, 5), (9, 5)
    assert infer_scatter_elements(12, *shapes, axis=0) == (4, 5)
    with pytest.raises(errors.ShapeError, match=r"more than data\.shape"):
        infer_scatter_elements(3, *shapes, axis=0)


def test_scatter_elements_update_attributes():
    shapes = (4,), (3,), (3,)
    for word in ("none", "sum", "prod", "min", "max", "mean"):
        found = infer_scatter_elements(12, *shapes, axis=0, reduction=word, use_init_val=False)
        assert found == (4,)
    with pytest.raises(errors.AttributeValueError, match="unknown"):
        infer_scatter_elements(12, *shapes, axis=0, reduction="sub")
    with pytest.raises(errors.DTypeError, match=r"allowed: bool"):
        infer_scatter_elements(12, *shapes, axis=0, use_init_val=1)
    with pytest.raises(errors.AttributeValueError, match="no attribute"):
        infer_scatter_elements(3, *shapes, axis=0, reduction="none")


def test_scatter_elements_update_axis_is_an_input():
    assert infer_scatter_elements(12, (4, "W"), (3, "V"), ("R", "V")) == (4, "W")
    with pytest.raises(errors.AttributeValueError, match=r"allowed: -2\.\.1"):
        infer_scatter_elements(12, (4, 5), (3, 5), (3, 5), axis=2)


# scatters: index values, index types and reductions

DATA_4 = np.arange(1, 5)


def scatter_4(name, version, values, updates, **named):
    """Scatter to a tensor of four elements."""
    op, indices, updates = openvino(name, version), np.array(values), np.array(updates)
    if name == "ScatterNDUpdate":
        return op(DATA_4, indices.reshape(-1, 1), updates, **named)
    return op(DATA_4, indices, updates, 0, **named)


SCATTERS = pytest.mark.parametrize(
    ("name", "version"),
    [
        *(("ScatterNDUpdate", 3), ("ScatterNDUpdate", 15)),
        *(("ScatterElementsUpdate", 3), ("ScatterElementsUpdate", 12)),
    ],
)


@SCATTERS
def test_scatter_update_duplicates_by_version(name, version):
    first = (name, version) == ("ScatterNDUpdate", 3)
    expected = Duplicates.UNDEFINED if first else Duplicates.ANY_ORDER
    assert openvino(name, version).row.duplicates is expected
    assert scatter_4(name, version, [1, 1], [8, 9])[1] in {8, 9}


@pytest.mark.parametrize("version", [3, 15])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_scatter_nd_update_index_types_are_int32_and_int64(version, dtype):
    op, indices = openvino("ScatterNDUpdate", version), np.array([[1]], dtype)
    if dtype in {"int32", "int64"}:
        np.testing.assert_array_equal(op(DATA_4, indices, np.array([9])), [1, 9, 3, 4], strict=True)
        return
    with pytest.raises(errors.DTypeError, match=r"\(allowed: int32, int64\)"):
        op(DATA_4, indices, np.array([9]))


@pytest.mark.parametrize("version", [3, 12])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_scatter_elements_update_index_types_are_all_integers(version, dtype):
    op = openvino("ScatterElementsUpdate", version)
    found = op(DATA_4, np.array([1], dtype), np.array([9]), 0)
    np.testing.assert_array_equal(found, [1, 9, 3, 4], strict=True)


@pytest.mark.parametrize("dtype", ["bool", "U1", ml_dtypes.bfloat16, "float64"])
def test_scatter_elements_update_3_accepts_numeric_types(dtype):
    data = np.array([0, 1]).astype(dtype)
    op = openvino("ScatterElementsUpdate", 3)
    if dtype in {"bool", "U1"}:
        with pytest.raises(errors.DTypeError, match="is not supported"):
            op(data, np.array([0]), data[1:], 0)
        return
    np.testing.assert_array_equal(op(data, np.array([0]), data[1:], 0), data[[1, 1]], strict=True)


@pytest.mark.parametrize("dtype", ["bool", "U1", ml_dtypes.bfloat16, ml_dtypes.int4, "float64"])
def test_scatter_elements_update_12_accepts_every_supported_type(dtype):
    data = np.array([0, 1]).astype(dtype)
    found = openvino("ScatterElementsUpdate", 12)(data, np.array([0]), data[1:], 0)
    np.testing.assert_array_equal(found, data[[1, 1]], strict=True)


@pytest.mark.parametrize("version", [3, 15])
def test_scatter_nd_update_depth_0_replaces_the_whole_tensor(version):
    op = openvino("ScatterNDUpdate", version)
    found = op(DATA_4, np.zeros((1, 0), np.int64), np.array([[5, 6, 7, 8]]))
    np.testing.assert_array_equal(found, np.array([5, 6, 7, 8]), strict=True)


@pytest.mark.parametrize(
    ("reduction", "with_data", "without"),
    [
        ("sum", 17, 15),
        ("prod", 100, 50),
        ("min", 2, 5),
        ("max", 10, 10),
        ("mean", 5, 7),
    ],
)
def test_scatter_elements_update_12_use_init_val_default_is_true(reduction, with_data, without):
    found = scatter_4("ScatterElementsUpdate", 12, [1, 1], [5, 10], reduction=reduction)
    np.testing.assert_array_equal(found, np.array([1, with_data, 3, 4]), strict=True)
    found = scatter_4(
        "ScatterElementsUpdate", 12, [1, 1], [5, 10], reduction=reduction, use_init_val=False
    )
    np.testing.assert_array_equal(found, np.array([1, without, 3, 4]), strict=True)
