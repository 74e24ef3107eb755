"""Sizes that a model leaves open: how they are named, given, and put into it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ndgather.errors import input_errors, run_errors
from ndgather.models.entry_checks import whole_number
from ndgather.models.onnx.domains import subgraphs
from ndgather.models.onnx.onnx_model import model_ports

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onnx import GraphProto, ModelProto, ValueInfoProto

    from ndgather.models.graph.ports import Port


def given_sizes(caller: str, sizes: object) -> dict[str, int]:
    """Return sizes by their names, each of them a number."""
    if sizes is None:
        return {}
    if not isinstance(sizes, Mapping) or not all(isinstance(name, str) for name in sizes):
        raise run_errors.argument_kind(caller, "sizes", sizes, "a mapping", "numbers by names")
    return {name: whole_number(caller, f"sizes[{name!r}]", size, 0) for name, size in sizes.items()}


def open_sizes(ports: Iterable[Port]) -> set[str]:
    """Return how the sizes that are no numbers can be named."""
    known = set()
    for port in ports:
        for axis, size in enumerate(port.shape or ()):
            if not isinstance(size, int):
                known.update({size, f"{port.name}[{axis}]"} - {"?"})
    return known


def with_sizes(model: ModelProto, sizes: Mapping[str, int]) -> ModelProto:
    """Return a copy of `model` in which sizes that it leaves open are numbers.

    Raises
    ------
    ModelError
        It has no such size.
    """
    known = open_sizes(model_ports(model)[0])
    for name in sizes:
        if name not in known:
            raise input_errors.unknown_size(name, sorted(known))
    copy = type(model)()
    copy.CopyFrom(model)
    for info in copy.graph.input:
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if f"{info.name}[{axis}]" in sizes:
                dim.dim_value = sizes[f"{info.name}[{axis}]"]
    for info in _declared(copy.graph):
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
    return copy


def _declared(graph: GraphProto) -> Iterator[ValueInfoProto]:
    yield from (*graph.input, *graph.output, *graph.value_info)
    for node in graph.node:
        for inner in subgraphs(node):
            yield from _declared(inner)
