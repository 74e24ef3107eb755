"""``python -m bench.stored``: select cases, run, print, save."""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from bench import options
from bench.report import load, write_json

from . import cases, child, field, measure, methods, report

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from .cases import Case

_DESCRIPTION = """\
Measure calls on stored arrays and compare them with other libraries and with a
floor that only reads and decodes. Every result is checked before it is timed.
`python -m bench --suite stored` is the same command.

The arrays, 3.5 GB, are created once, in the folder given by --data.
"""


def parser() -> argparse.ArgumentParser:
    parser = options.parser("python -m bench.stored", _DESCRIPTION, "docs/benchmarks-stored.md")
    add = parser.add_argument
    add("--method", action="append", metavar="NAME", help="only these methods; repeatable")
    add("--rounds", type=int, default=5, metavar="N", help="turns (default %(default)s)")
    add(
        "--data",
        type=Path,
        default=Path(tempfile.gettempdir(), "ndgather-bench"),
        metavar="DIR",
        help="folder for the arrays (default: %(default)s)",
    )
    add("--before", metavar="REV", help="compare numpy-call with this revision")
    add(
        "--json",
        type=Path,
        metavar="FILE",
        help="save the results here; keep the other cases in this file",
    )
    add("--note", default="", metavar="TEXT", help="a sentence for the page about the machine")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Return 0, 1 if our result was wrong or exceeded its memory limit, or 2 if no case matches.
    """
    args = parser().parse_args(arguments)
    chosen = cases.select(args.case or ["*"], args.method)
    if not chosen:
        print(f"no case is named {' or '.join(args.case or ['*'])}", file=sys.stderr)
        return 2
    if args.list:
        for case in chosen:
            print(f"{case.name:12} {case.why}: {', '.join(case.methods)}")
        return 0
    if args.quick:
        return 1 if sum(_fails(case) for case in chosen) else 0
    return _measure(chosen, args)


def _measure(chosen: Sequence[Case], args: argparse.Namespace) -> int:
    results: dict[str, measure.Result] = {}
    if args.json and args.json.exists():
        saved = load(args.json, report.Record)
        results = {result.case: result for result in saved.results}
    setting = report.setting()
    run = report.Record(setting=setting, results=())
    for case in chosen:
        results[case.name] = measure.measure(case, args.data, args.rounds, args.before)
        print("\n".join(report.lines(results[case.name])), flush=True)
        ordered = tuple(results[case.name] for case in cases.CASES if case.name in results)
        run = report.Record(setting=setting, results=ordered)
        if args.json:
            write_json(asdict(run), args.json)
    if args.page:
        args.page.write_text(report.page(run, args.note))
        print(f"\nwrote {args.page}")
    return 1 if any(result.failed for result in run.results) else 0


def _fails(case: Case) -> bool:
    """Check the result of every method at reduced size; return whether ours is wrong."""
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
            except Exception as error:  # a library may raise any error
                refusals[method] = " ".join(str(error).split())[:160]
    print(f"{case.name:12} agree: {' '.join(agree)}", flush=True)
    for method, reason in refusals.items():
        print(f"{'':12} {method}: {reason}", flush=True)
    return measure.OWN in refusals


if __name__ == "__main__":
    sys.exit(main())
