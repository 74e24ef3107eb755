"""The command itself: help, version, what is not understood, and what it loads."""

import os
import subprocess
import sys

import onnx
import pytest

import ndgather as package

COMMANDS = (
    "run",
    "check",
    "convert",
    "infer",
    "gather-nd",
    "gather-elements",
    "gather",
    "scatter-nd",
    "scatter-elements",
    "draw",
)


def test_version(ndgather):
    outcome = ndgather("--version")

    assert (outcome.status, outcome.out, outcome.err) == (
        0,
        f"ndgather {package.__version__}\n",
        "",
    )


def test_without_a_command_the_help_is_shown(ndgather):
    outcome = ndgather("")

    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == ndgather("--help").out
    for command in COMMANDS:
        assert f"\n    {command} " in outcome.err or f"\n    {command}\n" in outcome.err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_and_fits_a_terminal(ndgather, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    outcome = ndgather(f"{command} --help")

    assert (outcome.status, outcome.err) == (0, "")
    assert f"examples:\n  ndgather {command} " in outcome.out
    assert "--threads N" in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 80


GATHER = "gather-nd data.npy indices.npy -o out.npy"
MISUSED = {
    "an unknown command": (
        "scatter",
        "ndgather: error: argument COMMAND: invalid choice: 'scatter' (choose from ",
    ),
    "no model": ("run", "ndgather run: error: the following arguments are required: MODEL"),
    "an input without a file": (
        "run model.onnx --input data",
        "ndgather run: error: argument --input: 'data' is not of the form NAME=FILE",
    ),
    "an input without a name": (
        "run model.onnx --input =data.npy",
        "ndgather run: error: argument --input: '=data.npy' is not of the form NAME=FILE",
    ),
    "an input twice": (
        "run model.onnx --input data=data.npy --input data=other.npy",
        "ndgather run: error: argument --input: 'data' is given twice",
    ),
    "two ways of keeping": (
        "run model.onnx --output a=a.npy --output-dir .",
        "ndgather run: error: argument --output-dir: not allowed with argument --output",
    ),
    "no output": (
        "gather-nd data.npy indices.npy",
        "ndgather gather-nd: error: the following arguments are required: -o/--output",
    ),
    "an output that is no .npy": (
        "gather-nd data.npy indices.npy -o out.txt",
        "ndgather gather-nd: error: argument -o/--output: 'out.txt' does not end in .npy",
    ),
    "an unknown mode": (
        f"{GATHER} --mode lenient",
        "ndgather gather-nd: error: argument --mode: invalid choice: 'lenient' (choose from ",
    ),
    "a misspelled mode": (f"{GATHER} --mode cilp", "; did you mean 'clip'?"),
    "a misspelled command": ("chekc model.onnx", "; did you mean 'check'?"),
    "no threads": (
        f"{GATHER} --threads 0",
        "ndgather gather-nd: error: argument --threads: '0' is not a whole number above 0",
    ),
    "an axis for gather-nd": (
        f"{GATHER} --axis 1",
        "ndgather gather-nd: error: unrecognized arguments: --axis 1",
    ),
    "a misspelled option": (
        f"{GATHER} --bacth-dims=1",
        "ndgather gather-nd: error: unrecognized arguments: --bacth-dims=1; "
        "did you mean --batch-dims?",
    ),
    "a misspelled option without a command": (
        "--verison",
        "ndgather: error: unrecognized arguments: --verison; did you mean --version?",
    ),
}


@pytest.mark.parametrize(("line", "text"), MISUSED.values(), ids=MISUSED)
def test_misuse_is_explained_with_the_usage(ndgather, line, text):
    outcome = ndgather(line)

    assert (outcome.status, outcome.out) == (2, "")
    first, *_, last = outcome.err.splitlines()
    assert first.startswith("usage: ndgather")
    assert last.endswith(text) if text.startswith(";") else last.startswith(text)


STATUSES = {
    "done": (GATHER, 0),
    "nothing found": ("check gather.onnx", 0),
    "not done": ("gather-nd data.npy bad.npy -o out.npy", 1),
    "found": ("check model.onnx", 1),
    "found, but not as bad as that": ("check gather.onnx --fail-on error", 0),
    "not understood": ("gather-nd data.npy", 2),
    "no command": ("", 2),
}


@pytest.mark.parametrize(("line", "status"), STATUSES.values(), ids=STATUSES)
def test_exit_statuses(ndgather, line, status):
    """130 and 143 are tested in test_gather_commands, those of compare in test_comparison."""
    model = onnx.load("model.onnx")
    del model.graph.node[1:], model.graph.output[1:], model.graph.initializer[:]
    onnx.save(model, "gather.onnx")
    assert ndgather(line).status == status


def test_the_help_says_what_exit_statuses_mean(ndgather):
    words = ndgather("--help").out.split("exit status:")[1].split()
    assert {"0", "1", "2", "130", "143"} <= set(words)


def test_threads_are_set(ndgather, monkeypatch):
    chosen = []
    monkeypatch.setattr("ndgather.cli.set_num_threads", chosen.append)

    assert ndgather(f"{GATHER} --threads 3").status == 0
    assert chosen == [3]


def test_the_package_is_the_command_too(folder):
    done = subprocess.run(
        [sys.executable, "-m", "ndgather", *GATHER.split()],
        check=False,
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "out.npy").exists()


def test_a_reader_that_goes_away_gets_no_traceback(folder):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "ndgather", *GATHER.split()],
            check=False,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        os.close(writing)

    assert (done.returncode, done.stderr) == (1, "")
    assert (folder / "out.npy").exists()


def test_only_models_load_onnx(folder):
    code = (
        "import sys; from ndgather.cli import main; "
        f"main({GATHER.split()}); sys.exit('onnx' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
