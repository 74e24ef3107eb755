"""The reference evaluator of onnx with the operators of ndgather in it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpFunction, OpRun

from ndgather.models.graph.evaluation import Step
from ndgather.models.onnx.domains import (
    OURS,
    file_domain,
    implementation,
    subgraphs,
)
from ndgather.runtimes.corrected_ops import CORRECTED

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator

    import onnx


Array = NDArray[Any]


class _OwnOp(OpRun):
    """A gather or scatter node, as the reference evaluator wants it."""

    def _run(self, *inputs: Array, **attributes: object) -> tuple[Array]:
        opset = self.run_params["opsets"][self.domain]
        # The evaluator adds defaults by the operator's bare name; ndgather has its own.
        given = {item.name: attributes[item.name] for item in self.onnx_node.attribute}
        return (implementation(self.op_type, self.domain, opset)(*inputs, **given),)


def reference_ops() -> list[type[OpRun]]:
    """Return the operators of ndgather for the reference evaluator of `onnx`.

    Returns
    -------
    list of type
        Classes for ``onnx.reference.ReferenceEvaluator(model, new_ops=...)``: the gather and
        scatter operators of ONNX and com.microsoft.

    Examples
    --------
    >>> from ndgather.models import onnx
    >>> sorted({each.__name__ for each in onnx.reference_ops()})
    ['Gather', 'GatherElements', 'GatherND', 'ScatterElements', 'ScatterND']
    """
    return list(_OPS)


_OPS = tuple(
    type(name, (_OwnOp,), {"op_domain": file_domain(domain)}) for name, domain in sorted(OURS)
)


# How many nodes of one run ran in ndgather (True) and elsewhere (False), in subgraphs too.
tally: ContextVar[Counter[bool]] = ContextVar("tally")


class _Step(Step):
    """A node of an evaluator in the form that the evaluator calls."""

    def __init__(self, node: OpRun) -> None:
        proto = node.onnx_node
        reads, gives = tuple(_names_read(proto)), tuple(proto.output)
        super().__init__(name=proto.name, title=node.op_type, reads=reads, gives=gives)
        self.node = node
        self.ended: Callable[[], object] | None = None

    def __getattr__(self, name: str) -> object:
        return getattr(self.node, name)

    def run(self, *inputs: object, **options: object) -> tuple[object, ...]:
        with self.running():
            try:
                # onnx leaves it untyped
                outputs: tuple[object, ...] = self.node.run(*inputs, **options)  # type: ignore[no-untyped-call]
            except TypeError as error:  # it hides a TypeError of a node behind one of its own
                if error.__cause__ is None:
                    raise
                raise error.__cause__ from error
        self.bytes += sum(getattr(each, "nbytes", 0) for each in outputs)
        if self.ended is not None:
            self.ended()
        if not (self.node.has_subgraph or isinstance(self.node, OpFunction)):
            tally.get()[isinstance(self.node, _OwnOp)] += 1
        return outputs


class Evaluator(ReferenceEvaluator):
    """The reference evaluator with the operators of ndgather, in subgraphs and functions too."""

    def __init__(self, proto: object, **options: Any) -> None:
        super().__init__(proto, **{**options, "new_ops": [*_OPS, *CORRECTED]})
        self.steps = [_Step(node) for node in self.rt_nodes_]
        self.rt_nodes_ = self.steps


def _names_read(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the inputs of a node, with those of every node of its subgraphs."""
    yield from node.input
    for graph in subgraphs(node):
        yield from (output.name for output in graph.output)
        for inner in graph.node:
            yield from _names_read(inner)
