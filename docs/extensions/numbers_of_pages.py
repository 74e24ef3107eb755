"""The numbers on the start page, extracted from the pages that report them."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[1]


def _found(page: str, pattern: str) -> tuple[str, ...]:
    match = re.search(pattern, (DOCS / page).read_text(encoding="utf-8"))
    if match is None:
        raise ValueError(f"{page}: has no text like {pattern}")
    return match.groups()


def numbers() -> dict[str, str]:
    """Return the numbers by the names that are used on pages."""
    cases, ratio = _found("benchmarks.md", r"- (\d+) cases; .* takes ([\d.]+) times as long")
    right, total = _found("conformance.md", r"Right, .*: ndgather (\d+) of (\d+)")
    (others,) = _found("conformance.md", r"Right, .*: ndgather \d+ of \d+, (.*)\.\n")
    shares = [int(a) / int(b) for a, b in re.findall(r"(\d+) of (\d+)", others)]
    (bugs,) = _found("security.md", r"- (\d+) entries: ")
    return {
        "cases": cases,
        "ratio": ratio,
        "right": right,
        "total": total,
        "best_other": f"{max(shares):.0%}",
        "worst_other": f"{min(shares):.0%}",
        "bugs": bugs,
    }
