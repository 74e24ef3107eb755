"""Stepwise conversion of a node to another version of the operator."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from onnx import (
    IR_VERSION,
    AttributeProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    checker,
    defs,
    helper,
    inliner,
    shape_inference,
)
from onnx.defs import OpSchema, SchemaError

from ndgather.errors import DTypeError, ModelError, NdgatherError, one_line
from ndgather.models.onnx.nodes import (
    Scope,
    constant_tensor,
    declaration,
    rename_values,
    row_domain,
    schema_type,
    subgraphs,
    tensor_type,
)
from ndgather.models.onnx.passes.version_changes import (
    CHANGES,
    DOWN,
    NOTHING,
    TYPES,
    UP,
    Changes,
    Rewrite,
    Step,
    default,
    is_exact_cast,
)
from ndgather.published.rows import DEFAULT_DOMAIN

OLDEST = 7
"""The oldest opset that can be converted."""

INTEGERS_FROM = 9
"""The first opset whose Constant supports integers. Older opsets use initializers."""


def convert_node(
    node: NodeProto, scope: Scope, taken: set[str], source: int, target: int, *, check: bool = False
) -> list[NodeProto]:
    """Return nodes of opset `target` that are equivalent to `node` of opset `source`.

    `taken` contains all value names in use. If `check` is true, types are checked even
    if `source` and `target` are equal.
    """
    if row_domain(node.domain) != DEFAULT_DOMAIN or (source == target and not check):
        return [node]
    tensor = constant_tensor(node) if target < INTEGERS_FROM else None
    if tensor is not None:
        return [helper.make_node("Constant", [], node.output, node.name, value=tensor)]
    schema = _schema(node.op_type, source)
    if schema is None:
        name = one_line(node.op_type)
        raise ModelError(f"opset {source} has no {name} (allowed: its operators)")
    _check_attributes(node, schema)
    prefix = next(filter(None, node.output), node.op_type)
    rewrite = Rewrite(
        scope=scope,
        taken=taken,
        prefix=prefix,
        node=deepcopy(node),
        schema=schema,
        first=node.op_type,
    )
    try:
        _change_version(rewrite, target)
        if check or rewrite.schema is not schema:
            _check_types(rewrite, schema, target)
    except NdgatherError as refusal:
        original = replace(rewrite, node=node, schema=schema)
        nodes, opset = _function_nodes(original, source)
        if not nodes:
            raise
        try:
            converted = (
                convert_node(item, scope, taken, opset, target, check=True) for item in nodes
            )
            return [item for items in converted for item in items]
        except NdgatherError as error:
            raise ModelError(f"{refusal}; in its function body, {error}") from error
    return [*rewrite.before, rewrite.node, *rewrite.after]


@cache
def _schema(op_type: str, opset: int) -> OpSchema | None:
    try:
        schema = defs.get_schema(op_type, opset, "")
    except (SchemaError, TypeError):  # A version of more than 32 bits raises TypeError.
        return None
    return None if schema.deprecated else schema


@cache
def _versions(op_type: str) -> tuple[int, ...]:
    schemas = (schema for schema in defs.get_all_schemas_with_history() if schema.domain == "")
    return tuple(sorted(schema.since_version for schema in schemas if schema.name == op_type))


def _check_attributes(node: NodeProto, schema: OpSchema) -> None:
    for item in node.attribute:
        known: Any = schema.attributes.get(item.name)  # The type stubs of onnx are incomplete.
        if known is not None and item.type not in {known.type.value, AttributeProto.UNDEFINED}:
            kind = AttributeProto.AttributeType.Name(item.type)
            raise DTypeError(
                f"{one_line(item.name)} is of kind {kind} (allowed: {known.type.name})"
            )


def _change_version(node: Rewrite, opset: int) -> None:
    """Convert a node, including the nodes that its conversion adds, one version at a time."""
    before, after = list[NodeProto](), list[NodeProto]()
    while True:
        name, version = node.node.op_type, node.schema.since_version
        target = _schema(name, opset)
        newer = min((other for other in _versions(name) if other > version), default=0)
        renamed = CHANGES.get((name, newer), NOTHING).renamed
        if opset > version and renamed:
            node.node.op_type, node.schema = renamed, defs.get_schema(renamed, newer, "")
            continue
        if target is None and not (opset > version and newer):
            raise node.cannot_become(opset, "there is no such operator")
        if target is None or target.since_version > version:
            _step_up(node, defs.get_schema(name, newer, ""))
            written = newer
        elif target.since_version < version:
            older = max(other for other in _versions(name) if other < version)
            _step_down(node, defs.get_schema(name, older, ""))
            written = version - 1
        else:
            node.before, node.after = before, after
            return
        new = [
            [
                part
                for item in nodes
                for part in convert_node(item, node.scope, node.taken, written, opset)
            ]
            for nodes in (node.before, node.after)
        ]
        before, after = [*before, *new[0]], [*new[1], *after]
        node.before, node.after = [], []


def _check_types(node: Rewrite, before: OpSchema, opset: int) -> None:
    """Raise an error if the new operator version does not support the types of the node."""
    bound: dict[str, str] = {}
    pairs = ((node.schema.inputs, node.node.input), (node.schema.outputs, node.node.output))
    for formal, name in (
        (formals[min(number, len(formals) - 1)], name)
        for formals, names in pairs
        for number, name in enumerate(names)
        if name and formals
    ):
        dtype = node.scope.type_of(name).dtype
        if dtype is None:
            both = (*before.inputs, *before.outputs)
            known = next((other.types for other in both if other.name == formal.name), None)
            if formal.type_str not in bound and not (known and known <= formal.types):
                raise ModelError(
                    f"the type of {name!r} is not known, and opset {opset} supports fewer types"
                )
            continue
        kind = schema_type(dtype)
        if kind not in formal.types:
            raise DTypeError(f"{one_line(name)}.dtype = {dtype} is not allowed in opset {opset}")
        if formal.is_homogeneous and bound.setdefault(formal.type_str, kind) != kind:
            raise DTypeError(
                f"{one_line(name)}.dtype = {dtype} differs from the dtype of other values "
                f"(allowed: {bound[formal.type_str]})"
            )


def _step_down(node: Rewrite, target: OpSchema) -> None:
    step = (node.node.op_type, node.schema.since_version)
    _check_step(node, target, step)
    if step in DOWN:
        DOWN[step](node, target)
        if node.node.op_type != step[0]:
            node.schema = defs.get_schema(node.node.op_type, step[1], "")
            return
    changes = CHANGES.get(step, NOTHING)
    if changes.broadcasts:
        shapes = [node.scope.type_of(name).dims for name in node.node.input]
        known = all(dims is not None and None not in dims for dims in shapes)
        if not known or len(set(shapes)) > 1:
            raise node.cannot_become(target, "its inputs may have different shapes")
    if changes.negative:
        _count_axes(node, target, changes.negative)
    for name, neutral in changes.added.items():
        value = node.get(name)
        ones = neutral == [1] and set(value or [1]) == {1}
        if not ones and value != (None if neutral == [] else neutral):
            raise node.cannot_become(target, f"it has no {name}, which is {value!r}")
        node.remove(name)
    _translate_words(node, target, changes, down=True)
    for name, number in changes.moved.items():
        if node.input(number):
            node.set(name, _input_as_attribute(node, target, name, number))
    for number in sorted(changes.moved.values(), reverse=True):
        node.set_input(number, "")
    _check_node(node, target)


def _step_up(node: Rewrite, target: OpSchema) -> None:
    step = (node.node.op_type, target.since_version)
    _check_step(node, target, step)
    changes = CHANGES.get(step, NOTHING)
    for name, neutral in changes.removed.items():
        if node.get(name) not in {neutral, None}:
            raise node.cannot_become(target, f"it has no {name}, which is {node.get(name)!r}")
        node.remove(name)
    for name, number in changes.moved.items():
        value = node.get(name)
        node.remove(name)
        if value == [] and name == "axes" and node.node.op_type == "Squeeze":
            raise node.cannot_become(target, "axes is empty, on which runtimes disagree")
        if value is not None:
            node.set_input(number, _attribute_as_input(node, target, name, number, value))
    for name, neutral in changes.added.items():
        if neutral not in ([], [1]) and default(target, name) != neutral:
            node.set(name, neutral)
    _translate_words(node, target, changes, down=False)
    if step in UP:
        UP[step](node, target)
    _check_node(node, target)


def _check_step(node: Rewrite, target: OpSchema, step: Step) -> None:
    """Set attributes explicitly if their default changes. Raise ModelError for unknown changes."""
    if not any(step in table for table in (CHANGES, TYPES, DOWN, UP)):
        raise node.cannot_become(target, "what changed is not known")
    changes = CHANGES.get(step, NOTHING)
    older, newer = sorted((node.schema, target), key=lambda schema: schema.since_version)
    added = newer.attributes.keys() - older.attributes.keys()
    removed = older.attributes.keys() - newer.attributes.keys()
    added -= added if step in DOWN else changes.added.keys()
    removed -= changes.moved.keys() | changes.removed.keys()
    if added or removed:
        changed = ", ".join(sorted(added | removed))
        raise node.cannot_become(target, f"{changed} changed, and how to convert it is not known")
    for name in sorted(older.attributes.keys() & newer.attributes.keys()):
        if default(older, name) != default(newer, name) and node.get(name) is not None:
            node.set(name, node.get(name))


def _check_node(node: Rewrite, target: OpSchema) -> None:
    for attribute in node.node.attribute:
        if attribute.name not in target.attributes:
            raise node.cannot_become(target, f"it has no {attribute.name}")
    if len(node.node.input) > target.max_input or len(node.node.output) > target.max_output:
        raise node.cannot_become(target, "it has fewer inputs or outputs")
    for number, formal in enumerate(target.inputs):
        needed = formal.option == OpSchema.FormalParameterOption.Single
        if needed and not node.input(number):
            raise node.cannot_become(target, f"it requires {formal.name}, which is omitted")
    node.schema = target


def _translate_words(node: Rewrite, target: OpSchema, changes: Changes, *, down: bool) -> None:
    for name, words in changes.words.items():
        before = node.get(name)
        for older, newer in words:
            here, there = (newer, older) if down else (older, newer)
            if here and before == here:
                if not there:
                    raise node.cannot_become(target, f"it has no {name} {here!r}")
                node.set(name, there)


def _count_axes(node: Rewrite, target: OpSchema, name: str) -> None:
    """Normalize and sort axes, because old versions of Squeeze require non-negative sorted axes."""
    value = node.get(name)
    if value in (None, default(target, name)):
        return
    axes = value if isinstance(value, list) else [value]
    if any(axis < 0 for axis in axes):
        rank = node.rank(0)
        if rank is None:
            what = f"{name} is negative, and the rank is not known"
            raise node.cannot_become(target, what)
        rank += {"Unsqueeze": len(axes), "OneHot": 1}.get(node.node.op_type, 0)
        if rank < max(-axis for axis in axes):
            raise node.cannot_become(target, f"{name} = {value!r} is out of bounds for rank {rank}")
        axes = [axis % rank for axis in axes]
    node.set(name, sorted(axes) if isinstance(value, list) else axes[0])


def _input_as_attribute(node: Rewrite, target: OpSchema, name: str, number: int) -> Any:
    value = node.input_constant(number)
    if value is None:
        raise node.cannot_become(target, f"{name} is not a constant")
    values, kind = value.reshape(-1).tolist(), target.attributes[name].type
    if not values and node.node.op_type == "Squeeze":
        raise node.cannot_become(target, f"{name} is empty, on which runtimes disagree")
    if kind == OpSchema.AttrType.FLOAT:
        if not values or np.float32(values[0]) != value.reshape(-1)[0]:
            raise node.cannot_become(target, f"{name} = {value} is not a float32")
        return float(values[0])
    if kind == OpSchema.AttrType.FLOATS:
        return [float(each) for each in values]
    integers = [int(each) for each in values]
    return integers[0] if kind == OpSchema.AttrType.INT else integers


def _attribute_as_input(node: Rewrite, target: OpSchema, name: str, number: int, value: Any) -> str:
    """Add a constant with the value of an attribute, using the dtype that the input requires."""
    dtype: Any = np.int64
    if isinstance(value, float) or (
        value != [] and isinstance(value, list) and isinstance(value[0], float)
    ):
        dtype = np.float32
        if target.inputs[number].type_str == target.inputs[0].type_str:
            dtype = node.dtype(0)
            if dtype is None:
                raise node.cannot_become(target, "the type of its input is not known")
    is_list = name == "k"  # In TopK, the attribute k is a number, but the input k is a vector.
    return node.constant([value] if is_list else value, name, dtype)


def _function_nodes(call: Rewrite, source: int) -> tuple[list[NodeProto], int]:
    """Return the nodes of an operator's function body, and the opset of these nodes.

    The list is empty for an operator without a function body. The opset may be later than `source`
    if the operator does not change. Types of new values are added to the scope of the call.
    """
    one_bound = call.node.op_type == "Clip" and not (call.input(1) and call.input(2))
    if one_bound or call.node.op_type == "ReduceLogSumExp":
        return [], source  # The function body treats infinity or overflow differently.
    if any(item.name not in call.schema.attributes for item in call.node.attribute):
        return [], source  # The function body would ignore an unknown attribute.
    if not call.schema.min_input <= len(call.node.input) <= call.schema.max_input:
        return [], source
    newer = [x for x in _versions(call.node.op_type) if x > call.schema.since_version]
    for opset in range(source, min(newer, default=defs.onnx_opset_version() + 1)):
        nodes = _inlined(call, opset)
        if nodes:
            return nodes, opset
    return [], source


def _inlined(call: Rewrite, opset: int) -> list[NodeProto]:
    """Return the nodes of the function body in `opset`, or an empty list."""
    if not _has_function(call, opset):
        return []
    node = deepcopy(call.node)
    inputs = [
        ValueInfoProto(name=name, type=declaration(call.scope.type_of(name)))
        for name in dict.fromkeys(node.input)
        if name
    ]
    outputs = [ValueInfoProto(name=name) for name in node.output if name]
    model = helper.make_model(helper.make_graph([node], "function", inputs, outputs))
    # onnx does not inline default values of attributes, so they are added to the node.
    for name, attribute in call.schema.attributes.items():
        if attribute.default_value.name and all(item.name != name for item in node.attribute):
            model.graph.node[0].attribute.append(attribute.default_value)
    model.opset_import[0].version = opset
    try:
        model = inliner.inline_selected_functions(
            model, [("", node.op_type)], inline_schema_functions=True
        )
    except Exception:  # The exceptions of onnx have no common base class.
        return []
    nodes = list(model.graph.node)
    if any(True for item in nodes for _ in subgraphs(item)):
        return []
    if any(item.op_type == call.node.op_type for item in nodes):
        return []  # The function body does not support the types or attributes of the node.
    computed = (name for item in nodes for name in item.output)
    kept = ("", *call.node.output)
    names = {name: call.new_name(name) for name in computed if name not in kept}
    for item in nodes:
        rename_values(item, names)
        call.scope.add(item)
        item.name = next(iter(item.output), "")
    try:
        typed = shape_inference.infer_shapes(model, data_prop=True).graph
    except Exception:
        return nodes
    for info in (*typed.value_info, *typed.output):
        if info.type.tensor_type.elem_type:
            call.scope.set_type(info.name, tensor_type(info.type))
    wide = (call.scope.type_of(x.input[0]).dtype for x in nodes if _to_float32(x))
    if not all(dtype and is_exact_cast(dtype, "float32") for dtype in wide):
        return []  # The function body would be less precise than the operator.
    return nodes


def _to_float32(node: NodeProto) -> bool:
    targets = [item.i for item in node.attribute if item.name == "to"]
    return node.op_type == "Cast" and targets == [TensorProto.FLOAT]


def _has_function(call: Rewrite, opset: int) -> bool:
    """Return whether ONNX defines a function body for a node whose input types are known."""
    schema: Any = call.schema  # The type stubs of onnx are incomplete.
    context = checker.C.CheckerContext()
    context.ir_version = IR_VERSION
    context.opset_imports = {"": opset}
    try:
        checker.check_node(call.node, context)  # The inliner assumes that the node is valid.
    except (checker.ValidationError, ValueError):
        return False
    if not schema.has_context_dependent_function:
        return bool(schema.has_function)
    return all(call.scope.type_of(name).dtype for name in call.node.input if name)
