"""``ndgather infer``: types and shapes of one call, or of a model."""

import json

import numpy as np
import onnx
import pytest

from ndgather.models.graph import Graph, GraphInput, GraphOutput, OperatorNode
from ndgather.published import operator
from ndgather.published.schema import TensorType
from tests.models.ir_writer import write_ir


def test_a_call_by_names(ndgather):
    outcome = ndgather("infer GatherND data=float32:N,4,3 indices=int64:M,2")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out == (
        "ai.onnx GatherND-13\n"
        "input   data     float32  (N, 4, 3)\n"
        "input   indices  int64    (M, 2)\n"
        "output  output   float32  (M, 3)\n"
    )


def test_a_call_in_order_with_attributes(ndgather):
    line = "infer gathernd float32:N,4,3 int64:M,?,1 batch_dims=1 --opset 12"
    outcome = ndgather(line)
    assert (outcome.status, outcome.err) == (0, "")
    head, *rest = outcome.out.splitlines()
    assert head == "ai.onnx GatherND-12"
    assert rest[2:] == ["output  output   float32  (M, ?, 3)", "N = M"]


def test_what_follows_for_the_inputs(ndgather):
    """Sizes on the axes other than `axis` of Scatter's updates are those of its indices."""
    outcome = ndgather("infer ScatterElements float32:8,N int64:M,5 :3,K axis=0")
    assert outcome.status == 0
    assert "input   indices  int64    (3, 5)" in outcome.out
    assert "input   updates  float32  (3, 5)" in outcome.out
    assert "output  output   float32  (8, N)" in outcome.out
    assert {"K = 5", "M = 3"} <= set(outcome.out.splitlines())


@pytest.mark.parametrize(
    ("axis", "shape"),
    [("1", "(2, 5, 4)"), ("-1", "(2, 3, 5)"), ("-3", "(5, 3, 4)"), ("3", None), ("-4", None)],
)
def test_an_input_that_is_a_value(ndgather, axis, shape):
    call = f"data=float32:2,3,4 indices=int32:5 axis={axis}"
    outcome = ndgather(f"infer Gather --domain openvino {call}")
    if shape is None:
        assert f"axis = {axis} is out of range" in outcome.err
    else:
        assert outcome.out.endswith(f" {shape}\n")


INPUTS = {  # what an input may be, and the row that is printed of it
    "float32:N,4,?": ("float32", "(N, 4, ?)"),
    "float32": ("float32", "(?, ...)"),
    ":N,4": ("?", "(N, 4)"),
    "data.npy": ("int16", "(3, 4)"),
}


@pytest.mark.parametrize("text", INPUTS)
def test_ways_to_write_an_input(ndgather, text):
    outcome = ndgather(f"infer GatherND data={text} indices=int64:M,1")
    assert outcome.out.splitlines()[1].split(maxsplit=3) == ["input", "data", *INPUTS[text]]


def test_files_are_inputs_with_values(ndgather):
    assert ndgather("infer GatherND data=data.npy indices=indices.npy").out.endswith(
        "output  output   int16  (3,)\n"
    )
    outcome = ndgather("infer GatherND data=data.npy indices=bad.npy")
    assert outcome.status == 1
    assert outcome.err.startswith(
        "ndgather infer: error: ai.onnx GatherND-13: indices[1, 1] = 9 is outside axis 1 of data"
    )


def test_a_call_as_json(ndgather):
    outcome = ndgather("infer GatherND float32:3,4 int64 --json")
    found = json.loads(outcome.out)
    assert found["operator"] == "ai.onnx GatherND-13"
    assert found["inputs"][0] == {"name": "data", "dtype": "float32", "shape": [3, 4]}
    assert found["inputs"][1]["dtype"] == "int64"
    assert found["outputs"][0]["dtype"] == "float32"
    assert found["equal"] == {}


def test_a_model(ndgather):
    outcome = ndgather("infer model.onnx")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out == (
        "input   data     int16  (H, 4)\n"
        "input   indices  int64  (N, 2)\n"
        "output  picked   int16  (N,)\n"
        "output  more     int16  (N,)\n"
    )


