"""Models with operators that have their own definition: run, inferred, converted and checked."""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.parser import parse_model

from ndgather import errors
from ndgather.models import onnx as onnx_models
from ndgather.models import openvino
from tests.operators import loops
from tools import versions

CACHE = parse_model("""<ir_version: 10, opset_import: ["" : 24]>
    cache (float[2, 8, 4] keys, float[2, L, 4] key, int64[2] at) => (float[2, 8, 4] present)
    { present = TensorScatter(keys, key, at) }""")
INPUTS = {
    "keys": np.arange(64, dtype=np.float32).reshape(2, 8, 4),
    "key": -np.ones((2, 3, 4), np.float32),
    "at": np.array([0, 5]),
}


def blocks(*, last=("",)):
    """Return a model whose optional input is given, has an empty name, or is omitted."""
    table = np.arange(48, dtype=np.uint8).reshape(3, 16)
    node = helper.make_node(
        "GatherBlockQuantized",
        ["table", "ids", "scales", *last],
        ["rows"],
        domain="com.microsoft",
        bits=4,
        block_size=16,
    )
    scales = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    graph = helper.make_graph(
        [node],
        "embed",
        [helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, ["N"])],
        [helper.make_tensor_value_info("rows", onnx.TensorProto.FLOAT, ["N", 32])],
        [numpy_helper.from_array(table, "table"), numpy_helper.from_array(scales, "scales")],
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10), table, scales


def test_tensor_scatter_runs_in_a_model():
    (present,) = onnx_models.run(CACHE, INPUTS, runtime="reference").values()
    np.testing.assert_array_equal(present, loops.tensor_scatter(*INPUTS.values()))
    with pytest.raises(errors.IndexOutOfBoundsError, match=r"'present': .*write_indices\[1\] = 6"):
        onnx_models.run(CACHE, {**INPUTS, "at": np.array([0, 6])}, runtime="reference")


@pytest.mark.parametrize("last", [(), ("",)])
def test_optional_inputs_may_be_omitted(last):
    model, table, scales = blocks(last=last)
    ids = np.array([2, -1, 7])
    (rows,) = onnx_models.run(model, {"ids": ids}, runtime="reference").values()
    wanted = loops.gather_block_quantized(table, ids, scales, bits=4, block_size=16)
    np.testing.assert_array_equal(rows, wanted, strict=True)


