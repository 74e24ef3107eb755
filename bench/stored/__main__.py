"""``python -m bench.stored``: select cases, run, print, save."""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from bench.report import load, write_json

from . import cases, child, field, measure, methods, report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .cases import Case

_ROUNDS = 5
_PAGE = Path("docs/benchmarks-stored.md")

_DESCRIPTION = """\
Measure calls on arrays that do not fit in memory, and compare them with the other
libraries that read such arrays, and with a floor that only reads and decodes.
Every answer is checked before it is timed. `python -m bench --suite stored` is the
same command.

The arrays, 3.5 GB, are made once in the folder of --data.
"""


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog="python -m bench.stored",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = options.add_argument
    add("--case", action="append", metavar="GLOB", help="only cases that match; repeatable")
    add("--method", action="append", metavar="NAME", help="only these methods; repeatable")
    add("--list", action="store_true", help="print the cases with their methods and stop")
    add("--quick", action="store_true", help="only check the answers, at reduced size")
    add("--rounds", type=int, default=_ROUNDS, metavar="N", help=f"turns (default {_ROUNDS})")
    add(
        "--data",
        type=Path,
        default=Path(tempfile.gettempdir(), "ndgather-bench"),
        metavar="DIR",
        help="the folder of the arrays (default: %(default)s)",
    )
    add("--before", metavar="REV", help="the revision with which numpy-call is compared")
    add(
        "--json",
        type=Path,
        metavar="FILE",
        help="save the results here; other cases of a run in this file are kept",
    )
    add(
        "--page",
        nargs="?",
        type=Path,
        const=_PAGE,
        metavar="FILE",
        help=f"write a page about all results (default: {_PAGE})",
    )
    add("--note", default="", metavar="TEXT", help="a sentence for the page about the machine")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns 0, or 1 if an answer of ours was wrong or took more memory than it may, or 2 if no case
    matches.
    """
    options = parser().parse_args(arguments)
    chosen = cases.select(options.case or ["*"], options.method)
    if not chosen:
        print(f"no case is named {' or '.join(options.case or ['*'])}", file=sys.stderr)
        return 2
    if options.list:
        for case in chosen:
            print(f"{case.name:12} {case.why}: {', '.join(case.methods)}")
        return 0
    if options.quick:
        return 1 if sum(_fails(case) for case in chosen) else 0
    return _measure(chosen, options)


def _measure(chosen: Sequence[Case], options: argparse.Namespace) -> int:
    results: dict[str, measure.Result] = {}
    if options.json and options.json.exists():
        saved = load(options.json, report.Record)
        results = {result.case: result for result in saved.results}
    setting = report.setting()
    run = report.Record(setting=setting, results=())
    for case in chosen:
        results[case.name] = measure.measure(case, options.data, options.rounds, options.before)
        print("\n".join(report.lines(results[case.name])), flush=True)
        ordered = tuple(results[case.name] for case in cases.CASES if case.name in results)
        run = report.Record(setting=setting, results=ordered)
        if options.json:
            write_json(asdict(run), options.json)
    if options.page:
        options.page.write_text(report.page(run, options.note))
        print(f"\nwrote {options.page}")
    return 1 if any(result.failed for result in run.results) else 0


def _fails(case: Case) -> bool:
    """Check the answer of every method at reduced size; return whether ours is wrong."""
    if case.work == "instructions":
        return False
    agree, refusals = [], {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        request = stack.enter_context(measure.requested(case, field.REDUCED, folder))
        for method in case.methods:
            own = measure.own_copy(method, request, stack)
            try:
                child.check(own, method, methods.prepared(own, method)())
                agree.append(method)
            except Exception as error:  # a library may fail in any way
                refusals[method] = " ".join(str(error).split())[:160]
    print(f"{case.name:12} agree: {' '.join(agree)}", flush=True)
    for method, reason in refusals.items():
        print(f"{'':12} {method}: {reason}", flush=True)
    return measure.OWN in refusals


if __name__ == "__main__":
    sys.exit(main())
