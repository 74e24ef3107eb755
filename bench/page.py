"""The pages about one run, and the chart of the mean ratio of each library."""

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
    "svg.fonttype": "none",  # text instead of outlines: a tenth of the size
    "svg.hashsalt": "ndgather",
}
_EXAMPLES = ("points-64MB", "token-embedding", "scatter-add-points")
_MOST_NAMES = 6
_GROUPS = {
    "tiny": "Small calls",
    "points": "Points: one element per index tuple",
    "rows": "Rows: one slice per index tuple",
    "axis": "Lookups along one axis",
    "elements": "gather_elements",
    "scatter": "Scatters",
    "types": "Index types",
    "short": "Scatters of short rows",
}
_PAGE = """\
# Benchmarks

<!-- Written by the benchmark from its results; do not edit. -->

The time of {count} typical calls, from four lookups in a tiny table to a million lookups in 1 GB,
in ndgather and in the libraries that you may use today. All libraries make the same call on the
same arrays with the same number of threads, and their results are compared first. A ratio is the
time of a library divided by ndgather's time.

| library | supported calls | mean ratio | lowest | highest | slower in |
| --- | ---: | ---: | ---: | ---: | ---: |
{libraries}

For example:

{examples}

![Time of each library relative to ndgather, all cases together]({picture})

Measured on {where.processor}, {where.processors} processors, {where.system}, with \
{where.threads} threads, Python {where.python}, {where.date}.

## Where another library is faster

{in_short}
{findings}

## Every case

[Tables for each kind of call]({cases}) list all times, and the speed of the machine.

## How it was measured

- Only the call itself is timed. Sessions, views of index columns, and tensors of the index type
  that a library requires are prepared beforehand. If a library has several ways to make the call,
  or is faster with one thread, its fastest time counts.
- OpenCV reads indices as pairs of 16-bit integers, which have a quarter of the bytes of int64, and
  checks no bounds. polars reads indices as unsigned 32-bit integers. SciPy computes with float64.
- Before anything is timed, the results of eight runs are compared with NumPy's, because threads
  may lose an update in a single run. ScatterND of onnxruntime does so if it has a reduction, and
  is not compared. A library that does not support a call, or returns a wrong result, is not timed.
- The libraries take turns, in an order that changes in every round. Each turn begins with an
  untimed call. It starts when the process is idle: threads of onnxruntime spin for 40 ms after a
  call, and threads of torch for 10 ms. A turn is repeated if its threads waited for a processor
  for more than 2 % of the time.
- Times are medians. *Spread* is the interquartile range of ndgather's times divided by the median;
  smaller differences between libraries mean nothing. No page is written if more than 5 of 90 cases
  spread more than 10 %.
- *Ratio*, in the table of a kind of call, is the ratio of the fastest other library.
- *Moved* is the least possible memory traffic: each index is read once, each touched cache line of
  data is read once, and the output is written once.
- *Of limit* is the least possible time divided by ndgather's time. The least possible time is the
  longer of two times: the time to copy the moved bytes at the measured speed, and, for slices of at
  most one cache line at random places, the time to read as many random cache lines. An asterisk
  marks data and output that fit in the last-level cache, where memory is not the limit.

## How to repeat it

In a checkout, `make bench` measures everything and writes this page. To do it in two steps:

    python -m bench --json run.json
    python -m bench --load run.json --page docs/benchmarks.md

Times on another machine differ.

## Versions

{versions}
"""
_CASES_PAGE = """\
# Benchmark cases

<!-- Written by the benchmark from its results; do not edit. -->

The times behind the [benchmarks](PAGE), where the columns are explained.

SECTIONS

## What the machine allows

:::{dropdown} Speed of copies and of random reads

```text
LIMITS
```
:::
"""


def write(run: Record, path: Path) -> None:
    """Write the page to `path`, and beside it its picture and the page of its cases."""
    picture, cases = path.with_suffix(".svg"), path.with_name(f"{path.stem}-cases.md")
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(run, picture)
    path.write_text(text(run, picture.name, cases.name))
    cases.write_text(cases_text(run, path.name))


def text(run: Record, picture: str, cases: str) -> str:
    """Return the page as Markdown, with the files of its picture and of the page of its cases."""
    in_short, others = findings(run)
    return _PAGE.format(
        count=len(run.results),
        libraries=_libraries(run),
        examples=_list(map(_example, _examples(run))),
        in_short=_list(in_short),
        picture=picture,
        where=run.setting,
        findings=_list(others),
        cases=cases,
        versions=_list(f"{name} {version}" for name, version in run.setting.versions.items()),
    )


