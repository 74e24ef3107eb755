"""Rules of the ONNX specifications, each with a test named after it.

`test_table` compares types and attributes with the schemas, `test_shape_properties` and
`test_scatters_run` draw calls, and `conformance/cases` has the hard cases.

Source: https://github.com/onnx/onnx/blob/main/docs/Changelog.md
"""

from __future__ import annotations

import numpy as np
import pytest

from ndgather import errors
from ndgather.published import operator
from ndgather.published.schema import Duplicates, RankAtLeast

I64 = np.int64
ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)
BEFORE_13 = (
    ("GatherND", 11),
    ("GatherND", 12),
    ("GatherElements", 11),
    ("Gather", 1),
    ("Gather", 11),
)
FROM_13 = ("GatherND", 13), ("GatherElements", 13), ("Gather", 13)
GATHERS = BEFORE_13 + FROM_13
BY_AXIS = tuple(each for each in GATHERS if each[0] != "GatherND")
GATHER_ND = tuple(version for name, version in GATHERS if name == "GatherND")
BATCHED = (12, 13)


def gather(name, version):
    return operator(name, version=version)


def indices_for(name, values):
    """Return indices into axis 0 of a rank-2 tensor in the form that the operator requires."""
    array = np.array(values, I64)
    return array.reshape(-1, 1) if name != "Gather" else array


# types


def test_byte_order_is_not_part_of_a_type():
    taken = operator("GatherND")(ROWS.astype(">f4"), np.array([[1]], ">i8"))
    np.testing.assert_array_equal(taken, ROWS[1:])


# attributes


@pytest.mark.parametrize("version", BATCHED)
@pytest.mark.parametrize("value", [1.0, "1", True, None, [1]])
def test_gather_nd_batch_dims_is_an_int(version, value):
    op = gather("GatherND", version)
    if value is None:  # as if omitted
        assert op(ROWS, np.array([[1]]), batch_dims=value).shape == (1, 3)
        return
    with pytest.raises(errors.DTypeError, match=r"batch_dims = .* \(allowed: int\)"):
        op(ROWS, np.array([[1]]), batch_dims=value)


@pytest.mark.parametrize("version", BATCHED)
@pytest.mark.parametrize("batch_dims", [-1, -2, 2, 3])
def test_gather_nd_batch_dims_is_0_or_more_and_below_both_ranks(version, batch_dims):
    with pytest.raises(errors.AttributeValueError, match=r"batch_dims = .*allowed: 0..1"):
        gather("GatherND", version)(ROWS, np.zeros((2, 3, 1), I64), batch_dims=batch_dims)
    with pytest.raises(errors.AttributeValueError, match=r"batch_dims = .*allowed: 0..0"):
        gather("GatherND", version)(ROWS, np.zeros((1,), I64), batch_dims=batch_dims)


@pytest.mark.parametrize(("name", "version"), BY_AXIS)
def test_axis_defaults_to_0_and_may_be_negative(name, version):
    op, indices = gather(name, version), indices_for(name, [1])
    np.testing.assert_array_equal(op(ROWS, indices), op(ROWS, indices, axis=-2))
    for axis in (2, -3):
        with pytest.raises(errors.AttributeValueError, match=r"axis = .*allowed: -2..1"):
            op(ROWS, indices, axis=axis)


@pytest.mark.parametrize(("name", "version"), BY_AXIS)
@pytest.mark.parametrize("value", [1.0, "1", True])
def test_axis_is_an_int(name, version, value):
    with pytest.raises(errors.DTypeError, match=r"axis = .* \(allowed: int\)"):
        gather(name, version)(ROWS, indices_for(name, [1]), axis=value)


# ranks


@pytest.mark.parametrize(("name", "version"), GATHERS)
def test_data_of_rank_0_is_refused(name, version):
    with pytest.raises(errors.ShapeError, match=r"data.shape = \(\) has rank 0"):
        gather(name, version)(np.float32(1), indices_for(name, [0]))


@pytest.mark.parametrize(("name", "version"), [each for each in GATHERS if each[0] != "Gather"])
def test_indices_of_rank_0_are_refused(name, version):
    with pytest.raises(errors.ShapeError, match=r"indices.shape = \(\) has rank 0"):
        gather(name, version)(ROWS, np.array(0))


@pytest.mark.parametrize("version", [1, 11, 13])
def test_gather_indices_of_rank_0_drop_the_axis(version):
    op = gather("Gather", version)
    np.testing.assert_array_equal(op(ROWS, np.array(1)), ROWS[1], strict=True)
    np.testing.assert_array_equal(op(ROWS, np.array(1), axis=1), ROWS[:, 1], strict=True)
    assert op.infer_shape(("A", "B"), (), axis=1) == ("A",)


