"""Models for a restricted target: every gather and scatter rewritten until the target takes it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ndgather.errors import NdgatherError
from ndgather.models import Array
from ndgather.models.graph import unique
from ndgather.models.graph.conversion import fit
from ndgather.models.onnx.inference import InferredGraph, InferredNode, infer_types
from ndgather.models.onnx.nodes import (
    OpNode,
    ReadNode,
    Scope,
    attribute_value,
    drop_unread,
    implementation,
    is_published,
    rename_values,
    row_domain,
    unread,
    value_names,
)
from ndgather.models.onnx.rewriting.calls import EQUIVALENCES, GatherCall, cache_call
from ndgather.models.onnx.rewriting.report import RewrittenNode
from ndgather.models.onnx.rewriting.rows import Rows
from ndgather.models.onnx.rewriting.sized_nodes import SizedNodes
from ndgather.models.onnx.rewriting.target import Limits, Target
from ndgather.published.rows import DEFAULT_DOMAIN
from ndgather.published.schema import Role, TensorType, type_of
from ndgather.runtimes.runtime import dtype_named

_OF_SIZES = frozenset(
    {"Add", "Cast", "Concat", "ConstantOfShape", "Div", "Equal", "Expand", "Gather", "Identity"}
    | {"Max", "Min", "Mod", "Mul", "NonZero", "Range", "Reshape", "ScatterElements", "ScatterND"}
    | {"Slice", "Squeeze", "Sub", "Transpose", "Unsqueeze", "Where"}
)
"""Operators that compute with the sizes of a model."""
_MOST_SIZES = 4096
_DEFAULTS = frozenset({("reduction", "none"), ("batch_dims", 0)})
"""Attributes that older parsers do not know, with the values that change nothing."""
_SINCE = dict.fromkeys(
    ("GatherElements", "GatherND", "Range", "ScatterElements", "ScatterND"), 11
) | {"Less": 9, "Max": 12, "Min": 12, "Slice": 10, "Where": 9}
"""The first opset in which these are what rewritings need: for integers, with inputs."""
_MOVES_NOTHING = frozenset({"Constant", "Reshape", "Shape", "Unsqueeze"})


def deploy(
    model: ModelProto,
    folder: str | None,
    target: Target,
    *,
    checked: bool,
    allow_matmul: bool,
) -> tuple[ModelProto, tuple[RewrittenNode, ...]]:
    """Return a model without functions, rewritten for `target`, and what became of its nodes."""
    result, kept = deepcopy(model), unread(model.graph)
    typed = infer_types(result, folder)
    rewriter = _Rewriter(target, checked, allow_matmul, value_names(result.graph))
    while rewriter.fold_sizes(typed.of(result.graph)):
        typed = infer_types(result, folder)
    rewriter.fit_target(typed.of(result.graph))
    drop_unread(result.graph, kept)
    return result, tuple(rewriter.reports(result, folder))


@dataclass(slots=True)
class _Rewriter:
    """Rewrites nodes. `taken` are the names of values, and `found` the reports with new nodes."""

    target: Target
    checked: bool
    allow_matmul: bool
    taken: set[str]
    found: list[tuple[RewrittenNode, list[NodeProto]]] = field(default_factory=list)

    def fold_sizes(self, body: InferredGraph) -> bool:
        """Replace nodes that compute with known sizes by constants; return whether there are some.

        An If whose condition is known becomes the nodes of its branch. Types that depend on these
        constants are not known before they are inferred again.
        """
        found = False
        for place in body:
            node, scope = place.node, place.scope
            branch = _known_branch(place.read, scope)
            if branch is not None:
                place.nodes = self._inlined(node, branch, body.graph)
                continue
            for inner in place.bodies:
                found |= self.fold_sizes(inner)
            known = _known_sizes(place.read, scope)
            if known is None:
                continue
            if place.inferred is not None:
                why = "its result is known"
                self._note(place.inferred.op_node, "Constant", why=why, outside="not possible")
            value = numpy_helper.from_array(known)
            constant = helper.make_node("Constant", [], node.output, node.name, value=value)
            scope.add(constant)
            place.nodes = [constant]
        return found or body.changed

    def _inlined(self, node: NodeProto, branch: GraphProto, graph: GraphProto) -> list[NodeProto]:
        """Return the nodes of a branch of an If; its constants become those of `graph`."""
        names = {value: unique(value, self.taken) for value in value_names(branch) if value}
        own, copied = {*names}, []
        for inner, outer in zip((port.name for port in branch.output), node.output, strict=True):
            if not outer:  # an output that is left out
                continue
            if inner in own:
                own.remove(inner)
                names[inner] = outer
            else:  # a value from outside of the branch, or one that is returned twice
                copied.append(helper.make_node("Identity", [names.get(inner, inner)], [outer]))
        rename_values(branch, names)
        graph.initializer.extend(branch.initializer)
        return [*branch.node, *copied]

    def fit_target(self, body: InferredGraph) -> None:
        """Replace the gathers and scatters that the target does not take."""
        for place in body:
            for inner in place.bodies:
                self.fit_target(inner)
            node, inferred = place.node, place.inferred
            removed = place.read.op_type == "Scatter" and place.read.domain == DEFAULT_DOMAIN
            if removed or (inferred and inferred.op_node.operator().row.definition):
                place.nodes = self._of_another_kind(node, OpNode(place.read, place.scope))
            elif inferred is not None:
                place.nodes = self._rewritten(node, inferred, place.scope)

    def _note(
        self,
        op_node: OpNode,
        became: str | None = "",
        new: Sequence[NodeProto] = (),
        **facts: Any,
    ) -> None:
        """Add a report of a node; `became` is empty if the target takes it, None if it stays."""
        node = op_node.node
        was = f"{row_domain(node.domain)} {node.op_type}"
        was = str(op_node.operator().row) if is_published(node) else was
        became = "" if became is None else became or was
        report = RewrittenNode(where=op_node.where, was=was, became=became, **facts)
        self.found.append((report, list(new)))

    def _rewritten(self, node: NodeProto, inferred: InferredNode, typed: Scope) -> list[NodeProto]:
        """Return the nodes that replace a gather or scatter, or the node itself."""
        op_node = inferred.op_node
        if inferred.refusal is not None:
            raise op_node.named(inferred.refusal)
        call = GatherCall.of(inferred, self._new_nodes(op_node))
        why = self.target.refusal(call, typed)
        if why is None:
            self._note(op_node)
            return [_without_defaults(node)]
        attempts = ((partial(GatherCall.of, inferred), item) for item in self._attempts(call.name))
        return self._replaced(node, op_node, why, attempts)

    def _of_another_kind(self, node: NodeProto, op_node: OpNode) -> list[NodeProto]:
        """Return the nodes that replace a TensorScatter, or the node itself of other operators."""
        name = node.op_type
        if self.target.has(name):
            self._note(op_node)
            return [node]
        attempts = (
            (
                partial(cache_call, op_node, name=core, checked=self.checked),
                partial(self._into_cache, item, core),
            )
            for core in ("ScatterND", "GatherND")
            for item in self._attempts(core)
            if name == "TensorScatter" and (core == "GatherND" or core in self.target.limits)
        )
        why = f"{self.target.name} does not take {name}"
        if name == "Scatter":
            why = f"{why} (allowed: opset 11 or later, in which it is ScatterElements)"
        return self._replaced(node, op_node, why, attempts)

    def _into_cache(self, attempt: Callable[[GatherCall], str], name: str, call: GatherCall) -> str:
        """Add the nodes of a TensorScatter, and return what they do with a wrong start."""
        outside = attempt(call)
        if self.checked or outside == "not possible":
            return outside
        return "is dropped" if name == "GatherND" else "may change another element"

    def _new_nodes(self, op_node: OpNode) -> SizedNodes:
        return SizedNodes(scope=op_node.scope, taken=self.taken, prefix=op_node.node.output[0])

    def _replaced(
        self,
        node: NodeProto,
        op_node: OpNode,
        why: str,
        attempts: Iterable[tuple[Callable[[SizedNodes], GatherCall], Callable[[GatherCall], str]]],
    ) -> list[NodeProto]:
        """Return the nodes of the first attempt that the target takes, or the node itself."""
        reasons = [why]
        for call, attempt in attempts:
            new = self._new_nodes(op_node)
            try:
                outside = attempt(call(new))
            except NdgatherError as error:
                if not str(error).endswith(tuple(reasons)):
                    reasons.append(str(error))
                continue
            new.finish(node.output[0])
            counts = Counter(x.op_type for x in new.before if x.op_type != "Constant")
            asked = {"MatMul"} if self.allow_matmul else set()
            lacking = [name for name in counts if not (self.target.has(name) or name in asked)]
            if lacking:
                reasons.append(f"its rewriting needs {lacking[0]}, which {self.target.name} lacks")
                continue
            opset = new.scope.opsets[DEFAULT_DOMAIN]
            newest = max(counts, key=lambda name: _SINCE.get(name, 1))
            if opset < (since := _SINCE.get(newest, 1)):
                why = f"its rewriting needs {newest}, which opset {opset} does not have"
                reasons.append(f"{why} (allowed: opset {since} or later)")
                continue
            became = ", ".join(name if n == 1 else f"{n} {name}" for name, n in counts.items())
            added = sum(counts.values()) - 1
            self._note(op_node, became, new.before, added=added, why=why, outside=outside)
            return new.before
        self._note(op_node, None, why="; ".join(dict.fromkeys(reasons)))
        return [node]

    def _attempts(self, before: str) -> Iterator[Callable[[GatherCall], str]]:
        """Yield functions that add the nodes for a call of an operator, the simplest ones first."""
        names = sorted(after for origin, after in EQUIVALENCES if origin == before)
        for name in (before, *names):
            if name in self.target.limits:
                yield partial(self._as_operator, name)
        yield self._as_rows

    def _as_operator(self, name: str, call: GatherCall) -> str:
        """Write a call as one of an operator of the target, with other indices if need be."""
        constant, scope = Role.INDICES in call.constants, call.new.scope
        most = self.target.limits[name].batch_dims
        if name == call.name and most is not None and call.attribute("batch_dims") > most:
            call.fold_batch_dims(call.row)
            call.attributes["batch_dims"] = 0
        if name != call.name:
            call.change_operator(name)
        call.row = implementation(name, DEFAULT_DOMAIN, scope.opsets[DEFAULT_DOMAIN]).row
        fit(call, call.row)
        if "axis" in call.attributes:
            call.attributes["axis"] %= len(call.dims(Role.DATA))
        outside = "stays outside"
        if self.target.refusal(call, scope):
            self._rows(call, self.target.limits[name]).fold()
            refusal = self.target.refusal(call, scope, folded=True)
            if refusal:
                raise call.cannot_become(name, refusal)
            verb = "change" if call.row.kind.scatters else "take"
            outside = outside if self.checked else f"may {verb} another element"
        attributes = {key: x for key, x in call.attributes.items() if (key, x) not in _DEFAULTS}
        call.new.add(name, *call.inputs.values(), **attributes)
        return "not possible" if constant else outside

    def _as_rows(self, call: GatherCall) -> str:
        known = (self.target.limits.get(name) for name in ("Gather", "GatherElements"))
        return self._rows(call, next(filter(None, known), Limits())).write()

    def _rows(self, call: GatherCall, limits: Limits) -> Rows:
        return Rows(call, self.target, limits, checked=self.checked, matmul=self.allow_matmul)

    def reports(self, result: ModelProto, folder: str | None) -> Iterator[RewrittenNode]:
        """Yield the reports, with the bytes that the new nodes write, and the work of a MatMul."""
        types: dict[str, TensorType] = {}
        if any(new for _, new in self.found):
            for outermost in infer_types(result, folder).scopes:
                for scope, node in outermost.all_nodes():
                    types |= {name: scope.type_of(name) for name in node.outputs}
        for report, new in self.found:
            moved, became = 0 if new else report.moved, report.became
            for node in new:
                known = types.get(node.output[0], TensorType())
                sizes = known.numbers
                if node.op_type == "MatMul":
                    terms = types.get(node.input[0], TensorType()).numbers
                    work = math.prod((*sizes, terms[-1])) if sizes and terms else "open"
                    became = became.replace("MatMul", f"MatMul (products: {work})")
                if node.op_type in _MOVES_NOTHING:
                    continue
                if moved is None or sizes is None or known.dtype is None:
                    moved = None
                else:
                    moved += math.prod(sizes) * dtype_named(known.dtype).itemsize
            yield replace(report, moved=moved, became=became)


def _without_defaults(node: NodeProto) -> NodeProto:
    result = deepcopy(node)
    for item in node.attribute:
        if (item.name, attribute_value(item)) in _DEFAULTS:
            result.attribute.remove(item)
    return result


def _known_branch(node: ReadNode, scope: Scope) -> GraphProto | None:
    """Return a copy of the branch of an If that runs, where its condition is known."""
    is_if = node.op_type == "If" and node.domain == DEFAULT_DOMAIN and len(node.inputs) == 1
    condition = scope.constant(node.inputs[0]) if is_if else None
    if condition is None:
        return None
    name = "then_branch" if condition.all() else "else_branch"
    branches = (item.g for item in node.attributes if item.name == name)
    return next((deepcopy(x) for x in branches if len(x.output) == len(node.outputs)), None)


def _known_sizes(node: ReadNode, scope: Scope) -> Array | None:
    """Return the result of a node that computes with sizes, if all of them are numbers."""
    if node.domain != DEFAULT_DOMAIN or len(node.outputs) != 1:
        return None
    names = [name for name in node.inputs if name]
    if node.op_type in {"Shape", "Size"} and names:
        sizes = scope.type_of(names[0]).numbers
        inputs = {} if sizes is None else {names[0]: np.broadcast_to(np.float32(0), sizes)}
    elif node.op_type in _OF_SIZES and all(_is_small(scope.type_of(name)) for name in names):
        inputs = {name: x for name in names if (x := scope.constant(name)) is not None}
        if node.op_type in {"Div", "Mod"} and any((x < 0).any() for x in inputs.values()):
            return None  # runtimes round negative quotients in two ways
    else:
        return None
    if not inputs or len(inputs) < len({*names}):
        return None
    with suppress(Exception):  # what it refuses stays as it is
        (result,) = ReferenceEvaluator(node.node, opsets=dict(scope.opsets)).run(None, inputs)
        if _is_small(type_of(np.asarray(result))):
            return np.asarray(result)
    return None


def _is_small(known: TensorType) -> bool:
    """Return whether a value consists of few integers or booleans."""
    sizes = known.numbers
    whole = known.dtype is not None and (known.dtype == "bool" or "int" in known.dtype)
    return whole and sizes is not None and math.prod(sizes) <= _MOST_SIZES
