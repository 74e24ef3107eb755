"""The gather and scatter nodes of a model, each replaced by what does the same elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from onnx import NodeProto, helper

from ndgather.errors import AttributeValueError, NdgatherError
from ndgather.models.graph.diagnostics import Finding, Severity
from ndgather.models.graph.node_conversion import fit
from ndgather.models.onnx.domains import file_domain, implementation, row_domain
from ndgather.models.onnx.fixpoint import Judged
from ndgather.models.onnx.op_nodes import OpNode
from ndgather.models.onnx.rewrites import EQUIVALENCES, KEPT_ATTRIBUTES, Rewrite
from ndgather.published import operators
from ndgather.published.rows import DEFAULT_DOMAIN
from ndgather.published.schema import Kind, Role

if TYPE_CHECKING:
    from ndgather.published.schema import OperatorVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the result imports, and what its nodes shall be."""

    source: dict[str, int]
    opset: int
    domain: str | None
    operator: str | None
    strict: bool

    def version(self, domain: str) -> int:
        """Return the version of a domain that the result imports."""
        if domain == DEFAULT_DOMAIN:
            return self.opset
        newest = max(each.version for each in operators(domain=domain))
        return self.source.get(domain, newest)


@dataclass(slots=True, kw_only=True)
class OwnNodes:
    """Converts the gather and scatter nodes one after the other; `taken` are the names of values.

    `findings` are the nodes that were repaired, and those that stayed what they are.
    """

    plan: Plan
    taken: set[str]
    findings: list[Finding] = field(default_factory=list)

    def converted(self, judged: Judged) -> tuple[Rewrite, NodeProto]:
        """Return the rewrite of a node as it was carried out, and the node that it gives.

        Raises
        ------
        NdgatherError
            There is none; the text names the node and says why.
        """
        op_node = judged.op_node
        repaired = None if judged.refusal is None else self._repaired(judged)
        try:
            rewrite = self._changed(op_node, repaired or judged)
            if self.plan.domain is not None and operators(rewrite.name, self.plan.domain):
                rewrite.domain = self.plan.domain
            target = implementation(rewrite.name, rewrite.domain, self.plan.version(rewrite.domain))
            _fit(rewrite, target.row)
        except NdgatherError as error:
            raise op_node.named(error) from error
        node = NodeProto()
        node.CopyFrom(op_node.node)
        node.op_type = rewrite.name
        if node.domain != file_domain(rewrite.domain):
            node.domain = file_domain(rewrite.domain)
        node.input[:] = rewrite.inputs.values()
        if rewrite.attributes != op_node.attributes():
            del node.attribute[:]
            node.attribute.extend(
                helper.make_attribute(name, value) for name, value in rewrite.attributes.items()
            )
        return rewrite, node

    def _repaired(self, judged: Judged) -> Judged:
        """Take a node with an attribute of a later version for one of that version."""
        refusal, op_node = judged.refusal, judged.op_node
        assert refusal is not None
        domain = row_domain(op_node.node.domain)
        here = self.plan.source.get(domain, 1)
        if isinstance(refusal, AttributeValueError) and domain == DEFAULT_DOMAIN:
            for version in range(here + 1, self.plan.opset + 1):
                later = OpNode(
                    node=op_node.node, scope=replace(op_node.scope, opsets={domain: version})
                )
                try:
                    inference = later.infer()
                except NdgatherError:
                    continue
                row = later.operator().row
                self._find(op_node, op_node.operator().row, f"{refusal}; taken for {row}", "repair")
                return Judged(op_node=later, inference=inference)
        raise op_node.named(refusal)

    def _find(self, op_node: OpNode, row: OperatorVersion, what: str, rule: str) -> None:
        self.findings.append(
            Finding(
                where=op_node.where,
                operator=str(row),
                rule=rule,
                what=what,
                severity=Severity.PORTABLE,
            )
        )

    def _changed(self, op_node: OpNode, judged: Judged) -> Rewrite:
        """Return the rewrite of a node, as the operator that is wanted where it can be that."""
        rewrite = self._rewrite_of(judged)
        try:
            self._change_operator(rewrite)
        except NdgatherError as refusal:
            if self.plan.strict:
                raise
            self._find(op_node, rewrite.origin, f"stays: {refusal}", "operator")
            rewrite = self._rewrite_of(judged)
        return rewrite

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
