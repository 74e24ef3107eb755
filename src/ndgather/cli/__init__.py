"""The command ``ndgather``: arguments in, text out. One module for each command.

What the exit statuses mean stands in `parser.STATUSES`. A command imports what it needs when it
runs, so that ``--help`` does not wait for it.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ndgather.cli.completion import complete
from ndgather.cli.models import outlived
from ndgather.cli.options import refuse_unknown, told, with_later_words
from ndgather.cli.parser import command_line
from ndgather.errors import NdgatherError, file_errors, runtime_errors
from ndgather.errors.texts import one_line, reason
from ndgather.settings import set_num_threads

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from types import FrameType


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command line and return the exit status."""
    if sys.stdout is None:  # it was closed before Python began
        sys.stdout = io.StringIO()
    if isinstance(sys.stdout, io.TextIOWrapper):  # names may be in letters that it has not
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            return _carried_out(command_line(), arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # who read the text has gone; nobody is left to be told
        _drop_output()
    except OSError as error:
        _drop_output()
        print(
            f"ndgather: error: {file_errors.unwritable('standard output', error)}", file=sys.stderr
        )
    return 1


def _carried_out(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    complete(parser)
    options, unknown = parser.parse_known_args(arguments)
    refuse_unknown(getattr(options, "parser", parser), with_later_words(options, unknown))
    if options.command is None:
        parser.print_help(sys.stderr)
        return 2
    if arguments is None and options.ends_process(options):  # the process is that of the command
        ended = outlived()
        if ended is not None:
            return _told_how(options, ended)
    try:
        with _terminating_cleanly(), told(options.verbose):
            if options.threads is not None:
                set_num_threads(options.threads)
            status: int | None = options.work(options)
    except (NdgatherError, MemoryError) as error:
        if options.debug:
            traceback.print_exc()
        print(f"ndgather {options.command}: error: {one_line(str(error))}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        raise
    except OSError as error:  # of the working folder, or of where the text goes
        _drop_output()
        print(f"ndgather {options.command}: error: {reason(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"ndgather {options.command}: interrupted", file=sys.stderr)
        return 130
    return status or 0


def _told_how(options: argparse.Namespace, ended: int) -> int:
    """Return the exit status of a child; where a signal ended it, say so."""
    if ended >= 0:
        return ended
    error = runtime_errors.ended(options.model, options.runtime, signal.Signals(-ended).name)
    print(f"ndgather {options.command}: error: {one_line(str(error))}", file=sys.stderr)
    return 1


def _drop_output() -> None:
    """Let what is left of the text go nowhere, so that the end of Python has no complaint."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _terminating_cleanly() -> Iterator[None]:
    """Let a request to end unwind the stack, so that unfinished files are removed."""

    def end(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    try:
        before = signal.signal(signal.SIGTERM, end)
    except ValueError:  # only the main thread may
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
