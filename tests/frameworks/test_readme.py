"""The README's torch and JAX examples run as pasted, in a separate interpreter."""

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.docs.test_guide import FRAMEWORKS, run_examples

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"^    import (?:.+\n)+", README.read_text(), re.MULTILINE)


@pytest.mark.parametrize("package", ["torch", "jax"])
def test_pasted_lines_run(package):
    (block,) = (each for each in map(dedent, BLOCKS) if each.startswith(f"import {package}"))
    subprocess.run([sys.executable, "-c", block], check=True, timeout=120)


def test_checked_program_ends_with_the_documented_lines(tmp_path):
    lines = ["import torch", "", "embedding = torch.nn.Embedding(1000, 16)"]
    lines += ["tokens = torch.tensor([[5, 17, 1000]])", "loss = embedding(tokens).sum()"]
    (tmp_path / "train.py").write_text("\n".join(lines))
    block = re.compile(r"^\$ ndgather (checked .*)\n((?:.+\n)+)```", re.MULTILINE)
    command, shown = block.search(README.read_text()).groups()
    program = [sys.executable, "-m", "ndgather", *command.split()]
    found = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.stderr.splitlines()[-2:] == shown.splitlines()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of torch
@pytest.mark.parametrize("page", FRAMEWORKS, ids=lambda page: page.stem)
def test_every_example_of_the_page_runs(page):
    run_examples(page)
