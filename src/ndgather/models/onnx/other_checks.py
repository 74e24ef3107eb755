"""What opsets and runtimes refuse about the nodes that are no gather or scatter of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import defs
from onnx.defs import OpSchema, SchemaError

from ndgather.models.graph.diagnostics import Finding, Severity
from ndgather.models.onnx.domains import file_domain, is_ours, row_domain
from ndgather.models.onnx.op_nodes import nodes, title_of
from ndgather.models.onnx.type_protos import schema_type
from ndgather.published.rows import DEFAULT_DOMAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx import ModelProto, NodeProto

    from ndgather.models.onnx.op_nodes import Scope

_SCATTER_REPLACED = 11  # the version of ONNX


def other_findings(model: ModelProto) -> Iterator[Finding]:
    """Yield the types that an opset does not allow, and uses of Scatter, which is no more."""
    for scope, node in nodes(model):
        if row_domain(node.domain) != DEFAULT_DOMAIN or is_ours(node):
            continue
        opset = scope.opsets.get(DEFAULT_DOMAIN, 0)
        if node.op_type == "Scatter":
            yield _scatter(scope, node, opset)
            continue
        schema = _schema(node.op_type, opset)
        if schema is not None:
            yield from _types(scope, node, schema)


def _scatter(scope: Scope, node: NodeProto, opset: int) -> Finding:
    gone = opset >= _SCATTER_REPLACED
    return Finding(
        where=_where(scope, node),
        operator="ai.onnx Scatter-9",
        rule="opset",
        what=f"opset {opset} has no Scatter (ScatterElements-11 replaced it)"
        if gone
        else "ScatterElements-11 replaced it; onnxruntime runs it, the evaluator of onnx does not",
        severity=Severity.ERROR if gone else Severity.PORTABLE,
        runtimes=() if gone else ("onnx.reference",),
    )


def _types(scope: Scope, node: NodeProto, schema: OpSchema) -> Iterator[Finding]:
    allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    for number, name in enumerate(node.input):
        dtype = scope.type_of(name).dtype if name else None
        if dtype is None or not schema.inputs:
            continue
        formal = schema.inputs[min(number, len(schema.inputs) - 1)]
        try:
            found = schema_type(dtype)
        except KeyError:  # of no type that ONNX has
            continue
        if found not in allowed.get(formal.type_str, [formal.type_str]):
            yield Finding(
                where=_where(scope, node),
                operator=f"ai.onnx {node.op_type}-{schema.since_version}",
                rule="types",
                what=f"{formal.name} = {name!r} is {dtype}, which this version does not take",
                severity=Severity.ERROR,
            )


def _schema(op_type: str, opset: int) -> OpSchema | None:
    try:
        return defs.get_schema(op_type, opset, file_domain(DEFAULT_DOMAIN))
    except (SchemaError, TypeError):
        return None


def _where(scope: Scope, node: NodeProto) -> str:
    return "/".join(map(title_of, (*scope.around, node)))
