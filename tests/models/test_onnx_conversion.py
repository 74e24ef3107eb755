"""Conversions of ONNX models preserve the bytes of results or raise an error with the reason."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import assume, event, given, note, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model

from ndgather.errors import (
    AttributeValueError,
    DTypeError,
    IndexOutOfBoundsError,
    ModelError,
    NdgatherError,
)
from ndgather.models import onnx as onnx_models
from tests.models.test_onnx_models import text_model
from tests.models.test_targets import entries

pytestmark = pytest.mark.runtimes

FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
KINDS = {
    np.dtype(np.float32): FLOAT,
    np.dtype(np.int64): INT64,
    np.dtype(np.int32): INT32,
    np.dtype(bool): TensorProto.BOOL,
    np.dtype(np.complex64): TensorProto.COMPLEX64,
    np.dtype(object): TensorProto.STRING,
    np.dtype(ml_dtypes.bfloat16): TensorProto.BFLOAT16,
}


def info(name, kind=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(nodes, inputs, outputs, *, opset=13, initial=None, functions=(), microsoft=None):
    tensors = [numpy_helper.from_array(array, name) for name, array in (initial or {}).items()]
    domains = {"": opset}
    used = {node.domain for node in nodes}
    if "com.microsoft" in used if microsoft is None else microsoft:
        domains["com.microsoft"] = 1
    if functions:
        domains["my.functions"] = 1
    return helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs, tensors),
        opset_imports=[helper.make_opsetid(*item) for item in domains.items()],
        functions=list(functions),
        ir_version=8,
    )


def call_model(op_type, inputs, *, opset=13, domain="", known=True, rank=None, **attributes):
    """Return a model with one node for named arrays; it declares sizes if `known`."""
    node = helper.make_node(
        op_type, list(inputs), ["out"], name="node", domain=domain, **attributes
    )
    infos = [
        info(name, KINDS[array.dtype], array.shape if known else [None] * array.ndim)
        for name, array in inputs.items()
    ]
    kind = KINDS[inputs["data"].dtype]
    return model_of([node], infos, [info("out", kind, [None] * rank)], opset=opset)


def opset_of(model, domain=""):
    return {each.domain: each.version for each in model.opset_import}[domain]


def assert_same_run(before, after, inputs):
    # Gather in onnxruntime copies only the first string of a slice.
    has_strings = any(array.dtype == object for array in inputs.values())
    runtime = "reference" if has_strings else None
    expected = onnx_models.run(before, inputs, runtime=runtime)
    actual = onnx_models.run(after, inputs, runtime=runtime)
    assert expected.keys() == actual.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array, strict=True)
        if array.dtype != object:
            assert actual[name].tobytes() == array.tobytes()


DATA = {
    "float": lambda n: np.arange(n, dtype=np.float32) - np.float32(0.5),
    "bool": lambda n: np.arange(n) % 3 == 0,
    "complex": lambda n: np.arange(n).astype(np.complex64) * 1j,
    "string": lambda n: np.array([f"s{i}" for i in range(n)], object),
}


def array_of(draw, shape):
    kind = draw(st.sampled_from(sorted(DATA)))
    return DATA[kind](int(np.prod(shape))).reshape(shape)


@st.composite
def gather_nd_calls(draw, *, batch=True, depth=None):
    """Draw data, indices and batch_dims; arrays are sometimes empty."""
    side = st.integers(1, 3)
    empty = draw(st.sampled_from([False] * 8 + [True]))
    batch_dims = draw(st.integers(0, 2)) if batch else 0
    depth = depth or draw(st.integers(1, 3 - batch_dims))
    lead = draw(st.lists(side, min_size=batch_dims, max_size=batch_dims))
    axes = draw(st.lists(side, min_size=depth, max_size=depth))
    rest = draw(st.lists(side, max_size=1))
    positions = draw(st.lists(side, max_size=2))
    if empty and lead:
        lead[0] = 0
    elif empty and positions:
        positions[0] = 0
    data = array_of(draw, (*lead, *axes, *rest))
    indices = entries(draw, (*lead, *positions, depth), axes)
    return data, indices, batch_dims


@st.composite
def gather_elements_calls(draw, *, axis=None, exact=False):
    """Draw data, indices and axis; indices are often smaller off the axis."""
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    axis = draw(st.integers(-len(shape), len(shape) - 1)) if axis is None else axis
    sizes = [n if exact else draw(st.integers(0, n)) for n in shape]
    sizes[axis] = draw(st.integers(0, 3))
    data = array_of(draw, tuple(shape))
    return data, entries(draw, tuple(sizes), [shape[axis]] * 9), axis


def result_rank(data, indices, batch_dims):
    return indices.ndim - 1 + data.ndim - batch_dims - indices.shape[-1]


@pytest.mark.parametrize("known", [True, False], ids=["sizes known", "sizes unknown"])
@given(call=gather_nd_calls())
def test_batch_dims_become_coordinates_in_opset_11(known, call):
    data, indices, batch_dims = call
    event(f"batch_dims {batch_dims}")
    inputs = {"data": data, "indices": indices}
    before = call_model(
        "GatherND", inputs, known=known, rank=result_rank(*call), batch_dims=batch_dims
    )
    if not known:  # only the length of index tuples is known, as in models exported from torch
        before.graph.input[1].type.tensor_type.shape.dim[-1].dim_value = indices.shape[-1]

    after = onnx_models.convert(before, opset=11)

    note(onnx.printer.to_text(after))
    assert opset_of(after) == 11
    (node,) = (each for each in after.graph.node if each.op_type == "GatherND")
    assert not node.attribute
    assert_same_run(before, after, inputs)


def test_different_batch_sizes_still_raise_errors():
    data, indices = np.arange(12).reshape(3, 4), np.zeros((2, 1), np.int64)
    inputs = {"data": data, "indices": indices}
    before = call_model("GatherND", inputs, known=False, rank=1, batch_dims=1)
    before.graph.input[1].type.tensor_type.shape.dim[-1].dim_value = 1

    after = onnx_models.convert(before, opset=11)

    for model in before, after:
        for swapped in (data, indices), (data[:2], np.zeros((3, 1), np.int64)):
            with pytest.raises(NdgatherError):
                onnx_models.run(model, dict(zip(inputs, swapped, strict=True)))


@given(call=gather_nd_calls(), int32=st.booleans())
def test_microsoft_nodes_become_onnx_nodes(call, int32):
    data, indices, _ = call
    call = (data, indices, 0)
    if result_rank(*call) < 0:
        return
    indices = indices.astype(np.int32) if int32 else indices
    if any(n == 0 for n in data.shape):
        return
    indices = indices % np.array(data.shape[: indices.shape[-1]], indices.dtype)
    inputs = {"data": data, "indices": indices}
    node = helper.make_node("GatherND", ["data", "indices"], ["out"], domain="com.microsoft")
    kind = KINDS[data.dtype]
    before = model_of(
        [node],
        [info("data", kind, data.shape), info("indices", KINDS[indices.dtype], indices.shape)],
        [info("out", kind, [None] * result_rank(data, indices, 0))],
    )

    after = onnx_models.convert(before, domain="ai.onnx")

    assert [each.op_type for each in after.graph.node] == ["Cast"] * int32 + ["GatherND"]
    assert {each.domain for each in after.graph.node} == {""}
    assert [each.domain for each in after.opset_import] == [""]
    assert_same_run(before, after, inputs)
    plain = onnx_models.conversion(before, target="basic")
    slices = data.shape[indices.shape[-1] :]
    if indices.size:  # Reshape of opset 13 does not support sizes of 0
        assert plain.nodes[0].stays is (data.dtype == object and any(size > 1 for size in slices))
    assert_same_run(before, plain.model, inputs)


@given(call=gather_nd_calls())
def test_onnx_nodes_become_microsoft_nodes(call):
    data, indices, batch_dims = call
    inputs = {"data": data, "indices": indices}
    before = call_model("GatherND", inputs, rank=result_rank(*call), batch_dims=batch_dims)

    after = onnx_models.convert(before, domain="com.microsoft")

    (node,) = (each for each in after.graph.node if each.op_type == "GatherND")
    assert (node.domain, len(node.attribute)) == ("com.microsoft", 0)
    assert opset_of(after, "com.microsoft") == 1
    assert_same_run(before, after, inputs)


@given(call=gather_elements_calls(), int32=st.booleans(), known=st.booleans())
def test_gather_elements_becomes_gather_nd(call, int32, known):
    data, indices, axis = call
    inputs = {"data": data, "indices": indices.astype(np.int32) if int32 else indices}
    before = call_model("GatherElements", inputs, rank=data.ndim, known=known, axis=axis)

    after = onnx_models.convert(before, operator="GatherND")

    event(f"rank {data.ndim}, {'empty' if indices.size == 0 else 'copies'}")
    assert after.graph.node[-1].op_type == "GatherND"
    assert_same_run(before, after, inputs)


@given(call=gather_nd_calls(batch=False, depth=1))
def test_gather_nd_of_single_indices_becomes_gather_and_back(call):
    data, indices, _ = call
    assume(data.dtype != object or all(size == 1 for size in data.shape[1:]))
    inputs = {"data": data, "indices": indices}
    before = call_model("GatherND", inputs, rank=result_rank(*call))

    after = onnx_models.convert(before, operator="Gather")
    assert after.graph.node[-1].op_type == "Gather"
    assert_same_run(before, after, inputs)

    again = onnx_models.convert(after, operator="GatherND")
    titles = [node.name for node in again.graph.node]
    assert len({*titles}) == len(titles)
    assert again.graph.node[-1].op_type == "GatherND"
    assert_same_run(before, again, inputs)


@given(data=st.data())
def test_gather_of_any_indices_becomes_gather_nd(data):
    shape = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    array = array_of(data.draw, tuple(shape))
    places = tuple(data.draw(st.lists(st.integers(0, 3), max_size=2)))
    indices = entries(data.draw, places, [shape[0]] * 9)
    indices = indices.astype(data.draw(st.sampled_from([np.int32, np.int64])))
    axis = data.draw(st.sampled_from([0, -len(shape)]))
    inputs = {"data": array, "indices": indices}
    before = call_model("Gather", inputs, rank=len(shape) - 1 + len(places), axis=axis)

    after = onnx_models.convert(before, operator="GatherND")

    assert after.graph.node[-1].op_type == "GatherND"
    assert_same_run(before, after, inputs)


@given(data=st.data())
def test_gather_nd_along_the_last_axis_becomes_gather_elements(data):
    lead = data.draw(st.lists(st.integers(1, 3), max_size=2))
    size, count = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 3))
    array = array_of(data.draw, (*lead, size))
    indices = entries(data.draw, (*lead, count, 1), [size])
    inputs = {"data": array, "indices": indices}
    before = call_model("GatherND", inputs, rank=len(lead) + 1, batch_dims=len(lead))

    after = onnx_models.convert(before, operator="GatherElements")

    assert after.graph.node[-1].op_type == "GatherElements"
    assert_same_run(before, after, inputs)


@pytest.mark.parametrize(("source", "target"), [("Gather", "GatherElements")] * 1 + [
    ("GatherElements", "Gather")
])  # fmt: skip
def test_gathers_of_vectors_are_equivalent(source, target):
    inputs = {"data": np.arange(5), "indices": np.array([4, -2, 0], np.int32)}
    before = call_model(source, inputs, rank=1, axis=0)

    after = onnx_models.convert(before, operator=target)

    assert [each.op_type for each in after.graph.node] == [target]
    assert_same_run(before, after, inputs)


@given(call=gather_elements_calls(), reduction=st.sampled_from(["none", "add", "mul"]))
def test_scatter_elements_becomes_scatter_nd(call, reduction):
    data, indices, axis = call
    data = np.arange(data.size).reshape(data.shape)
    updates = np.arange(indices.size).reshape(indices.shape) + 100
    inputs = {"data": data, "indices": indices, "updates": updates}
    before = call_model(
        "ScatterElements", inputs, opset=16, rank=data.ndim, axis=axis, reduction=reduction
    )

    after = onnx_models.convert(before, operator="ScatterND")

    assert after.graph.node[-1].op_type == "ScatterND"
    assert_same_run(before, after, inputs)


@pytest.mark.parametrize("target", [11, 12, 13, 15, 16, 17, 18, 22, 25])
@pytest.mark.parametrize("source", [11, 12, 13, 16, 18, 25])
@pytest.mark.parametrize("op_type", ["GatherND", "GatherElements", "Gather", "ScatterND",
                                     "ScatterElements"])  # fmt: skip
def test_every_version_converts_to_every_other(op_type, source, target):
    inputs = {"data": np.arange(6).reshape(3, 2), "indices": np.array([[0, 1], [-1, 0]])}
    rank = 1 if op_type == "GatherND" else 3 if op_type == "Gather" else 2
    if op_type.startswith("Scatter"):
        inputs["updates"] = np.array([7, 8]) if op_type == "ScatterND" else np.array([[7], [8]])
        inputs["indices"] = inputs["indices"][: inputs["updates"].shape[0]]
        if op_type == "ScatterElements":
            inputs["indices"] = inputs["indices"][:, :1]
    before = call_model(op_type, inputs, opset=source, rank=rank)

    after = onnx_models.convert(before, opset=target)

    assert opset_of(after) == target
    assert [each.op_type for each in after.graph.node] == [op_type]
    assert_same_run(before, after, inputs)


def test_negative_constants_are_normalized_for_gather_1():
    node = helper.make_node("Gather", ["data", "indices"], ["out"], axis=1)
    before = model_of(
        [node],
        [info("data", FLOAT, [2, 5])],
        [info("out", FLOAT, [2, 3])],
        initial={"indices": np.array([-1, 0, -5])},
    )

    after = onnx_models.convert(before, opset=10)

    assert_same_run(before, after, {"data": np.arange(10, dtype=np.float32).reshape(2, 5)})
    values = numpy_helper.to_array(after.graph.node[0].attribute[0].t)
    np.testing.assert_array_equal(values, np.array([4, 0, 0]), strict=True)


def surrounded_model(opset=13, *, branch=False):
    """Return a model with gathers between other nodes, also in a branch."""
    wide, flat = "Unsqueeze(data, front)", "Squeeze(wide, front)"
    if opset < 13:
        wide, flat = "Unsqueeze<axes = [0]>(data)", "Squeeze<axes = [0]>(wide)"
    nodes = f"""wide = {wide} flat = {flat}
        [pick] picked = GatherND<batch_dims = 1>(flat, indices) sum = Add(picked, picked)"""
    if branch:
        inner = f"b () => (float[N] sum) {{ {nodes} }}"
        nodes = f"out = If(yes) <then_branch = {inner}, else_branch = {inner}>"
    else:
        nodes += " out = Relu(sum)"
    head = "<int64[1] front = {0}, bool yes = {1}>"
    inputs = "float[N,4] data, int64[N,1] indices"
    return text_model(nodes, head, opset, inputs=inputs, output="float[N] out")


@pytest.mark.parametrize("branch", [False, True], ids=["graph", "branch"])
@pytest.mark.parametrize(("source", "target"), [(12, 13), (12, 18), (13, 14), (13, 20)])
def test_other_nodes_are_converted(source, target, branch):
    before = surrounded_model(source, branch=branch)

    after = onnx_models.convert(before, opset=target)

    assert opset_of(after) == target
    inputs = {"data": np.arange(12, dtype=np.float32).reshape(3, 4), "indices": [[3], [-1], [0]]}
    inputs["indices"] = np.array(inputs["indices"])
    assert_same_run(before, after, inputs)


def test_nodes_in_branches_are_rewritten_in_place():
    """Both branches read outer values, and added nodes have different names in each branch."""

    before = text_model(
        """out = If(yes) <
            then_branch = t () => (float[N] t) { t = GatherND<batch_dims = 1>(data, indices) },
            else_branch = e () => (float[N] e) { e = GatherND<batch_dims = 1>(data, indices) }>""",
        opset=12,
        inputs="float[N,4] data, int64[N,1] indices, bool yes",
        output="float[N] out",
    )

    after = onnx_models.convert(before, domain="com.microsoft")

    bodies = [attribute.g for attribute in after.graph.node[0].attribute]
    names = [name for body in bodies for node in body.node for name in node.output]
    assert len(names) == len(set(names)) > 2
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    for yes in True, False:
        inputs = {"data": data, "indices": np.array([[3], [0], [-1]]), "yes": np.array(yes)}
        assert_same_run(before, after, inputs)


def test_models_may_import_only_com_microsoft():
    """A model with only com.microsoft nodes need not import the ONNX domain."""
    before = model_of(
        [helper.make_node("GatherND", ["data", "indices"], ["out"], domain="com.microsoft")],
        [info("data", FLOAT, [3]), info("indices", INT32, [2, 1])],
        [info("out", FLOAT, [2])],
    )
    del before.opset_import[0]

    after = onnx_models.convert(before, domain="ai.onnx")

    assert [each.domain for each in after.opset_import] == [""]
    inputs = {"data": np.float32([5, 6, 7]), "indices": np.array([[2], [0]], np.int32)}
    assert_same_run(before, after, inputs)
    assert_same_run(before, onnx_models.convert(before, target="basic"), inputs)


def test_new_values_are_declared():
    inputs = [info("data", FLOAT, ["N", 4]), info("indices", INT64, ["N", 1])]
    before = model_of(
        [helper.make_node("GatherND", ["data", "indices"], ["out"], batch_dims=1)],
        inputs,
        [info("out", FLOAT, ["N"])],
    )

    after = onnx_models.convert(before, opset=11)

    (made,) = after.graph.value_info
    dims = [dim.dim_param or dim.dim_value for dim in made.type.tensor_type.shape.dim]
    assert (made.name, dims) == (after.graph.node[-1].input[1], ["N", 2])


def test_functions_are_inlined():
    before = text_model(
        "out = my.functions.Pick(data, indices)",
        functions="""<domain: "my.functions", opset_import: ["" : 13]>
            Pick (d, i) => (o) { [inner] o = GatherND<batch_dims = 1>(d, i) }""",
        inputs="float[3,4] data, int64[3,1] indices",
        output="float[3] out",
    )

    after = onnx_models.convert(before, opset=11)

    assert not after.functions
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert_same_run(before, after, {"data": data, "indices": np.array([[3], [0], [-1]])})


def refused(op_type, *, target, data=(3, 4), indices=(3, 1), kind=FLOAT, index=INT64, opset=18,
            updates=None, initial=None, domain="", **attributes):  # fmt: skip
    names = ["data", "indices"] + (["updates"] if updates else [])
    inputs = [info("data", kind, data), info("indices", index, indices)]
    if initial is not None:
        inputs.pop()
    if updates:
        inputs.append(info("updates", kind, updates))
    node = helper.make_node(op_type, names, ["out"], name="node", domain=domain, **attributes)
    return (
        model_of([node], inputs, [info("out", kind)], opset=opset, initial=initial),
        target,
    )


REFUSED = {
    "bfloat16 before 13": (
        refused("GatherND", kind=TensorProto.BFLOAT16, target={"opset": 11}),
        DTypeError,
        "ai.onnx GatherND-11: data.dtype = bfloat16 is not supported",
    ),
    "bfloat16 in com.microsoft": (
        refused("GatherND", kind=TensorProto.BFLOAT16, target={"domain": "com.microsoft"}),
        DTypeError,
        "com.microsoft GatherND-1: data.dtype = bfloat16 is not supported",
    ),
    "an operator of a later opset": (
        refused("ScatterND", indices=(20, 1), updates=(20, 4), target={"opset": 10}),
        ModelError,
        "ai.onnx ScatterND-18 cannot become opset 10: opset 10 does not support ScatterND; "
        "ai.onnx ScatterND-18 cannot become Gather: its indices are not a constant, and the number "
        "of updates is 20 (allowed: 1..16)",
    ),
    "a reduction of a later opset": (
        refused(
            "ScatterND", indices=(20, 1), updates=(20, 4), reduction="add", target={"opset": 13}
        ),
        ModelError,
        "ai.onnx ScatterND-18 cannot become opset 13: reduction is add (allowed: none); ai.onnx "
        "ScatterND-18 cannot become Gather: its indices are not a constant, and the number of "
        "updates is 20 (allowed: 1..16)",
    ),
    "a reduction value of a later opset": (
        refused(
            "ScatterND", indices=("N", 1), updates=("N", 4), reduction="max", target={"opset": 16}
        ),
        ModelError,
        "ai.onnx ScatterND-18 cannot become opset 16: reduction is max (allowed: none, add, mul); "
        "ai.onnx ScatterND-18 cannot become Gather: its indices are not a constant, and the "
        "number of updates is open (allowed: 1..16)",
    ),
    "indices that may be negative": (
        refused("Gather", target={"opset": 8}),
        ModelError,
        "ai.onnx Gather-13 cannot become ai.onnx Gather-1: a negative index counts from the end, "
        "but is out of bounds there",
    ),
    "an unknown rank": (
        refused("GatherND", data=None, indices=None, batch_dims=1, target={"opset": 11}),
        ModelError,
        "ai.onnx GatherND-13 cannot become GatherND: the rank of indices is not known",
    ),
    "tuples that may be empty": (
        refused("GatherND", domain="com.microsoft", indices=(3, "K"), target={"domain": ""}),
        ModelError,
        "com.microsoft GatherND-1 cannot become ai.onnx GatherND-13: an index tuple of "
        "length 0 copies its batch, but is an error there",
    ),
    "tuples that are empty": (
        refused("GatherND", domain="com.microsoft", indices=(3, 0), target={"domain": "ai.onnx"}),
        NdgatherError,
        "ai.onnx GatherND-13: indices.shape[-1] = 0 is too short for an index tuple",
    ),
    "batch dims in Gather": (
        refused("GatherND", batch_dims=1, target={"operator": "Gather"}),
        ModelError,
        "ai.onnx GatherND-13 cannot become Gather: batch_dims = 1 is not 0",
    ),
    "longer tuples in Gather": (
        refused("GatherND", indices=(3, 2), target={"operator": "Gather"}),
        ModelError,
        "ai.onnx GatherND-13 cannot become Gather: the length of the index tuples is 2, not 1",
    ),
    "another axis in GatherND": (
        refused("Gather", axis=1, target={"operator": "GatherND"}),
        ModelError,
        "ai.onnx Gather-13 cannot become GatherND: axis = 1 is not 0",
    ),
    "whole slices in GatherElements": (
        refused("GatherND", target={"operator": "GatherElements"}),
        ModelError,
        "ai.onnx GatherND-13 cannot become GatherElements: index tuples select single "
        "elements only along the last axis of data, if all other axes are batch axes and indices "
        "have one axis of positions",
    ),
    "slices in GatherElements": (
        refused("Gather", target={"operator": "GatherElements"}),
        ModelError,
        "ai.onnx Gather-13 cannot become GatherElements: data and indices have ranks 2 and 2, "
        "not 1",
    ),
    "a node that is already invalid": (
        refused("GatherND", batch_dims=3, target={"opset": 13}),
        AttributeValueError,
        "ai.onnx GatherND-13: batch_dims = 3 is out of range",
    ),
}


@pytest.mark.parametrize(("case", "error", "text"), REFUSED.values(), ids=REFUSED)
def test_nodes_without_an_equivalent_are_named_in_the_error(case, error, text):
    model, target = case

    with pytest.raises(error) as refusal:
        onnx_models.convert(model, **target)
    assert str(refusal.value).startswith(f"node 'node' ({model.graph.node[0].op_type}): {text}")


@pytest.mark.parametrize("value", [[1, 2], [1.5], ["add"], 1])
@pytest.mark.parametrize(
    "how", [{"opset": 10}, {"opset": 12}, {"opset": 20}, {"target": "basic"}, {"domain": "ai.onnx"}]
)
def test_unsupported_reductions_are_named_in_the_error(value, how):
    arrays = {"data": np.zeros(3, np.float32), "indices": np.zeros(1, np.int64)}
    arrays["updates"] = np.ones(1, np.float32)
    model = call_model("ScatterElements", arrays, opset=18, rank=1, reduction=value)

    with pytest.raises(DTypeError, match=r"node 'node' \(ScatterElements\): .* reduction = "):
        onnx_models.convert(model, **how)


@pytest.mark.parametrize("opset", [11, 20])
@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("Softmax", {"axis": "last"}),
        ("Softmax", {"axis": [1]}),
        ("ArgMax", {"axis": 1.5}),
        ("Shape", {"start": "0"}),
        ("Split", {"num_outputs": [2]}),
    ],
)
def test_attributes_must_have_the_type_in_the_schema(op_type, attributes, opset):
    node = helper.make_node(op_type, ["x"], ["y"], name="node", **attributes)
    model = model_of([node], [info("x", FLOAT, [2, 3])], [info("y")], opset=18)

    (name,) = attributes
    with pytest.raises(DTypeError, match=f"node 'node' .*{name} is of kind [A-Z]+ "):
        onnx_models.convert(model, opset=opset)


def test_unknown_types_are_refused():
    model = model_of(
        [
            helper.make_node("Mystery", ["data"], ["secret"], domain="com.microsoft"),
            helper.make_node("GatherND", ["secret", "indices"], ["out"], name="node"),
        ],
        [info("data"), info("indices", INT64, [2, 1])],
        [onnx.ValueInfoProto(name="out")],
    )

    with pytest.raises(ModelError) as refusal:
        onnx_models.convert(model, opset=12)
    assert str(refusal.value) == (
        "node 'node' (GatherND): ai.onnx GatherND-13 cannot become ai.onnx GatherND-12: the type "
        "of data is not known"
    )


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ({"domain": "openvino"}, "domain = 'openvino' is not a possible target (allowed: ai.onnx, "
         "com.microsoft)"),
        ({"operator": "take"}, "operator = 'take' is not a possible target (allowed: Gather, "
         "GatherElements, GatherND, ScatterND)"),
        ({"opset": 0}, "opset = 0 is not a possible target (allowed: 1.."),
    ],
)  # fmt: skip
def test_unknown_opsets_domains_and_operators_are_refused(target, text):
    with pytest.raises(ModelError) as refusal:
        onnx_models.convert(surrounded_model(), **target)
    assert str(refusal.value).startswith(text)


def test_the_model_is_not_modified():
    model = surrounded_model()
    before = model.SerializeToString()

    onnx_models.convert(model, domain="com.microsoft", opset=14)

    assert model.SerializeToString() == before


def test_conversion_to_the_same_opset_changes_nothing():
    model = surrounded_model()
    assert onnx_models.convert(model) == model


def test_converted_models_raise_the_same_errors():
    inputs = {"data": np.arange(12).reshape(3, 4), "indices": np.array([[3], [4], [0]])}
    before = call_model("GatherND", inputs, rank=1, batch_dims=1)
    for target in {"opset": 11}, {"domain": "com.microsoft"}:
        after = onnx_models.convert(before, **target)
        for model in before, after:
            with pytest.raises(IndexOutOfBoundsError) as refusal:
                onnx_models.run(model, inputs)
            assert refusal.value.value == 4


@settings(max_examples=20)
@given(call=gather_nd_calls())
def test_converted_models_agree_in_other_runtimes(call):
    """Another runtime runs the converted model if it supports the type."""
    onnxruntime = pytest.importorskip("onnxruntime")
    data, indices, batch_dims = call
    inputs = {"data": data, "indices": indices}
    if data.dtype.kind == "c" or data.size == 0:
        return
    before = call_model("GatherND", inputs, rank=result_rank(*call), batch_dims=batch_dims)
    expected = onnx_models.run(before, inputs)["out"]
    for target in {"opset": 11}, {"domain": "com.microsoft"}:
        after = onnx_models.convert(before, **target)
        session = onnxruntime.InferenceSession(after.SerializeToString())
        np.testing.assert_array_equal(session.run(None, inputs)[0], expected, strict=True)


def scatter_elements_of(opset, reduction):
    inputs = {"data": np.float32([1, 5, 3]), "indices": np.array([0, 0, 2]),
              "updates": np.float32([4, 2, 9])}  # fmt: skip
    return call_model("ScatterElements", inputs, opset=opset, rank=1, reduction=reduction), inputs


@pytest.mark.parametrize(("word", "expected"), [("max", [4, 5, 9]), ("min", [1, 5, 3])])
def test_attribute_values_of_later_opsets_are_repaired_and_reported(word, expected):
    model, inputs = scatter_elements_of(17, word)

    repaired = onnx_models.conversion(model, opset=18)

    result = onnx_models.run(repaired.model, inputs)["out"]
    np.testing.assert_array_equal(result, np.float32(expected), strict=True)
    (finding,) = repaired.findings
    assert (finding.where, finding.rule) == ("node", "repair")
    assert finding.what == (
        f"ai.onnx ScatterElements-16: reduction = {word!r} is unknown (allowed: 'none', 'add', "
        "'mul'); converted as ai.onnx ScatterElements-18"
    )
    with pytest.raises(AttributeValueError, match="is unknown"):
        onnx_models.convert(model, opset=16)
    with pytest.raises(AttributeValueError, match="is unknown"):
        onnx_models.convert(scatter_elements_of(17, "maximum")[0], opset=18)


def test_operator_replaces_convertible_nodes_and_reports_others():
    nodes = [
        helper.make_node("Gather", ["data", "rows"], ["first"], name="rows", axis=0),
        helper.make_node("Gather", ["data", "rows"], ["second"], name="columns", axis=1),
    ]
    model = model_of(
        nodes,
        [info("data", FLOAT, [3, 3]), info("rows", INT64, [2])],
        [info("first", FLOAT, [2, 3]), info("second", FLOAT, [3, 2])],
    )

    result = onnx_models.conversion(model, operator="GatherND")

    assert [node.op_type for node in result.model.graph.node if "Gather" in node.op_type] == [
        "GatherND",
        "Gather",
    ]
    assert [(each.where, each.rule, each.what) for each in result.findings] == [
        (
            "columns",
            "operator",
            "kept: ai.onnx Gather-13 cannot become GatherND: axis = 1 is not 0",
        )
    ]
    inputs = {"data": np.arange(9, dtype=np.float32).reshape(3, 3), "rows": np.array([2, 0])}
    assert_same_run(model, result.model, inputs)
    with pytest.raises(ModelError, match=r"^node 'columns'"):
        onnx_models.conversion(model, operator="GatherND", strict=True)
    with pytest.raises(ModelError, match=r"^node 'columns'"):
        onnx_models.convert(model, operator="GatherND")


NEVER_NEGATIVE = {
    "TopK": "v, i = TopK(x, k)",
    "ArgMax": "i = ArgMax(x)",
    "NonZero": "n = NonZero(x)  i = Squeeze(n, zero)",
    "a size": "s = Shape(x)  i = Div(s, k)",
    "a constant": "c = Constant<value_ints = [4, 1]>() i = Identity(c)",
}


@pytest.mark.parametrize("name", NEVER_NEGATIVE)
def test_non_negative_indices_are_unchanged_in_old_opsets(name):
    model = parse_model(f"""<ir_version: 8, opset_import: ["" : 13]>
        g (float[5] x) => (float[n] y) <int64[1] k = {{2}}, int64[1] zero = {{0}}>
        {{ {NEVER_NEGATIVE[name]}  y = Gather(x, i) }}""")
    for opset in (9,) if name == "NonZero" else (9, 8):
        after = onnx_models.convert(model, opset=opset)
        assert after.graph.node[-1].op_type == "Gather"
        assert "Less" not in {each.op_type for each in after.graph.node}
        onnx.checker.check_model(after)


@pytest.mark.parametrize("opset", [10, 9])
@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("Gather", (3,)),
        ("Gather", ()),
        ("Gather<axis = 1>", (2, 2)),
        ("Gather<axis = -1>", ()),
        ("GatherND", (3, 2)),
        ("GatherElements", (5, 4)),
    ],
)
def test_negative_indices_are_normalized_in_old_opsets(text, shape, opset):
    dims = f"[{', '.join(map(str, shape))}]" if shape else ""
    model = parse_model(f"""<ir_version: 8, opset_import: ["" : 13]>
        g (float[5, 4] x, int64{dims} i) => (float y)
        {{ y = {text}(x, i) }}""")
    model.graph.output[0].ClearField("type")
    model = onnx.shape_inference.infer_shapes(model)

    after = onnx_models.convert(model, opset=opset)

    assert {each.op_type for each in after.graph.node} >= {"Gather", "Less", "Where"}
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    indices = np.random.default_rng(0).integers(-4, 4, shape)
    feeds = {"x": x, "i": indices}
    expected = onnx_models.run(model, feeds, runtime="reference")["y"]
    found = onnx_models.run(after, feeds, runtime="reference")["y"]
    np.testing.assert_array_equal(found, expected, strict=True)
    for wrong in (5, -6, 2**40):
        feeds["i"] = np.full(shape, wrong)
        with pytest.raises(NdgatherError, match="is outside"):
            onnx_models.run(after, feeds, runtime="reference")


def test_unused_constants_are_dropped():
    model = parse_model("""<ir_version: 8, opset_import: ["" : 13]>
        g (float[5, 4] x) => (float[n, 4] y, float[5, 4] z)
        <int64[1] s = {1}, int64[1] e = {3}, int64[1] a = {0}, float unused = {1.0}>
        { y = Slice(x, s, e, a)  c = Constant<value_ints = [-1]>()  t = Unsqueeze(x, c)
          z = Squeeze(t, c) }""")

    after = onnx_models.convert(model, opset=9)

    assert [each.name for each in after.graph.initializer] == ["unused"]
    assert [each.op_type for each in after.graph.node] == ["Slice", "Unsqueeze", "Squeeze"]
    onnx.checker.check_model(after)


ADDED = {
    "Shape with start": ("s = Shape<start=1>(x)", "float[2,3,4] x", 15, (10, 9, 7)),
    "ThresholdedRelu": ("s = ThresholdedRelu<alpha=0.5>(x)", "float[3] x", 14, (9,)),
    "Shrink": ("s = Shrink<lambd=0.5>(x)", "float[3] x", 9, ()),
    "half LayerNormalization": (
        "s = LayerNormalization(x, w)", "float16[3,4] x, float16[4] w", 17, (16, 13, 11, 9),
    ),
    "Mish": ("s = Mish(x)", "float[3] x", 18, (13, 9, 7)),
}  # fmt: skip


@pytest.mark.parametrize("name", ADDED)
@pytest.mark.parametrize("valid", [True, False])
def test_added_nodes_are_converted_further(name, valid):
    text, inputs, source, targets = ADDED[name]
    model = parse_model(
        f'<ir_version: 8, opset_import: ["" : {source}]> g ({inputs}) => (float s) {{ {text} }}'
    )
    model.graph.output[0].ClearField("type")
    model = onnx.shape_inference.infer_shapes(model)
    if not valid:  # like models from some exporters
        model.graph.input[-1].type.tensor_type.ClearField("shape")
    for opset in targets:
        after = onnx_models.convert(model, opset=opset)
        known = {each.name: each for each in model.graph.input}
        for each in after.graph.input:
            each.type.CopyFrom(known[each.name].type)
        if valid:
            onnx.checker.check_model(after, full_check=True)
        for node in after.graph.node:
            schema = onnx.defs.get_schema(node.op_type, opset)
            assert schema.min_input <= len(node.input) <= schema.max_input
            assert {each.name for each in node.attribute} <= {*schema.attributes}


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("s = LayerNormalization<stash_type=0>(x, x)", 17),
        ("s = Shrink<lambd=0.5>(x)", 9),
        ("s = ReduceL2(x, a)", 18),
    ],
)
def test_unconvertible_functions_raise_errors_without_recursion(text, source):
    model = parse_model(
        f'<ir_version: 8, opset_import: ["" : {source}]> '
        f"g (double[3] x, int64[1] a) => (double[3] s) {{ {text} }}"
    )
    with pytest.raises(NdgatherError, match="cannot become") as refusal:
        onnx_models.convert(model, opset=source - 1)
    assert "recursion" not in str(refusal.value)


def test_scatter_of_opset_9_converts_to_every_opset():
    model = parse_model("""<ir_version: 4, opset_import: ["" : 9]>
        g (float[3,4] x, int64[3,1] j, float[3,1] w) => (float[3,4] o)
        { o = Scatter<axis = 1>(x, j, w) }""")
    for opset in (11, 13, 16, 18, 21):
        (node,) = onnx_models.convert(model, opset=opset).graph.node
        assert (node.op_type, [each.name for each in node.attribute]) == (
            "ScatterElements",
            ["axis"],
        )


@pytest.mark.parametrize("how", [{"opset": 7}, {"opset": 15}, {"target": "basic"}], ids=str)
def test_values_unused_in_the_source_are_kept(how):
    model = parse_model("""<ir_version: 8, opset_import: ["": 13]>
        g (float[3] x) => (float[3] y) <float[2] spare = {1.0, 2.0}> {
            never = Neg (x)
            low = Constant <value_float = 0.25> ()
            y = Clip (x, low)
            least = Abs (x)
        }""")
    after = onnx_models.convert(model, **how)
    kinds = [node.op_type for node in after.graph.node]
    low = [] if how == {"opset": 7} else ["Constant"]  # an attribute there
    assert kinds == ["Neg", *low, "Clip", "Abs"]
    assert [tensor.name for tensor in after.graph.initializer] == ["spare"]
