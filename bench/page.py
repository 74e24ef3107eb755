"""The page about one run, and its chart: the mean time of every library over ours."""

from __future__ import annotations

from importlib import import_module
from math import exp, log
from statistics import quantiles
from typing import TYPE_CHECKING, Any

from .peers import OWN
from .report import (
    cells,
    findings,
    geometric_mean,
    limit_lines,
    ratios_by_peer,
    seconds_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from .measure import Result
    from .report import Record

_COLOUR = "#4C72B0"
_LINE_COLOUR = "#111827"
_TICKS = (0.5, 1, 2, 3, 5, 10, 20, 50, 100)
_STYLE: Any = {
    "font.size": 8.5,
    "font.family": "sans-serif",
    "svg.fonttype": "none",  # letters as text: a tenth of the size
    "svg.hashsalt": "ndgather",
}
_EXAMPLES = ("points-64MB", "token-embedding", "scatter-add-points")
_MOST_NAMES = 30
_PAGE = """\
# Benchmarks

<!-- Written by the benchmark from its results; do not edit. -->

How long a gather or a scatter takes with ndgather, and with the library that you may use now:
{count} calls as people make them, from four lookups in a tiny table to a million in 1 GB. Every
library gives the same answer to the same call on the same arrays, on the same number of threads.

| instead of | calls that it supports | its time over ndgather's (mean) | from | to | slower in |
| --- | ---: | ---: | ---: | ---: | ---: |
{libraries}

Three of the calls:

{examples}

![Time of each library over ours, all cases together]({picture})

Measured on {where.processor}, {where.processors} processors, {where.system}, with \
{where.threads} threads, Python {where.python}, {where.date}.

## Where another library is faster

{in_short}
{cases}

## How it was measured

- Every library makes the same call on the same arrays, with the same number of threads if it has
  threads. Preparations are not timed: sessions, tensors of the index dtype that the library
  requires, views of index columns. If a library has several ways to make the call, the fastest
  counts.
- OpenCV takes pairs of 16-bit integers as indices, a quarter of the bytes of int64, and checks none
  of them. polars takes unsigned integers of 32 bits, SciPy takes float64.
- The answers of eight runs are compared with NumPy's before anything is timed: threads may lose an
  update in one of them. onnxruntime's ScatterND with a reduction does, and is not compared. A
  library that has no such call, or returns another answer, is listed below and not timed.
- The libraries take turns in rounds, in an order that changes from round to round, with an untimed
  call before the timed ones. A turn begins when the process is idle: threads of onnxruntime spin
  for 40 ms after a call, those of torch for 10 ms. A turn in which the threads waited for a
  processor, for more than 2 % of it, is repeated. A library with threads is timed with one thread
  too, and the faster counts. Times are medians. *Spread* is the distance between the quartiles of
  our times, as a share of the median: smaller differences between libraries mean nothing. No page
  is written, and a run for one ends, once more than 5 of 90 cases spread more than 10 %.
- *Moved* is the memory traffic that cannot be avoided: indices are read once, each touched cache
  line of data once, and the output is written once. *Of limit* is the least possible time over
  ours. The least possible time is the larger of two: that of moving these bytes at the measured
  copy speed, and, for slices of at most one cache line at random places, that of as many random
  cache lines. A line takes the latency of memory over the number of misses under way at once:
  chains of reads that wait for each other, more of them until a read gets no cheaper. An asterisk
  marks data and output that fit in the last-level cache, where memory is not the limit.

## How to repeat it

In a checkout, `make bench` measures everything and writes this page; or, in two steps,

    python -m bench --json run.json
    python -m bench --load run.json --page docs/benchmarks.md

Another machine gives other numbers.

## Every case

{table}

Ratio: time of the fastest other library over ours.

## Libraries for one kind of call

{special}

## What the machine allows

```text
{limits}
```

## Versions

{versions}
"""


def write(run: Record, path: Path) -> None:
    """Write the page to `path`, and its picture beside it."""
    picture = path.with_suffix(".svg")
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(run, picture)
    path.write_text(text(run, picture.name))


def text(run: Record, picture: str) -> str:
    """Return the page as Markdown, with the file of its picture."""
    ratios = ratios_by_peer(run)
    few = [peer for peer, times in ratios.items() if 2 * len(times) < len(run.results)]
    many = [peer for peer in run.setting.versions if peer not in few]
    special = [result for result in run.results if {one.peer for one in result.timings} & {*few}]
    in_short, cases = findings(run)
    page = _PAGE.format(
        count=len(run.results),
        libraries=_libraries(run),
        examples=_list(map(_example, _examples(run))),
        in_short=_list(in_short),
        picture=picture,
        where=run.setting,
        cases=_list(cases),
        table=_table(run.results, many),
        special=_table(special, [OWN.name, *few]) if few else "None was measured.",
        limits="\n".join(limit_lines(run)),
        versions=_list(f"{name} {version}" for name, version in run.setting.versions.items()),
    )
    refusals: dict[str, list[str]] = {}
    for result in run.results:
        for name, reason in result.refusals.items():
            refusals.setdefault(f"{name}, {reason}", []).append(f"`{result.case.name}`")
    if refusals:
        lines = (
            f"{reason}: {', '.join(names) if len(names) <= _MOST_NAMES else f'{len(names)} cases'}"
            for reason, names in sorted(refusals.items())
        )
        page += f"\n## Not timed\n\n{_list(lines)}\n"
    return page


def _table(results: Iterable[Result], peers: list[str]) -> str:
    titles = ["moved", *peers, "spread", "ratio", "of limit"]
    rows = [["case", *titles, "who does this"], ["---", *["---:"] * len(titles), "---"]]
    for result in results:
        texts = cells(result, peers)
        numbers = [texts[title] for title in titles]
        rows.append([f"`{result.case.name}`", *numbers, result.case.why])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _libraries(run: Record) -> str:
    """Return a row for every other library, the one with the largest share of the calls first."""
    ratios = ratios_by_peer(run)
    return "\n".join(
        f"| {peer} | {len(times)} | **{geometric_mean(times):.2f}** | {min(times):.2f}"
        f" | {max(times):.1f} | {sum(time > 1 for time in times)} |"
        for peer, times in sorted(ratios.items(), key=lambda item: -len(item[1]))
    )


def _examples(run: Record) -> list[Result]:
    """Return the results of the three examples, or the first ones of a run without them."""
    named = [result for result in run.results if result.case.name in _EXAMPLES]
    return named or list(run.results[: len(_EXAMPLES)])


def _example(result: Result) -> str:
    timings = sorted(result.timings, key=lambda timing: timing.seconds)
    times = ", ".join(f"{timing.peer} {seconds_text(timing.seconds)}" for timing in timings)
    return f"*{result.case.why}* (`{result.case.name}`): {times}."


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def middle_half(ratios: Iterable[float]) -> tuple[float, float]:
    """Return the quartiles of ratios, interpolated as their geometric mean and the axis are."""
    low, _, high = quantiles(map(log, ratios), n=4, method="inclusive")
    return exp(low), exp(high)


def draw(run: Record, path: Path) -> None:
    """Draw one bar for every library: its mean time over ours, and the middle half of the cases."""
    ratios = {peer: times for peer, times in ratios_by_peer(run).items() if len(times) > 1}
    slowest_first = sorted(ratios, key=lambda peer: -geometric_mean(ratios[peer]))
    mpl: Any = import_module("matplotlib")
    with mpl.rc_context(_STYLE):
        size = (11, 0.42 * len(ratios) + 1.5)
        figure = import_module("matplotlib.figure").Figure(size, layout="constrained")
        axes = figure.subplots()
        for position, peer in enumerate(slowest_first):
            mean = geometric_mean(ratios[peer])
            low, high = middle_half(ratios[peer])
            axes.barh(position, mean - 1, left=1, height=0.62, color=_COLOUR)
            axes.plot([low, high], [position, position], color=_LINE_COLOUR, linewidth=1.2)
            label = f"{mean:.1f} times as long, {len(ratios[peer])} cases"
            axes.text(max(high, mean) * 1.04, position, label, va="center")
        axes.axvline(1, color=_LINE_COLOUR, linewidth=1.6)
        axes.set_yticks(range(len(ratios)), slowest_first)
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.set_xticks(_TICKS, [f"{tick:g}x" for tick in _TICKS])
        axes.minorticks_off()
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color="#E5E7EB", linewidth=0.5)
        axes.set_axisbelow(True)
        axes.spines[:].set_visible(False)
        ends = [0.8, *axes.dataLim.intervalx]
        axes.set_xlim(min(ends) * 0.9, max(ends) * 1.8)
        axes.set_xlabel(
            "geometric mean over the cases that the library supports;"
            " the thin line spans the middle half of them"
        )
        title = f"Time of each library in units of {OWN.name}'s"
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
        figure.savefig(path, metadata={"Date": None})
