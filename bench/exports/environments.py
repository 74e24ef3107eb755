"""An environment for each exporter, made where it can be, and what it leaves in a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporter:
    """One exporter.

    Attributes
    ----------
    package : str
        Whose lines it exports; see ``lines.toml``.
    environment : str
        The environment that it is in, and `requires` what is installed there.
    command : tuple of str
        The module that exports, and its arguments before the folder.
    """

    name: str
    package: str
    environment: str
    requires: tuple[str, ...]
    command: tuple[str, ...]


_TORCH = ("torch==2.13.0", "onnx==1.23.2", "onnxscript==0.7.2")
EXPORTERS = (
    Exporter(
        name="torch-torchscript",
        package="torch",
        environment="torch",
        requires=_TORCH,
        command=("bench.exports.write_torch", "torchscript"),
    ),
    Exporter(
        name="torch-dynamo",
        package="torch",
        environment="torch",
        requires=_TORCH,
        command=("bench.exports.write_torch", "dynamo"),
    ),
    Exporter(
        name="tf2onnx",
        package="tensorflow",
        environment="tensorflow",
        requires=("tensorflow-cpu==2.21.0", "tf2onnx==1.17.0", "onnx==1.23.2"),
        command=("bench.exports.write_tensorflow",),
    ),
    Exporter(
        name="skl2onnx",
        package="sklearn",
        environment="sklearn",
        requires=("scikit-learn==1.9.1", "skl2onnx==1.20.0", "onnx==1.23.2"),
        command=("bench.exports.write_sklearn",),
    ),
)


def export(exporter: Exporter, folder: Path) -> str:
    """Export every line into ``folder/models/NAME``; return "" or why that cannot be had."""
    python, why = _environment(exporter, folder / "environments" / exporter.environment)
    if why:
        return why
    target = folder / "models" / exporter.name
    target.mkdir(parents=True, exist_ok=True)
    command = [str(python), "-m", *exporter.command, str(target.resolve())]
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    return _last_line(done) if done.returncode else ""


def _environment(exporter: Exporter, folder: Path) -> tuple[Path, str]:
    """Return the interpreter of an environment, which is made where it is not there yet."""
    python = folder / "bin" / "python"
    wanted = "\n".join(exporter.requires)
    made = folder / "requires.txt"
    if made.exists() and made.read_text(encoding="utf-8") == wanted:
        return python, ""
    print(f"making {folder} with {', '.join(exporter.requires)}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    command = [str(python), "-m", "pip", "install", "--quiet", *exporter.requires]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return python, _last_line(done)
    made.write_text(wanted, encoding="utf-8")
    return python, ""


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = [each for each in done.stderr.splitlines() if not each.startswith("WARNING")]
    return lines[-1].strip() if lines else f"exit status {done.returncode}"
