"""A node of an operator that is no gather or scatter, on its way to another version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, helper, numpy_helper

from ndgather.errors import conversion_errors
from ndgather.models.graph import unique
from ndgather.models.onnx.op_nodes import attribute_value, constant_tensor
from ndgather.models.onnx.type_protos import type_of_array
from ndgather.published.tensor_types import TensorType

if TYPE_CHECKING:
    from collections.abc import Callable

    from onnx.defs import OpSchema

    from ndgather.errors import ModelError

Array = NDArray[Any]

UNKNOWN = TensorType()


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """What is known of the values that nodes read and give: in a model, and made on the way."""

    type_of: Callable[[str], TensorType]
    constant: Callable[[str], Array | None]
    made: dict[str, TensorType] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)

    def type(self, name: str) -> TensorType:
        return self.made[name] if name in self.made else self.type_of(name)

    def value(self, name: str) -> Array | None:
        if name in self.constants:
            return self.constants[name]
        return None if name in self.made else self.constant(name)

    def see(self, node: NodeProto) -> None:
        """Take note of what a Constant node holds."""
        tensor = constant_tensor(node)
        if tensor is not None:
            self.constants[node.output[0]] = np.asarray(numpy_helper.to_array(tensor))
            self.made[node.output[0]] = type_of_array(tensor)


@dataclass(slots=True, kw_only=True)
class OtherNode:
    """The node as it is by now, and the nodes that have to stand around it.

    `taken` are the names of values that are in use.
    """

    node: NodeProto
    schema: OpSchema
    values: Values
    taken: set[str]
    before: list[NodeProto] = field(default_factory=list)
    after: list[NodeProto] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"{self.node.op_type}-{self.schema.since_version}"

    def refuse(self, target: OpSchema | int, why: str) -> ModelError:
        there = (
            f"one of opset {target}"
            if isinstance(target, int)
            else f"{target.name}-{target.since_version}"
        )
        return conversion_errors.cannot_become(self.title, there, why)

    def has(self, name: str) -> bool:
        return any(each.name == name for each in self.node.attribute)

    def get(self, name: str) -> Any:
        """Return an attribute, or what its version takes without it."""
        for each in self.node.attribute:
            if each.name == name:
                return attribute_value(each)
        known = self.schema.attributes.get(name)
        return (
            None
            if known is None or not known.default_value.name
            else attribute_value(known.default_value)
        )

    def set(self, name: str, value: object) -> None:
        self.remove(name)
        self.node.attribute.append(helper.make_attribute(name, value))

    def remove(self, name: str) -> None:
        kept = [each for each in self.node.attribute if each.name != name]
        if len(kept) != len(self.node.attribute):
            copies = [type(each).FromString(each.SerializeToString()) for each in kept]
            del self.node.attribute[:]
            self.node.attribute.extend(copies)

    def input(self, place: int) -> str:
        """Return the name of an input; empty where it is left out."""
        return self.node.input[place] if place < len(self.node.input) else ""

    def set_input(self, place: int, name: str) -> None:
        inputs = [*self.node.input, *[""] * (place + 1 - len(self.node.input))]
        inputs[place] = name
        while inputs and not inputs[-1]:
            inputs.pop()
        self.node.input[:] = inputs

    def rank(self, place: int) -> int | None:
        shape = self.values.type(self.input(place)).shape
        return len(shape) if isinstance(shape, tuple) else None

    def dtype(self, place: int) -> str | None:
        return self.values.type(self.input(place)).dtype

    def fresh(self, hint: str) -> str:
        """Return a new name for a value near the first that the node gives."""
        first = next(filter(None, self.node.output), self.node.op_type)
        return unique(f"{first}_{hint}", self.taken)

    def constant(self, array: Array, hint: str) -> str:
        """Put a constant before the node, and return its name."""
        return self.put_before("Constant", hint=hint, value=numpy_helper.from_array(array))

    def put_before(
        self,
        op_type: str,
        *inputs: str,
        hint: str = "",
        known: TensorType = UNKNOWN,
        **attributes: Any,
    ) -> str:
        """Put a node before this one, and return what it gives, of which `known` is the type."""
        output = self.fresh(hint or op_type.lower())
        node = helper.make_node(op_type, inputs, [output], output, **attributes)
        self.before.append(node)
        self.values.made[output] = known
        self.values.see(node)
        return output

    def pass_on(self, op_type: str, *more: str, **attributes: Any) -> None:
        """Put a node behind that gives the first result in place of the node."""
        given = self.node.output[0]
        self.node.output[0] = self.fresh("before")
        self.after.append(
            helper.make_node(op_type, [self.node.output[0], *more], [given], **attributes)
        )
