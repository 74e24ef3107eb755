"""``python -m bench``: select cases and libraries, measure, print and save."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from . import against, busy, cases, history, instructions, options, page, report
from .frameworks.__main__ import main as frameworks
from .limits import Machine
from .measure import BusyError, check, measure
from .peers import NOT_INSTALLED, OWN, PEERS
from .stored.__main__ import main as stored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .case import Case
    from .measure import Result
    from .peers import Peer

_PROG = "python -m bench"
_LIBRARIES = ("jax", "numpy", "torch")
_QUICK_ELEMENTS = 1 << 14
_ROUNDS = 5
_ROUNDS_AGAINST = 12
_IN_HISTORY = 10  # cases per row
_NOISY = "turns that other work disturbed count (--noisy)"
_RESULTS = Path("bench/results")

_DESCRIPTION = """\
Measure gathers and scatters on this machine. Compare ndgather with the other
installed libraries and with the speed of copies and random reads. Every result
is compared with NumPy's before it is timed.

    pip install --editable . --group bench

installs torch, onnxruntime, openvino, numba, polars, SciPy and OpenCV. Without
numba, random reads are not measured, and cases larger than the caches seem
further from their limit than they are.
"""

_EXAMPLES = """\
examples:
  python -m bench --case 'points-*' --peer numpy --peer torch
      selected cases and libraries

  python -m bench --list
      the cases, each with an example of its use

  python -m bench --quick
      compare the results of all libraries without measuring times

  python -m bench --against v1.0 --case 'rows-*'
      compare this build with another build, in turns

  python -m bench --instructions --against v1.0
      count the instructions of calls, independently of machine and load

  python -m bench --busy 2
      compare two threads with one while up to two other processes compute

  python -m bench --suite stored --help
      measure arrays that do not fit in memory

  python -m bench --suite torch --help
      compare calls on torch tensors with torch itself; also jax and numpy

  python -m bench --json run.json
  python -m bench --load run.json --page report.md
      measure everything, which takes minutes, and later write a page about it
"""


def parser() -> argparse.ArgumentParser:
    parser = options.parser(_PROG, _DESCRIPTION, "docs/benchmarks.md", _EXAMPLES)
    add = parser.add_argument
    names = [peer.name for peer in PEERS]
    add("--group", action="append", metavar="GLOB", help="only groups that match; repeatable")
    add(
        "--peer",
        action="append",
        choices=names,
        metavar="NAME",
        help=f"compare with this library only; repeatable: {', '.join(names[1:])}",
    )
    add(
        "--threads",
        type=options.positive,
        default=report.usable_processors(),
        metavar="N",
        help="threads of every library (default: as many as this process may use)",
    )
    add(
        "--rounds",
        type=options.positive,
        metavar="N",
        help=f"turns of every library (default {_ROUNDS}) or of every build"
        f" (default {_ROUNDS_AGAINST}, and up to twice as many while they differ)",
    )
    add(
        "--noisy",
        action="store_true",
        help="count turns that other work disturbed; no page is written",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--load", type=Path, metavar="FILE", help="report a saved run instead of measuring"
    )
    source.add_argument(
        "--against",
        metavar="REV",
        help="compare with another revision of this repository, which is built once, or with a"
        " folder that contains an installed ndgather or its sources",
    )
    add("--instructions", action="store_true", help="count the instructions of some calls")
    add(
        "--busy",
        type=options.positive,
        metavar="N",
        help="time calls on one and on all threads while up to N other processes compute",
    )
    add(
        "--history",
        action="store_true",
        help=f"add a row to {history.PATH.name}: of --against on an idle machine, or of counts",
    )
    add(
        "--json",
        type=Path,
        metavar="FILE",
        help=f"save the run here (default: in {_RESULTS}/ of a checkout)",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Return 0, 1 if a result of ndgather was wrong or an error occurred, or 2 if no case matches.
    """
    suites = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    suites.add_argument("--suite", choices=("memory", "stored", *_LIBRARIES), default="memory")
    chosen_suite, rest = suites.parse_known_args(arguments)
    if chosen_suite.suite in _LIBRARIES:
        return frameworks([chosen_suite.suite, *rest])
    if chosen_suite.suite == "stored":
        return stored(rest)
    args = parser().parse_args(rest)
    names, groups = args.case or ["*"], args.group or ["*"]
    chosen = cases.select(names, groups)
    if not chosen:
        where = f"{' or '.join(names)} in a group {' or '.join(groups)}"
        print(f"no case is named {where}", file=sys.stderr)
        return 2
    if args.list:
        for case in chosen:
            print(f"{case.name:28} {case.group:11} {case.size_class:7} {case.why}")
        return 0
    try:
        if args.busy:
            return busy.measure(args.busy, args.threads)
        if args.instructions:
            return _count(args)
        if args.against:
            failed, timed = against.compare(
                args.against,
                [case.reduced(_QUICK_ELEMENTS) for case in chosen] if args.quick else chosen,
                args.threads,
                args.rounds or _ROUNDS_AGAINST,
                answers_only=args.quick,
                path=args.json,
            )
            if args.history and timed:
                least = {one.name: one.ratio for one in against.least(timed, _IN_HISTORY)}
                history.append(f"against {args.against}", against.mean_ratio(timed), least)
            return failed
        _check_options(args)
        run = report.load(args.load, report.Record) if args.load else None
    except (OSError, ValueError, ModuleNotFoundError) as error:
        print(f"{_PROG}: error: {error}", file=sys.stderr)
        return 1
    if args.quick:
        return _quick(chosen, _peers(args), args.threads)
    try:
        run = run or _measured(chosen, _peers(args), args)
    except BusyError as error:
        print(f"{_PROG}: error: {error}", file=sys.stderr)
        return 1
    print(f"\n{report.summary(run)}")
    if args.page:
        asked = len(run.results) if args.load else len(chosen)
        noise = report.noise(run.results, asked) if run.setting.quiet else _NOISY
        if noise:
            print(f"{_PROG}: error: no page: {noise}", file=sys.stderr)
            return 1
        page.write(run, args.page)
        print(f"\nwrote {args.page}")
    return 1 if any(result.failed for result in run.results) else 0


