"""Each step between versions of other operators preserves results.

Models run in onnxruntime if it is installed, because it supports all versions of an operator, and
otherwise in the reference evaluator.
"""

import re
import warnings
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

from ndgather.errors import ModelError, NdgatherError
from ndgather.models import onnx as onnx_models
from tools.versions import order

pytestmark = pytest.mark.runtimes

OPEN_SIZE = 2
FLOATS = "float[2,3,4] x"
SQUARE = "float[1,2,4,4] x"

# The nodes, the inputs, the opset and the target opset: operators that become several nodes, and
# conversions over several versions. `test_step_properties` draws models for each single step.
CASES = {
    "clip": ("l = Constant<value_float=0.25>() y = Clip(x, l)", FLOATS, 13, 7),
    "clip to one value": ("l = Constant<value_float=0.25>() y = Clip(x, l, l)", FLOATS, 13, 7),
    "constant of shape": ("s = Shape(x) y = ConstantOfShape(s)", FLOATS, 21, 9),
    "dropout": ("y = Dropout<seed=1>(x)", FLOATS, 12, 10),
    "gelu": ("y = Gelu(x)", FLOATS, 20, 11),
    "mean of the default axes": ("y = MeanVarianceNormalization(x)", "float[2,3,4,4] x", 13, 8),
    "group normalization": (
        "s = Constant<value_floats=[2.0, 3.0]>() y = GroupNormalization<num_groups=2>(x, s, s)",
        SQUARE, 21, 11,
    ),
    "hard swish": ("y = HardSwish(x)", FLOATS, 14, 9),
    "identity": ("y = Identity(x)", FLOATS, 16, 7),
    "if": (
        "c = Constant<value=bool {1}>() y = If(c) <then_branch = t () => (float[2,3,1] m)"
        " { a = Constant<value_ints=[-1]>() m = ReduceMax(x, a) }, else_branch = e () =>"
        " (float[2,3,4] n) { n = Identity(x) }>",
        FLOATS, 18, 11,
    ),
    "layer normalization": (
        "s = Constant<value_floats=[1.0,2.0,3.0,4.0]>() y = LayerNormalization(x, s, s)",
        FLOATS, 17, 11,
    ),
    "less or equal": ("y = LessOrEqual(x, x)", FLOATS, 16, 11),
    "maximum of integers": ("y = Max(x, z, w)", "int64[2,3] x, int64[3] z, int64[1] w", 13, 11),
    "minimum of integers": ("y = Min(x, z)", "int64[2,3] x, int64[3] z", 12, 9),
    "loop": (
        "n = Constant<value_int=3>() c = Constant<value=bool {1}>() y = Loop(n, c, x) <body = b"
        " (int64 k, bool d, float[2,3,4] v) => (bool e, float[2,3,4] w)"
        " { e = Identity(d) w = Add(v, v) }>",
        FLOATS, 16, 11,
    ),
    "mish": ("y = Mish(x)", FLOATS, 18, 11),
    "pad": ("p = Constant<value_ints=[0,0,1,0,0,2]>() y = Pad(x, p)", FLOATS, 19, 9),
    "pool of adjacent windows": (
        "y = MaxPool<kernel_shape=[2,2], strides=[2,2], ceil_mode=1>(x)", "float[1,2,5,5] x",
        22, 12,
    ),
    "power of an integer": ("e = Constant<value_int=2>() y = Pow(x, e)", FLOATS, 15, 9),
    "absolute values": ("y = ReduceL1<noop_with_empty_axes=1>(x)", FLOATS, 18, 13),
    "reduce": (
        "a = Constant<value_ints=[0,-1]>()"
        " y = ReduceMean<keepdims=0, noop_with_empty_axes=1>(x, a)",
        FLOATS, 18, 9,
    ),
    "reshape of dynamic sizes": (
        "s = Shape(x) b = Constant<value_ints=[0]>() e = Constant<value_ints=[1]>()"
        " n = Slice(s, b, e) t = Constant<value_ints=[12]>() f = Concat<axis=0>(n, t)"
        " y = Reshape<allowzero=1>(x, f)",
        "float[N,3,4] x", 14, 11,
    ),
    "resize": (
        "s = Constant<value_floats=[1.0,1.0,2.0,2.0]>()"
        ' y = Resize<mode="nearest", coordinate_transformation_mode="asymmetric",'
        ' nearest_mode="floor">(x, , s)',
        SQUARE, 19, 10,
    ),
    "shape": ("y = Shape(x)", FLOATS, 21, 7),
    "softmax": ("y = Softmax<axis=0>(x)", FLOATS, 13, 11),
    "split evenly": ("y, z = Split<num_outputs=2, axis=2>(x)", FLOATS, 18, 11),
    "split with an empty last part": (
        "y, z, w = Split<num_outputs=3, axis=2>(x)", FLOATS, 18, 13,
    ),
    "split unevenly": ("y, z = Split<num_outputs=2, axis=1>(x)", FLOATS, 18, 13),
    # and upwards
    "grid": (
        'y = GridSample<mode="bicubic">(x, g)', f"{SQUARE}, float[1,2,2,2] g", 16, 20,
    ),
    "resize up": (
        's = Constant<value=float[4] {1.0,1.0,1.5,2.0}>() y = Resize<mode="linear">(x, s)',
        SQUARE, 10, 18,
    ),
    "softmax up": ("y = Softmax<axis=1>(x)", FLOATS, 11, 13),
    "softmax up of an axis that may be empty": (
        "y = Softmax<axis=1>(x)", "float[2,N,3] x", 11, 13,
    ),
    "split up": ("y, z = Split<axis=2>(x)", FLOATS, 11, 18),
    "upsample": (
        "y = Upsample<scales=[1.0,1.0,2.0,2.0]>(x)", SQUARE, 7, 13,
    ),
}  # fmt: skip


