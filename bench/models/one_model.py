"""One model beside onnxruntime, as a line of JSON: its numbers, times, findings and conversions."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from ndgather.errors import NdgatherError
from ndgather.models import onnx as onnx_models

OPSETS = (21, 18, 13)
ROUNDS = 3
RANDOM = frozenset({"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"})


def main(path: str, options: dict[str, Any]) -> None:
    said: dict[str, Any] = {"findings": outcome(lambda: len(onnx_models.check(path)))}
    said["infer"] = outcome(lambda: onnx_models.infer(path) is None or "yes")
    try:
        theirs, feeds, seconds = in_onnxruntime(path, options)
    except Exception as error:  # onnxruntime and what it is given have errors of any kind
        said["onnxruntime"] = short(error)
    else:
        said |= beside(path, feeds, theirs, seconds)
        said["convert"] = {
            opset: outcome(lambda opset=opset: converted(path, opset, feeds, theirs))
            for opset in OPSETS
        }
    print(json.dumps(said))


def in_onnxruntime(path: str, options: dict[str, Any]) -> tuple[list[Any], dict[str, Any], float]:
    """Run a model as its users do, and return outputs, inputs and the best time with loading."""
    sizes = {}
    for name, size in options.get("sizes", {}).items():
        try:  # a package has one table of sizes for its models
            onnx_models.random_inputs(path, sizes={name: size})
            sizes[name] = size
        except NdgatherError:
            continue
    feeds = onnx_models.random_inputs(path, sizes=sizes)
    for name, value in options.get("inputs", {}).items():
        if name in feeds:
            feeds[name] = np.full_like(feeds[name], value)
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 4
        session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
        theirs = session.run(None, feeds)
        best = min(best, time.perf_counter() - start)
    return theirs, feeds, best


def beside(path: str, feeds: dict[str, Any], theirs: list[Any], seconds: float) -> dict[str, Any]:
    best, result = float("inf"), None
    try:
        for _ in range(ROUNDS):
            start = time.perf_counter()
            result = onnx_models.load(path, runtime="onnxruntime").run(feeds)
            best = min(best, time.perf_counter() - start)
    except NdgatherError as error:
        return {"run": short(error)}
    assert result is not None
    model = onnx.load(path, load_external_data=False)
    random = any(node.op_type in RANDOM for node in model.graph.node)
    ours = [each.array for each in result.outputs]
    return {
        "run": "random" if random else f"{off(ours, theirs):.0e}",
        "compared": result.own_nodes,
        "left": len(result.left),
        "nodes": result.own_nodes + result.other_nodes,
        "ratio": best / seconds,
        "more_s": best - seconds,
    }


def off(ours: list[Any], theirs: list[Any]) -> float:
    """Return how far outputs are off, in parts of the largest value of each."""
    worst = 0.0
    for one, given in zip(ours, theirs, strict=True):
        maps = isinstance(given, list)  # of a classifier: a row for each
        other = np.array([list(each.values()) for each in given]) if maps else given
        if one.dtype.kind not in "biuf":
            worst = max(worst, float(not np.array_equal(one, other)))
            continue
        wide = [each.astype(np.float64) for each in (one, other)]
        scale = float(np.nanmax(np.abs(wide[1]), initial=0)) or 1.0
        both = np.isnan(wide[0]) & np.isnan(wide[1])
        worst = max(
            worst, float(np.abs(np.where(both, 0, wide[0] - wide[1])).max(initial=0)) / scale
        )
    return worst


def converted(path: str, opset: int, feeds: dict[str, Any], theirs: list[Any]) -> str:
    model = onnx_models.convert(path, opset=opset)
    target = Path(path).with_name(f"converted-{opset}.tmp")  # beside the tensors in other files
    target.write_bytes(model.SerializeToString())
    try:
        found = onnx_models.run(target, feeds, runtime="onnxruntime")
    finally:
        target.unlink()
    return f"{off(list(found.values()), theirs):.0e}"


def outcome(work: Any) -> Any:
    try:
        return work()
    except NdgatherError as error:
        return short(error)


def short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:160]


if __name__ == "__main__":
    main(str(Path(sys.argv[1])), json.loads(sys.argv[2]))
