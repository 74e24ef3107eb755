"""Equal and bounded sizes, ranks up to 64, and axes given as inputs."""

from __future__ import annotations

import numpy as np
import pytest

from ndgather.errors import (
    AttributeValueError,
    IndexOutOfBoundsError,
    NdgatherError,
    ShapeError,
)
from ndgather.published import operator
from ndgather.published.schema import RankAtLeast, TensorType
from ndgather.published.shapes import Axes, Sizes, Unknown


def test_values_replace_names_and_names_replace_unknowns():
    sizes, unknown = Sizes(), Unknown()
    assert sizes.equate(unknown, "N")
    assert sizes.dim(unknown) == "N"
    assert sizes.equate("M", "N")
    assert (sizes.dim("M"), sizes.dim("N")) == ("M", "N")
    assert sizes.equate(5, "M")
    assert sizes.dim(unknown) == sizes.dim("N") == 5
    assert not sizes.equate("N", 4)


def test_unknown_sizes_are_not_assumed_equal():
    sizes, first, second = Sizes(), Unknown(), Unknown()
    assert sizes.find(first) is not sizes.find(second)
    assert sizes.equate(first, 3)
    assert sizes.value(second) is None


def test_equal_bounds_give_a_value():
    sizes = Sizes()
    assert sizes.bound("N", 2)
    assert sizes.bound("N", 0, 2)
    assert sizes.value("N") == 2
    assert not sizes.bound("N", 3)


def test_bounds_apply_to_all_equal_sizes():
    sizes = Sizes()
    assert sizes.bound("N", 2)
    assert sizes.equate("N", "M")
    assert sizes.bounds("M") == (2, None)
    assert not sizes.equate("M", 1)


def test_copies_are_independent():
    sizes = Sizes()
    copied = sizes.copy()
    assert copied.equate("N", 1)
    assert sizes.value("N") is None


def test_axes_are_added_if_the_rank_is_open():
    axes = Axes.of(RankAtLeast((2,)))
    assert axes.reaches(3)
    assert (axes.rank, axes.exact) == (3, False)
    assert not axes.is_of(2)
    assert axes.is_of(3)
    assert axes.exact
    assert not axes.reaches(4)


DATA, INDICES = TensorType("float32"), TensorType("int64")
HUGE = 2**40


def refusal(kind, name, *types, domain="ai.onnx", **attributes):
    with pytest.raises(kind) as caught:
        operator(name, domain=domain).infer(*types, **attributes)
    return str(caught.value)


@pytest.mark.parametrize("batch_dims", [HUGE, -HUGE, 64])
def test_batch_dims(batch_dims):
    assert refusal(AttributeValueError, "GatherND", DATA, INDICES, batch_dims=batch_dims) == (
        f"ai.onnx GatherND-13: batch_dims = {batch_dims} is out of range for data (?, ...) and "
        f"indices (?, ...) (allowed: 0..63)"
    )


@pytest.mark.parametrize("batch_dims", [HUGE, -HUGE, 65, -65])
def test_batch_dims_that_may_be_all_axes(batch_dims):
    axis = TensorType("int64", ())
    text = refusal(
        AttributeValueError, "Gather", DATA, INDICES, axis, domain="openvino", batch_dims=batch_dims
    )
    assert text.endswith("(allowed: -64..64)")


@pytest.mark.parametrize("axis", [HUGE, -HUGE, 64, -65])
@pytest.mark.parametrize("name", ["Gather", "GatherElements"])
def test_axis(name, axis):
    assert refusal(AttributeValueError, name, DATA, INDICES, axis=axis) == (
        f"ai.onnx {name}-13: axis = {axis} is out of range for data of shape (?, ...) "
        f"(allowed: -64..63)"
    )


@pytest.mark.parametrize("depth", [HUGE, 65])
def test_depth(depth):
    assert refusal(ShapeError, "GatherND", DATA, TensorType("int64", (3, depth))) == (
        f"ai.onnx GatherND-13: indices.shape[-1] = {depth} is more than the 64 axes that data "
        f"(?, ...) has; indices.shape = (3, {depth}) (allowed: 1..64)"
    )


def test_maximum_number_of_axes_is_inferred():
    found = operator("GatherND").infer(DATA, TensorType("int64", (3, 64)))
    assert found.outputs[0].shape == RankAtLeast((3,))


@pytest.mark.parametrize("shape", [(1,) * 65, RankAtLeast((1,) * 65), (1,) * 2000])
def test_declared_axes(shape):
    rank = len(shape.first if isinstance(shape, RankAtLeast) else shape)
    assert refusal(ShapeError, "Gather", TensorType("float32", shape), INDICES) == (
        f"ai.onnx Gather-13: data has {rank} axes, more than an array can have "
        "(allowed: at most 64)"
    )


