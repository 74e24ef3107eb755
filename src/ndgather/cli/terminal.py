"""Options, text layout and progress bars that the commands share."""

from __future__ import annotations

import argparse
import logging
import math
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from ndgather.errors import one_line
from ndgather.messages import LOGGER

TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
WIDTHS = (40, 100)  # minimum and maximum width of a page, in characters


def add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--threads",
        metavar="N",
        type=positive,
        help="the number of threads (default: all cores that this process may use)",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="log to standard error")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")


class Named(argparse.Action):
    """Collect ``NAME=VALUE`` options in a dict, after converting each value with `read`."""

    def __init__(self, read: Callable[[str], object] = str, **options: Any) -> None:
        super().__init__(default={}, **options)
        self.read = read

    def __call__(self, _parser: Any, namespace: Any, values: Any, _option: Any = None) -> None:
        name, equals, text = values.partition("=")
        if not (name and equals and text):
            raise argparse.ArgumentError(self, f"{values!r} is not of the form {self.metavar}")
        named = getattr(namespace, self.dest)
        if name in named:
            raise argparse.ArgumentError(self, f"{name!r} is given twice")
        try:
            setattr(namespace, self.dest, {**named, name: self.read(text)})
        except ValueError as error:
            raise argparse.ArgumentError(self, str(error)) from None


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def duration(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return seconds


def names(text: str) -> list[str]:
    listed = text.split(",")
    if not all(listed):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty name")
    return listed


def require_output(options: argparse.Namespace) -> None:
    """Exit with a usage error unless ``--output`` or ``--dry-run`` is given."""
    if options.output is None and not options.dry_run:
        options.parser.error("one of the arguments -o/--output --dry-run is required")


def add_runtimes(parser: argparse.ArgumentParser, about: str) -> None:
    """Add the option ``--runtime``, a comma-separated list that may be repeated."""
    parser.add_argument(
        "--runtime",
        dest="runtimes",
        metavar="NAME,...",
        action="extend",
        type=names,
        default=[],
        help=about,
    )


def add_loading(
    parser: argparse.ArgumentParser, name: str, file: str, limit: str, more: str = ""
) -> None:
    """Add the options that control how a runtime loads and runs a model."""
    parser.add_argument(
        "--provider",
        dest="providers",
        metavar=name,
        action="append",
        default=[],
        help=f"an onnxruntime execution provider or an OpenVINO device (default: the CPU){more}",
    )
    parser.add_argument(
        "--library",
        dest="libraries",
        metavar=file,
        action="append",
        default=[],
        help=f"a shared library of custom operators for the runtime to load{more}",
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=duration,
        help=f"stop the runtime after this time (default: {limit})",
    )


def page_width() -> int:
    """Return the width of the terminal, or 0 (unlimited) for a file or a pipe."""
    narrowest, widest = WIDTHS
    if not sys.stdout.isatty():
        return 0
    return min(max(shutil.get_terminal_size().columns, narrowest), widest)


def time_text(seconds: float) -> str:
    return scaled(seconds, TIMES)


def scaled(value: float, units: Sequence[tuple[float, str]]) -> str:
    """Round `value` to three significant digits, and use the largest unit that it reaches."""
    rounded = float(f"{value:.3g}")
    size, unit = next((item for item in units if rounded >= item[0]), units[-1])
    return f"{value / size:#.3g} {unit}".replace(". ", " ")


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return one_line(super().format(record))


@contextmanager
def log_to_stderr(verbose: bool) -> Iterator[None]:
    """Write the log to standard error if `verbose` is true."""
    if not verbose:
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("ndgather: %(message)s"))
    level = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOGGER.setLevel(level)
        LOGGER.removeHandler(handler)


PATIENCE_S = 1.0  # delay in seconds before a progress bar appears
_STEP_S = 0.25


def shows_progress(quiet: bool = False) -> bool:
    """Return whether to show progress bars, which require a terminal and tqdm."""
    return sys.stderr.isatty() and not quiet and find_spec("tqdm") is not None


@contextmanager
def working(what: str, quiet: bool = False) -> Iterator[None]:
    """Show the elapsed time on a terminal if a command runs for more than a second."""
    if not shows_progress(quiet):
        yield
        return
    from tqdm import tqdm  # noqa: PLC0415 - an optional package

    text = one_line(what).replace("{", "{{").replace("}", "}}") + ": {elapsed}"
    with tqdm(bar_format=text, leave=False, delay=PATIENCE_S) as shown_bar, _refreshed(shown_bar):
        yield


@contextmanager
def _refreshed(shown_bar: Any) -> Iterator[None]:
    """Update the elapsed time of a progress bar in a background thread."""
    ended = threading.Event()

    def refresh() -> None:
        if ended.wait(PATIENCE_S):
            return
        while not ended.wait(_STEP_S):
            shown_bar.update(0)  # with `refresh`, tqdm would not clear the bar

    thread = threading.Thread(name="ndgather-bar", target=refresh, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
