"""Whether an operator takes the types that a node has, by its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import conversion_errors
from ndgather.models.onnx.type_protos import schema_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx.defs import OpSchema

    from ndgather.models.onnx.other_node import OtherNode


def refuse_types(node: OtherNode, before: OpSchema, opset: int) -> None:
    """Refuse a node whose values have types that its operator does not take or give.

    `before` is the schema that the node came with.
    """
    bound: dict[str, str] = {}
    for formal, name in _values(node):
        dtype = node.values.type(name).dtype
        if dtype is None:
            first = _same(before, formal)
            if formal.type_str not in bound and not (first and first.types <= formal.types):
                raise conversion_errors.other_type_unknown(name, opset)
            continue
        kind = schema_type(dtype)
        if kind not in formal.types:
            raise conversion_errors.other_type(name, dtype, opset)
        if formal.is_homogeneous and bound.setdefault(formal.type_str, kind) != kind:
            raise conversion_errors.other_types(name, dtype, bound[formal.type_str])


def _values(node: OtherNode) -> Iterator[tuple[OpSchema.FormalParameter, str]]:
    """Yield what a node reads and gives, each with what the schema says of it."""
    pairs = ((node.schema.inputs, node.node.input), (node.schema.outputs, node.node.output))
    for formals, names in pairs:
        for place, name in enumerate(names):
            if name and formals:
                yield formals[min(place, len(formals) - 1)], name


def _same(schema: OpSchema, formal: OpSchema.FormalParameter) -> OpSchema.FormalParameter | None:
    both = (*schema.inputs, *schema.outputs)
    return next((each for each in both if each.name == formal.name), None)
