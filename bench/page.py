"""The page about one run: a picture, what it shows, how it was measured, and the whole table."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .report import (
    bytes_text,
    findings,
    fraction_text,
    limit_lines,
    ratio_text,
    time_text,
)

if TYPE_CHECKING:
    from pathlib import Path

    from .report import Record

_REPEAT = """\
## How to repeat it

In a checkout, `make bench` measures everything and writes this page; or, in two steps,

    python -m bench --json run.json
    python -m bench --load run.json --page docs/benchmarks.md

It also draws every case, in `bench/results/cases.svg`. Another machine gives other numbers.
"""
_METHOD = """\
## How it was measured

- Each library makes the same call on the same arrays, with the same number of threads where it
  has threads. Whatever can be prepared before the call is not timed: sessions, tensors of the
  index dtype that the library wants, views of index columns. Where a library has several ways to
  make the call, the fastest counts.
- Every answer is compared with NumPy's before anything is timed. A library that cannot make the
  call, or gives another answer, is listed below and not timed.
- The libraries take turns in rounds, in an order that changes from round to round, with an untimed
  call before the timed ones. A turn begins when the process is idle: threads of onnxruntime spin
  for 40 ms after a call, those of torch for 10 ms. Times are medians. *Spread* is the distance
  between the quartiles of our times, as a share of the median: smaller differences between
  libraries mean nothing.
- *Moved* is the memory traffic that cannot be avoided: indices are read once, each touched cache
  line of data once, and the output is written once. *Of limit* is the least possible time over
  ours. The least possible time is the larger of two: that of moving these bytes at the measured
  copy speed, and that of the random reads at their measured speed, both for the size of the case.
  An asterisk marks data and output that fit in the last-level cache, where memory is not the limit.
"""


def write(run: Record, path: Path, results: Path) -> None:
    """Write the page to `path`, its picture beside it, and that of every case to `results`."""
    chart = import_module(f"{__package__}.chart")
    picture = path.with_suffix(".svg")
    for folder in (path.parent, results):
        folder.mkdir(parents=True, exist_ok=True)
    chart.draw_libraries(run, picture)
    chart.draw_cases(run, results / "cases.svg")
    path.write_text(text(run, picture.name))


def text(run: Record, picture: str) -> str:
    """Return the page as Markdown, with the file of its picture."""
    where = run.setting
    peers = list(where.versions)
    found = findings(run)
    lines = [
        "# Benchmarks",
        "",
        "Written by the benchmark from its results; do not edit.",
        "",
        "Gathers and scatters as programs make them, each beside every other library that makes",
        "the same call. In short:",
        "",
        *(f"- {line}" for line in found.in_short),
        "",
        f"![Time of each library over ours, all cases together]({picture})\n",
        f"Measured on {where.processor}, {where.processors} processors, {where.system}, with"
        f" {where.threads} threads, Python {where.python}, {where.date}.",
        "",
        "## In which cases",
        "",
        *(f"- {line}" for line in found.cases),
        "",
        _METHOD,
        _REPEAT,
        "## Every case",
        "",
        _table_row("case", "moved", *peers, "spread", "ratio", "of limit", "who does this"),
        _table_row(*["---", *["---:"] * (len(peers) + 4), "---"]),
    ]
    lines += [
        _table_row(
            f"`{result.case.name}`",
            bytes_text(result.bytes_moved),
            *(time_text(result, peer) for peer in peers),
            f"{result.own.spread:.0%}" if result.own else "-",
            ratio_text(result),
            fraction_text(result),
            result.case.why,
        )
        for result in run.results
    ]
    lines += ["", "Ratio: time of the fastest other library over ours.", ""]
    lines += ["## What the machine allows", "", "```text", *limit_lines(run), "```", ""]
    lines += ["## Versions", "", *(f"- {name} {known}" for name, known in where.versions.items())]
    refused: dict[str, list[str]] = {}
    for result in run.results:
        for name, reason in result.refusals.items():
            refused.setdefault(f"{name}, {reason}", []).append(f"`{result.case.name}`")
    if refused:
        lines += ["", "## Not timed", ""]
        lines += [f"- {why}: {', '.join(names)}" for why, names in sorted(refused.items())]
    return "\n".join(lines) + "\n"


def _table_row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
