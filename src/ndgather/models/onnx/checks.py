"""What is wrong in a model, what runs differently elsewhere, and what does not run everywhere."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import defs
from onnx.defs import OpSchema, SchemaError

from ndgather.errors import NdgatherError
from ndgather.errors.texts import reason
from ndgather.models.graph.calls import Facts
from ndgather.models.graph.diagnostics import (
    Finding,
    Severity,
    finding,
    has_errors,
    rule_of,
    runtime_notes,
)
from ndgather.models.onnx.files import Source, opened
from ndgather.models.onnx.inference import Judged, Ranges, infer_to_fixpoint
from ndgather.models.onnx.nodes import (
    file_domain,
    is_ours,
    nodes,
    row_domain,
    schema_type,
    title_of,
)
from ndgather.published import operators
from ndgather.published.rows import DEFAULT_DOMAIN
from ndgather.published.schema import Role, TensorType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx import ModelProto, NodeProto

    from ndgather.models.onnx.nodes import OpNode, Scope
    from ndgather.published import Operator
    from ndgather.published.schema import OperatorVersion


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


def check(model: Source) -> tuple[Finding, ...]:
    """Check the gather and scatter nodes of a model.

    Each node is compared with the version of its operator that the model imports, with all that
    inference knows about its inputs. A node in a function is checked for each call of it.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        The model in memory, its bytes, or the path of its file. Tensors that a file keeps in other
        files are looked for in its folder, and nowhere else.

    Returns
    -------
    tuple of Finding
        What the specification forbids, what gives other results in other runtimes, and what does
        not run everywhere, in the order of the nodes; empty where nothing was found. A finding has
        `where`, `operator`, `rule`, `what`, `severity` and `runtimes`.

    Raises
    ------
    FileError, ModelError
        The file cannot be read, or is not an ONNX model.

    Examples
    --------
    >>> from onnx.parser import parse_model
    >>> from ndgather.models import onnx
    >>> model = parse_model('''<ir_version: 8, opset_import: ["" : 18]>
    ...     pick (float[N, 2] data, int64[M, 1] rows) => (float[M, 2] picked)
    ...     { picked = GatherND(data, rows) }''')
    >>> model.graph.input[1].type.tensor_type.elem_type = 6  # int32
    >>> [finding.what for finding in onnx.check(model)]
    ['ai.onnx GatherND-13: indices.dtype = int32 is not taken (allowed: int64)']
    """
    proto, folder = opened(model, "check")
    try:
        fixpoint = infer_to_fixpoint(proto, folder)
    except NdgatherError as error:
        return (_about_the_model(str(error)),)
    ranges = Ranges()
    try:
        findings = (
            *(found for each in fixpoint.judged for found in _findings(each, ranges)),
            *other_findings(fixpoint.model),
        )
    except NdgatherError as error:
        return (_about_the_model(str(error)),)
    if not has_errors(findings):
        path = os.fspath(model) if isinstance(model, str | os.PathLike) else proto
        findings = (*findings, *_invalid(path, fixpoint.model))
    return findings


def _about_the_model(what: str) -> Finding:
    return Finding(where="model", operator="", rule="model", what=what, severity=Severity.ERROR)


def _invalid(model: onnx.ModelProto | str, typed: onnx.ModelProto) -> Iterator[Finding]:
    """Yield what the full check of onnx refuses, in its words and under its name.

    `typed` is the model with its types, without the sizes below 0 that onnx would believe.
    """
    try:
        onnx.checker.check_model(model)
        onnx.shape_inference.infer_shapes(typed, check_type=True, strict_mode=True)
    except MemoryError:
        raise
    except Exception as error:  # it has errors of several kinds
        yield Finding(
            where="model",
            operator="",
            rule="onnx.checker",
            what=reason(error),
            severity=Severity.ERROR,
        )


def _findings(judged: Judged, ranges: Ranges) -> Iterator[Finding]:
    op_node, refusal = judged.op_node, judged.refusal
    try:
        operator = op_node.operator()
    except NdgatherError as error:
        yield _finding(op_node, "", "opset", str(error), Severity.ERROR)
        return
    name = str(operator.row)
    try:
        known = [] if op_node.is_open else list(runtime_notes(_facts(judged, operator, ranges)))
    except NdgatherError:  # an attribute has no value, as the refusal says
        known = []
    if refusal is not None:
        rule = rule_of(refusal, "model")
        parts = [str(refusal), *(note.what for note, _ in known)]
        others = _versions_that_take(op_node, operator)
        if others and judged.inference is None:
            parts.append(f"{others} takes it")
        runtimes = tuple(dict.fromkeys(each for note, _ in known for each in note.runtimes))
        yield _finding(op_node, name, rule, "; ".join(parts), Severity.ERROR, runtimes)
        return
    for note, detail in known:
        yield finding(op_node.where, name, note, detail, note.runtimes)


def _finding(
    op_node: OpNode,
    operator: str,
    rule: str,
    what: str,
    severity: Severity,
    runtimes: tuple[str, ...] = (),
) -> Finding:
    return Finding(
        where=op_node.where,
        operator=operator,
        rule=rule,
        what=what,
        severity=severity,
        runtimes=runtimes,
    )


def _facts(judged: Judged, operator: Operator, ranges: Ranges) -> Facts:
    op_node, row = judged.op_node, operator.row
    missing = (TensorType(),) * len(row.inputs)
    declared = dict(
        zip((each.role for each in row.inputs), (*op_node.types(), *missing), strict=False)
    )
    inferred = declared
    if judged.inference is not None:
        inferred = dict(zip(declared, judged.inference.inputs, strict=True))
    indices = op_node.constants().get(Role.INDICES.value)
    return Facts.of(
        row,
        declared=declared,
        inferred=inferred,
        attributes=op_node.attributes(),
        indices=None if indices is None else np.asarray(indices),
        refusal=judged.refusal,
        fits_32_bits=declared[Role.DATA].dtype in _WIDE and _fit(op_node, row, ranges),
    )


_WIDE = ("int64", "uint64")


def _fit(op_node: OpNode, row: OperatorVersion, ranges: Ranges) -> bool:
    """Return whether no value that a node gives can need more than 32 bits."""
    names = [
        name
        for each, name in zip(row.inputs, op_node.node.input, strict=False)
        if each.role in {Role.DATA, Role.UPDATES}
    ]
    return all(ranges.of(op_node.scope, name).within(-(2**31), 2**31 - 1) for name in names)


def _versions_that_take(op_node: OpNode, refusing: Operator) -> str:
    """Return the other versions of a refused operator in which the node could run."""
    taking = []
    for other in operators(refusing.name, refusing.domain):
        if other is refusing:
            continue
        try:
            other.infer(*op_node.types(), constants=op_node.constants(), **op_node.attributes())
        except NdgatherError:
            continue
        taking.append(str(other.row))
    return " or ".join(taking)
