"""Models for a restricted target: every gather and scatter rewritten until the target takes it."""

from __future__ import annotations

import math
from collections import Counter
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from onnx import TensorProto

from ndgather.errors import NdgatherError, one_line
from ndgather.models.graph.conversion import fit
from ndgather.models.onnx.inference import infer_types, value_names
from ndgather.models.onnx.nodes import (
    OpNode,
    Scope,
    graph_scope,
    implementation,
    is_published,
    names_read,
    nodes,
    subgraphs,
)
from ndgather.models.onnx.rewriting.calls import EQUIVALENCES, GatherCall
from ndgather.models.onnx.rewriting.rows import Rows
from ndgather.models.onnx.rewriting.sized_nodes import SizedNodes
from ndgather.published.rows import DEFAULT_DOMAIN
from ndgather.published.schema import Role
from ndgather.runtimes.runtime import dtype_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from onnx import GraphProto, ModelProto, NodeProto

    from ndgather.models.onnx.inference import InferredNode
    from ndgather.models.onnx.rewriting.target import Limits, Target

_WITHOUT_RULES = frozenset({"Scatter", "TensorScatter"})
_MOVES_NOTHING = frozenset({"Constant", "Reshape", "Shape", "Unsqueeze"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenNode:
    """What a conversion for a target did with one gather or scatter.

    Attributes
    ----------
    where : str
        The node, as its model names it, after the nodes that contain it.
    was : str
        Its operator, with the version and the domain.
    became : str
        The operators that replace it, with their numbers; empty if it stayed.
    added : int
        How many nodes there are more than before, without constants.
    why : str
        Why the target does not take the node; empty if it does.
    outside : str
        What the new nodes do with an index that is out of range.
    moved : int or None
        How many bytes the new nodes write, without reshapes; None if sizes are open.
    """

    where: str
    was: str
    became: str = ""
    added: int = 0
    why: str = ""
    outside: str = ""
    moved: int | None = 0

    @property
    def stays(self) -> bool:
        """Whether the target does not take the node, and no rule could rewrite it."""
        return bool(self.why) and not self.became


def deploy(
    model: ModelProto,
    folder: str | None,
    target: Target,
    *,
    checked: bool,
    allow_matmul: bool,
) -> tuple[ModelProto, tuple[RewrittenNode, ...]]:
    """Return a model without functions, rewritten for `target`, and what became of its nodes."""
    typed, inferred_nodes = infer_types(model, folder)
    result = deepcopy(model)
    rewriter = _Rewriter(
        target, checked, allow_matmul, iter(inferred_nodes), value_names(result.graph)
    )
    rewriter.rewrite_graph(result.graph, graph_scope(typed, folder))
    _drop_unread(result.graph, model.graph)
    return result, tuple(rewriter.reports(result, folder))


@dataclass(slots=True)
class _Rewriter:
    """Rewrites the gathers and scatters of graphs in place.

    `inferred` are those of the model with their types, in order; `taken` the names of values.
    `found` are the reports so far, with the outputs of the new nodes.
    """

    target: Target
    checked: bool
    allow_matmul: bool
    inferred: Iterator[InferredNode]
    taken: set[str]
    found: list[tuple[RewrittenNode, list[NodeProto]]] = field(default_factory=list)

    def rewrite_graph(self, graph: GraphProto, typed: Scope) -> None:
        rewritten: list[NodeProto] = []
        for node, typed_node in zip(list(graph.node), typed.body.node, strict=True):
            if is_published(node):
                rewritten += self._rewritten(node, next(self.inferred), typed)
                continue
            for inner, inner_typed in zip(subgraphs(node), subgraphs(typed_node), strict=True):
                self.rewrite_graph(inner, typed.within(typed_node, inner_typed))
            if node.op_type in _WITHOUT_RULES and not node.domain:
                op_node = OpNode(node=typed_node, scope=typed)
                why = "" if self.target.has(node.op_type) else f"no rule rewrites {node.op_type}"
                was = f"{DEFAULT_DOMAIN} {node.op_type}"
                became = "" if why else was
                report = RewrittenNode(where=op_node.where, was=was, became=became, why=why)
                self.found.append((report, []))
            rewritten.append(node)
        copies = list(map(deepcopy, rewritten))  # some of them are in `graph` itself
        del graph.node[:]
        graph.node.extend(copies)

    def _rewritten(self, node: NodeProto, inferred: InferredNode, typed: Scope) -> list[NodeProto]:
        """Return the nodes that replace a node, or the node itself, and note what was done."""
        op_node = inferred.op_node
        if inferred.refusal is not None:
            raise op_node.named(inferred.refusal)
        new = SizedNodes(scope=typed, taken=self.taken, prefix=node.output[0])
        call = GatherCall.of(inferred, new)
        was = str(call.row)
        why = self.target.refusal(call, typed)
        if why is None:
            self.found.append((RewrittenNode(where=op_node.where, was=was, became=was), []))
            return [node]
        reasons = [why]
        for attempt in self._attempts(call):
            new = SizedNodes(scope=typed, taken=self.taken, prefix=node.output[0])
            try:
                outside = attempt(GatherCall.of(inferred, new))
            except NdgatherError as error:
                reasons.append(str(error))
                continue
            new.finish(node.output[0])
            counts = Counter(x.op_type for x in new.before if x.op_type != "Constant")
            asked = {"MatMul"} if self.allow_matmul else set()
            lacking = [name for name in counts if not (self.target.has(name) or name in asked)]
            if lacking:
                reasons.append(f"its rewriting needs {lacking[0]}, which {self.target.name} lacks")
                continue
            became = ", ".join(name if n == 1 else f"{n} {name}" for name, n in counts.items())
            added = sum(counts.values()) - 1
            report = RewrittenNode(
                where=op_node.where, was=was, became=became, added=added, why=why, outside=outside
            )
            self.found.append((report, list(new.before)))
            return new.before
        why = "; ".join(dict.fromkeys(reasons))
        self.found.append((RewrittenNode(where=op_node.where, was=was, why=why), []))
        return [node]

    def _attempts(self, call: GatherCall) -> Iterator[Callable[[GatherCall], str]]:
        """Yield functions that add the nodes for a call, the simplest ones first."""
        changes = EQUIVALENCES.keys() - {("GatherND", "Gather"), ("GatherElements", "Gather")}
        names = sorted(after for before, after in changes if before == call.name)
        for name in (call.name, *names):
            if name in self.target.limits:
                yield partial(self._as_operator, name)
        if "Gather" in self.target.limits:
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
            outside = outside if self.checked else "may take another element"
        call.new.add(name, *call.inputs.values(), **call.attributes)
        return "not possible" if constant else outside

    def _as_rows(self, call: GatherCall) -> str:
        return self._rows(call, self.target.limits["Gather"]).write()

    def _rows(self, call: GatherCall, limits: Limits) -> Rows:
        return Rows(call, limits, checked=self.checked, matmul=self.allow_matmul)

    def reports(self, result: ModelProto, folder: str | None) -> Iterator[RewrittenNode]:
        """Yield the reports, with the bytes that the new nodes write."""
        sizes: dict[str, int | None] = {}
        if any(new for _, new in self.found):
            typed, _ = infer_types(result, folder)
            for scope, node in nodes(typed, folder):
                for name in node.output:
                    known = scope.type_of(name)
                    sizes[name] = None
                    if known.dtype and isinstance(known.shape, tuple):
                        items = [size for size in known.shape if isinstance(size, int)]
                        if len(items) == len(known.shape):
                            sizes[name] = math.prod(items) * dtype_named(known.dtype).itemsize
        for report, new in self.found:
            written = [
                sizes.get(node.output[0]) for node in new if node.op_type not in _MOVES_NOTHING
            ]
            known_sizes = [size for size in written if size is not None]
            moved = sum(known_sizes) if len(known_sizes) == len(written) else None
            yield replace(report, moved=moved)


def _drop_unread(graph: GraphProto, before: GraphProto) -> None:
    """Drop constants that nodes of a graph read before, and that nothing reads any more."""
    read, read_before = (
        {name for node in item.node for name in names_read(node)} for item in (graph, before)
    )
    unread = read_before - read - {item.name for item in (*graph.input, *graph.output)}
    for field_name in "initializer", "node":
        items = getattr(graph, field_name)
        for number in reversed(range(len(items))):
            item = items[number]
            constant = isinstance(item, TensorProto) or item.op_type == "Constant"
            names = {item.name} if isinstance(item, TensorProto) else set(item.output)
            if constant and names <= unread:
                del items[number]


def to_json(reports: Sequence[RewrittenNode], target: Target) -> dict[str, object]:
    """Return the target and the reports as a JSON object."""
    about = {"name": target.name, "source": target.source, "date": target.date}
    return {"target": about, "nodes": [asdict(report) for report in reports]}


def as_text(reports: Sequence[RewrittenNode], target: Target) -> str:
    """Return the reports as text, in columns, with a last line that counts them."""
    rows = [("node", "was", "became", "added", "bytes", "index outside", "why")]
    for report in reports:
        if report.why:
            moved = "open" if report.moved is None else str(report.moved)
            cells = (report.became, f"+{report.added}", moved, report.outside)
            if report.stays:
                cells = ("stays", "", "", "")
            rows.append((one_line(report.where), report.was, *cells, one_line(report.why)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    counts = Counter(
        "stay" if report.stays else "rewritten" if report.why else "fit" for report in reports
    )
    summary = ", ".join(f"{counts[name]} {name}" for name in ("fit", "rewritten", "stay"))
    last = f"{target.name} ({target.source}, {target.date}): {summary}"
    return "\n".join([*lines, "", last] if len(rows) > 1 else [last])
