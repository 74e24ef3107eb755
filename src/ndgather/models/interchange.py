"""Model files of one format written in the other: ONNX as OpenVINO IR, and back.

Models of gather and scatter operators, constants and casts have both forms; others are
refused by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ndgather.errors import file_errors
from ndgather.models import onnx, openvino
from ndgather.models.onnx.graph_of_model import graph_of
from ndgather.models.onnx.model_files import loaded, places_of_tensors
from ndgather.models.onnx.model_of_graph import DEFAULT_OPSET, model_of
from ndgather.models.tensors.atomic_write import resolved
from ndgather.published.rows.onnx import DOMAIN

if TYPE_CHECKING:
    import os

    from ndgather.models.graph.diagnostics import Finding


def onnx_to_openvino(
    source: str | os.PathLike[str], target: str | os.PathLike[str]
) -> tuple[int, tuple[Finding, ...]]:
    """Write an ONNX file as an IR, with its constants in the ``.bin`` beside it.

    Returns
    -------
    int, tuple of Finding
        How many nodes there are, and where runs of the two files may differ.

    Raises
    ------
    NdgatherError
        There is no such IR, or a file cannot be read or written.
    """
    constants = Path(target).with_suffix(".bin")
    taken = places_of_tensors(source, "convert")
    for path in (constants, Path(target)):
        if resolved(path) in taken:
            raise file_errors.keeps_tensors(path, source)
    graph = graph_of(loaded(source, "convert"))
    return len(graph.nodes), openvino.write(graph, target, constants)


def openvino_to_onnx(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    domain: str | None = None,
    opset: int | None = None,
    operator: str | None = None,
) -> tuple[int, tuple[Finding, ...]]:
    """Write an IR as an ONNX file; the options are those of `ndgather.models.onnx.convert`.

    Returns
    -------
    int, tuple of Finding
        How many nodes there are, and where runs of the two files may differ.

    Raises
    ------
    NdgatherError
        There is no such model, or a file cannot be read or written.
    """
    graph = openvino.Model.load(source).graph
    conversion = model_of(graph, domain=domain or DOMAIN, opset=opset or DEFAULT_OPSET)
    model = conversion.model
    if operator is not None:
        model = onnx.convert(model, operator=operator)
    onnx.save(model, target)
    return len(model.graph.node), conversion.findings
