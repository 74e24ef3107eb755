"""Progress bars appear only on terminals, and only for long runs."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest
import xarray as xr
from onnx import helper

SLOW = """
import time

class Session:
    def run(self, names, inputs):
        time.sleep({seconds})
        return [inputs["data"][..., 0]] * len(names)

def session(source, options):
    return Session()
"""
RUN = "run model.onnx --input data=data.npy --input indices=indices.npy --accept-runtime --runtime"


@pytest.fixture
def slow(folder):
    """Runtimes that take two seconds and no time."""
    (folder / "odd").mkdir()
    (folder / "odd" / "__init__.py").touch()
    (folder / "odd" / "slow.py").write_text(SLOW.format(seconds=2))
    (folder / "odd" / "fast.py").write_text(SLOW.format(seconds=0))
    return folder


def on_terminal(folder, line):
    """Run a command line on a terminal and return the text on standard error."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    words = [sys.executable, "-m", "ndgather", *line.split()]
    environment = {**os.environ, "PYTHONPATH": str(folder), "TERM": "xterm"}
    with subprocess.Popen(
        words, stdin=its, stdout=subprocess.DEVNULL, stderr=its, env=environment
    ) as process:
        os.close(its)
        seen = b""
        try:
            while part := os.read(ours, 4096):
                seen += part
        except OSError:  # the other end has been closed
            pass
        assert process.wait(60) == 0
    os.close(ours)
    return seen.decode()


def test_a_long_run_shows_its_time_unless_quiet(slow):
    line = f"{RUN} odd.slow"
    with ThreadPoolExecutor() as pool:  # they mostly sleep
        seen, quiet = pool.map(lambda each: on_terminal(slow, each), (line, f"{line} --quiet"))
    assert re.search(r"model\.onnx: 00:0\d", seen)
    assert seen.replace("\r", "\n").splitlines()[-1].strip() == ""
    assert quiet == ""


def test_a_short_run_has_no_bar(slow):
    assert "model.onnx: 00" not in on_terminal(slow, f"{RUN} odd.fast")


def test_chunks_have_a_bar(folder):
    axes = {"x": np.arange(8.0), "y": np.arange(8.0)}
    grid = xr.Dataset({"a": (("x", "y"), np.arange(64).reshape(8, 8))}, axes)
    grid.chunk({"x": 4, "y": 4}).to_zarr("s.zarr", consolidated=False)
    (folder / "points.csv").write_text("x,y\n0,1\n7,7\n")
    line = "sel s.zarr points.csv -o out.csv"
    seen = on_terminal(folder, line)
    assert "chunk/s]" in seen
    assert re.search(r"points\.csv: .*row", seen)
    assert re.search(r"out\.csv: .*2\.00/2\.00|out\.csv: +0%", seen)
    assert on_terminal(folder, f"{line} --quiet") == ""


def test_a_long_check_shows_its_time(folder):
    nodes = [helper.make_node("Identity", [f"v{i}"], [f"v{i + 1}"]) for i in range(60_000)]
    ends = [helper.make_tensor_value_info(name, 1, [2]) for name in ("v0", f"v{len(nodes)}")]
    graph = helper.make_graph(nodes, "long", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "long.onnx")
    assert re.search(r"long\.onnx: 00:0\d", on_terminal(folder, "check long.onnx"))
