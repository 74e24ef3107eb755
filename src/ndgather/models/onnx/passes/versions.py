"""Conversion of nodes to another operator version, another domain or another operator."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass

from onnx import GraphProto, ModelProto, NodeProto, helper

from ndgather import messages
from ndgather.errors import ModelError, NdgatherError
from ndgather.models.onnx.files import messages_in
from ndgather.models.onnx.inference import InferredGraph, InferredNode, PlacedNode, with_names
from ndgather.models.onnx.nodes import (
    CONSTANTS_FROM,
    DOMAINS,
    OpNode,
    ReadNode,
    Scope,
    constant_tensor,
    declaration,
    file_domain,
    implementation,
    nodes_in,
    opsets,
    row_domain,
    tensor_type,
)
from ndgather.models.onnx.passes.calls import GatherCall, fit
from ndgather.models.onnx.passes.draft import Draft
from ndgather.models.onnx.passes.new_nodes import SizedNodes, keep_identity
from ndgather.models.onnx.passes.version_steps import INTEGERS_FROM, OLDEST, convert_node
from ndgather.models.onnx.value_ranges import may_be_negative
from ndgather.published import Operator, operators
from ndgather.published.rows import DEFAULT_DOMAIN
from ndgather.published.schema import OperatorVersion, Role, TensorType


def check_oldest(model: ModelProto, opset: int) -> None:
    """Raise ModelError if the opset of the model or of the result is older than `OLDEST`."""
    source = opsets(model.opset_import).get(DEFAULT_DOMAIN, OLDEST)
    if opset != source and min(opset, source) < OLDEST:
        raise ModelError(
            f"opset = {opset} is not a possible target for a model of opset {source} "
            f"(allowed: opset {OLDEST} or later for both)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertVersions:
    """A pass that converts all nodes to the operator versions of `opset`.

    If given, `domain` is the new domain of gathers and scatters, and `operator` is the operator
    that replaces them. `source` maps the imported domains to their versions. A node that cannot
    become `operator` raises an error if `strict`; otherwise it is kept and reported as a finding.
    """

    source: dict[str, int]
    opset: int
    domain: str | None = None
    operator: str | None = None
    strict: bool = False

    def __call__(self, draft: Draft) -> Draft:
        inferred, graph = draft.inferred, draft.model.graph
        self._convert_graph(draft, inferred.pair_graph(graph))
        if self.opset < INTEGERS_FROM:
            _move_constants(graph)
        self._import_domains(draft.model)
        return draft.changed()

    def _convert_graph(self, draft: Draft, body: InferredGraph) -> None:
        source = self.source.get(DEFAULT_DOMAIN, self.opset)
        for place in body:
            for inner in place.bodies:
                self._convert_graph(draft, inner)
            if place.inferred is not None:
                nodes = self._convert_gather(draft, body.graph, place, place.inferred)
                place.nodes = keep_identity(place.node, nodes, draft.titles)
                continue
            scope = place.scope
            _set_output_types(scope, place.read)
            try:
                nodes = convert_node(place.node, scope, draft.taken, source, self.opset)
                place.nodes = keep_identity(place.node, nodes, draft.titles)
            except Exception as error:  # An invalid node may raise any exception.
                raise OpNode(place.read, scope).named(error) from error

    def _convert_gather(
        self, draft: Draft, graph: GraphProto, place: PlacedNode, inferred: InferredNode
    ) -> list[NodeProto]:
        node, scope, op_node = place.node, place.scope, inferred.op_node
        if inferred.refusal is not None:
            inferred = self._repair(draft, op_node, inferred.refusal)
        try:
            if self._keeps(inferred.op_node.operator()):
                return [node]
            if op_node.operator().row.definition is not None:
                self._check_defined(op_node)
                return [node]
            call = self._call_of(draft, op_node, inferred)
            if self.domain is not None and operators(call.name, self.domain):
                call.domain = self.domain
            target = implementation(call.name, call.domain, self._version(call.domain))
            if call.name != call.row.name:
                call.row = target.row  # `change_operator` has already converted the attributes.
            fit(call, target)
            normalized = node.output[0] in draft.normalized
            _check_results(call, target.row, op_node, normalized=normalized)
            call.new.check_opset()
        except NdgatherError as error:
            raise op_node.named(error) from error
        for name in call.indices:
            declared = declaration(with_names(scope.type_of(name), draft.inferred.sizes))
            graph.value_info.add(name=name).type.CopyFrom(declared)
        if call.indices:
            draft.assume(op_node.where, str(op_node.operator().row), node.input)
        node = deepcopy(node)
        node.op_type = call.name
        if node.domain != file_domain(call.domain):
            node.domain = file_domain(call.domain)
        node.input[:] = call.inputs.values()
        if call.attributes != op_node.attributes():
            del node.attribute[:]
            for name, value in call.attributes.items():
                node.attribute.append(helper.make_attribute(name, value))
        return [*call.new.before, node]

    def _check_defined(self, op_node: OpNode) -> None:
        """Raise ModelError if the new opset lacks an operator that cannot be rewritten."""
        row = op_node.operator().row
        domain = self.domain or row.domain
        version = self._version(domain)
        if domain != row.domain or version < row.since:
            why = "there is no such operator"
            raise messages.cannot_become(row, f"one of {domain} {version}", why)

    def _keeps(self, function: Operator) -> bool:
        """Return whether the conversion keeps the operator version of a node."""
        if self.operator is not None or self.domain not in {None, function.domain}:
            return False
        with suppress(NdgatherError):  # The conversion raises an error for a missing operator.
            version = self._version(function.domain)
            return implementation(function.name, function.domain, version) is function
        return False

    def _repair(self, draft: Draft, op_node: OpNode, refusal: NdgatherError) -> InferredNode:
        """Infer types in the first opset that allows the node's attributes, or raise `refusal`."""
        opset = op_node.repairing_opset(refusal)
        if opset is not None and opset <= self.opset:
            later = op_node.in_opset(opset)
            what = f"{refusal}; converted as {later.operator().row}"
            draft.add_finding(op_node.where, op_node.operator().row, "repair", what)
            return InferredNode(later, later.infer())
        raise op_node.named(refusal)

    def _call_of(self, draft: Draft, op_node: OpNode, inferred: InferredNode) -> GatherCall:
        """Return a node as a call, which is converted to `operator` if possible."""

        def call_as_it_is() -> GatherCall:
            prefix = inferred.op_node.node.input[1]
            scope, taken = op_node.scope, draft.taken
            new = SizedNodes(scope=scope, taken=taken, prefix=prefix, opset=self.opset)
            return GatherCall.from_node(inferred, new)

        call = call_as_it_is()
        if self.operator is None or self.operator == call.name:
            return call
        if any(x.row.kind.scatters for x in operators(self.operator)) == call.origin.kind.scatters:
            try:
                call.change_operator(self.operator)
            except NdgatherError as refusal:
                if self.strict:
                    raise
                draft.add_finding(op_node.where, call.origin, "operator", f"kept: {refusal}")
                return call_as_it_is()
        return call

    def _version(self, domain: str) -> int:
        if domain == DEFAULT_DOMAIN:
            return self.opset
        newest = max(item.version for item in operators(domain=domain))
        return self.source.get(domain, newest)

    def _import_domains(self, model: ModelProto) -> None:
        """Import the domains of the source model, except com.microsoft if it is unused."""
        used = {DEFAULT_DOMAIN, *(row_domain(node.domain) for node in nodes_in(model))}
        imports = {
            domain: version
            for domain, version in self.source.items()
            if domain in used or domain not in DOMAINS
        }
        imports |= {domain: self._version(domain) for domain in DOMAINS if domain in used}
        del model.opset_import[:]
        for domain, version in imports.items():
            model.opset_import.add(domain=file_domain(domain), version=version)
        if self.opset != (source := self.source.get(DEFAULT_DOMAIN, 0)):
            needed = helper.find_min_ir_version_for(model.opset_import, ignore_unknown=True)
            inputs = {item.name for item in model.graph.input}
            has_constants = any(item.name not in inputs for item in model.graph.initializer)
            least = CONSTANTS_FROM if has_constants else 0
            needed, written = max(needed, least), max(model.ir_version, least)
            model.ir_version = max(written, needed) if self.opset > source else min(written, needed)


