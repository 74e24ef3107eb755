"""The converted model, its findings, and a report on each gather and scatter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from textwrap import wrap
from typing import TYPE_CHECKING

from ndgather.errors import one_line
from ndgather.messages import plural
from ndgather.models.graph.diagnostics import Finding
from ndgather.models.onnx.files import ModelInFolder
from ndgather.models.onnx.nodes import nodes_in

if TYPE_CHECKING:
    from ndgather.models.onnx.passes.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenNode:
    """A report on the conversion of a gather or scatter for a target.

    Attributes
    ----------
    where : str
        The names of the enclosing nodes and of the node, joined with slashes.
    was : str
        The original operator with its domain and version.
    became : str
        The operators that replace the node, with counts, or an empty string for no replacement.
    added : int
        The increase in the number of nodes, not counting constants.
    why : str
        Why the target does not support the node, or an empty string if the node is supported.
    outside : str
        How the new nodes handle an out-of-bounds index.
    moved : int or None
        The number of bytes that the new nodes write, excluding reshapes, or None if unknown.
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
        """True if the target does not support the node and no rule can rewrite it."""
        return bool(self.why) and not self.became


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Conversion(ModelInFolder):
    """A converted model and the findings about its nodes.

    Attributes
    ----------
    model : ModelProto
        The converted model.
    findings : tuple of Finding
        Nodes that were repaired and nodes that kept their operator.
    folder : str or None
        The folder of the model file and its external tensors, if known.
    nodes : tuple of RewrittenNode
        Reports on all gathers and scatters, or an empty tuple if no target was given.
    target : Target or None
        The target with its name, source and limits.
    """

    findings: tuple[Finding, ...]
    nodes: tuple[RewrittenNode, ...] = ()
    target: Target | None = None

    @property
    def node_count(self) -> int:
        """The number of nodes in the model and its subgraphs, not counting constants."""
        return sum(node.op_type != "Constant" for node in nodes_in(self.model))

    def __repr__(self) -> str:
        text = plural(self.node_count, "node")
        if self.target is not None:
            return f"{text}\n\n{nodes_as_text(self.nodes, self.target)}"
        return f"{text}\n\n{self.findings!r}" if self.findings else text


def nodes_to_json(reports: Sequence[RewrittenNode], target: Target) -> dict[str, object]:
    about = {"name": target.name, "source": target.source, "date": target.date}
    return {"target": about, "nodes": [asdict(report) for report in reports]}


def nodes_as_text(reports: Sequence[RewrittenNode], target: Target, width: int = 80) -> str:
    """Return the reports as lines of at most `width` characters, followed by a summary."""
    titles, *rows = _rows(reports)
    lines = []
    for node, was, *cells in rows:
        lines.append(f"{node} ({was})")
        for title, cell in zip(titles[2:], cells, strict=True):
            start = f"  {title:13}  "
            lines += wrap(cell, width, initial_indent=start, subsequent_indent=" " * len(start))
        lines.append("")
    return "\n".join([*lines, *wrap(_summary(reports, target), width, break_on_hyphens=False)])


def _rows(reports: Sequence[RewrittenNode]) -> list[tuple[str, ...]]:
    """Return a table with a header, in which nodes with equal reports share a row."""
    rows: list[tuple[str, ...]] = [
        ("node", "was", "became", "added", "bytes", "out of bounds", "why")
    ]
    places: dict[RewrittenNode, list[str]] = {}
    for report in reports:
        places.setdefault(replace(report, where=""), []).append(one_line(report.where))
    for report, where in places.items():
        if report.why:
            moved = "open" if report.moved is None else str(report.moved)
            cells = (report.became, f"+{report.added}", moved, report.outside)
            if report.stays:
                cells = ("stays", "", "", "")
            nodes = where[0] if len(where) == 1 else f"{where[0]} and {len(where) - 1} more"
            rows.append((nodes, report.was, *cells, one_line(report.why)))
    return rows


def _summary(reports: Sequence[RewrittenNode], target: Target) -> str:
    counts = Counter(
        "stay" if report.stays else "rewritten" if report.why else "fit" for report in reports
    )
    text = ", ".join(f"{counts[name]} {name}" for name in ("fit", "rewritten", "stay"))
    about = f"{target.name} ({target.source}, {target.date})"
    return f"{about}: {text}; other operators are not checked"
