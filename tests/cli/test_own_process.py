"""Runtimes that crash or hang: the command reports it and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no such children")

LIMIT_S = 20  # one second on an idle machine; at least a minute if the signal has no effect

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
    """Start the command with a runtime that executes `what` in a run."""
    (folder / "odd").mkdir()
    (folder / "odd" / "__init__.py").touch()

    def start(what, *options):
        (folder / "odd" / "runtime.py").write_text(RUNTIME.format(what=what))
        line = "run model.onnx --input data=data.npy --input indices=indices.npy -v"
        path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
        return _started_command(*line.split(), "--runtime", "odd.runtime", *options, path=path)

    return start


@pytest.mark.parametrize(
    ("what", "how"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("os._exit(0)", "exit status 0"),
    ],
)
def test_a_crash_is_a_one_line_error(command, what, how):
    with command(what) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert err.splitlines()[-1] == (
        f"ndgather run: error: model.onnx: the process that ran it has ended: {how}"
    )


def test_runtime_output_goes_to_standard_error(command):
    with command("print('printed'); os.write(2, b'warned'); return []", "--json") as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert {"printed", "warned"} <= set(err.replace("warned", "warned\n").splitlines())


def test_a_signal_ends_parent_and_child(command, folder):
    with command("time.sleep(60)") as process:
        runner = _started(folder)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    _gone(runner)


BUSY = """signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        time.sleep(60)"""  # C code does not run Python signal handlers


@pytest.mark.parametrize(
    ("number", "status", "text"),
    [
        (signal.SIGTERM, 128 + signal.SIGTERM, "ndgather run: terminated by SIGTERM"),
        (signal.SIGINT, 130, "ndgather run: interrupted"),
    ],
)
def test_a_signal_ends_a_hanging_runtime(command, folder, number, status, text):
    with command(BUSY) as process:
        runner = _started(folder)
        start = time.monotonic()
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert time.monotonic() - start < LIMIT_S
    assert (process.returncode, err.splitlines()[-1]) == (status, text)
    _gone(runner)


FOR_EVER = """<ir_version: 8, opset_import: ["" : 16]>
    for_ever (float[N] data) => (float[N] y)
    <int64 trips = {9223372036854775807}, bool on = {1}>
    { y = Loop(trips, on, data)
      <body = body (int64 i, bool go, float[N] x) => (bool again, float[N] z)
        { again = Identity(go) z = Neg(x) }> }"""


@pytest.fixture
def for_ever(folder):
    """Start a command on a model with an endless loop in onnxruntime."""
    pytest.importorskip("onnxruntime")
    onnx.save(parse_model(FOR_EVER), "for_ever.onnx")
    np.save("x.npy", np.ones(3, np.float32))

    def start(command, *options):
        line = f"{command} for_ever.onnx --input data=x.npy"
        if command == "compare":
            line += " --runtime onnxruntime"
        return _started_command(*line.split(), *options)

    return start


@pytest.mark.parametrize(
    ("command", "number"), [("run", signal.SIGTERM), ("compare", signal.SIGINT)]
)
def test_a_signal_ends_a_loop_in_onnxruntime(for_ever, folder, command, number):
    with for_ever(command) as process:
        runners = _busy_children(process.pid)
        start = time.monotonic()
        process.send_signal(number)
        assert process.wait(60) == 128 + number
        assert time.monotonic() - start < LIMIT_S
    for runner in runners:
        _gone(runner)
    assert not list(folder.glob(".ndgather-*"))


def test_a_run_ends_after_its_timeout(for_ever):
    start = time.monotonic()
    with for_ever("run", "--timeout", "2", "--output-dir", "out") as process:
        out, err = process.communicate(timeout=60)
    assert 2 <= time.monotonic() - start < LIMIT_S
    assert (process.returncode, out) == (1, "")
    limit = "2 s (the limit of --timeout, timeout=)"
    assert err == (
        "ndgather run: error: for_ever.onnx: the process that ran it has ended: it did not end in "
        f"{limit}\n"
    )


def test_a_comparison_ends_after_its_timeout(for_ever):
    with for_ever("compare", "--timeout", "3") as process:
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert out.splitlines()[0].endswith(
        ": crashed: it did not end in 3 s (the limit of --timeout, timeout=)"
    )


def test_search_finds_inputs_that_hang_a_runtime(for_ever):
    with for_ever("compare", "--timeout", "3", "--search", "1") as process:
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "it did not end in 3 s" in out


@pytest.mark.parametrize("text", ["0", "-1", "soon", "inf", "nan"])
def test_timeout_must_be_a_positive_number(ndgather, text):
    outcome = ndgather(f"run model.onnx --timeout {text}")
    assert outcome.status == 2
    assert f"argument --timeout: '{text}' is not a positive number of seconds" in outcome.err


def test_an_interrupted_write_leaves_no_partial_file(folder):
    code = (
        "import sys, time, numpy; from ndgather.cli import main; "
        "numpy.copyto = lambda *arrays, **options: time.sleep(60); sys.exit(main(sys.argv[1:]))"
    )
    line = "run model.onnx --input data=data.npy --input indices=indices.npy --runtime reference"
    words = [sys.executable, "-c", code, *line.split(), "--output-dir", "out"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        end = time.monotonic() + 60
        while not list(folder.glob("out/.ndgather-*.part")) and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.2)  # between creating the file and copying
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (143, "ndgather run: terminated by SIGTERM\n")
    assert not list((folder / "out").iterdir())


def test_the_signal_handler_is_restored(ndgather):
    before = signal.getsignal(signal.SIGTERM)
    assert ndgather("infer model.onnx").status == 0
    assert signal.getsignal(signal.SIGTERM) is before


def _busy_children(process):
    """Wait until a child of a process has been busy for a while; return the children."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        children = Path(f"/proc/{process}/task/{process}/children").read_text("ascii").split()
        for child in children:
            ticks = int(
                Path(f"/proc/{child}/stat").read_text("ascii").rpartition(")")[2].split()[11]
            )
            if ticks > 1.5 * os.sysconf("SC_CLK_TCK"):
                return list(map(int, children))
        time.sleep(0.05)
    raise AssertionError("it does not loop")


def test_the_child_exits_with_its_parent(command, folder):
    with command("time.sleep(60)") as process:
        runner = _started(folder)
        process.kill()
        process.wait(60)
        _gone(runner)


@contextmanager
def _started_command(*words, path=None):
    """Start a command in a process, which is killed if it is still running at the end."""
    with subprocess.Popen(
        [sys.executable, "-m", "ndgather", *words],
        env=os.environ if path is None else {**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


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
