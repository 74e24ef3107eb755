"""``python -m bench``: choose cases and peers, run, print, save."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from . import cases, page, report
from .limits import Machine
from .measure import check, measure
from .peer import NOT_INSTALLED
from .peers import OWN, PEERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .case import Case
    from .measure import Result
    from .peer import Peer

_QUICK_ELEMENTS = 1 << 14
_RESULTS = Path("bench/results")
_PAGE = Path("docs/benchmarks.md")


def parser(prog: str) -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog=prog, description="Compare gathers and scatters with other libraries, on this machine."
    )
    add = options.add_argument
    add("--case", default="*", metavar="GLOB", help="only cases named like this")
    add("--group", default="*", metavar="GLOB", help="only groups named like this")
    add(
        "--peer",
        action="append",
        choices=[peer.name for peer in PEERS],
        help="only this one beside ndgather (may be repeated)",
    )
    add("--threads", type=int, default=report.usable_processors(), metavar="N", help="for everyone")
    add("--rounds", type=int, default=5, metavar="N", help="turns of each peer (default: 5)")
    add("--quick", action="store_true", help="only check the answers, at reduced size")
    add("--growth", action="store_true", help="also measure how cost grows with size")
    add("--list", action="store_true", help="print the cases and stop")
    add("--json", type=Path, metavar="PATH", help=f"where to save (default: in {_RESULTS}, if any)")
    add("--load", type=Path, metavar="PATH", help="report saved results instead of running")
    add("--page", action="store_true", help=f"write {_PAGE} and its chart")
    return options


def main(arguments: Sequence[str] | None = None, prog: str = "python -m bench") -> int:
    """Run the command line; return 0, or 1 if an answer of ours was wrong, or 2 for no case."""
    options = parser(prog).parse_args(arguments)
    chosen = cases.select(options.case, options.group)
    peers = [peer for peer in PEERS if not options.peer or peer.name in (*options.peer, OWN.name)]
    if options.list:
        for case in chosen:
            print(f"{case.name:28} {case.group:11} {case.size_class:7} {case.why}")
        return 0
    if not chosen:
        print(f"no case is named {options.case} in a group {options.group}", file=sys.stderr)
        return 2
    if options.quick:
        return _quick(chosen, peers, options.threads)
    if options.load:
        run = report.load(options.load)
    else:
        run = _measured(chosen, [peer for peer in peers if peer.installed], options)
    print(f"\n{report.summary(run)}")
    if options.page:
        page.write(run, _PAGE)
        print(f"\nwrote {_PAGE}")
    return 1 if any(result.failed for result in run.results) else 0


def _quick(chosen: Sequence[Case], peers: Sequence[Peer], threads: int) -> int:
    failed = 0
    for case in chosen:
        refusals, own_failed = check(case.reduced(_QUICK_ELEMENTS), peers, threads)
        failed += own_failed
        agreeing = [peer.name for peer in peers if peer.name not in refusals]
        print(f"{case.name:28} agree: {' '.join(agreeing)}", flush=True)
        for name, reason in refusals.items():
            if reason != NOT_INSTALLED:
                print(f"{'':28} {name}: {reason}", flush=True)
    print(f"{len(chosen)} cases, {failed} failed")
    return 1 if failed else 0


def _measured(
    chosen: Sequence[Case], peers: Sequence[Peer], options: argparse.Namespace
) -> report.Record:
    machine = Machine(threads=options.threads)
    setting = report.setting(peers, options.threads)
    print(report.header(peers))

    def measured(each: Sequence[Case]) -> list[Result]:
        results = []
        for case in each:
            result = measure(case, peers, options.threads, options.rounds, machine)
            results.append(result)
            print(report.row(result, peers), flush=True)
        return results

    growth = cases.GROWTH if options.growth else ()
    run = report.record(setting, measured(chosen), machine, measured(growth))
    path = options.json
    if path is None and _RESULTS.parent.is_dir():
        path = _RESULTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    if path is not None:
        report.save(run, path)
        print(f"\nsaved as {path}")
    return run


if __name__ == "__main__":
    sys.exit(main())
