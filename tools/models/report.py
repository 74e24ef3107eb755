"""Measurements of models: each in a child process, with a line per model and a summary."""

from __future__ import annotations

import os
import statistics
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from tools.child_process import ChildError, ChildProcess

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LIMIT_S = 600
TOLERANCE = 1e-4
_ROW = "{:<52} {:>5} {:>6} {:>5} {:>7} {:>6} {:>6}  {:<30} {}"

Measurement = dict[str, Any]
"""What `measure` returns; "run" alone is the error of a model that ndgather does not run."""


def measured(path: Path, **options: Any) -> Measurement:
    with ChildProcess("tools.models.measure", limit_s=LIMIT_S) as child:
        try:
            measurement: Measurement = child.ask(str(path), options)
        except ChildError as error:
            return {"run": str(error)}
    return measurement


def title() -> str:
    return _ROW.format(
        "model", "nodes", "ours", "finds", "error", "time x", "mem x", "compare",
        "converts to 21, 18, 13, 11",
    )  # fmt: skip


def row(name: str, measurement: Measurement) -> str:
    if "ratio" not in measurement:
        error = measurement.get("run") or f"onnxruntime: {measurement['onnxruntime']}"
        return f"{name:<52} {error}"
    ours, left = measurement["compared"], measurement["left"]
    findings = measurement.get("findings", "")
    peak, peak_alone = measurement["peaks_mib"]
    return _ROW.format(
        name[-52:],
        measurement["nodes"],
        f"{ours}-{left}" if left else ours,
        len(findings) if isinstance(findings, list) else findings[:5],
        measurement["run"],
        f"{measurement['ratio']:.2f}",
        f"{peak / peak_alone:.2f}",
        measurement.get("compare", "")[:30],
        ", ".join(str(error)[:60] for error in measurement.get("convert", {}).values()),
    ).rstrip()


def summary(measurements: Sequence[Measurement]) -> str:
    """Return how many models run and convert, with errors, times and memory."""
    run, failed = runs(measurements), failed_runs(measurements)
    lines = [
        f"{len(measurements)} models; onnxruntime runs {len(run) + len(failed)}, "
        f"and ndgather runs {len(run)} of these",
        f"outputs that differ by more than {TOLERANCE:.0e} of their largest value: "
        f"{len(wrong_runs(measurements))}",
    ]
    if failed_checks(measurements):
        lines.append(f"models that check or infer refuses: {len(failed_checks(measurements))}")
    if run:
        times = [each["ratio"] for each in run]
        more = max(each["more_s"] for each in run)
        lines.append(f"time over onnxruntime's, with loading: {_spread(times)}, {more:.3f} s more")
        peaks = [each["peaks_mib"] for each in run]
        more = max(ours - alone for ours, alone in peaks)
        ratios = [ours / alone for ours, alone in peaks]
        lines.append(f"peak memory over onnxruntime's: {_spread(ratios)}, {more:.0f} MiB more")
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    lines.append(f"load of this machine: {load}")
    complete = [each for each in run if "convert" in each]
    if complete:
        converted = Counter(
            opset for each in complete for opset, error in each["convert"].items() if _same(error)
        )
        counts = ", ".join(f"{count} to {opset}" for opset, count in converted.items())
        lines.append(f"converted, with the same outputs: {counts}")
        different = sum(each["compare"] != "same" for each in complete)
        lines.append(f"models with a node that differs from its specification: {different}")
    return "\n".join(lines)


def error_of(outputs: list[Any], expected: list[Any]) -> float:
    """Return the largest difference of outputs, relative to the largest value of each."""
    worst = 0.0
    for one, value in zip(outputs, expected, strict=True):
        is_maps = isinstance(value, list)  # of a classifier: a dict per row
        other = np.array([list(row.values()) for row in value]) if is_maps else value
        if one.dtype.kind not in "biuf":
            worst = max(worst, float(not np.array_equal(one, other)))
            continue
        left, right = one.astype(np.float64), other.astype(np.float64)
        scale = float(np.nanmax(np.abs(right), initial=0)) or 1.0
        difference = np.where(np.isnan(left) & np.isnan(right), 0, left - right)
        worst = max(worst, float(np.abs(difference).max(initial=0)) / scale)
    return worst


def _spread(ratios: Sequence[float]) -> str:
    return f"median {statistics.median(ratios):.2f}, at most {max(ratios):.2f}"


def runs(measurements: Sequence[Measurement]) -> list[Measurement]:
    return [each for each in measurements if "ratio" in each]


def failed_runs(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Return the models that run in onnxruntime but not in ndgather."""
    return [each for each in measurements if "onnxruntime" not in each and "ratio" not in each]


def failed_checks(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Return the models for which `check` or `infer` raises."""
    checked = [each for each in measurements if "infer" in each]
    return [each for each in checked if isinstance(each["findings"], str) or each["infer"] != "yes"]


def wrong_runs(measurements: Sequence[Measurement]) -> list[Measurement]:
    return [
        each for each in runs(measurements) if each["run"] != "random" and not _same(each["run"])
    ]


def _same(error: str) -> bool:
    try:
        return float(error) <= TOLERANCE
    except ValueError:  # the text of an exception
        return False
