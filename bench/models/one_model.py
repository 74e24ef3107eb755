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

from bench.models.agreement import off
from bench.models.peak_memory import peaks_mib
from ndgather.errors import NdgatherError
from ndgather.models import onnx as onnx_models
from ndgather.models.graph.diagnostics import to_json

OPSETS = (21, 18, 13, 11)
ROUNDS = 3
RANDOM = frozenset({"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"})


def main(path: str, options: dict[str, Any]) -> None:
    said: dict[str, Any] = {}
    theirs: list[Any] = []
    feeds: dict[str, Any] = {}
    try:
        theirs, feeds, seconds = in_onnxruntime(path, options)
    except Exception as error:  # onnxruntime and what it is given have errors of any kind
        said["onnxruntime"] = short(error)
    else:
        said |= beside(path, feeds, theirs, seconds)
        said["peaks_mib"] = peaks_mib(path, feeds)
    if not options["times_only"]:
        said["findings"] = outcome(lambda: to_json(onnx_models.check(path)))
        said["infer"] = outcome(lambda: onnx_models.infer(path) is None or "yes")
        if "ratio" in said:
            said["compare"] = outcome(lambda: compared(path, feeds, options["runtimes"]))
            said["convert"] = {
                opset: outcome(lambda opset=opset: converted(path, opset, feeds, theirs))
                for opset in OPSETS
            }
    print(json.dumps(said))


def in_onnxruntime(path: str, options: dict[str, Any]) -> tuple[list[Any], dict[str, Any], float]:
    """Run a model as its users do, and return outputs, inputs and the best time with loading."""
    feeds = feeds_of(path, options)
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 4
        session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
        theirs = session.run(None, feeds)
        best = min(best, time.perf_counter() - start)
    return theirs, feeds, best


def feeds_of(path: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs that a file has, or random ones of the sizes of the package."""
    if "file" in options:
        kept = {each.name for each in onnx.load(path, load_external_data=False).graph.input}
        with np.load(options["file"]) as found:
            return {name: found[name] for name in found if name in kept}
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
    return feeds


def beside(path: str, feeds: dict[str, Any], theirs: list[Any], seconds: float) -> dict[str, Any]:
    best, result = float("inf"), None
    try:
        for _ in range(ROUNDS):
            start = time.perf_counter()
            result = onnx_models.load(path, runtime="onnxruntime", in_place=True).run(feeds)
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


def compared(path: str, feeds: dict[str, Any], runtimes: list[str]) -> str:
    """Return how many gather and scatter nodes part from their specification, and where."""
    report = onnx_models.compare(path, feeds, runtimes=runtimes)
    parting = [
        f"{run.runtime} {run.status} at {node.where}"
        for node in report.nodes
        for run in node.runs
        if run.status not in {"same", "not run"}
    ]
    stopped = [f"{run.runtime} {run.status}" for run in report.runs if run.status != "ran"]
    return "; ".join([*stopped, *parting]) or "same"


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