def test_attribute_name_is_shown_on_one_line():
    text = refusal(NdgatherError, "GatherND", DATA, INDICES, **{"a\nb": 1})
    assert text == (
        "ai.onnx GatherND-13: 'a\\nb' is not an attribute of this version (allowed: batch_dims)"
    )


MATRIX = np.arange(6).reshape(2, 3)


@pytest.mark.parametrize("version", [1, 7, 8])
def test_gather_uses_the_axis_of_each_call(version):
    gather = operator("Gather", domain="openvino", version=version)
    for axis in (0, 1, -1, 0, 1):
        result = gather(MATRIX, np.array([1]), np.array(axis))
        np.testing.assert_array_equal(result, np.take(MATRIX, [1], axis), strict=True)


@pytest.mark.parametrize("version", [3, 12])
def test_scatter_uses_the_axis_of_each_call(version):
    scatter = operator("ScatterElementsUpdate", domain="openvino", version=version)
    expected = {0: [[0, 1, 2], [9, 4, 5]], 1: [[0, 9, 2], [3, 4, 5]]}
    for axis in (0, 1, 0, 1):
        result = scatter(MATRIX, np.array([[1]]), np.array([[9]]), np.array([axis]))
        np.testing.assert_array_equal(result, np.array(expected[axis]), strict=True)


@pytest.mark.parametrize("first", [("a", "b"), ("b", "a")])
def test_equal_sizes_share_their_bounds(first):
    sizes = Sizes()
    assert sizes.bound("a", 1, 5)
    assert sizes.bound("b", 0, 7)
    assert sizes.equate(*first)
    assert sizes.bounds("a") == sizes.bounds("b") == (1, 5)
    unknown = Unknown()
    assert sizes.bound(unknown, 2, 9)
    assert sizes.equate(unknown, "a")
    assert sizes.bounds("b") == (2, 5)
    assert not sizes.copy().equate("b", 6)
    assert not sizes.copy().equate("b", 1)
    assert sizes.equate("b", 5)
    assert sizes.value("a") == sizes.value(unknown) == 5


@pytest.mark.parametrize(
    ("name", "options", "indices"),
    [
        ("GatherND", {}, [[0, 0], [5, 0], [1, 9], [7, -9]]),
        ("GatherND", {"batch_dims": 1}, [[0, 1, -3], [2, 3, 9], [0, -4, 0]]),
        ("Gather", {}, [0, 9, -8, 1]),
        ("Gather", {"axis": 1}, [[0, 2], [-4, 3]]),
        ("GatherElements", {"axis": 1}, [[0, 9, 0], [9, 9, 0]]),
    ],
)
def test_known_indices_raise_the_same_error_as_a_call(name, options, indices):
    """The error names the first out-of-bounds index and the number of them."""
    function, values = operator(name), np.array(indices)
    if "batch_dims" in options:
        values = values[..., np.newaxis]
    data = np.zeros((3, 3), np.float32)
    with pytest.raises(IndexOutOfBoundsError) as of_run:
        function(data, values, **options)
    with pytest.raises(IndexOutOfBoundsError) as inferred:
        function.infer(TensorType("float32", (3, 3)), values, **options)
    assert str(inferred.value) == str(of_run.value)
    flat = values if name != "GatherND" else values[..., :1] if options else values
    count = int(((flat < -3) | (flat > 2)).sum())
    assert f"; {count} of {values.size} entries of indices are out of bounds" in str(of_run.value)


@pytest.mark.parametrize("version", [3, 15])
def test_single_element_updates_may_have_any_rank_only_for_full_tuples(version):
    function = operator("ScatterNDUpdate", domain="openvino", version=version)
    assert function.infer_shape((5, 6), (2,), (1, 1)) == (5, 6)
    for data in (None, RankAtLeast((5, 6))):  # which may have two more
        result = function.infer_shape(data, (2,), (3, 4))
        assert result == RankAtLeast((None, None) if data is None else (5, 6))
    with pytest.raises(ShapeError):
        function.infer_shape((5, 6), (2,), (3, 4))


@pytest.mark.parametrize(
    ("sizes", "inferred"),
    [
        (("N",), (0,)),
        (("N", 3), (0, 3)),
        (("N", "N"), (0, 0)),
        (("N", "M"), ("N", "M")),  # one of them is 0, and it is not known which
        (("N", 0), ("N", 0)),
        ((None, None), (None, None)),
    ],
)
def test_empty_axis_has_no_positions(sizes, inferred):
    known = TensorType("int64", sizes)
    for name, shape in (("Gather", (0, 4)), ("GatherND", (0, 4))):
        indices = known if name == "Gather" else TensorType("int64", (*sizes, 1))
        found = operator(name).infer(TensorType("float32", shape), indices)
        assert found.outputs[0].shape == (*inferred, 4)
    with pytest.raises(IndexOutOfBoundsError, match="which is empty"):
        operator("Gather").infer(TensorType("float32", (0, 4)), TensorType("int64", (2, 3)))
