"""Operators that an opset does not have, said by others: where ONNX has no function for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, NodeProto, TensorProto, defs, helper, numpy_helper

from ndgather.errors import conversion_errors
from ndgather.models.graph import unique
from ndgather.models.onnx.nodes import attribute_value, constant_tensor, element_type, type_of_array
from ndgather.published.schema import INTEGERS, TensorType

if TYPE_CHECKING:
    from collections.abc import Callable

    from onnx.defs import OpSchema

    from ndgather.errors import ModelError


_INT64 = TensorType("int64")


def _trilu(node: OtherNode, opset: int) -> None:
    """Choose by the distance of each place from the diagonal: ``column - row``."""
    _need(node, opset, 11)
    dtype, data = node.dtype(0), node.input(0)
    if dtype is None or dtype == "string":
        raise node.refuse(opset, "the type of its input is not known, or has no zero")
    sizes = node.put_before("Shape", data, known=_INT64)
    steps = []
    for axis, line in ((-2, [-1, 1]), (-1, [1, -1])):
        place = node.constant(np.array(axis, np.int64), "axis")
        size = node.put_before("Gather", sizes, place, axis=0, known=_INT64)
        first, one = (node.constant(np.array(value, np.int64), "step") for value in (0, 1))
        each = node.put_before("Range", first, size, one, known=_INT64)
        form = node.constant(np.array(line, np.int64), "line")
        steps.append(node.put_before("Reshape", each, form, known=_INT64))
    distance = node.put_before("Sub", steps[1], steps[0], known=_INT64)
    limit = node.input(1) or node.constant(np.array(0, np.int64), "k")
    outside = node.put_before(
        "Less" if node.get("upper") else "Greater", distance, limit, known=TensorType("bool")
    )
    zero = node.constant(np.zeros((), np.float32), "zero")
    if dtype != "float32":
        to = element_type(dtype)
        zero = node.put_before("Cast", zero, to=to, known=TensorType(dtype, ()))
    _become(node, "Where", 9, [outside, zero, data])


def _einsum(node: OtherNode, opset: int) -> None:
    """Say a sum over at most one index of two operands as a product of matrices or of elements."""
    _need(node, opset, 11)
    terms = node.get("equation").replace(" ", "").split("->")
    operands = terms[0].split(",")
    if len(terms) != 2 or len(operands) != 2 or "." in node.get("equation"):
        raise node.refuse(opset, f"equation {node.get('equation')!r} is not of two operands")
    result = terms[1]
    summed = [each for each in operands[0] if each in operands[1] and each not in result]
    free = [[each for each in term if each in result and each not in other]
            for term, other in (operands, reversed(operands))]  # fmt: skip
    batch = [each for each in result if each in operands[0] and each in operands[1]]
    distinct = all(len(set(term)) == len(term) for term in (*operands, result))
    lone = set("".join(operands)) - {*summed, *free[0], *free[1], *batch}
    matrices = len(summed) == 1 and max(map(len, free)) <= 1
    if not distinct or lone or (summed and not matrices):
        raise node.refuse(opset, f"equation {node.get('equation')!r} is no product of matrices")
    if not summed:
        orders = [result, result]
    else:
        orders = ["".join([*batch, *(free[0] or "<"), *summed]),
                  "".join([*batch, *summed, *(free[1] or ">")])]  # fmt: skip
    inputs = [
        _arranged(node, name, term, order)
        for name, term, order in zip(node.node.input, operands, orders, strict=True)
    ]
    made = result if not summed else "".join([*batch, *(free[0] or "<"), *(free[1] or ">")])
    _become(node, "MatMul" if summed else "Mul", 9 if summed else 7, inputs)
    dropped = [place for place, each in enumerate(made) if each in "<>"]
    if dropped:
        node.pass_on("Squeeze", axes=dropped)
    kept = [each for each in made if each not in "<>"]
    if kept != list(result):
        node.pass_on("Transpose", perm=[kept.index(each) for each in result])


def _arranged(node: OtherNode, name: str, term: str, order: str) -> str:
    """Return an operand with its axes as in `order`, those that it lacks of size 1."""
    dtype = node.values.type(name).dtype
    there = [each for each in order if each in term]
    if there != list(term):
        known = TensorType(dtype, (None,) * len(term))
        perm = [term.index(each) for each in there]
        name = node.put_before("Transpose", name, perm=perm, known=known)
    missing = [place for place, each in enumerate(order) if each not in term]
    if missing:
        known = TensorType(dtype, (None,) * len(order))
        name = node.put_before("Unsqueeze", name, axes=missing, known=known)
    return name


def reshape_to_zeros(node: OtherNode, target: OpSchema) -> None:
    """Have a run give an empty tensor of the sizes where one of them is 0.

    Data has to be empty then: its length is an index into one zero, and so an error if it is more.
    """
    data, sizes = node.node.input
    dtype = node.dtype(0)
    if dtype is None:
        raise node.refuse(target, "it has no allowzero, which is 1")
    zero = node.constant(np.array([0], np.int64), "zero")
    zeros = node.put_before("Equal", sizes, zero, known=TensorType("bool"))
    numbers = node.put_before("Cast", zeros, to=TensorProto.INT32, known=TensorType("int32"))
    most = node.put_before("ReduceMax", numbers, keepdims=0, known=TensorType("int32", ()))
    some = node.put_before("Cast", most, to=TensorProto.BOOL, known=TensorType("bool", ()))
    line, none = (numpy_helper.from_array(np.array([size], np.int64)) for size in (-1, 0))
    steps: tuple[tuple[str, list[str], str, dict[str, Any]], ...] = (
        ("Constant", [], "line", {"value": line}),
        ("Reshape", [data, "line"], "flat", {}),
        ("Shape", ["flat"], "count", {}),
        ("Constant", [], "none", {"value": none}),
        ("Gather", ["none", "count"], "no_more", {}),
        ("Add", [sizes, "no_more"], "all", {}),
        ("ConstantOfShape", ["all"], "floats", {}),
        ("Cast", ["floats"], "empty", {"to": element_type(dtype)}),
    )
    names = {output: node.fresh(output) for _, _, output, _ in steps}
    nodes = [
        helper.make_node(
            op_type, [names.get(each, each) for each in inputs], [names[output]], **attributes
        )
        for op_type, inputs, output, attributes in steps
    ]
    shaped = node.fresh("shaped")
    reshape = helper.make_node("Reshape", [data, sizes], [shaped])
    branches = {
        "then_branch": _branch(nodes, names["empty"], dtype),
        "else_branch": _branch([reshape], shaped, dtype),
    }
    _become(node, "If", target.since_version, [some])
    for name, graph in branches.items():
        node.set(name, graph)


def _branch(nodes: list[NodeProto], output: str, dtype: str) -> GraphProto:
    given = helper.make_tensor_value_info(output, element_type(dtype), None)
    return helper.make_graph(nodes, output, [], [given])


def _become(node: OtherNode, op_type: str, version: int, inputs: list[str]) -> None:
    node.node.op_type = op_type
    node.node.input[:] = inputs
    del node.node.attribute[:]
    node.schema = defs.get_schema(op_type, version, "")


def _need(node: OtherNode, opset: int, least: int) -> None:
    if opset < least:
        raise node.refuse(opset, "there is no such operator")


def _extreme(comparison: str) -> Callable[[OtherNode, int], None]:
    def change(node: OtherNode, opset: int) -> None:
        """Choose by comparisons, which older versions have for integers too."""
        dtype = node.dtype(0)
        if dtype is None or dtype not in INTEGERS or "" in node.node.input:
            raise node.refuse(opset, "it does not take these types there")
        first, *others = node.node.input
        for place, other in enumerate(others):
            chosen = node.put_before(comparison, first, other, known=TensorType("bool"))
            inputs = [chosen, first, other]
            if place == len(others) - 1:
                _become(node, "Where", 9, inputs)
            else:
                first = node.put_before("Where", *inputs, known=TensorType(dtype))
        if not others:
            _become(node, "Identity", 1, [first])

    return change


OF_INTEGERS: dict[str, Callable[[OtherNode, int], None]] = {
    "Max": _extreme("Greater"),
    "Min": _extreme("Less"),
}
"""What makes a node, whose operator takes no such integers in the target, one that does."""

SUBSTITUTES: dict[str, Callable[[OtherNode, int], None]] = {"Einsum": _einsum, "Trilu": _trilu}
"""What makes a node that the target does not have one of an operator that it has."""


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
