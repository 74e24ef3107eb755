"""Nodes of other operators, brought from one version of ONNX to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import ModelProto, NodeProto, defs, version_converter
from onnx.defs import OpSchema, SchemaError

from ndgather.errors import conversion_errors
from ndgather.errors.texts import node_place
from ndgather.models.onnx.domains import file_domain, is_ours, opsets, row_domain
from ndgather.models.onnx.op_nodes import Scope, nodes
from ndgather.models.onnx.type_protos import schema_type
from ndgather.published.rows import DEFAULT_DOMAIN

if TYPE_CHECKING:
    from collections.abc import Iterator


def converted(model: ModelProto, typed: ModelProto, opset: int) -> ModelProto:
    """Return `model` with its other nodes as `opset` has them.

    `typed` is the model before any conversion, with the types of its values. Nodes of other
    domains stay as they are.

    Raises
    ------
    ModelError
        A node is not the same there, and cannot be expressed; the text says which.
    """
    source = opsets(model.opset_import)[DEFAULT_DOMAIN]
    names = sorted({node.op_type for _, node in _others(typed)})
    changed = [name for name in names if _since(name, source) != _since(name, opset)]
    result = _with_opset(model, opset)
    if changed:
        try:
            result = version_converter.convert_version(model, opset)
        except Exception as error:  # it has errors of several kinds
            different = [
                name for name in changed if not _differs_in_types_only(name, source, opset)
            ]
            if different:
                raise conversion_errors.others_differ(different, opset, error) from error
    for scope, node in _others(typed):
        _refuse_types(scope, node, source, opset)
    return result


def _with_opset(model: ModelProto, opset: int) -> ModelProto:
    result = ModelProto()
    result.CopyFrom(model)
    for each in result.opset_import:
        if row_domain(each.domain) == DEFAULT_DOMAIN:
            each.version = opset
    return result


def _others(model: ModelProto) -> Iterator[tuple[Scope, NodeProto]]:
    """Yield the nodes of ONNX itself that are of other operators."""
    for scope, node in nodes(model):
        if row_domain(node.domain) == DEFAULT_DOMAIN and not is_ours(node):
            yield scope, node


def _schema(op_type: str, opset: int) -> OpSchema | None:
    try:
        schema = defs.get_schema(op_type, opset, file_domain(DEFAULT_DOMAIN))
    except (SchemaError, TypeError):  # the second: a version beyond 32 bits
        return None
    return None if schema.deprecated else schema


def _since(op_type: str, opset: int) -> int | None:
    schema = _schema(op_type, opset)
    return None if schema is None else schema.since_version


def _differs_in_types_only(op_type: str, source: int, target: int) -> bool:
    """Return whether two versions of an operator take the same inputs and attributes."""
    first, second = _schema(op_type, source), _schema(op_type, target)
    return first is not None and second is not None and _form(first) == _form(second)


def _form(schema: OpSchema) -> object:
    attributes = {
        name: (each.type, each.required, each.default_value.SerializeToString())
        for name, each in schema.attributes.items()
    }
    values = [
        [(each.option, each.min_arity, each.is_homogeneous) for each in formals]
        for formals in (schema.inputs, schema.outputs)
    ]
    return attributes, values


def _refuse_types(scope: Scope, node: NodeProto, source: int, target: int) -> None:
    """Refuse a node whose inputs have types that its operator does not take in `target`."""
    before, after = _schema(node.op_type, source), _schema(node.op_type, target)
    if before is None or after is None:
        return
    where = node_place(node.name, node.op_type, next(iter(node.output), ""))
    for place, name in enumerate(node.input):
        if not name or place >= len(after.inputs):
            continue
        allowed = after.inputs[place].types
        dtype = scope.type_of(name).dtype
        if dtype is None:
            if not before.inputs[place].types <= allowed:
                raise conversion_errors.other_type_unknown(where, name, target)
        elif schema_type(dtype) not in allowed:
            raise conversion_errors.other_type(where, name, dtype, target)