@pytest.mark.parametrize("last", [[], [""], ["at"]])
def test_nodes_without_an_optional_input_are_compared(last):
    model = onnx.ModelProto.FromString(CACHE.SerializeToString())
    model.graph.node[0].input[2:] = last
    report = onnx_models.compare(model, INPUTS, runtimes=["reference"])
    assert [run.status for run in report.nodes[0].runs] == ["same"]


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("runtime", ["reference", "onnxruntime"])
def test_tensor_scatter_agrees_with_onnxruntime(runtime, axis, mode):
    pytest.importorskip("onnx" if runtime == "reference" else runtime)
    shape = (2, 5, 4)
    model = onnx.ModelProto.FromString(CACHE.SerializeToString())
    del model.graph.input[:], model.graph.output[:]
    update = [2, 5, 4]
    update[axis] = 2
    for name, dims in (("keys", shape), ("key", update)):
        info = helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims)
        model.graph.input.append(info)
    model.graph.input.append(helper.make_tensor_value_info("at", onnx.TensorProto.INT64, [2]))
    model.graph.output.append(
        helper.make_tensor_value_info("present", onnx.TensorProto.FLOAT, shape)
    )
    node = model.graph.node[0]
    node.attribute.extend(
        [helper.make_attribute("axis", axis), helper.make_attribute("mode", mode)]
    )
    rng = np.random.default_rng(axis)
    inputs = {
        "keys": rng.standard_normal(shape).astype(np.float32),
        "key": rng.standard_normal(update).astype(np.float32),
        "at": np.array([0, 2 if mode == "linear" else 3 * shape[axis] - 1]),
    }
    report = onnx_models.compare(model, inputs, runtimes=[runtime])
    assert [run.status for run in report.nodes[0].runs] == ["same"]


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_gather_block_quantized_agrees_with_onnxruntime(bits):
    pytest.importorskip("onnxruntime")
    model, _, _ = blocks()
    model.graph.node[0].attribute[0].i = bits
    scales = 1 + np.arange(24 // bits, dtype=np.float16).reshape(3, -1)
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(scales, "scales"))
    model.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("rows", onnx.TensorProto.FLOAT16, ["N", 128 // bits])
    )
    ids = {"ids": np.array([2, -1, 7, 0])}
    report = onnx_models.compare(model, ids, runtimes=["onnxruntime"])
    is_older = versions.order(version("onnxruntime")) < [1, 32]
    (run,) = report.nodes[0].runs
    assert run.status == "same" or (is_older and run.status == "refused")


def test_types_are_inferred_for_operators_unknown_to_onnx():
    model, _, _ = blocks()
    model.graph.output[0].ClearField("type")
    (output,) = onnx_models.infer(model).graph.output
    assert [dim.dim_param or dim.dim_value for dim in output.type.tensor_type.shape.dim] == [
        "N",
        32,
    ]
    known = onnx_models.infer(CACHE, sizes={"L": 3})
    with pytest.raises(errors.ShapeError, match=r"update.shape\[1\] = 9 is longer"):
        onnx_models.infer(CACHE, sizes={"L": 9})
    assert known.graph.input[1].type.tensor_type.shape.dim[1].dim_value == 3


def test_conversion_keeps_the_node_or_raises_an_error():
    newer = onnx_models.convert(CACHE, opset=25)
    assert [node.op_type for node in newer.graph.node] == ["TensorScatter"]
    same = onnx_models.convert(CACHE, operator="GatherND")
    assert [node.op_type for node in same.graph.node] == ["TensorScatter"]
    with pytest.raises(errors.ModelError, match=r"cannot become one of ai.onnx 23: there is no"):
        onnx_models.convert(CACHE, opset=23)
    with pytest.raises(errors.ModelError, match=r"cannot become one of com.microsoft .*no such"):
        onnx_models.convert(CACHE, domain="com.microsoft")
    model, _, _ = blocks()
    with pytest.raises(errors.ModelError, match=r"GatherBlockQuantized-1 cannot become one of ai"):
        onnx_models.convert(model, domain="")


@pytest.mark.parametrize("model", [CACHE, blocks()[0]], ids=lambda model: model.graph.name)
def test_nodes_that_a_target_does_not_support_stay(model):
    (report,) = onnx_models.conversion(model, target="basic").nodes
    assert report.stays
    assert report.why == f"basic does not support {model.graph.node[0].op_type}"
    with pytest.raises(errors.ModelError, match=f"cannot become basic: {report.why}"):
        onnx_models.convert(model, target="basic")


def test_tensor_scatter_stays_for_targets_that_support_it():
    converted = onnx_models.convert(CACHE, target="onnxruntime")
    assert list(converted.graph.node) == list(CACHE.graph.node)


LAYER = """<layer id="2" name="part" type="{}" version="opset{}">
<input>{}</input><output><port id="9" precision="FP32">{}</port></output></layer>"""


def layer(name, opset, shapes):
    def port(number, precision, shape):
        dims = "".join(f"<dim>{size}</dim>" for size in shape)
        return f'<port id="{number}" precision="{precision}">{dims}</port>'

    ports = [port(number, *each) for number, each in enumerate(shapes)]
    dims = "".join(f"<dim>{size}</dim>" for size in shapes[0][1])
    return LAYER.format(name, opset, "".join(ports), dims).encode()


def test_slice_scatter_runs_in_ir_with_and_without_axes():
    limits = [("I32", (1,))] * 3
    text = layer("SliceScatter", 15, [("FP32", (2, 3)), ("FP32", (1, 3)), *limits])
    inputs = {
        "data": np.zeros((2, 3), np.float32),
        "updates": np.ones((1, 3), np.float32),
        "start": np.array([1], np.int32),
        "stop": np.array([2], np.int32),
        "step": np.array([1], np.int32),
    }
    (result,) = openvino.run(text, inputs).values()
    assert result.tolist() == [[0, 0, 0], [1, 1, 1]]
    few = layer("SliceScatter", 15, [("FP32", (2, 3)), ("FP32", (1, 3)), *limits[:2]])
    with pytest.raises(errors.ModelError, match=r"ports = 4 input .*allowed: 5..6 input"):
        openvino.run(few, inputs)


def test_scatter_update_runs_in_ir():
    shapes = [("FP32", (2, 3)), ("I32", (1,)), ("FP32", (2, 1)), ("I32", ())]
    text = layer("ScatterUpdate", 3, shapes)
    data, updates = np.zeros((2, 3), np.float32), np.ones((2, 1), np.float32)
    inputs = {"data": data, "indices": np.array([1], np.int32), "updates": updates}
    (result,) = openvino.run(text, {**inputs, "axis": np.array(1, np.int32)}).values()
    assert result.tolist() == [[0, 1, 0], [0, 1, 0]]
