"""What every runtime returns for an exported model, compared with its framework."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from ndgather.errors import NdgatherError
from ndgather.models import onnx as onnx_models
from ndgather.runtimes.children import RuntimeProcess
from ndgather.runtimes.runtime import LoadOptions, ModelSource
from tools.models.report import TOLERANCE, error_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .snippets import Array

RUNTIMES = {
    "onnxruntime": ("onnxruntime", None),
    "openvino": ("openvino", None),
    "openvino-1": ("openvino", 1),
    "reference": ("reference", None),
}
"""A runtime and its number of threads, or None for its default."""
INDEXING = {
    "ArrayFeatureExtractor", "Compress", "Gather", "GatherElements", "GatherND", "LabelEncoder",
    "NegativeLogLikelihoodLoss", "NonMaxSuppression", "NonZero", "OneHot", "OneHotEncoder",
    "Scatter", "ScatterElements", "ScatterND", "SoftmaxCrossEntropyLoss", "TensorScatter", "TopK",
    "TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor",
}  # fmt: skip
_SHOWN_ATTRIBUTES = ("axis", "batch_dims", "reduction")
_LIMIT_S = 120
_SMALLEST_MODEL = """
<ir_version: 8, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) { y = Abs(x) }
"""

Outputs = list[Any] | str
"""The outputs of a run, or "refused", "crashed" or "not loaded"."""


def observe(folder: Path) -> dict[str, Any]:
    """Return the nodes of an exported model, and the outcome of every case in every runtime."""
    path = folder / "model.onnx"
    model = onnx.load(path)
    names = {each.name for each in model.graph.input}  # exporters omit unused inputs
    cases: dict[str, dict[str, Array]] = {}
    for file in sorted(folder.glob("*.npz")):
        if not file.stem.endswith("-answer"):
            with np.load(file) as arrays:
                cases[file.stem] = {name: arrays[name] for name in arrays if name in names}
    outputs = [each.name for each in model.graph.output]
    runs = {name: _runs(*runtime, path, outputs, cases) for name, runtime in RUNTIMES.items()}
    return {
        "nodes": nodes_of(model),
        "cases": {
            case: _outcome(folder, case, inputs, {name: run[case] for name, run in runs.items()})
            for case, inputs in cases.items()
        },
    }


def _outcome(
    folder: Path, case: str, inputs: dict[str, Array], runs: dict[str, Outputs]
) -> dict[str, Any]:
    path = folder / "model.onnx"
    framework, specified = _framework_outputs(folder, case), _specified_outputs(path, inputs)
    outcome: dict[str, Any] = {"itself": "refused" if framework == "refused" else "value"}
    outcome["specification"] = _word(specified, framework)
    outcome |= {name: _word(run, framework) for name, run in runs.items()}
    different = [
        name
        for name, run in runs.items()
        if run != "not loaded" and RUNTIMES[name][1] is None and not _same(run, specified)
    ]
    if different:
        outcome["differences"] = _differences(path, inputs, different)
    return outcome


def versions() -> dict[str, str]:
    """Return the version of each runtime."""
    source = ModelSource(content=onnx.parser.parse_model(_SMALLEST_MODEL).SerializeToString())
    found = {}
    for name in dict.fromkeys(runtime for runtime, _ in RUNTIMES.values()):
        with RuntimeProcess(name, source, LoadOptions()) as process:
            found[name] = process.version
    return found


def nodes_of(model: onnx.ModelProto) -> list[str]:
    """Return the nodes with indices, with their versions; if there are none, all nodes."""
    opsets = {each.domain: each.version for each in model.opset_import}
    nodes = list(_nodes(model))
    sizes = {name for node in nodes if node.op_type == "Shape" for name in node.output}
    texts = []
    for node in [node for node in nodes if node.op_type in INDEXING] or nodes:
        if sizes.intersection(node.input[:1]) or node.domain not in {"", "ai.onnx.ml"}:
            continue
        schema = onnx.defs.get_schema(node.op_type, opsets[node.domain], node.domain)
        shown = [
            f"{each.name}={each.s.decode() if each.s else each.i}"
            for each in node.attribute
            if each.name in _SHOWN_ATTRIBUTES and (each.s not in {b"", b"none"} or each.i)
        ]
        text = f"{node.op_type}-{schema.since_version}"
        texts.append(f"{text} ({', '.join(shown)})" if shown else text)
    return texts


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    waiting = [*model.graph.node, *(node for each in model.functions for node in each.node)]
    while waiting:
        node = waiting.pop(0)
        yield node
        bodies = [[each.g] if each.HasField("g") else each.graphs for each in node.attribute]
        waiting = [inner for body in bodies for graph in body for inner in graph.node] + waiting


def _runs(
    runtime: str,
    threads: int | None,
    path: Path,
    outputs: list[str],
    cases: dict[str, dict[str, Array]],
) -> dict[str, Outputs]:
    """Run every case, in a new process after a crash."""
    runs: dict[str, Outputs] = {}
    waiting = dict(cases)
    source, options = ModelSource(content=str(path)), LoadOptions(threads=threads)
    while waiting:
        with RuntimeProcess(runtime, source, options, limit_s=_LIMIT_S) as process:
            if process.failed is not None:
                return dict.fromkeys(cases, "crashed" if process.failed.crashed else "not loaded")
            for case, inputs in list(waiting.items()):
                del waiting[case]
                answer = process.run(outputs, inputs)
                if answer.values is not None:
                    runs[case] = answer.values
                    continue
                runs[case] = "crashed" if answer.crashed else "refused"
                if answer.crashed:
                    break
    return runs


def _specified_outputs(path: Path, inputs: dict[str, Array]) -> Outputs:
    """Return the outputs of ndgather's operators.

    Other nodes run in the evaluator of onnx, or in onnxruntime if that evaluator raises an error.
    """
    for runtime in ("reference", "onnxruntime"):
        try:
            return list(onnx_models.run(path, inputs, runtime=runtime).values())
        except NdgatherError:
            continue
    return "refused"


def _framework_outputs(folder: Path, case: str) -> Outputs:
    if (folder / f"{case}-refused.txt").exists():
        return "refused"
    with np.load(folder / f"{case}-answer.npz") as arrays:
        return [arrays[name] for name in sorted(arrays, key=int)]


def _word(outputs: Outputs, framework: Outputs) -> str:
    if isinstance(outputs, str):
        return outputs
    if isinstance(framework, str):
        return "value"
    return "same" if _same(outputs, framework) else "other"


def _same(outputs: Outputs, others: Outputs) -> bool:
    if isinstance(outputs, str) or isinstance(others, str):
        return outputs == others
    one, other = ([np.asarray(each) for each in arrays] for arrays in (outputs, others))
    shapes = [each.shape for each in one] == [each.shape for each in other]
    return shapes and error_of(one, other) <= TOLERANCE


def _differences(path: Path, inputs: dict[str, Array], runtimes: list[str]) -> list[list[str]]:
    """Return the nodes at which runtimes differ from the specification, and the rules."""
    report = onnx_models.compare(path, inputs, runtimes=runtimes)
    differences = [
        [run.runtime, node.operator, run.status, run.explanation.rule if run.explanation else ""]
        for node in report.nodes
        for run in node.runs
        if run.status not in {"same", "not run"} and run.obeys is not True
    ]
    at_nodes = {difference[0] for difference in differences}
    return differences + [[name, "", "", ""] for name in runtimes if name not in at_nodes]
