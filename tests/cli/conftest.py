"""A folder with small arrays and one model, and the command run in it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ndgather.cli import main

DATA = np.arange(100, 112, dtype=np.int16).reshape(3, 4)
INDICES = np.array([[0, 1], [2, -1], [1, 0]])
PICKED = np.array([101, 111, 104], np.int16)  # DATA at INDICES, by hand


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of DATA, INDICES and a model, in what is then the working directory."""
    monkeypatch.chdir(tmp_path)
    np.save("data.npy", DATA)
    np.save("indices.npy", INDICES)
    np.save("bad.npy", np.array([[0, 1], [2, 9], [7, 0]]))
    graph = helper.make_graph(
        [
            helper.make_node("GatherND", ["data", "indices"], ["picked"], name="pick"),
            helper.make_node("Add", ["picked", "one"], ["more"], name="add"),
        ],
        "two outputs",
        [
            helper.make_tensor_value_info("data", TensorProto.INT16, ["H", 4]),
            helper.make_tensor_value_info("indices", TensorProto.INT64, ["N", 2]),
        ],
        [
            helper.make_tensor_value_info("picked", TensorProto.INT16, ["N"]),
            helper.make_tensor_value_info("more", TensorProto.INT16, ["N"]),
        ],
        [helper.make_tensor("one", TensorProto.INT16, [], [1])],
    )
    opsets = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "model.onnx")
    return tmp_path


@pytest.fixture
def ndgather(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run a command line, given as words, in the folder."""

    def run(line: str) -> Outcome:
        try:
            status = main(line.split())
        except SystemExit as end:
            status = end.code
        return Outcome(status, *capsys.readouterr())

    return run