def model_of(text, inputs, opset):
    """Return a model whose outputs are the unused values."""
    parsed = parse_model(
        f'<ir_version: 8, opset_import: ["": {opset}]> g ({inputs}) => () {{ {text} }}'
    )
    read = {name for node in parsed.graph.node for name in node.input}
    for name in (name for node in parsed.graph.node for name in node.output):
        if name not in read:
            parsed.graph.output.add(name=name)
    inferred = onnx.shape_inference.infer_shapes(parsed, data_prop=True)
    for each in inferred.graph.output:
        tensor = each.type.tensor_type
        if not (tensor.elem_type and tensor.HasField("shape")):
            each.type.CopyFrom(inferred.graph.input[0].type)
    return inferred


def feeds_of(model):
    feeds = {}
    for each in model.graph.input:
        tensor = each.type.tensor_type
        shape = [dim.dim_value or OPEN_SIZE for dim in tensor.shape.dim]
        steps = np.arange(np.prod(shape)).reshape(shape)
        floats = tensor.elem_type == onnx.TensorProto.FLOAT
        feeds[each.name] = (np.sin(steps) * 2).astype(np.float32) if floats else steps
    return feeds


# Before 1.32, onnxruntime crashes, fails or returns wrong shapes if it reduces no elements.
OLDER_ONNXRUNTIME = bool(find_spec("onnxruntime")) and order(version("onnxruntime")) < [1, 32]


def outputs_of(model, feeds):
    try:
        import onnxruntime  # noqa: PLC0415 - where it is installed
    except ModuleNotFoundError:
        return by_the_evaluator(model, feeds)

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings)
    return session.run(None, feeds)


# Operators that the onnx evaluator does not support or computes wrongly in old versions.
ONLY_IN_ONNXRUNTIME = {
    *("grid", "resize", "resize up", "upsample"),
    *("softmax", "softmax up", "softmax up of an axis that may be empty"),
}
NEEDS_ONNXRUNTIME = pytest.mark.skipif(
    find_spec("onnxruntime") is None, reason="onnxruntime is not installed"
)


def by_the_evaluator(model, feeds):
    return list(onnx_models.run(model, feeds, runtime="reference").values())


def assert_same_numbers(before, after):
    feeds = feeds_of(before)
    expected = outputs_of(before, feeds)
    actual = outputs_of(after, feeds)
    assert len(expected) == len(actual) > 0
    for first, second in zip(expected, actual, strict=True):
        assert first.dtype == second.dtype
        np.testing.assert_allclose(second, first, rtol=1e-4, atol=1e-5)


def mark_nodes(graph):
    """Add names to nodes, and documentation and metadata to nodes, graph and values."""
    for item in (graph, *graph.input, *graph.output, *graph.value_info):
        item.doc_string = f"about {item.name}"
        item.metadata_props.add(key="of", value=item.name)
    for number, node in enumerate(graph.node):
        node.name, node.doc_string = f"layer/{number}", f"made by layer {number}"
        node.metadata_props.add(key="source", value=f"model.py:{number}")


