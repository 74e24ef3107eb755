"""``python -m bench --suite torch`` or ``jax``: choose cases, check, run, print."""

from __future__ import annotations

import argparse
import sys
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from . import page
from .turns import measure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .case import Case

_DESCRIPTION = """\
Measure calls on arrays of another library beside that library's own way. The
results are compared first; then the two take turns, and medians are printed.
Returns 1 if a case takes more than its limit.
"""
_TURNS = 21
_PAGE = Path("docs/benchmarks-frameworks.md")


def parser(suite: str) -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog=f"python -m bench --suite {suite}",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = options.add_argument
    add("--case", action="append", metavar="GLOB", help="only cases named like this; repeatable")
    add("--list", action="store_true", help="print the cases and stop")
    add("--quick", action="store_true", help="only check the answers")
    add(
        "--page",
        nargs="?",
        type=Path,
        const=_PAGE,
        metavar="FILE",
        help=f"write the section of this suite of a page (default: {_PAGE})",
    )
    add("--turns", type=int, default=_TURNS, metavar="N", help=f"of each (default {_TURNS})")
    return options


def main(suite: str, arguments: Sequence[str] | None = None) -> int:
    """Run the command line for the cases in ``with_<suite>.py``."""
    options = parser(suite).parse_args(arguments)
    cases: Sequence[Case] = import_module(f"bench.frameworks.with_{suite}").CASES
    globs = options.case or ["*"]
    chosen = [case for case in cases if any(fnmatch(case.name, glob) for glob in globs)]
    if not chosen:
        print(f"no case is named {' or '.join(globs)}", file=sys.stderr)
        return 2
    results = []
    if not options.list:
        print(f"{'':24} {'ndgather':>12} {suite:>12}    {'ratio':>8}")
    for case in chosen:
        if options.list:
            print(f"{case.name:24} {case.why}")
            continue
        result = measure(case, 0 if options.quick else options.turns)
        if not options.quick:
            print("\n".join(result.lines()), flush=True)
            results.append(result)
    if options.page and results:
        page.write(options.page, suite, results)
        print(f"\nwrote {options.page}")
    return 0 if all(result.passed for result in results) else 1
