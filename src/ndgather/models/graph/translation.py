"""A graph in the operators of another domain, or of other versions, where that is exact.

What a node becomes is the business of `node_conversion`; this is the walk over the nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ndgather.errors import NdgatherError, conversion_errors, run_errors
from ndgather.models.graph import CastNode, Graph, Node, OperatorNode, title, unique
from ndgather.models.graph.casts import converted
from ndgather.models.graph.diagnostics import Finding, Severity
from ndgather.models.graph.node_conversion import Call, fit, is_exact_cast
from ndgather.models.graph.value_types import node_type, value_types
from ndgather.published import operators
from ndgather.published.array_types import dtype_name
from ndgather.published.schema import OperatorVersion, Role
from ndgather.published.tensor_types import TensorType

if TYPE_CHECKING:
    from ndgather.models.graph import Array
    from ndgather.models.graph.differences import Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """The translated graph, and where their runs may differ."""

    graph: Graph
    findings: tuple[Finding, ...]


def translate(graph: Graph, *, domain: str, opset: int | None = None) -> Translation:
    """Return `graph` in the operators of `domain`, the newest that `opset` has.

    Without `opset` it is the newest of all, and operators of `domain` stay as they are.

    Raises
    ------
    NdgatherError
        A node has no exact counterpart, or can run on no inputs of the declared types; the text
        names the node and says why.
    """
    return _Translator(graph, domain, opset).translation()


class _Translator:
    def __init__(self, graph: Graph, domain: str, opset: int | None) -> None:
        self.graph = graph
        self.domain = domain
        self.opset = opset
        # A cast may mean something else in another domain, unless it changes no value.
        self.foreign = any(
            node.row.domain != domain for node in graph.nodes if isinstance(node, OperatorNode)
        )
        self.types = value_types(graph)
        self.constants = dict(graph.constants)
        self.taken = {*self.types, *(each.name for each in graph.inputs), *graph.constants}
        self.nodes: list[Node] = []
        self.findings: list[Finding] = []

    def translation(self) -> Translation:
        for node in self.graph.nodes:
            if isinstance(node, CastNode):
                self._check_cast(node)
                self.nodes.append(node)
            elif self.opset is None and node.row.domain == self.domain:
                self.nodes.append(node)
            else:
                try:
                    self._translate(node)
                except NdgatherError as error:
                    place = (node.name, title(node), node.output)
                    raise run_errors.in_node(error, *place) from error
        read = {each.value for each in self.graph.outputs}
        for node in self.nodes:
            read.update(node.inputs)
        graph = replace(
            self.graph,
            nodes=tuple(self.nodes),
            constants={name: array for name, array in self.constants.items() if name in read},
        )
        return Translation(graph=graph, findings=tuple(self.findings))

    def _check_cast(self, node: CastNode) -> None:
        source = self.types[node.input].dtype
        if self.foreign and source is not None and not is_exact_cast(source, node.dtype):
            raise conversion_errors.not_translatable(
                node.name, title(node), self.domain, f"it may change values of {source}"
            )

    def _translate(self, node: OperatorNode) -> None:
        target = self._counterpart(node.row)
        roles = [each.role for each in node.row.inputs]
        inputs = dict(zip(roles, node.inputs, strict=True))
        call = _GraphCall(
            origin=node.row,
            row=node.row,
            inputs=inputs,
            types={role: self.types[name] for role, name in inputs.items()},
            constants={
                role: self.constants[name]
                for role, name in inputs.items()
                if name in self.constants and role not in {Role.DATA, Role.UPDATES}
            },
            attributes=dict(node.attributes),
            translator=self,
            name=node.name,
        )
        found = fit(call, target)
        translated = OperatorNode(
            name=node.name,
            row=target,
            inputs=tuple(call.inputs.values()),
            output=node.output,
            attributes=call.attributes,
        )
        node_type(translated, self.types, self.constants)
        self.nodes.append(translated)
        self.findings += (_finding(node, target, each) for each in found)

    def _counterpart(self, source: OperatorVersion) -> OperatorVersion:
        """Return the newest row of the domain that does the same walk."""
        rows = [
            each.row
            for each in operators(domain=self.domain)
            if each.row.kind is source.kind and (self.opset is None or each.version <= self.opset)
        ]
        if not rows:
            version = "" if self.opset is None else f" {self.opset}"
            raise conversion_errors.cannot_become(
                source, f"one of {self.domain}{version}", "there is no such operator"
            )
        return max(rows, key=lambda row: row.since)

    def constant(self, name: str, array: Array) -> str:
        name = unique(name, self.taken)
        self.constants[name] = array
        self.types[name] = TensorType(dtype_name(array), array.shape)
        return name

    def cast(self, name: str, dtype: str) -> str:
        output = unique(f"{name}/{dtype}", self.taken)
        self.nodes.append(CastNode(name=output, input=name, output=output, dtype=dtype))
        self.types[output] = replace(self.types[name], dtype=dtype)
        return output


@dataclass(slots=True, kw_only=True)
class _GraphCall(Call):
    """A call whose casts are nodes of a graph, and whose constants stand in it."""

    translator: _Translator
    name: str

    def cast(self, role: Role, dtype: str) -> None:
        if role in self.constants:
            array = converted(self.constants[role], dtype)
            self._read(role, self.translator.constant(f"{self.inputs[role]}/{dtype}", array))
            self.constants[role] = array
        else:
            self._read(role, self.translator.cast(self.inputs[role], dtype))

    def set_constant(self, role: Role, array: Array) -> None:
        self._read(role, self.translator.constant(f"{self.name}/{role.value}", array))
        self.constants[role] = array

    def _read(self, role: Role, name: str) -> None:
        self.inputs[role] = name
        self.types[role] = self.translator.types[name]


def _finding(node: OperatorNode, target: OperatorVersion, found: Difference) -> Finding:
    return Finding(
        where=node.name,
        operator=str(node.row),
        rule=found.rule,
        what=f"{found.source}, and in {target} {found.target}",
        severity=Severity.DIFFERS,
    )
