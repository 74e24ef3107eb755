"""Inferred types in ONNX models: ndgather for gathers, onnx for other nodes."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ndgather.errors import (
    DTypeError,
    IndexOutOfBoundsError,
    ShapeError,
)
from ndgather.models import onnx as onnx_models
from tests.models.test_onnx_models import text_model

FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64


def info(name, kind=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def node(op_type, inputs, outputs, **options):
    return helper.make_node(op_type, inputs.split(), outputs.split(), **options)


def model_of(nodes, inputs, outputs, *, initial=None, opset=13, functions=()):
    tensors = [numpy_helper.from_array(array, name) for name, array in (initial or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    domains = {"": opset, "com.microsoft": 1, "my.functions": 1}
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid(*item) for item in domains.items()],
        functions=list(functions),
        ir_version=8,
    )


def shapes(graph):
    """Return the declared shape of each value by name, or None."""
    found = {}
    for each in (*graph.value_info, *graph.output):
        tensor = each.type.tensor_type
        dims = [d.dim_value if d.HasField("dim_value") else d.dim_param for d in tensor.shape.dim]
        found[each.name] = tuple(dims) if tensor.HasField("shape") else None
    return found


def pick_model(data, indices, *, op_type="GatherND", index=INT64, domain="", **attributes):
    pick = node(op_type, "data indices", "picked", name="pick", domain=domain, **attributes)
    after = node("Neg", "picked", "out")
    return model_of(
        [pick, after], [info("data", FLOAT, data), info("indices", index, indices)], [info("out")]
    )


@pytest.mark.parametrize(
    ("data", "indices", "options", "shape"),
    [
        ([2, 3], [2], {}, ()),
        (["N", 3, 4], ["N", 2, 1], {"batch_dims": 1}, ("N", 2, 4)),
        ([5, 3, 4], ["N", 2, 1], {"batch_dims": 1}, (5, 2, 4)),
        (["A", "A"], ["Q", None], {"batch_dims": 1}, ("Q",)),
        (["A", "B", "C"], ["Q", 2], {}, ("Q", "C")),
        (["A", "B"], ["Q", 1], {"domain": "com.microsoft", "index": INT32}, ("Q", "B")),
        ([3, "W"], ["R", "C"], {"op_type": "GatherElements", "axis": 1}, ("R", "C")),
        (["A", "B"], ["Q", 7], {"op_type": "Gather", "axis": -1}, ("A", "Q", 7)),
    ],
)
def test_inferred_shapes_propagate_to_later_nodes(data, indices, options, shape):
    inferred = onnx_models.infer(pick_model(data, indices, **options))

    assert shapes(inferred.graph) == {"picked": shape, "out": shape}
    onnx.checker.check_model(inferred, full_check=True)


def test_an_unknown_rank_stays_unknown():
    inferred = onnx_models.infer(pick_model([2, 3, 4], [5, None]))

    assert shapes(inferred.graph).get("picked") is None
    assert inferred.graph.output[0].type.tensor_type.elem_type == FLOAT


def test_alternating_inference_reaches_the_end_of_a_chain():
    """Three nodes unknown to onnx, each after a node unknown to ndgather."""
    model = text_model(
        "y0 = Neg(x0) x1 = com.microsoft.GatherND(y0, at) y1 = Neg(x1) "
        "x2 = com.microsoft.GatherND(y1, at) y2 = Neg(x2) x3 = com.microsoft.GatherND(y2, at)",
        inputs="float[A,B,C,D] x0, int64[1] at",
        output="float[] x3",
    )
    model.graph.output[0].CopyFrom(info("x3"))

    inferred = onnx_models.infer(model)

    assert shapes(inferred.graph) == {
        "y0": ("A", "B", "C", "D"),
        "x1": ("B", "C", "D"),
        "y1": ("B", "C", "D"),
        "x2": ("C", "D"),
        "y2": ("C", "D"),
        "x3": ("D",),
    }


def test_inferred_input_types_are_declared():
    """onnx does not know the type of `indices`, whose batch axes equal those of data."""
    model = text_model(
        "indices = Tile(raw, times) picked = GatherND<batch_dims = 1>(data, indices)",
        inputs="int64[1,1,1] raw, int64[3] times, float[5,W] data",
    )
    model.graph.output[0].CopyFrom(info("picked"))

    found = shapes(onnx_models.infer(model).graph)

    batch, count, depth = found["indices"]
    assert (batch, depth) == (5, 1)
    assert found["picked"] == (5, count)


def test_nodes_in_branches_and_loops_are_inferred():
    model = text_model(
        """chosen = If(yes) <
            then_branch = t () => (float t) { t1 = com.microsoft.GatherND(data, at) t = Neg(t1) },
            else_branch = e () => (float e) { e1 = com.microsoft.GatherND(data, at) e = Neg(e1) }>
        out = Abs(chosen)""",
        inputs="float[A,B] data, int64[Q,1] at, bool yes",
    )
    for graph in (model.graph, *(item.g for item in model.graph.node[0].attribute)):
        graph.output[0].type.tensor_type.ClearField("shape")

    inferred = onnx_models.infer(model)

    assert shapes(inferred.graph) == {"chosen": ("Q", "B"), "out": ("Q", "B")}
    inner = [shapes(attribute.g) for attribute in inferred.graph.node[0].attribute]
    assert inner == [{f"{n}1": ("Q", "B"), n: ("Q", "B")} for n in ("t", "e")]


def test_nodes_in_functions_are_inferred_from_calls():
    model = text_model(
        "picked = my.functions.Pick(data, indices) out = my.functions.Pick(picked, few)",
        functions="""<domain: "my.functions", opset_import: ["com.microsoft" : 1]>
            Pick (d, i) => (o) { [inner] o = com.microsoft.GatherND(d, i) }""",
        inputs="float[A,B,C] data, int64[Q,1] indices, int64[2] few",
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")

    inferred = onnx_models.infer(model)

    assert shapes(inferred.graph) == {"picked": ("Q", "B", "C"), "out": ("C",)}
    assert [each.op_type for each in inferred.graph.node] == ["Pick", "Pick"]
    assert inferred.functions == model.functions


def test_shape_arithmetic_through_gather_is_kept():
    """A Gather reads the sizes of data, which become the shape of the result."""
    model = text_model(
        """sizes = Shape(data) width = Gather(sizes, last) row = Unsqueeze(width, front)
           target = Concat<axis = 0>(row, row) out = Expand(one, target)""",
        "<int64 last = {1}, int64[1] front = {0}, float[1] one = {1}>",
        inputs="float[A,B] data",
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")

    assert shapes(onnx_models.infer(model).graph)["out"] == ("B", "B")


def test_the_model_is_not_modified():
    model = pick_model(["N", 3], ["M", 1])
    before = model.SerializeToString()

    onnx_models.infer(model)

    assert model.SerializeToString() == before


def test_declared_types_are_kept_and_completed():
    model = pick_model([5, 4], ["M", 1], domain="com.microsoft")
    model.graph.output[0].CopyFrom(info("out", FLOAT, ["rows", None]))
    model.graph.value_info.add().CopyFrom(info("picked", FLOAT, ["rows", None]))

    assert shapes(onnx_models.infer(model).graph) == {"picked": ("rows", 4), "out": ("rows", 4)}

    model.graph.value_info[0].CopyFrom(info("picked", FLOAT, ["rows", "cols"]))
    assert shapes(onnx_models.infer(model).graph)["picked"] == ("rows", 4)


REFUSED = {
    "batch sizes": (
        pick_model([2, 3], [3, 1], batch_dims=1),
        ShapeError,
        "ai.onnx GatherND-13: indices.shape[0] = 3 differs from data.shape[0] = 2: batch axes must "
        "be equal in data (2, 3) and indices (3, 1) (allowed: 2)",
    ),
    "type": (
        pick_model([3, 4], ["N", 1], index=INT32),
        DTypeError,
        "ai.onnx GatherND-13: indices.dtype = int32 is not supported (allowed: int64)",
    ),
}


@pytest.mark.parametrize(("model", "error", "text"), REFUSED.values(), ids=REFUSED)
def test_impossible_types_raise_errors_that_name_the_node(model, error, text):
    with pytest.raises(error) as refusal:
        onnx_models.infer(model)
    op_type = model.graph.node[0].op_type
    assert str(refusal.value) == f"node 'pick' ({op_type}): {text}"


@pytest.mark.parametrize("axes", [(1.0, 1), (1, 1.0)])
def test_attribute_types_are_checked_regardless_of_cached_inference(axes):
    for axis in axes:
        model = pick_model([2, 7], [3], op_type="Gather", axis=axis)
        if isinstance(axis, float):
            with pytest.raises(DTypeError, match=r"axis = 1.0 has the wrong type"):
                onnx_models.infer(model)
        else:
            assert shapes(onnx_models.infer(model).graph)["out"] == (2, 3)


def test_constant_indices_are_checked():
    constant = "indices = Constant<value = int64[2,1] {0, 7}>()"
    for before, head in (constant, ""), ("", "<int64[2,1] indices = {0, 7}>"):
        nodes = f"{before} [pick] out = GatherND(data, indices)"
        model = text_model(nodes, head, inputs="float[5,2] data", output="float[2,2] out")

        with pytest.raises(IndexOutOfBoundsError) as refusal:
            onnx_models.infer(model)
        assert str(refusal.value) == (
            "node 'pick' (GatherND): ai.onnx GatherND-13: indices[1, 0] = 7 is outside axis 0 of "
            "data, which has size 5 (allowed: -5..4)"
        )


def test_initializers_that_inputs_override_are_not_constants():
    model = model_of(
        [node("GatherND", "data indices", "out")],
        [info("data", FLOAT, [5, 2]), info("indices", INT64, [2, 1])],
        [info("out")],
        initial={"indices": np.array([[0], [7]])},
    )

    assert shapes(onnx_models.infer(model).graph) == {"out": (2, 2)}

    model.ir_version = 3  # requires every initializer to be an input
    with pytest.raises(IndexOutOfBoundsError):
        onnx_models.infer(model)


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        (info("picked", FLOAT, ["M", 5]), "shape = (M, 4) contradicts the model's declaration "
         "(allowed: (M, 5))"),
        (info("picked", FLOAT, ["M"]), "shape = (M, 4) contradicts the model's declaration "
         "(allowed: (M,))"),
        (info("picked", INT64, ["M", 4]), "dtype = float32 contradicts the model's declaration "
         "(allowed: int64)"),
    ],
    ids=["size", "rank", "type"],
)  # fmt: skip
def test_wrong_declarations_raise_errors_that_name_the_node(declared, text):
    model = pick_model([5, 4], ["M", 1])
    model.graph.value_info.add().CopyFrom(declared)

    with pytest.raises(DTypeError if text.startswith("dtype") else ShapeError) as refusal:
        onnx_models.infer(model)
    assert str(refusal.value) == f"node 'pick' (GatherND): value 'picked': {text}"


def test_errors_in_branches_name_the_enclosing_nodes():
    inner = "() => (float t) { [inner] t = GatherND<batch_dims = 1>(data, indices) }"
    model = text_model(
        f"[choose] out = If(yes) <then_branch = b {inner}, else_branch = b {inner}>",
        inputs="float[2,3] data, int64[3,1] indices, bool yes",
    )
    for graph in (model.graph, *(item.g for item in model.graph.node[0].attribute)):
        graph.output[0].type.tensor_type.ClearField("shape")

    with pytest.raises(ShapeError, match=r"^node 'choose' \(If\): node 'inner' \(GatherND\): ai."):
        onnx_models.infer(model)


def test_domains_without_import_default_to_version_1():
    model = pick_model([2, 3], [3, 1], domain="com.microsoft")
    imported = onnx_models.infer(model)
    del model.opset_import[1:]

    assert onnx_models.infer(model).graph == imported.graph


def test_external_values_are_read_from_the_model_folder(tmp_path):
    model = text_model("out = GatherND(data, indices)", inputs="float[5,2] data")
    model.graph.initializer.append(numpy_helper.from_array(np.array([[0], [7]]), "indices"))
    model.graph.output[0].type.tensor_type.ClearField("shape")
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)

    with pytest.raises(IndexOutOfBoundsError):
        onnx_models.infer(path)
    there = onnx.load(path, load_external_data=False)
    assert shapes(onnx_models.infer(there).graph) == {"out": (2, 2)}
