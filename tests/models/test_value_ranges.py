"""Bounds of values: every value of a run lies within them, and what cannot occur is not found."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx.parser import parse_model
from onnx.reference import ReferenceEvaluator

from ndgather.models import onnx as onnx_models
from ndgather.models.onnx.inference import Ranges, infer_to_fixpoint
from ndgather.models.onnx.nodes import nodes

TWO = ("Add", "Sub", "Mul", "Min", "Max", "Concat")
ONE = ("Neg", "Abs", "Identity", "Unsqueeze", "ReduceMax")
INT64, FLOAT = TensorProto.INT64, TensorProto.FLOAT


@st.composite
def arithmetic(draw):
    """A model of sizes, constants and what operators make of them; every value is an output."""
    made = ["shape", "at", "c0", "c1"]
    graph_nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("ArgMax", ["x"], ["flat"], axis=1, keepdims=0),
        helper.make_node("Slice", ["flat", "zero", "one"], ["at"]),
    ]
    for number in range(draw(st.integers(1, 6))):
        name, op = f"v{number}", draw(st.sampled_from(TWO + ONE))
        inputs = [draw(st.sampled_from(made)) for _ in range(2 if op in TWO else 1)]
        if op == "Concat":
            continue_with = helper.make_node(op, inputs, [name + "_"], axis=0)
            graph_nodes += [continue_with, helper.make_node("ReduceMin", [name + "_"], [name])]
        elif op == "Unsqueeze":
            graph_nodes.append(helper.make_node(op, [*inputs, "zero"], [name + "_"]))
            graph_nodes.append(helper.make_node("Squeeze", [name + "_", "zero"], [name]))
        else:
            graph_nodes.append(helper.make_node(op, inputs, [name]))
        made.append(name)
    numbers = st.integers(-50, 50)
    constants = [
        helper.make_tensor("zero", INT64, [1], [0]),
        helper.make_tensor("one", INT64, [1], [1]),
        *(helper.make_tensor(f"c{k}", INT64, [1], [draw(numbers)]) for k in range(2)),
    ]
    values = [name for node in graph_nodes for name in node.output]
    outputs = [helper.make_tensor_value_info(name, INT64, None) for name in values]
    x = helper.make_tensor_value_info("x", FLOAT, ["n", 3])
    graph = helper.make_graph(graph_nodes, "g", [x], outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@settings(max_examples=60)
@given(model=arithmetic(), count=st.integers(1, 9))
def test_every_value_of_a_run_lies_within_its_bounds(model, count):
    x = np.random.default_rng(count).random((count, 3), np.float32)
    try:
        values = ReferenceEvaluator(model).run(None, {"x": x})
    except Exception:
        return
    ranges, view = Ranges(), infer_to_fixpoint(model, None).model
    scope = next(scope for scope, _ in nodes(view))
    for info, value in zip(model.graph.output, values, strict=True):
        found = ranges.of(scope, info.name)
        assert found.low <= np.min(value), info.name
        assert np.max(value) <= found.high, info.name


def found_in(text, opset=18):
    model = parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')
    return [(each.severity.value, each.rule, each.where) for each in onnx_models.check(model)]


GATHER = "at = Constant<value = int64[1] {0}>()  z = Gather(v, at)  y = Flatten(z)"
WIDE = [("differs", "64-bit integers", "Gather of z")]


@pytest.mark.parametrize(
    "body",
    [
        "v = Shape(x)",
        "v = ArgMax(x)",
        "v = NonZero(x)",
        "k = Constant<value = int64[1] {1}>()  t, v = TopK(x, k)",
        "s = Shape(x)  p = ReduceProd<keepdims = 1>(s)  v = Mul(s, p)",
        "c = Cast<to = 6>(x)  v = Cast<to = 7>(c)",
        "v = Constant<value = int64[2] {5, -6}>()",
    ],
)
def test_what_cannot_need_64_bits_is_not_found(body):
    assert found_in(f"g (float[n, 3] x) => (int64[m, k] y) {{ {body}  {GATHER} }}") == []


@pytest.mark.parametrize(
    "body",
    [
        "v = Identity(i)",
        "v = Cast<to = 7>(x)",
        "s = Shape(x)  v = Add(s, i)",
        "v = Constant<value = int64[2] {5, 2147483648}>()",
    ],
)
def test_what_can_need_64_bits_is_found(body):
    inputs = "float[n, 3] x, int64[2] i"
    assert found_in(f"g ({inputs}) => (int64[m, k] y) {{ {body}  {GATHER} }}") == WIDE


def test_a_type_that_the_opset_does_not_take_is_found():
    text = "g (int64[2] x) => (int64[2] y) { y = Clip(x) }"
    assert found_in(text, 11) == [("error", "types", "Clip of y")]
    assert found_in(text, 12) == []


def test_scatter_is_found_before_and_after_it_was_replaced():
    text = """g (float[3] x, int64[1] i, float[1] u) => (float[3] y) { y = Scatter(x, i, u) }"""
    assert found_in(text, 10) == [("portable", "opset", "Scatter of y")]
    assert found_in(text, 11) == [("error", "opset", "Scatter of y")]