def _count(args: argparse.Namespace) -> int:
    """Print the instructions per position, or per tiny call, and those of another build."""
    here = instructions.count("")
    there = instructions.count(str(against.build(args.against))) if args.against else {}
    for name, counted in here.items():
        other = f"  there {there[name]:9.2f}" if name in there else ""
        print(f"{name:28} {counted:9.2f}{other}")
    if args.history:
        history.append("instructions", None, here)
    return 0


def _check_options(args: argparse.Namespace) -> None:
    """Raise if a package that the options need is missing, or if they cannot produce a page."""
    if args.page and args.noisy and not args.load:
        raise ValueError(f"no page: {_NOISY}")
    if args.page and find_spec("matplotlib") is None:
        raise ModuleNotFoundError("--page draws charts: pip install matplotlib")
    for peer in PEERS:
        if peer.name in (args.peer or ()) and peer.missing:
            raise ModuleNotFoundError(
                f"--peer {peer.name}: not installed: pip install {' '.join(peer.missing)}"
            )


def _peers(args: argparse.Namespace) -> list[Peer]:
    """Return the selected libraries that are installed, ndgather first, and print the others."""
    chosen = [peer for peer in PEERS if not args.peer or peer.name in (*args.peer, OWN.name)]
    absent = [peer.name for peer in chosen if not peer.installed]
    if absent:
        print(f"{NOT_INSTALLED}: {', '.join(absent)}")
    return [peer for peer in chosen if peer.installed]


def _quick(chosen: Sequence[Case], peers: Sequence[Peer], threads: int) -> int:
    failed = 0
    for case in chosen:
        refusals, own_failed = check(case.reduced(_QUICK_ELEMENTS), peers, threads)
        failed += own_failed
        agree = [peer.name for peer in peers if peer.name not in refusals]
        print(f"{case.name:28} agree: {' '.join(agree)}", flush=True)
        for name, reason in refusals.items():
            print(f"{'':28} {name}: {reason}", flush=True)
    print(f"{len(chosen)} cases, {failed} failed")
    return 1 if failed else 0


def _measured(
    chosen: Sequence[Case], peers: Sequence[Peer], args: argparse.Namespace
) -> report.Record:
    machine = Machine(threads=args.threads)
    setting = report.setting(peers, args.threads, quiet=not args.noisy)
    if find_spec("numba") is None:
        print(f"random reads are not measured: numba is {NOT_INSTALLED}")
    names = [peer.name for peer in peers]
    print(f"{report.where(setting)}\n\n{report.line(names)}", flush=True)

    results: list[Result] = []
    for case in chosen:
        rounds = args.rounds or _ROUNDS
        results.append(measure(case, peers, args.threads, rounds, machine, quiet=setting.quiet))
        print(report.line(names, results[-1]), flush=True)
        if args.page and report.noise(results, len(chosen)):
            break  # no page can be written anymore
    run = report.record(setting, results, machine)
    path = args.json
    if path is None and _RESULTS.parent.is_dir():
        path = _RESULTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    if path is not None:
        report.save(run, path)
        print(f"\nsaved as {path}")
    return run


if __name__ == "__main__":
    sys.exit(main())
