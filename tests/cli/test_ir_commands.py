"""``ndgather run``, ``check`` and ``infer`` on an OpenVINO IR, recognized by its file name."""

import numpy as np
import pytest

pytest.importorskip("defusedxml")

from ndgather.published import operator
from ndgather.published.schema import TensorType
from tests.models.ir_writer import Graph, GraphInput, GraphOutput, OperatorNode, write_ir

GOOD = "run model.xml --input data=data.npy --input indices=indices.npy"
PICKED = np.array([101, 111, 104], np.int16)


@pytest.fixture
def ir(folder):
    """Write the gather of the model in the folder as an IR in the same folder."""
    row = operator("GatherND", domain="openvino", version=8).row
    graph = Graph(
        name="one gather",
        inputs=(
            GraphInput("data", TensorType("int16", (None, 4))),
            GraphInput("indices", TensorType("int64", (None, 2))),
        ),
        constants={},
        nodes=(OperatorNode("pick", row, ("data", "indices"), "out", {}),),
        outputs=(GraphOutput("picked", "out"),),
    )
    write_ir(graph, folder / "model.xml")
    return folder / "model.xml"


def test_an_ir_runs_like_any_model(ndgather, ir):
    outcome = ndgather(f"{GOOD} --output picked=kept.npy")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.splitlines()[-1].startswith("1 node ran in ndgather; ")
    np.testing.assert_array_equal(np.load("kept.npy"), PICKED, strict=True)


def test_an_out_of_bounds_index_names_the_layer(ndgather, ir):
    outcome = ndgather(GOOD.replace("indices.npy", "bad.npy"))
    assert outcome.status == 1
    assert outcome.err == (
        "ndgather run: error: node 'pick' (openvino GatherND-8): openvino GatherND-8: "
        "indices[1, 1] = 9 is outside axis 1 of data, which has size 4 (allowed: -4..3); "
        "2 of 6 entries of indices are out of bounds\n"
    )


def test_a_bare_layer_runs_with_specification_names(ndgather, folder):
    (folder / "layer.xml").write_text(
        '<layer id="1" type="GatherND" version="opset8"><data batch_dims="0"/>'
        '<input><port id="0"><dim>3</dim><dim>4</dim></port>'
        '<port id="1"><dim>3</dim><dim>2</dim></port></input>'
        '<output><port id="2"><dim>3</dim></port></output></layer>'
    )
    line = GOOD.replace("model.xml", "layer.xml")
    assert ndgather(f"{line} --output output=kept.npy").status == 0
    np.testing.assert_array_equal(np.load("kept.npy"), PICKED, strict=True)
    assert ndgather("check layer.xml").out == "nothing found\n"


def test_check_reports_a_wrong_port(ndgather, ir):
    assert (ndgather("check model.xml").status, ndgather("check model.xml").err) == (0, "")
    text = ir.read_text()
    head, wrong, tail = text.rpartition('<port id="2" precision="I16"')
    ir.write_text(head + wrong.replace("I16", "I32") + tail)
    outcome = ndgather("check model.xml")
    assert outcome.status == 1
    assert "output port 2 declares precision I32; inferred I16" in outcome.out


@pytest.mark.parametrize("line", ["model.xml -o out.onnx", "model.onnx -o out.xml"])
def test_convert_refers_to_the_ir_converter(ndgather, ir, line):
    outcome = ndgather(f"convert {line}")
    file = "model.xml" if line.startswith("model.xml") else "out.xml"
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err == (
        f"ndgather convert: error: {file}: is an OpenVINO IR, which convert neither reads nor "
        "writes (allowed: FILE.onnx; `ovc MODEL.onnx` of the openvino package converts ONNX to "
        "IR)\n"
    )
    assert not list(ir.parent.glob("out.*"))


def test_infer_reads_an_ir(ndgather, ir):
    outcome = ndgather("infer model.xml")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out == (
        "input   data     int16  (?, 4)\n"
        "input   indices  int64  (?, 2)\n"
        "output  picked   int16  (?,)\n"
    )
