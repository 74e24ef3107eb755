"""What a comparison of runtimes is made of: the runs, the nodes, and the whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ndgather.models.onnx.rulings import Ruling
    from ndgather.show import Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeRun:
    """How a runtime ran the whole model: "ran", "refused" or "crashed", and the text."""

    runtime: str
    version: str
    status: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRun:
    """One node in one runtime.

    Attributes
    ----------
    status : str
        ``"same"`` as the specification; ``"differs"``; ``"open"`` where it differs in what the
        specification leaves open; ``"refused"`` or ``"crashed"`` at this node; ``"not run"``.
    obeys : bool or None
        Whether the runtime did what the specification says; None where that is open.
    inputs_differ : bool
        Whether what the node read differs from what it read in the first runtime.
    place : tuple of int or None
        The first element that differs, and `theirs` and `ours` its two values.
    ruling : Ruling or None
        What decides.
    text : str
        Of a refusal or a crash.
    picture : Picture or None
        Where it differs: what the specification gives for what the node read.
    """

    runtime: str
    status: str
    obeys: bool | None = None
    inputs_differ: bool = False
    place: tuple[int, ...] | None = None
    theirs: str = ""
    ours: str = ""
    ruling: Ruling | None = None
    text: str = ""
    picture: Picture | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeComparison:
    """One gather or scatter node in every runtime."""

    where: str
    operator: str
    source: str
    reads: tuple[str, ...]
    gives: str
    runs: tuple[NodeRun, ...]

    @property
    def same(self) -> bool:
        return all(
            each.status in {"same", "not run"} and not each.inputs_differ for each in self.runs
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What `compare` found.

    Attributes
    ----------
    runs : tuple of RuntimeRun
        How each runtime ran the model as a whole.
    nodes : tuple of NodeComparison
        Its gather and scatter nodes, in their order.
    outputs : tuple of (str, str)
        The outputs that differ from those of the first runtime, and how.
    left : tuple of (str, str)
        Nodes that cannot be looked into, and why.
    """

    runs: tuple[RuntimeRun, ...]
    nodes: tuple[NodeComparison, ...]
    outputs: tuple[tuple[str, str], ...]
    left: tuple[tuple[str, str], ...]

    @property
    def same(self) -> bool:
        ran = all(each.status == "ran" for each in self.runs)
        return ran and not self.outputs and all(node.same for node in self.nodes)