def assert_identity(before, after):
    """Assert that new nodes are named after their origin and that outputs keep their names.

    The graph and its values keep their documentation and metadata.
    """
    kept = {x.name: x for x in (*after.input, *after.output, *after.value_info)}
    pairs = [(x, kept[x.name]) for x in (*before.input, *before.output)]
    pairs += [(x, kept[x.name]) for x in before.value_info if x.name in kept]
    for first, second in (before, after), *pairs:
        assert second.doc_string == first.doc_string == f"about {first.name}"
        assert second.metadata_props == first.metadata_props
    origins = {node.name: node for node in before.node}
    computed = {name: node for node in after.node for name in node.output}
    for node in after.node:
        origin = origins["/".join(node.name.split("/")[:2])]
        assert node.doc_string == origin.doc_string
        assert node.metadata_props == origin.metadata_props
    for node in before.node:
        assert all(computed[name].name == node.name for name in node.output if name in computed)
    assert len({node.name for node in after.node}) == len(after.node)


@pytest.mark.parametrize(
    ("text", "inputs", "source", "target"),
    [
        pytest.param(*case, id=name, marks=NEEDS_ONNXRUNTIME if name in ONLY_IN_ONNXRUNTIME else ())
        for name, case in CASES.items()
    ],
)
def test_steps_preserve_results(text, inputs, source, target):
    before = model_of(text, inputs, source)
    mark_nodes(before.graph)
    before.doc_string, before.producer_name, before.model_version = "a model", "a tool", 3
    before.metadata_props.add(key="license", value="free")

    after = onnx_models.convert(before, opset=target)

    for name in "doc_string", "producer_name", "model_version", "metadata_props":
        assert getattr(after, name) == getattr(before, name)

    assert [each.version for each in after.opset_import] == [target]
    assert_identity(before.graph, after.graph)
    onnx.checker.check_model(after, full_check=True)
    assert_same_numbers(before, after)


def resize(attribute):
    return (
        "e = Constant<value=float[0] {}>() s = Constant<value=float[4] {1.0,1.0,2.0,2.0}>()"
        f' y = Resize<mode="nearest", coordinate_transformation_mode="asymmetric",'
        f' nearest_mode="floor", {attribute}>(x, e, s)'
    )


REFUSED = {
    "an added node": (
        'y = ScatterND<reduction="mul">(x, i, u)', "float[N,M] x, int64[3,2] i, float[3] u", 16, 11,
        "node ScatterND of 'y': ai.onnx ScatterND-16 cannot become opset 11: reduction is mul "
        "(allowed: none); Reshape of opset 11 does not support sizes that may be 0 (allowed: opset",
    ),
    "an out-of-bounds axis": (
        "y = Concat<axis=-3>(x, x)", "float[2,3] x", 13, 9, "axis = -3 is out of bounds for rank 2",
    ),
    "an invalid node": (
        "y = LayerNormalization(x, x)", "float x", 17, 9, "node LayerNormalization of 'y': ",
    ),
    "an attribute": (
        "y, i = TopK<largest=0>(x, k)", "float[4] x, int64[1] k", 11, 10,
        "node TopK of 'y': TopK-11 cannot become TopK-10: it has no largest, which is 0",
    ),
    "axes that are an input": (
        "y = ReduceMax(x, a)", f"{FLOATS}, int64[1] a", 18, 13,
        "node ReduceMax of 'y': ReduceMax-18 cannot become ReduceMax-13: axes is not a constant",
    ),
    "a word": (
        'p = Constant<value_ints=[1,1]>() y = Pad<mode="wrap">(x, p)', "float[4] x", 19, 18,
        "it has no mode 'wrap'",
    ),
    "an operator": (
        "y = GridSample(x, g)", f"{SQUARE}, float[1,2,2,2] g", 16, 15,
        "node GridSample of 'y': GridSample-16 cannot become one of opset 15: there is no such",
    ),
    "a triangle": (
        "y = Trilu(x)", FLOATS, 14, 11,
        "node Trilu of 'y': Trilu-14 cannot become one of opset 11: there is no such operator",
    ),
    "layout of an LSTM": (
        "y = LSTM<hidden_size=1, layout=1>(x, w, r)",
        f"{FLOATS}, float[1,4,4] w, float[1,4,1] r", 14, 13, "it has no layout, which is 1",
    ),
    "a type": (
        "y = Add(x, x)", "bfloat16[2] x", 13, 12,
        "node Add of 'y': x.dtype = bfloat16 is not allowed in opset 12",
    ),
    "two types for one": (
        "y = Pow(x, z)", "float[2] x, int64[2] z", 13, 11,
        "an exponent of int64 may not fit in float32",
    ),
    "an exponent that its base cannot represent": (
        "e = Constant<value=double[1] {0.1}>() y = Pow(x, e)", "float[2] x", 12, 11,
        "an exponent of float64 may not fit in float32",
    ),
    "shapes that are repeated": (
        "y = Max(x, z)", "float[2,3] x, float[3] z", 13, 7, "its inputs may have different shapes",
    ),
    "an oldest opset": (
        "y = Relu(x)", FLOATS, 13, 6, "opset = 6 is not a possible target for a model of opset 13",
    ),
    "an uneven split of unknown size": (
        "y, z = Split<num_outputs=2>(x)", "float[N] x", 18, 13,
        "the size of the axis that is split is not known",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "inputs", "source", "target", "why"), REFUSED.values(), ids=REFUSED
)
def test_unsupported_attributes_are_named_in_the_error(text, inputs, source, target, why):
    with pytest.raises(NdgatherError) as refusal:
        onnx_models.convert(model_of(text, inputs, source), opset=target)
    assert why in str(refusal.value)


