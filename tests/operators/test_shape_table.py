"""Shapes for which the inference of widely used tools is wrong, and the correct shapes."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from ndgather import errors
from ndgather.published import operator
from ndgather.published.schema import Equality, RankAtLeast, TensorType


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    operator: str
    data: object
    indices: object
    truth: object
    updates: object = ()
    attributes: dict = field(default_factory=dict)

    def shapes(self):
        return (self.data, self.indices, *([self.updates] if self.updates != () else []))


def gather_nd(name, data, indices, truth, **attributes):
    return Case(
        name=name,
        operator="GatherND",
        data=data,
        indices=indices,
        truth=truth,
        attributes=attributes,
    )


def gather_elements(name, data, indices, truth, **attributes):
    return Case(
        name=name,
        operator="GatherElements",
        data=data,
        indices=indices,
        truth=truth,
        attributes=attributes,
    )


N, M, A, B, C, Q, K, R, W = "NMABCQKRW"

CASES = (
    gather_nd("H01", (2, 3), (2,), ()),
    gather_nd("H02", (N, 3, 4), (N, 2, 1), (N, 2, 4), batch_dims=1),
    gather_nd("H03", (5, 3, 4), (N, 2, 1), (5, 2, 4), batch_dims=1),
    gather_nd("H04", (M, 3, 4), (5, 2, 1), (5, 2, 4), batch_dims=1),
    gather_nd("H05", (2, 3), (3, 1), errors.ShapeError, batch_dims=1),
    gather_nd("H06", (2, 3), (2,), errors.AttributeValueError, batch_dims=1),
    gather_nd("H07", (2, 3), (4, 0), errors.ShapeError),
    gather_nd("H08", (2, 3), (4, 3), errors.ShapeError),
    gather_nd("H09", (2, 3, 4), (2, 5, 1), (2, 5, 4), batch_dims=1),
    gather_nd("H10", (2, 3, 4, 5), (2, 3, 6, 1), (2, 3, 6, 5), batch_dims=2),
    gather_nd("H11", (2, 3, 4), (5, K), RankAtLeast((5,))),
    gather_nd("H12", (A, A), (Q, K), (Q,), batch_dims=1),
    gather_nd("H13", (2, 3), (2, 1), errors.AttributeValueError, batch_dims=-1),
    gather_nd("H14", (A, B, C), (Q, 2), (Q, C)),
    gather_nd("H15", None, (Q, 2), RankAtLeast((Q,))),
    gather_nd("H16", (2, 3), None, None),
    gather_nd("H17", (2, 3, 4), (2, 2), errors.AttributeValueError, batch_dims=2),
    gather_elements("H18", (3, 4), (2,), errors.ShapeError),
    gather_elements("H19", (3, 4), (3, 2), errors.AttributeValueError, axis=5),
    gather_elements("H20", (3, 4), (9, 2), errors.ShapeError, axis=1),
    gather_elements("H21", (3, W), (R, C), (R, C), axis=1),
    gather_elements("H22", (3, 4), None, (None, None)),
    Case(
        name="H24",
        operator="ScatterND",
        data=(4, 5),
        indices=(3, 3),
        updates=(3,),
        truth=errors.ShapeError,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_inferred_shape_is_correct(case):
    op = operator(case.operator)
    if isinstance(case.truth, type):
        with pytest.raises(case.truth):
            op.infer_shape(*case.shapes(), **case.attributes)
    else:
        assert op.infer_shape(*case.shapes(), **case.attributes) == case.truth


def test_merged_batch_size_applies_to_both_inputs():
    found = operator("GatherND").infer(
        TensorType("float32", (5, 3, "N")), TensorType("int64", ("N", 2, 1)), batch_dims=1
    )
    assert [each.shape for each in found.inputs] == [(5, 3, 5), (5, 2, 1)]
    assert found.outputs == (TensorType("float32", (5, 2, 5)),)
    assert found.equalities == (Equality(name="N", equals=5),)


def test_two_names_of_one_batch_size_are_reported_equal():
    found = operator("GatherND").infer(
        TensorType(None, ("A", "A")), TensorType(None, ("Q", "K")), batch_dims=1
    )
    assert found.equalities == (
        Equality(name="A", equals="Q"),
        Equality(name="K", equals=1),
    )
    assert found.depth == 1
    assert found.inputs[1].shape == ("Q", 1)


def test_conflict_through_a_name_is_refused():
    op = operator("GatherND")
    assert op.infer_shape(("A", "A", 3), (2, 2, 1), batch_dims=2) == (2, 2)
    with pytest.raises(errors.ShapeError, match="differs from"):
        op.infer_shape(("A", "A", 3), (2, 4, 1), batch_dims=2)


def test_depth_is_deduced_from_updates():
    found = operator("ScatterND").infer(
        TensorType(None, ("N", 3, 4)), TensorType(None, (7, "K")), TensorType(None, (7, 4))
    )
    assert found.depth == 2
    assert found.outputs[0].shape == ("N", 3, 4)


def test_rank_of_data_is_deduced_from_updates():
    op = operator("ScatterND")
    assert op.infer_shape(None, (7, 2), (7, 4)) == (None, None, 4)


def test_sizes_that_allow_no_rank_of_updates_are_refused():
    op = operator("ScatterND")
    assert op.infer_shape((4, 5), RankAtLeast((3, 2)), (3, 2)) == (4, 5)
    with pytest.raises(errors.ShapeError, match="does not match indices"):
        op.infer_shape((4, 5), RankAtLeast((1, 2, 3, 4)), (1, 5))
    with pytest.raises(errors.ShapeError, match="does not match indices"):
        op.infer_shape(RankAtLeast((4, 5, 6)), (7, 1), (7, 5))


def test_depth_and_rank_of_indices_are_deduced_from_updates():
    op = operator("ScatterND")
    data, updates = TensorType(None, (4, 5)), TensorType(None, (3,))
    found = op.infer(data, TensorType(None, RankAtLeast((3,))), updates)
    assert (found.depth, found.inputs[1].shape) == (2, (3, 2))
    with pytest.raises(errors.ShapeError, match="does not match indices"):
        op.infer(data, TensorType(None, RankAtLeast((3, 3))), updates)


def test_single_update_of_any_rank_gives_no_rank():
    op = operator("ScatterNDUpdate", domain="openvino")
    assert op.infer_shape(None, (1,), (1,)) == RankAtLeast((None,))
    one = TensorType(None, (1,))
    assert op.infer(one, TensorType(), one).inputs[1].shape == RankAtLeast((None,))
    found = op.infer(TensorType(None, (5,)), TensorType(), TensorType(None, (1, 1)))
    assert (found.depth, found.inputs[1].shape) == (1, RankAtLeast((None,)))


def test_unknown_sizes_of_a_known_rank_stay_unknown():
    assert operator("GatherND").infer_shape((None, 3, None), (None, 1)) == (None, 3, None)


def test_first_sizes_suffice_if_the_tuple_ends_there():
    op = operator("GatherND")
    shape = op.infer_shape(RankAtLeast(("N", 3, 4)), ("N", 2, 1), batch_dims=1)
    assert shape == RankAtLeast(("N", 2, 4))


def test_rank_of_data_and_indices_unknown_leaves_only_batch_sizes():
    op = operator("GatherND")
    assert op.infer_shape(RankAtLeast((5,)), None, batch_dims=1) == RankAtLeast((5,))


def test_unknown_axis_keeps_sizes_common_to_all_axes():
    op = operator("Gather", domain="openvino")
    assert op.infer_shape((3, 3), (2,)) == (None, None)
    assert op.infer_shape((3, 4), (3,), batch_dims=1) == (3,)
    assert op.infer_shape((3, 4), (5,), axis=-1) == (3, 5)
    assert op.infer_shape(None, (5,), axis=-1) == RankAtLeast((None,))
    assert op.infer_shape(RankAtLeast((7, 8)), (5,), axis=1) == RankAtLeast((7, 5))


def test_indices_into_an_empty_axis_are_refused_without_values():
    op = operator("GatherND")
    assert op.infer_shape((0, 3), (0, 1)) == (0, 3)
    assert op.infer_shape((0, 3), ("N", 1)) == (0, 3)
    with pytest.raises(errors.IndexOutOfBoundsError, match="which is empty"):
        op.infer_shape((0, 3), (4, 1))


def test_constant_out_of_bounds_index_is_found_by_inference():
    op = operator("GatherND")
    data = TensorType("float32", ("N", 5))
    indices = TensorType("int64", (2, 2))
    assert op.infer(data, indices, constants={"indices": [[9, 4], [7, -5]]}).depth == 2
    with pytest.raises(errors.IndexOutOfBoundsError) as caught:
        op.infer(data, indices, constants={"indices": [[9, 4], [7, 5]]})
    error = caught.value
    assert (error.position, error.value, error.axis, error.size) == ((1, 1), 5, 1, 5)


def test_constant_of_wrong_shape_is_refused():
    data, indices = TensorType("float32", ("N", 5)), TensorType("int64", ("N", 2))
    op = operator("GatherND")
    assert op.infer(data, indices, constants={"indices": [[0, 0]]}).inputs[0].shape == (1, 5)
    with pytest.raises(errors.ShapeError, match="declared"):
        op.infer(data, indices, constants={"indices": [0, 0]})


@pytest.mark.parametrize("shape", [(-1,), (1.5,), (True,), ("",), "N", 3])
def test_invalid_shapes_are_refused(shape):
    with pytest.raises(errors.DTypeError, match="is not a shape"):
        operator("GatherND").infer_shape(shape, (1, 1))


def test_invalid_shapes_are_named():
    with pytest.raises(errors.DTypeError) as caught:
        operator("GatherND").infer_shape((2, -1), (1, 1))
    assert str(caught.value) == (
        "ai.onnx GatherND-13: data.shape = (2, -1) is not a shape "
        "(allowed: a tuple of sizes, names and None; RankAtLeast; None)"
    )


def test_fused_batch_axes_are_empty_if_one_is_empty():
    fused = operator("GatherND", domain="openvino", version=5)
    assert fused.infer_shape((0, "N", 4), (0, "N", 1), batch_dims=2) == (0,)
    assert fused.infer_shape(("N", 0, 4), ("N", 0, 1), batch_dims=2) == (0,)


def test_negative_constant_index_is_refused_if_not_allowed():
    given = [TensorType("float32", (4, 4)), TensorType("int64", (1, 1))]
    for index, version in ((-1, 8), (0, 5), (3, 5)):
        op = operator("GatherND", domain="openvino", version=version)
        assert op.infer(*given, constants={"indices": [[index]]}).outputs[0].shape == (1, 4)
    op = operator("GatherND", domain="openvino", version=5)
    with pytest.raises(errors.IndexOutOfBoundsError, match=r"= -1 .*allowed: 0..3"):
        op.infer(*given, constants={"indices": [[-1]]})


@pytest.mark.parametrize(("index", "fits"), [(-4, False), (-3, True), (2, True), (3, False)])
def test_single_constant_index_is_checked_against_its_axis(index, fits):
    op = operator("Gather")
    data, indices = TensorType("float32", (3, 9)), TensorType("int64", (1,))
    if fits:
        (output,) = op.infer(data, indices, constants={"indices": [index]}).outputs
        assert output.shape == (1, 9)
        return
    with pytest.raises(errors.IndexOutOfBoundsError) as caught:
        op.infer(data, indices, constants={"indices": [index]})
    error = caught.value
    assert (error.position, error.value, error.axis, error.size) == ((0,), index, 0, 3)


def test_size_below_a_bound_may_be_zero_positions():
    op = operator("GatherElements")
    assert op.infer_shape((5, 0), ("N", 3), axis=1) == (0, 3)
    with pytest.raises(errors.IndexOutOfBoundsError, match="which is empty"):
        op.infer_shape((5, 0), (4, 3), axis=1)


def test_inferred_axis_is_checked_against_the_batch_axes():
    op = operator("Gather", domain="openvino")
    data, indices = TensorType("float32", (3, 4, 5)), TensorType("int64", (3, 4, 2))
    axis = TensorType("int64", ())
    with pytest.raises(errors.AttributeValueError) as caught:
        op.infer(data, indices, axis, constants={"axis": 1}, batch_dims=2)
    assert str(caught.value).endswith(
        "axis = 1 is one of the 2 batch axes (allowed: 2 or more, counted from the front)"
    )


def test_updates_give_the_number_of_tuples_of_any_length():
    tuples, updates = TensorType("int64", ("N", "K")), TensorType("float32", (3, 6))
    inference = operator("ScatterND").infer(TensorType("float32", None), tuples, updates)
    assert inference.inputs[1].shape == (3, "K")
    assert [(each.name, each.equals) for each in inference.equalities] == [("N", 3)]


def test_no_axis_remains_besides_the_batch_axes():
    data, indices = TensorType("float32", (3, 4)), TensorType("int64", (3, 4, 2))
    with pytest.raises(errors.AttributeValueError) as caught:
        operator("Gather", domain="openvino").infer(
            data, indices, TensorType("int64", ()), batch_dims=2
        )
    assert str(caught.value).endswith(
        "axis = 0 is one of the 2 batch axes (allowed: 2 or more, counted from the front)"
    )


def test_maximum_rank_is_inferred():
    data = TensorType("float32", (1,) * 64)
    assert operator("GatherND").infer(data, TensorType("int64", (3, 64))).outputs[0].shape == (3,)
    (output,) = operator("Gather").infer(data, TensorType("int64", (3,)), axis=63).outputs
    assert output.shape == (*(1,) * 63, 3)


def test_components_of_a_constant_tuple_are_checked_against_their_axes():
    op = operator("GatherND")
    data, indices = TensorType("float32", (3, 9)), TensorType("int64", (2, 1))
    (output,) = op.infer(data, indices, constants={"indices": [[0], [2]]}).outputs
    assert output.shape == (2, 9)
    with pytest.raises(errors.IndexOutOfBoundsError) as caught:
        op.infer(data, indices, constants={"indices": [[0], [3]]})
    error = caught.value
    assert (error.position, error.value, error.axis, error.size) == ((1, 0), 3, 0, 3)


def test_known_indices_are_checked_against_their_axis():
    data = TensorType("float32", (2, 5))
    gather = operator("Gather", version=13)
    (output,) = gather.infer(data, TensorType(), constants={"indices": [4]}, axis=1).outputs
    assert output.shape == (2, 1)
    with pytest.raises(errors.IndexOutOfBoundsError, match="5 is outside axis 1 of data"):
        gather.infer(data, TensorType(), constants={"indices": [5]}, axis=1)


def test_known_indices_into_an_unknown_axis_are_accepted():
    gather = operator("Gather", domain="openvino", version=7)
    data = TensorType("float32", (2, 5))
    (output,) = gather.infer(data, TensorType(), constants={"indices": [4]}).outputs
    assert output.shape == (None, None)
    some = TensorType("float32", RankAtLeast((2,)))
    (output,) = gather.infer(some, TensorType(), constants={"indices": [4]}, axis=-1).outputs
    assert output.shape == RankAtLeast((None,))


@pytest.mark.parametrize(
    ("data", "indices", "batch_dims", "text"),
    [
        (
            (2, 3),
            (2, 2),
            1,
            "indices.shape[-1] = 2 is more than the 1 axes that data (2, 3) has after 1 batch "
            "axes; indices.shape = (2, 2) (allowed: 1..1)",
        ),
        (
            (2, 3),
            (2, 0),
            0,
            "indices.shape[-1] = 0 is too short for an index tuple; data (2, 3), indices (2, 0) "
            "(allowed: 1..2)",
        ),
        (
            RankAtLeast((2, 3)),
            (2, 0),
            0,
            "indices.shape[-1] = 0 is too short for an index tuple; data (2, 3, ...), indices "
            "(2, 0) (allowed: 1 or more)",
        ),
    ],
    ids=["too long", "too short", "too short for any rank"],
)
def test_error_text_for_a_tuple_of_wrong_length(data, indices, batch_dims, text):
    with pytest.raises(errors.ShapeError) as refusal:
        operator("GatherND", version=13).infer_shape(data, indices, batch_dims=batch_dims)
    assert str(refusal.value) == f"ai.onnx GatherND-13: {text}"


@pytest.mark.parametrize(
    ("axis", "batch_dims", "first"),
    [
        (-1, 0, (2, 3, None, None)),  # whatever axes follow, the first two are not addressed
        (-1, 1, (2, 3, None)),
        (-2, 0, (2, None, None, None)),
        (-2, 1, (2, None, None)),
        (-3, 0, (None, None, None, None)),
        (-3, 1, (2, None, None)),  # a batch axis is never addressed
        (None, 1, (2, None, None)),
        (None, 2, (2, 3)),
    ],
)
def test_axes_before_any_indexed_axis_are_known(axis, batch_dims, first):
    gather = operator("Gather", domain="openvino", version=8)
    data, indices = RankAtLeast((2, 3, 4)), (2, 3, 6)[:2]
    constants = {} if axis is None else {"axis": axis}
    found = gather.infer_shape(data, indices, (), constants=constants, batch_dims=batch_dims)
    assert found == RankAtLeast(first)
