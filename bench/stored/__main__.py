"""``python -m bench --suite stored``: choose cases, run, print, save."""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from . import cases, child, field, measure, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .cases import Case
    from .measure import Result

_PROG = "python -m bench --suite stored"
_ROUNDS = 5
_PAGE = Path("docs/benchmarks-stored.md")

_DESCRIPTION = """\
Measure calls on arrays that do not fit in memory, beside the other libraries
that read them, beside a floor that only reads and decodes, and against the
conditions of the table. Every answer is checked before it is timed.

The arrays, 3.5 GB, are made once in the folder that --data names.
"""


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog=_PROG, description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = options.add_argument
    add("--case", action="append", metavar="GLOB", help="only cases named like this; repeatable")
    add("--method", action="append", metavar="NAME", help="only these methods; repeatable")
    add("--list", action="store_true", help="print the cases with their conditions and stop")
    add("--quick", action="store_true", help="only check the answers, at reduced size")
    add("--rounds", type=int, default=_ROUNDS, metavar="N", help=f"turns (default {_ROUNDS})")
    add(
        "--data",
        type=Path,
        default=Path(tempfile.gettempdir(), "ndgather-bench"),
        metavar="DIR",
        help="where the arrays are (default: %(default)s)",
    )
    add("--before", metavar="REV", help="the revision that numpy-call is compared with")
    add(
        "--json",
        type=Path,
        metavar="FILE",
        help="save the results here; of a run that is there already, the other cases are kept",
    )
    add(
        "--page",
        nargs="?",
        type=Path,
        const=_PAGE,
        metavar="FILE",
        help=f"write a page about all results (default: {_PAGE})",
    )
    add("--note", default="", metavar="TEXT", help="what the page has to say about the machine")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns 0, or 1 if an answer of ours was wrong or a condition does not hold, or 2 if no case
    was chosen.
    """
    options = parser().parse_args(arguments)
    chosen = cases.select(options.case or ["*"], options.method)
    if not chosen:
        print(f"no case is named {' or '.join(options.case)}", file=sys.stderr)
        return 2
    if options.list:
        for case in chosen:
            print(f"{case.name:12} {case.why}: {'; '.join(map(str, case.conditions))}")
        return 0
    if options.quick:
        return 1 if sum(_failures(case) for case in chosen) else 0
    return _measured(chosen, options)


def _measured(chosen: Sequence[Case], options: argparse.Namespace) -> int:
    results: dict[str, Result] = {}
    setting = table.setting()
    if options.json and options.json.exists():
        _, saved = table.load(options.json)
        results = {each.case: each for each in saved}
    for case in chosen:
        result = measure.measure(case, options.data, options.rounds, options.before)
        results[case.name] = result
        print("\n".join(table.lines(result)), flush=True)
        if options.json:
            table.save(setting, _ordered(results), options.json)
    if options.page:
        options.page.write_text(table.page(setting, _ordered(results), options.note))
        print(f"\nwrote {options.page}")
    return 0 if all(verdict.passed for each in results.values() for verdict in each.verdicts) else 1


def _ordered(results: dict[str, Result]) -> list[Result]:
    return [results[case.name] for case in cases.CASES if case.name in results]


def _failures(case: Case) -> bool:
    """Check every method's answer at reduced size, in this process; say whether ours is wrong."""
    if case.work == "instructions":
        return False
    agreeing, refusals = [], {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        request = stack.enter_context(measure.requested(case, field.REDUCED, folder))
        for method in case.methods:
            own = measure.own_copy(method, request, stack)
            try:
                child.check(own, method, child.prepared(own, method)())
                agreeing.append(method)
            except Exception as error:  # whatever a library cannot do, the table says
                refusals[method] = " ".join(str(error).split())[:160]
    print(f"{case.name:12} agree: {' '.join(agreeing)}", flush=True)
    for method, reason in refusals.items():
        print(f"{'':12} {method}: {reason}", flush=True)
    return measure.OWN in refusals


if __name__ == "__main__":
    sys.exit(main())