# The complete reason why a step refuses a node, for each function with its own reasons.
REASONS = {
    "softmax up": (
        "y = Softmax<axis=0>(x)", "float[2,N] x", 11, 13,
        "a size of its input after the first may be 0",
    ),
    "softmax up of an axis that may be empty": (
        "y = Softmax<axis=2>(x)", "float[2,N,3,4] x", 11, 13,
        "a size of its input after the first may be 0",
    ),
    "hardmax of an unknown rank": (
        "r = Reshape(x, s) y = Hardmax<axis=1>(r)", "float[4] x, int64[N] s", 13, 11,
        "the rank of its input is not known",
    ),
    "split": (
        "y, z, w = Split<num_outputs=3>(x)", "float[1] x", 18, 13,
        "an axis of size 1 has fewer than 3 parts",
    ),
    "constant": (
        'c = Constant<value_string="a">() y = Equal(x, c)', "string[2] x", 19, 11,
        "it is not a dense tensor of numbers",
    ),
    "dropout": (
        "y = Dropout(x, r, t)", "float[2] x, float r, bool t", 13, 10, "training_mode may be true",
    ),
    "scales": (
        "y = DequantizeLinear<axis=1>(x, s)", "uint8[2,3] x, float[3] s", 13, 10,
        "it supports a single scale only",
    ),
    "resize up": (
        'y = Resize<mode="nearest">(x, s)', f"{SQUARE}, float[4] s", 10, 11,
        "its scales are not constants",
    ),
    "resize both ways": (
        "s = Constant<value=float[4] {1.0,1.0,0.5,2.0}>()"
        ' y = Resize<mode="nearest">(x, s)', SQUARE, 10, 11,
        "one axis shrinks and another axis grows",
    ),
    "resize to sizes": (
        "s = Constant<value_ints=[1,2,4,4]>()"
        ' y = Resize<mode="nearest", coordinate_transformation_mode="asymmetric",'
        ' nearest_mode="floor">(x, , , s)', SQUARE, 13, 10, "its scales are not constants",
    ),
    "resize of an omitted region": (
        "s = Constant<value_ints=[1,1,1,1]>()"
        ' y = Resize<coordinate_transformation_mode="tf_crop_and_resize">(x, , , s)', SQUARE, 13,
        12, "roi is omitted, which tf_crop_and_resize requires",
    ),
    "resize that rounds": (
        "s = Constant<value=float[4] {1.0,1.0,2.0,2.0}>()"
        ' y = Resize<mode="nearest", coordinate_transformation_mode="asymmetric",'
        ' nearest_mode="round_prefer_floor">(x, , s)', SQUARE, 13, 10,
        "it does not round like nearest_mode = 'round_prefer_floor'",
    ),
    "pad": (
        "y = Pad(x, p, , a)", "float[2,3] x, int64[2] p, int64[1] a", 18, 13,
        "axes and pads are not constants, or the rank is not known",
    ),
    "slice": (
        "s = Constant<value_ints=[0]>() e = Constant<value_ints=[3]>() t = Constant<value_ints=[2]>"
        "() y = Slice(x, s, e, s, t)", "float[4] x", 13, 9, "it does not support steps",
    ),
    **{
        f"scan along an axis of an {side}": (
            f"y = Scan<num_scan_inputs=1, scan_{side}_axes=[-1],"
            " body = b (float[2] r) => (float[2] s) { s = Neg(r) }>(x)",
            "float[2,2] x", 11, 9, "an axis is negative",
        )
        for side in ("input", "output")
    },
    "slice of an axis": (
        "y = Slice(x, s, s, a)", "float[4] x, int64[1] s, int64[1] a", 11, 10,
        "axes may be negative",
    ),
    "concat": (
        "r = Reshape(x, s) y = Concat<axis=-1>(r, r)", "float[4] x, int64[N] s", 13, 9,
        "axis is negative, and the rank is not known",
    ),
    "squeeze": (
        "a = Constant<value=int64[0] {}>() y = Squeeze(x, a)", "float[1] x", 13, 11,
        "axes is empty, on which runtimes disagree",
    ),
    "clip": (
        "l = Constant<value=double {0.1}>() y = Clip(x, l)", "double[2] x", 13, 7,
        "min = 0.1 is not a float32",
    ),
    "clip of an input": (
        "y = Clip(x, l)", "float[2] x, float l", 13, 7, "min is not a constant",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "inputs", "source", "target", "why"), REASONS.values(), ids=REASONS
)
def test_errors_end_with_the_reason_of_the_step(text, inputs, source, target, why):
    with pytest.raises(ModelError) as refusal:
        onnx_models.convert(model_of(text, inputs, source), opset=target)
    assert re.fullmatch(r".* cannot become \w+-\d+: " + re.escape(why), str(refusal.value))


