"""The result of a comparison and its conversion to text and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ndgather.errors import one_line
from ndgather.messages import subscript
from ndgather.models.onnx.comparison.explanation import Explanation


@dataclass(frozen=True, slots=True)
class RuntimeRun:
    """The result of running a model in a runtime: `status` is "ran", "refused" or "crashed"."""

    runtime: str
    version: str
    status: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRun:
    """The result of comparing a node in one runtime.

    `status` is "same", "differs", "open", "refused", "crashed" or "not run". "open" means that the
    value differs, but the specification does not define it.
    """

    runtime: str
    status: str
    obeys: bool | None = None  # whether the specification is obeyed, or None if it has no rule
    inputs_differ: bool = False  # True if the inputs differ from those in the first runtime
    place: tuple[int, ...] | None = None  # the position of the first element that differs
    theirs: str = ""  # the value that the runtime computed
    ours: str = ""  # the value that the specification requires
    explanation: Explanation | None = None
    text: str = ""  # the error message


@dataclass(frozen=True, slots=True)
class NodeComparison:
    """The results of comparing a gather or scatter node in all runtimes."""

    where: str
    operator: str
    source: str
    reads: tuple[str, ...]
    gives: str
    runs: tuple[NodeRun, ...]

    @property
    def same(self) -> bool:
        """True if the result follows the specification in every runtime that ran the node."""
        return all(run.status in {"same", "not run"} for run in self.runs)

    @property
    def passes_on(self) -> bool:
        """True if the inputs differ between runtimes but the results follow the specification."""
        return self.same and any(run.inputs_differ for run in self.runs)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison:
    """The result of `compare`.

    Attributes
    ----------
    runs : tuple of RuntimeRun
        The outcome of running the whole model in each runtime.
    nodes : tuple of NodeComparison
        The gather and scatter nodes in the order of the model.
    outputs : tuple of (str, str)
        Outputs that differ between a runtime and the first runtime, each with a description.
    left : tuple of (str, str)
        Nodes that cannot be compared, each with the reason.
    origins : tuple of (str, str)
        The first node that differs and a description of the difference, for each runtime in which
        values differ although all gathers and scatters agree.
    """

    runs: tuple[RuntimeRun, ...]
    nodes: tuple[NodeComparison, ...]
    outputs: tuple[tuple[str, str], ...]
    left: tuple[tuple[str, str], ...]
    origins: tuple[tuple[str, str], ...] = ()

    @property
    def same(self) -> bool:
        ran = all(run.status == "ran" for run in self.runs)
        alike = all(node.same and not node.passes_on for node in self.nodes)
        return ran and not self.outputs and alike

    def __repr__(self) -> str:
        return to_text(self)


def to_json(comparison: Comparison) -> dict[str, Any]:
    return {"same": comparison.same, **asdict(comparison)}


def to_text(comparison: Comparison) -> str:
    lines = [
        f"{run.runtime} {run.version}: {run.status}{': ' if run.text else ''}{run.text}"
        for run in comparison.runs
    ]
    for node in comparison.nodes:
        if node.passes_on or not node.same:
            lines += ["", f"{node.where} ({node.operator}, {node.source})"]
            lines += (f"  {run.runtime}: {_outcome(run)}" for run in node.runs)
            lines += (f"  {name}: {text}" for name, text in _explanation(node))
    *details, summary = _last_lines(comparison)
    return "\n".join(map(one_line, [*lines, *details, "", summary]))


def _last_lines(comparison: Comparison) -> Iterator[str]:
    """Yield lines on outputs that differ and on nodes that were not compared, then a summary."""
    for name, difference in comparison.outputs:
        yield f"output {name}: {difference}"
    for where, how in comparison.origins:
        yield f"the first node that differs: {where}: {how}"
    for node, why in comparison.left:
        yield f"not compared: {node}, because {why}"
    same = [node for node in comparison.nodes if node.same and not node.passes_on]
    passing = sum(node.passes_on for node in comparison.nodes)
    ran = sum(all(run.status != "not run" for run in node.runs) for node in same)
    other = "" if all(node.same for node in comparison.nodes) else "other "
    nodes, are = ("node", "is") if ran == 1 else ("nodes", "are")
    rest = f"; {passing} only received other inputs" if passing else ""
    rest += f"; {len(same) - ran} did not run in every runtime" if ran < len(same) else ""
    if ran:
        yield f"{ran} {other}gather or scatter {nodes} {are} the same in every runtime{rest}."
    elif passing:
        yield f"No {other}gather or scatter node differs{rest}."
    elif same:
        yield f"No {other}gather or scatter node ran in every runtime."
    elif comparison.nodes:
        yield "Every gather or scatter node differs."
    else:
        yield "No gather or scatter node was compared."


def _explanation(node: NodeComparison) -> Iterator[tuple[str, str]]:
    explanation = next((run.explanation for run in node.runs if run.explanation is not None), None)
    if explanation is not None:
        none = "no runtime"
        if any(run.status == "not run" for run in node.runs):
            none = "no runtime that ran it"
        yield "rule", f"{explanation.rule}: {explanation.text}"
        yield "followed by", ", ".join(run.runtime for run in node.runs if run.obeys) or none
        yield "instead", explanation.advice


def _outcome(run: NodeRun) -> str:
    parts = [run.status]
    if run.inputs_differ:
        parts = [f"{run.status} for its inputs, which already differ"]
    refused = run.ours == "refused"
    if run.place is not None:
        at = subscript(run.place)
        parts.append(f"output{at} = {run.theirs}, but the specification requires {run.ours}")
    elif run.theirs:
        required = "requires an error" if refused else f"requires {run.ours}"
        parts.append(f"returns {run.theirs}, but the specification {required}")
    if run.explanation is not None and run.explanation.indices:
        parts.append(run.explanation.indices)
    if run.text:
        parts.append(run.text)
    return "; ".join(parts)
