"""What the reference evaluator of onnx gets wrong is right here: by the text, in plain loops."""

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
SCALE, BIAS, MEAN = RNG.normal(size=(3, 3)).astype(np.float32)
VAR = np.array([0.5, 1.25, 2.0], np.float32)
CHANNELS = dict(zip(("scale", "bias", "mean", "var"), (SCALE, BIAS, MEAN, VAR), strict=True))


def one_node(opset, op_type, inputs, outputs=("y",), **attributes):
    node = helper.make_node(op_type, list(inputs), list(outputs), name="it", **attributes)
    values = [helper.make_tensor_value_info(name, FLOAT, None) for name in inputs]
    result = [helper.make_tensor_value_info(outputs[0], FLOAT, None)]
    graph = helper.make_graph([node], "g", values, result)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def normalized(x, epsilon):
    y = np.empty(x.shape)
    for place in np.ndindex(x.shape):
        c = place[1]
        y[place] = SCALE[c] * (x[place] - MEAN[c]) / np.sqrt(VAR[c] + epsilon) + BIAS[c]
    return y


@pytest.mark.parametrize("opset", [7, 8, 9, 12, 13, 14, 15])
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (1, 3, 2, 2), (1, 3, 2, 1, 2)], ids=str)
def test_batch_normalization_with_momentum_uses_the_given_mean(opset, shape):
    x = RNG.normal(size=shape).astype(np.float32)
    model = one_node(opset, "BatchNormalization", ["x", *CHANNELS], momentum=0.9, epsilon=0.01)
    found = onnx_models.run(model, {"x": x, **CHANNELS}, runtime="reference")["y"]
    np.testing.assert_allclose(found, normalized(x, 0.01), rtol=1e-5, atol=1e-6)
    assert found.dtype == np.float32


@pytest.mark.parametrize(
    ("opset", "outputs", "attributes"),
    [
        (9, ["y", "m", "v", "a", "b"], {}),
        (6, ["y"], {}),
    ],
)
def test_training_is_refused_by_name(opset, outputs, attributes):
    model = one_node(opset, "BatchNormalization", ["x", *CHANNELS], outputs, **attributes)
    text = rf"node 'it' \(BatchNormalization\): BatchNormalization of opset {opset} is in training"
    with pytest.raises(ModelError, match=text):
        onnx_models.run(
            model, {"x": np.ones((1, 3, 2), np.float32), **CHANNELS}, runtime="reference"
        )


def test_training_that_an_attribute_asks_for_is_what_onnx_makes_of_it():
    x = RNG.normal(size=(2, 3, 4)).astype(np.float32)
    outputs = ["y", "m", "v"]
    model = one_node(15, "BatchNormalization", ["x", *CHANNELS], outputs, training_mode=1)
    feeds = {"x": x, **CHANNELS}
    expected = ReferenceEvaluator(model).run(None, feeds)[0]
    found = onnx_models.run(model, feeds, runtime="reference")["y"]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 2, 5), (1, 2, 3, 2, 2)], ids=str)
def test_global_max_pool_of_any_number_of_axes(shape):
    x = RNG.normal(size=shape).astype(np.float32)
    expected = np.full((*shape[:2], *(1,) * (len(shape) - 2)), -np.inf, np.float32)
    for place in np.ndindex(shape):
        at = (*place[:2], *(0,) * (len(shape) - 2))
        expected[at] = max(expected[at], x[place])
    found = onnx_models.run(one_node(13, "GlobalMaxPool", ["x"]), {"x": x}, runtime="reference")
    np.testing.assert_array_equal(found["y"], expected, strict=True)


# Box 1 covers most of box 0, and box 3 is apart from all; box 2 scores least.
BOXES = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 5, 1, 6], [0, 9, 1, 10]]], np.float32)
SCORES = np.array([[[0.9, 0.8, 0.3, 0.7]]], np.float32)


