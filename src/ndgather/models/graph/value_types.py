"""The types of all values of a graph, from those of its inputs and constants."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ndgather.errors import run_errors
from ndgather.models.graph import CastNode, Graph, Node, title
from ndgather.published import operator
from ndgather.published.array_types import dtype_name
from ndgather.published.tensor_types import TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ndgather.models.graph import Array


def value_types(graph: Graph) -> dict[str, TensorType]:
    """Return the type of every value of `graph`.

    Raises
    ------
    NdgatherError
        A node can run on no inputs of these types; the text names the node.
    """
    types = {each.name: each.type for each in graph.inputs}
    for name, array in graph.constants.items():
        types[name] = TensorType(dtype_name(array), array.shape)
    for node in graph.nodes:
        try:
            types[node.output] = node_type(node, types, graph.constants)
        except Exception as error:
            raise run_errors.in_node(error, node.name, title(node), node.output) from error
    return types


def node_type(
    node: Node, types: Mapping[str, TensorType], constants: Mapping[str, Array]
) -> TensorType:
    """Return the type of the result of one node."""
    if isinstance(node, CastNode):
        return replace(types[node.input], dtype=node.dtype)
    row = node.row
    function = operator(row.name, domain=row.domain, version=row.since)
    known = {
        each.name: constants[name]
        for each, name in zip(row.inputs, node.inputs, strict=False)
        if name in constants
    }
    given = (types[name] for name in node.inputs)
    return function.infer(*given, constants=known, **node.attributes).outputs[0]
