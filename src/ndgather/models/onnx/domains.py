"""Names of domains in ONNX models: one domain may be written in two ways."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ndgather.errors import onnx_errors
from ndgather.models.entry_checks import instance
from ndgather.published import Operator, operator, operators
from ndgather.published.rows import ALIASES, DEFAULT_DOMAIN, microsoft

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto

DOMAINS = (DEFAULT_DOMAIN, microsoft.DOMAIN)
"""The domains of published operators that nodes of ONNX models can have, as the rows write them."""

_SHORT = {DEFAULT_DOMAIN: ""}

OURS = frozenset((each.name, each.domain) for each in operators() if each.domain in DOMAINS)
"""Name and domain of every published operator that a node can be."""


def row_domain(domain: str) -> str:
    """Return a domain as the rows write it."""
    return ALIASES.get(domain, domain)


def file_domain(domain: str) -> str:
    """Return a domain as ONNX files mostly write it, and all of `onnx` understands it."""
    return _SHORT.get(domain, domain)


def is_ours(node: NodeProto) -> bool:
    return (node.op_type, row_domain(node.domain)) in OURS


def implementation(op_type: str, domain: str, opset: int) -> Operator:
    """Return the operator that computes a node.

    Parameters
    ----------
    op_type, domain : str
        Of the node; the domain of ONNX itself is ``""`` or ``"ai.onnx"``.
    opset : int
        The version of that domain that the model imports.

    Returns
    -------
    Operator
        Takes the inputs of the node by position and its attributes by name, and refuses what this
        version does not allow.

    Raises
    ------
    AttributeValueError
        That version of the domain has no such operator.
    DTypeError
        An argument is of another type.

    Examples
    --------
    >>> from ndgather.models import onnx
    >>> str(onnx.implementation("GatherND", "", 18).row)
    'ai.onnx GatherND-13'
    """
    instance("implementation", "op_type", op_type, str, "the name of an operator")
    instance("implementation", "domain", domain, str, "the name of a domain")
    instance("implementation", "opset", opset, int, "a version")
    return _implementation(op_type, domain, opset)


@lru_cache(maxsize=256)
def _implementation(op_type: str, domain: str, opset: int) -> Operator:
    return operator(op_type, domain=row_domain(domain), opset=opset)


def opsets(imports: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    """Return the version of each domain, named as the rows do.

    Raises
    ------
    ModelError
        Two names of one domain have different versions.
    """
    found: dict[str, int] = {}
    for each in imports:
        domain = row_domain(each.domain)
        if found.setdefault(domain, each.version) != each.version:
            raise onnx_errors.two_versions(domain, found[domain], each.version)
    return found


def with_one_name(model: ModelProto) -> ModelProto:
    """Return `model`, or a copy of it in which each domain is written in one way only."""
    holders = (model, *model.functions)
    names = {each.domain for holder in holders for each in holder.opset_import}
    names.update(node.domain for holder in holders for node in _nodes(holder))
    if all(file_domain(name) == name for name in names):
        return model
    copy = type(model)()
    copy.CopyFrom(model)
    for holder in (copy, *copy.functions):
        versions = opsets(holder.opset_import)
        del holder.opset_import[:]
        for domain, version in versions.items():
            holder.opset_import.add(domain=file_domain(domain), version=version)
        for node in _nodes(holder):
            node.domain = file_domain(node.domain)
    return copy


def _nodes(holder: ModelProto | FunctionProto) -> Iterator[NodeProto]:
    """Yield every node of a model or a function, those of subgraphs too."""
    for node in holder.graph.node if hasattr(holder, "graph") else holder.node:
        yield from nodes_within(node)


def nodes_within(node: NodeProto) -> Iterator[NodeProto]:
    """Yield a node and every node of its subgraphs."""
    yield node
    for graph in subgraphs(node):
        for inner in graph.node:
            yield from nodes_within(inner)


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
