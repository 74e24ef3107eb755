"""``python -m bench.frameworks torch`` or ``jax``: select cases, check, run, print."""

from __future__ import annotations

import argparse
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from .cases import CASES
from .measure import measure, write_page

if TYPE_CHECKING:
    from collections.abc import Sequence

_DESCRIPTION = """\
Measure calls on arrays of another library, compared with that library's own way.
The results are compared first; then the two take turns, and medians are printed.
`python -m bench --suite torch` is the same command.
"""
_TURNS = 21
_PAGE = Path("docs/benchmarks-frameworks.md")


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog="python -m bench.frameworks",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = options.add_argument
    add("library", choices=CASES)
    add("--case", action="append", metavar="GLOB", help="only cases that match; repeatable")
    add("--list", action="store_true", help="print the cases and stop")
    add("--quick", action="store_true", help="only check the answers")
    add(
        "--page",
        nargs="?",
        type=Path,
        const=_PAGE,
        metavar="FILE",
        help=f"write the section of this library in a page (default: {_PAGE})",
    )
    add("--turns", type=int, default=_TURNS, metavar="N", help=f"of each (default {_TURNS})")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    options = parser().parse_args(arguments)
    globs = options.case or ["*"]
    cases = [
        case for case in CASES[options.library] if any(fnmatch(case.name, glob) for glob in globs)
    ]
    if not cases:
        print(f"no case is named {' or '.join(globs)}", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(f"{case.name:24} {case.why}" for case in cases))
        return 0
    print(f"{'':24} {'ndgather':>12} {options.library:>12}    {'ratio':>8}")
    results = []
    for case in cases:
        result = measure(case, 0 if options.quick else options.turns)
        if not options.quick:
            print(result.text, flush=True)
            results.append(result)
    if options.page and results:
        write_page(options.page, options.library, results)
        print(f"\nwrote {options.page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