@pytest.mark.parametrize(
    ("text", "opset", "target"),
    [
        ("y = Slice(x, s, s, s, s, s)", 13, 9),
        ("y = ReduceMax<more=1>(x)", 18, 13),
        ("y = Softmax<more=1>(x)", 13, 11),
        ("y = Resize<more=1>(x, , s)", 13, 11),
        ("y = Clip(x, s, s, s)", 12, 9),
        ("y = Pad(x, s, s, s, s)", 18, 13),
        ("y, i = TopK(x, s, s)", 11, 9),
        ("y = Dropout(x, s, s, s)", 13, 10),
    ],
)
def test_unknown_attributes_and_inputs_are_never_dropped(text, opset, target):
    model = parse_model(
        f'<ir_version: 8, opset_import: ["": {opset}]> g (float[3,3] x) => (float[3,3] y)'
        f" <int64[1] s = {{1}}> {{ {text} }}"
    )
    with pytest.raises(NdgatherError):
        onnx_models.convert(model, opset=target)


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < 28, reason="this onnx has no Mod-28")
@pytest.mark.parametrize(
    ("dtype", "refused"), [("float", True), ("bfloat16", True), ("int32", False)]
)
def test_float_mod_without_fmod_requires_opset_28(dtype, refused):
    model = model_of("y = Mod(x, z)", f"{dtype}[2] x, {dtype}[2] z", 28)
    if refused:
        with pytest.raises(NdgatherError, match="it supports floats with fmod = 1 only"):
            onnx_models.convert(model, opset=27)
    else:
        assert onnx_models.convert(model, opset=27).graph.node[0].op_type == "Mod"
    model.graph.node[0].attribute.add(name="fmod", type=onnx.AttributeProto.INT, i=1)
    assert onnx_models.convert(model, opset=27).graph.node[0].attribute[0].i == 1


def test_sizes_that_may_be_0_are_refused():
    model = model_of("y = Reshape<allowzero=1>(x, s)", "float[N] x, int64[2] s", 14)
    with pytest.raises(ModelError, match="it has no allowzero, which is 1"):
        onnx_models.convert(model, opset=13)


def test_models_older_than_opset_7_must_first_be_converted_by_onnx():
    model = model_of("y = Add<broadcast=1, axis=0>(x, z)", "float[2,3] x, float[2] z", 6)
    with pytest.raises(
        ModelError, match=r"a model of opset 6 \(allowed: opset 7 or later for both"
    ):
        onnx_models.convert(model, opset=13)

    newer = onnx.shape_inference.infer_shapes(onnx.version_converter.convert_version(model, 7))
    after = onnx_models.convert(newer, opset=13)

    feeds = feeds_of(model)
    expected = feeds["x"] + feeds["z"][:, None]
    np.testing.assert_array_equal(outputs_of(after, feeds)[0], expected, strict=True)


def test_functions_of_another_opset_are_inlined_if_operators_are_equal():
    text = """<ir_version: 8, opset_import: ["": 18, "my": 1]>
        g (float[2,3,4] x) => (float[2,3,1] y) { y = my.Most(x) }
        <domain: "my", opset_import: ["": %d]> Most (d) => (m)
        { a = Constant<value_ints=[0]>() b = Gather(d, a) c = Neg(d) m = %s(c) }"""
    reduction, reduced = "ReduceMax<axes=[2]>", re.escape("it uses ReduceMax of opset 17")

    with pytest.raises(
        ModelError, match=f"function Most of my cannot be inlined because {reduced}"
    ):
        onnx_models.convert(parse_model(text % (17, reduction)), opset=11)

    model = parse_model((text % (17, "Tanh")).replace("3,1]", "3,4]"))
    for after in (onnx_models.convert(model, opset=11), onnx_models.convert(model, target="basic")):
        assert not after.functions
        (result,) = outputs_of(after, feeds_of(model))
        np.testing.assert_allclose(result, np.tanh(-feeds_of(model)["x"]), rtol=1e-6)
    assert model.functions[0].opset_import[0].version == 17


