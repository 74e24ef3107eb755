"""Files of published vulnerabilities in readers of models and tensors.

The names are those in test_advisories.py, and docs/security.md lists them.
"""

import sys
from contextlib import suppress

import numpy as np
import pytest

pytest.importorskip("defusedxml")
pytest.importorskip("onnx")

import onnx
from onnx import TensorProto, helper

from ndgather import cli
from ndgather.errors import NdgatherError
from ndgather.models import onnx as onnx_models
from ndgather.models import openvino, tensor_files

pytestmark = pytest.mark.runtimes

SECRET = np.array([1234.5, -6789.25, 0.0625], np.float32)


def gather_model(inputs=("data", "indices"), **external):
    """A GatherND whose data is an external tensor."""
    data = TensorProto(
        name="data",
        data_type=TensorProto.FLOAT,
        dims=SECRET.shape,
        data_location=TensorProto.EXTERNAL,
    )
    for key, value in external.items():
        entry = data.external_data.add()
        entry.key, entry.value = key, str(value)
    graph = helper.make_graph(
        [helper.make_node("GatherND", inputs, ["out"])],
        "g",
        [helper.make_tensor_value_info("indices", TensorProto.INT64, ["n", 1])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n"])],
        [data],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.fixture
def folder(tmp_path):
    """A model folder next to a file that the model must not read."""
    (tmp_path / "secret").write_bytes(SECRET.tobytes())
    (tmp_path / "models" / "sub").mkdir(parents=True)
    return tmp_path / "models"


def by_dots(folder):
    return "../secret"


def by_its_full_name(folder):
    return str(folder.parent / "secret")


def by_dots_further_on(folder):
    return "sub/../../secret"


def by_a_link(folder):
    (folder / "weights").symlink_to(folder.parent / "secret")
    return "weights"


def by_a_linked_folder(folder):
    (folder / "sub" / "weights").symlink_to(folder.parent, target_is_directory=True)
    return "sub/weights/secret"


def by_a_second_name(folder):
    (folder / "weights").hardlink_to(folder.parent / "secret")
    return "weights"


OUTSIDE = [
    pytest.param(by_dots, id="CVE-2022-25882"),
    pytest.param(by_its_full_name, id="CVE-2022-25882-2"),
    pytest.param(by_dots_further_on, id="CVE-2024-27318"),
    pytest.param(by_a_link, id="CVE-2026-34447"),
    pytest.param(by_a_linked_folder, id="CVE-2026-27489"),
    pytest.param(by_a_second_name, id="CVE-2026-34446"),
]


def onnx_version():
    return tuple(int(part) for part in onnx.__version__.split(".")[:2])


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
@pytest.mark.parametrize("location", OUTSIDE)
def test_external_tensors_outside_the_model_folder_are_not_read(folder, location, capsys):
    if location is by_a_second_name and onnx_version() < (1, 21):
        pytest.skip("this version of onnx reads files of several names")
    path = folder / "model.onnx"
    path.write_bytes(gather_model(location=location(folder)).SerializeToString())
    np.save(folder / "i.npy", [[0], [1], [2]])
    with pytest.raises(NdgatherError):
        onnx_models.run(path, {"indices": np.array([[0], [1], [2]])})
    for command in (
        f"run {path} --input indices={folder}/i.npy",
        f"run {path} --input indices={folder}/i.npy --output-dir {folder}/out",
        f"check {path}",
        f"convert {path} --opset 11 -o {folder.parent}/other.onnx",
        f"convert {path} -o {folder.parent}/other.xml",
    ):
        assert cli.main(command.split()) != 0, command
    said = capsys.readouterr()
    assert "1234.5" not in said.out + said.err
    written = {each for each in folder.parent.rglob("*") if each.is_file()}
    kept = {each for each in written if SECRET.tobytes()[:8] in each.read_bytes()}
    assert all(each.samefile(folder.parent / "secret") for each in kept)


@pytest.mark.parametrize("identifier", ["CVE-2025-51480", "GHSA-q56x-g2fj-4rj6"])
@pytest.mark.parametrize("place", ["../victim", "sub/../../victim", "victim"])
def test_models_cannot_choose_where_files_are_written(folder, identifier, place):
    victim = (folder / place).resolve()
    victim.write_bytes(b"what was there")
    model = gather_model(location=place)
    model.graph.initializer[0].raw_data = SECRET.tobytes()
    with suppress(NdgatherError):  # a location outside the folder may be refused
        onnx_models.save(model, folder / "model.onnx")
    with suppress(NdgatherError):
        onnx_models.save(onnx_models.convert(model, opset=11), folder / "older.onnx")
    assert victim.read_bytes() == b"what was there"
    files = {each for each in folder.parent.rglob("*") if each.is_file()} - {victim}
    assert files <= {folder / "model.onnx", folder / "older.onnx", folder.parent / "secret"}


@pytest.mark.parametrize("identifier", ["CVE-2022-25882"])
@pytest.mark.parametrize(
    "entries",
    [
        {"offset": 2**63 - 4},
        {"offset": 2**64},
        {"offset": -4},
        {"length": 2**62},
        {"length": -1},
        {"offset": 8, "length": 12},
    ],
    ids=str,
)
def test_tensor_offsets_must_lie_within_their_file(folder, identifier, entries):
    (folder / "weights").write_bytes(SECRET.tobytes())
    path = folder / "model.onnx"
    path.write_bytes(gather_model(location="weights", **entries).SerializeToString())
    with pytest.raises(NdgatherError):
        onnx_models.run(path, {"indices": np.array([[0]])})


@pytest.mark.parametrize("identifier", ["CVE-2020-15211"])
@pytest.mark.parametrize("inputs", [("data", ""), ("", "indices"), ("data",), ("data", "nothing")])
def test_missing_node_inputs_raise_errors(folder, identifier, inputs):
    (folder / "weights").write_bytes(SECRET.tobytes())
    path = folder / "model.onnx"
    path.write_bytes(gather_model(inputs, location="weights").SerializeToString())
    with pytest.raises(NdgatherError):
        onnx_models.run(path, {"indices": np.array([[0]])})


IR = """<net name="n" version="11"><layers>
<layer id="0" name="data" type="Parameter" version="opset1"><data shape="3" element_type="f32"/>
<output><port id="0" precision="FP32"><dim>3</dim></port></output></layer>
<layer id="1" name="at" type="Parameter" version="opset1"><data shape="2,1" element_type="i64"/>
<output><port id="0" precision="I64"><dim>2</dim><dim>1</dim></port></output></layer>
<layer id="2" name="pick" type="GatherND" version="opset8"><data batch_dims="0"/>
<input><port id="0"><dim>3</dim></port><port id="1"><dim>2</dim><dim>1</dim></port></input>
<output><port id="2" precision="FP32"><dim>2</dim></port></output></layer>
<layer id="3" name="out" type="Result" version="opset1"><input><port id="0"><dim>2</dim></port>
</input></layer></layers><edges>
<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
<edge from-layer="{layer}" from-port="{port}" to-layer="2" to-port="{to}"/>
<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/></edges></net>"""


@pytest.mark.parametrize("identifier", ["CVE-2020-15211"])
@pytest.mark.parametrize(
    ("layer", "port", "to"),
    [
        ("-1", "0", "1"),
        ("1", "-1", "1"),
        ("1", "0", "-1"),
        ("99", "0", "1"),
        ("1", "7", "1"),
        ("1", "0", "4294967297"),
        ("18446744073709551615", "0", "1"),
        ("2", "2", "1"),
    ],
)
def test_edges_to_missing_layers_raise_errors(folder, identifier, layer, port, to):
    path = folder / "model.xml"
    inputs = {"data": SECRET, "at": np.array([[2], [0]])}
    path.write_text(IR.format(layer="1", port="0", to="1"))
    np.testing.assert_array_equal(openvino.run(path, inputs)["out"], SECRET[[2, 0]], strict=True)
    path.write_text(IR.format(layer=layer, port=port, to=to))
    with pytest.raises(NdgatherError):
        openvino.run(path, inputs)


@pytest.mark.parametrize("identifier", ["openvino-duplicate-layer"])
def test_duplicate_layer_ids_raise_errors(folder, identifier):
    path = folder / "model.xml"
    second = '<layer id="0" name="other" type="Parameter" version="opset1"/></layers>'
    text = IR.format(layer="1", port="0", to="1")
    path.write_text(text.replace("</layers>", second))
    with pytest.raises(NdgatherError):
        openvino.run(path, {"data": SECRET, "at": np.array([[2], [0]])})


@pytest.mark.parametrize("identifier", ["openvino-large-dims"])
@pytest.mark.parametrize("size", ["1000000000000", "9223372036854775807", "9223372036854775808"])
def test_declared_sizes_do_not_allocate_memory(folder, identifier, size):
    path = folder / "model.xml"
    text = IR.format(layer="1", port="0", to="1")
    path.write_text(text.replace('shape="3"', f'shape="{size},{size}"'))
    with pytest.raises(NdgatherError):
        openvino.run(path, {"data": SECRET, "at": np.array([[2], [0]])})


@pytest.mark.parametrize("identifier", ["CVE-2019-6446"])
def test_pickles_are_never_loaded(tmp_path, identifier):
    class Opens:
        def __reduce__(self):
            return open, (str(tmp_path / "ran"), "w")

    np.save(tmp_path / "a.npy", np.array([Opens()], object), allow_pickle=True)
    np.savez(tmp_path / "b.npz", a=np.array([Opens()], object))
    with pytest.raises(NdgatherError):
        tensor_files.read(tmp_path / "a.npy")
    with pytest.raises(NdgatherError):
        tensor_files.read_archive(tmp_path / "b.npz")
    assert not (tmp_path / "ran").exists()
