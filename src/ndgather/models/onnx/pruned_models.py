"""A model without what some of its values do not need: nodes, or the values of tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from onnx import ModelProto

from ndgather.models.onnx.domains import is_ours, nodes_within, subgraphs

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


def without_unused_values(model: ModelProto) -> ModelProto:
    """Return `model` without the values of the tensors that none of our nodes reads.

    What is left says as much about its gather and scatter nodes, in a fraction of the memory. A
    model whose graphs or functions have to be changed is returned as it is.
    """
    bodies = [node for node in model.graph.node if any(subgraphs(node))]
    if bodies or model.functions:
        return model
    read = {name for node in model.graph.node if is_ours(node) for name in node.input}
    light = ModelProto(ir_version=model.ir_version)
    light.opset_import.extend(model.opset_import)
    graph = light.graph
    for field in ("node", "input", "output", "value_info"):
        getattr(graph, field).extend(getattr(model.graph, field))
    for tensor in model.graph.initializer:
        if tensor.name in read:
            graph.initializer.append(tensor)
        else:
            graph.initializer.add(
                name=tensor.name, dims=tensor.dims, data_type=tensor.data_type,
                data_location=tensor.data_location, external_data=tensor.external_data,
            )  # fmt: skip
    return light