def test_ir_version_is_raised_if_the_opset_requires_it():
    model = model_of("y = Relu(x)", FLOATS, 13)
    model.ir_version = 4

    assert onnx_models.convert(model, opset=21).ir_version == 10
    assert onnx_models.convert(model, opset=11).ir_version == 4


@pytest.mark.parametrize(
    ("opset", "ir_version"), [(17, 8), (15, 8), (13, 7), (11, 6), (9, 4), (7, 4)]
)
def test_ir_version_is_lowered_with_the_opset(opset, ir_version):
    model = model_of("y = Relu(x)", FLOATS, 18)
    model.ir_version = 10
    model.graph.initializer.add().CopyFrom(onnx.numpy_helper.from_array(np.ones(4, "f"), "w"))
    model.graph.node.add(op_type="Add", input=["x", "w"], output=["v"])
    model.graph.output.add(name="v").type.CopyFrom(model.graph.input[0].type)

    after = onnx_models.convert(model, opset=opset)

    assert after.ir_version == ir_version
    onnx.checker.check_model(after)


def test_constants_raise_the_ir_version_of_old_models():
    model = model_of("c = Constant<value=int64[2] {0,1}>() y = Gather(x, c)", FLOATS, 9)
    model.ir_version = 3  # requires every initializer to be an input

    after = onnx_models.convert(model, opset=8)

    assert after.ir_version == 4
    assert [port.name for port in after.graph.input] == ["x"]
    onnx.checker.check_model(after)
    assert_same_numbers(model, after)


