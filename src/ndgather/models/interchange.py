"""Conversion of model files between ONNX and OpenVINO IR.

Models of gather and scatter operators, constants and casts are converted in both directions.
Other ONNX models need the converter of the package openvino.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ndgather.errors import FileError
from ndgather.models import onnx, openvino
from ndgather.models.onnx.files import external_files, load_model, open_model
from ndgather.models.onnx.interchange import DEFAULT_OPSET, graph_of, is_graph, model_of
from ndgather.models.openvino import model
from ndgather.models.tensors.tensor_files import resolved
from ndgather.published.rows.onnx import DOMAIN

if TYPE_CHECKING:
    import os

    from ndgather.models.graph.diagnostics import Finding


def onnx_to_openvino(
    source: str | os.PathLike[str], target: str | os.PathLike[str]
) -> tuple[int, tuple[Finding, ...]]:
    """Write an ONNX file as an IR, with its constants in the ``.bin`` beside it.

    Returns the number of nodes, and where runs of the two files may differ. If OpenVINO wrote the
    IR, the findings are those of a check of its gather and scatter layers.
    """
    constants = Path(target).with_suffix(".bin")
    taken = external_files(source, "convert")
    for path in (constants, Path(target)):
        if resolved(path) in taken:
            raise FileError(f"{path}: cannot be written: {source} keeps tensors there")
    if model.is_installed() and not is_graph(open_model(source, "convert")[0]):
        return model.write_converted(Path(source), Path(target), constants)
    graph = graph_of(load_model(source, "convert"))
    return len(graph.nodes), openvino.write(graph, target, constants)


def openvino_to_onnx(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    domain: str | None = None,
    opset: int | None = None,
    operator: str | None = None,
    strict: bool = False,
) -> tuple[int, tuple[Finding, ...]]:
    """Write an IR as an ONNX file; the options are those of `ndgather.models.onnx.conversion`.

    Returns the number of nodes, and where runs of the two files may differ.
    """
    graph = openvino.Model.load(source).graph
    conversion = model_of(graph, domain=domain or DOMAIN, opset=opset or DEFAULT_OPSET)
    proto, findings = conversion.model, conversion.findings
    if operator is not None:
        conversion = onnx.conversion(proto, operator=operator, strict=strict)
        proto, findings = conversion.model, (*findings, *conversion.findings)
    onnx.save(proto, target)
    return len(proto.graph.node), findings
