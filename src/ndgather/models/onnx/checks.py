"""Checks for errors, for results that differ between runtimes, and for unsupported nodes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import onnx
from onnx import ModelProto, NodeProto

from ndgather.api import own_errors
from ndgather.errors import NdgatherError
from ndgather.messages import reason
from ndgather.models.graph.diagnostics import (
    ERROR,
    PORTABLE,
    Finding,
    Findings,
    KnownCall,
    RuntimeNote,
    has_errors,
    noted,
    rule_of,
    runtime_notes,
)
from ndgather.models.onnx.files import (
    LARGEST_SPARSE,
    Source,
    check_tensors,
    external_tensors,
    map_model,
    sparse_tensors,
    without_external_values,
)
from ndgather.models.onnx.inference import InferredNode, infer_types
from ndgather.models.onnx.nodes import (
    OpNode,
    Scope,
    nodes_in,
    not_imported,
    title_of,
    with_one_name,
)
from ndgather.models.onnx.value_ranges import fits_32_bits
from ndgather.published import Operator, operators
from ndgather.published.rows import DEFAULT_DOMAIN
from ndgather.published.schema import Role


@own_errors("check")
def check(model: Source) -> tuple[Finding, ...]:
    """Check the gather and scatter nodes of a model.

    Each node is checked against the operator version that the model imports, using the known types
    and constants of its inputs. A node in a function is checked once per call.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        See `run`.

    Returns
    -------
    tuple of Finding
        Errors, nodes whose results differ between runtimes, and nodes that some runtimes do not
        support, in node order. Each finding has the attributes `where`, `operator`, `rule`, `what`,
        `severity` and `runtimes`.

    Raises
    ------
    FileError, ModelError
        The file cannot be read or is not an ONNX model.

    Examples
    --------
    >>> from onnx.parser import parse_model
    >>> from ndgather.models import onnx
    >>> model = parse_model('''<ir_version: 8, opset_import: ["" : 18]>
    ...     pick (float[N, 2] data, int64[M, 1] rows) => (float[M, 2] picked)
    ...     { picked = GatherND(data, rows) }''')
    >>> model.graph.input[1].type.tensor_type.elem_type = 6  # int32
    >>> [finding.what for finding in onnx.check(model)]
    ['ai.onnx GatherND-13: indices.dtype = int32 is not supported (allowed: int64)']
    """
    proto, folder = map_model(model, "check")
    try:
        if folder is not None:
            check_tensors(external_tensors(proto), folder)
        named, missing = with_one_name(proto), not_imported(proto)
        inferred = infer_types(named, folder, strict=True)
        sparse = list(_check_sparse(proto))
        findings = Findings(
            [
                *sparse,
                *itertools.starmap(_no_import, missing.items()),
                *(finding for node in inferred.nodes for finding in _check_node(node)),
                *_check_replaced(inferred.scopes),
            ]
        )
    except NdgatherError as error:
        where = _place(nodes_in(proto), str(error))
        return Findings([Finding(where, "", "model", str(error), ERROR)])
    if has_errors(findings):
        return findings
    try:
        onnx.checker.check_model(named if folder is None else without_external_values(named))
        if not inferred.is_strict and not sparse:  # onnx cannot infer the types of sparse tensors.
            onnx.shape_inference.infer_shapes(inferred.model, check_type=True, strict_mode=True)
    except MemoryError:
        raise
    except Exception as error:  # The exceptions of onnx have no common base class.
        where = _place(nodes_in(proto), str(error))
        return Findings([*findings, Finding(where, "", "onnx.checker", reason(error), ERROR)])
    return findings


def _no_import(domain: str, node: NodeProto) -> Finding:
    what = f"the model imports no version of {domain}; onnxruntime assumes version 1"
    return Finding(title_of(node), f"{domain} {node.op_type}", "opset", what, ERROR)


def _place(nodes: Iterable[NodeProto], text: str) -> str:
    """Return the title of the only node that matches an onnx error, otherwise "model"."""
    found = re.search(r"op_type:\s*(\w+)(?:, node name: (.*?))?\)", text)
    operator, name = found.groups("") if found else ("", "")
    if found is None and (found := re.search(r"[Nn]ame: ?(.*?) OpType: (\w+)", text)):
        name, operator = found.groups()
    alike = [node for node in nodes if node.op_type == operator and node.name == name]
    titles = {title_of(node) for node in alike}
    return titles.pop() if len(titles) == 1 else "model"


def _check_sparse(model: ModelProto) -> Iterator[Finding]:
    for name, _, _ in sparse_tensors(model):
        what = (
            f"{name!r} is a sparse tensor of more than {LARGEST_SPARSE} elements, "
            "whose values are not read"
        )
        yield Finding("model", "", "constants", what, PORTABLE)


# Gather and scatter nodes


def _check_node(node: InferredNode) -> Iterator[Finding]:
    op_node, refusal = node.op_node, node.refusal
    try:
        operator = op_node.operator()
    except NdgatherError as error:
        yield Finding(op_node.where, "", "opset", str(error), ERROR)
        return
    if refusal is None and node.inference is None:  # An attribute refers to a function parameter.
        return
    notes: list[tuple[RuntimeNote, str]] = []
    with suppress(NdgatherError):  # If an attribute has no value, `refusal` is already set.
        if not op_node.is_open:
            fits = _elements_fit(op_node, operator)
            notes = list(runtime_notes(_known_call(node, operator, fits_32_bits=fits)))
    if refusal is not None:
        yield _refused(node, operator, refusal, notes)
        return
    all_notes = ((note, detail, note.runtimes) for note, detail in notes)
    yield from noted(op_node.where, str(operator.row), all_notes)


def _elements_fit(op_node: OpNode, operator: Operator) -> bool:
    """Return whether int32 can represent all elements of data and updates."""
    scope, names = op_node.scope, op_node.read.inputs
    if not names or scope.type_of(names[0]).dtype not in {"int64", "uint64"}:
        return False
    return all(
        fits_32_bits(scope, name)
        for item, name in zip(operator.row.inputs, names, strict=False)
        if item.role in {Role.DATA, Role.UPDATES}
    )


def _refused(
    node: InferredNode,
    operator: Operator,
    refusal: NdgatherError,
    notes: Sequence[tuple[RuntimeNote, str]],
) -> Finding:
    texts = [str(refusal), *(note.what for note, _ in notes)]
    others = "" if node.inference is not None else _versions_that_take(node.op_node, operator)
    if others:
        texts.append(f"{others} accepts it")
    runtimes = tuple(dict.fromkeys(name for note, _ in notes for name in note.runtimes))
    what, rule = "; ".join(texts), rule_of(refusal, "model")
    return Finding(node.op_node.where, str(operator.row), rule, what, ERROR, runtimes)


def _known_call(node: InferredNode, operator: Operator, *, fits_32_bits: bool) -> KnownCall:
    op_node = node.op_node
    return KnownCall.of(
        operator.row,
        op_node.known_types(),
        op_node.attributes(),
        node.inference,
        indices=op_node.constants().get(Role.INDICES.value),
        error=node.refusal,
        fits_32_bits=fits_32_bits,
    )


def _versions_that_take(op_node: OpNode, operator: Operator) -> str:
    versions = []
    for other in operators(operator.name, operator.domain):
        with suppress(NdgatherError):
            if other is not operator:
                types, constants = op_node.types(), op_node.constants()
                other.infer(*types, constants=constants, **op_node.attributes())
                versions.append(str(other.row))
    return " or ".join(versions)


# Other nodes

_SCATTER_REPLACED = 11  # the opset in which ScatterElements replaced Scatter


def _check_replaced(scopes: Iterable[Scope]) -> Iterator[Finding]:
    """Yield a finding for each use of Scatter, which ScatterElements replaced."""
    for scope, node in (item for outermost in scopes for item in outermost.all_nodes()):
        if (node.op_type, node.domain) != ("Scatter", DEFAULT_DOMAIN):
            continue
        opset, where = scope.opsets.get(DEFAULT_DOMAIN, 0), scope.where(node.node)
        if opset >= _SCATTER_REPLACED:
            what = f"opset {opset} has no Scatter (ScatterElements-11 replaced it)"
            yield Finding(where, "ai.onnx Scatter-9", "opset", what, ERROR)
        else:
            what = "ScatterElements-11 replaced it; onnxruntime runs it, onnx.reference does not"
            runtimes = ("onnx.reference",)
            yield Finding(where, "ai.onnx Scatter-9", "opset", what, PORTABLE, runtimes)
