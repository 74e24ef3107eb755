"""Three small packages that ship models: each model runs as in onnxruntime. Needs the network."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("onnxruntime") is None, reason="onnxruntime is not installed")
def test_models_of_three_packages_run_as_in_onnxruntime(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "bench.models", "--short", "--folder", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 models; onnxruntime runs 4, and 4 of these are run" in done.stdout
    assert "outputs off by more than 1e-04 of their scale: 0" in done.stdout
