"""Memory-mapped model files: the same model with less memory."""

import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from ndgather.errors import FileError, NdgatherError
from ndgather.models import onnx as onnx_models
from ndgather.models.onnx import files
from ndgather.models.onnx.files import all_tensors, external_tensors, map_tensor

pytestmark = pytest.mark.runtimes

RNG = np.random.default_rng(7)
TENSORS = {
    "table": RNG.random((300, 64), np.float32),
    "halves": RNG.random((300, 150)).astype(np.float16),
    "wide": RNG.random((300, 80), np.float32),
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


@pytest.fixture
def in_nodes(tmp_path):
    """A model with large Constant nodes in the graph and in both branches of an If."""

    def constant(name):
        tensor = numpy_helper.from_array(TENSORS[name], name)
        return helper.make_node("Constant", [], [f"{name} here"], value=tensor)

    def branch(name, table):
        nodes = [constant(table), helper.make_node("Gather", [f"{table} here", "ids"], [name])]
        out = helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", None])
        return helper.make_graph(nodes, name, [], [out])

    branches = {"then_branch": branch("p", "table"), "else_branch": branch("q", "wide")}
    nodes = [
        constant("halves"),
        helper.make_node("Gather", ["halves here", "ids"], ["x"]),
        helper.make_node("If", ["first"], ["y"], **branches),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("ids", TensorProto.INT64, ["N"]),
            helper.make_tensor_value_info("first", TensorProto.BOOL, []),
        ],
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT16, ["N", 150]),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", None]),
        ],
    )
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "n.onnx")
    return tmp_path / "n.onnx"


def whole(proto, folder):
    """Return a model that contains all tensors, as loaded by onnx."""
    onnx.load_external_data_for_model(proto, str(folder))
    return proto


def test_mapped_models_equal_loaded_models(path):
    found, folder = files.map_model(path, "run")
    outside = {tensor.name: map_tensor(tensor, folder) for tensor in external_tensors(found)}
    assert set(outside) == {"table", "halves", "wide"}
    for name, array in outside.items():
        np.testing.assert_array_equal(array, TENSORS[name], strict=True)
    expected = onnx.load(path)
    for tensor in whole(found, folder).graph.initializer:
        del tensor.external_data[:]
        tensor.ClearField("data_location")
    assert found == expected


def test_large_constants_of_nodes_are_mapped(in_nodes):
    found, folder = files.map_model(in_nodes, "run")
    tensors = list(external_tensors(found))
    outside = {tensor.name: map_tensor(tensor, folder) for tensor in tensors}
    assert set(outside) == {"table", "halves", "wide"}
    for name, array in outside.items():
        np.testing.assert_array_equal(array, TENSORS[name], strict=True)
    assert len(found.SerializeToString()) < 2000
    whole(found, folder)
    for tensor in tensors:
        del tensor.external_data[:]
        tensor.ClearField("data_location")
    assert found == onnx.load(in_nodes)


@pytest.mark.parametrize("first", [True, False])
def test_mapped_models_with_large_constants_run(in_nodes, first):
    pytest.importorskip("onnxruntime")
    feeds = {"ids": np.array([0, 299, -1]), "first": np.array(first)}
    run = onnx_models.load(in_nodes, runtime="onnxruntime", in_place=True).run(feeds)
    x, y = (each.array for each in run.outputs)
    np.testing.assert_array_equal(x, TENSORS["halves"][feeds["ids"]], strict=True)
    table = TENSORS["table" if first else "wide"]
    np.testing.assert_array_equal(y, table[feeds["ids"]], strict=True)
    assert (run.gather_nodes, run.left) == (2, ())
    with pytest.raises(NdgatherError, match=r"indices\[0\] = 300 is outside axis 0 of data"):
        onnx_models.run(in_nodes, {**feeds, "ids": np.array([300])}, runtime="onnxruntime")


