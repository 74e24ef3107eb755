"""A graph in the operators of another domain, or of other versions, where that is exact.

Wherever the graph and its translation both give a result, it is the same, byte for byte. What
the other domain certainly cannot give is refused. Where one of the two may give a result and
the other an error, which depends on values that only a run knows, a finding says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ndgather.errors import NdgatherError, conversion_errors
from ndgather.models.graph import CastNode, Graph, Node, OperatorNode, title, unique
from ndgather.models.graph.carried_over import carried_over
from ndgather.models.graph.casts import converted
from ndgather.models.graph.diagnostics import Finding, Severity
from ndgather.models.graph.differences import Meaning, differences, meaning_of
from ndgather.models.graph.value_types import node_type, value_types
from ndgather.published import operators
from ndgather.published.schema import (
    FLOATS,
    INTEGERS,
    BatchRule,
    OperatorVersion,
    Reduction,
    Role,
)
from ndgather.published.tensor_types import TensorType

if TYPE_CHECKING:
    from ndgather.models.graph import Array


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
    ModelError
        A node has no exact counterpart; the text says why.
    NdgatherError
        A node can run on no inputs of the declared types.
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
                self._translate(node)
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
        source = node.row
        target = self._counterpart(node)
        meaning = meaning_of(node, self.graph.constants)
        self._refuse_other_meaning(node, target, meaning)
        values = dict(zip((each.role for each in source.inputs), node.inputs, strict=True))
        inputs = [
            self._axis(node, target, meaning, values)
            if each.role is Role.AXIS
            else self._value(node, target, each.role, values[each.role])
            for each in target.inputs
        ]
        translated = OperatorNode(
            name=node.name,
            row=target,
            inputs=tuple(inputs),
            output=node.output,
            attributes=self._attributes(node, target, meaning),
        )
        try:
            node_type(translated, self.types, self.constants)
        except NdgatherError as error:
            raise conversion_errors.not_translatable(
                node.name, str(source), str(target), str(error).removeprefix(f"{target}: ")
            ) from error
        self.nodes.append(translated)
        self.findings += (
            Finding(
                where=node.name,
                operator=str(source),
                rule=rule,
                what=f"{what}, and in {target} {other}",
                severity=Severity.DIFFERS,
            )
            for rule, what, other in differences(
                node, target, meaning, self.types, self.graph.constants
            )
        )

    def _counterpart(self, node: OperatorNode) -> OperatorVersion:
        """Return the newest row of the domain that does the same walk."""
        rows = [
            each.row
            for each in operators(domain=self.domain)
            if each.row.kind is node.row.kind and (self.opset is None or each.version <= self.opset)
        ]
        if not rows:
            version = "" if self.opset is None else f" {self.opset}"
            raise conversion_errors.not_translatable(
                node.name, str(node.row), f"{self.domain}{version}", "there is no such operator"
            )
        return max(rows, key=lambda row: row.since)

    def _refuse_other_meaning(
        self, node: OperatorNode, target: OperatorVersion, meaning: Meaning
    ) -> None:
        why = ""
        fuses = [row.batch_rule is BatchRule.FUSED for row in (node.row, target)]
        if meaning.batch_dims > 1 and fuses[0] is not fuses[1]:
            why = "one of them fuses several batch axes in the result"
        data = self.types[node.inputs[0]].dtype
        other = node.row.domain != target.domain
        if meaning.reduction is not Reduction.NONE and data == "bool" and other:
            why = "they do not define reductions of booleans alike"
        if meaning.axis is None and target.attribute("axis") is not None:
            why = "its axis is not a constant"
        if why:
            raise conversion_errors.not_translatable(node.name, str(node.row), str(target), why)

    def _attributes(
        self, node: OperatorNode, target: OperatorVersion, meaning: Meaning
    ) -> dict[str, int | str | bool]:
        reduction = target.attribute("reduction")
        words = {each.reduction: each.word for each in reduction.choices} if reduction else {}
        if reduction is not None and meaning.reduction not in words:
            raise conversion_errors.not_translatable(
                node.name,
                str(node.row),
                str(target),
                f"it has no reduction {meaning.reduction.value}",
            )
        said: dict[str, int | str | bool] = {
            "batch_dims": meaning.batch_dims,
            "use_init_val": meaning.use_init_val,
            "reduction": words.get(meaning.reduction, meaning.reduction.value),
        }
        if meaning.axis is not None and target.input(Role.AXIS) is None:
            said["axis"] = meaning.axis
        kept, lost = carried_over(said, target)
        for name, value in lost.items():
            raise conversion_errors.not_translatable(
                node.name, str(node.row), str(target), f"it has no {name}, which is {value}"
            )
        return kept

    def _axis(
        self,
        node: OperatorNode,
        target: OperatorVersion,
        meaning: Meaning,
        values: dict[Role, str],
    ) -> str:
        if Role.AXIS in values:
            return self._value(node, target, Role.AXIS, values[Role.AXIS])
        return self._constant(f"{node.name}/axis", np.array(meaning.axis, np.int64))

    def _value(self, node: OperatorNode, target: OperatorVersion, role: Role, name: str) -> str:
        """Return the value that `target` reads in place of `name`: itself, or converted."""
        row_input = target.input(role)
        dtype = self.types[name].dtype
        if row_input is None or dtype is None or dtype in row_input.types:
            return name
        if role is Role.DATA or role is Role.UPDATES:
            return name  # the operator says which types it takes
        wanted = "int64" if "int64" in row_input.types else row_input.types[-1]
        if name in self.constants:
            try:
                return self._constant(f"{name}/{wanted}", converted(self.constants[name], wanted))
            except NdgatherError as error:
                raise conversion_errors.not_translatable(
                    node.name, str(node.row), str(target), str(error)
                ) from error
        if not is_exact_cast(dtype, wanted):
            raise conversion_errors.not_translatable(
                node.name,
                str(node.row),
                str(target),
                f"indices of {dtype} would have to become {wanted}, which may change them",
            )
        output = unique(f"{name}/{wanted}", self.taken)
        self.nodes.append(CastNode(name=output, input=name, output=output, dtype=wanted))
        self.types[output] = replace(self.types[name], dtype=wanted)
        return output

    def _constant(self, name: str, array: Array) -> str:
        name = unique(name, self.taken)
        self.constants[name] = array
        self.types[name] = TensorType(array.dtype.name, array.shape)
        return name


def is_exact_cast(source: str, target: str) -> bool:
    """Return whether every value of one type is a value of the other, and of no other kind."""
    for kind in (INTEGERS, FLOATS):
        if source in kind and target in kind:
            return bool(np.can_cast(source, target, "safe"))
    return source == target or (source == "bool" and target in (*INTEGERS, *FLOATS))