def cases_text(run: Record, page: str) -> str:
    """Return the page of all cases as Markdown, with the file of the page that explains it."""
    few = [peer for peer, times in ratios_by_peer(run).items() if 2 * len(times) < len(run.results)]
    many = [peer for peer in run.setting.versions if peer not in few]
    groups: dict[str, list[Result]] = {}
    for result in run.results:
        groups.setdefault(result.case.group, []).append(result)
    sections = [
        f"## {_GROUPS.get(name, name)}\n\n{_folded(f'{len(results)} cases', _table(results, many))}"
        for name, results in groups.items()
    ]
    special = [result for result in run.results if {one.peer for one in result.timings} & {*few}]
    if special:
        title = f"{len(special)} cases with {', '.join(few)}"
        table = _folded(title, _times(special, [OWN.name, *few]))
        sections.append(f"## Libraries for one kind of call\n\n{table}")
    if refusals := _refusals(run.results):
        sections.append(f"## Not timed\n\n{_folded('Reasons', _list(refusals))}")
    filled = _CASES_PAGE.replace("PAGE", page).replace("LIMITS", "\n".join(limit_lines(run)))
    return filled.replace("SECTIONS", "\n\n".join(sections))


def _folded(title: str, content: str) -> str:
    return f":::{{dropdown}} {title}\n\n{content}\n:::"


def _refusals(results: Iterable[Result]) -> list[str]:
    """Return a line for each reason: the libraries and the cases that they were not timed in."""
    cases: dict[tuple[str, str], list[str]] = {}
    for result in results:
        for name, reason in result.refusals.items():
            cases.setdefault((name, reason), []).append(f"`{result.case.name}`")
    peers: dict[tuple[str, str], list[str]] = {}
    for (name, reason), names in sorted(cases.items()):
        where = ", ".join(names) if len(names) <= _MOST_NAMES else f"{len(names)} cases"
        peers.setdefault((where, reason), []).append(name)
    return [f"{', '.join(names)}: {reason} ({where})" for (where, reason), names in peers.items()]


def _table(results: Iterable[Result], peers: list[str]) -> str:
    titles = ["moved", *peers, "spread", "ratio", "of limit"]
    rows = [["case", *titles, "example"], ["---", *["---:"] * len(titles), "---"]]
    for result in results:
        texts = cells(result, peers)
        numbers = [texts[title] for title in titles]
        rows.append([f"`{result.case.name}`", *numbers, result.case.why])
    return _joined(rows)


def _times(results: Iterable[Result], peers: list[str]) -> str:
    rows = [["case", *peers], ["---", *["---:"] * len(peers)]]
    for result in results:
        texts = cells(result, peers)
        rows.append([f"`{result.case.name}`", *(texts[peer] for peer in peers)])
    return _joined(rows)


def _joined(rows: Iterable[Iterable[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _libraries(run: Record) -> str:
    """Return a row for each other library, sorted by the number of calls that it supports."""
    ratios = ratios_by_peer(run)
    return "\n".join(
        f"| {peer} | {len(times)} | **{geometric_mean(times):.2f}** | {min(times):.2f}"
        f" | {max(times):.1f} | {sum(time > 1 for time in times)} |"
        for peer, times in sorted(ratios.items(), key=lambda item: -len(item[1]))
    )


def _examples(run: Record) -> list[Result]:
    """Return the results of the examples, or the first three results if they were not run."""
    named = [result for result in run.results if result.case.name in _EXAMPLES]
    return named or list(run.results[: len(_EXAMPLES)])


def _example(result: Result) -> str:
    timings = sorted(result.timings, key=lambda timing: timing.seconds)
    times = ", ".join(f"{timing.peer} {seconds_text(timing.seconds)}" for timing in timings)
    return f"*{result.case.why}* (`{result.case.name}`): {times}."


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def middle_half(ratios: Iterable[float]) -> tuple[float, float]:
    """Return the quartiles of ratios, interpolated on a logarithmic scale like the axis."""
    low, _, high = quantiles(map(log, ratios), n=4, method="inclusive")
    return exp(low), exp(high)


def draw(run: Record, path: Path) -> None:
    """Draw each library: a bar for the mean ratio, a line for the middle half of its cases."""
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
            " the thin line spans their middle half"
        )
        title = f"Time of each library relative to {OWN.name}"
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
        figure.savefig(path, metadata={"Date": None})
