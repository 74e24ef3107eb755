"""What each runtime makes of an exported model: as its framework, another value, or a refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from bench.models.agreement import off
from ndgather.errors import NdgatherError
from ndgather.models import onnx as onnx_models
from ndgather.runtimes.apart import RuntimeProcess
from ndgather.runtimes.whole_model import LoadOptions, ModelSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .lines import Array

RUNTIMES = {
    "onnxruntime": ("onnxruntime", None),
    "openvino": ("openvino", None),
    "openvino-1": ("openvino", 1),
    "reference": ("reference", None),
}
"""What runs the models: a runtime, and the number of its threads where it is given one."""
NEAR = 1e-4
INDEXING = {
    "ArrayFeatureExtractor", "Compress", "Gather", "GatherElements", "GatherND", "LabelEncoder",
    "NegativeLogLikelihoodLoss", "NonMaxSuppression", "NonZero", "OneHot", "OneHotEncoder",
    "Scatter", "ScatterElements", "ScatterND", "SoftmaxCrossEntropyLoss", "TensorScatter", "TopK",
    "TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor",
}  # fmt: skip
_SHOWN = ("axis", "batch_dims", "reduction")

Outputs = list[Any] | str
"""The outputs of a run, or "refused", "crashed" or "not loaded"."""


def observed(folder: Path) -> dict[str, Any]:
    """Return the nodes of one exported model, and what it gives for each case of its inputs."""
    path = folder / "model.onnx"
    cases = {
        each.stem: dict(np.load(each))
        for each in sorted(folder.glob("*.npz"))
        if not each.stem.endswith("-answer")
    }
    model = onnx.load(path)
    kept = {each.name for each in model.graph.input}  # an exporter leaves out what is not read
    fed = {
        case: {name: each for name, each in given.items() if name in kept}
        for case, given in cases.items()
    }
    runs = {name: _in_runtime(*how, path, fed) for name, how in RUNTIMES.items()}
    found: dict[str, Any] = {"nodes": nodes_of(model), "cases": {}}
    for case, given in fed.items():
        itself = _answers(folder, case)
        strict = _strict(path, given)
        row: dict[str, Any] = {"itself": "refused" if itself == "refused" else "value"}
        row["specification"] = _word(strict, itself)
        row |= {name: _word(run[case], itself) for name, run in runs.items()}
        parting = [
            name
            for name, run in runs.items()
            if run[case] != "not loaded" and RUNTIMES[name][1] is None
            if not _alike(run[case], strict)
        ]
        if parting:
            row["parts"] = _parts(path, given, parting)
        found["cases"][case] = row
    return found


def versions() -> dict[str, str]:
    """Return the version of each runtime."""
    found = {}
    for name in dict.fromkeys(runtime for runtime, _ in RUNTIMES.values()):
        with RuntimeProcess(name, ModelSource(content=_smallest()), LoadOptions()) as process:
            found[name] = process.version
    return found


def _smallest() -> bytes:
    text = '<ir_version: 8, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) { y = Abs(x) }'
    model: bytes = onnx.parser.parse_model(text).SerializeToString()
    return model


def nodes_of(model: onnx.ModelProto) -> list[str]:
    """Return what a model has of gathers, scatters and other nodes of indices, by version."""
    opsets = {each.domain: each.version for each in model.opset_import}
    all_nodes = list(_nodes(model))
    of_sizes = {name for node in all_nodes if node.op_type == "Shape" for name in node.output}
    known = [node for node in all_nodes if node.op_type in INDEXING]
    found = []
    for node in known or all_nodes:
        if of_sizes.intersection(node.input[:1]) or node.domain not in {"", "ai.onnx.ml"}:
            continue
        schema = onnx.defs.get_schema(node.op_type, opsets[node.domain], node.domain)
        shown = [
            f"{each.name}={each.s.decode() if each.s else each.i}"
            for each in node.attribute
            if each.name in _SHOWN and (each.s not in {b"", b"none"} or each.i)
        ]
        text = f"{node.op_type}-{schema.since_version}"
        found.append(f"{text} ({', '.join(shown)})" if shown else text)
    return found


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    waiting = [*model.graph.node]
    for function in model.functions:
        waiting += function.node
    while waiting:
        node = waiting.pop(0)
        yield node
        bodies = [[each.g] if each.HasField("g") else each.graphs for each in node.attribute]
        waiting = [inner for body in bodies for graph in body for inner in graph.node] + waiting


def _in_runtime(
    runtime: str, threads: int | None, path: Path, cases: dict[str, dict[str, Array]]
) -> dict[str, Outputs]:
    """Run every case, in a new process after a crash."""
    found: dict[str, Outputs] = {}
    waiting = dict(cases)
    names = [each.name for each in onnx.load(path, load_external_data=False).graph.output]
    while waiting:
        source = ModelSource(content=str(path))
        options = LoadOptions(threads=threads)
        with RuntimeProcess(runtime, source, options, limit_s=120) as process:
            if process.failed is not None:
                how = "crashed" if process.failed.crashed else "not loaded"
                return dict.fromkeys(cases, how)
            for case, given in list(waiting.items()):
                del waiting[case]
                answer = process.run(names, given)
                if answer.values is not None:
                    found[case] = answer.values
                    continue
                found[case] = "crashed" if answer.crashed else "refused"
                if answer.crashed:
                    break
    return found


def _strict(path: Path, given: dict[str, Array]) -> Outputs:
    """Return what the specification says, by our operators.

    Other nodes run in the evaluator of onnx, or in onnxruntime where that evaluator refuses them.
    """
    for runtime in ("reference", "onnxruntime"):
        try:
            return list(onnx_models.run(path, given, runtime=runtime).values())
        except NdgatherError:
            continue
    return "refused"


def _answers(folder: Path, case: str) -> Outputs:
    if (folder / f"{case}-refused.txt").exists():
        return "refused"
    with np.load(folder / f"{case}-answer.npz") as kept:
        return [kept[name] for name in sorted(kept, key=int)]


def _word(found: Outputs, itself: Outputs) -> str:
    if isinstance(found, str):
        return found
    if isinstance(itself, str):
        return "value"
    return "same" if _alike(found, itself) else "other"


def _alike(one: Outputs, other: Outputs) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    arrays = [[np.asarray(each) for each in outputs] for outputs in (one, other)]
    if [each.shape for each in arrays[0]] != [each.shape for each in arrays[1]]:
        return False
    return off(*arrays) <= NEAR


def _parts(path: Path, given: dict[str, Array], parting: list[str]) -> list[list[str]]:
    """Return which nodes of which runtimes part from the specification, and the rule."""
    report = onnx_models.compare(path, given, runtimes=parting)
    found = [
        [run.runtime, node.operator, run.status, run.ruling.rule if run.ruling else ""]
        for node in report.nodes
        for run in node.runs
        if run.status not in {"same", "not run"} and run.obeys is not True
    ]
    at_nodes = {each[0] for each in found}
    return found + [[name, "", "", ""] for name in parting if name not in at_nodes]
