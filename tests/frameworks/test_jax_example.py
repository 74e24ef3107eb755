"""The example of the guide runs, and its own checks hold."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "interpolate_jax.py"


def test_interpolation_with_gradients(tmp_path):
    picture = tmp_path / "picture.png"
    command = [sys.executable, str(EXAMPLE), "--picture", str(picture)]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    assert "60 drops ran 300 steps" in told
    assert picture.stat().st_size > 10_000
