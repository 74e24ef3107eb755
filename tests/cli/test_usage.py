"""The command itself: help, version, what is not understood, and what it loads."""

import io
import logging
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
import zarr

import ndgather as package

COMMANDS = (
    "run",
    "check",
    "convert",
    "infer",
    "gather-nd",
    "gather-elements",
    "gather",
    "gather-ranges",
    "scatter-nd",
    "scatter-elements",
    "draw",
)


def test_version(ndgather):
    package.show_versions(file=(versions := io.StringIO()))

    outcome = ndgather("--version")

    assert (outcome.status, outcome.out, outcome.err) == (0, versions.getvalue(), "")
    assert outcome.out.startswith(f"ndgather: {package.__version__}\n")


def test_the_module_is_the_command():
    ran = subprocess.run(
        [sys.executable, "-m", "ndgather", "--help"], check=True, capture_output=True, text=True
    )
    assert ran.stdout.startswith("usage: ndgather ")


def test_what_people_do_first_is_a_command(ndgather):
    lines = ndgather("--help").out.partition("options:")[0].splitlines()
    first = [line.split()[1] for line in lines if line.startswith("  ndgather ")]
    assert first[:4] == ["sel", "check", "run", "compare"]
    for command in {*first}:
        assert ndgather(f"{command} --help").status == 0


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
        "ndgather gather-nd: error: one of the arguments -o/--output --dry-run is required",
    ),
    "no output of a scatter": (
        "scatter-nd data.npy indices.npy updates.npy",
        "ndgather scatter-nd: error: one of the arguments -o/--output --in-place --dry-run is "
        "required",
    ),
    "no output of ranges": (
        "gather-ranges data.npy starts.npy stops.npy",
        "ndgather gather-ranges: error: one of the arguments -o/--output --dry-run is required",
    ),
    "no output of sel": (
        "sel sst.nc points.csv",
        "ndgather sel: error: one of the arguments -o/--output --dry-run is required",
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
    "a command by the name of its operator": (
        "gathernd data.npy indices.npy",
        "; did you mean 'gather-nd'?",
    ),
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
    """130 and 143 are tested in test_gather_and_scatter, those of compare in test_comparison."""
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


def test_a_run_says_where_and_how_long(ndgather):
    line = "run model.onnx --input data=data.npy --input indices=indices.npy --runtime reference"
    silent, spoken = ndgather(line), ndgather(f"{line} --verbose")
    assert silent.err == ""
    (said,) = spoken.err.splitlines()
    assert said.startswith("ndgather: model.onnx: 1 node ran in ndgather and 1 node in the ref")
    assert spoken.out.startswith("output")


def test_a_gather_from_a_store_says_how_many_chunks(ndgather):
    zarr.create_group("s.zarr").create_array("a", data=np.arange(64).reshape(8, 8), chunks=(4, 4))
    outcome = ndgather("gather-nd s.zarr/a indices.npy -o out.npy -v")
    assert outcome.err.startswith("ndgather: gather_nd: ")
    assert " chunks of " in outcome.err or " chunk of " in outcome.err


@pytest.mark.parametrize("command", ["check", "infer", "convert --opset 14 -o m.onnx"])
def test_every_command_takes_it(ndgather, command):
    assert "unrecognized" not in ndgather(f"{command} model.onnx --verbose").err


def test_nothing_stays_on_the_logger(ndgather):
    before = list(logging.getLogger("ndgather").handlers)
    ndgather("check model.onnx --verbose")
    assert logging.getLogger("ndgather").handlers == before


pytest.importorskip("argcomplete")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ndgather gather", {"gather", "gather-nd", "gather-elements", "gather-ranges"}),
        ("ndgather convert --op", {"--opset", "--operator"}),
        ("ndgather compare m.onnx --runtime onnxr", {"onnxruntime "}),
    ],
)
def test_words_are_completed(line, words, tmp_path):
    answer = tmp_path / "answer"
    shell = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    subprocess.run([sys.executable, "-m", "ndgather"], env={**os.environ, **shell}, check=True)
    assert set(answer.read_text().split("\013")) == words


def test_without_the_package_the_command_goes_on():
    code = (
        "import sys; sys.modules['argcomplete'] = None; "
        "from ndgather.cli import main; main(['--version'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "_ARGCOMPLETE": "1"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ndgather: ")


def needs(shell):
    missing = shutil.which(shell) is None
    return pytest.param(shell, marks=pytest.mark.skipif(missing, reason=f"{shell} is not there"))


@pytest.fixture
def environment(tmp_path):
    """A home without files of a shell, with the command of this installation on the path."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    (tmp_path / "dem.npy").touch()
    return {"HOME": str(tmp_path), "PATH": path, "TERM": "dumb", "PS1": "", "LANG": "C.UTF-8"}


def typed(words, keys, wanted, environment):
    """Type `keys` in a terminal, line after line, and return what it shows, up to `wanted`."""
    ours, its = pty.openpty()
    seen, end = "", time.monotonic() + 60
    with subprocess.Popen(
        words, stdin=its, stdout=its, stderr=its, env=environment, cwd=environment["HOME"],
        start_new_session=True,
    ) as shell:  # fmt: skip
        os.close(its)
        try:
            for line in keys:
                os.write(ours, line.encode())
                ready = f"{line.strip()}"
                while ready not in seen and time.monotonic() < end:
                    if select.select([ours], [], [], 0.1)[0]:
                        seen += os.read(ours, 4096).decode(errors="replace")
            while wanted not in seen and time.monotonic() < end:
                if select.select([ours], [], [], 0.1)[0]:
                    seen += os.read(ours, 4096).decode(errors="replace")
        finally:
            shell.kill()
            os.close(ours)
    return seen


SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], ()),
    "zsh": (["zsh", "-f", "-i"], ("autoload -U compinit; compinit -u -D\n",)),
}


@pytest.mark.plain
@pytest.mark.parametrize("shell", [needs("bash"), needs("zsh")])
@pytest.mark.parametrize(
    ("line", "whole"),
    [
        ("ndgather gather-e", "ndgather gather-elements"),
        ("ndgather infer ScatterNDU", "ndgather infer ScatterNDUpdate"),
        ("ndgather gather-nd de", "ndgather gather-nd dem.npy"),
    ],
)
def test_a_tab_completes(shell, line, whole, environment):
    words, before = SHELLS[shell]
    keys = (*before, f"source <(ndgather completion {shell}); echo ready\n", f"{line}\t")
    assert whole in typed(words, keys, whole, environment)


@pytest.mark.parametrize("shell", [needs("fish")])
def test_fish_completes(shell, environment):
    script = "ndgather completion fish | source; complete -C 'ndgather gather-'"
    done = subprocess.run(
        [shell, "--no-config", "-c", script],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    found = {line.split("\t")[0] for line in done.stdout.splitlines()}
    assert found == {"gather-nd", "gather-elements", "gather-ranges"}
