"""Rewriting models for restricted targets preserves results."""

import importlib
import pkgutil
import re
from functools import cache
from importlib.util import find_spec
from itertools import islice

import numpy as np
import onnx
import onnx.backend.test.case.node as node_cases
import pytest
from hypothesis import assume, event, example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model
from onnx.reference import ReferenceEvaluator

from ndgather.errors import FileError, ModelError, NdgatherError
from ndgather.models import onnx as onnx_models
from ndgather.models.onnx.passes.target import load_target, target_names
from tests.definitions.reference import (
    gather,
    gather_elements,
    gather_nd,
    scatter_elements,
    scatter_nd,
)
from tests.models.test_version_steps import (
    NEEDS_ONNXRUNTIME,
    OLDER_ONNXRUNTIME,
    assert_identity,
    mark_nodes,
)

pytestmark = pytest.mark.runtimes

GATHERS = {"Gather", "GatherElements", "GatherND"}
SCATTERS = {"ScatterElements", "ScatterND"}
BASIC = {"Add", "Cast", "Concat", "Constant", "Equal", "Gather", "Less", "Max", "Min", "Mul"}
BASIC |= {"Div", "Reshape", "Slice", "Transpose", "Where"}
FOR_OPEN_SIZES = {"Range", "Shape"}
REDUCTIONS = ("add", "max", "min", "mul", "none")


# Calls and models


def entries(draw, shape, sizes):
    """Draw non-negative and negative indices; `sizes` belong to the last axis."""
    result = np.zeros(shape, np.int64)
    for place in np.ndindex(shape):
        size = sizes[place[-1] if place else 0]
        borders = st.sampled_from([0, -1, size - 1, -size])
        result[place] = draw(borders | st.integers(-size, size - 1))
    return result


def numbers(draw, shape):
    count = int(np.prod(shape))
    values = draw(st.permutations(range(-(count // 2), count - count // 2)))
    return (np.array(values, np.float32) * np.float32(0.37)).reshape(shape)


@st.composite
def calls(draw, op_types):
    """Draw an operator, named arrays, attributes and the result."""
    op_type = draw(st.sampled_from(sorted(op_types)))
    shape = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=4)))
    data = numbers(draw, shape)
    axis = draw(st.integers(0, len(shape) - 1))
    written = draw(st.sampled_from([axis, axis - len(shape)]))
    reduction = draw(st.sampled_from(REDUCTIONS))
    if op_type == "Gather":
        places = tuple(draw(st.lists(st.integers(0, 3), max_size=2)))
        indices = entries(draw, places, [shape[axis]] * 4)
        return op_type, [data, indices], {"axis": written}, gather(data, indices, axis)
    if op_type.endswith("Elements"):
        places = [draw(st.integers(0, size)) for size in shape]
        places[axis] = draw(st.integers(0, 3))
        indices = entries(draw, tuple(places), [shape[axis]] * 4)
        if op_type == "GatherElements":
            return op_type, [data, indices], {"axis": written}, gather_elements(data, indices, axis)
        updates = numbers(draw, indices.shape)
        result = scatter_elements(data, indices, updates, axis, reduction)
        attributes = {"axis": written, "reduction": reduction}
        return op_type, [data, indices, updates], attributes, result
    batch_dims = draw(st.integers(0, len(shape) - 1)) if op_type == "GatherND" else 0
    depth = draw(st.integers(1, len(shape) - batch_dims))
    places = (*shape[:batch_dims], *draw(st.lists(st.integers(0, 3), max_size=2)))
    indices = entries(draw, (*places, depth), shape[batch_dims : batch_dims + depth])
    if op_type == "GatherND":
        result = gather_nd(data, indices, batch_dims)
        return op_type, [data, indices], {"batch_dims": batch_dims}, result
    updates = numbers(draw, (*places, *shape[depth:]))
    result = scatter_nd(data, indices, updates, reduction)
    return op_type, [data, indices, updates], {"reduction": reduction}, result


def build_model(nodes, inputs, shape, constants=(), *, shapes=(), opset=18):
    """Return a model of nodes with the output `out` for named arrays.

    `shapes` overrides the declared shapes of arrays.
    """
    shapes = dict(shapes)
    infos = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), shapes.get(name, array.shape)
        )
        for name, array in inputs.items()
    ]
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, shape)
    tensors = [numpy_helper.from_array(array, name) for name, array in dict(constants).items()]
    graph = helper.make_graph(nodes, "g", infos, [out], tensors)
    mark_nodes(graph)
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8 if opset < 24 else 10)


def model_of(call, *, known, constant, narrow=False, opset=18):
    """Return a model of a call, which declares sizes if `known`, and its inputs."""
    op_type, arrays, attributes, result = call
    data, indices, *updates = arrays
    if narrow and op_type in {"Gather", "GatherElements", "ScatterElements"}:
        indices = indices.astype(np.int32)
    inputs = dict(zip(("data", "indices", "updates"), (data, indices, *updates), strict=False))
    node = helper.make_node(op_type, list(inputs), ["out"], **attributes)
    constants = {"indices": inputs.pop("indices")} if constant else {}
    shapes = {} if known else {name: [None] * array.ndim for name, array in inputs.items()}
    if "indices" in shapes and op_type.endswith("ND"):
        shapes["indices"][-1] = indices.shape[-1]
    rank = [None] * result.ndim
    return build_model([node], inputs, rank, constants, shapes=shapes, opset=opset), inputs


