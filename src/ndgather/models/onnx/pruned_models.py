"""A model without the nodes that some of its values do not need."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from onnx import ModelProto

from ndgather.models.onnx.domains import nodes_within

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ndgather.models.onnx.exposed_nodes import ExposedModel


def up_to(model: ExposedModel, wanted: Iterable[str]) -> ExposedModel:
    """Return `model` with `wanted` as its outputs, as far as nodes of its graph make them."""
    needed, kept = set(wanted), []
    made = {name for node in model.proto.graph.node for name in node.output if name}
    names = tuple(dict.fromkeys(name for name in needed if name in made))
    for node in reversed(model.proto.graph.node):
        if needed.isdisjoint(filter(None, node.output)):
            continue
        kept.append(node)
        for each in nodes_within(node):
            needed.update(each.input)
        for graph in (each.g for each in node.attribute if each.HasField("g")):
            needed.update(output.name for output in graph.output)
    proto = ModelProto()
    proto.CopyFrom(model.proto)
    del proto.graph.node[:]
    proto.graph.node.extend(reversed(kept))
    del proto.graph.output[:]
    for name in names:
        proto.graph.output.add(name=name)
    unused = [each for each in proto.graph.initializer if each.name not in needed]
    for tensor in unused:
        proto.graph.initializer.remove(tensor)
    return replace(model, proto=proto, names=names)
