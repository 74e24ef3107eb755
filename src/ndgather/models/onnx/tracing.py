"""Models with additional outputs, which allow gather and scatter nodes to be recomputed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    shape_inference,
)

from ndgather.errors import ModelError, NdgatherError
from ndgather.messages import foreign_errors
from ndgather.models import Array
from ndgather.models.onnx import files
from ndgather.models.onnx.inference import check_functions, without_functions
from ndgather.models.onnx.nodes import (
    OpNode,
    Scope,
    declaration,
    is_published,
    names_read,
    nodes_in,
    op_nodes,
)
from ndgather.published.schema import Reduction, TensorType, dtype_name
from ndgather.runtimes.runtime import ModelSource


@dataclass(frozen=True, slots=True)
class TracedNode:
    """A gather or scatter node, and the model outputs that contain its inputs and output.

    `in_branch` contains outputs of If branches, which are empty if the branch did not run.
    """

    op_node: OpNode
    reads: tuple[str, ...]
    gives: str
    in_branch: frozenset[str]

    @property
    def outputs(self) -> tuple[str, ...]:
        return (*self.reads, self.gives)

    def check(self, values: Mapping[str, Array]) -> CheckedNode | None:
        """Recompute a node and compare the results, or return None if the node did not run."""
        actual = values.get(self.gives)
        if any(name not in values for name in self.in_branch):
            return None
        if actual is not None and self.gives in self.in_branch and set(actual.shape) == {0}:
            return None
        arrays = []
        for name, name_in_scope in zip(self.reads, self.op_node.node.input, strict=True):
            if not name:  # Only the last input can be omitted.
                continue
            value = values.get(name)
            value = self.op_node.scope.constant(name_in_scope) if value is None else value
            if value is None:
                return None
            is_scalar = self.op_node.scope.type_of(name_in_scope).shape == ()
            lifted = is_scalar and name in self.in_branch and np.shape(value) == (1,)
            arrays.append(np.reshape(value, ()) if lifted else value)
        checked = check_node(self.op_node, arrays, None if actual is None else np.asarray(actual))
        if not self.in_branch or checked.actual is None or checked.expected is None:
            return checked
        _, output = alike((checked.expected, checked.actual))
        return checked if output is checked.actual else check_node(self.op_node, arrays, output)


def alike(pair: tuple[Array, Array]) -> tuple[Array, Array]:
    """If the shapes are () and (1,), in any order, reshape the second array like the first."""
    first, second = pair
    if {first.shape, second.shape} == {(), (1,)}:
        second = second.reshape(first.shape)
    return first, second


@dataclass(frozen=True, slots=True)
class TracedModel:
    """A model whose outputs include the inputs and outputs of its gather and scatter nodes.

    `names` contains the names of added outputs. `untraced` contains the nodes whose values cannot
    be model outputs, and the reasons.
    """

    proto: ModelProto
    node_count: int  # the number of nodes of the original model
    names: tuple[str, ...]
    nodes: tuple[TracedNode, ...]
    untraced: tuple[tuple[str, str], ...]
    folder: str | None

    def source(self, path: str | None = None) -> ModelSource:
        """Return `path`, or the serialized model if it has added outputs or mapped tensors.

        Runtimes load models with memory-mapped tensors faster than original files.
        """
        tensors = self.proto.graph.initializer
        is_mapped = any(item.data_location == TensorProto.EXTERNAL for item in tensors)
        if path is not None and not (self.names or is_mapped):
            return ModelSource(content=path)
        is_external = is_mapped or any(files.external_tensors(self.proto))
        folder = self.folder if is_external else None
        return ModelSource(content=self.proto.SerializeToString(), folder=folder)

    def part_for(self, wanted: Iterable[str]) -> TracedModel:
        """Return the part of the model that computes `wanted`, without other outputs."""
        needed, kept = set(wanted), []
        computed = {name for node in self.proto.graph.node for name in node.output if name}
        outputs = tuple(name for name in needed if name in computed)
        for node in reversed(self.proto.graph.node):
            if not needed.isdisjoint(filter(None, node.output)):
                kept.append(node)
                needed |= names_read(node)
        proto = self._copy("node", "output", "initializer")
        tensors = self.proto.graph.initializer
        proto.graph.node.extend(reversed(kept))
        proto.graph.output.extend(ValueInfoProto(name=name) for name in outputs)
        proto.graph.initializer.extend(item for item in tensors if item.name in needed)
        return replace(self, proto=proto, names=outputs)

    def _copy(self, *without: str) -> ModelProto:
        proto = ModelProto()
        files.copy_fields(self.proto, proto, {"graph"})
        files.copy_fields(self.proto.graph, proto.graph, without)
        return proto

    def with_inputs(self, given: Mapping[str, Array]) -> TracedModel:
        """Return a model in which the values in `given` are inputs instead of node outputs."""
        proto, graph = self._copy("node", "output"), self.proto.graph
        proto.graph.node.extend(x for x in graph.node if given.keys().isdisjoint(x.output))
        proto.graph.output.extend(item for item in graph.output if item.name not in given)
        for name, array in given.items():
            known = TensorType(dtype_name(array), (None,) * array.ndim)
            proto.graph.input.add(name=name).type.CopyFrom(declaration(known))
        return replace(self, proto=proto, names=tuple(x for x in self.names if x not in given))


def trace(model: ModelProto, folder: str | None) -> TracedModel:
    """Add the inputs and outputs of the gather and scatter nodes to the outputs of a model.

    The model is modified in place, unless functions that contain a gather or scatter have to be
    inlined in a copy of the model.
    """
    check_functions(model)
    nodes = [node for body in files.bodies_in(model) for node in body.node]
    gathers: list[OpNode] = []
    if any(map(is_published, nodes)):
        of_graph: Iterable[NodeProto] = nodes
        if model.functions:
            inner = (node for function in model.functions for node in nodes_in(function))
            model = without_functions(model) if any(map(is_published, inner)) else model
            of_graph = nodes_in(model.graph)
        if sum(map(is_published, of_graph)) > sum(map(is_published, model.graph.node)):
            with foreign_errors(ModelError, "the types of the model cannot be inferred"):
                # A branch must declare the types of the outputs that `_lift` adds.
                model = shape_inference.infer_shapes(model)
        gathers = list(op_nodes(model, folder))
    outputs = Outputs(model.graph)
    traced, untraced = [], []
    for op_node in gathers:
        try:
            traced.append(outputs.traced(op_node))
        except NotTraceableError as error:
            untraced.append((op_node.where, str(error)))
    added = tuple(outputs.added)
    return TracedModel(model, len(nodes), added, tuple(traced), tuple(untraced), folder)


class NotTraceableError(Exception):
    """Raised if the values of a node cannot be model outputs."""


class Outputs:
    """The outputs that are added to a graph and to the branches of If nodes."""

    def __init__(self, graph: GraphProto) -> None:
        self._graph = graph
        self._names = {output.name for output in graph.output}
        self._lifted: dict[tuple[int, str], str] = {}
        self.added: list[str] = []

    def traced(self, op_node: OpNode) -> TracedNode:
        if not isinstance(op_node.scope.outermost.body, GraphProto):
            raise NotTraceableError("it is in a function that imports another opset")
        if not any(op_node.node.output):
            raise NotTraceableError("it has no output")
        values = [
            self._output_of(op_node.scope, name)
            for name in (op_node.node.output[0], *op_node.node.input)
        ]
        gives, *reads = [name for name, _ in values]
        in_branch = frozenset([name for name, is_lifted in values if is_lifted])
        return TracedNode(op_node, tuple(reads), gives, in_branch)

    def _output_of(self, scope: Scope, name: str) -> tuple[str, bool]:
        """Return which model output contains the value `name`, and whether a branch computes it."""
        inner = scope.home(name)
        if scope.has_constant(name) or (inner.outer is None and inner.computing(name) is None):
            return name, False  # The value is a constant or a model input.
        is_lifted, known = inner.outer is not None, inner.type_of(name)
        if inner.loops:
            what = f"it is in the body of a {inner.loops[-1].op_type}"
            raise NotTraceableError(f"{what}, which computes a new value in every iteration")
        while inner.outer is not None:
            name = self._lift(inner, name, known)
            inner = inner.outer
        if name not in self._names:
            self._names.add(name)
            self.added.append(name)
            self._graph.output.add(name=name)
        return name, is_lifted

    def _lift(self, scope: Scope, name: str, known: TensorType) -> str:
        """Add an output with a value of a branch to the If node, and return the output name."""
        key = (id(scope), name)
        if key in self._lifted:
            return self._lifted[key]
        if known.dtype is None:
            raise NotTraceableError(f"the type of {name!r}, a value of its branch, is unknown")
        # Some runtimes require outputs of an If node to have a known rank.
        rank = len(known.dims or ())
        declared = declaration(TensorType(known.dtype, (None,) * rank if rank else None))
        outer = self._lifted[key] = f"{name}:{len(self._lifted)}:exposed"
        node, body, inside = scope.around[-1], scope.body, f"{outer}:inside"
        node.output.append(outer)
        body.node.add(op_type="Identity", input=[name], output=[inside])
        body.output.add(name=inside).type.CopyFrom(declared)
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH and attribute.g != body:
                empty = f"{outer}:other"
                _add_empty(attribute.g, empty, declared.tensor_type.elem_type, max(rank, 1))
                attribute.g.output.add(name=empty).type.CopyFrom(declared)
        return outer


def _add_empty(graph: GraphProto, name: str, element_type: int, rank: int) -> None:
    """Add nodes that compute an empty tensor, because OpenVINO alters empty constants."""
    flat = TensorProto(data_type=element_type, dims=[0])
    shape = TensorProto(data_type=TensorProto.INT64, dims=[rank], int64_data=[0] * rank)
    parts = {f"{name}:flat": flat, f"{name}:shape": shape}
    constants = [helper.make_node("Constant", [], [x], value=parts[x]) for x in parts]
    graph.node.extend([*constants, helper.make_node("Expand", [*parts], [name])])


# Comparison of node results with their specification

_ORDERED = {Reduction.NONE.value, Reduction.MIN.value, Reduction.MAX.value}
_SMALL = 4096  # the maximum size, in bytes, of arrays that are first compared as byte strings
_ROUNDINGS = 64  # the tolerance for sums of floats, in units in the last place


@dataclass(frozen=True, slots=True)
class CheckedNode:
    """The output of a node in a runtime and the output that the specification requires.

    If the specification does not allow the call, `expected` is None and `refusal` is the error. If
    `actual` and `expected` differ but have the same type, `first` is the position of the first
    element that differs.
    """

    op_node: OpNode
    inputs: tuple[Array, ...]
    actual: Array | None
    expected: Array | None = None
    refusal: NdgatherError | None = None
    same: bool = False
    first: tuple[int, ...] | None = None


def check_node(op_node: OpNode, inputs: Sequence[Array], actual: Array | None) -> CheckedNode:
    """Recompute a node with ndgather, and compare the result with `actual`."""
    arrays, attributes = tuple(map(np.asarray, inputs)), op_node.attributes()
    try:
        expected = op_node.operator()(*arrays, **attributes)
    except NdgatherError as refusal:
        return CheckedNode(op_node, arrays, actual, refusal=refusal)
    same, first = False, None
    if actual is not None and expected.shape == actual.shape:
        strings = {expected.dtype.kind, actual.dtype.kind} <= set("OUST")
        if strings or expected.dtype == actual.dtype:
            rounds = attributes.get("reduction", "none") not in _ORDERED
            first = first_difference(expected, actual, rounds=rounds)
            same = first is None
    return CheckedNode(op_node, arrays, actual, expected, same=same, first=first)


def first_difference(
    expected: Array, actual: Array, *, rounds: bool = False, rtol: float = 0.0, atol: float = 0.0
) -> tuple[int, ...] | None:
    """Return the position of the first element that differs in two arrays of equal shape, or None.

    NaN equals NaN, and 0.0 differs from -0.0. If `rounds`, floats may differ by rounding errors,
    because sums depend on the order of additions. See `numpy.isclose` for `rtol` and `atol`.
    """
    is_small = expected.nbytes <= _SMALL and expected.dtype == actual.dtype != object
    if is_small and expected.tobytes() == actual.tobytes():
        return None
    if (rounds or rtol or atol) and np.issubdtype(expected.dtype, np.inexact):
        if rounds:
            rtol = _ROUNDINGS * float(np.finfo(expected.dtype).eps)
            atol = rtol * float(np.abs(expected[np.isfinite(expected)]).max(initial=0))
        differs = ~np.isclose(expected, actual, rtol, atol, equal_nan=True)
    elif expected.dtype.kind in "OUST":
        differs = np.asarray(expected.astype(object) != actual.astype(object))
    else:
        bits = [
            np.asarray(array, order="C")[..., None].view(np.uint8) for array in (expected, actual)
        ]
        differs = np.asarray((bits[0] != bits[1]).any(axis=-1))
        with np.errstate(invalid="ignore"):
            both_nan = (expected != expected) & (actual != actual)  # noqa: PLR0124 - NaN
            differs &= ~np.asarray(both_nan, bool)
    if not differs.any():
        return None
    return tuple(map(int, np.unravel_index(int(differs.argmax()), differs.shape)))
