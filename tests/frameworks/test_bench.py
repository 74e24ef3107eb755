"""The suites of NumPy, torch and JAX: results agree, and the page keeps the other suites."""

import subprocess
import sys
from math import inf
from pathlib import Path

import pytest

from bench import checked
from bench.__main__ import main
from bench.frameworks.__main__ import measure, write_page
from bench.frameworks.cases import CASES

pytest.importorskip("torch")  # child processes


@pytest.mark.parametrize("suite", ["numpy", "torch", "jax"])
def test_results_agree(suite):
    assert main(["--suite", suite, "--quick"]) == 0


def test_page_has_a_line_for_each_case_of_both_suites(tmp_path):
    page = tmp_path / "page.md"
    for suite in ("torch", "jax", "torch"):
        tiny = next(case for case in CASES[suite] if case.name == "tiny")
        write_page(page, suite, [measure(tiny, 1, most_waited=inf)])
    written = page.read_text()
    assert [written.count(f"## {suite}\n") for suite in ("torch", "jax")] == [1, 1]
    assert written.count("\n| `tiny` | ") == 2


def test_results_of_the_gpu_benchmark_agree():
    """In a separate process; without a GPU, Triton's interpreter runs the kernels."""
    command = [sys.executable, "-m", "bench.gpu", "--quick"]
    root = Path(__file__).parents[2]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert len(lines) > 10
    assert all(line.endswith(": the answers agree") for line in lines)


def test_results_in_a_block_are_equal(capsys):
    assert checked.main(["--quick"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 9
