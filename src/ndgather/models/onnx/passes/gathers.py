"""Rewriting of gathers and scatters that a target does not support."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from onnx import NodeProto

from ndgather.errors import ModelError, NdgatherError
from ndgather.messages import listed, plain
from ndgather.models.graph.diagnostics import Severity
from ndgather.models.onnx.conversion_report import RewrittenNode
from ndgather.models.onnx.inference import InferredGraph, InferredNode
from ndgather.models.onnx.nodes import (
    OpNode,
    attribute_value,
    implementation,
    is_published,
    row_domain,
)
from ndgather.models.onnx.passes.calls import EQUIVALENCES, GatherCall, fit
from ndgather.models.onnx.passes.draft import Draft
from ndgather.models.onnx.passes.new_nodes import SizedNodes, keep_identity
from ndgather.models.onnx.passes.rows import Rows
from ndgather.models.onnx.passes.target import Limits, Target
from ndgather.models.onnx.value_ranges import Interval, find_value_range
from ndgather.published.rows import DEFAULT_DOMAIN
from ndgather.published.schema import Role, TensorType
from ndgather.runtimes.runtime import dtype_named

_DEFAULTS = frozenset({("reduction", "none"), ("batch_dims", 0)})
"""Attributes that older parsers do not accept, with the default values that can be dropped."""
_SINCE = dict.fromkeys(
    ("GatherElements", "GatherND", "Range", "ScatterElements", "ScatterND"), 11
) | {"Less": 9, "Max": 12, "Min": 12, "Slice": 10, "Where": 9}
"""The first opset in which an operator supports integers and accepts parameters as inputs."""
_INT32 = Interval(-(2**31), 2**31 - 1)
_OF_OPEN_SIZES = frozenset({"Range", "Shape"})
_Writer: TypeAlias = Callable[[GatherCall], str]
"""A function that adds the nodes for a call and returns how they treat out-of-bounds indices."""
_MOVES_NOTHING = frozenset({"Constant", "Reshape", "Shape", "Unsqueeze"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteGathers:
    """A pass that rewrites gathers and scatters that `target` does not support.

    If `checked`, out-of-bounds indices stay out of bounds in the new nodes. A node that no rule can
    rewrite is kept or, if `strict`, causes an error.
    """

    target: Target
    checked: bool = False
    allow_matmul: bool = False
    strict: bool = False

    def __call__(self, draft: Draft) -> Draft:
        self._rewrite_graph(draft, draft.inferred.pair_graph(draft.model.graph))
        return draft.changed()

    def _rewrite_graph(self, draft: Draft, body: InferredGraph) -> None:
        for place in body:
            for inner in place.bodies:
                self._rewrite_graph(draft, inner)
            node, inferred = place.node, place.inferred
            removed = place.read.op_type == "Scatter" and place.read.domain == DEFAULT_DOMAIN
            if removed or (inferred and inferred.op_node.operator().row.definition):
                op_node = OpNode(place.read, place.scope)
                place.nodes = self._keep_other(draft, node, op_node)
            elif inferred is not None:
                place.nodes = self._rewrite_node(draft, node, inferred)

    def _rewrite_node(
        self, draft: Draft, node: NodeProto, inferred: InferredNode
    ) -> list[NodeProto]:
        op_node = inferred.op_node
        if inferred.refusal is not None:
            raise op_node.named(inferred.refusal)
        call = GatherCall.from_node(inferred, self._new_nodes(draft, op_node))
        why = self.target.refusal(call, op_node.scope)
        if why is None:
            self._report(draft, op_node)
            return [_without_defaults(node)]
        attempts = (partial(_write_node, inferred, item) for item in self._attempts(call.name))
        return self._replace(draft, node, op_node, why, attempts)

    def _keep_other(self, draft: Draft, node: NodeProto, op_node: OpNode) -> list[NodeProto]:
        """Report and return a node that no rule can rewrite."""
        if self.target.has(node.op_type):
            self._report(draft, op_node)
        else:
            why = f"{self.target.name} does not support {node.op_type}"
            if node.op_type == "Scatter":
                why = f"{why} (allowed: opset 11 or later, which has ScatterElements instead)"
            self._report(draft, op_node, None, why=why)
        return [node]

    def _replace(
        self,
        draft: Draft,
        node: NodeProto,
        op_node: OpNode,
        why: str,
        attempts: Iterable[Callable[[SizedNodes], str]],
    ) -> list[NodeProto]:
        """Return the new nodes of the first attempt that succeeds, or the node if all fail."""
        reasons = [why]
        for attempt in attempts:
            new = self._new_nodes(draft, op_node)
            try:
                outside = attempt(new)
                new.finish(node.output[0])
            except NdgatherError as error:
                if not str(error).endswith(tuple(reasons)):
                    reasons.append(str(error))
                continue
            counts = Counter(x.op_type for x in new.before if x.op_type != "Constant")
            opset = new.scope.opsets[DEFAULT_DOMAIN]
            missing = self._missing_operator(counts, opset, _open_sizes(op_node))
            if missing:
                reasons.append(missing)
                continue
            if self.target.opset is not None:
                draft.normalized |= {x.output[0] for x in new.before if is_published(x)}
            became = ", ".join(name if n == 1 else f"{n} {name}" for name, n in counts.items())
            added = sum(counts.values()) - 1
            self._report(draft, op_node, became, new.before, added=added, why=why, outside=outside)
            operator = f"{row_domain(node.domain)} {node.op_type}"
            draft.assume(op_node.where, operator, node.input)
            for name, axis in dict.fromkeys(new.small):
                what = f"assumes that axis {axis} of {name!r} has size {_INT32.highest} at most"
                draft.add_finding(op_node.where, operator, "index types", what)
            dtype = op_node.scope.type_of(node.input[0]).dtype or ""
            word = op_node.attributes().get("reduction")
            if word in {"max", "min"} and "float" in dtype and word.title() in counts:
                what = f"for 0.0 and -0.0, the {word.title()} of a runtime may return either"
                draft.add_finding(op_node.where, operator, "signs of zeros", what, Severity.DIFFERS)
            return keep_identity(node, new.before, draft.titles)
        self._report(draft, op_node, None, why="; ".join(dict.fromkeys(reasons)))
        return [node]

    def _new_nodes(self, draft: Draft, op_node: OpNode) -> SizedNodes:
        scope, output = op_node.scope, op_node.node.output[0]
        opset = self.target.opset or scope.opsets[DEFAULT_DOMAIN]
        return SizedNodes(scope=scope, taken=draft.taken, prefix=output, opset=opset)

    def _missing_operator(self, names: Iterable[str], opset: int, sizes: Sequence[str]) -> str:
        """Return why the target or its opset lacks an operator in `names`, or an empty string.

        If the node has dynamic `sizes`, the new nodes may need Range and Shape.
        """
        numbers = f"numbers for its sizes {listed(sizes)}" if sizes else ""
        asked = {"MatMul"} if self.allow_matmul else set()
        for name in names:
            if not self.target.has(name) and name not in asked:
                allowed = f" (allowed: {numbers})" if numbers and name in _OF_OPEN_SIZES else ""
                return f"its rewriting needs {name}, which {self.target.name} lacks{allowed}"
        if self.target.opset is not None:  # A later pass converts all except Range and Shape.
            opset, names = self.target.opset, _OF_OPEN_SIZES.intersection(names)
        newest = max(names, key=lambda name: _SINCE.get(name, 1), default="")
        since = _SINCE.get(newest, 1)
        if opset < since:
            allowed = f"opset {since} or later"
            if numbers and newest in _OF_OPEN_SIZES:
                allowed = f"{allowed}, or {numbers}"
            what = f"its rewriting needs {newest}, which opset {opset} does not have"
            return f"{what} (allowed: {allowed})"
        return ""

    def _report(
        self,
        draft: Draft,
        op_node: OpNode,
        became: str | None = "",
        new: Sequence[NodeProto] = (),
        **facts: Any,
    ) -> None:
        """Report on a node. `became` is empty if it is supported, and None if it has no rewrite."""
        node, where = op_node.node, op_node.where
        was = f"{row_domain(node.domain)} {node.op_type}"
        was = str(op_node.operator().row) if is_published(node) else was
        if became is None and self.strict:
            raise op_node.named(
                ModelError(f"{was} cannot become {self.target.name}: {facts['why']}")
            )
        known = "" if became is None else became or was
        report = RewrittenNode(where=where, was=was, became=known, **facts)
        draft.report(report, new, self.target)

    def _attempts(self, before: str) -> Iterator[_Writer]:
        """Yield functions that can rewrite a call of `before`, starting with the simplest."""
        names = sorted(after for origin, after in EQUIVALENCES if origin == before)
        for name in (before, *names):
            if name in self.target.limits:
                yield partial(self._write_operator, name)
        yield self._write_rows

    def _write_operator(self, name: str, call: GatherCall) -> str:
        """Replace a call with a call of the operator `name`, adjusting the indices if necessary."""
        scope = call.new.scope
        most = self.target.limits[name].batch_dims
        if name == call.name and most is not None and call.attribute("batch_dims") > most:
            call.fold_batch_dims()
            call.attributes["batch_dims"] = 0
        if name != call.name:
            call.change_operator(name)
        function = implementation(name, DEFAULT_DOMAIN, scope.opsets[DEFAULT_DOMAIN])
        call.row = function.row
        fit(call, function)
        if "axis" in call.attributes and (dims := call.types[Role.DATA].dims):
            call.attributes["axis"] %= len(dims)
        outside = "stays out of bounds"
        if self.target.refusal(call, scope):
            outside = self._cast_indices(call)
        if not outside:
            rows = self._rows(call, self.target.limits[name])
            rows.normalize_indices()
            refusal = self.target.refusal(call, scope, normalized=True)
            if refusal:
                raise call.cannot_become(name, refusal)
            outside = rows.outside("stays out of bounds")
        attributes = {key: x for key, x in call.attributes.items() if (key, x) not in _DEFAULTS}
        call.new.add(name, *call.inputs.values(), **attributes)
        return outside

    def _cast_indices(self, call: GatherCall) -> str:
        """Cast the indices to int32 if the target supports the call with int32 indices.

        Return how the cast treats out-of-bounds indices, or an empty string if nothing was cast.
        """
        new, name, known = call.new, call.inputs[Role.INDICES], call.types[Role.INDICES]
        fits = find_value_range(new.scope, name).is_within(_INT32)
        sizes = call.indexed_sizes()
        long = any(isinstance(size, int) and size > _INT32.highest for size in sizes)
        call.types[Role.INDICES] = replace(known, dtype="int32")
        is_enough = known.dtype == "int64" and not self.target.refusal(call, new.scope)
        if not is_enough or (not fits and (self.checked or long)):
            call.types[Role.INDICES] = known
            return ""
        call.inputs[Role.INDICES] = new.cast(name, "int32")
        if fits:
            return "stays out of bounds"
        if not sizes or not isinstance(sizes[0], int):
            new.small.append((call.inputs[Role.DATA], call.attribute("axis")))
        return f"may {'change' if call.row.kind.scatters else 'select'} another element"

    def _write_rows(self, call: GatherCall) -> str:
        known = (self.target.limits.get(name) for name in ("Gather", "GatherElements"))
        return self._rows(call, next(filter(None, known), Limits())).write()

    def _rows(self, call: GatherCall, limits: Limits) -> Rows:
        return Rows(call, self.target, limits, checked=self.checked, matmul=self.allow_matmul)


def _write_node(inferred: InferredNode, write: _Writer, new: SizedNodes) -> str:
    call = GatherCall.from_node(inferred, new)
    constant, inside = Role.INDICES in call.constants, call.safe_range
    outside = write(call)
    if constant:
        return "not possible"
    if inside is not None:
        return f"not possible: the indices are {inside.lowest}..{inside.highest}"
    return outside


def _open_sizes(op_node: OpNode) -> list[str]:
    """Return the names of the dynamic sizes of a node's inputs, such as ``N`` or ``data[0]``."""
    sizes = (
        plain(size or f"{name}[{axis}]")
        for name in op_node.node.input
        for axis, size in enumerate(op_node.scope.type_of(name).dims or ())
        if not isinstance(size, int)
    )
    return list(dict.fromkeys(sizes))


def _without_defaults(node: NodeProto) -> NodeProto:
    result = deepcopy(node)
    for item in node.attribute:
        if (item.name, attribute_value(item)) in _DEFAULTS:
            result.attribute.remove(item)
    return result


def measured_nodes(draft: Draft) -> Iterator[RewrittenNode]:
    """Yield the reports after counting bytes written by new nodes and multiplications in MatMul."""
    types: dict[str, TensorType] = {}
    if any(new for _, new in draft.nodes):
        for outermost in draft.inferred.scopes:
            for scope, node in outermost.all_nodes():
                types |= {name: scope.type_of(name) for name in node.outputs}
    for report, new in draft.nodes:
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
