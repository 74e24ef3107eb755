"""The command line ``ndgather``: one module for each command, or for commands that are alike.

`STATUSES` lists the exit statuses. A command imports what it needs when it runs, so that
``--help`` does not wait for it.
"""

from __future__ import annotations

import argparse
import io
import math
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from ndgather import messages, set_num_threads, show_versions
from ndgather.cli import arrays, check, checked, compare, convert, draw, infer, run, sel
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
from ndgather.models.tensors.tensor_files import part_name
from ndgather.runtimes.children import die_with_parent, limit_text

COMMANDS = (
    run.add_to,
    check.add_to,
    checked.add_to,
    compare.add_to,
    convert.add_to,
    infer.add_to,
    *(command.add_to for command in arrays.COMMANDS),
    arrays.add_ranges,
    sel.add_to,
    draw.add_to,
    add_completion,
)

_SENT_BY_A_PROCESS = 0  # SI_USER; a signal of the terminal reaches the child too
_GRACE_S = 0.3  # for a child that removes its files before it ends
_LONGEST_WAIT_S = 3600.0
_PASSED_ON = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP} if os.name == "posix" else set()

SUMMARY = """\
N-d gather and scatter, exactly as each published specification says.

What people do first:

  ndgather sel sst.nc track.csv -o along.csv --method nearest
      values of a grid at the points of a table
  ndgather check model.onnx
      errors in a model, and what runtimes do differently
  ndgather run model.onnx --random
      run a model, and check every gather and scatter in it
  ndgather compare model.onnx --search 50
      find inputs on which two runtimes disagree, and who is right
  ndgather convert model.onnx --target coreml -o out.onnx
      a model for a runtime that takes only some gathers and scatters
  ndgather checked train.py
      run a program of torch; a bad index is an error that names its line
  ndgather gather-nd dem.npy points.npy -o heights.npy
      elements of an array at a list of indices

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


class _Versions(argparse.Action):
    """Print the versions that a bug report needs, and exit."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        show_versions()
        parser.exit()


def command_line() -> argparse.ArgumentParser:
    parser = CommandLine(
        prog="ndgather",
        description=SUMMARY,
        epilog=STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action=_Versions, nargs=0, help="print the versions of what is installed"
    )
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
    if arguments is None and options.command == "run":  # a runtime may crash or never return
        status = _run_in_child(options)
        if status is not None:
            return status
    try:
        if options.command == "checked":  # signals are the program's
            return int(options.work(options))
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


def _run_in_child(options: argparse.Namespace) -> int | None:
    """Fork, and return None in the child; in the parent, wait and return the exit status.

    A signal or the limit of time ends the child, whatever it does. None is also returned where the
    system cannot do this.
    """
    if not sys.platform.startswith("linux"):
        return None
    signals = {*_PASSED_ON, signal.SIGCHLD}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # NumPy's threads survive a fork
        child = os.fork()
    if child == 0:
        die_with_parent()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return None
    deadline = math.inf if options.timeout is None else time.monotonic() + options.timeout
    cause: signal.Signals | None = None  # that ends the run
    late = False
    try:
        while True:
            wait = min(max(deadline - time.monotonic(), 0), _LONGEST_WAIT_S)
            received = signal.sigtimedwait(signals, wait)
            if received is None:
                if time.monotonic() >= deadline:
                    os.kill(child, signal.SIGKILL)
                    deadline, late = math.inf, True
            elif received.si_signo == signal.SIGCHLD:
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    break
            else:
                if received.si_code == _SENT_BY_A_PROCESS:
                    os.kill(child, received.si_signo)
                cause = signal.Signals(received.si_signo)
                deadline = min(deadline, time.monotonic() + _GRACE_S)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code
    folders = [options.output_dir, *(Path(file).parent for file in options.outputs.values())]
    for folder in filter(None, folders):
        for part in folder.glob(f"{part_name(child)}*"):
            part.unlink(missing_ok=True)
    if cause is not None:
        text = "interrupted" if cause == signal.SIGINT else f"ended by {cause.name}"
    elif late:
        text = f"error: {options.model}: the run did not end {limit_text(options.timeout)}"
    else:
        runtime, name = options.runtime or "the runtime", signal.Signals(-code).name
        text = f"error: {options.model}: {runtime} ended the process that ran it ({name})"
    print(f"ndgather run: {one_line(text)}", file=sys.stderr)
    return 1 if cause is None else 128 + cause
