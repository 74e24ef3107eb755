"""Output streams: full, closed, with a limited encoding, and terminals."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

INFER = "infer model.onnx -o out.onnx"
PYTHON = (sys.executable, "-m", "ndgather")
NAME = "o\nX\x1b[2Jé"


def run(line, **options):
    return subprocess.run(
        [*PYTHON, *line.split()], check=False, stderr=subprocess.PIPE, text=True, **options
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("line", [INFER, "check model.onnx"])
def test_a_full_device_is_a_one_line_error(folder, line):
    with Path("/dev/full").open("w") as full:
        done = run(line, stdout=full)

    assert done.returncode == 1
    assert done.stderr.endswith("no space left on device\n")
    assert len(done.stderr.splitlines()) == 1
    if line == INFER:
        assert (folder / "out.onnx").exists()


@pytest.mark.parametrize("line", [INFER, "--help"])
def test_a_broken_pipe_has_no_traceback(folder, line):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = run(line, stdout=writing)
    finally:
        os.close(writing)

    assert done.stderr == ""
    # argparse ignores errors when it prints help, unless text is left in a buffer.
    assert done.returncode in ({0, 1} if line == "--help" else {1})


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX")
def test_closed_standard_output_is_not_an_error(folder):
    command = " ".join(map(str, (*PYTHON, INFER)))
    done = subprocess.run(
        ["/bin/sh", "-c", f"{command} >&-"], check=False, stderr=subprocess.PIPE, text=True
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "out.onnx").exists()


@pytest.fixture
def strange(folder):
    """A model with names that break lines, clear the screen and contain non-ASCII characters."""
    graph = helper.make_graph(
        [helper.make_node("GatherND", ["data", "at"], [NAME], name=NAME, batch_dims=1)],
        "g",
        [
            helper.make_tensor_value_info("data", TensorProto.INT16, [3, 4]),
            helper.make_tensor_value_info("at", TensorProto.INT64, [3, 1]),
        ],
        [helper.make_tensor_value_info(NAME, TensorProto.INT16, [3])],
    )
    opsets = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "strange.onnx")
    np.save("at.npy", np.array([[0], [1], [3]]))
    np.save("far.npy", np.array([[0], [1], [4]]))
    return folder


GOOD = "run strange.onnx --input data=data.npy --input at="


def test_names_cannot_control_the_terminal(strange, ndgather):
    done = ndgather(f"{GOOD}at.npy")
    assert done.status == 0
    assert done.out.splitlines()[1].startswith("o\\nX\\x1b[2Jé  (3,)")

    refused = ndgather(f"{GOOD}far.npy")
    assert refused.status == 1
    assert refused.err.startswith("ndgather run: error: node 'o\\nX\\x1b[2Jé' (GatherND): ")
    assert len(refused.err.splitlines()) == 1

    found = ndgather("check strange.onnx")
    assert "\x1b" not in found.out
    assert "o\\nX\\x1b[2Jé" in found.out


def test_unencodable_characters_are_escaped(strange):
    done = run(
        f"{GOOD}at.npy", stdout=subprocess.PIPE, env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "o\\nX\\x1b[2J\\xe9  (3,)" in done.stdout