@pytest.mark.parametrize("size", ["N", "indices[0]"])
def test_a_model_at_a_size(ndgather, size):
    outcome = ndgather(f"infer model.onnx --size {size}=7 --json")
    found = json.loads(outcome.out)
    assert [each["shape"] for each in found["outputs"]] == [[7], [7]]
    assert found["inputs"][0]["shape"] == ["H", 4]


def test_all_values_of_a_model_and_the_model_that_is_kept(ndgather):
    model = onnx.load("model.onnx")
    between = model.graph.output.pop(0)
    model.graph.output[0].ClearField("type")
    onnx.save(model, "less.onnx")

    outcome = ndgather("infer less.onnx --all -o more.onnx")
    assert outcome.out.endswith("\n\nmore.onnx: the model with its types\n")

    assert (outcome.status, outcome.err) == (0, "")
    assert "value   picked   int16  (N,)" in outcome.out.splitlines()
    kept = onnx.load("more.onnx")
    assert [each.name for each in kept.graph.value_info] == [between.name]
    assert kept.graph.output[0].type == between.type


def test_an_ir(ndgather):
    row = operator("GatherND", domain="openvino", version=8).row
    types = (TensorType("int16", (None, 4)), TensorType("int64", (None, 2)))
    graph = Graph(
        name="gather",
        inputs=tuple(map(GraphInput, ("data", "indices"), types)),
        constants={},
        nodes=(OperatorNode("pick", row, ("data", "indices"), "out", {}),),
        outputs=(GraphOutput("picked", "out"),),
    )
    write_ir(graph, "gather.xml")
    outcome = ndgather("infer gather.xml")
    assert (outcome.status, outcome.err) == (0, "")
    assert [line.split()[0] for line in outcome.out.splitlines()] == ["input", "input", "output"]


REFUSED = {
    "no such operator": ("infer Gatherer data=float32:3", "infer: name = 'Gatherer'"),
    "a type that is not taken": (
        "infer GatherND float32:3 float32:1",
        "ai.onnx GatherND-13: indices.dtype = float32",
    ),
    "shapes that do not fit": ("infer GatherND float32:3 int64:5,2", "ai.onnx GatherND-13: "),
    "an input that is missing": ("infer GatherND float32:3", "ai.onnx GatherND-13: "),
    "an unknown attribute": (
        "infer GatherND float32:3 int64:1,1 axis=1",
        "ai.onnx GatherND-13: axis is not an attribute",
    ),
    "a size that is none": (
        "infer GatherND float32:3,-1 int64:1,1",
        "infer: data = 'float32:3,-1' is not a type (allowed: DTYPE:SIZE,... as float32:N,4, "
        "or a file)",
    ),
    "no such size": (
        "infer model.onnx --size K=3",
        "the model has no size 'K' (allowed: H, N, data[0], indices[0])",
    ),
    "no such file": ("infer none.onnx", "none.onnx: cannot be read: no such file or directory"),
    "types for a model": (
        "infer model.onnx float32:3",
        "infer: 'float32:3' is not taken with a model (allowed: --size NAME=N)",
    ),
}


@pytest.mark.parametrize(("line", "text"), REFUSED.values(), ids=REFUSED)
def test_refuses_in_one_line(ndgather, line, text):
    outcome = ndgather(line)
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err.startswith(f"ndgather infer: error: {text}")
    assert len(outcome.err.splitlines()) == 1


def test_a_node_that_cannot_run_is_named(ndgather):
    model = onnx.load("model.onnx")
    model.graph.input[1].type.tensor_type.shape.dim[1].dim_value = 3
    onnx.save(model, "bad.onnx")
    outcome = ndgather("infer bad.onnx")
    assert outcome.status == 1
    assert outcome.err.startswith("ndgather infer: error: node 'pick' (GatherND): ")
    assert np.load("data.npy").shape == (3, 4)
