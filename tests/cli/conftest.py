"""Fixtures: a folder with small arrays and a model, and a function that runs commands in it."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

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
    onnx = pytest.importorskip("onnx")
    helper, int16 = onnx.helper, onnx.TensorProto.INT16
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
            helper.make_tensor_value_info("data", int16, ["H", 4]),
            helper.make_tensor_value_info("indices", onnx.TensorProto.INT64, ["N", 2]),
        ],
        [
            helper.make_tensor_value_info("picked", int16, ["N"]),
            helper.make_tensor_value_info("more", int16, ["N"]),
        ],
        [helper.make_tensor("one", int16, [], [1])],
    )
    opsets = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "model.onnx")
    return tmp_path


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def served(folder: Path) -> Iterator[str]:
    """URL of the folder over HTTP."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def ndgather(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run a command line, given as words, in the folder."""

    def run(line: str | list[str]) -> Outcome:
        try:
            status = main(line.split() if isinstance(line, str) else line)
        except SystemExit as end:
            status = end.code
        return Outcome(status, *capsys.readouterr())

    return run
