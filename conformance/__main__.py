"""``python -m conformance``: run the cases in libraries and print which libraries are right.

Exit status: 0 on success, 1 if ndgather was not right in every case, 2 if the command line is
invalid or a library did not start.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .corpus import load
from .libraries import LIBRARIES, NDGATHER, Library, library
from .report import as_data, as_markdown, as_text
from .runner import LibraryFailedError, run_apart
from .verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .corpus import Case
    from .runner import Column


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m conformance",
        description="Run the conformance cases in each library, in child processes, and print the "
        "verdicts.",
    )
    names = ", ".join(known.name for known in LIBRARIES)
    parser.add_argument(
        "--peer",
        action="append",
        metavar="NAME",
        help=f"run this library: {names}, or an adapter module; may be repeated (default: all "
        "installed libraries)",
    )
    parser.add_argument(
        "--case",
        action="append",
        metavar="GLOB",
        help="run the cases whose names match; may be repeated (default: all)",
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write all results to this file")
    parser.add_argument(
        "--format", choices=("text", "md"), default="text", help="output format (default: text)"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    patterns = options.case or []
    cases = load(*patterns)
    if not cases:
        parser.error(f"no case matches {' or '.join(map(repr, patterns))}")
    try:
        columns = [_ask(known, cases) for known in _chosen(options.peer)]
    except (LookupError, LibraryFailedError) as error:
        parser.error(str(error.args[0]))
    if options.json is not None:
        options.json.write_text(json.dumps(as_data(columns), indent=1) + "\n", "utf-8")
    if options.format == "md":
        print(as_markdown(columns, machine=_machine()), end="")
    else:
        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        print(as_text(columns, colour=colour))
    own = [column for column in columns if column.library.name == NDGATHER]
    return int(any(column.count(Verdict.RIGHT) < len(cases) for column in own))


def _chosen(names: Sequence[str] | None) -> list[Library]:
    if names is None:
        return [known for known in LIBRARIES if known.installed]
    libraries = [library(name) for name in dict.fromkeys(names)]
    missing = [known.module for known in libraries if not known.installed]
    if missing:
        raise LookupError(f"not installed: {', '.join(missing)}")
    return libraries


def _ask(known: Library, cases: Sequence[Case]) -> Column:
    print(f"asking {known.name} ...", file=sys.stderr)
    return run_apart(known, cases)


def _machine() -> str:
    return f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"


if __name__ == "__main__":
    sys.exit(main())