@pytest.mark.parametrize("version", [11, 13])
def test_gather_elements_ranks_are_equal(version):
    with pytest.raises(errors.ShapeError, match="the same rank"):
        gather("GatherElements", version)(ROWS, np.array([0, 1]))


# batch rule and depth


@pytest.mark.parametrize("version", BATCHED)
@pytest.mark.parametrize(
    ("data", "indices", "batch_dims"),
    [
        ((2, 3), (3, 1), 1),
        ((2, 3), (4, 1), 1),
        ((1, 3), (2, 1), 1),
        ((2, 3), (1, 1), 1),
        ((2, 3, 5), (3, 2, 1), 2),
        ((0, 3), (2, 1), 1),
    ],
    ids=["unequal", "divisible", "data 1", "indices 1", "equal product", "zero"],
)
def test_gather_nd_batch_axes_are_equal_and_not_broadcast(version, data, indices, batch_dims):
    with pytest.raises(errors.ShapeError, match="batch axes must be equal"):
        gather("GatherND", version)(np.zeros(data), np.zeros(indices, I64), batch_dims=batch_dims)


@pytest.mark.parametrize("version", GATHER_ND)
def test_gather_nd_depth_is_at_least_1(version):
    with pytest.raises(errors.ShapeError, match=r"too short .*allowed: 1..2"):
        gather("GatherND", version)(ROWS, np.zeros((4, 0), I64))


@pytest.mark.parametrize("version", GATHER_ND)
def test_gather_nd_depth_is_at_most_r(version):
    with pytest.raises(errors.ShapeError, match="more than the 2 axes"):
        gather("GatherND", version)(ROWS, np.zeros((4, 3), I64))


@pytest.mark.parametrize("version", BATCHED)
def test_gather_nd_depth_is_at_most_r_less_b(version):
    with pytest.raises(errors.ShapeError, match="more than the 1 axes"):
        gather("GatherND", version)(ROWS, np.zeros((2, 2), I64), batch_dims=1)


# index values


def test_gather_1_negative_indices_are_out_of_bounds():
    with pytest.raises(errors.IndexOutOfBoundsError, match=r"allowed: 0..1\)") as caught:
        gather("Gather", 1)(ROWS, np.array([0, -1]))
    assert (caught.value.position, caught.value.value) == ((1,), -1)


@pytest.mark.parametrize(("name", "version"), GATHERS)
@pytest.mark.parametrize("value", [2, -3, 2**31, 2**32, -(2**32), 2**63 - 1, -(2**63)])
def test_out_of_bounds_is_an_error(name, version, value):
    with pytest.raises(errors.IndexOutOfBoundsError) as caught:
        gather(name, version)(ROWS, indices_for(name, [0, value]))
    assert (caught.value.value, caught.value.axis, caught.value.size) == (value, 0, 2)


# off-axis sizes


@pytest.mark.parametrize("version", [11, 13])
def test_gather_elements_off_axis_sizes_may_not_be_larger_nor_broadcast(version):
    op = gather("GatherElements", version)
    for indices in (np.zeros((1, 4), I64), np.zeros((5, 4), I64)):
        with pytest.raises(errors.ShapeError, match=r"more than data\.shape"):
            op(ROWS[:, :1], indices, axis=0)


# scatters: types, attributes and shapes

SCATTERS = tuple(
    (name, version) for name in ("ScatterND", "ScatterElements") for version in (11, 13, 16, 18)
)


def scatter_row_1(name, version, data, updates, **named):
    """Scatter the row `updates` to the second of two rows of `data`."""
    indices = np.array([[1]]) if name == "ScatterND" else np.ones((1, data.shape[1]), I64)
    return gather(name, version)(data, indices, updates, **named)


@pytest.mark.parametrize(("name", "version"), SCATTERS)
def test_scatter_ranks_are_at_least_1(name, version):
    op = gather(name, version)
    with pytest.raises(errors.ShapeError, match=r"data.shape = \(\) has rank 0"):
        op(np.float32(1), np.array([0]), np.ones(1, np.float32))
    with pytest.raises(errors.ShapeError, match=r"indices.shape = \(\) has rank 0"):
        op(ROWS, np.array(0), ROWS[0])


@pytest.mark.parametrize("version", [11, 13, 16, 18])
def test_scatter_elements_ranks_are_equal(version):
    with pytest.raises(errors.ShapeError, match="the same rank"):
        gather("ScatterElements", version)(ROWS, np.array([0, 1]), ROWS[0, :2])


@pytest.mark.parametrize(("name", "version"), SCATTERS)
def test_scatter_duplicates_by_version(name, version):
    before_16 = Duplicates.FORBIDDEN if name == "ScatterND" else Duplicates.SILENT
    expected = before_16 if version < 16 else Duplicates.FORBIDDEN_WITHOUT_REDUCTION
    assert gather(name, version).row.duplicates is expected


