"""Saved models of any size can be loaded again, or saving raises an error."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ndgather.errors import FileError
from ndgather.models import onnx as onnx_models
from ndgather.models.onnx import files

pytestmark = pytest.mark.runtimes

TABLE = np.arange(40 * 128, dtype=np.float32).reshape(40, 128)
ROWS = np.array([[3], [-1]])


def table_model():
    """Return a model that gathers from one table and adds another table of the same shape."""
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["table", "more"], ["sum"]),
            helper.make_node("GatherND", ["sum", "rows"], ["out"], name="pick"),
        ],
        "g",
        [helper.make_tensor_value_info("rows", TensorProto.INT64, ["N", 1])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["N", 128])],
        [numpy_helper.from_array(TABLE, "table"), numpy_helper.from_array(-2 * TABLE, "more")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.fixture
def source(tmp_path):
    """Write the model with external tables."""
    path = tmp_path / "from" / "model.onnx"
    path.parent.mkdir()
    where = {"save_as_external_data": True, "location": "tables.bin", "size_threshold": 0}
    onnx.save(table_model(), path, **where)
    return path


def assert_runs(path):
    result = onnx_models.run(path, {"rows": ROWS})["out"]
    np.testing.assert_array_equal(result, -TABLE[[3, -1]], strict=True)


def names(folder):
    return sorted(each.name for each in folder.iterdir())


def test_conversions_know_the_folder_of_external_tensors(source, tmp_path):
    onnx_models.save(onnx_models.conversion(source, opset=11), tmp_path / "older.onnx")

    assert_runs(tmp_path / "older.onnx")
    assert names(tmp_path) == ["from", "older.onnx"]


def test_external_tensors_in_another_folder_require_folder(source, tmp_path):
    converted = onnx_models.convert(source, opset=11)

    with pytest.raises(FileError) as refusal:
        onnx_models.save(converted, tmp_path / "older.onnx")
    assert str(refusal.value).startswith(
        f"{tmp_path}/older.onnx: cannot be written: the external tensors of the model are not in "
        "the same folder: "
    )
    assert str(refusal.value).endswith("(allowed: folder=, the folder of the external tensors)")
    assert names(tmp_path) == ["from"]
    onnx_models.save(converted, tmp_path / "older.onnx", source.parent)
    assert_runs(tmp_path / "older.onnx")


def test_external_tensors_stay_in_place_in_the_same_folder(source):
    onnx_models.save(onnx_models.convert(source, opset=11), source.parent / "older.onnx")

    assert_runs(source.parent / "older.onnx")
    assert (source.parent / "older.onnx").stat().st_size < TABLE.nbytes
    assert names(source.parent) == ["model.onnx", "older.onnx", "tables.bin"]


@pytest.mark.parametrize("held", ["memory", "file"])
def test_tensors_of_large_models_are_written_to_a_separate_file(
    source, tmp_path, monkeypatch, held
):
    monkeypatch.setattr(files, "LARGEST_MODEL", TABLE.nbytes)
    model = table_model() if held == "memory" else source
    folder = tmp_path / "to"
    folder.mkdir()

    onnx_models.save(onnx_models.conversion(model, opset=11), folder / "large.onnx")

    assert names(folder) == ["large.onnx", "large.onnx.data"]
    assert_runs(folder / "large.onnx")
    onnx.checker.check_model(folder / "large.onnx")
    offsets = [
        int(next(each.value for each in tensor.external_data if each.key == "offset"))
        for tensor in onnx.load(folder / "large.onnx", load_external_data=False).graph.initializer
    ]
    assert offsets == [0, -(-TABLE.nbytes // 4096) * 4096]


def test_saving_does_not_modify_large_models(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LARGEST_MODEL", TABLE.nbytes)
    model = table_model()

    onnx_models.save(model, tmp_path / "large.onnx")

    assert model == table_model()


def test_models_too_large_without_tensors_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LARGEST_MODEL", 10)

    with pytest.raises(FileError, match="too large even without its tensors"):
        onnx_models.save(table_model(), tmp_path / "large.onnx")
    assert names(tmp_path) == []


def test_failed_writes_leave_no_files(source, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LARGEST_MODEL", TABLE.nbytes)
    if os.geteuid() == 0:
        (tmp_path / "large.onnx").mkdir()  # root can write to read-only folders
    else:
        tmp_path.chmod(0o500)

    with pytest.raises(FileError, match="cannot be written"):
        onnx_models.save(table_model(), tmp_path / "large.onnx")
    assert not Path(tmp_path / "large.onnx.data").exists()


def test_models_too_large_for_onnx_are_converted(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LARGEST_MODEL", TABLE.nbytes)
    monkeypatch.setattr(files, "LARGE", TABLE.nbytes)
    model = table_model()

    onnx_models.save(onnx_models.conversion(model, opset=11), tmp_path / "large.onnx")

    assert model == table_model()
    assert_runs(tmp_path / "large.onnx")
