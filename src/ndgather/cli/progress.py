"""Bars for somebody who looks at a terminal and waits: of chunks that are read, nodes that run."""

from __future__ import annotations

import shutil
import sys
import threading
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ndgather.errors.texts import one_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

PATIENCE_S = 1.0  # before a bar of nodes is shown
_STEP_S = 0.25


def bar(options: argparse.Namespace) -> Literal[True] | None:
    """Return whether a call shows its progress: to somebody who looks, where tqdm is installed."""
    seen = sys.stderr.isatty() and not options.quiet and find_spec("tqdm") is not None
    return True if seen else None


@contextmanager
def node_bar(options: argparse.Namespace) -> Iterator[Callable[[int, int], object] | None]:
    """Show how many nodes of a model ran, and for how long it is loaded or runs."""
    if bar(options) is None:
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
        _moving(shown_bar),
    ):

        def progress(done: int, total: int) -> None:
            shown_bar.total = total
            shown_bar.update(done - shown_bar.n)

        yield progress


@contextmanager
def _moving(shown_bar: Any) -> Iterator[None]:
    """Have the time of a bar move on, also while no node says that it ran."""
    ended = threading.Event()

    def move() -> None:
        if ended.wait(PATIENCE_S):
            return
        while not ended.wait(_STEP_S):
            shown_bar.refresh()

    thread = threading.Thread(name="ndgather-bar", target=move, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
