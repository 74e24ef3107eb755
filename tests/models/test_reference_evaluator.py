"""Operators that the onnx evaluator computes wrongly are refused; others run."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.parser import parse_model
from onnx.reference import ReferenceEvaluator

from ndgather.errors import ModelError
from ndgather.models import onnx as onnx_models
from ndgather.runtimes import onnx_reference
from ndgather.runtimes.runtime import LoadOptions, ModelSource

FLOAT = TensorProto.FLOAT
RNG = np.random.default_rng(7)
X = RNG.normal(size=(2, 3, 4)).astype(np.float32)
ROWS = X.reshape(2, 12)


def one_node(opset, op_type, inputs, outputs=("y",), **attributes):
    node = helper.make_node(op_type, list(inputs), list(outputs), name="it", **attributes)
    kinds = {"sizes": TensorProto.INT64}
    values = [
        helper.make_tensor_value_info(name, kinds.get(name, FLOAT), None) for name in inputs if name
    ]
    result = [helper.make_tensor_value_info(outputs[-1], FLOAT, None)]
    graph = helper.make_graph([node], "g", values, result)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def reference(text, **inputs):
    return onnx_models.run(parse_model(text), inputs, runtime="reference")


def softmax(matrix):
    powers = np.exp(matrix)
    return powers / powers.sum(-1, keepdims=True)


def hardmax(matrix):
    return (matrix == matrix.max(-1, keepdims=True)).astype(np.float32)


def loop(condition, outputs="end, all"):
    kinds = ("float[3, 4] end", "float[k, 3, 4] all")[: outputs.count(",") + 1]
    row, result = (", float[3, 4] row", "row = Identity(s)") if "all" in outputs else ("", "")
    return parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
        g (int64 n, float[3, 4] x) => ({", ".join(kinds)})
        {{ yes = Constant<value = bool {{1}}>()
          {outputs} = Loop(n, {condition}, x) <body = turn (int64 i, bool c, float[3, 4] s)
            => (bool go, float[3, 4] s2{row})
            {{ go = Identity(c)  s2 = Add(s, s)  {result} }}> }}""")


def resize(**attributes):
    names = ("x", "", "scales") if "sizes" not in attributes else ("x", "", "", "sizes")
    attributes.pop("sizes", None)
    return one_node(18, "Resize", names, mode="linear", **attributes)


