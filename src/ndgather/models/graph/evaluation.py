"""Nodes run one after the other, each with its time, and with its name before its errors.

A graph is run here. What runs the nodes of a format itself hands in its steps, and gets the same
`Run` of them.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ndgather.errors import run_errors
from ndgather.models.graph import CastNode, Graph, Node, title
from ndgather.models.graph.casts import converted
from ndgather.models.graph.ports import NodeTime, Output, Run
from ndgather.published import operator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Array = NDArray[Any]


@dataclass(slots=True, kw_only=True)
class Step:
    """A node that runs: its name and operator, the values it reads and gives, and its time."""

    name: str
    title: str
    reads: tuple[str, ...]
    gives: tuple[str, ...]
    seconds: float = 0.0
    bytes: int = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure what is done within, and name the node in its errors."""
        start = time.perf_counter()
        try:
            yield
        except Exception as error:
            gives = next(iter(self.gives), "")
            raise run_errors.in_node(error, self.name, self.title, gives) from error
        finally:
            self.seconds += time.perf_counter() - start


def evaluate(graph: Graph, inputs: Mapping[str, Array]) -> Run:
    """Run `graph`; `inputs` are what its inputs take, by their names.

    Raises
    ------
    NdgatherError
        A node refused what it was given; the text names the node.
    """
    values = {**graph.constants, **inputs}
    steps = []
    for node in graph.nodes:
        step = Step(name=node.name, title=title(node), reads=node.inputs, gives=(node.output,))
        steps.append(step)
        with step.running():
            values[node.output] = _result(node, values)
            step.bytes = values[node.output].nbytes
    outputs = [(each.name, each.value, values[each.value]) for each in graph.outputs]
    return finished(steps, outputs, own_nodes=len(steps), other_nodes=0)


def _result(node: Node, values: Mapping[str, Array]) -> Array:
    if isinstance(node, CastNode):
        return converted(values[node.input], node.dtype)
    function = operator(node.row.name, domain=node.row.domain, version=node.row.since)
    return function(*(values[name] for name in node.inputs), **node.attributes)


def finished(
    steps: Sequence[Step],
    outputs: Sequence[tuple[str, str, Array]],
    *,
    own_nodes: int,
    other_nodes: int,
) -> Run:
    """Return the run that `steps` were; `outputs` are names, values and arrays."""
    return Run(
        outputs=tuple(
            Output(name=name, array=array, seconds=_seconds(steps, value))
            for name, value, array in outputs
        ),
        seconds=sum(step.seconds for step in steps),
        own_nodes=own_nodes,
        other_nodes=other_nodes,
        nodes=tuple(
            NodeTime(name=each.name, operator=each.title, seconds=each.seconds, bytes=each.bytes)
            for each in steps
        ),
    )


def _seconds(steps: Sequence[Step], value: str) -> float:
    """Return the time of the steps that lead to `value`."""
    wanted, total = {value}, 0.0
    for step in reversed(steps):
        if not wanted.isdisjoint(step.gives):
            total += step.seconds
            wanted.update(step.reads)
    return total
