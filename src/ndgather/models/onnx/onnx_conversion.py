"""Models between versions of ONNX, between domains, and between equivalent operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx
from onnx import GraphProto, ModelProto, NodeProto, helper

from ndgather.errors import NdgatherError, conversion_errors
from ndgather.models.entry_checks import instance
from ndgather.models.onnx import other_nodes
from ndgather.models.onnx.declared_types import size_names, with_names
from ndgather.models.onnx.domains import (
    DOMAINS,
    file_domain,
    implementation,
    is_ours,
    nodes_within,
    opsets,
    row_domain,
    subgraphs,
    with_one_name,
)
from ndgather.models.onnx.fixpoint import Judged, infer_to_fixpoint, without_functions
from ndgather.models.onnx.model_files import Source, opened
from ndgather.models.onnx.rewrites import EQUIVALENCES, KEPT_ATTRIBUTES, Rewrite
from ndgather.models.onnx.type_protos import declaration
from ndgather.published import Operator, operators
from ndgather.published.rows import DEFAULT_DOMAIN
from ndgather.published.schema import Kind, Role

if TYPE_CHECKING:
    from collections.abc import Iterator

_HIDDEN = "ndgather.hidden."
"""Before the domains of nodes that onnx is to leave alone."""


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
    rewriter = _Rewriter(
        plan, iter(fixpoint.judged), _value_names(result), size_names(result.graph)
    )
    rewriter.rewrite(result.graph)
    if plan.opset != plan.source.get(DEFAULT_DOMAIN, plan.opset):
        result = _with_opset(result, fixpoint.model, plan)
    _show(result)
    _import_domains(result, plan)
    _refuse_invalid(proto, result)
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What the result imports, and what its nodes shall be."""

    source: dict[str, int]
    opset: int
    domain: str | None
    operator: str | None

    def version(self, domain: str) -> int:
        """Return the version of a domain that the result imports."""
        if domain == DEFAULT_DOMAIN:
            return self.opset
        newest = max(each.version for each in operators(domain=domain))
        return self.source.get(domain, newest)


