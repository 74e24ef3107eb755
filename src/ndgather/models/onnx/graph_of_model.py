"""ONNX models as graphs of operators.

A model becomes a graph if it is made of gather and scatter operators, constants, identities
and casts that change no value; anything else is refused by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import numpy_helper

from ndgather.errors import (
    NdgatherError,
    constant_errors,
    conversion_errors,
    onnx_errors,
    run_errors,
)
from ndgather.models.graph import CastNode, Graph, GraphInput, GraphOutput, Node, OperatorNode
from ndgather.models.onnx.domains import implementation, is_ours, opsets, row_domain
from ndgather.models.onnx.external_tensors import refuse_tensors
from ndgather.models.onnx.op_nodes import attribute_value, constant_tensor
from ndgather.models.onnx.type_protos import dtype_name, tensor_type
from ndgather.published import operators
from ndgather.published.rows.onnx import DOMAIN

if TYPE_CHECKING:
    from ndgather.models.graph import Array
    from ndgather.published.tensor_types import TensorType

PLAIN_TYPES = ("Cast", "Constant", "Identity")

# In models of these versions every constant is an input too, and nobody can mean it as one.
_LAST_IR_WITH_CONSTANTS_AS_INPUTS = 3


def is_graph(model: onnx.ModelProto) -> bool:
    """Return whether all nodes of a model are of operators that a graph has."""
    return all(
        is_ours(node) or (row_domain(node.domain) == DOMAIN and node.op_type in PLAIN_TYPES)
        for node in model.graph.node
    )


def graph_of(model: onnx.ModelProto) -> Graph:
    """Return the graph that a model is.

    Raises
    ------
    NdgatherError
        The model has something else in it; the text names it.
    """
    refuse_tensors(model)
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError) as error:  # ValueError: beyond 2 GiB
        raise onnx_errors.invalid_model("model", error) from error
    return _Reader(model).graph()


class _Reader:
    def __init__(self, model: onnx.ModelProto) -> None:
        self.proto = model.graph
        self.versions = opsets(model.opset_import)
        self.defaults_are_constants = model.ir_version <= _LAST_IR_WITH_CONSTANTS_AS_INPUTS
        self.names: dict[str, str] = {}  # what an identity gives, by what it takes
        self.constants: dict[str, Array] = {}
        self.dtypes: dict[str, str | None] = {}
        self.nodes: list[Node] = []

    def graph(self) -> Graph:
        if self.proto.sparse_initializer:
            raise conversion_errors.not_in_graph("initializer", "a sparse tensor", "dense tensors")
        for tensor in self.proto.initializer:
            self.constants[tensor.name] = _array(tensor, tensor.name)
        inputs = []
        for info in self.proto.input:
            if info.name in self.constants:
                if self.defaults_are_constants:
                    continue
                raise conversion_errors.not_in_graph(
                    f"input {info.name!r}", "optional: it has a default", "inputs without one"
                )
            inputs.append(GraphInput(name=info.name, type=_type_of(info)))
        for node in self.proto.node:
            try:
                self._add(node)
            except NdgatherError as error:
                gives = next(iter(node.output), "")
                raise run_errors.in_node(error, node.name, node.op_type, gives) from error
        return Graph(
            name=self.proto.name,
            inputs=tuple(inputs),
            constants=self.constants,
            nodes=tuple(self.nodes),
            outputs=tuple(
                GraphOutput(name=info.name, value=self._value(info.name))
                for info in self.proto.output
            ),
        )

    def _value(self, name: str) -> str:
        return self.names.get(name, name)

    def _add(self, node: onnx.NodeProto) -> None:
        domain = row_domain(node.domain)
        attributes = {each.name: each for each in node.attribute}
        inputs = tuple(self._value(name) for name in node.input)
        if "" in inputs:
            raise conversion_errors.not_in_graph("an input", "left out", "every input")
        output = node.output[0]
        if domain == DOMAIN and node.op_type == "Identity":
            self.names[output] = inputs[0]
        elif domain == DOMAIN and node.op_type == "Constant":
            self.constants[output] = _constant(node)
        elif domain == DOMAIN and node.op_type == "Cast":
            dtype = dtype_name(attributes["to"].i, output)
            self.nodes.append(
                CastNode(name=node.name or output, input=inputs[0], output=output, dtype=dtype)
            )
        elif is_ours(node):
            row = implementation(node.op_type, domain, self.versions.get(domain, 1)).row
            self.nodes.append(
                OperatorNode(
                    name=node.name or output,
                    row=row,
                    inputs=inputs,
                    output=output,
                    attributes={name: _attribute(each) for name, each in attributes.items()},
                )
            )
        else:
            known = dict.fromkeys(each.name for each in operators(domain=DOMAIN))
            raise conversion_errors.other_operator(
                node.op_type, domain, ", ".join((*known, *PLAIN_TYPES))
            )


def _attribute(attribute: onnx.AttributeProto) -> int | str | bool:
    value = attribute_value(attribute)
    if not isinstance(value, int | str):
        kind = onnx.AttributeProto.AttributeType.Name(attribute.type)
        what = f"attribute {attribute.name!r}"
        raise conversion_errors.not_in_graph(what, f"of type {kind}", "INT, STRING")
    return value


def _constant(node: onnx.NodeProto) -> Array:
    """Return the array of a Constant node, which has one attribute."""
    tensor = constant_tensor(node)
    if tensor is None:
        what = f"attribute {node.attribute[0].name!r}"
        raise conversion_errors.not_in_graph(what, "not a dense tensor of numbers", "value")
    return _array(tensor, "value")


def _array(tensor: onnx.TensorProto, name: str) -> Array:
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except Exception as error:  # it believes what the tensor says of itself
        raise constant_errors.unreadable_tensor(name, error) from error


def _type_of(info: onnx.ValueInfoProto) -> TensorType:
    if not info.type.HasField("tensor_type"):
        kind = info.type.WhichOneof("value") or "value without a type"
        raise conversion_errors.not_in_graph(f"input {info.name!r}", f"a {kind}", "tensors")
    if info.type.tensor_type.elem_type:
        dtype_name(info.type.tensor_type.elem_type, info.name)  # refuses a number of no type
    return tensor_type(info.type)