@pytest.mark.parametrize("name", ["ScatterND", "ScatterElements"])
@pytest.mark.parametrize("reduction", ["max", "min"])
def test_scatter_max_and_min_with_nan_are_nan(name, reduction):
    data, updates = np.array([[0.0, 0.0], [1.0, np.nan]]), np.array([[np.nan, 1.0]])
    found = scatter_row_1(name, 18, data, updates, reduction=reduction)
    np.testing.assert_array_equal(found, [[0.0, 0.0], [np.nan, np.nan]], strict=True)


@pytest.mark.parametrize("name", ["ScatterND", "ScatterElements"])
@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        ("add", [False, True, True, True]),
        ("max", [False, True, True, True]),
        ("mul", [False, False, False, True]),
        ("min", [False, False, False, True]),
    ],
)
def test_scatter_reductions_of_bool_are_or_and_and(name, reduction, expected):
    data = np.array([[False] * 4, [False, False, True, True]])
    updates = np.array([[False, True, False, True]])
    found = scatter_row_1(name, 18, data, updates, reduction=reduction)
    np.testing.assert_array_equal(found, [[False] * 4, expected], strict=True)


@pytest.mark.parametrize("name", ["ScatterND", "ScatterElements"])
@pytest.mark.parametrize("version", [16, 18])
def test_scatter_reductions_of_complex_are_sum_and_product_only(name, version):
    data, updates = np.array([[0, 0], [1 + 1j, 2]]), np.array([[1j, 3]])
    found = scatter_row_1(name, version, data, updates, reduction="add")
    np.testing.assert_array_equal(found, [[0, 0], [1 + 2j, 5]], strict=True)
    found = scatter_row_1(name, version, data, updates, reduction="mul")
    np.testing.assert_array_equal(found, [[0, 0], [-1 + 1j, 6]], strict=True)
    if version == 18:
        with pytest.raises(errors.DTypeError, match="'max' is not defined"):
            scatter_row_1(name, version, data, updates, reduction="max")


@pytest.mark.parametrize("version", [11, 13, 16, 18])
def test_scatter_nd_updates_shape_is_exact(version):
    op = gather("ScatterND", version)
    assert op.infer_shape((4, 5), (3, 1), (3, 5)) == (4, 5)
    assert op.infer_shape((4, 5), (2,), ()) == (4, 5)
    for updates in ((3, 4), (2, 5), (3, 1), (3,), (1, 3, 5)):
        with pytest.raises(errors.ShapeError, match=r"updates.shape"):
            op.infer_shape((4, 5), (3, 1), updates)
    with pytest.raises(errors.ShapeError, match=r"updates.shape"):
        op.infer_shape((4, 5), (2,), (1,))


@pytest.mark.parametrize("version", [11, 13, 16, 18])
def test_scatter_nd_depth_has_no_lower_bound(version):
    op = gather("ScatterND", version)
    assert op.infer_shape((4, 5), (3, 0), (3, 4, 5)) == (4, 5)
    with pytest.raises(errors.ShapeError, match="more than the 2 axes"):
        op.infer_shape((4, 5), (3, 3), (3,))


@pytest.mark.parametrize("version", [11, 13, 16, 18])
def test_scatter_elements_updates_have_the_shape_of_indices(version):
    op = gather("ScatterElements", version)
    for updates in ((3, 4), (3,), (3, 5, 1)):
        with pytest.raises(errors.ShapeError, match=r"updates.shape"):
            op.infer_shape((4, 5), (3, 5), updates)


@pytest.mark.parametrize("version", [11, 13, 16, 18])
def test_scatter_elements_off_axis_sizes_may_be_smaller_only(version):
    op = gather("ScatterElements", version)
    assert op.infer_shape((4, 5), (9, 3), (9, 3), axis=0) == (4, 5)
    with pytest.raises(errors.ShapeError, match=r"more than data\.shape"):
        op.infer_shape((4, 5), (9, 6), (9, 6), axis=0)


@pytest.mark.parametrize(("name", "version"), SCATTERS)
def test_scatter_data_and_updates_have_the_same_type(name, version):
    op = gather(name, version)
    indices = np.zeros((2, 1), I64)
    updates = np.zeros((2, 1) if name != "ScatterND" else (2, 3))
    with pytest.raises(errors.DTypeError, match=r"updates.dtype = float64 differs"):
        op(ROWS, indices, updates)


def test_rank_of_an_unknown_tensor_is_at_least_what_the_rules_need():
    assert operator("Gather").infer_shape(None, ("S",), axis=2) == RankAtLeast((None, None, "S"))
