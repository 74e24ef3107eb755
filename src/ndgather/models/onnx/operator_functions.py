"""The function that ONNX defines an operator by, as nodes in place of one node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onnx import (
    IR_VERSION,
    FunctionProto,
    NodeProto,
    ValueInfoProto,
    checker,
    defs,
    helper,
    shape_inference,
)

from ndgather.models.graph import unique
from ndgather.models.onnx.type_protos import declaration, tensor_type

if TYPE_CHECKING:
    from onnx.defs import OpSchema

    from ndgather.models.onnx.other_node import Values
    from ndgather.published.tensor_types import TensorType


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """Nodes of `opset`, and the types of the values between them."""

    nodes: list[NodeProto]
    opset: int
    types: dict[str, TensorType]


def function_of(
    node: NodeProto, values: Values, opset: int, target: int, taken: set[str]
) -> Function | None:
    """Return the function of the node, in the opset nearest to the target; None without one."""
    schema = defs.get_schema(node.op_type, opset, "")
    if not _is_valid(node, opset):
        return None  # onnx believes what it reads
    body, version = _body(schema, node, values, opset, target)
    if body is None:
        return None
    names = dict(zip(body.input, node.input, strict=False))
    names |= dict.fromkeys(body.input[len(node.input) :], "")
    names |= dict(zip(body.output, node.output, strict=False))
    first = next(filter(None, node.output), node.op_type)
    for each in body.node:
        for name in filter(None, each.output):
            if not names.get(name):
                names[name] = unique(f"{first}_{name}", taken)
    nodes = [_placed(each, node, schema, names) for each in body.node]
    return Function(nodes=nodes, opset=version, types=_types(nodes, node, values, version))


def _is_valid(node: NodeProto, opset: int) -> bool:
    context = checker.C.CheckerContext()
    context.ir_version = IR_VERSION
    context.opset_imports = {"": opset}
    try:
        checker.check_node(node, context)
    except (checker.ValidationError, ValueError):
        return False
    return True


def _body(
    schema: OpSchema, node: NodeProto, values: Values, opset: int, target: int
) -> tuple[FunctionProto | None, int]:
    facts: Any = schema  # which the stubs of onnx do not know all of
    depends = facts.has_context_dependent_function
    given = [values.type(name) for name in node.input]
    if depends and any(
        name and not known.dtype for name, known in zip(node.input, given, strict=True)
    ):
        return None, 0  # onnx believes that there is a type
    versions = (
        facts.context_dependent_function_opset_versions
        if depends
        else facts.function_opset_versions
    )
    known = sorted(each for each in versions if each <= opset)
    if not known:
        return None, 0
    version = max((each for each in known if each <= target), default=known[0])
    if not depends:
        content = facts.get_function_with_opset_version(version)
    else:
        types = [declaration(known).SerializeToString() for known in given]
        content = facts.get_context_dependent_function_with_opset_version(
            version, node.SerializeToString(), types
        )
    body = FunctionProto.FromString(content) if content else None
    if body is None or not body.node:
        return None, 0
    imported = [each.version for each in body.opset_import if each.domain == ""]
    return body, max(imported, default=version)


def _placed(
    inner: NodeProto, node: NodeProto, schema: OpSchema, names: dict[str, str]
) -> NodeProto:
    """Return a node of the function as it stands in the graph, with the attributes of the call."""
    placed = NodeProto()
    placed.CopyFrom(inner)
    placed.input[:] = [names.get(name, name) for name in inner.input]
    placed.output[:] = [names.get(name, name) for name in inner.output]
    placed.name = placed.output[0]
    del placed.attribute[:]
    given = {each.name: each for each in node.attribute}
    for attribute in inner.attribute:
        value = attribute
        if attribute.ref_attr_name:
            default = schema.attributes[attribute.ref_attr_name].default_value
            value = given.get(attribute.ref_attr_name, default)
            if not value.name:
                continue
        copy = placed.attribute.add()
        copy.CopyFrom(value)
        copy.name = attribute.name
    return placed


def _types(
    nodes: list[NodeProto], node: NodeProto, values: Values, opset: int
) -> dict[str, TensorType]:
    inputs = [
        ValueInfoProto(name=name, type=declaration(values.type(name)))
        for name in dict.fromkeys(node.input)
        if name
    ]
    outputs = [ValueInfoProto(name=name) for name in node.output if name]
    model = helper.make_model(
        helper.make_graph(nodes, "function", inputs, outputs),
        opset_imports=[helper.make_opsetid("", opset)],
    )
    try:
        inferred = shape_inference.infer_shapes(model, data_prop=True).graph
    except Exception:
        return {}
    return {each.name: tensor_type(each.type) for each in (*inferred.value_info, *inferred.output)}
