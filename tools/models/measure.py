"""Child process: a model compared with onnxruntime: outputs, times, findings and conversions."""

from __future__ import annotations

import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime

from ndgather.errors import NdgatherError
from ndgather.models import onnx as onnx_models
from tools.child_process import ChildError, ChildProcess, serve
from tools.models.report import error_of

if TYPE_CHECKING:
    from collections.abc import Callable

OPSETS = (21, 18, 13, 11)
ROUNDS = 3
RANDOM = frozenset({"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"})


def measure(path: str, options: dict[str, Any]) -> dict[str, Any]:
    measurement: dict[str, Any] = {}
    expected: list[Any] = []
    inputs: dict[str, Any] = {}
    try:
        inputs = inputs_of(path, options)
        expected, seconds = run_onnxruntime(path, inputs)
    except Exception as error:  # onnxruntime raises errors of many classes
        measurement["onnxruntime"] = short(error)
    else:
        measurement |= run_ndgather(path, inputs, expected, seconds)
        measurement["peaks_mib"] = [peak_mib(name, path, inputs) for name in ("ndgather", "alone")]
    if options["times_only"]:
        return measurement
    measurement["findings"] = or_error(lambda: findings(path))
    measurement["infer"] = or_error(lambda: onnx_models.infer(path) is None or "yes")
    if "ratio" in measurement:
        measurement["compare"] = or_error(lambda: compare(path, inputs, options["runtimes"]))
        measurement["convert"] = {
            opset: or_error(partial(convert, path, opset, inputs, expected)) for opset in OPSETS
        }
    return measurement


def findings(path: str) -> list[dict[str, Any]]:
    """Return the findings of `check` in a form that JSON supports."""
    return [asdict(one) | {"severity": one.severity.value} for one in onnx_models.check(path)]


def inputs_of(path: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return inputs from a file, or random inputs with the sizes and values of the package."""
    if "file" in options:
        names = {each.name for each in onnx.load(path, load_external_data=False).graph.input}
        with np.load(options["file"]) as arrays:
            return {name: arrays[name] for name in arrays if name in names}
    sizes = {}
    for name, size in options["sizes"].items():
        try:  # a package has a single table of sizes for all of its models
            onnx_models.random_inputs(path, sizes={name: size})
            sizes[name] = size
        except NdgatherError:
            continue
    inputs = onnx_models.random_inputs(path, sizes=sizes)
    for name, value in options["values"].items():
        if name in inputs:
            inputs[name] = np.full_like(inputs[name], value)
    return inputs


def run_onnxruntime(path: str, inputs: dict[str, Any]) -> tuple[list[Any], float]:
    """Return the outputs, and the shortest time to load and run the model."""
    best = float("inf")
    outputs: list[Any] = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 4
        session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
        outputs = session.run(None, inputs)
        best = min(best, time.perf_counter() - start)
    return outputs, best


def run_ndgather(
    path: str, inputs: dict[str, Any], expected: list[Any], seconds: float
) -> dict[str, Any]:
    best, result = float("inf"), None
    try:
        for _ in range(ROUNDS):
            start = time.perf_counter()
            result = onnx_models.load(path, runtime="onnxruntime", in_place=True).run(inputs)
            best = min(best, time.perf_counter() - start)
    except NdgatherError as error:
        return {"run": short(error)}
    assert result is not None
    model = onnx.load(path, load_external_data=False)
    is_random = any(node.op_type in RANDOM for node in model.graph.node)
    outputs = [output.array for output in result.outputs]
    return {
        "run": "random" if is_random else f"{error_of(outputs, expected):.0e}",
        "compared": result.gather_nodes,
        "left": len(result.left),
        "nodes": result.gather_nodes + result.remaining_nodes,
        "ratio": best / seconds,
        "more_s": best - seconds,
    }


def peak_mib(which: str, path: str, inputs: dict[str, Any]) -> float:
    with ChildProcess("tools.models.peak_memory") as child:
        try:
            return float(child.ask(which, path, inputs))
        except ChildError:
            return float("nan")


def compare(path: str, inputs: dict[str, Any], runtimes: list[str]) -> str:
    """Return runtimes that stop, and nodes at which others differ from the specification."""
    report = onnx_models.compare(path, inputs, runtimes=runtimes)
    stopped = [f"{run.runtime} {run.status}" for run in report.runs if run.status != "ran"]
    different = [
        f"{run.runtime} {run.status} at {node.where}"
        for node in report.nodes
        for run in node.runs
        if run.status not in {"same", "not run"}
    ]
    return "; ".join(stopped + different) or "same"


def convert(path: str, opset: int, inputs: dict[str, Any], expected: list[Any]) -> str:
    model = onnx_models.convert(path, opset=opset)
    target = Path(path).with_name(f"converted-{opset}.tmp")  # next to files with tensors
    target.write_bytes(model.SerializeToString())
    try:
        outputs = onnx_models.run(target, inputs, runtime="onnxruntime")
    finally:
        target.unlink()
    return f"{error_of(list(outputs.values()), expected):.0e}"


def or_error(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except NdgatherError as error:
        return short(error)


def short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:160]


if __name__ == "__main__":
    serve(measure)
