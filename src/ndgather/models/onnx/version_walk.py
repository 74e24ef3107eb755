"""A node of another operator from one version of ONNX to the next, until it is of the target.

Each step goes by the rows of `version_steps` and the functions of `version_changes`; without
either, the two versions have to differ in types only. Anything else is refused.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import defs
from onnx.defs import OpSchema, SchemaError

from ndgather.errors import DTypeError
from ndgather.models.onnx.op_nodes import attribute_value
from ndgather.models.onnx.schema_types import refuse_types
from ndgather.models.onnx.substitutes import OF_INTEGERS, SUBSTITUTES
from ndgather.models.onnx.version_changes import DOWN, UP
from ndgather.models.onnx.version_steps import (
    ABSENT,
    ADDED,
    BROADCAST,
    COUNTED_FROM_THE_END,
    LISTS,
    MOVED,
    NEW_WORDS,
    OLD_WORDS,
    ONES,
    REMOVED,
    RENAMED,
    WORDS,
    Step,
)

if TYPE_CHECKING:
    from ndgather.models.onnx.other_node import OtherNode


def schema_of(op_type: str, opset: int) -> OpSchema | None:
    """Return what an opset says of an operator; None where it has none."""
    try:
        schema = defs.get_schema(op_type, opset, "")
    except (SchemaError, TypeError):  # the second: a version beyond 32 bits
        return None
    return None if schema.deprecated else schema


@cache
def _versions(op_type: str) -> tuple[int, ...]:
    found = (each for each in defs.get_all_schemas_with_history() if each.domain == "")
    return tuple(sorted(each.since_version for each in found if each.name == op_type))


def walk(node: OtherNode, opset: int) -> None:
    """Bring a node to the version that `opset` has.

    Raises
    ------
    NdgatherError
        The target cannot say it; the text says why.
    """
    came = node.schema
    while True:
        name, here = node.node.op_type, node.schema.since_version
        target = schema_of(name, opset)
        newer = min((each for each in _versions(name) if each > here), default=0)
        if opset > here and (name, newer) in RENAMED:
            node.node.op_type = RENAMED[name, newer]
            node.schema = defs.get_schema(node.node.op_type, newer, "")
        elif target is None and opset > here and newer:
            _step_up(node, defs.get_schema(name, newer, ""))
        elif target is None and opset < here and name in SUBSTITUTES:
            SUBSTITUTES[name](node, opset)
        elif target is None:
            raise node.refuse(opset, "there is no such operator")
        elif target.since_version > here:
            _step_up(node, defs.get_schema(name, newer, ""))
        elif target.since_version < here:
            older = max(each for each in _versions(name) if each < here)
            _step_down(node, defs.get_schema(name, older, ""))
        else:
            break
    if node.schema is came:
        return
    try:
        refuse_types(node, came, opset)
    except DTypeError:
        if node.node.op_type not in OF_INTEGERS:
            raise
        OF_INTEGERS[node.node.op_type](node, opset)
        walk(node, opset)


def _step_down(node: OtherNode, target: OpSchema) -> None:
    step = (node.node.op_type, node.schema.since_version)
    _refuse_unknown(node, target, step)
    for name in _other_defaults(node.schema, target):
        if not node.has(name) and node.get(name) is not None:
            node.set(name, node.get(name))
    if step in DOWN:
        DOWN[step](node, target)
        if node.node.op_type != step[0]:
            node.schema = defs.get_schema(node.node.op_type, step[1], "")
            return
    if step in BROADCAST:
        shapes = [node.values.type(name).shape for name in node.node.input]
        if any(not isinstance(each, tuple) or None in each or each != shapes[0] for each in shapes):
            raise node.refuse(target, "its inputs may be of different shapes")
    if step in COUNTED_FROM_THE_END:
        _count_axes(node, target, COUNTED_FROM_THE_END[step])
    for name, neutral in ADDED.get(step, {}).items():
        value = node.get(name)
        ones = neutral == ONES and set(value or ONES) == {1}
        if not ones and value != neutral:
            raise node.refuse(target, f"it has no {name}, which is {value!r}")
        node.remove(name)
    _words(node, target, step, down=True)
    for name, place in MOVED.get(step, {}).items():
        if node.input(place):
            node.set(name, _attribute(node, target, name, place))
    if step in MOVED:
        first = min(MOVED[step].values())
        del node.node.input[first:]
    _arrive(node, target)


def _step_up(node: OtherNode, target: OpSchema) -> None:
    step = (node.node.op_type, target.since_version)
    _refuse_unknown(node, target, step)
    for name in _other_defaults(node.schema, target):
        if not node.has(name) and node.get(name) is not None:
            node.set(name, node.get(name))
    for name, neutral in REMOVED.get(step, {}).items():
        if node.get(name) not in {neutral, None}:
            raise node.refuse(target, f"it has no {name}, which is {node.get(name)!r}")
        node.remove(name)
    for name, place in MOVED.get(step, {}).items():
        value = node.get(name)
        node.remove(name)
        if value is not None:
            node.set_input(place, _input(node, target, name, place, value))
    for name, neutral in ADDED.get(step, {}).items():
        added = target.attributes[name]
        if neutral not in {ABSENT, ONES} and _default(added) != neutral:
            node.set(name, neutral)
    _words(node, target, step, down=False)
    if step in UP:
        UP[step](node, target)
    _arrive(node, target)


def _refuse_unknown(node: OtherNode, target: OpSchema, step: Step) -> None:
    """Refuse a step of which nothing is known, although more than types changed."""
    pair = (node.schema, target)
    older, newer = sorted(pair, key=lambda schema: schema.since_version)
    came = newer.attributes.keys() - older.attributes.keys()
    went = older.attributes.keys() - newer.attributes.keys()
    known = set(ADDED.get(step, ())) if step in ADDED else set()
    said = step in ADDED and (step in DOWN or known >= came)
    gone = set(MOVED.get(step, ())) | set(REMOVED.get(step, ()))
    if (came and not said) or not gone >= went:
        changed = ", ".join(sorted((came if not said else set()) | (went - gone)))
        raise node.refuse(target, f"{changed} changed, and no way between the two is known")


def _other_defaults(first: OpSchema, second: OpSchema) -> list[str]:
    both = first.attributes.keys() & second.attributes.keys()
    return [
        name
        for name in both
        if _default(first.attributes[name]) != _default(second.attributes[name])
    ]


def _default(attribute: OpSchema.Attribute) -> Any:
    value = attribute.default_value
    return attribute_value(value) if value.name else None


def _words(node: OtherNode, target: OpSchema, step: Step, *, down: bool) -> None:
    foreign = NEW_WORDS if down else OLD_WORDS
    for (op_type, version, name), words in foreign.items():
        if (op_type, version) == step and node.get(name) in words:
            raise node.refuse(target, f"it has no {name} {node.get(name)!r}")
    for (op_type, version, name), renamed in WORDS.items():
        if (op_type, version) == step:
            back = {new: old for old, new in renamed.items()} if down else renamed
            word = node.get(name)
            node.set(name, back.get(word, word))


def _count_axes(node: OtherNode, target: OpSchema, name: str) -> None:
    """Count axes from the front."""
    given = node.get(name)
    axes = given if isinstance(given, list) else [given]
    if given is None or all(axis >= 0 for axis in axes):
        return
    rank = node.rank(0)
    if rank is None:
        raise node.refuse(target, f"{name} counts from the end, and the rank is not known")
    if node.node.op_type == "Unsqueeze":
        rank += len(axes)
    if node.node.op_type == "OneHot":
        rank += 1
    if rank < max(-axis for axis in axes):
        raise node.refuse(target, f"{name} = {given!r} is outside {rank} axes")
    counted = [axis % rank for axis in axes]
    node.set(name, counted if isinstance(given, list) else counted[0])


def _attribute(node: OtherNode, target: OpSchema, name: str, place: int) -> Any:
    """Return what an input holds as the attribute that it is in the older version."""
    value = node.values.value(node.input(place))
    if value is None:
        raise node.refuse(target, f"{name} is not a constant")
    kind = target.attributes[name].type
    if kind == OpSchema.AttrType.FLOAT:
        single = np.float32(value.reshape(-1)[0]) if value.size else None
        if single is None or single != value.reshape(-1)[0]:
            raise node.refuse(target, f"{name} = {value} is no number of 32 bits")
        return float(single)
    if kind == OpSchema.AttrType.FLOATS:
        return [float(each) for each in value.reshape(-1)]
    numbers = [int(each) for each in value.reshape(-1)]
    return numbers[0] if kind == OpSchema.AttrType.INT else numbers


def _input(node: OtherNode, target: OpSchema, name: str, place: int, value: Any) -> str:
    """Return a constant that holds what was an attribute in the older version."""
    dtype: Any = np.int64
    if isinstance(value, float) or (isinstance(value, list) and isinstance(value[0], float)):
        formal, first = target.inputs[place].type_str, target.inputs[0].type_str
        dtype = np.float32
        if formal == first:
            known = node.dtype(0)
            if known is None:
                raise node.refuse(target, "the type of its input is not known")
            dtype = known
    if (node.node.op_type, name) in LISTS:
        value = [value]
    return node.constant(np.array(value, dtype), name)


def _arrive(node: OtherNode, target: OpSchema) -> None:
    """Take a node for one of the target, which has to have its attributes and inputs."""
    for each in node.node.attribute:
        if each.name not in target.attributes:
            raise node.refuse(target, f"it has no {each.name}")
    count = len(node.node.input)
    required = [each.option == OpSchema.FormalParameterOption.Single for each in target.inputs]
    if count > target.max_input or len(node.node.output) > target.max_output:
        raise node.refuse(target, "it has fewer inputs or outputs")
    for place, needed in enumerate(required):
        if needed and not node.input(place):
            raise node.refuse(target, f"it needs {target.inputs[place].name}, which is left out")
    node.schema = target
