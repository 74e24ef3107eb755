"""A run in a runtime that ends its process: the command says so, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no such children")

RUNTIME = """
import os, signal, time
from pathlib import Path

def version():
    return "1"

class Session:
    def run(self, names, inputs):
        Path("runs").write_text(str(os.getpid()))
        {what}

def session(source, options):
    return Session()
"""


@pytest.fixture
def command(folder):
    """Start the command with a runtime that does `what` in a run."""
    (folder / "odd").mkdir()
    (folder / "odd" / "__init__.py").touch()

    def start(what):
        (folder / "odd" / "runtime.py").write_text(RUNTIME.format(what=what))
        line = "run model.onnx --input data=data.npy --input indices=indices.npy -v"
        return subprocess.Popen(
            [sys.executable, "-m", "ndgather", *line.split(), "--runtime", "odd.runtime"],
            env={**os.environ, "PYTHONPATH": str(folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


@pytest.mark.parametrize(
    ("what", "how"),
    [("os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"), ("os.abort()", "SIGABRT")],
)
def test_a_crash_is_an_error_of_one_line(command, what, how):
    with command(what) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert err.splitlines()[-1] == (
        f"ndgather run: error: model.onnx: odd.runtime ended the process that ran it ({how})"
    )


def test_an_exit_status_is_passed_on(command):
    with command("os._exit(7)") as process:
        assert process.wait(60) == 7


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGINT, 130)]
)
def test_a_signal_ends_both(command, folder, number, status):
    with command("time.sleep(60)") as process:
        runner = _started(folder)
        process.send_signal(number)
        assert process.wait(60) == status
    _gone(runner)


def test_the_child_ends_with_its_parent(command, folder):
    with command("time.sleep(60)") as process:
        runner = _started(folder)
        process.kill()
        process.wait(60)
        _gone(runner)


def _started(folder):
    end = time.monotonic() + 60
    while not ((folder / "runs").exists() and (folder / "runs").read_text()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return int((folder / "runs").read_text())


def _gone(process):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    raise AssertionError("it goes on")