# Rows of version_changes.toml: the newer node, the two opsets, the attributes of the older node
# (None if omitted), and a newer node without an equivalent with the reason.
ROWS = {
    "QuantizeLinear precision": (
        "y = QuantizeLinear<precision=0>(x, s)", "float[2] x, float s", 23, 21, {"precision": None},
        "y = QuantizeLinear<precision=1>(x, s)", "it has no precision, which is 1",
    ),
    "QuantizeLinear output_dtype": (
        "y = QuantizeLinear<output_dtype=0>(x, s)", "float[2] x, float s", 21, 19,
        {"output_dtype": None},
        "y = QuantizeLinear<output_dtype=3>(x, s)", "it has no output_dtype, which is 3",
    ),
    "QuantizeLinear block_size": (
        "y = QuantizeLinear<axis=0, block_size=0>(x, s)", "float[2] x, float s", 21, 19,
        {"block_size": None},
        "y = QuantizeLinear<axis=0, block_size=2>(x, s)", "it has no block_size, which is 2",
    ),
    **{
        f"ScatterElements {word}": (
            'y = ScatterElements<reduction="add">(x, i, u)', "float[4] x, int64[N] i, float[N] u",
            18, 17, {"reduction": "add"},
            f'y = ScatterElements<reduction="{word}">(x, i, u)',
            f": reduction is {word} (allowed: none, add, mul); ",
        )
        for word in ("max", "min")
    },
    "Cast round_mode": (
        'y = Cast<to=17, round_mode="up">(x)', "float[2] x", 24, 23, {"round_mode": None},
        'y = Cast<to=17, round_mode="down">(x)', "it has no round_mode, which is 'down'",
    ),
    "CastLike round_mode": (
        'y = CastLike<round_mode="up">(x, z)', "float[2] x, float16[2] z", 24, 23,
        {"round_mode": None},
        "", "",
    ),
    "Range stash_type": (
        "y = Range<stash_type=1>(x, x, x)", "float x", 27, 26, {"stash_type": None},
        "y = Range<stash_type=11>(x, x, x)", "it has no stash_type, which is 11",
    ),
    "SpaceToDepth mode": (
        'y = SpaceToDepth<blocksize=2, mode="DCR">(x)', SQUARE, 28, 27,
        {"blocksize": 2, "mode": None},
        "", "",
    ),
    "RoiAlign coordinates": (
        'y = RoiAlign<coordinate_transformation_mode="output_half_pixel">(x, r, b)',
        f"{SQUARE}, float[1,4] r, int64[1] b", 16, 15, {"coordinate_transformation_mode": None},
        "y = RoiAlign(x, r, b)", "it has no coordinate_transformation_mode, which is 'half_pixel'",
    ),
    "GridSample linear": (
        'y = GridSample<mode="linear">(x, g)', f"{SQUARE}, float[1,2,2,2] g", 20, 16,
        {"mode": "bilinear"}, "", "",
    ),
    "GridSample without a mode": (
        "y = GridSample(x, g)", f"{SQUARE}, float[1,2,2,2] g", 20, 16, {"mode": "bilinear"}, "", "",
    ),
    "GridSample cubic": (
        'y = GridSample<mode="cubic">(x, g)', f"{SQUARE}, float[1,2,2,2] g", 20, 16,
        {"mode": "bicubic"}, "", "",
    ),
    "GridSample nearest": (
        'y = GridSample<mode="nearest">(x, g)', f"{SQUARE}, float[1,2,2,2] g", 20, 16,
        {"mode": "nearest"}, "", "",
    ),
    "DFT axis": (
        "a = Constant<value = int64 {1}>() y = DFT(x, , a)", "float[1,4,5,1] x", 20, 17,
        {"axis": 1},
        "y = DFT(x, , a)", "axis may be negative",
    ),
    "DFT without an axis": (
        "y = DFT(x)", "float[1,4,5,1] x", 20, 17, {"axis": 2}, "", "",
    ),
    "Resize exclude_outside": (
        resize("exclude_outside=0"), SQUARE, 11, 10, {"exclude_outside": None, "mode": "nearest"},
        resize("exclude_outside=1"), "it has no exclude_outside, which is 1",
    ),
    "Resize cubic_coeff_a": (
        resize("cubic_coeff_a=-0.75"), SQUARE, 11, 10, {"cubic_coeff_a": None},
        resize("cubic_coeff_a=-0.5"), "it has no cubic_coeff_a, which is -0.5",
    ),
    "Resize extrapolation_value": (
        resize("extrapolation_value=0.0"), SQUARE, 11, 10, {"extrapolation_value": None},
        resize("extrapolation_value=1.0"), "it has no extrapolation_value, which is 1.0",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "inputs", "newer", "older", "written", "refused", "why"), ROWS.values(), ids=ROWS
)
def test_table_rows_convert_one_value_and_refuse_another(
    text, inputs, newer, older, written, refused, why
):
    before = model_of(text, inputs, newer)
    node = next(each for each in onnx_models.convert(before, opset=older).graph.node
                if each.op_type == before.graph.node[-1].op_type)  # fmt: skip
    values = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    for name, value in written.items():
        found = values.get(name)
        assert (found.decode() if isinstance(found, bytes) else found) == value

    if refused:
        more = ", int64 a" if "a)" in refused else ""
        with pytest.raises(ModelError, match=re.escape(why)):
            onnx_models.convert(model_of(refused, f"{inputs}{more}", newer), opset=older)


