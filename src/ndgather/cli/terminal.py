"""Text and progress bars for the terminal."""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ndgather.errors import one_line
from ndgather.messages import LOGGER

TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
WIDTHS = (40, 100)  # of text


def page_width() -> int:
    """Return the longest line: that of a terminal, or 0, no limit, for a file or a pipe."""
    narrowest, widest = WIDTHS
    if not sys.stdout.isatty():
        return 0
    return min(max(shutil.get_terminal_size().columns, narrowest), widest)


def time_text(seconds: float) -> str:
    return scaled(seconds, TIMES)


def scaled(value: float, units: Sequence[tuple[float, str]]) -> str:
    """Format `value` in the largest unit below it, with at least three digits."""
    size, unit = next((item for item in units if value >= item[0]), units[-1])
    return f"{value / size:#.3g} {unit}".replace(". ", " ")


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return one_line(super().format(record))


@contextmanager
def log_to_stderr(verbose: bool) -> Iterator[None]:
    """Write the log to standard error with ``--verbose``."""
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


PATIENCE_S = 1.0  # before a bar is shown
_STEP_S = 0.25


def shows_progress(quiet: bool = False) -> bool:
    """Return True on a terminal, with tqdm installed."""
    return sys.stderr.isatty() and not quiet and find_spec("tqdm") is not None


@contextmanager
def node_bar(options: argparse.Namespace) -> Iterator[Callable[[int, int], object] | None]:
    """Show how many nodes of a model have run, and the time."""
    if not shows_progress(options.quiet):
        yield None
        return
    from tqdm import tqdm  # noqa: PLC0415 - an optional package

    with (
        tqdm(
            desc=one_line(Path(options.model).name),
            unit="node",
            leave=False,
            delay=PATIENCE_S,
            ncols=shutil.get_terminal_size().columns,
        ) as shown_bar,
        _refreshed(shown_bar),
    ):

        def progress(done: int, total: int) -> None:
            shown_bar.total = total
            shown_bar.update(done - shown_bar.n)

        yield progress


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on a terminal how long a command has worked, if it takes more than a second."""
    if not shows_progress():
        yield
        return
    from tqdm import tqdm  # noqa: PLC0415 - an optional package

    text = one_line(what).replace("{", "{{").replace("}", "}}") + ": {elapsed}"
    with tqdm(bar_format=text, leave=False, delay=PATIENCE_S) as shown_bar, _refreshed(shown_bar):
        yield


@contextmanager
def _refreshed(shown_bar: Any) -> Iterator[None]:
    """Refresh the time of a bar while no node finishes."""
    ended = threading.Event()

    def refresh() -> None:
        if ended.wait(PATIENCE_S):
            return
        while not ended.wait(_STEP_S):
            shown_bar.refresh()

    thread = threading.Thread(name="ndgather-bar", target=refresh, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
