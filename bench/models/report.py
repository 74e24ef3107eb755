"""Models measured in processes of their own: a line for each, and what they come to."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LIMIT_S = 600
NEAR = 1e-4
_ROW = "{:<52} {:>5} {:>6} {:>5} {:>7} {:>6} {:>6}  {:<30} {}"
Said = dict[str, Any]
"""What `one_model` says of a model."""


def title() -> str:
    return _ROW.format(
        "model", "nodes", "ours", "finds", "off by", "time x", "mem x", "compare",
        "converts to 21, 18, 13, 11",
    )  # fmt: skip


def measured(path: Path, options: dict[str, Any]) -> Said:
    command = [sys.executable, "-m", "bench.models.one_model", str(path), json.dumps(options)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return {"run": f"no end within {LIMIT_S} s"}
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        return {"run": last[0]}
    said: Said = json.loads(done.stdout.splitlines()[-1])
    return said


def row(name: str, said: Said) -> str:
    if "ratio" not in said:
        return f"{name:<52} {said.get('run') or 'onnxruntime: ' + said['onnxruntime']}"
    converts = ", ".join(str(each)[:60] for each in said.get("convert", {}).values())
    ours = f"{said['compared']}-{said['left']}" if said["left"] else said["compared"]
    found, (mine, theirs) = said.get("findings", ""), said["peaks_mib"]
    compare = said.get("compare", "")[:30]
    return _ROW.format(
        name[-52:], said["nodes"], ours, len(found) if isinstance(found, list) else found[:5],
        said["run"], f"{said['ratio']:.2f}", f"{mine / theirs:.2f}", compare, converts,
    ).rstrip()  # fmt: skip


def summary(lines: Sequence[Said]) -> str:
    """Return how many run, how well, in what time and memory, and how many convert."""
    run, not_run, wrong = run_of(lines), not_run_of(lines), wrong_of(lines)
    told = [
        f"{len(lines)} models; onnxruntime runs {len(run) + len(not_run)}, "
        f"and {len(run)} of these are run",
        f"outputs off by more than {NEAR:.0e} of their scale: {len(wrong)}",
    ]
    refused = refused_of(lines)
    if refused:
        told.append(f"models that check or infer refuses: {len(refused)}")
    if run:
        ratios = [each["ratio"] for each in run]
        late = max(each["more_s"] for each in run)
        told.append(f"time over onnxruntime's, with loading: {_spread(ratios)}, {late:.3f} s more")
        peaks = [each["peaks_mib"] for each in run]
        more = max(ours - theirs for ours, theirs in peaks)
        ratios = [ours / theirs for ours, theirs in peaks]
        told.append(f"peak memory over onnxruntime's: {_spread(ratios)}, {more:.0f} MiB more")
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    told.append(f"load of this machine: {load}")
    whole = [each for each in run if "convert" in each]
    if whole:
        there = [opset for each in whole for opset, off in each["convert"].items() if near(off)]
        counts = ", ".join(f"{count} to {opset}" for opset, count in Counter(there).items())
        told.append(f"converted, with the same outputs: {counts}")
        parting = sum(each["compare"] != "same" for each in whole)
        told.append(f"models of which a node or a runtime parts from the rest: {parting}")
    return "\n".join(told)


def _spread(ratios: Sequence[float]) -> str:
    return f"median {statistics.median(ratios):.2f}, at most {max(ratios):.2f}"


def run_of(lines: Sequence[Said]) -> list[Said]:
    return [each for each in lines if "ratio" in each]


def not_run_of(lines: Sequence[Said]) -> list[Said]:
    """Return what onnxruntime runs and we do not."""
    return [each for each in lines if "onnxruntime" not in each and "ratio" not in each]


def refused_of(lines: Sequence[Said]) -> list[Said]:
    """Return the models of which `check` or `infer` says an error in place of what it found."""
    asked = [each for each in lines if "infer" in each]
    return [each for each in asked if isinstance(each["findings"], str) or each["infer"] != "yes"]


def wrong_of(lines: Sequence[Said]) -> list[Said]:
    return [each for each in run_of(lines) if each["run"] != "random" and not near(each["run"])]


def near(off_by: str) -> bool:
    try:
        return float(off_by) <= NEAR
    except ValueError:  # the text of an error
        return False
