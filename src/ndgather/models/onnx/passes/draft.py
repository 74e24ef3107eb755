"""The model that the passes of a conversion hand on."""

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
    """A model without functions, which passes change in place.

    `taken` are the names of its values, and `kept` those that nothing reads in the source. Passes
    add `findings`, and to `nodes` the report of each gather and scatter with its new nodes.
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
        """Return a draft of a copy of `source`, with its functions inlined."""
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
        """Add the report of a node; what an opset does not have is a finding."""
        if target.opset is None:
            self.nodes.append((node, list(new)))
        elif node.why and node.became:
            what = f"{node.why}; became {node.became}"
            finding = Finding(node.where, node.was, "reduction", what, Severity.PORTABLE)
            self.findings.append(finding)

    @property
    def inferred(self) -> InferredModel:
        """The types of the model, which are inferred once after each change."""
        if self._inferred is None:
            self._inferred = infer_types(self.model, self.folder)
        return self._inferred

    def changed(self) -> Self:
        """Return the draft after a change of its nodes, whose types are not known."""
        self._inferred = None
        return self


Pass: TypeAlias = Callable[[Draft], Draft]
"""A step of a conversion, which may change the draft in place."""


def check_nodes(draft: Draft) -> Draft:
    """Raise an error if a gather or scatter is not valid."""
    for node in draft.inferred.nodes:
        if node.refusal is not None:
            raise node.op_node.named(node.refusal)
    return draft


def drop_unread_nodes(draft: Draft) -> Draft:
    """Drop nodes and constants that nothing reads, except those of the source."""
    drop_unread(draft.model.graph, draft.kept)
    return draft.changed()
