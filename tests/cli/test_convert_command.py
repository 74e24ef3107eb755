"""``ndgather convert``: what it writes, and how it refuses."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

DATA = np.arange(12, dtype=np.int16).reshape(3, 4)


def save(path, *, domain="", **attributes):
    graph = helper.make_graph(
        [
            helper.make_node(
                "GatherND", ["data", "indices"], ["out"], name="pick", domain=domain, **attributes
            )
        ],
        "g",
        [helper.make_tensor_value_info("data", TensorProto.INT16, [3, 4])],
        [helper.make_tensor_value_info("out", TensorProto.INT16, [3])],
        [numpy_helper.from_array(np.array([[3], [0], [-1]]), "indices")],
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)


@pytest.mark.parametrize("target", ["--opset 11", "--domain com.microsoft", "--opset 20"])
def test_writes_a_model_that_gives_the_same(ndgather, folder, target):
    save("model.onnx", batch_dims=1)
    (folder / "deep").mkdir()

    for out in "new.onnx", "deep/new.onnx":
        outcome = ndgather(f"convert model.onnx {target} -o {out}")
        assert (outcome.status, outcome.err) == (0, "")
        nodes = len(onnx.load(out).graph.node)
        assert outcome.out == f"{out}: {nodes} node{'s' * (nodes > 1)}\n"
        np.save("d.npy", DATA)
        assert ndgather(f"run {out} --input data=d.npy --output out=o.npy").status == 0
        np.testing.assert_array_equal(np.load("o.npy"), DATA[[0, 1, 2], [3, 0, 3]], strict=True)


def test_tensors_in_files_stay_where_the_model_stays(ndgather, folder):
    save("model.onnx", batch_dims=1)
    (folder / "deep").mkdir()

    for out, location in ("new.onnx", TensorProto.EXTERNAL), ("deep/new.onnx", TensorProto.DEFAULT):
        ndgather(f"convert model.onnx --opset 11 -o {out}")
        (tensor,) = onnx.load(out, load_external_data=False).graph.initializer
        assert tensor.data_location == location


REFUSED = {
    "a node": (
        "convert model.onnx --opset 10 -o new.onnx",
        "node 'pick' (GatherND): operator: opset = 10 has no ai.onnx GatherND (allowed: at least "
        "11)",
    ),
    "a domain": (
        "convert model.onnx --domain openvino -o new.onnx",
        "domain = 'openvino' is not a possible target (allowed: ai.onnx, com.microsoft)",
    ),
    "an operator": (
        "convert model.onnx --operator Scatter -o new.onnx",
        "operator = 'Scatter' is not a possible target (allowed: Gather, GatherElements, GatherND, "
        "ScatterND)",
    ),
    "a file": ("convert none.onnx -o new.onnx", "none.onnx: cannot be read: no such file or "
               "directory"),
    "a place": ("convert model.onnx -o none/new.onnx", "none/new.onnx: cannot be written: there is "
                "no folder none"),
    "a kind of file": ("convert model.onnx -o new.npy", "new.npy: unknown kind of file (allowed: "
                       ".onnx, .xml)"),
}  # fmt: skip


@pytest.mark.parametrize(("line", "text"), REFUSED.values(), ids=REFUSED)
def test_refuses_in_one_line(ndgather, folder, line, text):
    save("model.onnx", batch_dims=1)

    outcome = ndgather(line)

    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err == f"ndgather convert: error: {text}\n"
    assert not (folder / "new.onnx").exists()


def test_a_lost_file_of_tensors_is_named(ndgather, folder):
    save("model.onnx", batch_dims=1)
    (folder / "deep").mkdir()
    (folder / "weights.bin").unlink()

    outcome = ndgather("convert model.onnx --opset 12 -o deep/new.onnx")

    assert outcome.status == 1
    assert "weights.bin" in outcome.err
    assert len(outcome.err.splitlines()) == 1
