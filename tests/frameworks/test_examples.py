"""The torch examples, run as programs: each checks its result and prints it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")  # child processes

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("example", "last"),
    [
        ("detection_torch.py", "2 of them GatherND; onnxruntime finds the same boxes"),
        ("gpu_points.py", "two sums of all points over the cells have the same bits"),
        ("beam_search_torch.py", "plain loops without a cache find the same in"),
        ("which_index.py", "three faults were named that torch did not name"),
    ],
)
def test_examples_give_the_results_of_plain_loops(example, last):
    run = subprocess.run(
        [sys.executable, ROOT / "examples" / example],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert last in run.stdout.splitlines()[-1]


def test_random_patches_continue_after_an_interruption():
    command = [sys.executable, str(ROOT / "examples" / "random_patches.py")]
    command += ["--sides", "64", "--batches", "6"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr
    assert "6 batches, and the same ones after an interruption; 2 workers" in run.stdout
    assert "the plain loop takes" in run.stdout


EXAMPLE = Path(__file__).parents[2] / "examples" / "interpolate_jax.py"


def test_interpolation_with_gradients(tmp_path):
    picture = tmp_path / "picture.png"
    command = [sys.executable, str(EXAMPLE), "--picture", str(picture)]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    assert "60 drops ran 300 steps" in told
    assert picture.stat().st_size > 10_000
