"""Models between versions of ONNX, between domains, and between equivalent operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx
from onnx import ModelProto, helper

from ndgather.errors import conversion_errors
from ndgather.models.entry_checks import instance
from ndgather.models.onnx.conversion_walk import Walk
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
from ndgather.models.onnx.function_versions import with_one_version
from ndgather.models.onnx.large_models import inferable
from ndgather.models.onnx.model_files import Source, opened
from ndgather.models.onnx.old_opsets import from_oldest
from ndgather.models.onnx.own_nodes import OwnNodes, Plan
from ndgather.models.onnx.rewrites import EQUIVALENCES
from ndgather.published.rows import DEFAULT_DOMAIN

if TYPE_CHECKING:
    from ndgather.models.graph.diagnostics import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """A model that was converted, and what there is to know of it.

    Attributes
    ----------
    model : ModelProto
        The result.
    findings : tuple of Finding
        Nodes that were repaired, nodes that stayed what they were, and nodes for which a run may
        give other results than before.
    folder : str or None
        The folder of the file that it came from, where it may keep tensors in other files.
    """

    model: ModelProto
    findings: tuple[Finding, ...]
    folder: str | None = None


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
        The target opset: the version of ONNX that the result imports. Every node is brought
        there one version after the other; one that the target does not have is replaced by the
        function that ONNX defines it by, whose results may differ in their last bits.
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

    See Also
    --------
    conversion : The same, with what there is to know of the result.

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
    return _conversion(model, "convert", opset, domain, operator, strict=True).model


def conversion(
    model: Source,
    *,
    opset: int | None = None,
    domain: str | None = None,
    operator: str | None = None,
    strict: bool = False,
) -> Conversion:
    """Convert a model as `convert` does, and return what there is to know of the result too.

    Parameters
    ----------
    model, opset, domain, operator
        As in `convert`.
    strict : bool, default False
        Refuse the model if a node cannot become `operator`. Without it such a node stays what it
        is, and a finding says why.

    Returns
    -------
    Conversion
        Its `model`; its `findings` say which nodes stayed, and which were repaired: a node with
        an attribute that its version does not have yet, and a later one has, is taken for one of
        that version where `opset` allows it.

    Raises
    ------
    FileError, ModelError
        The file cannot be read, or is not an ONNX model.
    NdgatherError
        A node cannot be expressed exactly; the text names it and says why.

    Examples
    --------
    >>> from onnx.parser import parse_model
    >>> from ndgather.models import onnx
    >>> model = parse_model('''<ir_version: 8, opset_import: ["" : 18]>
    ...     pick (float[N, 2] data, int64[M, 2] rows) => (float[M] picked)
    ...     { picked = GatherND(data, rows) }''')
    >>> onnx.conversion(model, operator="Gather").findings[0].what
    'stays: ai.onnx GatherND-13 cannot become Gather: the length of the index tuples is 2, not 1'
    """
    instance("conversion", "strict", strict, bool, "a choice")
    return _conversion(model, "conversion", opset, domain, operator, strict=strict)


def _conversion(
    model: Source,
    caller: str,
    opset: int | None,
    domain: str | None,
    operator: str | None,
    *,
    strict: bool,
) -> Conversion:
    given, folder = opened(model, caller)
    _check_targets(caller, opset, domain, operator)
    proto = with_one_version(from_oldest(with_one_name(given), opset))
    plan = _plan(proto, opset, domain, operator, strict=strict)
    fixpoint = infer_to_fixpoint(proto, folder)
    for function in fixpoint.model.functions:
        raise conversion_errors.function_stays(function.domain, function.name)
    result = without_functions(proto)
    taken = _value_names(result)
    own = OwnNodes(plan=plan, taken=taken)
    Walk.over(fixpoint, folder, own, size_names(result.graph)).convert(result.graph)
    _import_domains(result, plan)
    _refuse_invalid(given, result)
    return Conversion(model=result, findings=tuple(own.findings), folder=folder)


def _check_targets(
    caller: str, opset: int | None, domain: str | None, operator: str | None
) -> None:
    if opset is not None:
        instance(caller, "opset", opset, int, "a version")
    for name, value in ("domain", domain), ("operator", operator):
        if value is not None:
            instance(caller, name, value, str, "a name")
    if domain is not None and row_domain(domain) not in DOMAINS:
        raise conversion_errors.unknown_target("domain", domain, DOMAINS)
    targets = sorted({target for _, target in EQUIVALENCES})
    if operator is not None and operator not in targets:
        raise conversion_errors.unknown_target("operator", operator, targets)
    newest = onnx.defs.onnx_opset_version()
    if opset is not None and not 1 <= opset <= newest:
        raise conversion_errors.unknown_target("opset", opset, (f"1..{newest}",))


def _plan(
    model: ModelProto, opset: int | None, domain: str | None, operator: str | None, *, strict: bool
) -> Plan:
    source = opsets(model.opset_import)
    newest = onnx.defs.onnx_opset_version()
    return Plan(
        source=source,
        opset=opset or source.get(DEFAULT_DOMAIN, newest),
        domain=None if domain is None else row_domain(domain),
        operator=operator,
        strict=strict,
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
    needed = helper.find_min_ir_version_for(model.opset_import, ignore_unknown=True)
    if plan.opset > plan.source.get(DEFAULT_DOMAIN, 0):
        model.ir_version = max(model.ir_version, needed)


def _refuse_invalid(model: ModelProto, result: ModelProto) -> None:
    """Refuse a result that onnx finds wrong, where it found nothing wrong before."""
    if inferable(model) is not model:
        return  # it is too large for onnx
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError):
        return  # also where tensors stand in files that are not looked for
    try:
        onnx.checker.check_model(result)
    except (onnx.checker.ValidationError, ValueError) as error:
        raise conversion_errors.invalid_result(error) from error
