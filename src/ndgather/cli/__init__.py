"""The command line ``ndgather``: one module for each command, or for commands that are alike.

`STATUSES` lists the exit statuses. A command imports what it needs when it runs, so that
``--help`` does not wait for it.
"""

from __future__ import annotations

import argparse
import ctypes
import io
import os
import signal
import sys
import traceback
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ndgather import __version__, messages
from ndgather.cli import arrays, check, compare, convert, draw, infer, pages, run, sel
from ndgather.cli.options import (
    CommandLine,
    add_completion,
    complete,
    log_to_stderr,
    refuse_unknown,
    with_later_words,
)
from ndgather.errors import NdgatherError, one_line
from ndgather.messages import reason
from ndgather.settings import set_num_threads

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

COMMANDS = (
    run.add_to,
    check.add_to,
    compare.add_to,
    convert.add_to,
    infer.add_to,
    *(command.add_to for command in arrays.COMMANDS),
    sel.add_to,
    draw.add_to,
    pages.add_ops,
    pages.add_doc,
    add_completion,
)

_SENT_BY_A_PROCESS = 0  # SI_USER; a signal of the terminal reaches the child too
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_PASSED_ON = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP} if os.name == "posix" else set()

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
    for add_to in COMMANDS:
        add_to(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command line and return the exit status."""
    if sys.stdout is None:  # it was closed before Python began
        sys.stdout = io.StringIO()
    if isinstance(sys.stdout, io.TextIOWrapper):  # its encoding may lack letters of names
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            return _run_command(command_line(), arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of the text has ended
        _drop_output()
    except OSError as error:
        _drop_output()
        print(f"ndgather: error: {messages.unwritable('standard output', error)}", file=sys.stderr)
    return 1


def _run_command(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    complete(parser)
    options, unknown = parser.parse_known_args(arguments)
    refuse_unknown(getattr(options, "parser", parser), with_later_words(options, unknown))
    if options.command is None:
        parser.print_help(sys.stderr)
        return 2
    if arguments is None and _runs_in_a_runtime(options):
        status = _run_in_child()
        if status is not None and status >= 0:
            return status
        if status is not None:
            runtime, name = options.runtime or "the runtime", signal.Signals(-status).name
            text = one_line(f"{options.model}: {runtime} ended the process that ran it ({name})")
            print(f"ndgather {options.command}: error: {text}", file=sys.stderr)
            return 1
    try:
        with _terminating_cleanly(), log_to_stderr(options.verbose):
            if options.threads is not None:
                set_num_threads(options.threads)
            status = options.work(options)
    except (NdgatherError, MemoryError) as error:
        if options.debug:
            traceback.print_exc()
        print(f"ndgather {options.command}: error: {one_line(str(error))}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        raise
    except OSError as error:  # the working folder or the output
        _drop_output()
        print(f"ndgather {options.command}: error: {reason(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"ndgather {options.command}: interrupted", file=sys.stderr)
        return 130
    return status or 0


def _runs_in_a_runtime(options: argparse.Namespace) -> bool:
    """Whether the command runs a model in a runtime, which may crash and end its process."""
    return (
        options.command == "run"
        and Path(options.model).suffix != ".xml"
        and options.runtime != "reference"
    )


def _drop_output() -> None:
    """Discard the text that is not written yet, so that Python does not complain at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _terminating_cleanly() -> Iterator[None]:
    """Raise SystemExit on SIGTERM, so that unfinished files are removed."""

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


def _run_in_child() -> int | None:
    """Fork, and return None in the child; in the parent, wait and return the child's exit status.

    A negative status is the number of the signal that ended the child. None is also returned
    where the system cannot do this.
    """
    if not sys.platform.startswith("linux"):
        return None
    signals = {*_PASSED_ON, signal.SIGCHLD}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # NumPy's threads survive a fork
        child = os.fork()
    if child == 0:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return None
    try:
        while True:
            received = signal.sigwaitinfo(signals)
            if received.si_signo == signal.SIGCHLD:
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    return os.waitstatus_to_exitcode(status)
            elif received.si_code == _SENT_BY_A_PROCESS:
                os.kill(child, received.si_signo)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
