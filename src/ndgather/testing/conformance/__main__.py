"""``python -m ndgather.testing.conformance``: ask libraries, print what they made of the cases.

Exit status: 0 done, 1 this package is asked and not right on every case, 2 the command was not
understood or a library did not start.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ndgather.testing.conformance.cases import load
from ndgather.testing.conformance.peers import NATIVE, PEERS, peer_named
from ndgather.testing.conformance.report import as_data, as_markdown, as_text
from ndgather.testing.conformance.runner import PeerFailedError, run_apart
from ndgather.testing.conformance.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndgather.testing.conformance.cases import Case
    from ndgather.testing.conformance.peers import Peer
    from ndgather.testing.conformance.runner import Column


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ndgather.testing.conformance",
        description="Run hard cases of gather and scatter in each library, in processes of their "
        "own, and print who is right.",
    )
    parser.add_argument(
        "--peer",
        action="append",
        metavar="NAME",
        help=f"ask this library, of {', '.join(peer.name for peer in PEERS)}, or the module of "
        "an adapter; may be given again (default: all that are installed)",
    )
    parser.add_argument(
        "--case",
        action="append",
        metavar="GLOB",
        help="run the cases whose names fit; may be given again (default: all)",
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write everything to this file")
    parser.add_argument(
        "--format", choices=("text", "md"), default="text", help="what to print (default: text)"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    patterns = options.case or []
    cases = load(*patterns)
    if not cases:
        parser.error(f"no case fits {' or '.join(map(repr, patterns))}")
    try:
        columns = [_ask(peer, cases) for peer in _peers(options.peer)]
    except (LookupError, PeerFailedError) as error:
        parser.error(str(error.args[0]))
    if options.json is not None:
        options.json.write_text(json.dumps(as_data(columns), indent=1) + "\n", "utf-8")
    if options.format == "md":
        print(as_markdown(columns, machine=_machine()), end="")
    else:
        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        print(as_text(columns, colour=colour))
    own = [column for column in columns if column.peer.name == NATIVE]
    return int(any(column.count(Verdict.RIGHT) < len(cases) for column in own))


def _peers(names: Sequence[str] | None) -> list[Peer]:
    if names is None:
        return [peer for peer in PEERS if peer.installed]
    peers = [peer_named(name) for name in dict.fromkeys(names)]
    missing = [peer.module for peer in peers if not peer.installed]
    if missing:
        raise LookupError(f"not installed: {', '.join(missing)}")
    return peers


def _ask(peer: Peer, cases: Sequence[Case]) -> Column:
    print(f"asking {peer.name} ...", file=sys.stderr)
    return run_apart(peer, cases)


def _machine() -> str:
    return f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"


if __name__ == "__main__":
    sys.exit(main())