def test_tensors_in_two_parts_are_not_mapped(path):
    """Protobuf merges the parts of a message. Here the second part contains the values."""
    table = numpy_helper.from_array(TENSORS["table"], "table")
    second = numpy_helper.from_array(TENSORS["table"][::-1], "table")
    node = helper.make_node("Constant", [], ["rows"], value=table)
    parts = [node.attribute[0], onnx.AttributeProto(t=TensorProto(raw_data=second.raw_data))]
    merged = onnx.NodeProto(op_type="Constant", output=["rows"])
    text = merged.SerializeToString() + _field(5, b"".join(p.SerializeToString() for p in parts))
    graph = helper.make_graph([], "g", [], [helper.make_tensor_value_info("rows", 1, [300, 64])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    path.write_bytes(model.SerializeToString() + _field(7, _field(1, text)))
    found, _ = files.map_model(path, "run")
    assert not list(external_tensors(found))
    assert found == onnx.load(path)
    assert found.graph.node[0].attribute[0].t.raw_data == second.raw_data


def _field(number, content):
    """Serialize a field that contains a message."""
    length, size = [], len(content)
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    return bytes([number << 3 | 2, *length, size]) + content


def test_mapped_models_run_like_loaded_models(path):
    pytest.importorskip("onnxruntime")
    feeds = {"ids": np.array([0, 299, -1])}
    loaded = [
        onnx_models.load(path, runtime="onnxruntime", in_place=in_place).run(feeds)
        for in_place in (False, True)
    ]
    one, other = ([each.array for each in run.outputs] for run in loaded)
    np.testing.assert_array_equal(one[0], other[0], strict=True)
    assert [run.gather_nodes for run in loaded] == [1, 1]
    reference = onnx_models.run(path, feeds, runtime="reference")["y"]
    np.testing.assert_allclose(one[0], reference, rtol=1e-5)


def test_out_of_bounds_indices_in_mapped_models_raise_the_same_error(path):
    pytest.importorskip("onnxruntime")
    with pytest.raises(NdgatherError, match=r"indices\[0\] = 300 is outside axis 0 of data"):
        onnx_models.run(path, {"ids": np.array([300])}, runtime="onnxruntime")


def test_hard_linked_files_are_not_mapped(path):
    os.link(path, path.with_name("other.onnx"))
    found, _ = files.map_model(path, "run")
    assert not list(external_tensors(found))
    assert found == onnx.load(path)


@settings(max_examples=min(60, settings.default.max_examples), deadline=None)
@given(st.data())
def test_damaged_files_are_parsed_like_onnx_or_refused(tmp_path_factory, data):
    """Damaged bytes give the model that onnx parses or an error."""
    tensor = numpy_helper.from_array(np.zeros((300, 64), np.float32), "t")
    nodes = [
        helper.make_node("Neg", ["t"], ["y"]),
        helper.make_node("Constant", [], ["c"], value=tensor),
    ]
    graph = helper.make_graph(nodes, "g", [], [], [tensor])
    content = bytearray(helper.make_model(graph).SerializeToString())
    ends = st.integers(0, 60) | st.integers(len(content) - 60, len(content) - 1)
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(ends)] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "m.onnx"
    path.write_bytes(content)
    try:
        found, folder = files.map_model(path, "run")
    except NdgatherError:
        return
    expected = onnx.ModelProto.FromString(bytes(content))
    large = [
        each
        for each in external_tensors(found)
        if each.external_data and each.external_data[0].value == "m.onnx"
    ]
    for each in large:
        where = {entry.key: entry.value for entry in each.external_data}
        start = int(where["offset"])
        each.raw_data = bytes(content[start : start + int(where["length"])])
        del each.external_data[:]
        each.ClearField("data_location")
    assert folder == str(path.parent)
    if large:
        for each in all_tensors(expected):
            if len(each.raw_data) >= files.LARGE_ENOUGH_TO_MAP:
                del each.external_data[:]
                each.ClearField("data_location")
    assert found.SerializeToString(deterministic=True) == expected.SerializeToString(
        deterministic=True
    )


PEAK = """
import sys
from pathlib import Path
from ndgather.models import onnx
import onnxruntime, numpy as np
def peak():  # ru_maxrss would include the peak of the parent process
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])
path = sys.argv[1]
before = peak()
onnx.load(path, runtime="onnxruntime", in_place=True).run({"ids": np.array([1])})
unused = "onnx.reference", "hmac", "numpy.ma", "ndgather.models.onnx.converter"
assert not {*unused} & {*sys.modules}  # 20, 4, 1 and 1 MB that a run does not need
print(peak() - before)
"""


@pytest.mark.plain
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the file is that of Linux")
@pytest.mark.parametrize("in_node", [False, True])
def test_large_tensors_are_not_copied(path, in_node):
    pytest.importorskip("onnxruntime")
    model = onnx.load(path)
    size = 64 << 20
    table = numpy_helper.from_array(np.zeros((size // 256, 64), np.float32), "table")
    model.graph.initializer[0].CopyFrom(table)
    if in_node:
        del model.graph.initializer[0]
        model.graph.node.insert(0, helper.make_node("Constant", [], ["table"], value=table))
    onnx.save(model, path)
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(path)], check=True, capture_output=True, text=True
    )
    assert int(done.stdout) * 1024 < 1.5 * size


CHECKED = PEAK.replace("import onnxruntime, numpy as np\n", "import ndgather.models.onnx.checks\n")
CHECKED = CHECKED[: CHECKED.index("onnx.load(")] + "{}\nprint(peak() - before)\n"
INFER = "from ndgather.models.onnx.inference import infer_mapped; infer_mapped(path)"


@pytest.mark.plain
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the file is that of Linux")
@pytest.mark.parametrize(
    ("work", "most"), [("onnx.check(path)", 0.6), (INFER, 0.6), ("onnx.infer(path)", 1.7)]
)
def test_check_and_infer_do_not_read_large_tensors(path, work, most):
    size = 64 << 20
    model = onnx.load(path)
    del model.graph.initializer[0]
    # One tensor at a time may be copied, and Linux may map 2 MB around each byte that is read.
    for number in range(8):
        table = np.zeros((size // 8 // 256, 64), np.float32)
        name = f"table{number or ''}"
        model.graph.initializer.append(numpy_helper.from_array(table, name))
    onnx.save(model, path)
    code = CHECKED.replace("{}", work)
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True
    )
    assert int(done.stdout) * 1024 < most * size


def in_a_cache(folder, data="blobs/def", model="blobs/abc"):
    """Write a model and its data like huggingface_hub caches and return the link to the model."""
    weights = np.arange(4000, dtype=np.float32).reshape(1000, 4)
    proto = helper.make_model(
        helper.make_graph(
            [helper.make_node("Gather", ["w", "i"], ["y"])],
            "g",
            [helper.make_tensor_value_info("i", TensorProto.INT64, ["N"])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])],
            [numpy_helper.from_array(weights, "w")],
        ),
        ir_version=8,
        opset_imports=[helper.make_opsetid("", 17)],
    )
    snapshot = folder / "snapshots" / "rev" / "onnx"
    snapshot.mkdir(parents=True)
    onnx.save(
        proto, folder / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0
    )
    for source, target, name in (("m.onnx", model, "m.onnx"), ("m.data", data, "m.data")):
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
        (folder / source).rename(folder / target)
        (snapshot / name).symlink_to(folder / target)
    return snapshot / "m.onnx"


ROW = np.array([[4, 5, 6, 7]], np.float32)


def test_external_data_behind_cache_links_is_found(tmp_path):
    path = in_a_cache(tmp_path / "hub")
    assert not onnx_models.check(path)
    assert onnx_models.infer(path).graph.output[0].name == "y"
    for runtime in ("reference", *(["onnxruntime"] if find_spec("onnxruntime") else [])):
        found = onnx_models.run(path, {"i": np.array([1])}, runtime=runtime)["y"]
        np.testing.assert_array_equal(found, ROW)
    conversion = onnx_models.conversion(path, opset=13)
    onnx_models.save(conversion, tmp_path / "out.onnx")
    found = onnx_models.run(tmp_path / "out.onnx", {"i": np.array([1])})["y"]
    np.testing.assert_array_equal(found, ROW)
    assert path.is_symlink()


@pytest.mark.parametrize("model", ["blobs/abc", "snapshots/rev/onnx/real.onnx"])
def test_links_out_of_both_folders_are_refused(tmp_path, model):
    path = in_a_cache(tmp_path / "hub", data="secret/def", model=model)
    for work in (onnx_models.check, onnx_models.infer):
        with pytest.raises(FileError, match=r"location = 'm.data' is a link to '.*/secret/def'"):
            work(path)
