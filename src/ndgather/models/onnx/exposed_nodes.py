"""A model whose gather and scatter nodes can be looked into: what they read and give is an output.

Values that the model holds itself are not given again. A branch of an If gives its values to the
graph around it, and the other branch an empty tensor of their rank in their place. Bodies of loops
give a value for each turn, of a shape that may change, and so their nodes are left alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    shape_inference,
)

from ndgather.models.onnx.domains import is_ours, nodes_within
from ndgather.models.onnx.external_tensors import external_tensors
from ndgather.models.onnx.fixpoint import without_functions
from ndgather.models.onnx.function_sizes import refuse_unbounded
from ndgather.models.onnx.op_nodes import OpNode, Scope, op_nodes
from ndgather.models.onnx.type_protos import declaration
from ndgather.published.tensor_types import TensorType
from ndgather.runtimes.whole_model import ModelSource

if TYPE_CHECKING:
    from collections.abc import Mapping

Array = NDArray[Any]

_IF = "If"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposedNode:
    """A gather or scatter node, and the names under which its values are given.

    `in_branch` are those that are there only where its branch was taken.
    """

    op_node: OpNode
    reads: tuple[str, ...]
    gives: str
    in_branch: frozenset[str]

    def inputs(self, values: Mapping[str, Array]) -> list[Array] | None:
        """Return what the node read in a run, or None where it was not run or cannot be told."""
        if self.gives in self.in_branch and set(values[self.gives].shape) == {0}:
            return None
        found = []
        for name, own in zip(self.reads, self.op_node.node.input, strict=True):
            value = values.get(name)
            value = self.op_node.scope.constant(own) if value is None else value
            if value is None:
                return None
            found.append(value)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposedModel:
    """A model with more outputs.

    Attributes
    ----------
    proto : ModelProto
        With the outputs that were added.
    names : tuple of str
        Those outputs.
    nodes : tuple of ExposedNode
        In the order of the model.
    left : tuple of (str, str)
        The nodes that cannot be looked into, and why.
    """

    proto: ModelProto
    names: tuple[str, ...]
    nodes: tuple[ExposedNode, ...]
    left: tuple[tuple[str, str], ...]
    folder: str | None
    only_outputs: bool = False

    def source(self, path: str | None = None, *, whole: bool = False) -> ModelSource:
        """Return what a runtime loads; `path` is the file of the model as it was before.

        Two protobuf messages, one after the other, are one message with the fields of both: where
        only outputs were added, they are appended to the bytes of the file, unless `proto` is
        `whole`, lacking none of the values in it.
        """
        folder = self.folder if any(external_tensors(self.proto)) else None
        if path is not None and not self.names:
            return ModelSource(content=path, folder=folder)
        if path is not None and self.only_outputs and not whole:
            outputs = [ValueInfoProto(name=name) for name in self.names]
            more = ModelProto(graph=GraphProto(output=outputs)).SerializeToString()
            return ModelSource(content=b"".join((Path(path).read_bytes(), more)), folder=folder)
        return ModelSource(content=self.proto.SerializeToString(), folder=folder)


def exposed(model: ModelProto, folder: str | None) -> ExposedModel:
    """Have `model` give what its gather and scatter nodes read and give.

    It is changed; where functions have such nodes, it is a copy that is.

    Raises
    ------
    ModelError
        Its functions call themselves or come to too many nodes, which no runtime is given, or it
        does not import the domain of a gather or scatter node.
    """
    refuse_unbounded(model)
    inner = (node for function in model.functions for each in function.node
             for node in nodes_within(each))  # fmt: skip
    inlined = any(map(is_ours, inner))
    if inlined:
        model = without_functions(model)
    found = list(op_nodes(model, folder))
    for op_node in found:
        op_node.refuse_missing_import()
    if any(each.scope.around for each in found):  # branches have to declare what they give
        model = shape_inference.infer_shapes(model)
        found = list(op_nodes(model, folder))
    outputs = _Outputs(model.graph)
    nodes, left = [], []
    for op_node in found:
        why = _cannot_be_told(op_node)
        if why is None:
            try:
                nodes.append(outputs.exposed(op_node))
            except _NoTypeError as error:
                why = str(error)
        if why is not None:
            left.append((op_node.where, why))
    return ExposedModel(
        proto=model,
        names=tuple(outputs.added),
        nodes=tuple(nodes),
        left=tuple(left),
        folder=folder,
        only_outputs=not inlined and not any(each.op_node.scope.around for each in nodes),
    )


def _cannot_be_told(op_node: OpNode) -> str | None:
    """Return why the values of a node cannot be given, or None."""
    if not isinstance(op_node.scope.outermost.body, GraphProto):  # the inliner of onnx left it
        return "it stands in a function that imports another opset"
    loops = [each.op_type for each in op_node.scope.around if each.op_type != _IF]
    if loops:
        return f"it stands in the body of a {loops[-1]}, which gives a value for each turn"
    if not any(op_node.node.output):
        return "it gives nothing"
    return None


def _empty(name: str, element_type: int, rank: int) -> list[NodeProto]:
    """Return nodes that make an empty tensor; of an empty constant OpenVINO makes another one."""
    parts, shape = f"{name}:flat", f"{name}:shape"
    flat = TensorProto(data_type=element_type, dims=[0])
    sizes = TensorProto(data_type=TensorProto.INT64, dims=[rank], int64_data=[0] * rank)
    made = NodeProto(op_type="Expand", input=[parts, shape], output=[name])
    return [_constant(parts, flat), _constant(shape, sizes), made]


def _constant(name: str, tensor: TensorProto) -> NodeProto:
    node = NodeProto(op_type="Constant", output=[name])
    node.attribute.add(name="value", type=AttributeProto.TENSOR).t.CopyFrom(tensor)
    return node


class _NoTypeError(Exception):
    """A branch cannot give a value of a type that is not known."""


class _Outputs:
    """The outputs that are added to a graph and to the branches in it."""

    def __init__(self, graph: GraphProto) -> None:
        self._graph = graph
        self._given = {each.name for each in graph.output}
        self._lifted: dict[tuple[int, str], str] = {}
        self.added: list[str] = []

    def exposed(self, op_node: OpNode) -> ExposedNode:
        names, in_branch = [], set()
        for own in (*op_node.node.input, op_node.node.output[0]):
            name, lifted = self._name_of(op_node.scope, own)
            names.append(name)
            if lifted:
                in_branch.add(name)
        return ExposedNode(
            op_node=op_node,
            reads=tuple(names[:-1]),
            gives=names[-1],
            in_branch=frozenset(in_branch),
        )

    def _name_of(self, scope: Scope, name: str) -> tuple[str, bool]:
        """Return under which name the model gives a value, and whether a branch makes it."""
        maker = scope.maker_of(name)
        if maker is None or scope.holds(name):
            return name, False  # an input of the model, or a value that it holds
        lifted, known = maker.outer is not None, maker.type_of(name)
        while maker.outer is not None:
            name = self._from_branch(maker, name, known)
            maker = maker.outer
        if name not in self._given:
            self._given.add(name)
            self.added.append(name)
            self._graph.output.add(name=name)
        return name, lifted

    def _from_branch(self, scope: Scope, name: str, known: TensorType) -> str:
        """Have a branch of an If give the value `name`, and return the name around the If."""
        key = (id(scope), name)
        if key in self._lifted:
            return self._lifted[key]
        node, body = scope.around[-1], scope.body
        if known.dtype is None:
            raise _NoTypeError(f"the type of {name!r}, a value of its branch, is not known")
        # Some runtimes take no If whose values have an unknown rank.
        rank = len(known.shape) if isinstance(known.shape, tuple) else 0
        shape = (None,) * rank if rank else None
        declared = declaration(TensorType(dtype=known.dtype, shape=shape))
        outer = self._lifted[key] = f"{name}:{len(self._lifted)}:exposed"
        node.output.append(outer)
        inner = f"{outer}:inside"
        body.node.add(op_type="Identity", input=[name], output=[inner])
        body.output.add(name=inner).type.CopyFrom(declared)
        for attribute in node.attribute:
            other = attribute.g
            if attribute.type == AttributeProto.GRAPH and other != body:
                other.node.extend(
                    _empty(f"{outer}:other", declared.tensor_type.elem_type, max(rank, 1))
                )
                other.output.add(name=f"{outer}:other").type.CopyFrom(declared)
        return outer
