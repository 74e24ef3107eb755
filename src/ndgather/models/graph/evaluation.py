"""A graph run on arrays, node by node."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ndgather.errors import run_errors
from ndgather.models.graph import CastNode, Graph, Node, OperatorNode, title
from ndgather.models.graph.casts import converted
from ndgather.models.graph.ports import Output, Run
from ndgather.published import operator

if TYPE_CHECKING:
    from collections.abc import Mapping

Array = NDArray[Any]


def evaluate(graph: Graph, inputs: Mapping[str, Array]) -> Run:
    """Run `graph`; `inputs` are what its inputs take, by their names.

    Raises
    ------
    NdgatherError
        A node refused what it was given; the text names the node.
    """
    values = {**graph.constants, **inputs}
    seconds: dict[str, float] = {}
    for node in graph.nodes:
        start = time.perf_counter()
        try:
            values[node.output] = _result(node, values)
        except Exception as error:
            raise run_errors.in_node(error, node.name, title(node)) from error
        seconds[node.output] = time.perf_counter() - start
    return Run(
        outputs=tuple(
            Output(
                name=each.name,
                array=values[each.value],
                seconds=_seconds(graph, each.value, seconds),
            )
            for each in graph.outputs
        ),
        seconds=sum(seconds.values()),
        own_nodes=len(graph.nodes),
        other_nodes=0,
    )


def _result(node: Node, values: Mapping[str, Array]) -> Array:
    if isinstance(node, CastNode):
        return converted(values[node.input], node.dtype)
    function = operator(node.row.name, domain=node.row.domain, version=node.row.since)
    return function(*(values[name] for name in node.inputs), **node.attributes)


def _seconds(graph: Graph, value: str, seconds: Mapping[str, float]) -> float:
    """Return the time of the nodes that lead to `value`."""
    wanted, total = {value}, 0.0
    for node in reversed(graph.nodes):
        if node.output in wanted:
            total += seconds[node.output]
            wanted.update(node.inputs if isinstance(node, OperatorNode) else (node.input,))
    return total