def _plan(model: ModelProto, opset: int | None, domain: str | None, operator: str | None) -> _Plan:
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
    return _Plan(
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


@dataclass(slots=True)
class _Rewriter:
    """Replaces the gather and scatter nodes, one graph after the other, and hides them from onnx.

    `taken` are the names of values, `names` those of sizes.
    """

    plan: _Plan
    judged: Iterator[Judged]
    taken: set[str]
    names: set[str]

    def rewrite(self, graph: GraphProto) -> None:
        nodes: list[NodeProto] = []
        for node in graph.node:
            if is_ours(node):
                rewrite, rewritten = self._rewritten(next(self.judged))
                for name, known in rewrite.made.items():
                    made = graph.value_info.add(name=name)
                    made.type.CopyFrom(declaration(with_names(known, self.names)))
                for added in (*rewrite.before, rewritten):
                    added.domain = _HIDDEN + added.domain
                    nodes.append(added)
                continue
            for inner in subgraphs(node):
                self.rewrite(inner)
            nodes.append(node)
        copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(copies)

    def _rewritten(self, judged: Judged) -> tuple[Rewrite, NodeProto]:
        """Return the rewrite of a node as it was carried out, and the node that it gives."""
        op_node = judged.op_node
        try:
            rewrite = self._rewrite_of(judged)
            self._change_operator(rewrite)
            if self.plan.domain is not None and operators(rewrite.name, self.plan.domain):
                rewrite.domain = self.plan.domain
            target = implementation(rewrite.name, rewrite.domain, self.plan.version(rewrite.domain))
            _fit(rewrite, target)
        except NdgatherError as error:
            raise op_node.named(error) from error
        node = NodeProto()
        node.CopyFrom(op_node.node)
        node.op_type, node.domain = rewrite.name, file_domain(rewrite.domain)
        node.input[:] = rewrite.inputs.values()
        if rewrite.attributes != op_node.attributes():
            del node.attribute[:]
            node.attribute.extend(
                helper.make_attribute(name, value) for name, value in rewrite.attributes.items()
            )
        return rewrite, node

    def _rewrite_of(self, judged: Judged) -> Rewrite:
        op_node, row = judged.op_node, judged.op_node.operator().row
        roles = [each.role for each in row.inputs]
        types = judged.inference.inputs if judged.inference else op_node.types()
        return Rewrite(
            row=row,
            name=row.name,
            domain=row.domain,
            inputs=dict(zip(roles, op_node.node.input, strict=True)),
            types=dict(zip(roles, types, strict=True)),
            attributes=op_node.attributes(),
            indices=op_node.constants().get(Role.INDICES.value),
            taken=self.taken,
        )

    def _change_operator(self, rewrite: Rewrite) -> None:
        wanted = self.plan.operator
        if wanted is None or wanted == rewrite.name or not _same_side(rewrite.row.kind, wanted):
            return
        change = (rewrite.name, wanted)
        rewrite.name = wanted
        rewrite.domain = DEFAULT_DOMAIN
        if change not in EQUIVALENCES:
            raise rewrite.refuse("no exact form is known")
        EQUIVALENCES[change](rewrite)
        kept = KEPT_ATTRIBUTES.get(change, ())
        rewrite.attributes = {
            name: value for name, value in rewrite.attributes.items() if name in kept
        }


def _same_side(kind: Kind, name: str) -> bool:
    """Return whether operators of `name` scatter as those of `kind` do, or neither does."""
    return kind.scatters == any(each.row.kind.scatters for each in operators(name))


def _fit(rewrite: Rewrite, target: Operator) -> None:
    """Make a rewrite what the version `target` takes, and refuse what it cannot."""
    row = target.row
    source = {each.name: each.default for each in rewrite.row.attributes}
    for name, value in list(rewrite.attributes.items()):
        if row.attribute(name) is not None:
            continue
        if name == "batch_dims" and value:
            rewrite.fold_batch_dims()
        elif value == source.get(name):
            del rewrite.attributes[name]
        else:
            raise rewrite.refuse(f"{name} = {value!r} does not exist there")
    for each in row.inputs:
        before = rewrite.row.input(each.role)
        dtype = rewrite.types[each.role].dtype
        if each.role is Role.INDICES and dtype != "int64" and each.types == ("int64",):
            rewrite.cast_indices()
        elif dtype is None and before is not None and not set(before.types) <= set(each.types):
            raise rewrite.refuse(f"the type of {each.name} is not known")
    if rewrite.row.index_rule.negative and not row.index_rule.negative:
        rewrite.count_from_the_front()
    if row.lowest_depth > rewrite.row.lowest_depth and row.kind is rewrite.row.kind:
        depth = rewrite.dims(Role.INDICES)[-1]
        if not isinstance(depth, int):
            raise rewrite.refuse("the length of the index tuples is not known, and may be 0")
    constants = {} if rewrite.indices is None else {Role.INDICES.value: rewrite.indices}
    target.infer(*rewrite.types.values(), constants=constants, **rewrite.attributes)


def _with_opset(model: ModelProto, typed: ModelProto, plan: _Plan) -> ModelProto:
    """Return `model` in another version of ONNX, its hidden nodes as they are."""
    hidden = {
        inner.domain
        for node in model.graph.node
        for inner in nodes_within(node)
        if inner.domain.startswith(_HIDDEN)
    }
    for each in sorted(hidden):
        model.opset_import.add(domain=each, version=1)
    return other_nodes.converted(model, typed, plan.opset)


def _show(model: ModelProto) -> None:
    """Give hidden nodes their domains back."""
    for node in model.graph.node:
        for inner in nodes_within(node):
            if inner.domain == _HIDDEN:
                inner.ClearField("domain")
            elif inner.domain:
                inner.domain = inner.domain.removeprefix(_HIDDEN)


def _import_domains(model: ModelProto, plan: _Plan) -> None:
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
