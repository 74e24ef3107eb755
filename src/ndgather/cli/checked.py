"""``ndgather checked``: a program whose indices are checked."""

from __future__ import annotations

import argparse
import os
import runpy
import signal
import sys
from pathlib import Path
from types import TracebackType

import ndgather

DESCRIPTION = """\
Run a Python program that uses torch, and check the indices of every operator
before the operator runs. The error names the operator, the index, the allowed
range, the module and the line. Apart from that, the program prints, exits and
fails as it does without this command.
"""

EXAMPLES = """\
examples:
  ndgather checked train.py --epochs 1
  ndgather checked -m package.train --epochs 1
  python -m ndgather checked train.py
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-m", "--module", action="store_true", help="SCRIPT is the name of a module"
    )
    parser.add_argument(
        "script",
        metavar="SCRIPT",
        nargs=argparse.PARSER,
        help="the program, followed by its arguments",
    )


def work(options: argparse.Namespace) -> int:
    block = ndgather.checked_indices()  # which may raise that torch is not installed
    sys.argv = options.script
    program = options.script[0]
    folder = Path.cwd() if options.module else Path(program).resolve().parent
    if not sys.flags.safe_path:
        sys.path[0] = os.fspath(folder)
    try:
        with block:
            if options.module:
                runpy.run_module(program, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(program, run_name="__main__")
    except (Exception, KeyboardInterrupt) as error:
        error = error.with_traceback(_of_program(error.__traceback__))
        sys.excepthook(type(error), error, error.__traceback__)
        if isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.raise_signal(signal.SIGINT)
        return 1
    return 0


def _of_program(trace: TracebackType | None) -> TracebackType | None:
    """Return what is below this module and runpy, as Python itself shows it."""
    own = (__file__, runpy.__file__, "<frozen runpy>")
    while trace and trace.tb_frame.f_code.co_filename in own:
        trace = trace.tb_next
    return trace
