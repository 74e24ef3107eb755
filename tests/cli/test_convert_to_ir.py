"""``ndgather convert`` between ONNX and OpenVINO IR: what it writes, and how it refuses."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("defusedxml")

from ndgather.models.openvino import model as ir_model

DATA = np.arange(12, dtype=np.int16).reshape(3, 4)
PICKED = np.array([3, 4, 11], np.int16)  # DATA at (0, 3), (1, 0), (2, -1), by hand


@pytest.fixture(autouse=True)
def model(folder):
    """Write a GatherND of batches, with its indices in a file of their own, and its data."""
    node = helper.make_node("GatherND", ["data", "indices"], ["out"], name="pick", batch_dims=1)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("data", TensorProto.INT16, ["H", 4])],
        [helper.make_tensor_value_info("out", TensorProto.INT16, [3])],
        [numpy_helper.from_array(np.array([[3], [0], [-1]]), "indices")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    where = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}
    onnx.save(proto, "model.onnx", **where)
    np.save("d.npy", DATA)


def written(ndgather, line, text):
    outcome = ndgather(line)
    assert (outcome.status, outcome.out, outcome.err) == (0, text, "")


@pytest.mark.parametrize("opset", [13, 18])
def test_an_onnx_model_becomes_an_ir_and_an_onnx_model_again(ndgather, folder, opset):
    written(ndgather, "convert model.onnx -o new.xml", "new.xml: 1 node\n")
    assert (folder / "new.bin").stat().st_size == 3 * 8
    asked = f" --opset {opset}" if opset != 18 else ""
    written(ndgather, f"convert new.xml{asked} -o again.onnx", "again.onnx: 1 node\n")

    again = onnx.load("again.onnx")
    assert [each.version for each in again.opset_import] == [opset]
    assert [each.op_type for each in again.graph.node] == ["GatherND"]
    for file in "model.onnx", "new.xml", "again.onnx":
        assert ndgather(f"run {file} --input data=d.npy --output out=o.npy").status == 0
        np.testing.assert_array_equal(np.load("o.npy"), PICKED, strict=True)


def test_where_runs_may_part_is_said(ndgather):
    node = helper.make_node("Gather", ["data", "places"], ["out"], name="take")
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info("data", TensorProto.INT16, ["H", 4]),
            helper.make_tensor_value_info("places", TensorProto.INT64, ["N"]),
        ],
        [helper.make_tensor_value_info("out", TensorProto.INT16, ["N", 4])],
    )
    opsets = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "take.onnx")
    outcome = ndgather("convert take.onnx -o take.xml")
    assert outcome.status == 0
    assert outcome.out.startswith("take.xml: 1 node\nseverity  where  operator")
    assert "gives zeros" in outcome.out


def test_the_operator_is_that_which_is_asked_for(ndgather, folder):
    node = helper.make_node("Gather", ["data", "places"], ["out"], name="take")
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("data", TensorProto.INT16, [3, 4])],
        [helper.make_tensor_value_info("out", TensorProto.INT16, [2, 4])],
        [numpy_helper.from_array(np.array([2, 0]), "places")],
    )
    opsets = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "take.onnx")
    assert ndgather("convert take.onnx -o take.xml").status == 0
    assert ndgather("convert take.xml --operator GatherND -o nd.onnx").status == 0
    assert "Gather" not in {each.op_type for each in onnx.load("nd.onnx").graph.node}
    assert ndgather("run nd.onnx --input data=d.npy --output out=o.npy").status == 0
    np.testing.assert_array_equal(np.load("o.npy"), DATA[[2, 0]], strict=True)


NEWEST = onnx.defs.onnx_opset_version()
REFUSED = {
    "a version of ONNX for an IR": (
        "convert model.onnx --opset 13 -o out.xml",
        "out.xml: --opset does not apply (allowed: for a result in an .onnx file)",
    ),
    "an IR to an IR": (
        "convert ir.xml -o out.xml",
        "out.xml: unknown kind of file (allowed: .onnx)",
    ),
    "a version that is not": (
        "convert ir.xml --opset 99 -o out.onnx",
        f"opset = 99 is not a possible target (allowed: 1..{NEWEST})",
    ),
    "a version without the operator": (
        "convert ir.xml --opset 9 -o out.onnx",
        "node 'pick' (openvino GatherND-8): openvino GatherND-8 cannot become one of ai.onnx 9: "
        "there is no such operator",
    ),
    "a domain": (
        "convert ir.xml --domain openvino -o out.onnx",
        "domain = 'openvino' is not a possible target (allowed: ai.onnx, com.microsoft)",
    ),
    "no file": ("convert none.xml -o out.onnx", "none.xml: cannot be read: no such file or "
                "directory"),
    "the model's own tensors": (
        "convert model.onnx -o weights.xml",
        "weights.bin: cannot be written: model.onnx keeps tensors there",
    ),
    "a folder in the way": (
        "convert model.onnx -o taken.xml",
        "taken.bin: cannot be written: exists and is not a regular file",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("line", "text"), REFUSED.values(), ids=REFUSED)
def test_refuses_in_one_line(ndgather, folder, line, text):
    ndgather("convert model.onnx -o ir.xml")
    (folder / "taken.bin").mkdir()
    weights = (folder / "weights.bin").read_bytes()

    outcome = ndgather(line)

    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err == f"ndgather convert: error: {text}\n"
    assert not [*folder.glob("out.*"), *folder.glob("taken.xml"), *folder.glob("weights.xml")]
    assert (folder / "weights.bin").read_bytes() == weights


def test_lost_files_are_named(ndgather, folder):
    ndgather("convert model.onnx -o ir.xml")
    (folder / "weights.bin").unlink()
    (folder / "ir.bin").unlink()
    for line, file in ("model.onnx -o out.xml", "weights.bin"), ("ir.xml -o out.onnx", "ir.bin"):
        outcome = ndgather(f"convert {line}")
        assert outcome.status == 1
        assert file in outcome.err
        assert len(outcome.err.splitlines()) == 1


@pytest.fixture
def cut():
    """Write a model of a gather and another node."""
    graph = helper.make_graph(
        [
            helper.make_node("Abs", ["data"], ["positive"], name="cut"),
            helper.make_node("GatherND", ["positive", "places"], ["out"], name="pick"),
        ],
        "g",
        [
            helper.make_tensor_value_info("data", TensorProto.INT64, [2]),
            helper.make_tensor_value_info("places", TensorProto.INT64, ["N", 1]),
        ],
        [helper.make_tensor_value_info("out", TensorProto.INT64, ["N"])],
    )
    opsets = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "cut.onnx")


def test_a_node_that_no_ir_here_has_is_named(ndgather, cut, monkeypatch):
    monkeypatch.setattr(ir_model, "is_installed", lambda: False)
    outcome = ndgather("convert cut.onnx -o out.xml")
    assert outcome.status == 1
    assert "node 'cut' (Abs): op_type = 'Abs'" in outcome.err
    assert "any, if the package openvino is installed" in outcome.err


def test_other_models_go_through_openvino_and_are_checked(ndgather, cut, folder):
    openvino = pytest.importorskip("openvino")

    outcome = ndgather("convert cut.onnx -o out.xml")

    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith("out.xml: 2 nodes\n")
    assert "GatherND-8" in outcome.out  # what the check says of the layer
    assert "32 bits" in outcome.out
    assert sorted(each.name for each in folder.glob("out.*")) == ["out.bin", "out.xml"]
    compiled = openvino.Core().compile_model("out.xml", "CPU")
    data, places = np.array([-1, 2]), np.array([[1], [-1], [0]])
    np.testing.assert_array_equal(compiled([data, places])[0], np.array([2, 2, 1]))


def test_what_openvino_refuses_is_said(ndgather, folder):
    pytest.importorskip("openvino")
    graph = helper.make_graph(
        [helper.make_node("Optional", ["data"], ["some"], name="maybe")],
        "g",
        [helper.make_tensor_value_info("data", TensorProto.FLOAT, [2])],
        [helper.make_tensor_sequence_value_info("some", TensorProto.FLOAT, None)],
    )
    onnx.save(helper.make_model(graph, ir_version=8), "maybe.onnx")

    outcome = ndgather("convert maybe.onnx -o out.xml")

    assert outcome.status == 1
    assert "maybe.onnx: OpenVINO cannot convert it: " in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert not [*folder.glob("out.*")]
