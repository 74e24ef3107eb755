"""Inference of all types in a model, alternating between ndgather and onnx."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorShapeProto,
    TypeProto,
    ValueInfoProto,
    defs,
    inliner,
    shape_inference,
)

from ndgather import messages
from ndgather.api import own_errors
from ndgather.errors import DTypeError, ModelError, NdgatherError, ShapeError, one_line
from ndgather.messages import did_you_mean, foreign_errors, listed, shown
from ndgather.models import whole_number
from ndgather.models.graph import Port
from ndgather.models.onnx.files import (
    Source,
    inferable,
    map_model,
    messages_in,
    read_mapped_tensors,
    restore_sparse_tensors,
)
from ndgather.models.onnx.nodes import (
    OpNode,
    ReadNode,
    Scope,
    check_acyclic,
    is_published,
    model_ports,
    named_by,
    nodes_in,
    op_nodes_in,
    opsets,
    row_domain,
    scopes_of,
    set_nodes,
    subgraphs,
    tensor_type,
    type_of_array,
    with_one_name,
)
from ndgather.models.onnx.value_ranges import SAME_VALUES
from ndgather.published.rows import DEFAULT_DOMAIN
from ndgather.published.schema import Inference, RankAtLeast, TensorType

# Dynamic sizes, which a model does not declare as numbers


def checked_sizes(caller: str, sizes: object) -> dict[str, int]:
    if sizes is None:
        return {}
    if not isinstance(sizes, Mapping) or not all(isinstance(name, str) for name in sizes):
        raise messages.argument_kind(caller, "sizes", sizes, "a mapping", "numbers by names")
    return {name: whole_number(caller, f"sizes[{name!r}]", size, 0) for name, size in sizes.items()}


def open_sizes(ports: Iterable[Port]) -> dict[tuple[str, int], str]:
    """Return a mapping from (input name, axis) to the name of a dynamic size."""
    return {
        (port.name, axis): f"{port.name}[{axis}]" if size == "?" else size
        for port in ports
        for axis, size in enumerate(port.shape or ())
        if isinstance(size, str)
    }


def check_size_names(sizes: Iterable[str], ports: Iterable[Port]) -> None:
    """Raise ModelError if a name in `sizes` is not a dynamic size of the inputs."""
    known = open_sizes(ports)
    names = sorted({*known.values(), *(f"{name}[{axis}]" for name, axis in known)})
    for name in sizes:
        if name not in names:
            raise ModelError(
                f"the model has no size {name!r} (allowed: {listed(names)})"
                f"{did_you_mean(name, names)}"
            )


def _with_sizes(model: ModelProto, sizes: Mapping[str, int]) -> ModelProto:
    check_size_names(sizes, model_ports(model)[0])
    copy = deepcopy(model)
    for info in copy.graph.input:
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if f"{info.name}[{axis}]" in sizes:
                dim.dim_value = sizes[f"{info.name}[{axis}]"]
    for dim in messages_in(copy.graph, TensorShapeProto.Dimension):
        if dim.dim_param in sizes:
            dim.dim_value = sizes[dim.dim_param]
    return copy


# Functions

MOST_NODES = 1_000_000
DEEPEST = 100

_NOT_INFERRED = "the types of the model cannot be inferred"
_Key: TypeAlias = tuple[str, str, str]


def check_functions(model: ModelProto) -> None:
    """Raise ModelError if functions are recursive or have too many nodes when inlined."""
    functions = {_key(function): function for function in model.functions}
    sizes: dict[_Key, tuple[int, int]] = {}

    def size(nodes: Sequence[NodeProto], level: int) -> tuple[int, int]:
        """Return the number of nodes after inlining and the depth of the calls."""
        count, depth = len(nodes), 0
        called = (inner for node in nodes for inner in nodes_in(node)) if functions else ()
        for key in map(_key, called):
            if key not in functions:
                continue
            if key not in sizes:
                sizes[key] = (0, DEEPEST)  # DEEPEST makes a recursive call exceed the limit.
                if level < DEEPEST:
                    sizes[key] = size(functions[key].node, level + 1)
            count, depth = count + sizes[key][0], max(depth, sizes[key][1] + 1)
            if depth > DEEPEST:
                raise ModelError(
                    f"function {one_line(key[1])} calls itself, or functions are nested too deeply "
                    f"(allowed: {DEEPEST} levels)"
                )
        return count, depth

    count, _ = size(model.graph.node, 0)
    for function in model.functions:  # Functions that are never called are also checked.
        size(function.node, 0)
    if count > MOST_NODES:
        raise ModelError(
            f"the model has {count} nodes once its functions are inlined "
            f"(allowed: at most {MOST_NODES})"
        )


def _key(item: NodeProto | FunctionProto) -> _Key:
    name = item.op_type if hasattr(item, "op_type") else item.name
    return row_domain(item.domain), name, getattr(item, "overload", "")


def without_functions(model: ModelProto) -> ModelProto:
    """Return a copy of `model` with its functions inlined.

    Because onnx inlines a function only if it imports the same opset as the model, functions are
    changed to import the opset of the model, unless the version of an operator would change.
    """
    if not model.functions:
        return deepcopy(model)
    check_functions(model)
    if any(opset_of(function) != opset_of(model) for function in model.functions):
        model = deepcopy(model)
        for function in model.functions:
            if not changed_operator(function, model):
                for item in function.opset_import:
                    item.version = opset_of(model) if not item.domain else item.version
    with foreign_errors(ModelError, _NOT_INFERRED):
        return inliner.inline_local_functions(model)


def opset_of(item: ModelProto | FunctionProto) -> int:
    return opsets(item.opset_import).get(DEFAULT_DOMAIN, 0)


def changed_operator(function: FunctionProto, model: ModelProto) -> str:
    """Return an operator whose version would change if a function imported the model's opset."""
    for node in nodes_in(function):
        versions = (_version(node.op_type, opset_of(item)) for item in (function, model))
        if row_domain(node.domain) == DEFAULT_DOMAIN and len({*versions}) > 1:
            return node.op_type
    return ""