ONES = np.ones(3, np.float32)
CHANNELS = {"scale": ONES, "bias": 0 * ONES, "mean": 0 * ONES, "var": 4 * ONES}
SQUARE = RNG.normal(size=(1, 1, 3, 3)).astype(np.float32)
LINE = np.arange(5, dtype=np.float32).reshape(1, 1, 1, 5)
QKV = dict(zip("qkv", RNG.normal(size=(3, 1, 1, 2, 4)).astype(np.float32), strict=True))
# A model, its inputs, and the last output according to the specification.
WRONG = {
    "Softmax": (one_node(12, "Softmax", "x"), {"x": X}, softmax(ROWS).reshape(X.shape)),
    "LogSoftmax": (
        one_node(12, "LogSoftmax", "x"), {"x": X}, np.log(softmax(ROWS)).reshape(X.shape)
    ),
    "Hardmax": (one_node(12, "Hardmax", "x"), {"x": X}, hardmax(ROWS).reshape(X.shape)),
    "BatchNormalization": (
        one_node(13, "BatchNormalization", ["x", *CHANNELS], momentum=0.9, epsilon=0.0),
        {"x": X, **CHANNELS},
        X / 2,
    ),
    "GlobalMaxPool": (one_node(13, "GlobalMaxPool", "x"), {"x": X}, X.max(-1, keepdims=True)),
    "LRN": (
        one_node(17, "LRN", "x", size=1, alpha=1.0, beta=1.0, bias=1.0),
        {"x": X[..., None]},
        (X / (1 + X**2))[..., None],
    ),
    "Attention": (
        one_node(23, "Attention", "qkv", ["y", "", "", "p"], softcap=0.5),
        QKV,
        QKV["q"] @ QKV["k"].swapaxes(-1, -2) / 2,
    ),
    "Loop, stacked": (
        loop("yes"), {"n": np.array(2), "x": X[0]}, np.stack([X[0], 2 * X[0]])
    ),
    "Loop, without a condition": (loop("", "end"), {"n": np.array(2), "x": X[0]}, 4 * X[0]),
    "LpPool": (
        one_node(18, "LpPool", "x", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        {"x": SQUARE},
        np.sqrt([[[[(SQUARE[0, 0, a : a + 2, b : b + 2] ** 2).sum() for b in (0, 2)]
                   for a in (0, 2)]]]),
    ),
    "Resize": (
        resize(coordinate_transformation_mode="align_corners"),
        {"x": LINE, "scales": np.array([1, 1, 1, 1.5], np.float32)},
        (np.arange(7) * 4 / 6).reshape(1, 1, 1, 7),
    ),
}  # fmt: skip
RIGHT = {
    "Softmax": (one_node(13, "Softmax", "x"), {"x": X}, softmax(X)),
    "BatchNormalization": (
        one_node(14, "BatchNormalization", ["x", *CHANNELS], momentum=0.9, epsilon=0.0),
        {"x": X, **CHANNELS},
        X / 2,
    ),
    "Attention": (
        one_node(23, "Attention", "qkv", ["y", "", "", "p"], softcap=0.5, qk_matmul_output_mode=1),
        QKV,
        np.tanh(QKV["q"] @ QKV["k"].swapaxes(-1, -2)) / 2,
    ),
    "Loop": (loop("yes", "end"), {"n": np.array(2), "x": X[0]}, 4 * X[0]),
    "Resize": (
        resize(coordinate_transformation_mode="align_corners", sizes=True),
        {"x": LINE, "sizes": np.array([1, 1, 1, 7])},
        (np.arange(7) * 4 / 6).reshape(1, 1, 1, 7),
    ),
    "LpPool": (
        one_node(18, "LpPool", "x", kernel_shape=[3, 3]),
        {"x": SQUARE},
        np.sqrt((SQUARE**2).sum((2, 3), keepdims=True)),
    ),
}


def is_right(found, expected):
    close = {"rtol": 1e-4, "atol": 1e-5}
    return found.shape == expected.shape and np.allclose(found, expected, **close)


@pytest.mark.parametrize(("model", "inputs", "expected"), WRONG.values(), ids=WRONG)
def test_operators_that_onnx_computes_wrongly_are_refused_with_a_hint(model, inputs, expected):
    assert not is_right(ReferenceEvaluator(model).run(None, inputs)[-1], expected)

    node = next(item for item in model.graph.node if item.op_type != "Constant")
    refused = rf"^node .*{node.op_type}.*computes it wrongly: .*\(allowed: .*runtime='onnxruntime'"
    with pytest.raises(ModelError, match=refused):
        onnx_models.run(model, inputs, runtime="reference")
    source = ModelSource(content=model.SerializeToString())
    with pytest.raises(ModelError, match=refused):
        onnx_reference.session(source, LoadOptions())


@pytest.mark.parametrize(("model", "inputs", "expected"), RIGHT.values(), ids=RIGHT)
def test_operators_that_onnx_computes_correctly_run(model, inputs, expected):
    *_, found = onnx_models.run(model, inputs, runtime="reference").values()
    assert is_right(found, expected)


def test_optional_types_are_refused():
    with pytest.raises(ModelError, match=r"Optional.*returns a list instead of its input"):
        reference(
            """<ir_version: 8, opset_import: ["" : 18]> g (float[3] x) => (float[n] y)
            { o = Optional(x)  y = OptionalGetElement(o) }""",
            x=ONES,
        )


@pytest.mark.parametrize(
    "text",
    [
        """g (bool c, float[2, 3] x) => (float[2, 3] y) { y = If(c)
            <then_branch = t () => (float[2, 3] a) { a = LRN<size = 1>(x) },
             else_branch = e () => (float[2, 3] b) { b = Neg(x) }> }""",
        """g (bool c, float[2, 3] x) => (float[2, 3] y) { y = my.Pick(x) }
            <domain: "my", opset_import: ["ai.onnx" : 17]> Pick (x) => (y)
            { y = LRN<size = 1>(x) }""",
    ],
    ids=["a branch", "a function"],
)
def test_wrong_operators_in_subgraphs_and_functions_are_refused(text):
    model = parse_model('<ir_version: 8, opset_import: ["" : 17, "my" : 1]> ' + text)
    with pytest.raises(ModelError, match=r"LRN.*computes it wrongly"):
        onnx_models.run(
            model, {"c": np.array(True), "x": np.ones((2, 3), np.float32)}, runtime="reference"
        )


def test_negative_declared_sizes_are_unknown():
    model = one_node(13, "Relu", ["x"])
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", FLOAT, [-1, 3]))
    assert str(onnx_models.Model(model).inputs[0]) == "x float32 (?, 3)"
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(onnx_models.run(model, {"x": x}, runtime="reference")["y"], x)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("opset", [9, 10])
def test_scatter_9_runs(axis, opset):
    x, at = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([[0, 2], [1, 0]])
    updates = -np.ones((2, 2), np.float32)
    expected = x.copy()
    for place in np.ndindex(at.shape):
        target = list(place)
        target[axis] = at[place]
        expected[tuple(target)] = updates[place]
    model = f"""<ir_version: 4, opset_import: ["" : {opset}]> g (float[3, 4] x, int64[2, 2] at,
        float[2, 2] w) => (float[3, 4] y) {{ y = Scatter<axis = {axis}>(x, at, w) }}"""
    np.testing.assert_array_equal(reference(model, x=x, at=at, w=updates)["y"], expected)


@pytest.mark.parametrize(("given", "slope"), [("", 0.5), ("<alpha = 0.25>", 0.25)])
@pytest.mark.parametrize("runtime", ["reference", "onnx.reference"])
def test_function_attributes_have_defaults(given, slope, runtime):
    model = parse_model(f"""<ir_version: 8, opset_import: ["" : 17, "my" : 1]>
        g (float[2] x, bool c) => (float[2] y, float[2] z)
        {{ y = my.Leaky{given}(x)
          z = If(c) <then_branch = t () => (float[2] a) {{ a = my.Leaky{given}(x) }},
                     else_branch = e () => (float[2] b) {{ b = Neg(x) }}> }}
        <domain: "my", opset_import: ["" : 17]> Leaky <alpha: float = 0.5> (x) => (y)
        {{ y = LeakyRelu<alpha: float = @alpha>(x) }}""")
    x = np.array([-1, 2], np.float32)
    if runtime == "reference":
        found = onnx_models.run(model, {"x": x, "c": np.array(True)}, runtime=runtime)
    else:
        session = onnx_reference.session(
            ModelSource(content=model.SerializeToString()), LoadOptions()
        )
        found = dict(zip("yz", session.run(["y", "z"], {"x": x, "c": np.array(True)}), strict=True))
    for name in "yz":
        np.testing.assert_array_equal(found[name], np.array([-slope, 2], np.float32))


def test_unsupported_nodes_are_named_in_the_error():
    with pytest.raises(
        ModelError, match=r"node 'it' \(Gelu\): the reference evaluator does not support"
    ):
        reference(
            """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
            g (float[2] x) => (float[2] y) { [it] y = com.microsoft.Gelu(x) }""",
            x=np.ones(2, np.float32),
        )
