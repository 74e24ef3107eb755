"""Export every line by every exporter, measure each model, and write the page about exporters."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from bench.models.report import measured, not_run_of, row, summary, title, wrong_of

from .environments import EXPORTERS, Exporter, export
from .lines import lines
from .outcomes import observed, versions
from .page import PAGE, RESULTS, page

COMPARED = ["onnxruntime", "openvino"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.exports", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/exports"))
    parser.add_argument(
        "--page", action="store_true", help="observe the runtimes, and write the page"
    )
    parser.add_argument(
        "--from-results", action="store_true", help="write the page from what is kept"
    )
    options = parser.parse_args()
    if options.from_results:
        write_page(json.loads(RESULTS.read_text(encoding="utf-8")))
        return 0
    skipped = {}
    for exporter in EXPORTERS:
        why = export(exporter, options.folder)
        if why:
            skipped[exporter.name] = why
            print(f"skipped: {exporter.name}: {why}", flush=True)
    models = options.folder / "models"
    there = [each for each in EXPORTERS if each.name not in skipped]
    if options.page:
        if skipped:
            return 1
        write_page(results(models, there))
        return 0
    print(title())
    found = []
    for exporter in there:
        for line in lines(exporter.package):
            path = models / exporter.name / line.name / "model.onnx"
            if path.exists():
                given = {"file": str(path.with_name("valid.npz")), "runtimes": COMPARED}
                found.append(measured(path, {**given, "times_only": False}))
                print(row(str(path.parent.relative_to(models)), found[-1]), flush=True)
            else:
                print(f"{exporter.name}/{line.name}: not exported")
    print(f"\n{summary(found)}")
    print(f"exporters skipped: {', '.join(skipped) or 'none'}")
    return int(bool(not_run_of(found) or wrong_of(found)))


def results(models: Path, exporters: list[Exporter]) -> dict[str, Any]:
    """Return what the page is made of: versions, and each export of each line."""
    found: dict[str, Any] = {"runtimes": versions(), "exporters": {}, "exports": {}}
    for exporter in exporters:
        said = json.loads((models / exporter.name / "exporter.json").read_text(encoding="utf-8"))
        found["exporters"][exporter.name] = said["versions"]
        for line in lines(exporter.package):
            refused = said["refused"].get(line.name)
            name = f"{exporter.name}/{line.name}"
            print(name, flush=True)
            found["exports"][name] = {"refused": refused} if refused else observed(models / name)
    return found


def write_page(found: dict[str, Any]) -> None:
    """Keep the results, one export on a line, and write the page."""
    rows = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(each)}" for name, each in found["exports"].items()
    )
    head = {key: found[key] for key in ("runtimes", "exporters")}
    text = json.dumps(head, indent=1)[:-2] + f',\n "exports": {{\n{rows}\n}}}}\n'
    RESULTS.write_text(text, encoding="utf-8")
    PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
