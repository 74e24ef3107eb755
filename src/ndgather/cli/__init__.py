"""The command line ``ndgather``: one module for each command.

A module gives `DESCRIPTION` and `EXAMPLES` for the help, `add_arguments`, and `work`, which runs
the command and returns its exit status, or None for 0. It is imported when its command is named.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from types import FrameType

from ndgather import __version__, messages, set_num_threads
from ndgather.errors import NdgatherError, one_line

COMMANDS = {
    "sel": "look up the values of a data set at the points of a table",
    "checked": "run a program that uses torch, and name an index out of bounds",
    "run": "run a model, and check every gather and scatter in it",
    "check": "find errors in a model, and what runtimes do differently",
    "infer": "infer the types and shapes of the values of a model",
    "compare": "find the node on which runtimes differ, and which one is right",
    "convert": "convert a model to another version, operator or target",
}
"""The commands, and what each of them does."""

# Commands of 0.3 that were removed, apart from gather-* and scatter-*.
_REMOVED = ("gather", "draw", "doc", "ops", "completion")

_LINES = "\n".join(f"  {name:8}  {what}" for name, what in COMMANDS.items())
DESCRIPTION = f"""\
N-d gather and scatter, exactly as each published specification says.

commands; ndgather sel --help has examples:
{_LINES}
"""

STATUSES = """\
exit status:
  0    done; check and compare found nothing
  1    not done, and one line says why; or check or compare found something
  2    the command line was not understood
  130  interrupted by Ctrl-C; 143: ended by SIGTERM. No file is half written
"""


def command_parser(name: str) -> argparse.ArgumentParser:
    """Return the parser of one command."""
    module = import_module(f"ndgather.cli.{name}")
    parser = argparse.ArgumentParser(
        prog=f"ndgather {name}",
        description=module.DESCRIPTION,
        epilog=module.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    parser.set_defaults(work=module.work, parser=parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return the exit status."""
    if sys.stdout is None:  # it was closed before Python began
        sys.stdout = io.StringIO()
    if isinstance(sys.stdout, io.TextIOWrapper):  # its encoding may lack letters of names
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            return _run_command_line(sys.argv[1:] if arguments is None else arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of the text has ended
        _drop_output()
    except OSError as error:
        _drop_output()
        print(f"ndgather: error: {messages.unwritable('standard output', error)}", file=sys.stderr)
    return 1


def _run_command_line(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="ndgather",
        usage="%(prog)s [-h] [--version] COMMAND ...",
        description=DESCRIPTION,
        epilog=STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.version:
        print(f"ndgather {__version__}")
        return 0
    if not options.command:
        parser.print_help(sys.stderr)
        return 2
    name, *rest = options.command
    if name not in COMMANDS:
        hint = messages.did_you_mean(name, COMMANDS)
        if name in _REMOVED or name.startswith(("gather-", "scatter-")):
            hint = "; it was removed in 0.4: docs/project/upgrading.md says what to write instead"
        parser.error(f"{name!r} is not a command (allowed: {', '.join(COMMANDS)}){hint}")
    from ndgather.cli.terminal import log_to_stderr  # noqa: PLC0415 - --version needs none

    parser = command_parser(name)
    options, unknown = parser.parse_known_args(rest)
    if unknown:
        known = re.findall(r"--\w[\w-]*", parser.format_help())
        hint = messages.did_you_mean(unknown[0].partition("=")[0], known)
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    if name == "checked":  # signals and the exit status are the program's
        return _status(name, options)
    with _terminating_cleanly(), log_to_stderr(options.verbose):
        if options.threads is not None:
            set_num_threads(options.threads)
        return _status(name, options)


def _status(name: str, options: argparse.Namespace) -> int:
    """Run a command and return its exit status; an error becomes one line on standard error."""
    status = 1
    try:
        return options.work(options) or 0
    except (NdgatherError, MemoryError) as error:
        if getattr(options, "debug", False):
            traceback.print_exc()
        text = f"error: {one_line(str(error))}"
    except BrokenPipeError:
        raise
    except OSError as error:  # the working folder or the output
        _drop_output()
        text = f"error: {messages.reason(error)}"
    except KeyboardInterrupt:
        text, status = "interrupted", 128 + signal.SIGINT
    except _Terminated:
        text, status = "ended by SIGTERM", 128 + signal.SIGTERM
    print(f"ndgather {name}: {text}", file=sys.stderr)
    return status


def _drop_output() -> None:
    """Discard the text that is not written yet, so that Python does not complain at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Terminated(BaseException):
    """Raised by SIGTERM, so that unfinished files are removed."""


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise _Terminated


@contextmanager
def _terminating_cleanly() -> Iterator[None]:
    """Raise on SIGTERM."""
    try:
        before = signal.signal(signal.SIGTERM, _terminate)
    except ValueError:  # only the main thread may
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
