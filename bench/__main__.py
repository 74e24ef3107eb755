"""``python -m bench``: choose cases and peers, run, print, save."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from . import against, cases, page, report
from .frameworks.__main__ import main as framework
from .limits import Machine
from .measure import check, measure
from .peer import NOT_INSTALLED
from .peers import OWN, PEERS
from .stored.__main__ import main as stored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .case import Case
    from .measure import Result
    from .peer import Peer

_PROG = "python -m bench"
_LIBRARIES = ("jax", "torch")  # each with its cases in bench/frameworks
_QUICK_ELEMENTS = 1 << 14
_ROUNDS = 5
_ROUNDS_AGAINST = 12
_RESULTS = Path("bench/results")
_PAGE = Path("docs/benchmarks.md")

_DESCRIPTION = """\
Measure gathers and scatters on this machine: ndgather beside the other
libraries that are installed, and beside what copies and random reads of memory
allow. Every answer is compared with NumPy's before it is timed.

    pip install 'ndgather[bench]'

brings torch, onnxruntime, openvino and numba. Without numba the random reads
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
      is this build faster than another one? the two take turns

  {prog} --suite stored --help
      another table: arrays that do not fit in memory

  {prog} --suite torch --help
      calls on tensors of torch beside torch itself; so does jax

  {prog} --json run.json
  {prog} --load run.json --page report.md
      measure everything, some minutes; later make a page of it
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
            help=f"only {what}s named like this; may be repeated",
        )
    add(
        "--peer",
        action="append",
        choices=[peer.name for peer in PEERS],
        metavar="NAME",
        help="only this library beside ndgather; may be repeated: "
        + ", ".join(peer.name for peer in PEERS if peer != OWN),
    )
    add(
        "--threads",
        type=_positive,
        default=report.usable_processors(),
        metavar="N",
        help="threads for everyone (default: as many as this process may use)",
    )
    add(
        "--rounds",
        type=_positive,
        metavar="N",
        help=f"turns of each library (default {_ROUNDS}) or of each build"
        f" (default {_ROUNDS_AGAINST}, and up to twice as many while they disagree)",
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
        " folder that holds an installed ndgather or its sources",
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
        help=f"write a page about it with a picture beside it (default: {_PAGE})",
    )
    return options


def _suite() -> argparse.ArgumentParser:
    """Return a parser of what comes before all: which table of cases."""
    options = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    options.add_argument("--suite", choices=("memory", "stored", *_LIBRARIES), default="memory")
    return options


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns 0, or 1 if an answer of ours was wrong or the work could not be done, or 2 if no case
    was chosen.
    """
    suite, rest = _suite().parse_known_args(arguments)
    if suite.suite in _LIBRARIES:
        return framework(suite.suite, rest)
    if suite.suite == "stored":
        return stored(rest)
    options = parser().parse_args(rest)
    names, groups = options.case or ["*"], options.group or ["*"]
    chosen = cases.select(names, groups)
    if options.list:
        for case in chosen:
            print(f"{case.name:28} {case.group:11} {case.size_class:7} {case.why}")
        return 0
    if not chosen:
        asked = f"no case is named {' or '.join(names)} in a group {' or '.join(groups)}"
        print(asked, file=sys.stderr)
        return 2
    loaded: list[report.Record] = []
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
        if options.load:
            loaded.append(report.load(options.load))
    except (OSError, ValueError, ModuleNotFoundError) as error:
        print(f"{_PROG}: error: {error}", file=sys.stderr)
        return 1
    if options.quick:
        return _quick(chosen, _peers(options), options.threads)
    run = loaded[0] if loaded else _measured(chosen, _peers(options), options)
    print(f"\n{report.summary(run)}")
    if options.page:
        page.write(run, options.page, _RESULTS)
        print(f"\nwrote {options.page}")
    return 1 if any(result.failed for result in run.results) else 0


def _check_installed(options: argparse.Namespace) -> None:
    """Refuse what cannot work before minutes have gone by.

    Raises
    ------
    ModuleNotFoundError
        A package is missing without which the given options mean nothing.
    """
    if options.page and find_spec("matplotlib") is None:
        raise ModuleNotFoundError("--page draws charts: pip install 'ndgather[viz]'")
    for peer in PEERS:
        if peer.name in (options.peer or ()) and peer.missing:
            raise ModuleNotFoundError(
                f"--peer {peer.name}: not installed: pip install {' '.join(peer.missing)}"
            )


def _peers(options: argparse.Namespace) -> list[Peer]:
    """Return the chosen peers that are installed, ours first; name those that are not."""
    chosen = [peer for peer in PEERS if not options.peer or peer.name in (*options.peer, OWN.name)]
    absent = [peer.name for peer in chosen if not peer.installed]
    if absent:
        print(f"left out, as they are {NOT_INSTALLED}: {', '.join(absent)}")
    return [peer for peer in chosen if peer.installed]


def _quick(chosen: Sequence[Case], peers: Sequence[Peer], threads: int) -> int:
    failed = 0
    for case in chosen:
        refusals, own_failed = check(case.reduced(_QUICK_ELEMENTS), peers, threads)
        failed += own_failed
        agreeing = [peer.name for peer in peers if peer.name not in refusals]
        print(f"{case.name:28} agree: {' '.join(agreeing)}", flush=True)
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
        print(f"random reads are not measured, as numba is {NOT_INSTALLED}")
    print(f"{report.where(setting)}\n\n{report.header(peers)}", flush=True)

    results: list[Result] = []
    for case in chosen:
        results.append(measure(case, peers, options.threads, options.rounds or _ROUNDS, machine))
        print(report.row(results[-1], peers), flush=True)
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