def nodes_of(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes_of(attribute.g)


def assert_basic(model, *, known=True):
    used = {node.op_type for node in nodes_of(model.graph)}
    assert used <= BASIC | (set() if known else FOR_OPEN_SIZES)
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    types = {info.name: info.type.tensor_type for info in (*inferred.value_info, *inferred.input)}
    ranks = {name: len(kind.shape.dim) for name, kind in types.items() if kind.HasField("shape")}
    ranks |= {tensor.name: len(tensor.dims) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Gather":
            assert all(item.i == 0 for item in node.attribute if item.name == "axis")
            assert ranks.get(node.input[1], 1) == 1


def runs_of(model):
    """Yield functions that run a model in each installed runtime."""
    yield lambda inputs: ReferenceEvaluator(model).run(None, inputs)
    if find_spec("onnxruntime") is not None:
        import onnxruntime  # noqa: PLC0415 - not installed everywhere

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        yield lambda inputs: session.run(None, inputs)


def runs(model, inputs):
    return (run(inputs) for run in runs_of(model))


def assert_results(model, inputs, expected):
    most = 1 if OLDER_ONNXRUNTIME and not expected.size else None
    for (result,) in islice(runs(model, inputs), most):
        np.testing.assert_array_equal(result, expected, strict=True)
        assert result.tobytes() == expected.tobytes()


# `make check` draws few examples and `make test-targets` many.
EXAMPLES = max(4, min(200, settings.default.max_examples // 7))

# Targets with limits that no built-in target has.
SMALL = {
    "low": """
        operators = ["Add", "Cast", "Concat", "Constant", "Div", "Equal", "Less", "Mul", "Reshape",
                     "Slice", "Where"]
        open_sizes = ["Range", "Shape"]
        limits.GatherND = { ranks = [1, 2], depths = [1], batch_dims = 0, negative = false }
        limits.ScatterND = { ranks = [1, 2], depths = [1], reductions = ["none"] }
        limits.ScatterElements = { ranks = [1, 2], axes = [0] }""",
    "tall": """
        operators = ["Add", "Concat", "Constant", "Max", "Min", "Mul", "Reshape", "Slice"]
        open_sizes = ["Range", "Shape"]
        limits.Gather = { ranks = [2, 2], axes = [0], index_ranks = [1, 1], negative = false }""",
    "slices": """
        operators = ["Add", "Concat", "Constant", "Max", "Min", "Mul", "Reshape", "Slice"]
        open_sizes = ["Range", "Shape"]
        limits = {}""",
}


def written_target(folder, name, limits):
    path = folder / f"{name}.toml"
    head = f'name = "{name}"\nwhat = "a test"\nsource = "https://example.org"\ndate = 2026-01-01\n'
    path.write_text(head + limits)
    return path


def small_target(folder, name):
    return written_target(folder, name, SMALL[name])


@given(
    call=calls(GATHERS),
    known=st.booleans(),
    constant=st.booleans(),
    checked=st.booleans(),
    narrow=st.booleans(),
    opset=st.sampled_from([14, 18, 21]),
)
@settings(max_examples=4 * EXAMPLES)
def test_gathers_are_rewritten_for_basic(call, known, constant, checked, narrow, opset):
    model, inputs = model_of(call, known=known, constant=constant, narrow=narrow, opset=opset)

    result = onnx_models.convert(model, target="basic", checked=checked)

    event(call[0])
    assert_basic(result, known=known)
    assert_results(result, inputs, call[-1])
    assert_fits(onnx_models.conversion(result, target="basic"))


def outcome(run, inputs):
    """Return the results of a run, or None if it raises an out-of-bounds error.

    Any other error fails the test.
    """
    try:
        return run(inputs)
    except Exception as error:
        if re.search(OUTSIDE, str(error)):
            return None
        raise


OUTSIDE = (
    r"index -?\d+ is out of bounds for axis \d+ with size \d+|invalid entry in choice array|"
    r"indices element out of data bounds, idx=-?\d+|invalid (index|indice) found, \w+ = -?\d+|"
    r"GatherElements op: Out of range value in index tensor"
)


def assert_fits(again):
    """Assert that a second conversion has nothing to rewrite if indices are in bounds."""
    assert {node.why for node in again.nodes} <= {"", SIGN_OUTSIDE}


def allowed_updates(call):
    """Return the maximum number of updates at non-constant indices, taken from an error message."""
    adds = call[2].get("reduction") == "add"
    return f"(allowed: 1..16{', or any number with allow_matmul=True, --allow-matmul' * adds})"


@given(call=calls(SCATTERS), constant=st.booleans(), checked=st.booleans(), narrow=st.booleans())
@settings(max_examples=3 * EXAMPLES)
def test_scatters_with_few_updates_or_constant_indices_are_rewritten_for_basic(
    call, constant, checked, narrow
):
    model, inputs = model_of(call, known=True, constant=constant, narrow=narrow)

    conversion = onnx_models.conversion(model, target="basic", checked=checked)

    event(call[0])
    (node,) = conversion.nodes
    rows = call[1][1].size
    if call[0] == "ScatterND":
        rows //= call[1][1].shape[-1]
    if node.stays:
        assert rows > 16
        assert f"is {rows} {allowed_updates(call)}" in node.why
        return
    assert_basic(conversion.model)
    assert_results(conversion.model, inputs, call[-1])


def assert_taken(target, call, *, constant, checked=False):
    """Rewrite a call for a target; assert that results are equal and all nodes are supported."""
    model, inputs = model_of(call, known=True, constant=constant)

    conversion = onnx_models.conversion(model, target=target, checked=checked)

    assert_identity(model.graph, conversion.model.graph)
    (node,) = conversion.nodes
    event("stays" if node.stays else "rewritten" if node.why else "fits")
    if node.became not in {"", node.was}:
        assert_results(conversion.model, inputs, call[-1])
        again = onnx_models.conversion(conversion.model, target=target)
        assert_fits(again)
    return node


# All targets by name, so that a missing target is noticed.
TARGETS = (
    *("coreml", "ncnn", "onnxruntime", "opencv", "qnn", "rknn"),
    *("tensorrt-10", "tensorrt-8", "tflite", "tidl", "webgpu"),
)


@given(
    target=st.sampled_from(TARGETS),
    call=calls(GATHERS | SCATTERS),
    constant=st.booleans(),
    checked=st.booleans(),
)
@settings(max_examples=6 * EXAMPLES)
def test_targets_support_the_rewritten_nodes(target, call, constant, checked):
    event(target)
    assert_taken(target, call, constant=constant, checked=checked)


@NEEDS_ONNXRUNTIME
@given(
    call=calls(GATHERS | SCATTERS),
    how=st.sampled_from(
        [*({"target": name} for name in ("basic", *TARGETS)), {"operator": "Gather"}]
    )
    | st.integers(9, 17).map(lambda opset: {"opset": opset}),
    known=st.booleans(),
    constant=st.booleans(),
)
@settings(max_examples=6 * EXAMPLES)
@example(
    call=("Gather", [np.array([[[3]], [[4]]]), np.array(0)], {"axis": 1}, np.array([[3], [4]])),
    how={"target": "basic"},
    known=False,
    constant=False,
)
def test_rewriting_preserves_strings_that_onnxruntime_copies_correctly(call, how, known, constant):
    """Gather in onnxruntime copies only the first string of each row."""
    assume(call[2].get("reduction", "none") == "none")
    model, inputs = model_of(call, known=known, constant=constant)
    for info in (*model.graph.input, *model.graph.output):
        if info.name != "indices":
            info.type.tensor_type.elem_type = TensorProto.STRING
    of_strings = np.vectorize(str, otypes=[object])
    inputs = {name: x if name == "indices" else of_strings(x) for name, x in inputs.items()}
    expected = of_strings(call[-1]).tolist()
    *_, run = runs_of(model)
    assume(run(inputs)[0].tolist() == expected)

    try:
        converted = onnx_models.convert(model, **how)
    except NdgatherError:
        return

    *_, run = runs_of(converted)
    assert run(inputs)[0].tolist() == expected


@pytest.mark.parametrize(("count", "kept"), [(4096, False), (4097, True)])
def test_many_duplicate_updates_are_not_moved_to_scatter_nd(count, kept):
    inputs = f"float[9] x, int64[{count}] i, float[{count}] u"
    model = parse_model(
        f"""<ir_version: 8, opset_import: ["": 18]> g ({inputs}) => (float[9] y)
        {{ y = ScatterElements<reduction="add">(x, i, u) }}"""
    )

    conversion = onnx_models.conversion(model, operator="ScatterND")

    assert [node.op_type for node in conversion.model.graph.node][-1:] == [
        "ScatterElements" if kept else "ScatterND"
    ]
    assert any("onnxruntime" in finding.what for finding in conversion.findings) is kept


@pytest.mark.parametrize("dtype", ["float", "int64"])
@pytest.mark.parametrize("word", ["add", "max", "min"])
def test_rewritten_maximum_reports_signs_of_zeros(word, dtype):
    model = parse_model(
        f"""<ir_version: 8, opset_import: ["": 18]>
        g ({dtype}[3] x, int64[2] i, {dtype}[2] u) => ({dtype}[3] y)
        {{ y = ScatterElements<reduction="{word}">(x, i, u) }}"""
    )

    conversion = onnx_models.conversion(model, target="basic")

    says = [finding.rule for finding in conversion.findings] == ["signs of zeros"]
    assert says is (word != "add" and dtype == "float")


# Inputs and nodes of indices that are always non-negative and in bounds.
IN_BOUNDS = {
    "rows of TopK": (
        "float[1,100] x, float[100,4] b",
        "v, i = TopK(x, five) j = Squeeze(i, none) y = Gather(b, j)",
    ),
    "elements of TopK": ("float[8,100] x", "v, i = TopK(x, five) y = GatherElements<axis=1>(x, i)"),
    "tuples of TopK": (
        "float[1,100] x, float[1,100,4] b",
        "v, i = TopK(x, five) u = Unsqueeze(i, two) y = GatherND<batch_dims=1>(b, u)",
    ),
    "ArgMax": ("float[8,50] x, float[50,4] b", "i = ArgMax<axis=1>(x) y = Gather(b, i)"),
    "NonZero": (
        "float[8] x, float[8,4] b", "i = NonZero(x) s = Squeeze(i, none) y = Gather(b, s)",
    ),
    "Clip": ("int64[5] a, float[8,4] b", "i = Clip(a, zero, seven) y = Gather(b, i)"),
    "Shape": ("float[8] x, float[9,4] b", "i = Shape(x) y = Gather(b, i)"),
    "casts there and back": (
        "float[8,100] x",
        "v, i = TopK(x, five) c = Cast<to=6>(i) d = Cast<to=7>(c) y = GatherElements<axis=1>(x, d)",
    ),
    "quotients": (
        "float[300] x, float[100,4] b", "v, i = TopK(x, five) q = Div(i, three) y = Gather(b, q)",
    ),
    "remainders": (
        "float[300] x, float[100,4] b",
        "v, i = TopK(x, five) q = Mod(i, hundred) y = Gather(b, q)",
    ),
}  # fmt: skip
NARROW = """
    operators = ["Add", "Mul", "Reshape", "Slice", "Concat", "Cast"]
    limits.Gather = { negative = false, index_types = ["int32"] }"""


@NEEDS_ONNXRUNTIME
@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("name", IN_BOUNDS)
def test_int32_targets_need_only_a_cast_if_indices_are_in_bounds(name, checked, tmp_path):
    inputs, nodes = IN_BOUNDS[name]
    model = parse_model(
        f"""<ir_version: 8, opset_import: ["": 18]> g ({inputs}) => (float[K,L] y)
        <int64[1] five = {{5}}, int64[1] none = {{0}}, int64[1] two = {{2}}, int64 zero = {{0}},
         int64 three = {{3}}, int64 seven = {{7}}, int64 hundred = {{100}}> {{ {nodes} }}"""
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    wide = written_target(tmp_path, "wide", NARROW.replace(', index_types = ["int32"]', ""))
    narrow = written_target(tmp_path, "narrow", NARROW)
    random = np.random.default_rng(0)
    feeds = {
        port.name: random.integers(
            -9, 9, [dim.dim_value for dim in port.type.tensor_type.shape.dim]
        )
        for port in model.graph.input
    }
    feeds = {key: x if key == "a" else x.astype(np.float32) for key, x in feeds.items()}

    before, after = (
        onnx_models.conversion(model, target=target, checked=checked) for target in (wide, narrow)
    )

    assert after.node_count <= before.node_count + 1
    assert after.nodes[-1].outside.startswith("not possible")
    (*_, run), (*_, run_after) = map(runs_of, (model, after.model))
    np.testing.assert_array_equal(run_after(feeds)[0], run(feeds)[0], strict=True)


@NEEDS_ONNXRUNTIME
@given(
    call=calls({"Gather", "GatherElements", "ScatterElements"}),
    known=st.booleans(),
    constant=st.booleans(),
    negative=st.booleans(),
)
@settings(max_examples=EXAMPLES)
def test_int32_targets_need_at_most_one_more_node(folder, call, known, constant, negative):
    model, inputs = model_of(call, known=known, constant=constant)
    limit = f'{{ negative = {str(negative).lower()}, index_types = ["int32"] }}'
    text = 'operators = ["Add", "Less", "Where", "Cast", "Concat", "Reshape", "Slice", "Shape"]'
    text += "".join(f"\nlimits.{name} = {limit}" for name in (*GATHERS, *SCATTERS)
                    if not name.endswith("ND"))  # fmt: skip
    narrow = written_target(folder, "narrow", text)
    wide = written_target(folder, "wide", text.replace(', index_types = ["int32"]', ""))

    before, after = (onnx_models.conversion(model, target=target) for target in (wide, narrow))

    assert not any(node.stays for node in (*before.nodes, *after.nodes))
    assert after.node_count <= before.node_count + 1
    assert before.node_count == 1 or not negative
    (node,) = after.nodes
    types = {
        info.name: info.type.tensor_type for info in onnx_models.infer(after.model).graph.value_info
    }
    assert constant or types[after.model.graph.node[-1].input[1]].elem_type == TensorProto.INT32
    *_, run = runs_of(after.model)  # not onnx, whose GatherElements supports few shapes
    np.testing.assert_array_equal(run(inputs)[0], call[-1], strict=True)
    assumed = [x.what for x in after.findings if x.rule == "index types"]
    adds_size = not negative and (call[1][1] < 0).any()
    assert bool(assumed) is not (known or (constant and not adds_size))
    assert constant == node.outside.startswith("not possible")


@pytest.mark.parametrize(("least", "most", "fits"), [(-5, 4, True), (-5, 5, False), (-6, 4, False)])
@pytest.mark.parametrize("gather", ["GatherElements<axis = 0>", "GatherND"])
def test_an_index_equal_to_the_size_is_out_of_bounds(least, most, fits, gather):
    depth = "[n, 1]" if gather == "GatherND" else "[n]"
    model = parse_model(
        f"""<ir_version: 8, opset_import: ["": 18]> g (float[5] x, int64{depth} i) => (float[n] y)
        <int64 least = {{{least}}}, int64 most = {{{most}}}>
        {{ k = Clip(i, least, most)  y = {gather}(x, k) }}"""
    )
    (node,) = onnx_models.conversion(model, target="basic").nodes
    assert node.outside.startswith("not possible: the indices are ") == fits


def test_negative_quotients_are_not_folded():
    model = parse_model(
        """<ir_version: 8, opset_import: ["": 18]> g (float[5] x) => (float[2] y)
        <int64[2] odd = {-7, 7}, int64[1] two = {2}> { k = Div(odd, two)  y = Gather(x, k) }"""
    )
    converted = onnx_models.convert(model, target="basic")
    assert "Div" in {node.op_type for node in converted.graph.node}


GATHERED = ("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND")
# By target: the supported gathers and scatters, and unsupported calls with the reasons. By default,
# a call has data of rank 2 and constant indices of rank 1 or the rank that the operator requires.
RANK = "the rank of {} is {}"
SIGN = "an index may be negative"
SIGN_OUTSIDE = "only an out-of-bounds index may be negative"
OPEN = "data has a dynamic size"
MANY = {"at": ("M",), "constant": False}, "indices has a dynamic size"
ADD = {"reduction": "add"}
TYPES_8 = {"float32", "float16", "int8", "int32", "int64", "bool"}
TYPES_10 = {"float32", "float16", "bfloat16", "int32", "int64", "bool"}


def of_types(other):
    """Return calls that TensorRT does not support: other types, bool scatters, reductions."""
    calls = {kind: [({"dtype": other}, f"the type of data is {other} ")] for kind in GATHERED}
    for kind in GATHERED[3:]:
        calls[kind].append(({"dtype": "bool"}, "the type of data is bool "))
    calls["ScatterND"].append((ADD, "reduction is add (allowed: none)"))
    return calls


LIMITS = {
    "basic": (
        {"Gather"},
        {
            "Gather": [
                ({"axis": 1}, "axis is 1 (allowed: 0)"),
                ({"axis": -2}, "axis is negative"),
                ({"at": (2, 2)}, RANK.format("indices", 2)),
                ({"at": ()}, RANK.format("indices", 0)),
                ({"constant": False}, SIGN),
            ]
        },
    ),
    "coreml": (
        {"GatherND"},
        {"GatherND": [({"batch_dims": 1}, "batch_dims is 1 (allowed: 0..0)")]},
    ),
    "ncnn": (
        {"Gather"},
        {
            "Gather": [
                ({"axis": 1}, "axis is 1"),
                ({"data": (4,)}, RANK.format("data", 1)),
                ({"data": (4, 3, 2)}, RANK.format("data", 3)),
                ({"at": (2, 2)}, RANK.format("indices", 2)),
                ({"constant_data": False}, "data are not a constant"),
                MANY,
                ({"constant": False}, SIGN),
            ]
        },
    ),
    "onnxruntime": ({*GATHERED}, {"ScatterND": [(ADD, "reduction is add (allowed: none)")]}),
    "opencv": ({*GATHERED} - {"GatherND"}, {}),
    "qnn": (
        {"Gather"},
        {"Gather": [({"constant": False}, SIGN), ({"data": ("N", 3)}, OPEN), MANY]},
    ),
    "rknn": ({"Gather", "GatherElements", "ScatterND"}, {}),
    "tensorrt-10": ({*GATHERED}, of_types("int8")),
    "tensorrt-8": ({*GATHERED}, of_types("bfloat16")),
    "tflite": (
        {*GATHERED},
        {
            "GatherND": [({"constant": False}, SIGN)],
            "ScatterND": [({"constant": False}, SIGN), (ADD, "reduction is add")],
            "ScatterElements": [(ADD, "reduction is add")],
        },
    ),
    "tidl": (
        {"Gather"},
        {
            "Gather": [
                ({"axis": 1}, "axis is 1"),
                ({"data": (4,)}, RANK.format("data", 1)),
                ({"data": (4, 1, 1, 1, 1, 1, 2)}, RANK.format("data", 7)),
                ({"at": (2, 2)}, RANK.format("indices", 2)),
                ({"constant_data": True}, "data are a constant"),
                ({"data": ("N", 3)}, OPEN),
                MANY,
                ({"constant": False}, SIGN),
            ]
        },
    ),
    "webgpu": ({*GATHERED} - {"ScatterElements"}, {}),
}
# Supported calls just inside a limit.
TAKEN = {
    "coreml": [("GatherND", {"batch_dims": 0}), ("GatherND", {"constant": False})],
    "onnxruntime": [("ScatterElements", ADD), ("ScatterND", {"constant": False})],
    "opencv": [("Gather", {"constant": False}), ("Gather", {"data": ("N", 3)})],
    "rknn": [("ScatterND", {"constant": False})],
    "tensorrt-8": [(k, {"dtype": each}) for k in GATHERED[:3] for each in sorted(TYPES_8)],
    "tensorrt-10": [(k, {"dtype": each}) for k in GATHERED[:3] for each in sorted(TYPES_10)],
    "tflite": [("Gather", {"constant": False}), ("GatherElements", {"constant": False})],
    "tidl": [("Gather", {"data": (4, 1, 1, 1, 1, 2)})],
}
LACKING = {
    "coreml": {"Equal", "Less", "Where", "Min"},
    "ncnn": {"Equal", "Less", "Where", "Range", "Cast"},
    "qnn": {"Range", "Shape"},
    "rknn": {"Range"},
    "tidl": {"Equal", "Less", "Where", "Cast", "Range"},
    "webgpu": {"Max", "Min"},
}


def why_not(target, kind, **options):
    """Return why a target does not support a call, or an empty string if it does."""
    options = {
        "data": (4, 3),
        "at": (2,),
        "dtype": "float32",
        "constant": True,
        "constant_data": target == "ncnn",
        "axis": 0,
        **options,
    }
    shape = tuple(4 if size == "N" else size for size in options["data"])
    at = {"GatherElements": shape, "ScatterElements": shape}.get(kind, options["at"])
    at = (2, 1) if kind.endswith("ND") else at
    if options.get("batch_dims"):
        at = (shape[0], 1)
    scatters = kind.startswith("Scatter")
    element = {"float32": TensorProto.FLOAT}.get(options["dtype"])
    element = element or getattr(TensorProto, options["dtype"].upper())
    attributes = {} if kind.endswith("ND") else {"axis": options["axis"]}
    attributes |= {name: options[name] for name in ("reduction", "batch_dims") if name in options}
    inputs = {"data": (element, options["data"]), "at": (TensorProto.INT64, at)}
    if scatters:
        inputs["new"] = element, at if kind == "ScatterElements" else (2, *shape[1:])
    constants = [("at", np.zeros(at, np.int64))] if options["constant"] else []
    if options["constant_data"]:
        constants.append(("data", np.zeros(shape, options["dtype"])))
    node = helper.make_node(kind, list(inputs), ["out"], **attributes)
    known = {name for name, _ in constants}
    infos = [helper.make_tensor_value_info(n, *inputs[n]) for n in inputs if n not in known]
    out = helper.make_tensor_value_info("out", element, None)
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in constants]
    graph = helper.make_graph([node], "g", infos, [out], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return onnx_models.conversion(model, target=target).nodes[0].why


@pytest.mark.parametrize("target", ["basic", *TARGETS])
def test_every_limit_rejects_one_call_and_accepts_another(target):
    takes, refuses = LIMITS[target]
    for kind in GATHERED:
        why = why_not(target, kind)
        assert why == ("" if kind in takes else f"{target} does not support {kind}"), kind
    for kind, calls in refuses.items():
        for options, why in calls:
            assert why_not(target, kind, **options).startswith(why), (kind, options)
    for kind, options in TAKEN.get(target, ()):
        assert why_not(target, kind, **options) == "", (kind, options)
    assert not any(map(load_target(target).has, LACKING.get(target, ())))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("targets")


@given(call=calls(GATHERS | SCATTERS), constant=st.booleans())
@settings(max_examples=3 * EXAMPLES)
def test_axes_are_merged_if_the_rank_is_limited(folder, call, constant):
    assert not assert_taken(small_target(folder, "low"), call, constant=constant).stays


@given(call=calls(GATHERS | SCATTERS), constant=st.booleans())
@settings(max_examples=3 * EXAMPLES)
def test_rewriting_works_without_comparisons(folder, call, constant):
    node = assert_taken(small_target(folder, "tall"), call, constant=constant)

    assert not {"Where", "Less", "Equal"} & set(re.findall(r"\w+", node.became))
    assert not node.stays or allowed_updates(call) in node.why


@given(call=calls(GATHERS | SCATTERS))
@settings(max_examples=3 * EXAMPLES)
def test_rows_at_constant_indices_become_slices(folder, call):
    node = assert_taken(small_target(folder, "slices"), call, constant=True)

    assert not node.stays or "are more than 16" in node.why


@st.composite
def slices_of_updates(draw):
    """Draw data, indices that are expanded to whole slices, updates and an axis.

    Sometimes indices differ along another axis too, so a slice has several destinations.
    """
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    axis, count = draw(st.integers(0, len(shape) - 1)), draw(st.integers(0, 4))
    whole = (*shape[:axis], count, *shape[axis + 1 :])
    narrow = [size if draw(st.sampled_from((False, False, True))) else 1 for size in shape]
    narrow[axis] = count
    indices = entries(draw, tuple(narrow), [shape[axis]] * (np.prod(narrow) + 1))
    return numbers(draw, tuple(shape)), indices, numbers(draw, whole), axis


@given(case=slices_of_updates(), reduction=st.sampled_from(REDUCTIONS), checked=st.booleans())
@settings(max_examples=2 * EXAMPLES)
def test_expanded_indices_scatter_whole_slices(case, reduction, checked):
    data, indices, updates, axis = case
    is_shared = indices.size == indices.shape[axis]
    sizes = {"narrow": np.array(indices.shape), "whole": np.array(updates.shape)}
    nodes = [
        helper.make_node("Reshape", ["at", "narrow"], ["column"], allowzero=1),
        helper.make_node("Expand", ["column", "whole"], ["indices"]),
        helper.make_node(
            "ScatterElements",
            ["data", "indices", "updates"],
            ["out"],
            axis=axis,
            reduction=reduction,
        ),
    ]
    inputs = {"data": data, "at": indices.reshape(-1), "updates": updates}
    model = build_model(nodes, inputs, data.shape, sizes)

    conversion = onnx_models.conversion(model, target="basic", checked=checked)

    (node,) = conversion.nodes
    assert not node.stays or (not is_shared and "(allowed: 1..16" in node.why)
    at = np.broadcast_to(indices, updates.shape)
    assert_results(conversion.model, inputs, scatter_elements(data, at, updates, axis, reduction))


@given(
    shape=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    whole=st.booleans(),
    turned=st.booleans(),
    draw=st.data(),
)
@settings(max_examples=2 * EXAMPLES)
def test_updates_at_mask_positions_are_gathered(shape, whole, turned, draw):
    deep = draw.draw(st.integers(1, len(shape)))
    assume(0 not in shape[deep:])
    # A mask with another shape has its elements at other positions.
    sizes = shape[:deep][:: -1 if turned else 1]
    data, mask = numbers(draw.draw, shape), np.zeros(sizes, bool)
    for place in np.ndindex(*map(min, sizes, shape)):
        mask[place] = whole or draw.draw(st.booleans())
    updates = numbers(draw.draw, (mask.sum(), *shape[deep:]))
    inputs = {"data": data, "mask": mask, "updates": updates}
    nodes = [
        helper.make_node("NonZero", ["mask"], ["found"]),
        helper.make_node("Transpose", ["found"], ["at"], perm=[1, 0]),
        helper.make_node("ScatterND", ["data", "at", "updates"], ["out"]),
    ]
    model = build_model(nodes, inputs, shape, shapes={"updates": ["M", *shape[deep:]]})

    conversion = onnx_models.conversion(model, target="basic")

    (node,) = conversion.nodes
    if sizes == shape[:deep]:
        assert not node.stays
        assert node.outside.startswith("not possible: the indices are 0..")
        assert_basic(conversion.model)
    elif 0 not in shape:  # otherwise there is no position that could change
        assert node.stays
    expected = data.copy()
    for number, place in enumerate(np.argwhere(mask)):
        expected[tuple(place)] = updates[number]
    assert_results(conversion.model, inputs, expected)


@pytest.mark.parametrize("batch_dims", [0, 1, 2])
def test_batch_coordinates_are_inserted_into_index_tuples(batch_dims):
    """Core ML does not support batch_dims; for known sizes, coordinates are constants."""
    data = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
    shape = (*data.shape[:batch_dims], 5, 1)
    indices = np.arange(np.prod(shape)).reshape(shape) % data.shape[batch_dims]
    sizes = ", ".join(map(str, shape))
    model = parse_model(f"""<ir_version: 8, opset_import: ["" : 13]>
        g (float[2, 3, 4] data, int64[{sizes}] indices) => (float[a, b, c] out)
        {{ out = GatherND<batch_dims = {batch_dims}>(data, indices) }}""")
    conversion = onnx_models.conversion(model, target="coreml")
    gathers = [node for node in conversion.model.graph.node if node.op_type == "GatherND"]
    assert len(gathers) == 1
    assert all(each.name != "batch_dims" or each.i == 0 for each in gathers[0].attribute)
    written = {node.op_type for node in conversion.model.graph.node}
    assert written <= {"Constant", "Concat", "GatherND"}
    expected = gather_nd(data, indices, batch_dims)
    assert_results(conversion.model, {"data": data, "indices": indices}, expected)


def test_known_sizes_become_constants():
    model = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        g (float[3, 4] data, float[5] like) => (float[5, 4] out, int64[K] size) {
          size = Shape(like)
          zero = Constant<value = int64[1] {0}>()
          first = Gather(size, zero)
          count = Squeeze(first)
          start = Constant<value_int = 0>()
          step = Constant<value_int = 1>()
          line = Range(start, count, step)
          two = Constant<value_int = 2>()
          rows = BitwiseAnd(line, two)
          out = Gather(data, rows) }""")
    data, like = np.arange(12, dtype=np.float32).reshape(3, 4), np.zeros(5, np.float32)

    conversion = onnx_models.conversion(model, target="basic")

    used = [node.op_type for node in conversion.model.graph.node if node.op_type != "Constant"]
    assert used[0] == "BitwiseAnd"
    assert not {"Shape", "Range", "Squeeze"} & set(used)
    assert conversion.nodes[0].became == "Constant"
    for out, size in runs(conversion.model, {"data": data, "like": like}):
        np.testing.assert_array_equal(out, data[np.arange(5) & 2])
        np.testing.assert_array_equal(size, [5])


def test_known_branches_replace_the_if():
    model = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        g (float[3, 4] data, int64[2, 1] rows, bool open)
            => (float[2, 4] a, float[2, 4] b, float[3, 4] c) {
          size = Size(data)
          zero = Constant<value_int = 0>()
          none = Equal(size, zero)
          some = Constant<value = bool {1}>()
          a, again, c = If (none) <
            then_branch = t () => (float[2, 4] x, float[2, 4] x, float[3, 4] data) {
              x = GatherND(data, rows) },
            else_branch = e () => (float[2, 4] y, float[2, 4] y, float[3, 4] data)
              <int64[1, 1] last = {-1}> {
              from_end = Add(rows, last)
              y = If (open) <
                then_branch = t2 () => (float[2, 4] z) { z = GatherND(data, from_end) },
                else_branch = e2 () => (float[2, 4] z2) { z2 = GatherND(data, rows) }> }>
          b = If (some) <
            then_branch = t3 () => (float[2, 4] y) { y = GatherND(again, rows) },
            else_branch = e3 () => (float[2, 4] from_end) { from_end = Neg(again) }>
        }""")
    data, rows = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([[0], [1]])

    conversion = onnx_models.conversion(model, target="basic")

    assert [node.was for node in conversion.nodes] == ["ai.onnx GatherND-13"] * 3
    used = [node.op_type for node in nodes_of(conversion.model.graph)]
    assert used.count("If") == 1
    assert set(used) <= BASIC | {"If", "Identity"}
    for opened, first in (True, data[[-1, 0]]), (False, data[:2]):
        inputs = {"data": data, "rows": rows, "open": np.array(opened)}
        for results in runs(conversion.model, inputs):
            for result, expected in zip(results, (first, first[[0, 1]], data), strict=True):
                np.testing.assert_array_equal(result, expected)


def test_outputs_of_known_branches_may_be_omitted():
    model = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        branches (float[3] x) => (float[3] out) <bool yes = {1}> {
          unread, out = If (yes) <
            then_branch = a () => (float[3] y, float[3] z) { y = Neg (x)
              z = Neg (y) },
            else_branch = b () => (float[3] y, float[3] z) { y = Abs (x)
              z = Abs (y) }>
        }""")
    model.graph.node[0].output[0] = ""
    converted = onnx_models.convert(model, target="basic")
    assert [node.op_type for node in nodes_of(converted.graph)] == ["Neg", "Neg"]
    x = np.float32([1, -2, 3])
    np.testing.assert_array_equal(ReferenceEvaluator(converted).run(None, {"x": x})[0], x)


@pytest.mark.parametrize(
    ("op_type", "inputs"), [("If", []), ("If", ["yes"]), ("Shape", []), ("Size", [""])]
)
def test_invalid_nodes_of_other_operators_are_kept(op_type, inputs):
    node = helper.make_node(op_type, inputs, ["out"])
    graph = helper.make_graph(
        [node],
        "g",
        [],
        [helper.make_tensor_value_info("out", TensorProto.INT64, None)],
        [numpy_helper.from_array(np.array(True), "yes")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    assert onnx_models.convert(model, target="basic").graph.node[0] == node


def test_default_attributes_are_omitted():
    model = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        g (float[5] data, int64[3, 1] at, float[3] new) => (float[5] out, float[3] back) {
          out = ScatterND<reduction = "none">(data, at, new)
          back = GatherND<batch_dims = 0>(data, at) }""")

    for target in "tensorrt-8", "tflite":
        nodes = onnx_models.convert(model, target=target).graph.node
        own = [node for node in nodes if node.op_type.endswith("ND")]
        assert [len(node.attribute) for node in own] == [0, 0]


@given(call=calls(SCATTERS), constant=st.booleans(), opset=st.sampled_from([11, 13, 16]))
@settings(max_examples=2 * EXAMPLES)
def test_unsupported_reductions_are_unrolled(call, constant, opset):
    model, inputs = model_of(call, known=True, constant=constant)
    reduction = call[2]["reduction"]
    taken = reduction == "none" or (opset == 16 and reduction in {"add", "mul"})
    try:
        conversion = onnx_models.conversion(model, opset=opset)
    except ModelError as error:
        assert not taken
        assert f": reduction is {reduction} (allowed: none" in str(error)  # noqa: PT017
        assert call[1][1].size > 16
        return

    assert conversion.model.opset_import[0].version == opset
    rules = [x.rule for x in conversion.findings if x.rule != "signs of zeros"]
    assert rules == ["reduction"] * (not taken)
    assert_identity(model.graph, conversion.model.graph)
    if call[1][2].size or taken:
        assert_results(conversion.model, inputs, call[-1])


def test_every_target_has_a_source_and_a_date():
    assert target_names() == ("basic", *TARGETS)
    for name in target_names():
        target = load_target(name)
        assert target.name == name
        assert target.source.startswith("https://")
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", target.date)
        assert target.limits


@cache
def node_tests():
    """Return the node tests of gathers and scatters in the onnx package."""
    for module in pkgutil.iter_modules(node_cases.__path__, f"{node_cases.__name__}."):
        if re.search("gather|scatter", module.name):
            importlib.import_module(module.name)
    found = [case for case in node_cases._NodeTestCases if case.model.graph.node]
    return {
        case.name: case for case in found if re.search("gather|scatter", case.name)
    }  # fmt: skip


NODE_TESTS = {
    name: case
    for name, case in node_tests().items()
    if {node.op_type for node in case.model.graph.node} <= GATHERS | SCATTERS
}


@pytest.mark.parametrize("checked", [False, True], ids=["", "checked"])
@pytest.mark.parametrize("name", NODE_TESTS)
def test_every_onnx_node_test_is_rewritten_for_basic(name, checked):
    case = NODE_TESTS[name]

    conversion = onnx_models.conversion(case.model, target="basic", checked=checked)

    assert not any(node.stays for node in conversion.nodes)
    assert_basic(conversion.model)
    for inputs, (expected,) in case.data_sets:
        names = [info.name for info in case.model.graph.input]
        assert_results(conversion.model, dict(zip(names, inputs, strict=True)), expected)


def test_operators_without_rules_are_reported():
    model = parse_model("""<ir_version: 5, opset_import: ["" : 10]>
        g (float[5] data, int64[3] at, float[3] new) => (float[5] out)
        { out = Scatter(data, at, new) }""")

    (node,) = onnx_models.conversion(model, target="basic").nodes

    assert node.stays
    assert node.why.startswith("basic does not support Scatter (allowed: opset 11 or later")


@pytest.mark.parametrize(
    ("target", "opset", "why"),
    [
        ("coreml", 10, "opset = 10 has no ai.onnx GatherND (allowed: at least 11)"),
        ("tidl", 11, "needs Max, which opset 11 does not have (allowed: opset 12 or later)"),
        ("tidl", 12, ""),
        ("basic", 9, ""),
        ("basic", 8, "needs Less, which opset 8 does not have (allowed: opset 9 or later)"),
    ],
)
def test_operators_missing_in_old_opsets_are_reported(target, opset, why):
    model = parse_model(f"""<ir_version: 5, opset_import: ["" : {opset}]>
        g (float[5, 4] data, int64[3] at) => (float[3, 4] out) {{ out = Gather(data, at) }}""")

    (node,) = onnx_models.conversion(model, target=target).nodes

    assert node.stays == bool(why)
    assert node.stays is False or why in node.why


def test_nodes_in_branches_loops_and_functions_are_rewritten():
    model = parse_model("""
        <ir_version: 8, opset_import: ["" : 18, "my" : 1]>
        g (float[3, 4] data, int64[2, 1] rows, bool cond, int64 trips) => (
            float[2, 4] a, float[2, 4] b, float[2, 4] c, float[2, 4] d) {
          a = If (cond) <
            then_branch = t () => (float[2, 4] ta) { ta = GatherND(data, rows) },
            else_branch = e () => (float[2, 4] ea) { two = Add(data, data)
                                                     ea = GatherND(two, rows) }>
          start = GatherND(data, rows)
          b = Loop (trips, cond, start) <
            body = l (int64 i, bool go, float[2, 4] before) => (bool on, float[2, 4] after) {
              on = Identity(go)
              picked = GatherND(data, rows)
              after = Add(before, picked) }>
          c = my.pick(data, rows)
          d = Scan (rows) <num_scan_inputs = 1,
            body = s (int64[1] row) => (float[4] line) { line = GatherND(data, row) }>
        }
        <domain: "my", opset_import: ["" : 18]>
        pick (x, i) => (y) { y = GatherND(x, i) }
    """)
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    rows = data[[2, 1]]

    conversion = onnx_models.conversion(model, target="basic")

    used = {node.op_type for node in nodes_of(conversion.model.graph)}
    assert used <= BASIC | {"If", "Loop", "Scan", "Identity"}
    assert len(conversion.nodes) == 6
    inputs = {"data": data, "rows": np.array([[-1], [1]]), "trips": np.array(2)}
    for cond, first, second in (True, rows, 3 * rows), (False, 2 * rows, rows):
        for results in runs(conversion.model, {**inputs, "cond": np.array(cond)}):
            for result, expected in zip(results, (first, second, rows, rows), strict=True):
                np.testing.assert_array_equal(result, expected)


ONE = """<ir_version: 8, opset_import: ["" : 18]>
    g (float[N, 5, 4] data, int64[M, 2] at, float[M, 4] new) => (float[N, 5, 4] out)
    { out = ScatterND(data, at, new) }"""


def test_nodes_without_a_rule_stay_and_are_reported():
    (node,) = onnx_models.conversion(parse_model(ONE), target="basic").nodes

    assert node.stays
    assert (node.where, node.was) == ("ScatterND of out", "ai.onnx ScatterND-18")
    assert "the number of updates is open (allowed: 1..16)" in node.why
    with pytest.raises(ModelError, match=r"^node ScatterND of 'out': .* cannot become basic: "):
        onnx_models.convert(parse_model(ONE), target="basic")


def test_checked_indices_stay_out_of_bounds():
    model = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        g (float[2, 3] data, int64[1, 2] at) => (float[1] out) { out = GatherND(data, at) }""")
    inputs = {"data": np.arange(6, dtype=np.float32).reshape(2, 3), "at": np.array([[0, 3]])}

    wrong = onnx_models.convert(model, target="basic")
    right = onnx_models.convert(model, target="basic", checked=True)

    for (result,) in runs(wrong, inputs):
        assert result.tolist() == [3.0]
    for at in ([0, 3], [-3, 0], [2, 0], [1, -4]):
        for run in runs_of(right):
            assert outcome(run, {**inputs, "at": np.array([at])}) is None


def test_checked_indices_stay_out_of_bounds_of_their_own_axis_and_batch():
    """The indices are within a longer axis, or within the rows of the next batch."""
    axes = parse_model("""<ir_version: 8, opset_import: ["" : 13]>
        g (float[5, 3] data, int64[2, 2] at) => (float[2] out)
        <int64 five = {5}> { within = Mod(at, five)  out = GatherND(data, within) }""")
    batches = parse_model("""<ir_version: 8, opset_import: ["" : 13]>
        g (float[2, 3] data, int64[2, 1, 1] at) => (float[2, 1] out)
        { out = GatherND<batch_dims: int = 1>(data, at) }""")
    for model, shape, bad, good in (
        (axes, (5, 3), [[0, 4], [0, 0]], [[4, 2], [0, 0]]),
        (batches, (2, 3), [[[3]], [[0]]], [[[2]], [[0]]]),
        (batches, (2, 3), [[[0]], [[-4]]], [[[0]], [[-3]]]),
    ):
        data = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        converted = onnx_models.convert(model, target="basic", checked=True)
        for run in runs_of(converted):
            assert outcome(run, {"data": data, "at": np.array(bad)}) is None
            assert outcome(run, {"data": data, "at": np.array(good)}) is not None


@given(
    target=st.sampled_from(("basic", *TARGETS)),
    call=calls(GATHERS | SCATTERS),
    checked=st.booleans(),
    draw=st.data(),
)
@settings(max_examples=6 * EXAMPLES)
def test_report_describes_out_of_bounds_indices(target, call, checked, draw):
    op_type, (data, indices, *updates), attributes, result = call
    assume(indices.size)
    indices, wrong = indices.copy(), draw.draw(st.integers(0, indices.size - 1))
    at = np.unravel_index(wrong, indices.shape)
    is_tuple = op_type.endswith("ND")
    axis = attributes.get("batch_dims", 0) + at[-1] if is_tuple else attributes["axis"]
    size = data.shape[axis]
    indices[at] = draw.draw(st.sampled_from([size, size + 5, -size - 1, -size - 7]))
    wrong_call = op_type, [data, indices, *updates], attributes, result
    model, inputs = model_of(wrong_call, known=True, constant=False)

    conversion = onnx_models.conversion(model, target=target, checked=checked)

    (node,) = conversion.nodes
    if node.stays or not node.why:
        return
    event(node.outside)
    assert node.outside != "not possible"
    assert not checked or not node.outside.startswith("may")
    if node.outside == "stays out of bounds":
        runners = list(runs_of(conversion.model))
        # The onnx evaluator does not raise an error for all such indices.
        for run in runners["GatherElements" in node.became :]:
            assert outcome(run, inputs) is None
    elif node.outside == "is ignored or raises an error":
        scatter = scatter_nd if is_tuple else scatter_elements
        expected = scatter(data, indices, *updates, **attributes, mode="drop")
        for run in runs_of(conversion.model):
            results = outcome(run, inputs)
            if results is not None:
                np.testing.assert_array_equal(results[0], expected)


def test_non_negative_indices_are_not_normalized():
    model = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        g (float[3, 4] data, bool[3, 4] mask) => (float[M] out)
        { found = NonZero(mask)
          at = Transpose(found)
          out = GatherND(data, at) }""")

    result = onnx_models.convert(model, target="basic")

    assert not {"Less", "Where"} & {node.op_type for node in result.graph.node}
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    for mask in data % 3 == 0, data < 0:
        assert_results(result, {"data": data, "mask": mask}, data[mask])


@pytest.mark.parametrize(
    ("lines", "folded"),
    [
        ("rows = Clip(at, zero)", False),
        ("quotient = Div(best, two)  rows = Squeeze(quotient)", False),
        ("rows = Cast<to = 7>(mask)", False),
        ("rows = Clip(at, , two)", True),
        ("rows = Sub(best, two)", True),
        ("below = Less(at, zero)  behind = Add(at, three)  rows = Where(below, behind, at)", True),
    ],
)
def test_indices_are_normalized_only_if_they_may_be_negative(lines, folded):
    text = f"""<ir_version: 8, opset_import: ["" : 18]>
        g (float[3, 4] data, int64[2] at, bool[2] mask, float[3] score, string[2] words)
          => (float[M, 4] out)
        <int64 zero = {{0}}, int64 two = {{2}}, int64 three = {{3}}, int64 minus = {{-2}},
         int64[1] k = {{2}}>
        {{ high, best = TopK(score, k)
          {lines}
          out = Gather(data, rows) }}"""

    node = onnx_models.conversion(parse_model(text), target="basic").nodes[-1]

    assert node.became == ("Add, Less, Where, Gather" if folded else "ai.onnx Gather-13")


def test_indices_become_int32_if_the_target_requires_it(tmp_path):
    target = written_target(
        tmp_path,
        "small",
        """operators = ["Add", "Cast", "Constant", "Less", "Mul", "Reshape", "Slice", "Where"]
        limits.Gather = { axes = [0], index_types = ["int32"] }
        limits.GatherElements = { index_types = ["int32"], negative = false }
        """,
    )
    model = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        g (float[3, 4] data, int64[3, 2] at) => (float[3, 2] out)
        { out = GatherElements<axis = -1>(data, at) }""")
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    at = np.array([[0, -1], [3, -4], [2, 2]])

    result = onnx_models.convert(model, target=target)

    assert [node.op_type for node in result.graph.node if node.op_type != "Constant"] == [
        "Cast", "Add", "Less", "Where", "GatherElements"
    ]  # fmt: skip
    assert_results(result, {"data": data, "at": at}, np.take_along_axis(data, at, 1))


@pytest.mark.parametrize(
    ("op", "at", "meant"),
    [
        ("GatherND", [[0, -1], [1, 2]], gather_nd),
        ("GatherND", [[0], [-1]], gather_nd),
        ("Gather<axis = 1>", [0, -1], lambda data, at: gather(data, at, 1)),
        ("GatherElements", [[0, -1, 1, 2]], lambda data, at: gather_elements(data, at, 0)),
    ],
)
def test_constant_indices_are_converted_to_a_supported_type(tmp_path, op, at, meant):
    target = written_target(
        tmp_path,
        "one",
        """operators = ["Add", "Cast", "Concat", "Constant", "Less", "Mul", "Reshape", "Slice",
                     "Transpose", "Where"]
        limits.Gather = { axes = [0], index_types = ["int32"] }
        """,
    )
    model = parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
        g (float[3, 4] data) => (float[N, M] out) {{ out = {op}(data, at) }}""")
    at = np.array(at)
    model.graph.initializer.append(numpy_helper.from_array(at, "at"))
    model.graph.output[0].type.tensor_type.ClearField("shape")
    data = np.arange(12, dtype=np.float32).reshape(3, 4)

    result = onnx_models.convert(model, target=target)

    (gather,) = (node for node in result.graph.node if node.op_type == "Gather")
    constants = {node.output[0]: node for node in result.graph.node if node.op_type == "Constant"}
    assert numpy_helper.to_array(constants[gather.input[1]].attribute[0].t).dtype == "int32"
    assert_results(result, {"data": data}, meant(data, at))


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max"])
@pytest.mark.parametrize("kind", ["ScatterND", "ScatterElements"])
@pytest.mark.parametrize("constant", [False, True])
def test_few_updates_are_combined_using_int32_indices(tmp_path, kind, reduction, constant):
    target = written_target(
        tmp_path,
        "narrow",
        """operators = ["Add", "Cast", "Concat", "Constant", "Equal", "Less", "Max", "Min", "Mul",
                     "Reshape", "Slice", "Sub", "Transpose", "Where"]
        limits.Gather = { axes = [0], index_ranks = [1, 1], index_types = ["int32"] }
        """,
    )
    data = np.arange(1, 9, dtype=np.float32).reshape(4, 2)
    at, new = np.array([[3], [0], [3]]), np.full((3, 2), 10, np.float32)
    if kind == "ScatterElements":
        at = np.repeat(at, 2, axis=1)
    scatter = scatter_nd if kind == "ScatterND" else scatter_elements
    expected = scatter(data, at, new, reduction=reduction)
    node = helper.make_node(kind, ["data", "at", "new"], ["out"], reduction=reduction)
    inputs = {"data": data, "at": at, "new": new}
    constants = {"at": inputs.pop("at")} if constant else {}
    model = build_model([node], inputs, data.shape, constants)

    conversion = onnx_models.conversion(model, target=target)

    assert not conversion.nodes[0].stays, conversion.nodes[0].why
    onnx.checker.check_model(conversion.model, full_check=True)
    assert_results(conversion.model, inputs, expected)


def test_sums_use_matmul_only_on_request():
    model = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        g (float[5, 2] data, int64[20, 1] at, float[20, 2] new) => (float[5, 2] out)
        { out = ScatterND<reduction = "add">(data, at, new) }""")
    data, new = np.ones((5, 2), np.float32), np.arange(40, dtype=np.float32).reshape(20, 2)
    at = np.arange(-10, 10).reshape(20, 1) // 2
    expected = scatter_nd(data, at, new, "add")
    assert onnx_models.conversion(model, target="basic").nodes[0].stays

    target = onnx_models.conversion(model, target="basic", allow_matmul=True)

    assert "MatMul (products: 200)" in target.nodes[0].became
    assert_results(target.model, {"data": data, "at": at, "new": new}, expected)


def test_nodes_with_the_same_report_share_a_row():
    model = parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        g (float[3, 4] data, int64[2] at) => (float[2, 4] a, float[2, 4] b) {
          a = Gather(data, at)
          b = Gather(data, at) }""")

    conversion = onnx_models.conversion(model, target="basic")

    _, _, node, became, *_ = repr(conversion).splitlines()
    assert node == "Gather of a and 1 more (ai.onnx Gather-13)"
    assert became.split() == ["became", "Add,", "Less,", "Where,", "Gather"]
    last = " ".join(repr(conversion).partition("basic (")[2].split())
    assert last.endswith(": 0 fit, 2 rewritten, 0 stay; other operators are not checked")
    assert [node.added for node in conversion.nodes] == [3, 3]
    assert repr(conversion).splitlines()[0] == "8 nodes"


