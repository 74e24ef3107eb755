"""What asks for more axes than any array has is refused before there is memory for them."""

import pytest

from ndgather import operator
from ndgather.errors import AttributeValueError, NdgatherError, ShapeError
from ndgather.published.schema import RankAtLeast, TensorType

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


def test_the_most_axes_are_inferred():
    found = operator("GatherND").infer(DATA, TensorType("int64", (3, 64)))
    assert found.outputs[0].shape == RankAtLeast((3,))


@pytest.mark.parametrize("shape", [(1,) * 65, RankAtLeast((1,) * 65), (1,) * 2000])
def test_declared_axes(shape):
    rank = len(shape.first if isinstance(shape, RankAtLeast) else shape)
    assert refusal(ShapeError, "Gather", TensorType("float32", shape), INDICES) == (
        f"ai.onnx Gather-13: data has {rank} axes, more than an array can have "
        "(allowed: at most 64)"
    )


def test_an_attribute_name_stays_on_one_line():
    text = refusal(NdgatherError, "GatherND", DATA, INDICES, **{"a\nb": 1})
    assert text == (
        "ai.onnx GatherND-13: 'a\\nb' is not an attribute of this version (allowed: batch_dims)"
    )