@pytest.mark.parametrize("shape", [(), (1,)], ids=str)
@pytest.mark.parametrize(
    ("limits", "kept"),
    [((), []), ((0,), []), ((2, 0.5), [0, 3]), ((4, 0.5), [0, 3, 2]), ((4, 0.5, 0.5), [0, 3])],
)
def test_limits_of_boxes_may_be_scalars_and_keep_none_by_default(limits, kept, shape):
    types = (np.int64, np.float32, np.float32)
    given = [np.full(shape, each, of) for each, of in zip(limits, types, strict=False)]
    feeds = dict(zip("bsnit", (BOXES, SCORES, *given), strict=False))
    model = one_node(18, "NonMaxSuppression", feeds)
    for value in (*model.graph.input[2:3], *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.INT64
    found = onnx_models.run(model, feeds, runtime="reference")["y"]
    expected = np.array([(0, 0, box) for box in kept], np.int64).reshape(-1, 3)
    np.testing.assert_array_equal(found, expected, strict=True)


def test_a_declared_size_below_zero_is_unknown():
    model = one_node(13, "Relu", ["x"])
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", FLOAT, [-1, 3]))
    assert str(onnx_models.Model(model).inputs[0]) == "x float32 (?, 3)"
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(onnx_models.run(model, {"x": x}, runtime="reference")["y"], x)


def of_row(op_type, row):
    """The text of the operator, for one row of numbers."""
    total = sum(np.exp(each) for each in row)
    if op_type == "Hardmax":
        return [float(k == list(row).index(max(row))) for k in range(len(row))]
    shares = [np.exp(each) / total for each in row]
    return shares if op_type == "Softmax" else [np.log(each) for each in shares]


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [None, 0, 1, 2])
@pytest.mark.parametrize("opset", [9, 12, 13])
def test_up_to_opset_12_these_are_of_a_matrix_and_then_along_an_axis(op_type, axis, opset):
    x = RNG.normal(size=(2, 3, 4)).astype(np.float32)
    attributes = {} if axis is None else {"axis": axis}
    if opset >= 13:
        lines = np.moveaxis(x, -1 if axis is None else axis, -1)
        expected = np.empty(lines.shape)
        for place in np.ndindex(lines.shape[:-1]):
            expected[place] = of_row(op_type, lines[place])
        expected = np.moveaxis(expected, -1, -1 if axis is None else axis)
    else:
        first = 1 if axis is None else axis
        matrix = x.reshape(int(np.prod(x.shape[:first])), -1)
        expected = np.array([of_row(op_type, row) for row in matrix]).reshape(x.shape)
    model = one_node(opset, op_type, ["x"], **attributes)
    found = onnx_models.run(model, {"x": x}, runtime="reference")["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert found.dtype == np.float32


def products(q, k, scale):
    out = np.zeros((*q.shape[:3], k.shape[2]))
    for b, h, i, j in np.ndindex(out.shape):
        out[b, h, i, j] = scale * sum(
            float(x) * float(y) for x, y in zip(q[b, h, i], k[b, h, j], strict=True)
        )
    return out


@pytest.mark.parametrize("opset", [23, 24])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("mode", [None, 0, 1])
def test_products_of_attention_are_capped_in_mode_1_only(opset, causal, mode):
    q, k, v = RNG.normal(size=(3, 2, 3, 4, 5)).astype(np.float32)
    chosen = {} if mode is None else {"qk_matmul_output_mode": mode}
    model = one_node(
        opset, "Attention", "qkv", ["y", "", "", "p"], is_causal=causal, softcap=0.5, **chosen
    )
    model.graph.output.add().CopyFrom(helper.make_tensor_value_info("p", FLOAT, None))
    model.ir_version = 10
    found = onnx_models.run(model, dict(zip("qkv", (q, k, v), strict=True)), runtime="reference")
    plain = products(q, k, 5**-0.5)
    capped = 0.5 * np.tanh(plain / 0.5)
    np.testing.assert_allclose(found["p"], capped if mode == 1 else plain, rtol=1e-4, atol=1e-5)
    hidden = np.triu(np.ones((4, 4), bool), 1) & bool(causal)
    weights = np.where(hidden, 0, np.exp(capped))
    expected = weights / weights.sum(-1, keepdims=True) @ v.astype(np.float64)
    np.testing.assert_allclose(found["y"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("condition", ["yes", ""])
def test_a_loop_stacks_what_its_iterations_return(count, condition):
    model = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        g (int64 n, float[2, 3] x) => (float[2, 3] end, float[k] scalars, float[k, 2, 3] all)
        { yes = Constant<value = bool {1}>()
          end, scalars, all = Loop(n, yes, x) <body = turn (int64 i, bool c, float[2, 3] s)
            => (bool go, float[2, 3] s2, float f, float[2, 3] row)
            { go = Identity(c)  s2 = Add(s, s)  f = Cast<to = 1>(i)  row = Identity(s) }> }""")
    model.graph.node[1].input[1] = condition
    x, scalars, rows = RNG.normal(size=(2, 3)).astype(np.float32), [], []
    end = x
    for i in range(count):
        scalars.append(np.float32(i))
        rows.append(end)
        end = end + end
    found = onnx_models.run(model, {"n": np.array(count), "x": x}, runtime="reference")
    np.testing.assert_array_equal(found["end"], end)
    np.testing.assert_array_equal(found["scalars"], np.array(scalars, np.float32), strict=True)
    expected = np.array(rows, np.float32).reshape(count, 2, 3)
    np.testing.assert_array_equal(found["all"], expected, strict=True)


def reference(text, **inputs):
    return onnx_models.run(parse_model(text), inputs, runtime="reference")


@pytest.mark.parametrize("size", [1, 3, 4, 5])
@pytest.mark.parametrize("shape", [(1, 5, 3, 3), (2, 4), (3, 2, 5)], ids=str)
def test_lrn_sums_the_squares_of_the_nearest_channels(size, shape):
    x = RNG.normal(size=shape).astype(np.float32)
    expected = np.empty(shape)
    for place in np.ndindex(shape):
        first, last = place[1] - (size - 1) // 2, place[1] + size // 2
        channels = range(max(first, 0), min(last, shape[1] - 1) + 1)
        squares = sum(float(x[(place[0], c, *place[2:])]) ** 2 for c in channels)
        expected[place] = x[place] / (1.5 + 0.25 / size * squares) ** 0.75

    model = one_node(17, "LRN", ["x"], size=size, alpha=0.25, beta=0.75, bias=1.5)

    found = onnx_models.run(model, {"x": x}, runtime="reference")["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert found.dtype == np.float32


@pytest.mark.parametrize("depth", ["int64[1] d = {3}", "int64 d = {3}", "float[1] d = {3.0}"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_depth_has_one_element(depth, axis):
    at = np.array([-1, 0, 5, 2])
    found = reference(
        f"""<ir_version: 8, opset_import: ["" : 13]> g (int64[4] at) => (float[a, b] y)
        <{depth}, float[2] v = {{0.5, 2.0}}> {{ y = OneHot<axis = {axis}>(at, d, v) }}""",
        at=at,
    )["y"]
    expected = np.full((4, 3), 0.5, np.float32)
    for row, index in enumerate(at):
        if -3 <= index < 3:
            expected[row, index] = 2.0
    np.testing.assert_array_equal(found, expected.T if axis == 0 else expected, strict=True)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("opset", [9, 10])
def test_scatter_of_the_first_opsets_runs(axis, opset):
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


@pytest.mark.parametrize("steps", [0, 3])
@pytest.mark.parametrize(("axis", "back"), [(0, 0), (1, 0), (-1, 1)])
def test_scan_stacks_its_results_along_any_axis(steps, axis, back):
    x = np.arange(2 * steps, dtype=np.float32).reshape(2, steps)
    found = reference(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] s, float[2, N] x) => (float[2] t, float[a, b] y)
        {{ t, y = Scan<num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [{back}],
            scan_output_axes = [{axis}], scan_output_directions = [{back}], body = b
            (float[2] a, float[2] c) => (float[2] d, float[2] e)
            {{ d = Add(a, c)  e = Mul(d, c) }}>(s, x) }}""",
        s=np.ones(2, np.float32),
        x=x,
    )
    state, rows = np.ones(2, np.float32), []
    for step in reversed(range(steps)) if back else range(steps):
        state = state + x[:, step]
        rows.append(state * x[:, step])
    rows = rows[::-1] if back else rows
    stacked = np.array(rows, np.float32).reshape(steps, 2)
    np.testing.assert_array_equal(found["t"], state)
    np.testing.assert_array_equal(found["y"], stacked if axis == 0 else stacked.T, strict=True)


@pytest.mark.parametrize(("given", "slope"), [("", 0.5), ("<alpha = 0.25>", 0.25)])
@pytest.mark.parametrize("runtime", ["reference", "onnx.reference"])
def test_attributes_of_functions_have_their_defaults(given, slope, runtime):
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


def test_a_node_that_the_evaluator_does_not_run_is_named():
    with pytest.raises(
        ModelError, match=r"node 'it' \(Gelu\): the reference evaluator does not run"
    ):
        reference(
            """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
            g (float[2] x) => (float[2] y) { [it] y = com.microsoft.Gelu(x) }""",
            x=np.ones(2, np.float32),
        )
