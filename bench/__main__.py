"""``python -m bench``: select cases and peers, run, print, save."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from . import against, cases, page, report
from .frameworks.__main__ import main as frameworks
from .limits import Machine
from .measure import check, measure
from .peers import NOT_INSTALLED, OWN, PEERS
from .stored.__main__ import main as stored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .case import Case
    from .measure import Result
    from .peers import Peer

_PROG = "python -m bench"
_LIBRARIES = ("jax", "torch")
_QUICK_ELEMENTS = 1 << 14
_ROUNDS = 5
_ROUNDS_AGAINST = 12
_RESULTS = Path("bench/results")
_PAGE = Path("docs/benchmarks.md")

_DESCRIPTION = """\
Measure gathers and scatters on this machine, and compare ndgather with the other
libraries that are installed, and with the speed of copies and of random reads.
Every answer is compared with NumPy's before it is timed.

    pip install 'ndgather[bench]'

installs torch, onnxruntime, openvino and numba. Without numba the random reads
are not measured, and a case beyond the caches seems further from its limit than
it is.
"""

_EXAMPLES = """\
examples:
  {prog} --case 'points-*' --peer numpy --peer torch
      some cases, some libraries

  {prog} --list
      the cases, and who makes such calls

  {prog} --quick
      no times: do all libraries give the same answers?

  {prog} --against v1.0 --case 'rows-*'
      is this build faster than another one? The two take turns

  {prog} --suite stored --help
      another table: arrays that do not fit in memory

  {prog} --suite torch --help
      calls on tensors of torch, compared with torch itself; or jax

  {prog} --json run.json
  {prog} --load run.json --page report.md
      measure everything, which takes minutes; later write a page about it
"""


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog=_PROG,
        description=_DESCRIPTION,
        epilog=_EXAMPLES.format(prog=_PROG),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = options.add_argument
    for what in ("case", "group"):
        add(
            f"--{what}",
            action="append",
            metavar="GLOB",
            help=f"only {what}s that match; may be repeated",
        )
    add(
        "--peer",
        action="append",
        choices=[peer.name for peer in PEERS],
        metavar="NAME",
        help="compare with this library only; may be repeated: "
        + ", ".join(peer.name for peer in PEERS if peer != OWN),
    )
    add(
        "--threads",
        type=_positive,
        default=report.usable_processors(),
        metavar="N",
        help="threads of every library (default: as many as this process may use)",
    )
    add(
        "--rounds",
        type=_positive,
        metavar="N",
        help=f"turns of every library (default {_ROUNDS}) or of every build"
        f" (default {_ROUNDS_AGAINST}, and up to twice as many while they differ)",
    )
    instead = options.add_mutually_exclusive_group()
    instead.add_argument("--list", action="store_true", help="print the cases and stop")
    add("--quick", action="store_true", help="only check the answers, at reduced size")
    instead.add_argument(
        "--load", type=Path, metavar="FILE", help="report a saved run instead of measuring"
    )
    instead.add_argument(
        "--against",
        metavar="REV",
        help="compare with another revision of this repository, which is built once, or with a"
        " folder that contains an installed ndgather or its sources",
    )
    add(
        "--json",
        type=Path,
        metavar="FILE",
        help=f"save the run here (default: in {_RESULTS}/ of a checkout)",
    )
    add(
        "--page",
        nargs="?",
        type=Path,
        const=_PAGE,
        metavar="FILE",
        help=f"write a page about the run, and its picture (default: {_PAGE})",
    )
    return options


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns 0, or 1 if an answer of ours was wrong or there was an error, or 2 if no case matches.
    """
    suites = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    suites.add_argument("--suite", choices=("memory", "stored", *_LIBRARIES), default="memory")
    options, rest = suites.parse_known_args(arguments)
    if options.suite in _LIBRARIES:
        return frameworks([options.suite, *rest])
    if options.suite == "stored":
        return stored(rest)
    options = parser().parse_args(rest)
    names, groups = options.case or ["*"], options.group or ["*"]
    chosen = cases.select(names, groups)
    if options.list:
        for case in chosen:
            print(f"{case.name:28} {case.group:11} {case.size_class:7} {case.why}")
        return 0
    if not chosen:
        print(
            f"no case is named {' or '.join(names)} in a group {' or '.join(groups)}",
            file=sys.stderr,
        )
        return 2
    try:
        if options.against:
            return against.compare(
                options.against,
                [case.reduced(_QUICK_ELEMENTS) for case in chosen] if options.quick else chosen,
                options.threads,
                options.rounds or _ROUNDS_AGAINST,
                answers_only=options.quick,
                path=options.json,
            )
        _check_installed(options)
        run = report.load(options.load, report.Record) if options.load else None
    except (OSError, ValueError, ModuleNotFoundError) as error:
        print(f"{_PROG}: error: {error}", file=sys.stderr)
        return 1
    if options.quick:
        return _quick(chosen, _peers(options), options.threads)
    run = run or _measured(chosen, _peers(options), options)
    print(f"\n{report.summary(run)}")
    if options.page:
        page.write(run, options.page)
        print(f"\nwrote {options.page}")
    return 1 if any(result.failed for result in run.results) else 0


def _check_installed(options: argparse.Namespace) -> None:
    """Raise ModuleNotFoundError if a package is missing that the options need."""
    if options.page and find_spec("matplotlib") is None:
        raise ModuleNotFoundError("--page draws charts: pip install 'ndgather[viz]'")
    for peer in PEERS:
        if peer.name in (options.peer or ()) and peer.missing:
            raise ModuleNotFoundError(
                f"--peer {peer.name}: not installed: pip install {' '.join(peer.missing)}"
            )


def _peers(options: argparse.Namespace) -> list[Peer]:
    """Return the chosen peers that are installed, ours first, and print the others."""
    chosen = [peer for peer in PEERS if not options.peer or peer.name in (*options.peer, OWN.name)]
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
    chosen: Sequence[Case],
    peers: Sequence[Peer],
    options: argparse.Namespace,
) -> report.Record:
    machine = Machine(threads=options.threads)
    setting = report.setting(peers, options.threads)
    if find_spec("numba") is None:
        print(f"random reads are not measured: numba is {NOT_INSTALLED}")
    names = [peer.name for peer in peers]
    print(f"{report.where(setting)}\n\n{report.line(names)}", flush=True)

    results: list[Result] = []
    for case in chosen:
        results.append(measure(case, peers, options.threads, options.rounds or _ROUNDS, machine))
        print(report.line(names, results[-1]), flush=True)
    run = report.record(setting, results, machine)
    path = options.json
    if path is None and _RESULTS.parent.is_dir():
        path = _RESULTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    if path is not None:
        report.save(run, path)
        print(f"\nsaved as {path}")
    return run


if __name__ == "__main__":
    sys.exit(main())
