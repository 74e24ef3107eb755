"""Export every snippet with every exporter, measure the models, and write the page."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.child_process import ChildError, ChildProcess
from tools.models.report import failed_runs, measured, row, summary, title, wrong_runs

from .outcomes import observe, versions
from .page import PAGE, RESULTS, page
from .snippets import snippets
from .write import EXPORTERS

RUNTIMES = ["onnxruntime", "openvino"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.exports", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/exports"))
    parser.add_argument(
        "--page", action="store_true", help="run the models with hard indices, and write the page"
    )
    parser.add_argument(
        "--from-results", action="store_true", help="write the page from the saved results"
    )
    options = parser.parse_args()
    if options.from_results:
        write_page(json.loads(RESULTS.read_text(encoding="utf-8")))
        return 0
    exported, skipped = {}, []
    for name in EXPORTERS:
        try:
            exported[name] = export(name, options.folder)
        except (ChildError, subprocess.CalledProcessError) as error:
            skipped.append(name)
            print(f"skipped: {name}: {_text(error)}", flush=True)
    models = options.folder / "models"
    if options.page and skipped:
        return 1
    if options.page:
        write_page(results(models, exported))
        return 0
    print(title())
    measurements = []
    for name in exported:
        for snippet in snippets(EXPORTERS[name].package):
            path = models / name / snippet.name / "model.onnx"
            if not path.exists():
                print(f"{name}/{snippet.name}: not exported")
                continue
            inputs = str(path.with_name("valid.npz"))
            measurements.append(measured(path, file=inputs, runtimes=RUNTIMES, times_only=False))
            print(row(f"{name}/{snippet.name}", measurements[-1]), flush=True)
    print(f"\n{summary(measurements)}")
    print(f"exporters skipped: {', '.join(skipped) or 'none'}")
    return int(bool(skipped or failed_runs(measurements) or wrong_runs(measurements)))


def export(name: str, folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Export every snippet into ``folder/models/NAME``; return versions, and errors by snippet.

    Create the environment of the exporter if it does not exist.
    """
    exporter = EXPORTERS[name]
    environment = (folder / "environments" / exporter.package).absolute()
    python, wanted = str(environment / "bin" / "python"), "\n".join(exporter.requires)
    installed = environment / "requires.txt"
    if not installed.exists() or installed.read_text(encoding="utf-8") != wanted:
        print(f"making {environment} with {', '.join(exporter.requires)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        command = [python, "-m", "pip", "install", "--quiet", *exporter.requires]
        subprocess.run(command, capture_output=True, text=True, check=True)
        installed.write_text(wanted, encoding="utf-8")
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3"}
    with ChildProcess("tools.exports.write", python=python, environment=quiet) as child:
        answer: tuple[dict[str, str], dict[str, str]] = child.ask(
            name, str((folder / "models" / name).absolute())
        )
    return answer


def _text(error: ChildError | subprocess.CalledProcessError) -> str:
    lines = (getattr(error, "stderr", None) or str(error)).splitlines()
    return [line for line in lines if not line.startswith("WARNING")][-1].strip()


def results(
    models: Path, exported: dict[str, tuple[dict[str, str], dict[str, str]]]
) -> dict[str, Any]:
    """Return the content of the page: versions, and the outcomes of every export."""
    outcomes: dict[str, Any] = {}
    for exporter, (_, errors) in exported.items():
        for snippet in snippets(EXPORTERS[exporter].package):
            name = f"{exporter}/{snippet.name}"
            print(name, flush=True)
            error = errors.get(snippet.name)
            outcomes[name] = {"refused": error} if error else observe(models / name)
    return {
        "runtimes": versions(),
        "exporters": {exporter: packages for exporter, (packages, _) in exported.items()},
        "exports": outcomes,
    }


def write_page(results: dict[str, Any]) -> None:
    """Save the results, one exporter or export per line, and write the page."""
    tables = []
    for key, rows in results.items():
        lines = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
        tables.append(f'"{key}": {{\n' + ",\n".join(lines))
    RESULTS.write_text("{" + "\n},\n".join(tables) + "\n}}\n", encoding="utf-8")
    PAGE.write_text(page(results), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
