"""Models between versions of ONNX, between domains, and between equivalent operators."""

from __future__ import annotations

import onnx
from onnx import ModelProto

from ndgather.errors import conversion_errors
from ndgather.models.entry_checks import instance
from ndgather.models.onnx import other_nodes
from ndgather.models.onnx.declared_types import size_names
from ndgather.models.onnx.domains import (
    DOMAINS,
    file_domain,
    nodes_within,
    opsets,
    row_domain,
    subgraphs,
    with_one_name,
)
from ndgather.models.onnx.fixpoint import infer_to_fixpoint, without_functions
from ndgather.models.onnx.model_files import Source, opened
from ndgather.models.onnx.node_rewriting import HIDDEN, NodeRewriter, Plan
from ndgather.models.onnx.rewrites import EQUIVALENCES
from ndgather.published.rows import DEFAULT_DOMAIN


def convert(
    model: Source,
    *,
    opset: int | None = None,
    domain: str | None = None,
    operator: str | None = None,
) -> ModelProto:
    """Return a model that gives the same bytes, in another version or with other operators.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        The model in memory, its bytes, or the path of its file. A model in memory is not
        changed.
    opset : int, optional
        The target opset: the version of ONNX that the result imports. Nodes of other operators
        are converted by `onnx.version_converter`, or stay where versions differ in types only.
    domain : str, optional
        The domain of the gather and scatter nodes, where that domain has their operators:
        ``"ai.onnx"`` or ``"com.microsoft"``.
    operator : str, optional
        The operator that gather nodes become: ``"GatherND"``, ``"GatherElements"`` or
        ``"Gather"``; ``"ScatterND"`` for ScatterElements nodes.

    Returns
    -------
    ModelProto
        Local functions are inlined.

    Raises
    ------
    FileError, ModelError
        The file cannot be read, or is not an ONNX model.
    NdgatherError
        A node cannot be expressed exactly; the text names it and says why.

    Notes
    -----
    For all inputs that the model takes, the result is the same. Inputs that it refuses are
    refused as well, with one exception: where `batch_dims` had to be replaced, data with a
    batch axis of size 1 is repeated for indices with more.

    Examples
    --------
    >>> from onnx.parser import parse_model
    >>> from ndgather.models import onnx
    >>> model = parse_model('''<ir_version: 8, opset_import: ["" : 18]>
    ...     pick (float[N, 2] data, int64[M, 1] rows) => (float[M, 2] picked)
    ...     { picked = GatherND(data, rows) }''')
    >>> [node.op_type for node in onnx.convert(model, operator="Gather").graph.node][-1]
    'Gather'
    """
    proto, folder = opened(model, "convert")
    fixpoint = infer_to_fixpoint(proto, folder)
    for each in fixpoint.judged:
        if each.refusal is not None:
            raise each.op_node.named(each.refusal)
    for function in fixpoint.model.functions:
        raise conversion_errors.function_stays(function.domain, function.name)
    plan = _plan(fixpoint.model, opset, domain, operator)
    result = without_functions(with_one_name(proto))
    rewriter = NodeRewriter(
        plan, iter(fixpoint.judged), _value_names(result), size_names(result.graph)
    )
    rewriter.rewrite(result.graph)
    if plan.opset != plan.source.get(DEFAULT_DOMAIN, plan.opset):
        result = _with_opset(result, fixpoint.model, plan)
    _show(result)
    _import_domains(result, plan)
    _refuse_invalid(proto, result)
    return result


def _plan(model: ModelProto, opset: int | None, domain: str | None, operator: str | None) -> Plan:
    source = opsets(model.opset_import)
    if opset is not None:
        instance("convert", "opset", opset, int, "a version")
    for name, value in ("domain", domain), ("operator", operator):
        if value is not None:
            instance("convert", name, value, str, "a name")
    if domain is not None and row_domain(domain) not in DOMAINS:
        raise conversion_errors.unknown_target("domain", domain, DOMAINS)
    targets = sorted({target for _, target in EQUIVALENCES})
    if operator is not None and operator not in targets:
        raise conversion_errors.unknown_target("operator", operator, targets)
    newest = onnx.defs.onnx_opset_version()
    if opset is not None and not 1 <= opset <= newest:
        raise conversion_errors.unknown_target("opset", opset, (f"1..{newest}",))
    return Plan(
        source=source,
        opset=opset or source.get(DEFAULT_DOMAIN, newest),
        domain=None if domain is None else row_domain(domain),
        operator=operator,
    )


def _value_names(model: ModelProto) -> set[str]:
    graph = model.graph
    names = {each.name for each in (*graph.input, *graph.initializer)}
    for node in graph.node:
        for inner in nodes_within(node):
            names.update(inner.output)
            for each in subgraphs(inner):
                names.update(item.name for item in (*each.input, *each.initializer))
    return names


def _with_opset(model: ModelProto, typed: ModelProto, plan: Plan) -> ModelProto:
    """Return `model` in another version of ONNX, its hidden nodes as they are."""
    hidden = {
        inner.domain
        for node in model.graph.node
        for inner in nodes_within(node)
        if inner.domain.startswith(HIDDEN)
    }
    for each in sorted(hidden):
        model.opset_import.add(domain=each, version=1)
    return other_nodes.converted(model, typed, plan.opset)


def _show(model: ModelProto) -> None:
    """Give hidden nodes their domains back."""
    for node in model.graph.node:
        for inner in nodes_within(node):
            if inner.domain == HIDDEN:
                inner.ClearField("domain")
            elif inner.domain:
                inner.domain = inner.domain.removeprefix(HIDDEN)


def _import_domains(model: ModelProto, plan: Plan) -> None:
    """Import the domains of all nodes, and those of rows only where there is a node."""
    used = {row_domain(inner.domain) for node in model.graph.node for inner in nodes_within(node)}
    imports = {
        domain: version
        for domain, version in plan.source.items()
        if domain in used or domain not in DOMAINS
    }
    for domain in (DEFAULT_DOMAIN, *DOMAINS):
        if domain in used or domain == DEFAULT_DOMAIN:
            imports[domain] = plan.version(domain)
    del model.opset_import[:]
    for domain, version in imports.items():
        model.opset_import.add(domain=file_domain(domain), version=version)


def _refuse_invalid(model: ModelProto, result: ModelProto) -> None:
    """Refuse a result that onnx finds wrong, where it found nothing wrong before."""
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError):
        return  # also where tensors stand in files that are not looked for
    try:
        onnx.checker.check_model(result)
    except (onnx.checker.ValidationError, ValueError) as error:
        raise conversion_errors.invalid_result(error) from error
