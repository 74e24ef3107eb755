"""Constant folding for computations of known sizes and for If nodes with known conditions."""

from __future__ import annotations

import math
from contextlib import suppress
from copy import deepcopy

import numpy as np
from onnx import GraphProto, NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ndgather.models import Array
from ndgather.models.graph import unique
from ndgather.models.onnx.conversion_report import RewrittenNode
from ndgather.models.onnx.inference import InferredGraph
from ndgather.models.onnx.nodes import ReadNode, Scope, rename_values, value_names
from ndgather.models.onnx.passes.draft import Draft
from ndgather.models.onnx.passes.new_nodes import keep_identity
from ndgather.models.onnx.passes.target import Target
from ndgather.published.rows import DEFAULT_DOMAIN
from ndgather.published.schema import TensorType, type_of

_OF_SIZES = frozenset(
    {"Add", "Cast", "Concat", "ConstantOfShape", "Div", "Equal", "Expand", "Gather", "Identity"}
    | {"Max", "Min", "Mod", "Mul", "NonZero", "Range", "Reshape", "ScatterElements", "ScatterND"}
    | {"Slice", "Squeeze", "Sub", "Transpose", "Unsqueeze", "Where"}
)
"""Operators that are used to compute sizes."""
_MOST_SIZES = 4096


def fold_known_sizes(draft: Draft, target: Target) -> Draft:
    """Replace computations of known sizes with constants until nothing changes."""
    while _fold(draft, target, draft.inferred.pair_graph(draft.model.graph)):
        draft.changed()  # Inferred types may depend on the new constants.
    return draft


def _fold(draft: Draft, target: Target, body: InferredGraph) -> bool:
    found = False
    for place in body:
        node, scope = place.node, place.scope
        branch = _known_branch(place.read, scope)
        if branch is not None:
            place.nodes = _inlined(node, branch, body.graph, draft.taken)
            continue
        for inner in place.bodies:
            found |= _fold(draft, target, inner)
        known = _known_sizes(place.read, scope)
        if known is None:
            continue
        if place.inferred is not None:
            op_node = place.inferred.op_node
            report = RewrittenNode(
                where=op_node.where,
                was=str(op_node.operator().row),
                became="Constant",
                why="its result is known",
                outside="not possible",
            )
            draft.report(report, [], target)
        draft.assume(scope.where(node), f"{DEFAULT_DOMAIN} {node.op_type}", node.input)
        value = numpy_helper.from_array(known)
        constant = helper.make_node("Constant", [], node.output, value=value)
        scope.add(constant)
        place.nodes = keep_identity(node, [constant], draft.titles)
    return found or body.changed


def _inlined(
    node: NodeProto, branch: GraphProto, graph: GraphProto, taken: set[str]
) -> list[NodeProto]:
    """Move the constants of a branch to `graph`, and return the nodes that replace the If node."""
    names = {value: unique(value, taken) for value in value_names(branch) if value}
    own, copied = {*names}, []
    for inner, outer in zip((port.name for port in branch.output), node.output, strict=True):
        if not outer:  # an omitted output
            continue
        if inner in own:
            own.remove(inner)
            names[inner] = outer
        else:  # The branch returns a value of an outer graph, or returns a value twice.
            copied.append(helper.make_node("Identity", [names.get(inner, inner)], [outer]))
    rename_values(branch, names)
    graph.initializer.extend(branch.initializer)
    return [*branch.node, *copied]


def _known_branch(node: ReadNode, scope: Scope) -> GraphProto | None:
    """Return a copy of the branch that an If node always runs, or None."""
    is_if = node.op_type == "If" and node.domain == DEFAULT_DOMAIN and len(node.inputs) == 1
    condition = scope.constant(node.inputs[0]) if is_if else None
    if condition is None:
        return None
    name = "then_branch" if condition.all() else "else_branch"
    branches = (item.g for item in node.attributes if item.name == name)
    return next((deepcopy(x) for x in branches if len(x.output) == len(node.outputs)), None)


def _known_sizes(node: ReadNode, scope: Scope) -> Array | None:
    """Return the result of a node that computes with known sizes, or None."""
    if node.domain != DEFAULT_DOMAIN or len(node.outputs) != 1:
        return None
    names = [name for name in node.inputs if name]
    if node.op_type in {"Shape", "Size"} and names:
        sizes = scope.type_of(names[0]).numbers
        inputs = {} if sizes is None else {names[0]: np.broadcast_to(np.float32(0), sizes)}
    elif node.op_type in _OF_SIZES and all(_is_small(scope.type_of(name)) for name in names):
        inputs = {name: x for name in names if (x := scope.constant(name)) is not None}
        if node.op_type in {"Div", "Mod"} and any((x < 0).any() for x in inputs.values()):
            return None  # Runtimes round negative quotients differently.
    else:
        return None
    if not inputs or len(inputs) < len({*names}):
        return None
    with suppress(Exception):  # A node that the evaluator cannot run is kept.
        (result,) = ReferenceEvaluator(node.node, opsets=dict(scope.opsets)).run(None, inputs)
        if _is_small(type_of(np.asarray(result))):
            return np.asarray(result)
    return None


def _is_small(known: TensorType) -> bool:
    sizes = known.numbers
    whole = known.dtype is not None and (known.dtype == "bool" or "int" in known.dtype)
    return whole and sizes is not None and math.prod(sizes) <= _MOST_SIZES