@cache
def _version(op_type: str, opset: int) -> int:
    known = defs.has(op_type, opset, "")
    return int(defs.get_schema(op_type, opset, "").since_version) if known else 0


# Inference


@own_errors("infer")
def infer(model: Source, *, sizes: Mapping[str, int] | None = None) -> ModelProto:
    """Infer the types of all values of a model.

    `ndgather.operator(...).infer` handles gather and scatter nodes, and `onnx.shape_inference`
    handles all other nodes. Inference is repeated until no new types are found. Unknown dtypes and
    sizes are filled in, but declared types and named sizes do not change.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        See `run`. A model in memory is not modified.
    sizes : mapping of str to int, optional
        Values for sizes that the model does not fix. A key is the name of a size or has the form
        ``"input[axis]"``.

    Returns
    -------
    ModelProto
        A copy that declares the inferred types in its `value_info` and outputs.

    Raises
    ------
    FileError, ModelError
        The file cannot be read or is not an ONNX model, or the model lacks a size in `sizes`.
    NdgatherError
        A node does not accept the types of its inputs, or its result contradicts the declared type.
        The message names the node.

    Examples
    --------
    >>> from onnx.parser import parse_model
    >>> from ndgather.models import onnx
    >>> model = parse_model('''<ir_version: 8, opset_import: ["" : 18]>
    ...     pick (float[N, 2] data, int64[M, 1] rows) => (float[M, 2] picked)
    ...     { picked = GatherND(data, rows) }''')
    >>> model.graph.output[0].ClearField("type")
    >>> [dim.dim_param or dim.dim_value
    ...  for dim in onnx.infer(model).graph.output[0].type.tensor_type.shape.dim]
    ['M', 2]
    """
    result = infer_mapped(model, sizes=sizes)
    if isinstance(model, str | os.PathLike):
        read_mapped_tensors(result, Path(model))
    return result


@own_errors("infer")
def infer_mapped(model: Source, *, sizes: Mapping[str, int] | None = None) -> ModelProto:
    """Infer types like `infer`, but leave large tensors in the model file."""
    proto, folder = map_model(model, "infer")
    if sizes:
        proto = _with_sizes(proto, checked_sizes("infer", sizes))
    named = with_one_name(proto)
    if declares_sizes(named):
        inlined = without_functions(inferable(named))
        drop_stale_sizes(inlined, types_from_inputs(inlined, folder))
    inferred = infer_types(named, folder)
    for node in inferred.nodes:
        if node.refusal is not None:
            raise node.op_node.named(node.refusal)
    result = deepcopy(proto)
    _copy_declarations(inferred.model.graph, result.graph)
    return restore_sparse_tensors(result)


@dataclass(frozen=True, slots=True)
class InferredNode:
    """A gather or scatter node with its inferred types or the error that inference raised.

    `inference` and `refusal` are both None if an attribute refers to a function parameter, and both
    set if the inferred types contradict the declared types.
    """

    op_node: OpNode
    inference: Inference | None = None
    refusal: NdgatherError | None = None