WRONG = [
    ("name = 1", "name = 1 is not of type str"),
    ("names = 1", "'names' is not a key of a target"),
    ("[limits.GatherMD]", "'GatherMD' is not a key of a target"),
    ("limits.Gather = { axis = [0] }", "'axis' is not a key of a target"),
    ("limits.Gather = { axes = 0 }", "limits.Gather.axes = 0 is not valid (allowed: a list)"),
    ("limits.Gather = { ranks = [1] }", "(allowed: a list of two numbers)"),
    ("limits.ScatterND = { reductions = ['sum'] }", "reductions = 'sum' is unknown"),
    ("", "name is missing"),
    ("=", "is not TOML"),
]


@pytest.mark.parametrize(("text", "what"), WRONG)
def test_invalid_targets_are_refused(tmp_path, text, what):
    place = tmp_path / "own.toml"
    place.write_text(text)

    with pytest.raises((ModelError, FileError), match=re.escape(what)) as caught:
        onnx_models.convert(parse_model(ONE), target=str(place))
    assert str(caught.value).startswith(str(place))


def test_unknown_targets_are_refused():
    with pytest.raises(ModelError, match=r"target = 'basik' .* did you mean 'basic'\?"):
        onnx_models.convert(parse_model(ONE), target="basik")
    with pytest.raises(FileError, match="cannot be read"):
        onnx_models.convert(parse_model(ONE), target="nowhere.toml")
