"""``history.csv``: the speed of revisions on an idle machine, one row per run."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

from .against import git
from .limits import cache_bytes
from .report import processor

if TYPE_CHECKING:
    from collections.abc import Mapping

PATH = Path(__file__).with_name("history.csv")
FIELDS = ("revision", "run", "processor", "caches", "mean", "cases")


def revision() -> str:
    """Return the short name of the current commit, followed by + if files differ from it."""
    changed = git("status", "--porcelain", "--untracked-files=no").strip()
    return git("rev-parse", "--short", "HEAD").decode().strip() + ("+" if changed else "")


def append(run: str, mean: float | None, cases: Mapping[str, float]) -> None:
    """Add a row: a comparison and its lowest ratios, or counted instructions.

    Rows with times name the machine; their `mean` is the mean ratio.
    """
    machine, caches = "", ""
    if mean is not None:
        machine, caches = processor(), f"{cache_bytes(2) >> 10} KiB, {cache_bytes(3) >> 20} MiB"
    is_new = not PATH.exists()
    with PATH.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow(FIELDS)
        row = [revision(), run, machine, caches, "" if mean is None else f"{mean:.3f}"]
        writer.writerow([*row, " ".join(f"{name}={value:.2f}" for name, value in cases.items())])
