"""The values of a model by their names, with the types that it declares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.models.onnx.type_protos import tensor_type, type_of_array
from ndgather.published.tensor_types import TensorType

if TYPE_CHECKING:
    from onnx import ModelProto


def typed_values(model: ModelProto) -> dict[str, dict[str, TensorType]]:
    """Return the types of the inputs, the outputs, and the other values of the main graph."""
    graph = model.graph
    held = {each.name for each in graph.initializer}
    inputs = {each.name: tensor_type(each.type) for each in graph.input if each.name not in held}
    outputs = {each.name: tensor_type(each.type) for each in graph.output}
    known = {each.name: tensor_type(each.type) for each in graph.value_info}
    known.update((each.name, type_of_array(each)) for each in graph.initializer)
    made = [name for node in graph.node for name in node.output if name and name not in outputs]
    between = {name: known.get(name, TensorType()) for name in made}
    return {"input": inputs, "output": outputs, "value": between}
