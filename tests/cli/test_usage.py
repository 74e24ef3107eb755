"""The command itself: help, version, usage errors and imports."""

import argparse
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import numpy as np
import onnx
import pytest
import xarray as xr

import ndgather as package
from ndgather.cli import command_parser
from ndgather.cli.terminal import BYTES, scaled, time_text

COMMANDS = ("sel", "checked", "run", "check", "infer", "compare", "convert")
INFER = "infer model.onnx -o out.onnx"


def test_version_is_printed(ndgather):
    outcome = ndgather("--version")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out == f"ndgather {package.__version__}\n"


def test_numbers_are_rounded_before_their_unit_is_chosen():
    sizes = 999.4, 999.6, 999_499, 999_600, 1e6, 999_600_000
    texts = [scaled(size, BYTES) for size in sizes]
    assert texts == ["999 B", "1.00 kB", "999 kB", "1.00 MB", "1.00 MB", "1.00 GB"]
    assert [time_text(each) for each in (0.9994, 0.9996)] == ["999 ms", "1.00 s"]


@pytest.mark.parametrize("line", ["--version", "sel --help"])
def test_only_the_given_command_is_imported(line):
    code = (
        "import sys; from ndgather.cli import main\n"
        f"try: main({line.split()})\n"
        "except SystemExit: pass\n"
        "print(*sorted(name for name in sys.modules if name.startswith('ndgather')))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    imported = done.stdout.splitlines()[-1].split()
    command = line.split()[0]
    assert [name for name in COMMANDS if f"ndgather.cli.{name}" in imported] == [
        name for name in COMMANDS if name == command
    ]
    if line == "--version":
        assert len(imported) <= 25


def test_help_lists_the_commands_on_one_screen(ndgather, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = ndgather("--help").out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    start = lines.index("commands (each has examples: ndgather COMMAND --help):") + 1
    assert tuple(line.split()[0] for line in lines[start : start + 7]) == COMMANDS
    assert lines[start + 7] == ""


def test_help_is_printed_without_a_command(ndgather):
    outcome = ndgather("")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == ndgather("--help").out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_and_fits_a_terminal(ndgather, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    outcome = ndgather(f"{command} --help")

    assert (outcome.status, outcome.err) == (0, "")
    assert f"examples:\n  ndgather {command} " in outcome.out
    assert ("--threads N" in outcome.out) == (command != "checked")
    assert max(map(len, outcome.out.splitlines())) <= 80


MISUSED = {
    "an unknown command": (
        "scatter",
        "ndgather: error: 'scatter' is not a command (allowed: sel, checked, run, check, infer, "
        "compare, convert)",
    ),
    "a removed command": (
        "gather-nd data.npy indices.npy -o values.npy",
        "; it was removed in 0.4: docs/project/upgrading.md says what to write instead",
    ),
    "a misspelled command": ("chekc model.onnx", "; did you mean 'check'?"),
    "a misspelled option without a command": (
        "--verison",
        "ndgather: error: unrecognized arguments: --verison",
    ),
    "a misspelled option": (
        "sel sst.nc points.csv -o out.csv --metod=nearest",
        "; did you mean '--method'?",
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
    "no output of sel": (
        "sel sst.nc points.csv",
        "ndgather sel: error: one of the arguments -o/--output --dry-run is required",
    ),
    "no output of convert": (
        "convert model.onnx --opset 14",
        "ndgather convert: error: the following arguments are required: -o/--output",
    ),
    "an unknown choice": (
        "sel sst.nc points.csv --method near",
        "ndgather sel: error: argument --method: invalid choice: 'near' (choose from ",
    ),
    "no threads": (
        f"{INFER} --threads 0",
        "ndgather infer: error: argument --threads: '0' is not a positive integer",
    ),
    "an option of another command": (
        f"{INFER} --opset 14",
        "ndgather infer: error: unrecognized arguments: --opset 14",
    ),
}


@pytest.mark.parametrize(("line", "text"), MISUSED.values(), ids=MISUSED)
def test_usage_errors_are_explained(ndgather, line, text):
    outcome = ndgather(line)

    assert (outcome.status, outcome.out) == (2, "")
    first, *_, last = outcome.err.splitlines()
    assert first.startswith("usage: ndgather")
    assert last.endswith(text) if text.startswith(";") else last.startswith(text)


STATUSES = {
    "done": (INFER, 0),
    "nothing found": ("check gather.onnx", 0),
    "not done": ("infer none.onnx", 1),
    "found": ("check model.onnx", 1),
    "found, but not as bad as that": ("check gather.onnx --fail-on error", 0),
    "not understood": ("infer", 2),
    "no command": ("", 2),
}


def test_run_and_compare_describe_options_alike():
    run, compare = (
        {name: (each.help, each.type) for name, each in parser._option_string_actions.items()}
        for parser in map(command_parser, ("run", "compare"))
    )
    shared = run.keys() & compare.keys()
    assert {"--random", "--runtime", "--provider", "--timeout", "--json"} <= shared
    for option in shared - {"--runtime"}:  # accepts one name or several
        texts = [
            re.split(" \\(default|; for all runtimes|, and print the", x[option][0])[0]
            for x in (run, compare)
        ]
        assert texts[0] == texts[1]
        assert run[option][1] == compare[option][1]


@pytest.mark.parametrize(("line", "status"), STATUSES.values(), ids=STATUSES)
def test_exit_statuses(ndgather, line, status):
    """See test_own_process.py for 130 and 143, and test_comparison.py for compare."""
    model = onnx.load("model.onnx")
    del model.graph.node[1:], model.graph.output[1:], model.graph.initializer[:]
    onnx.save(model, "gather.onnx")
    assert ndgather(line).status == status


def test_help_explains_the_exit_statuses(ndgather):
    words = ndgather("--help").out.split("exit status:")[1].replace(":", "").split()
    assert {"0", "1", "2", "130", "143"} <= set(words)


def test_threads_are_set(ndgather):
    before = package.get_num_threads()
    try:
        assert ndgather(f"{INFER} --threads 3").status == 0
        assert package.get_num_threads() == 3
    finally:
        package.set_num_threads(before)


def test_the_package_runs_the_command(folder):
    done = subprocess.run(
        [sys.executable, "-m", "ndgather", *INFER.split()],
        check=False,
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "out.onnx").exists()


def test_verbose_logs_the_run(ndgather):
    line = "run model.onnx --input data=data.npy --input indices=indices.npy --runtime reference"
    silent, spoken = ndgather(line), ndgather(f"{line} --verbose")
    assert silent.err == ""
    (said,) = spoken.err.splitlines()
    assert said.startswith("ndgather: model.onnx: 1 node ran in ndgather and 1 node in the ref")
    assert spoken.out.startswith("output")


@pytest.mark.parametrize("command", ["check", "infer", "convert --opset 14 -o m.onnx"])
def test_every_command_accepts_verbose(ndgather, command):
    assert "unrecognized" not in ndgather(f"{command} model.onnx --verbose").err


def test_the_logger_is_restored(ndgather):
    before = list(logging.getLogger("ndgather").handlers)
    ndgather("check model.onnx --verbose")
    assert logging.getLogger("ndgather").handlers == before


def test_modules_in_the_working_folder_are_not_imported(folder):
    """This also holds for the process that the command starts."""
    Path("onnx.py").write_text("open('ran', 'w')")
    line = "run model.onnx --input data=data.npy --input indices=indices.npy --timeout 99"
    done = subprocess.run(
        [sys.executable, "-P", "-m", "ndgather", *line.split()],
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not (folder / "ran").exists()


class Options(argparse.Namespace):
    """Options that record which of them a command reads."""

    read: ClassVar[set[str]] = set()

    def __getattribute__(self, name):
        if name == "verbose":  # the first option that is read after parsing
            Options.read.clear()
        Options.read.add(name)
        return super().__getattribute__(name)


# Together, the lines of a command read all of its options. The last line of each fails.
LINES = {
    "sel": ["sel grid.nc points.csv -o out.csv", "sel none.nc points.csv -o out.csv"],
    "run": [
        "run model.onnx --runtime reference --inputs given",
        "run model.onnx --runtime reference --random",
        "run none.onnx",
    ],
    "check": ["check model.onnx", "check none.onnx"],
    "infer": ["infer model.onnx -o out.onnx", "infer none.onnx -o out.onnx"],
    "compare": [
        "compare model.onnx --runtime reference --random",
        "compare model.onnx --runtime reference --search 1",
        "compare none.onnx --random",
    ],
    "convert": [
        "convert model.onnx -o out.onnx --opset 18",
        "convert none.onnx -o a.onnx --opset 9",
    ],
}
FOR_FINDINGS = {"keep"}  # test_comparison.py tests this option


@pytest.mark.parametrize("command", LINES)
def test_commands_ignore_no_option(ndgather, monkeypatch, command):
    xr.Dataset({"v": ("x", [1.0, 2.0])}, {"x": [0, 1]}).to_netcdf("grid.nc", engine="h5netcdf")
    Path("points.csv").write_text("x\n1\n")
    Path("given").mkdir()
    picked = np.array([101, 111, 104], np.int16)
    for name, array in (
        ("input_0", np.load("data.npy")),
        ("input_1", np.load("indices.npy")),
        ("output_0", picked),
        ("output_1", picked + np.int16(1)),
    ):
        tensor = onnx.numpy_helper.from_array(array)
        Path(f"given/{name}.pb").write_bytes(tensor.SerializeToString())
    monkeypatch.setattr(argparse, "Namespace", Options)
    read = {"help", *FOR_FINDINGS}
    for line in LINES[command]:
        assert ndgather(line).status in (0, 1)
        read |= Options.read
    assert {each.dest for each in command_parser(command)._actions} <= read
