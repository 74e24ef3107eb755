"""The page about one run: charts, what they show, how it was measured, and the whole table."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .peers import OWN
from .processors import ENOUGH
from .report import (
    ENOUGH_OF_LIMIT,
    bytes_text,
    fraction_text,
    gains_text,
    geometric_mean,
    limit_lines,
    ratio_text,
    ratios_by_peer,
    scaling,
    scaling_text,
    time_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from .measure import Result
    from .report import Record

_REPEAT = """\
## How to repeat it

In a checkout, `make bench` measures everything and writes this page; or, in two steps,

    python -m bench --json run.json
    python -m bench --load run.json --page docs/benchmarks.md

On another machine other numbers come out; whether the order of the libraries stays the same is
what a second run is for.
"""
_METHOD = """\
## How it was measured

- Each library runs the same call on the same arrays, with the same number of threads where it
  has threads. Whatever can be made ready before the call is not timed: sessions, tensors in the
  index type the library wants, views of index columns. Where a library has several ways, all are
  tried and the fastest counts.
- Every answer is compared with NumPy's before anything is timed. A library that cannot make the
  call, or answers wrongly, is listed below and not timed.
- The libraries take turns in rounds, in an order that moves on every round, with an untimed call
  before the timed ones. A turn begins when the process is idle: threads of onnxruntime spin for
  40 ms after a call, torch's for 10 ms. Before each round the benchmark waits until the processors
  together are nearly as fast as they ever were, and repeats a round after which they are not:
  virtual ones may share a core for a while. It waits up to three seconds, and four minutes in
  all. Times are medians; outputs are freed as they come. *Spread* is the distance between the
  quartiles of our times, as a share of the median: smaller differences between libraries than
  that mean nothing.
- *Moved* is what cannot be avoided: indices read once, each touched cache line of data once,
  output written once. *Of limit* is the least possible time over ours: the larger of moved
  bytes at the measured copy speed and random places at the measured random-read speed, each
  with its best number of threads, measured in the same run for the size of the case. A star
  marks data and output that fit the last-level cache: what they take is not memory's doing.
- *Scaling* is our time on one thread, measured in the same rounds, over ours; behind it stands
  how much faster the limit is with its best number of threads than on one. The limit of a size is
  measured once, before its first case, when virtual processors may be more free, or less.
