"""``ndgather bench``: measure against other libraries."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse


def add_to(commands: Any) -> None:
    """Add this command to the command line."""
    # It reads its own arguments when it is loaded, --help among them.
    bench = commands.add_parser(
        "bench", help="measure against other libraries on this machine", add_help=False
    )
    bench.set_defaults(threads=None, debug=False, work=_bench)


def _bench(options: argparse.Namespace) -> int:
    # In a checkout the benchmark is a folder of its own, which only the install puts here.
    bench = import_module("ndgather.bench.__main__")
    status: int = bench.main(options.arguments, prog="ndgather bench")
    return status
