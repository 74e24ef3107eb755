"""A model made of gather and scatter operators, whatever file it came from or will go to.

The types here know no file format. What reads a format makes a `Graph`; what writes one takes
a `Graph`; so the formats need not know each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ndgather.published.schema import OperatorVersion
    from ndgather.published.tensor_types import TensorType

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphInput:
    """A value that is given when the model runs, and its type as far as the model says it."""

    name: str
    type: TensorType


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphOutput:
    """A name under which a value of the graph is a result of the model."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorNode:
    """One call of one version of an operator; inputs and output are names of values."""

    name: str
    row: OperatorVersion
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, int | str | bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class CastNode:
    """A value converted to another type, which is named as NumPy names it."""

    name: str
    input: str
    output: str
    dtype: str

    @property
    def inputs(self) -> tuple[str]:
        """The one value that it reads, as `OperatorNode` has its inputs."""
        return (self.input,)


Node: TypeAlias = OperatorNode | CastNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Inputs, constants by name, and nodes, each after those whose results it reads."""

    name: str
    inputs: tuple[GraphInput, ...]
    constants: Mapping[str, Array]
    nodes: tuple[Node, ...]
    outputs: tuple[GraphOutput, ...]


def title(node: Node) -> str:
    """Return what errors and findings call the operator of a node."""
    return str(node.row) if isinstance(node, OperatorNode) else f"conversion to {node.dtype}"


def unique(name: str, taken: set[str]) -> str:
    """Return `name`, with a number at its end where it is taken already; take it."""
    candidate, count = name, 1
    while candidate in taken:
        count += 1
        candidate = f"{name}_{count}"
    taken.add(candidate)
    return candidate