@dataclass(slots=True)
class PlacedNode:
    """A node whose graph is being rewritten, and the `nodes` that replace it.

    `read` is the same node in the inferred copy of the model, and `scope` is the scope of `read`.
    `inferred` is None unless the node is a gather or scatter. `bodies` are the subgraphs.
    """

    node: NodeProto
    read: ReadNode
    scope: Scope
    inferred: InferredNode | None
    bodies: list[InferredGraph]
    nodes: list[NodeProto]


class InferredGraph:
    """A graph that is being rewritten, whose iterator yields each node with its inferred types.

    At the end of the iteration, the graph is updated with the replacements of all nodes.
    """

    def __init__(
        self, graph: GraphProto, scope: Scope, inferred: Mapping[int, InferredNode]
    ) -> None:
        self.graph, self.changed = graph, False
        self._scope, self._inferred = scope, inferred

    def __iter__(self) -> Iterator[PlacedNode]:
        before, after, scope = list(self.graph.node), list[NodeProto](), self._scope
        for number, (node, read) in enumerate(zip(before, scope.nodes, strict=True)):
            pairs = zip(subgraphs(node), scope.inner(number), strict=True)
            bodies = [InferredGraph(graph, inner, self._inferred) for graph, inner in pairs]
            place = PlacedNode(node, read, scope, self._inferred.get(id(read)), bodies, [node])
            yield place
            after += place.nodes
        self.changed = set_nodes(self.graph, before, after)


class InferredModel(NamedTuple):
    """A model with inlined functions and all inferred types.

    `nodes` contains the gather and scatter nodes. `scopes` contains a scope for the graph and for
    each function. `sizes` contains the names of declared sizes. `is_strict` is true if onnx
    inferred the types in strict mode.
    """

    model: ModelProto
    nodes: tuple[InferredNode, ...]
    scopes: Sequence[Scope]
    sizes: set[str]
    is_strict: bool

    def pair_graph(self, graph: GraphProto) -> InferredGraph:
        """Pair each node of `graph` with its types. `graph` is a copy of the inferred graph."""
        known = {id(node.op_node.read): node for node in self.nodes}
        return InferredGraph(graph, self.scopes[0], known)


def infer_types(model: ModelProto, folder: str | None, *, strict: bool = False) -> InferredModel:
    """Infer the types of a model in which every domain has a single name."""
    declared = without_functions(inferable(model))
    names = set()
    for dim in messages_in(declared.graph, TensorShapeProto.Dimension):
        names.add(dim.dim_param)
        if dim.dim_value < 0:  # onnx does not check negative sizes and would read out of bounds.
            dim.ClearField("dim_value")
    scopes = scopes_of(declared, folder)
    check_acyclic(scopes[0])
    op_nodes = list(op_nodes_in(scopes))
    while True:
        view, is_strict = _inferred_by_onnx(declared, op_nodes, strict=strict)
        for scope, body in zip(scopes, (view.graph, *view.functions), strict=True):
            scope.learn(body)
        inferred, changed = [], False
        for op_node in op_nodes:
            node = _infer_node(op_node)
            try:
                if node.inference is not None and _adds(op_node, node.inference, names):
                    changed |= _declare(op_node, node.inference, names)
            except NdgatherError as refusal:
                node = replace(node, refusal=refusal)
            inferred.append(node)
        if not changed:
            return InferredModel(view, tuple(inferred), scopes, names, is_strict)


def _infer_node(op_node: OpNode) -> InferredNode:
    try:
        op_node.operator()
        return InferredNode(op_node, None if op_node.is_open else op_node.infer())
    except NdgatherError as refusal:
        return InferredNode(op_node, refusal=refusal)


_HIDDEN = "ndgather.hidden"  # a temporary domain for nodes that onnx must skip


def _inferred_by_onnx(
    model: ModelProto, op_nodes: Iterable[OpNode], *, strict: bool
) -> tuple[ModelProto, bool]:
    """Return a copy of `model` with the types from onnx, and whether strict inference succeeded.

    Invalid nodes are temporarily moved to a domain that onnx skips, because onnx reads out of
    bounds if an attribute like `batch_dims` is invalid.
    """
    hidden = [item.node for item in op_nodes if _infer_node(item).refusal]
    if strict and not hidden:
        with suppress(Exception):  # If strict mode fails, fall back to inference without it.
            return shape_inference.infer_shapes(model, True, True, True), True
    domains = [node.domain for node in hidden]
    if hidden:
        model.opset_import.add(domain=_HIDDEN, version=1)
    for node in hidden:
        node.domain = _HIDDEN
    with foreign_errors(ModelError, _NOT_INFERRED):
        inferred = shape_inference.infer_shapes(model, data_prop=True)
    if hidden:
        for shown in (model, inferred):
            del shown.opset_import[-1]
            found = (node for node in nodes_in(shown) if node.domain == _HIDDEN)
            for node, domain in zip(found, domains, strict=True):
                node.domain = domain
    return inferred, False


