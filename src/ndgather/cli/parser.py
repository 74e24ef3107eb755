"""The command line as a whole: which commands there are, and what ``ndgather --help`` says."""

from __future__ import annotations

import argparse

from ndgather.cli import (
    check,
    compare,
    completion,
    convert,
    doc,
    draw,
    gather,
    gather_elements,
    gather_nd,
    infer,
    ops,
    run,
    scatter_elements,
    scatter_nd,
    sel,
)
from ndgather.cli.options import CommandLine
from ndgather.version import __version__

COMMANDS = (
    run,
    check,
    compare,
    convert,
    infer,
    gather_nd,
    gather_elements,
    gather,
    scatter_nd,
    scatter_elements,
    sel,
    draw,
    ops,
    doc,
    completion,
)

SUMMARY = """\
N-d gather and scatter, exactly as each published specification says.

Start with one of these:

  ndgather run model.onnx --input data=dem.npy --input indices=points.npy
  ndgather gather-nd dem.npy points.npy -o heights.npy
  ndgather sel sst.nc track.csv -o along.csv --method nearest
  ndgather doc GatherND

The help of a command has examples: ndgather run --help

Completion in bash, zsh and fish: ndgather completion --help
"""

STATUSES = """\
exit status:
  0    done; check and compare found nothing
  1    not done, and one line on standard error says why; or check found what is
       as bad as --fail-on says, or compare a difference
  2    the command line was not understood
  130  interrupted by Ctrl-C
  143  ended by SIGTERM; no file is left half written
"""


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = CommandLine(
        prog="ndgather",
        description=SUMMARY,
        epilog=STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"ndgather {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in COMMANDS:
        command.add_to(commands)
    return parser