"""


def write(run: Record, path: Path) -> None:
    """Write the page to `path` and its charts beside it."""
    chart = path.with_suffix(".svg")
    libraries = path.with_name(f"{path.stem}-libraries.svg")
    path.parent.mkdir(parents=True, exist_ok=True)
    charts = import_module(f"{__package__}.chart")
    drawings: dict[str, str] = {}
    if any(each[1:] for each in ratios_by_peer(run).values()):
        charts.draw_libraries(run, libraries)
        drawings["Time of each library over ours, all cases together"] = libraries.name
    charts.draw(run, chart)
    drawings["Time of each library over ours, case by case"] = chart.name
    path.write_text(text(run, drawings))


def text(run: Record, drawings: Mapping[str, str]) -> str:
    """Return the page as Markdown; `drawings` gives the file of each picture by its title."""
    where = run.setting
    peers = [name for name in where.versions if name != "reference"]
    lines = [
        "# Benchmarks",
        "",
        "Written by the benchmark from its results; do not edit.",
        "",
        f"Measured on {where.processor}, {where.processors} processors, {where.system}, with"
        f" {where.threads} threads, Python {where.python}, {where.date}.",
        "",
        *_findings(run),
        "",
        *(f"![{title}]({name})\n" for title, name in drawings.items()),
        _METHOD,
        _REPEAT,
        "## Every case",
        "",
        _table_row(
            "case", "moved", *peers, "spread", "ratio", "of limit", "scaling", "who does this"
        ),
        _table_row(*["---", *["---:"] * (len(peers) + 5), "---"]),
    ]
    lines += [
        _table_row(
            f"`{result.case.name}`",
            bytes_text(result.bytes_moved),
            *(time_text(result, peer) for peer in peers),
            f"{result.own.spread:.0%}" if result.own else "-",
            ratio_text(result),
            fraction_text(result),
            scaling_text(result),
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
            if name != "reference":
                refused.setdefault(f"{name}, {reason}", []).append(f"`{result.case.name}`")
    if refused:
        lines += ["", "## Not timed", ""]
        lines += [f"- {why}: {', '.join(names)}" for why, names in sorted(refused.items())]
    return "\n".join(lines) + "\n"


def _table_row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _findings(run: Record) -> list[str]:
    """Return the headline numbers, and every case that is slower or far from the limit."""
    compared = [(result, result.ratio) for result in run.results if result.ratio is not None]
    if not compared:
        return ["ndgather was not measured."]
    ratios = [ratio for _, ratio in compared]
    slower = [f"`{result.case.name}` ({ratio:.2f})" for result, ratio in compared if ratio < 1]
    bound = [
        (result, result.limit_fraction)
        for result in run.results
        if result.memory_bound and result.limit_fraction is not None
    ]
    far = [
        f"`{result.case.name}` ({share:.0%}, {result.limit.set_by})"
        for result, share in bound
        if share < ENOUGH_OF_LIMIT
    ]
    return [
        f"- {len(compared)} cases; the fastest other library of each takes"
        f" **{geometric_mean(ratios):.2f} times** as long as {OWN.name} (geometric mean),"
        f" from {min(ratios):.2f} to {max(ratios):.1f} times.",
        *_by_operator(compared),
        f"- Another library is faster on {len(slower)}: {', '.join(slower) or 'none'}.",
        f"- Of {len(bound)} cases beyond the last-level cache, {len(bound) - len(far)} reach"
        f" {ENOUGH_OF_LIMIT:.0%} of the limit. Below it, with what sets the limit:"
        f" {', '.join(far) or 'none'}.",
        *_headroom(run),
        *_scaling(run),
        *_disturbed(run),
    ]


def _disturbed(run: Record) -> list[str]:
    """Return which cases were measured though the processors were not free."""
    results = run.results
    cases = [
        f"`{result.case.name}` ({result.free:.0%})" for result in results if result.free < ENOUGH
    ]
    if not cases:
        return []
    return [
        f"- In {len(cases)} of {len(results)} cases the processors were not free in every round;"
        f" with how fast they were together, as a share of the best: {', '.join(cases)}."
    ]


def _scaling(run: Record) -> list[str]:
    """Return what threads bring, beside what they bring to the limit."""
    scaled, threads = scaling(run), run.setting.threads
    if not scaled.known:
        return []
    least = f"at least {scaled.wanted:.3g} times as fast"
    could = f"the limit is {least} with up to {threads} threads as with one"
    lines = [f"- There is no case in which {could}."]
    if scaled.could:
        own, limit = (geometric_mean(gains) for gains in zip(*scaled.could.values(), strict=True))
        miss = [f"`{name}` ({gains_text(*gains)})" for name, gains in scaled.miss.items()]
        lines = [
            f"- In {len(scaled.could)} cases {could} (geometric mean {limit:.2f}); there {OWN.name}"
            f" is {own:.2f} times as fast, and in {len(scaled.could) - len(miss)} of them {least}."
            f" The others: {', '.join(miss) or 'none'}."
        ]
    lose = [f"`{name}` ({gain:.2f})" for name, (gain, _) in scaled.lose.items()]
    return [
        *lines,
        f"- Threads cost more than a tenth in {len(lose)} of {len(scaled.known)}:"
        f" {', '.join(lose) or 'none'}.",
    ]


def _headroom(run: Record) -> list[str]:
    """Return what the ratio of the cases that memory bounds would be at its limit."""
    headrooms = [
        result.headroom
        for result in run.results
        if result.memory_bound and result.headroom is not None
    ]
    if not headrooms:
        return []
    return [
        "- In these cases the fastest other library takes"
        f" **{geometric_mean(headrooms):.2f} times** as long as memory allows (geometric mean):"
        " no program can be further ahead of all others than that."
    ]


def _by_operator(compared: Sequence[tuple[Result, float]]) -> list[str]:
    """Return the mean of each operator."""
    ratios: dict[str, list[float]] = {}
    for result, ratio in compared:
        ratios.setdefault(result.case.operator, []).append(ratio)
    means = (
        f"`{name}` {geometric_mean(each):.2f} ({len(each)})"
        for name, each in sorted(ratios.items())
    )
    return [f"- By operator, with the number of cases: {', '.join(means)}."]
