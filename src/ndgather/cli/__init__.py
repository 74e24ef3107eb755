"""The command-line interface ``ndgather``.

Each command has a module, which is imported only when the command is used. The module defines
`DESCRIPTION` and `EXAMPLES` for the help, `add_arguments`, and `work`, which runs the command and
returns the exit status, or None for 0.
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
    "sel": "look up the values of a dataset at the points of a table",
    "checked": "run a program that uses torch and report out-of-bounds indices",
    "run": "run a model and check every gather and scatter in it",
    "check": "find errors in a model, and calls on which runtimes differ",
    "infer": "infer the types and shapes of the values in a model",
    "compare": "find the node on which runtimes differ, and which runtime is right",
    "convert": "convert a model to another opset, operator or target",
}
# Besides gather-* and scatter-*.
_REMOVED = ("gather", "draw", "doc", "ops", "completion")

_LINES = "\n".join(f"  {name:8}  {what}" for name, what in COMMANDS.items())
DESCRIPTION = f"""\
N-d gather and scatter, exactly as specified.

commands (each has examples: ndgather COMMAND --help):
{_LINES}
"""

STATUSES = """\
exit status:
  0    success; check and compare found nothing
  1    failure, explained in one line; or check or compare found something
  2    invalid command line
  130  interrupted by Ctrl-C; no partial file is left
  143  terminated by SIGTERM; no partial file is left
"""


def command_parser(name: str) -> argparse.ArgumentParser:
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
    """Run a command line and return the exit status."""
    if sys.stdout is None:  # closed before Python started
        sys.stdout = io.StringIO()
    if isinstance(sys.stdout, io.TextIOWrapper):  # some names may not be encodable
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            return _run_command_line(sys.argv[1:] if arguments is None else arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has exited
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
    from ndgather.cli.terminal import log_to_stderr  # noqa: PLC0415 - not for --version

    parser = command_parser(name)
    options, unknown = parser.parse_known_args(rest)
    if unknown:
        known = re.findall(r"--\w[\w-]*", parser.format_help())
        hint = messages.did_you_mean(unknown[0].partition("=")[0], known)
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    if name == "checked":  # the program itself handles signals
        return _status(name, options)
    with _terminating_cleanly(), log_to_stderr(options.verbose):
        if options.threads is not None:
            set_num_threads(options.threads)
        return _status(name, options)


def _status(name: str, options: argparse.Namespace) -> int:
    """Run a command, print any error as a single line, and return the exit status."""
    status = 1
    try:
        return options.work(options) or 0
    except (NdgatherError, MemoryError) as error:
        if getattr(options, "debug", False):
            traceback.print_exc()
        text = f"error: {one_line(str(error))}"
    except BrokenPipeError:
        raise
    except OSError as error:  # for example, a missing working directory
        _drop_output()
        text = f"error: {messages.reason(error)}"
    except KeyboardInterrupt:
        text, status = "interrupted", 128 + signal.SIGINT
    except _Terminated:
        text, status = "terminated by SIGTERM", 128 + signal.SIGTERM
    print(f"ndgather {name}: {text}", file=sys.stderr)
    return status


def _drop_output() -> None:
    """Discard buffered output, so that Python does not try to write it at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Terminated(BaseException):
    """An exception raised on SIGTERM, so that unfinished files are removed."""


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise _Terminated


@contextmanager
def _terminating_cleanly() -> Iterator[None]:
    """Raise `_Terminated` on SIGTERM."""
    try:
        before = signal.signal(signal.SIGTERM, _terminate)
    except ValueError:  # raised outside the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