UPWARDS = {
    "RoiAlign": (
        "y = RoiAlign(x, r, b)", f"{SQUARE}, float[1,4] r, int64[1] b", 10, 16,
        {"coordinate_transformation_mode": b"output_half_pixel"},
    ),
    "GridSample": (
        "y = GridSample(x, g)", f"{SQUARE}, float[1,2,2,2] g", 16, 20, {"mode": b"linear"},
    ),
    "Resize": (
        's = Constant<value=float[4] {1.0,1.0,0.5,0.5}>() y = Resize<mode="nearest">(x, s)',
        SQUARE, 10, 11,
        {"coordinate_transformation_mode": b"asymmetric", "nearest_mode": b"ceil"},
    ),
    "Upsample": (
        's = Constant<value=float[4] {1.0,1.0,2.0,2.0}>() y = Upsample(x, s)', SQUARE, 9, 11,
        {"coordinate_transformation_mode": b"asymmetric", "nearest_mode": b"floor"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "inputs", "older", "newer", "written"), UPWARDS.values(), ids=UPWARDS
)
def test_newer_versions_keep_the_older_behavior(text, inputs, older, newer, written):
    after = onnx_models.convert(model_of(text, inputs, older), opset=newer)
    node = next(
        each for each in after.graph.node if each.op_type in {"RoiAlign", "GridSample", "Resize"}
    )
    values = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    assert values.items() >= written.items()


def test_dft_gets_its_axis_as_an_input():
    after = onnx_models.convert(model_of("y = DFT(x)", "float[1,4,5,1] x", 17), opset=20)
    constant, node = after.graph.node
    assert onnx.numpy_helper.to_array(constant.attribute[0].t) == 1
    assert list(node.input) == ["x", "", constant.output[0]]


@pytest.mark.parametrize(("spatial", "refused"), [(1, False), (0, True)])
def test_batch_normalization_drops_only_the_default_of_spatial(spatial, refused):
    model = model_of(
        f"y = BatchNormalization<spatial={spatial}>(x, s, s, s, s)", f"{SQUARE}, float[2] s", 8
    )
    if refused:
        with pytest.raises(ModelError, match="it has no spatial, which is 0"):
            onnx_models.convert(model, opset=9)
    else:
        assert not onnx_models.convert(model, opset=9).graph.node[0].attribute


def test_space_to_depth_crd_becomes_its_function_body():
    model = model_of('y = SpaceToDepth<blocksize=2, mode="CRD">(x)', SQUARE, 28)
    kinds = [each.op_type for each in onnx_models.convert(model, opset=27).graph.node]
    assert "SpaceToDepth" not in kinds
    assert {"Reshape", "Transpose"} <= {*kinds}


@pytest.mark.parametrize(("name", "inputs"), [("Hyper", "x"), ("Scatter", "x, z, x")])
def test_missing_operators_are_named_in_the_error(name, inputs):
    model = model_of(f"y = {name}({inputs})", "float[2] x, int64[2] z", 13)
    with pytest.raises(NdgatherError, match=f"node {name} of 'y'"):
        onnx_models.convert(model, opset=12)
    if name == "Hyper":
        model.graph.node[0].ClearField("output")
        with pytest.raises(NdgatherError, match="node Hyper without a name: opset 13"):
            onnx_models.convert(model, opset=12)


def same_values(first, second):
    if isinstance(first, list) or isinstance(second, list):
        return len(first) == len(second) and all(map(same_values, first, second))
    first, second = np.asarray(first), np.asarray(second)
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if first.dtype.kind in "OUS":
        return np.array_equal(first, second)
    wide = [each.astype(np.complex128) for each in (first, second)]
    return np.allclose(*wide, rtol=1e-3, atol=1e-5, equal_nan=True)


def as_array(value):
    """Return an input of a node test as an array; it may be a message, scalar or sequence."""
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic | float | int) else value


# The reasons why onnxruntime cannot run a node test.
NOT_RUN = (
    "NOT_IMPLEMENTED|is not a registered function/op|language-pack|converted to MLDataType|"
    "is not defined for empty set|"
    "running ConvInteger node|No corresponding Numpy type|sequence_length|"
    "create a github issue|handle object of type"
)
NOT_THE_SAME_TWICE = ("Bernoulli", "Multinomial", "RandomNormalLike", "RandomUniformLike")


@pytest.mark.slow
@NEEDS_ONNXRUNTIME
def test_onnx_node_tests_convert_through_all_versions():
    """Convert each to every older version of its operators and back, which takes half a minute."""
    from onnx.backend.test.case.node import collect_testcases  # noqa: PLC0415 - takes long

    schemas = [each for each in onnx.defs.get_all_schemas_with_history() if each.domain == ""]
    wrong, count = [], 0
    with warnings.catch_warnings(action="ignore"):  # cast cases overflow
        cases = collect_testcases(None)
    for case in cases:
        kinds = {node.op_type for node in case.model.graph.node}
        opset = {each.domain: each.version for each in case.model.opset_import}.get("", 0)
        attention = "qk_matmul" in case.name  # onnxruntime disagrees with the function body
        if "_expanded" in case.name or attention or kinds & {*NOT_THE_SAME_TWICE}:
            continue
        inputs, _ = case.data_sets[0]
        names = (each.name for each in case.model.graph.input)
        feeds = dict(zip(names, map(as_array, inputs), strict=False))
        try:
            expected = outputs_of(case.model, feeds)
        except Exception as error:
            if not re.search(NOT_RUN, str(error)):
                wrong.append((case.name, "before", str(error)[:100]))
            continue
        versions = {each.since_version for each in schemas if each.name in kinds}
        for target in sorted(each - 1 for each in versions if 8 <= each <= opset):
            try:
                older = onnx_models.convert(case.model, opset=target)
                again = onnx_models.convert(older, opset=opset)
            except NdgatherError:
                continue
            for model in older, again:
                try:
                    actual = outputs_of(model, feeds)
                except Exception as error:
                    if not re.search(NOT_RUN, str(error)):
                        wrong.append((case.name, target, str(error)[:100]))
                    continue
                count += 1
                if not same_values(expected, actual):
                    wrong.append((case.name, target))
    assert not wrong
    assert count > 2000
