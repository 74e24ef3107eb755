"""The one walk over the nodes of a model that is converted, those of its subgraphs too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx import GraphProto, NodeProto

from ndgather.models.onnx.declared_types import with_names
from ndgather.models.onnx.domains import is_ours, subgraphs
from ndgather.models.onnx.op_nodes import OpNode, Scope, nodes
from ndgather.models.onnx.other_node import Values
from ndgather.models.onnx.other_nodes import OtherNodes
from ndgather.models.onnx.type_protos import declaration, tensor_type
from ndgather.published.rows import DEFAULT_DOMAIN
from ndgather.published.tensor_types import TensorType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ndgather.models.onnx.fixpoint import Fixpoint, Judged
    from ndgather.models.onnx.own_nodes import OwnNodes


@dataclass(slots=True, kw_only=True)
class Walk:
    """Converts graphs in place, node by node.

    `seen` are the same nodes in the model with its types, `judged` the gather and scatter nodes
    among them; `names` are those of sizes.
    """

    seen: Iterator[tuple[Scope, NodeProto]]
    judged: Iterator[Judged]
    own: OwnNodes
    others: OtherNodes
    opset: int
    names: set[str]

    @classmethod
    def over(cls, fixpoint: Fixpoint, folder: str | None, own: OwnNodes, names: set[str]) -> Walk:
        return cls(
            seen=nodes(fixpoint.model, folder),
            judged=iter(fixpoint.judged),
            own=own,
            others=OtherNodes(opset=own.plan.opset, taken=own.taken),
            opset=own.plan.source.get(DEFAULT_DOMAIN, own.plan.opset),
            names=names,
        )

    def convert(self, graph: GraphProto) -> None:
        """Convert the nodes of a graph.

        Raises
        ------
        NdgatherError
            A node cannot be expressed; the text names it and says why.
        """
        converted: list[NodeProto] = []
        for node in graph.node:
            scope, typed = next(self.seen)
            if is_ours(node):
                rewrite, rewritten = self.own.converted(next(self.judged))
                for name, known in rewrite.made.items():
                    made = graph.value_info.add(name=name)
                    made.type.CopyFrom(declaration(with_names(known, self.names)))
                converted += (*rewrite.before, rewritten)
                continue
            for inner in subgraphs(node):
                self.convert(inner)
            made = _results_of_graphs(scope, typed)
            values = Values(type_of=scope.type_of, constant=scope.constant, made=made)
            try:
                converted += self.others.converted(node, values, self.opset)
            except Exception as error:  # also of nodes that make no sense, which onnx has not seen
                raise OpNode(node=node, scope=scope).named(error) from error
        copies = [NodeProto.FromString(node.SerializeToString()) for node in converted]
        del graph.node[:]
        graph.node.extend(copies)


def _results_of_graphs(scope: Scope, node: NodeProto) -> dict[str, TensorType]:
    """Return the types of what a node gives that onnx does not know, and its graphs do."""
    found: dict[str, TensorType] = {}
    for graph in subgraphs(node):
        given = graph.output[1:] if node.op_type == "Loop" else graph.output
        for name, inner in zip(node.output, given, strict=False):
            dtype = tensor_type(inner.type).dtype
            if dtype is not None and scope.type_of(name).dtype is None:
                found[name] = TensorType(dtype, scope.type_of(name).shape)
    return found
