"""Model files whose large tensors stay where they are: the same model, in less memory."""

import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from ndgather.errors import NdgatherError
from ndgather.models import onnx as onnx_models
from ndgather.models.onnx import mapped_models
from ndgather.models.onnx.external_tensors import external_tensors, mapped

RNG = np.random.default_rng(7)
TENSORS = {
    "table": RNG.random((300, 64), np.float32),
    "halves": RNG.random((300, 150)).astype(np.float16),
    "weights": RNG.random((64, 8), np.float32),
    "shape": np.array([-1, 8]),
    "names": np.array(["a", "b"], object),
}


@pytest.fixture
def path(tmp_path):
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("MatMul", ["rows", "weights"], ["products"]),
        helper.make_node("Reshape", ["products", "shape"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["N"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 8])],
        [numpy_helper.from_array(array, name) for name, array in TENSORS.items()],
    )
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def whole(proto, folder):
    """Return a model with all its tensors in it, as onnx puts them there."""
    onnx.load_external_data_for_model(proto, str(folder))
    return proto


def test_it_is_the_model_of_the_file(path):
    found, folder = mapped_models.opened_in_place(path, "run")
    outside = {tensor.name: mapped(tensor, folder) for tensor in external_tensors(found)}
    assert set(outside) == {"table", "halves"}
    for name, array in outside.items():
        np.testing.assert_array_equal(array, TENSORS[name], strict=True)
    expected = onnx.load(path)
    for tensor in whole(found, folder).graph.initializer:
        del tensor.external_data[:]
        tensor.ClearField("data_location")
    assert found == expected


def test_it_runs_as_the_model_of_the_file(path):
    pytest.importorskip("onnxruntime")
    feeds = {"ids": np.array([0, 299, -1])}
    loaded = [
        onnx_models.load(path, runtime="onnxruntime", in_place=in_place).run(feeds)
        for in_place in (False, True)
    ]
    one, other = ([each.array for each in run.outputs] for run in loaded)
    np.testing.assert_array_equal(one[0], other[0], strict=True)
    assert [run.own_nodes for run in loaded] == [1, 1]
    reference = onnx_models.run(path, feeds, runtime="reference")["y"]
    np.testing.assert_allclose(one[0], reference, rtol=1e-5)


def test_a_bad_index_is_told_as_ever(path):
    pytest.importorskip("onnxruntime")
    with pytest.raises(NdgatherError, match=r"indices\[0\] = 300 is outside axis 0 of data"):
        onnx_models.run(path, {"ids": np.array([300])}, runtime="onnxruntime")


def test_a_file_of_two_names_is_read_whole(path):
    os.link(path, path.with_name("other.onnx"))
    found, _ = mapped_models.opened_in_place(path, "run")
    assert not list(external_tensors(found))
    assert found == onnx.load(path)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damage_is_read_as_onnx_reads_it(tmp_path_factory, data):
    """Whatever the bytes are, it is a model that onnx reads from them too, or a refusal."""
    tensor = numpy_helper.from_array(np.zeros((300, 64), np.float32), "t")
    graph = helper.make_graph([helper.make_node("Neg", ["t"], ["y"])], "g", [], [], [tensor])
    content = bytearray(helper.make_model(graph).SerializeToString())
    ends = st.integers(0, 60) | st.integers(len(content) - 60, len(content) - 1)
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(ends)] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "m.onnx"
    path.write_bytes(content)
    try:
        found, folder = mapped_models.opened_in_place(path, "run")
    except NdgatherError:
        return
    expected = onnx.ModelProto.FromString(bytes(content))
    large = [each for each in external_tensors(found) if each.external_data[0].value == "m.onnx"]
    for each in large:
        where = {entry.key: entry.value for entry in each.external_data}
        start = int(where["offset"])
        each.raw_data = bytes(content[start : start + int(where["length"])])
        del each.external_data[:]
        each.ClearField("data_location")
    assert folder == str(path.parent)
    if large:
        for each in expected.graph.initializer:
            if len(each.raw_data) >= mapped_models.LARGE:
                del each.external_data[:]
                each.ClearField("data_location")
    assert found.SerializeToString(deterministic=True) == expected.SerializeToString(
        deterministic=True
    )


PEAK = """
import resource, sys
from ndgather.models import onnx
import onnxruntime, numpy as np
path = sys.argv[1]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
onnx.load(path, runtime="onnxruntime", in_place=True).run({"ids": np.array([1])})
assert "onnx.reference" not in sys.modules  # 20 MB that a runtime does without
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the unit is that of Linux")
def test_large_tensors_take_no_memory_twice(path):
    pytest.importorskip("onnxruntime")
    model = onnx.load(path)
    size = 64 << 20
    table = np.zeros((size // 256, 64), np.float32)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(table, "table"))
    onnx.save(model, path)
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(path)], check=True, capture_output=True, text=True
    )
    assert int(done.stdout) * 1024 < 1.5 * size
