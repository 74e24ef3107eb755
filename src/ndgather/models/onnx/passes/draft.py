"""The model and its reports during a conversion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeAlias

from onnx import ModelProto, NodeProto, TypeProto

from ndgather.errors import ModelError, one_line
from ndgather.messages import shown
from ndgather.models.graph.diagnostics import Finding, Severity
from ndgather.models.onnx.conversion_report import RewrittenNode
from ndgather.models.onnx.inference import (
    InferredModel,
    changed_operator,
    computed_types,
    declarations,
    declares_sizes,
    drop_stale_sizes,
    infer_types,
    opset_of,
    types_from_inputs,
    without_functions,
)
from ndgather.models.onnx.nodes import drop_unread, nodes_in, unread, value_names
from ndgather.models.onnx.passes.target import Target
from ndgather.published.schema import TensorType


@dataclass(slots=True, kw_only=True)
class Draft:
    """A model with inlined functions that passes modify in place.

    `taken` contains the names of all values, and `titles` contains the names of all nodes.
    `kept` contains the names of values that are unused in the source model.
    `assumed` contains the types of values whose sizes are declared but cannot be inferred.
    `stale` contains declarations and why they contradict a dynamic size of an input.
    `nodes` contains a report and the new nodes for each gather and scatter.
    `normalized` contains the outputs of new gathers with normalized indices.
    """

    model: ModelProto
    folder: str | None
    taken: set[str]
    titles: set[str]
    kept: set[str]
    assumed: dict[str, TensorType] = field(default_factory=dict)
    stale: dict[str, tuple[TypeProto, str]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    nodes: list[tuple[RewrittenNode, list[NodeProto]]] = field(default_factory=list)
    normalized: set[str] = field(default_factory=set)
    _inferred: InferredModel | None = None

    @classmethod
    def from_source(cls, source: ModelProto, folder: str | None) -> Self:
        """Return a draft with a copy of `source` in which functions are inlined."""
        model = without_functions(source)
        for function in model.functions:
            name = one_line(f"{function.name} of {function.domain}")
            changed = one_line(changed_operator(function, source))
            opset = opset_of(function)
            why = f"it uses {changed} of opset {opset}" if changed else "its opset differs"
            raise ModelError(
                f"function {name} cannot be inlined because {why} (allowed: functions that import "
                "the same versions as the model)"
            )
        graph = model.graph
        titles = {node.name for node in nodes_in(model)}
        names, kept = value_names(graph), unread(graph)
        draft = cls(model=model, folder=folder, taken=names, titles=titles, kept=kept)
        read = {name for node in nodes_in(model) for name in node.input}
        if declares_sizes(model, of=read):
            known = types_from_inputs(model, folder)
            draft.stale = drop_stale_sizes(model, known)
            draft.assumed = {
                name: declared
                for name, declared in computed_types(draft.inferred).items()
                if _has_more_sizes(declared, known.get(name, TensorType()))
            }
        return draft

    def assume(self, where: str, operator: str, names: Iterable[str]) -> None:
        """Add a finding for each value in `names` whose declared sizes cannot be verified."""
        for name in names:
            if name in self.assumed:
                shape = shown(self.assumed[name].dims or ())
                what = f"assumes that value {name!r} has shape {shape}, as declared"
                self.add_finding(where, operator, "declared sizes", what)

    def report(self, node: RewrittenNode, new: Sequence[NodeProto], target: Target) -> None:
        """Store the report on a node, or add a finding instead if the target is an opset."""
        if target.opset is None:
            self.nodes.append((node, list(new)))
        elif node.why and node.became:
            what = f"{node.why}; became {node.became}"
            self.add_finding(node.where, node.was, "reduction", what)

    def add_finding(
        self,
        where: str,
        operator: object,
        rule: str,
        what: str,
        severity: Severity = Severity.PORTABLE,
    ) -> None:
        self.findings.append(Finding(where, str(operator), rule, what, severity))

    @property
    def inferred(self) -> InferredModel:
        """The model with inferred types, which are cached until the model changes."""
        if self._inferred is None:
            self._inferred = infer_types(self.model, self.folder)
        return self._inferred

    def changed(self) -> Self:
        """Discard the inferred types, because the model has changed, and return the draft."""
        self._inferred = None
        return self


def _has_more_sizes(declared: TensorType, known: TensorType) -> bool:
    """Return whether `declared` has a fixed size on an axis whose size is unknown in `known`."""
    dims = declared.dims or ()
    pairs = zip(dims, known.dims or (None,) * len(dims), strict=False)
    return any(isinstance(size, int) and not isinstance(proved, int) for size, proved in pairs)


Pass: TypeAlias = Callable[[Draft], Draft]
"""A step of a conversion. It may modify the draft in place."""


def check_nodes(draft: Draft) -> Draft:
    for node in draft.inferred.nodes:
        if node.refusal is not None:
            raise node.op_node.named(node.refusal)
    return draft


def settle_declarations(draft: Draft, source: ModelProto) -> None:
    """Restore the stale declarations, or report them as findings if there are new nodes.

    onnxruntime relies on declared sizes when it fuses nodes and when it evaluates Shape and Size.
    If the source contains Shape or Size and there are new nodes, raise ModelError, because the
    results could change whether or not the declaration is kept.
    """
    before, after = (
        Counter(node.op_type for node in nodes_in(model)) for model in (source, draft.model)
    )
    has_new_nodes = bool(after - before - Counter(Constant=after["Constant"]))
    for name, (declared, why) in draft.stale.items():
        if has_new_nodes and not before.keys().isdisjoint({"Shape", "Size"}):
            raise ModelError(f"{why} (allowed: a model that does not declare its shape)")
        if has_new_nodes:
            draft.add_finding(name, "", "declared sizes", f"{why}: dropped")
        for info in () if has_new_nodes else declarations(draft.model):
            if info.name == name:
                info.type.CopyFrom(declared)


def drop_unread_nodes(draft: Draft) -> Draft:
    """Drop unused nodes and constants, except those that were already unused in the source."""
    drop_unread(draft.model.graph, draft.kept)
    return draft.changed()