def _computed(op_node: OpNode, inference: Inference) -> Iterator[tuple[Scope, str, TensorType]]:
    """Yield the scope, name and inferred type of each input and output that a node computes."""
    outputs = zip(op_node.read.outputs, inference.outputs, strict=False)
    inputs = zip(op_node.read.inputs, inference.inputs, strict=False)
    for name, known in (*outputs, *inputs):
        scope = op_node.scope.computing(name)
        if scope is not None and isinstance(scope.body, GraphProto):
            yield scope, name, known


def _adds(op_node: OpNode, inference: Inference, names: set[str]) -> bool:
    """Return whether ndgather infers more specific types for a node than onnx does."""
    for scope, name, inferred in _computed(op_node, inference):
        before = scope.type_of(name)
        known = before if inferred is before else with_names(inferred, names)
        try:
            if known != before and _merged(name, before, known) != before:
                return True
        except NdgatherError:
            return True
    return False


def _declare(op_node: OpNode, inference: Inference, names: set[str]) -> bool:
    """Declare the inferred types of a node, and return whether a declaration changed.

    Raise NdgatherError if a type contradicts its declaration. Size names that are not in `names`
    are ignored because onnx generates names for unknown sizes.
    """
    changed = False
    for scope, name, known in _computed(op_node, inference):
        before = scope.declared(name)
        after = _merged(name, before, with_names(known, names))
        if after != before:
            scope.declare(name, after)
            changed = True
    return changed


# Declarations


def types_from_inputs(model: ModelProto, folder: str | None) -> dict[str, TensorType]:
    """Return the types that can be inferred from the declared types of the inputs.

    Declarations of other values are ignored, except for the results of operators that onnx does not
    define. Dynamic sizes without a name are named after the input and axis.
    """
    bare = deepcopy(model)
    for info in bare.graph.input:
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if dim.WhichOneof("value") is None:
                dim.dim_param = f"{info.name}[{axis}]"
    inferred = {
        name
        for node in nodes_in(bare)
        if is_published(node) or defs.has(node.op_type, node.domain)
        for name in node.output
    }
    for graph in messages_in(bare.graph, GraphProto):
        kept = [info for info in graph.value_info if info.name not in inferred]
        del graph.value_info[:]
        graph.value_info.extend(kept)
        for info in graph.output:
            if info.name in inferred:
                info.type.tensor_type.ClearField("shape")
    result = infer_types(bare, folder)
    known = computed_types(result)
    return {name: with_names(known[name], result.sizes) for name in inferred if name in known}


def computed_types(inferred: InferredModel) -> dict[str, TensorType]:
    nodes = [item for outermost in inferred.scopes for item in outermost.all_nodes()]
    return {name: scope.type_of(name) for scope, node in nodes for name in node.outputs if name}


def declares_sizes(model: ModelProto, *, of: Container[str] | None = None) -> bool:
    """Return whether a model declares a fixed size of any value in `of` (default: all values)."""
    infos = (info for info in declarations(model) if of is None or info.name in of)
    return any(dim.dim_value for info in infos for dim in info.type.tensor_type.shape.dim)


def drop_stale_sizes(
    model: ModelProto, known: Mapping[str, TensorType]
) -> dict[str, tuple[TypeProto, str]]:
    """Drop declared sizes that actually depend on a dynamic size of an input.

    Return a mapping from the name of each changed value to the original declaration and the reason.
    Raise NdgatherError if a declared type contradicts the known type.
    """
    nodes = {name: node for node in nodes_in(model) for name in node.output}
    changed: dict[str, tuple[TypeProto, str]] = {}
    for info in declarations(model):
        found, declared = known.get(info.name, TensorType()), tensor_type(info.type)
        try:
            _merged(info.name, declared, found)
        except NdgatherError as error:
            raise named_by(error, nodes[info.name]) from error
        pairs = zip(info.type.tensor_type.shape.dim, found.dims or (), strict=False)
        stale = [dim for dim, size in pairs if isinstance(size, str) and dim.HasField("dim_value")]
        if stale:
            what = f"value {info.name!r} is declared with shape {shown(declared.dims or ())}"
            why = f"{what}, but the inputs imply {shown(found.dims or ())}"
            changed[info.name] = deepcopy(info.type), why
        for dim in stale:
            dim.Clear()
    return changed


