"""The charts of one run: each library over ours, all cases together and case by case."""

from __future__ import annotations

from itertools import groupby
from statistics import quantiles
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure

from .cases import GROUPS
from .peers import OWN
from .report import geometric_mean, ratios_by_peer

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
    "numba": "#B08D2E",
}
_OWN_COLOUR = "#111827"
_LEAST_RATIO = 0.4
_WIDEST_RATIO = 100.0
_INCHES_PER_ROW = 0.21
_TICKS = (0.5, 1, 2, 3, 5, 10, 20, 50, 100)
_STYLE: Any = {
    "font.size": 8.5,
    "font.family": "sans-serif",
    "svg.fonttype": "none",  # letters as text: a tenth of the size
    "svg.hashsalt": "ndgather",
}
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
        for position, peer in enumerate(slowest_first):
            mean = geometric_mean(ratios[peer])
            low, _, high = quantiles(ratios[peer], n=4, method="inclusive")
            axes.barh(position, mean - 1, left=1, height=0.62, color=_COLOURS[peer])
            axes.plot([low, high], [position, position], color=_OWN_COLOUR, linewidth=1.2)
            axes.text(
                max(high, mean) * 1.04,
                position,
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


def draw_cases(run: Record, path: Path) -> None:
    """Draw one line per case: how long each library takes over ours."""
    results = [result for result in run.results if result.own is not None]
    groups = [
        (name, sorted(members, key=lambda result: -(result.ratio or 0)))
        for name, members in groupby(results, key=lambda result: result.case.group)
    ]
    positions = _positions(groups)
    height = max(positions.values(), default=0) + 1.0
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(11, height * _INCHES_PER_ROW + 1.7), layout="constrained")
        axes = figure.subplots()
        _draw_times(axes, results, positions)
        axes.set_yticks(list(positions.values()), list(positions))
        axes.set_ylim(height, -1.2)
        for name, members in groups:
            top = positions[members[0].case.name]
            axes.text(_WIDEST_RATIO, top - 0.85, GROUPS[name], ha="right", style="italic")
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


def _positions(groups: Sequence[tuple[str, Sequence[Result]]]) -> dict[str, float]:
    """Return the height of each case's line, with room for a title above each group."""
    positions: dict[str, float] = {}
    at = 0.0
    for _, members in groups:
        for result in members:
            positions[result.case.name] = at
            at += 1.0
        at += 1.3
    return positions


def _draw_times(axes: Any, results: Sequence[Result], positions: dict[str, float]) -> None:
    _draw_ratio_axis(axes)
    axes.axvspan(0.2, 1, color="#FEF2F2", zorder=0)
    axes.axvline(1, color=_OWN_COLOUR, linewidth=1.6, zorder=2)
    seen: set[str] = set()
    for result in results:
        at, own = positions[result.case.name], result.own
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
