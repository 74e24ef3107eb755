"""How commands print: tables, times, and what a terminal can show."""

from __future__ import annotations

import logging
import math
import os
import shutil
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ndgather.errors.shape_errors import shown
from ndgather.errors.texts import one_line
from ndgather.log import LOGGER
from ndgather.models.graph.ports import dtype_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy as np

    from ndgather.models.graph.ports import NodeTime
    from ndgather.stored import Estimate

TITLES = ("output", "shape", "dtype", "time", "rate", "file")
NUMBERS = ("time", "rate")
TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
RATES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
WIDTHS = (40, 100)  # of text: narrower breaks every line, wider is hard to read


def terminal() -> tuple[int, bool]:
    """Return how long a line of text may be, and whether it may have colours."""
    narrowest, widest = WIDTHS
    width = min(max(shutil.get_terminal_size().columns, narrowest), widest)
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return width, sys.stdout.isatty() and not plain


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return one_line(super().format(record))


@contextmanager
def told(verbose: bool) -> Iterator[None]:
    """Write what is logged to standard error, if that is wanted."""
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


def columns(
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    seconds: float | None,
    file: Path | None,
) -> tuple[str, ...]:
    count = math.prod(shape) * dtype.itemsize
    rate = f"{_scaled(count / seconds, RATES)}/s" if count and seconds else ""
    passed = "" if seconds is None else time_text(seconds)
    return (name, shown(shape), dtype_name(dtype), passed, rate, str(file or ""))


def print_table(rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows of texts in columns, numbers to the right; an empty column is left out."""
    lines = [""] * (len(rows) + 1)
    for title, *texts in zip(TITLES, *rows, strict=True):
        if any(texts):
            column = [title, *map(one_line, texts)]
            width = max(map(len, column))
            lines = [
                f"{line}  {text.rjust(width) if title in NUMBERS else text.ljust(width)}"
                for line, text in zip(lines, column, strict=True)
            ]
    print("\n".join(line[2:].rstrip() for line in lines))


def print_nodes(nodes: Sequence[NodeTime]) -> None:
    """Print what each node took, the slowest first."""
    print()
    for each in sorted(nodes, key=lambda node: -node.seconds):
        size = _scaled(each.bytes, RATES)
        print(f"{time_text(each.seconds):>8}  {size:>8}  {each.operator}  {one_line(each.name)}")


def print_estimate(found: Estimate, result: str = "the result has") -> None:
    """Print what a call would read and take; `result` is what has `found.result_bytes`."""
    known = "" if found.stored_is_known else "about "
    stored = f"{known}{_scaled(found.stored_bytes, RATES)}"
    print(
        f"{found.points} points in {found.chunks} chunks: {_scaled(found.decoded_bytes, RATES)} "
        f"to decode, {stored} as they are stored; {result} "
        f"{_scaled(found.result_bytes, RATES)}; memory at most {_scaled(found.memory_bytes, RATES)}"
    )


def time_text(seconds: float) -> str:
    return _scaled(seconds, TIMES)


def node_count(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"


def _scaled(value: float, units: Sequence[tuple[float, str]]) -> str:
    """Write `value` in the largest unit that it reaches, three digits at least."""
    size, unit = next((item for item in units if value >= item[0]), units[-1])
    return f"{value / size:#.3g} {unit}".replace(". ", " ")
