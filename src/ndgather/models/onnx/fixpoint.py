"""Types of the values of a model: ndgather infers its operators, onnx the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx import GraphProto, ModelProto, inliner, shape_inference

from ndgather.errors import NdgatherError, onnx_errors
from ndgather.models.onnx.declared_types import merged, size_names, with_names
from ndgather.models.onnx.domains import subgraphs, with_one_name
from ndgather.models.onnx.function_sizes import refuse_unbounded
from ndgather.models.onnx.large_models import inferable
from ndgather.models.onnx.model_files import Source, opened
from ndgather.models.onnx.op_nodes import OpNode, Scope, nodes, op_nodes
from ndgather.models.onnx.open_sizes import given_sizes, with_sizes
from ndgather.models.onnx.type_protos import forget_negative_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ndgather.published.tensor_types import Inference, TensorType

_HIDDEN = "ndgather.hidden"
"""The domain of nodes that onnx is to leave alone."""


def infer(model: Source, *, sizes: Mapping[str, int] | None = None) -> ModelProto:
    """Return a model with the types of its values written into it.

    The types of gather and scatter nodes are those of `ndgather.operator(...).infer`, all others
    those of `onnx.shape_inference`, in turn, until nothing more follows. Names of sizes are kept;
    what the model declares stays, and gains what it left open.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        The model in memory, its bytes, or the path of its file. Tensors that a file keeps in other
        files are looked for in its folder, and nowhere else.
        A model in memory is not changed.
    sizes : mapping of str to int, optional
        Numbers for sizes that the model leaves open: by their names, or as ``"input[axis]"``.

    Returns
    -------
    ModelProto
        A copy with more in its `value_info` and in its outputs, and with `sizes` put in.

    Raises
    ------
    FileError, ModelError
        The file cannot be read, or is not an ONNX model, or it leaves no such size open.
    NdgatherError
        A node can run on no inputs of such types, or gives another type than the model declares;
        the text names the node.

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
    proto, folder = opened(model, "infer")
    if sizes:
        proto = with_sizes(proto, given_sizes("infer", sizes))
    fixpoint = infer_to_fixpoint(proto, folder)
    for each in fixpoint.judged:
        if each.refusal is not None:
            raise each.op_node.named(each.refusal)
    result = ModelProto()
    result.CopyFrom(proto)
    _copy_declarations(fixpoint.model.graph, result.graph)
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A gather or scatter node, and what is inferred of it; neither where it cannot be applied.

    Both where what follows is not what the model declares.
    """

    op_node: OpNode
    inference: Inference | None = None
    refusal: NdgatherError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixpoint:
    """A model with every known type in it, its functions in place of their calls."""

    model: ModelProto
    judged: tuple[Judged, ...]


def infer_to_fixpoint(model: ModelProto, folder: str | None) -> Fixpoint:
    """Alternate the two inferences until nothing more follows."""
    declared = without_functions(inferable(with_one_name(model)))
    for op_node in op_nodes(declared):
        op_node.refuse_missing_import()
    names = size_names(declared.graph)
    while True:
        view = _inferred_by_onnx(declared, folder)
        judged = tuple(_judge(op_node) for op_node in op_nodes(view, folder))
        learnt = [
            _learn(op_node, each, names)
            for op_node, each in zip(op_nodes(declared, folder), judged, strict=True)
        ]
        judged = tuple(
            Judged(op_node=each.op_node, inference=each.inference, refusal=refusal)
            if refusal
            else each
            for each, (_, refusal) in zip(judged, learnt, strict=True)
        )
        if not any(changed for changed, _ in learnt):
            return Fixpoint(model=view, judged=judged)


def without_functions(model: ModelProto) -> ModelProto:
    """Return a copy of `model` with the bodies of its functions in place of their calls."""
    if model.functions:
        refuse_unbounded(model)
        try:
            return inliner.inline_local_functions(model)
        except Exception as error:
            raise onnx_errors.cannot_infer(error) from error
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy


def _inferred_by_onnx(model: ModelProto, folder: str | None) -> ModelProto:
    """Return a copy of `model` with what onnx infers.

    It believes what it reads: a negative `batch_dims`, or a negative size of `indices`, makes it
    read memory that is not its own. So nodes that are refused here are kept from it, and sizes
    below 0 as well.
    """
    shown = ModelProto()
    shown.CopyFrom(model)
    for graph in _graphs(shown.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            forget_negative_sizes(value.type)
        for attribute in (each for node in graph.node for each in node.attribute):
            for declared in (attribute.tp, *attribute.type_protos):
                forget_negative_sizes(declared)
    hidden = [each.node for each in op_nodes(shown, folder) if _judge(each).refusal is not None]
    if hidden:
        shown.opset_import.add(domain=_HIDDEN, version=1)
    domains = [node.domain for node in hidden]
    for node in hidden:
        node.domain = _HIDDEN
    try:
        inferred = shape_inference.infer_shapes(shown, data_prop=True)
    except Exception as error:  # it has errors of several kinds
        raise onnx_errors.cannot_infer(error) from error
    if hidden:
        del inferred.opset_import[-1]
    found = (node for _, node in nodes(inferred) if node.domain == _HIDDEN)
    for node, domain in zip(list(found), domains, strict=True):
        node.domain = domain
    return inferred


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from _graphs(inner)


def _judge(op_node: OpNode) -> Judged:
    try:
        op_node.operator()
        if op_node.is_open:
            return Judged(op_node=op_node)
        return Judged(op_node=op_node, inference=op_node.infer())
    except NdgatherError as refusal:
        return Judged(op_node=op_node, refusal=refusal)


def _learn(op_node: OpNode, judged: Judged, names: set[str]) -> tuple[bool, NdgatherError | None]:
    """Declare what was inferred for a node, and return whether that is new.

    Names that are not in `names` are those that onnx made up for sizes it does not know.
    """
    if judged.inference is None:
        return False, None
    changed = False
    values = [
        *zip(op_node.node.output, judged.inference.outputs, strict=False),
        *zip(op_node.node.input, judged.inference.inputs, strict=False),
    ]
    try:
        for name, known in values:
            maker = op_node.scope.maker_of(name)
            if maker is not None and isinstance(maker.body, GraphProto):
                changed |= _declare(maker, name, with_names(known, names))
    except NdgatherError as refusal:
        return changed, refusal
    return changed, None


def _declare(scope: Scope, name: str, known: TensorType) -> bool:
    """Add to what a graph declares of a value, and return whether that is more than before."""
    before = scope.declared(name)
    after = merged(name, before, known)
    if after == before:
        return False
    scope.declare(name, after)
    return True


def _copy_declarations(source: GraphProto, target: GraphProto) -> None:
    """Give the values of `target` the types that those of the same names have in `source`."""
    known = {info.name: info.type for info in (*source.value_info, *source.output)}
    outputs = {info.name: info for info in target.output}
    del target.value_info[:]
    for name in dict.fromkeys(_made_in(target)):
        if name not in known:
            continue
        if name in outputs:
            outputs[name].type.CopyFrom(known[name])
        else:
            target.value_info.add(name=name).type.CopyFrom(known[name])
    twins = {tuple(node.output): node for node in source.node}
    for node in target.node:
        twin = twins.get(tuple(node.output))
        if twin is not None:
            # Where several nodes make values of the same names, the twin may be another one.
            for theirs, own in zip(subgraphs(twin), subgraphs(node), strict=False):
                _copy_declarations(theirs, own)


def _made_in(graph: GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield from filter(None, node.output)
