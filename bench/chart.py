"""The charts of one run: each library over ours, case by case, and how cost grows with size."""

from __future__ import annotations

from itertools import groupby
from statistics import quantiles
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure

from .cases import GROUPS
from .peers import OWN
from .report import ENOUGH_OF_LIMIT, geometric_mean, ratios_by_peer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .measure import Result
    from .report import Record

_COLOURS = {
    "numpy": "#4C72B0",
    "torch": "#DD5B36",
    "onnxruntime": "#8172B3",
    "openvino": "#2A9D8F",
    "jax": "#C44E8A",
    "numba": "#B08D2E",
}
_OWN_COLOUR = "#111827"
_SHORT_COLOUR = "#D9822B"
_LEAST_RATIO = 0.4
_WIDEST_RATIO = 100.0
_INCHES_PER_ROW = 0.21
_TICKS = (0.5, 1, 2, 3, 5, 10, 20, 50, 100)
_STYLE: Any = {"font.size": 8.5, "font.family": "sans-serif", "svg.hashsalt": "ndgather"}
_TITLE: Any = {"fontsize": 12, "fontweight": "bold"}


def draw_libraries(run: Record, path: Path) -> None:
    """Draw one bar per library: its mean time over ours, and where half of the cases lie."""
    ratios = {
        peer: each for peer, each in ratios_by_peer(run).items() if peer in _COLOURS and each[1:]
    }
    slowest_first = sorted(ratios, key=lambda peer: -geometric_mean(ratios[peer]))
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(11, 0.42 * len(ratios) + 1.5), layout="constrained")
        axes = figure.subplots()
        for place, peer in enumerate(slowest_first):
            mean = geometric_mean(ratios[peer])
            low, _, high = quantiles(ratios[peer], n=4, method="inclusive")
            axes.barh(place, mean - 1, left=1, height=0.62, color=_COLOURS[peer])
            axes.plot([low, high], [place, place], color=_OWN_COLOUR, linewidth=1.2)
            axes.text(
                max(high, mean) * 1.04,
                place,
                f"{mean:.1f} times as long, {len(ratios[peer])} cases",
                va="center",
            )
        axes.axvline(1, color=_OWN_COLOUR, linewidth=1.6)
        axes.set_yticks(range(len(ratios)), slowest_first)
        axes.invert_yaxis()
        _draw_ratio_axis(axes)
        ends = [0.8, *axes.dataLim.intervalx]
        axes.set_xlim(min(ends) * 0.9, max(ends) * 1.8)
        axes.set_xlabel(
            "geometric mean over the cases that it can do;"
            " the thin line spans the middle half of them"
        )
        figure.suptitle(
            f"Time of each library in units of {OWN.name}'s", x=0.01, ha="left", **_TITLE
        )
        _save(figure, path)


def _draw_ratio_axis(axes: Any) -> None:
    axes.set_xscale("log")
    axes.set_xticks(_TICKS, [f"{tick:g}x" for tick in _TICKS])
    axes.minorticks_off()
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#E5E7EB", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def draw(run: Record, path: Path) -> None:
    """Draw one line per case: how long each library takes over ours, and how near the limit."""
    results = [result for result in run.results if result.own is not None]
    groups = [
        (name, list(members))
        for name, members in groupby(
            sorted(results, key=lambda result: list(GROUPS).index(result.case.group)),
            key=lambda result: result.case.group,
        )
    ]
    for _, members in groups:
        members.sort(key=lambda result: -(result.ratio or 0))
    places = _places(groups)
    height = max(places.values(), default=0) + 1.0
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(11, height * _INCHES_PER_ROW + 1.7), layout="constrained")
        times, shares = figure.subplots(1, 2, sharey=True, width_ratios=(4, 1))
        _draw_times(times, results, places)
        _draw_shares(shares, results, places)
        times.set_yticks(
            [places[result.case.name] for result in results],
            [result.case.name for result in results],
        )
        times.set_ylim(height, -1.2)
        for name, members in groups:
            top = places[members[0].case.name]
            times.text(
                _WIDEST_RATIO * 1.15,
                top - 0.85,
                GROUPS[name],
                ha="right",
                va="center",
                style="italic",
                color="#6B7280",
            )
            for axes in (times, shares):
                axes.axhline(top - 1.3, color="#D1D5DB", linewidth=0.6)
        figure.legend(loc="outside upper right", ncols=3, frameon=False)
        figure.suptitle(_title(run), x=0.01, ha="left", **_TITLE)
        _save(figure, path)


