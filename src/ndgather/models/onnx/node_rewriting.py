"""The gather and scatter nodes of a model, each replaced by what does the same elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx import GraphProto, NodeProto, helper

from ndgather.errors import NdgatherError
from ndgather.models.graph.node_conversion import fit
from ndgather.models.onnx.declared_types import with_names
from ndgather.models.onnx.domains import file_domain, implementation, is_ours, subgraphs
from ndgather.models.onnx.rewrites import EQUIVALENCES, KEPT_ATTRIBUTES, Rewrite
from ndgather.models.onnx.type_protos import declaration
from ndgather.published import operators
from ndgather.published.rows import DEFAULT_DOMAIN
from ndgather.published.schema import Kind, Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ndgather.models.onnx.fixpoint import Judged
    from ndgather.published.schema import OperatorVersion

HIDDEN = "ndgather.hidden."
"""Before the domains of nodes that onnx is to leave alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
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


@dataclass(slots=True)
class NodeRewriter:
    """Replaces the gather and scatter nodes, one graph after the other, and hides them from onnx.

    `taken` are the names of values, `names` those of sizes.
    """

    plan: Plan
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
                    added.domain = HIDDEN + added.domain
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
            _fit(rewrite, target.row)
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
        indices = op_node.constants().get(Role.INDICES.value)
        return Rewrite(
            origin=row,
            row=row,
            name=row.name,
            domain=row.domain,
            inputs=dict(zip(roles, op_node.node.input, strict=True)),
            types=dict(zip(roles, types, strict=True)),
            constants={} if indices is None else {Role.INDICES: indices},
            attributes=op_node.attributes(),
            taken=self.taken,
        )

    def _change_operator(self, rewrite: Rewrite) -> None:
        wanted = self.plan.operator
        if wanted is None or wanted == rewrite.name or not _same_side(rewrite.origin.kind, wanted):
            return
        change = (rewrite.name, wanted)
        rewrite.name = wanted
        rewrite.domain = DEFAULT_DOMAIN
        if change not in EQUIVALENCES:
            raise rewrite.refuse(wanted, "no exact form is known")
        EQUIVALENCES[change](rewrite)
        kept = KEPT_ATTRIBUTES.get(change, ())
        rewrite.attributes = {
            name: value for name, value in rewrite.attributes.items() if name in kept
        }


def _same_side(kind: Kind, name: str) -> bool:
    """Return whether operators of `name` scatter as those of `kind` do, or neither does."""
    return kind.scatters == any(each.row.kind.scatters for each in operators(name))


def _fit(rewrite: Rewrite, target: OperatorVersion) -> None:
    """Make a rewrite what the version `target` takes, and refuse what it may not give."""
    if rewrite.name != rewrite.row.name:
        rewrite.row = target  # whose words the attributes are once the operator has changed
    for found in fit(rewrite, target):
        if found.loses:
            raise rewrite.refuse(target, f"{found.source}, and there {found.target}")
