"""The state of a conversion between two passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeAlias

from onnx import ModelProto, NodeProto

from ndgather.errors import ModelError, one_line
from ndgather.models.graph.diagnostics import Finding, Severity
from ndgather.models.onnx.conversion_report import RewrittenNode
from ndgather.models.onnx.inference import (
    InferredModel,
    infer_types,
    without_functions,
)
from ndgather.models.onnx.nodes import drop_unread, unread, value_names
from ndgather.models.onnx.passes.target import Target


@dataclass(slots=True, kw_only=True)
class Draft:
    """A model whose functions are inlined, and what passes report. Passes change it in place.

    `taken` contains the names of all values, `kept` the values that nothing reads in the source.
    `nodes` contains a report for each gather and scatter, with the nodes that replace it.
    """

    model: ModelProto
    folder: str | None
    taken: set[str]
    kept: set[str]
    findings: list[Finding] = field(default_factory=list)
    nodes: list[tuple[RewrittenNode, list[NodeProto]]] = field(default_factory=list)
    _inferred: InferredModel | None = None

    @classmethod
    def of(cls, source: ModelProto, folder: str | None) -> Self:
        """Return a draft with a copy of `source`, whose functions are inlined."""
        model = without_functions(source)
        for function in model.functions:
            name = one_line(f"{function.name} of {function.domain}")
            raise ModelError(
                f"function {name} cannot be inlined, because it imports other versions than the "
                "model (allowed: the same versions)"
            )
        graph = model.graph
        return cls(model=model, folder=folder, taken=value_names(graph), kept=unread(graph))

    def report(self, node: RewrittenNode, new: Sequence[NodeProto], target: Target) -> None:
        """Add the report of a node. If the target is an opset, add a finding instead."""
        if target.opset is None:
            self.nodes.append((node, list(new)))
        elif node.why and node.became:
            what = f"{node.why}; became {node.became}"
            finding = Finding(node.where, node.was, "reduction", what, Severity.PORTABLE)
            self.findings.append(finding)

    @property
    def inferred(self) -> InferredModel:
        """The model with inferred types; inference runs once after each change."""
        if self._inferred is None:
            self._inferred = infer_types(self.model, self.folder)
        return self._inferred

    def changed(self) -> Self:
        """Discard the inferred types after a change, and return the draft."""
        self._inferred = None
        return self


Pass: TypeAlias = Callable[[Draft], Draft]
"""A step of a conversion. It may change the draft in place."""


def check_nodes(draft: Draft) -> Draft:
    """Raise the error that inference found for a gather or scatter, if any."""
    for node in draft.inferred.nodes:
        if node.refusal is not None:
            raise node.op_node.named(node.refusal)
    return draft


def drop_unread_nodes(draft: Draft) -> Draft:
    """Drop nodes and constants that nothing reads, unless nothing read them in the source."""
    drop_unread(draft.model.graph, draft.kept)
    return draft.changed()