def _title(run: Record) -> str:
    ratios = [result.ratio for result in run.results if result.ratio is not None]
    if not ratios:
        return "Nothing was compared"
    return (
        f"The fastest other library takes {geometric_mean(ratios):.2f} times as long as"
        f" {OWN.name}\n"
        f"({len(ratios)} cases, geometric mean, {run.setting.threads} threads,"
        f" {run.setting.processor})"
    )


def _places(groups: Sequence[tuple[str, Sequence[Result]]]) -> dict[str, float]:
    """Return the height of each case's line, with room for a title above each group."""
    places: dict[str, float] = {}
    at = 0.0
    for _, members in groups:
        for result in members:
            places[result.case.name] = at
            at += 1.0
        at += 1.3
    return places


def _draw_times(axes: Any, results: Sequence[Result], places: dict[str, float]) -> None:
    _draw_ratio_axis(axes)
    axes.axvspan(0.2, 1, color="#FEF2F2", zorder=0)
    axes.axvline(1, color=_OWN_COLOUR, linewidth=1.6, zorder=2)
    seen: set[str] = set()
    for result in results:
        at, own = places[result.case.name], result.own
        assert own is not None
        ratios = {
            timing.peer: timing.seconds / own.seconds
            for timing in result.timings
            if timing.peer in _COLOURS
        }
        if not ratios:
            continue
        least, most = min(ratios.values()), max(ratios.values())
        axes.plot(
            [max(min(least, 1), _LEAST_RATIO), min(max(most, 1), _WIDEST_RATIO)],
            [at, at],
            color="#D1D5DB",
            linewidth=1,
            zorder=1,
        )
        for peer, ratio in ratios.items():
            shown = min(max(ratio, _LEAST_RATIO), _WIDEST_RATIO)
            marker = "o" if shown == ratio else ">" if shown < ratio else "<"
            axes.plot(
                shown,
                at,
                marker=marker,
                markersize=6.5 if ratio == least else 4.5,
                color=_COLOURS[peer],
                markeredgecolor="white",
                markeredgewidth=0.5,
                linestyle="none",
                zorder=3,
            )
            seen.add(peer)
    for peer in (name for name in _COLOURS if name in seen):
        axes.plot([], [], "o", markersize=6, color=_COLOURS[peer], label=peer)
    axes.set_xlim(_LEAST_RATIO * 0.9, _WIDEST_RATIO * 1.2)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xlabel(
        f"time of the same call in units of {OWN.name}'s (right of the line: slower);"
        " large dot: the fastest"
    )


def _draw_shares(axes: Any, results: Sequence[Result], places: dict[str, float]) -> None:
    for result in results:
        share = result.limit_fraction
        if share is None or not result.memory_bound:
            continue
        colour = _OWN_COLOUR if share >= ENOUGH_OF_LIMIT else _SHORT_COLOUR
        axes.barh(places[result.case.name], min(share, 1.2), height=0.6, color=colour)
    axes.axvline(ENOUGH_OF_LIMIT, color="#6B7280", linewidth=0.8, linestyle="--")
    axes.set_xlim(0, 1.2)
    ticks = (0, 0.35, ENOUGH_OF_LIMIT, 1)
    axes.set_xticks(ticks, [f"{tick:.0%}" for tick in ticks])
    axes.xaxis.tick_top()
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_label_position("top")
    axes.set_xlabel(
        f"of the machine's limit,\nbeyond the caches\n(orange: below {ENOUGH_OF_LIMIT:.0%})"
    )
    axes.spines[:].set_visible(False)
