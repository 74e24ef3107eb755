"""What an OpenVINO IR file says, as it says it: layers with their ports, and edges.

A network is not checked for sense here; `checking` does that, and `layers` gives it a meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPort:
    """A port of a layer. A size of None is dynamic.

    A port without sizes is that of a scalar or of an unknown rank: files do not tell them apart.
    """

    id: int
    precision: str | None
    names: tuple[str, ...]
    dims: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """From an output port of one layer to an input port of another."""

    from_layer: int
    from_port: int
    to_layer: int
    to_port: int

    def __str__(self) -> str:
        return f"edge {self.from_layer}:{self.from_port} to {self.to_layer}:{self.to_port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One operation. `version` is the operation set, as ``"opset8"``; "" where there is none."""

    id: int
    name: str
    type: str
    version: str
    attributes: Mapping[str, str]
    inputs: tuple[LayerPort, ...]
    outputs: tuple[LayerPort, ...]
    output_names: tuple[str, ...] = ()
    bodies: tuple[Network, ...] = ()

    def __str__(self) -> str:
        return f"layer {self.id} {self.name!r}" if self.name else f"layer {self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The layers and edges of a file, or of a body in it.

    `snippet` is whether the file was a bare layer, whose inputs come from nowhere.
    """

    name: str
    layers: tuple[Layer, ...]
    edges: tuple[Edge, ...]
    snippet: bool = False
