"""The information about an installation that a bug report needs."""

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import ndgather

OPTIONAL = ("torch", "jax", "onnx", "xarray", "zarr", "pandas")


def lines(text):
    return dict(line.split(": ", 1) for line in text.splitlines())


def test_installed_packages_are_listed(capsys):
    ndgather.show_versions()

    said = lines(capsys.readouterr().out)
    assert said["ndgather"] == ndgather.__version__
    assert said["numpy"] == np.__version__
    assert said["python"].startswith("{}.{}.{}".format(*sys.version_info[:3]))
    assert said["threads"] == str(ndgather.get_num_threads())
    assert said["memory limit"] == f"{ndgather.get_memory_limit()} bytes"
    assert said["instruction set"] in {"baseline", "avx2", "avx512"}
    assert set(OPTIONAL) <= set(said)
    asked = (re.split(r"[ ;\[<>=!~]", each)[0] for each in metadata.requires("ndgather"))
    assert set(asked) - {"ndgather"} <= set(said)


def test_output_goes_to_the_given_file(capsys, tmp_path):
    with (tmp_path / "report.txt").open("w") as file:
        ndgather.show_versions(file=file)

    assert lines((tmp_path / "report.txt").read_text())["ndgather"] == ndgather.__version__
    assert capsys.readouterr().out == ""


def test_missing_packages_are_listed_as_missing(capsys, monkeypatch):
    monkeypatch.setattr(sys, "path", [])

    ndgather.show_versions()

    assert lines(capsys.readouterr().out)["zarr"] == "not installed"


def test_no_package_is_imported():
    code = (
        "import sys, ndgather; before = set(sys.modules); ndgather.show_versions(); "
        f"assert not set(sys.modules) & set({OPTIONAL!r})"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("instruction_set", ["baseline", "avx2"])
def test_requested_instruction_set_is_shown(instruction_set):
    ran = subprocess.run(
        [sys.executable, "-c", "import ndgather; ndgather.show_versions()"],
        env={**os.environ, "NDGATHER_INSTRUCTION_SET": instruction_set},
        check=True,
        capture_output=True,
        text=True,
    )

    assert lines(ran.stdout)["instruction set"] in {instruction_set, "baseline"}


@pytest.mark.parametrize(
    ("numpy", "text"),
    [
        ("1.26.4", "ndgather: NumPy = 1.26.4 is too old (allowed: 2.2 or newer); write pip "),
        ("2.2.0", "; write pip install . in a clone"),
    ],
)
def test_import_without_the_core_explains_the_fix(numpy, text):
    code = (
        "import sys, importlib.metadata; sys.modules['ndgather._core'] = None; "
        f"importlib.metadata.version = lambda name: {numpy!r}; import ndgather"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)

    assert ran.returncode == 1
    last = ran.stderr.splitlines()[-1]
    assert last.startswith("ImportError: ndgather: ")
    assert text in last


FILES = {
    "test_file.py": "import no_such_package\n\ndef test_it(): pass\n",
    "test_call.py": "def test_it():\n    import no_such_package\n",
    "sub/conftest.py": "import no_such_package\n",
    "sub/test_in_folder.py": "def test_it(): pass\n",
    "test_good.py": "def test_it(): pass\n",
}


def test_tests_of_missing_packages_are_skipped(tmp_path):
    (tmp_path / "sub").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    line = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [*line, "--rootdir", tmp_path, tmp_path],
        cwd=Path(__file__).parents[3],
        check=False,
        capture_output=True,
        text=True,
    )

    assert ran.returncode == 0, ran.stdout
    assert "no_such_package is not installed" in ran.stdout
    assert "1 passed" in ran.stdout


def test_xarray_tests_are_not_collected_without_xarray():
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", "tests/xarray_suite"],
        cwd=Path(__file__).parents[3],
        check=False,
        capture_output=True,
        text=True,
    )

    assert ran.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, ran.stdout