def _check_results(
    call: GatherCall, target: OperatorVersion, op_node: OpNode, *, normalized: bool
) -> None:
    """Raise ModelError if a call and `target` may return different results."""
    source, before, after = call.origin, call.origin.index_rule, target.index_rule
    if (
        before.negative
        and not after.negative
        and not normalized
        and Role.INDICES not in call.constants  # `fit` has normalized constants
        and may_be_negative(op_node.scope, op_node.node.input[1])
    ):
        what = "a negative index counts from the end, but is out of bounds there"
        raise call.cannot_become(target, what)
    indices = call.types[Role.INDICES].dims
    depth = indices[-1] if indices else None
    shorter = source.lowest_depth < target.lowest_depth and source.kind is target.kind
    if source.kind.tuples and shorter and not isinstance(depth, int):
        what = "an index tuple of length 0 copies its batch, but is an error there"
        raise call.cannot_become(target, what)


def _move_constants(graph: GraphProto) -> None:
    """Convert Constant nodes to initializers, because old Constant versions support only floats."""
    for body in list(messages_in(graph, GraphProto)):
        for number in reversed(range(len(body.node))):
            tensor = constant_tensor(body.node[number])
            if tensor is not None:
                body.initializer.add().CopyFrom(tensor)
                body.initializer[-1].name = body.node[number].output[0]
                del body.node[number]


def _set_output_types(scope: Scope, node: ReadNode) -> None:
    """Use the types that subgraphs declare for their outputs if onnx did not infer the types."""
    for graph in node.graphs:
        outputs = graph.output[1:] if node.op_type == "Loop" else graph.output
        for name, inner in zip(node.outputs, outputs, strict=False):
            dtype, known = tensor_type(inner.type).dtype, scope.type_of(name)
            if dtype is not None and known.dtype is None:
                scope.set_type(name, TensorType(dtype, known.shape))