def declarations(model: ModelProto) -> Iterator[ValueInfoProto]:
    """Yield the declared values of a model and its subgraphs, excluding inputs."""
    for graph in list(messages_in(model.graph, GraphProto)):
        yield from (*graph.value_info, *graph.output)


def with_names(known: TensorType, names: set[str]) -> TensorType:
    """Return a type in which size names that are not in `names` are replaced with None."""
    shape = known.shape
    if shape is None:
        return known
    dims = tuple(dim if not isinstance(dim, str) or dim in names else None for dim in known.first)
    return replace(known, shape=RankAtLeast(dims) if isinstance(shape, RankAtLeast) else dims)


def _merged(name: str, declared: TensorType, known: TensorType) -> TensorType:
    """Merge the declared and the known type of a value. Numbers take precedence over size names."""
    if None not in {declared.dtype, known.dtype} and declared.dtype != known.dtype:
        raise DTypeError(
            f"value {name!r}: dtype = {known.dtype} contradicts the model's declaration "
            f"(allowed: {declared.dtype})"
        )
    dims, sizes = known.first, declared.dims
    if sizes is None:
        return TensorType(declared.dtype or known.dtype, known.dims)
    too_short = known.dims is not None and len(dims) < len(sizes)
    pairs = [*zip(sizes, dims, strict=False)]
    if (
        too_short
        or len(dims) > len(sizes)
        or any(a != b and isinstance(a, int) and isinstance(b, int) for a, b in pairs)
    ):
        more = () if known.dims is not None else ("...",)
        raise ShapeError(
            f"value {name!r}: shape = {shown((*dims, *more))} contradicts the model's declaration "
            f"(allowed: {shown(sizes)})"
        )
    merged = [dim if size is None or isinstance(dim, int) else size for size, dim in pairs]
    return TensorType(declared.dtype or known.dtype, (*merged, *sizes[len(merged) :]))


def _copy_declarations(source: GraphProto, target: GraphProto) -> None:
    """Copy the declared types in `source` to the values with the same names in `target`."""
    names: set[str] = set()
    twins: dict[tuple[str, ...], NodeProto] = {}
    for node in target.node:
        names.update(node.output)
        for number, target_body in enumerate(subgraphs(node) if node.attribute else ()):
            twins = twins or {tuple(item.output): item for item in source.node}
            # If several nodes have the same output names, `twin` may be a different node.
            twin = twins.get(tuple(node.output))
            bodies = () if twin is None else tuple(subgraphs(twin))
            if number < len(bodies):
                _copy_declarations(bodies[number], target_body)
    known = {info.name: info for info in source.output}
    for info in target.output:
        if info.name in known and info.name in names:
            info.type.CopyFrom(known[info.name].type)
    names -= {"", *(info.name for info in target.output)}
    del target.value_info[:]
    target.value_info.extend(
        info
        for name, info in {info.name: info for info in source.value_info}.items()
        if name in names
    )


def typed_values(model: ModelProto) -> dict[str, dict[str, TensorType]]:
    graph = model.graph
    initial = {tensor.name: type_of_array(tensor) for tensor in graph.initializer}
    inputs, outputs, others = (
        {info.name: tensor_type(info.type) for info in infos}
        for infos in (graph.input, graph.output, graph.value_info)
    )
    others.update(initial)
    names = [name for node in graph.node for name in node.output if name and name not in outputs]
    return {
        "input": {name: known for name, known in inputs.items() if name not in initial},
        "output": outputs,
        "value": {name: others.get(name, TensorType()) for name in names},
    }


def origins(scope: Scope, name: str) -> Iterator[str]:
    """Yield the inputs and constants whose elements are copied or cast to produce `name`."""
    waiting, seen = [(scope, name)], {(id(scope), name)}
    while waiting:
        scope, name = waiting.pop()
        inner = None if scope.has_constant(name) else scope.computing(name)
        if inner is None:
            yield name
            continue
        node = inner.node_of(name)
        moves = node.op_type in SAME_VALUES or node.op_type in {"Cast", "Concat"}
        if moves and row_domain(node.domain) == DEFAULT_DOMAIN:
            for read in node.input if node.op_type == "Concat" else node.input[:1]:
                if (id(inner), read) not in seen:
                    seen.add((id(inner), read))
                    waiting.append((inner, read))
