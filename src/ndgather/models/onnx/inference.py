"""Types of the values of a model: ndgather infers its operators, onnx the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import GraphProto, ModelProto, inliner, numpy_helper, shape_inference

from ndgather.errors import NdgatherError, onnx_errors
from ndgather.models.onnx.files import Source, inferable, opened
from ndgather.models.onnx.model import given_sizes, refuse_unbounded, with_sizes
from ndgather.models.onnx.nodes import (
    OpNode,
    Scope,
    attribute_value,
    forget_negative_sizes,
    merged,
    nodes,
    op_nodes,
    size_names,
    subgraphs,
    with_names,
    with_one_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from onnx import NodeProto

    from ndgather.published.schema import Inference, TensorType


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


@dataclass(frozen=True, slots=True)
class Interval:
    """The lowest and the highest value; `sizes` where every value is a size or a position."""

    low: float = -math.inf
    high: float = math.inf
    sizes: bool = False

    def within(self, low: float, high: float) -> bool:
        return self.low >= low and self.high <= high


ANY = Interval()
_LARGEST_SIZE, _MOST_ELEMENTS = 2**24 - 1, 2**31 - 1
_SIZE = Interval(0, _LARGEST_SIZE, sizes=True)
_DEEPEST = 200  # nodes that are followed

_SIZES = {
    "ArgMax": (0,), "ArgMin": (0,), "NonZero": (0,), "TopK": (1,), "Unique": (1, 2, 3),
    "NonMaxSuppression": (0,),
}  # fmt: skip
# Operators that only move values, and the inputs whose values come out.
_ALL: tuple[int, ...] = ()
_MOVES = {
    **dict.fromkeys(("Gather", "GatherElements", "GatherND", "Slice", "Squeeze"), (0,)),
    **dict.fromkeys(("Unsqueeze", "Reshape", "Transpose", "Identity", "Expand", "Tile"), (0,)),
    **dict.fromkeys(("Split", "Flatten", "Compress", "ReduceMax", "ReduceMin"), (0,)),
    **dict.fromkeys(("ScatterElements", "ScatterND"), (0, 2)),
    "Where": (1, 2),
    "Concat": _ALL,
}


def _corners(
    operation: Callable[[float, float], float],
) -> Callable[[Sequence[Interval]], Interval]:
    """Return the interval of an operation that is monotonic in each of its two operands."""

    def interval(operands: Sequence[Interval]) -> Interval:
        first, second = operands
        found = [
            operation(x, y) for x in (first.low, first.high) for y in (second.low, second.high)
        ]
        if any(map(math.isnan, found)):
            return ANY
        return Interval(min(found), max(found), first.sizes and second.sizes)

    return interval


def _product(operands: Sequence[Interval]) -> Interval:
    found = _corners(lambda x, y: x * y)(operands)
    return _capped(found) if found.sizes else found


def _capped(found: Interval) -> Interval:
    return Interval(max(found.low, -_MOST_ELEMENTS), min(found.high, _MOST_ELEMENTS), sizes=True)


def _quotient(operands: Sequence[Interval]) -> Interval:
    first, second = operands
    if second.low < 1:  # something between that and 0 makes it larger
        return first if first.sizes and second.sizes else ANY
    return _corners(lambda x, y: x / y)(operands)


def _hull(operands: Sequence[Interval]) -> Interval:
    return Interval(
        min(each.low for each in operands),
        max(each.high for each in operands),
        all(each.sizes for each in operands),
    )


_ARITHMETIC: dict[str, Callable[[Sequence[Interval]], Interval]] = {
    "Add": _corners(lambda x, y: x + y),
    "Sub": _corners(lambda x, y: x - y),
    "Mul": _product,
    "Div": _quotient,
    "Neg": lambda each: Interval(-each[0].high, -each[0].low),
    "Abs": lambda each: Interval(0, max(abs(each[0].low), abs(each[0].high)), each[0].sizes),
    "Floor": lambda each: Interval(each[0].low - 1, each[0].high, each[0].sizes),
    "Ceil": lambda each: Interval(each[0].low, each[0].high + 1, each[0].sizes),
    "Cast": lambda each: each[0],
    "Min": _hull,
    "Max": _hull,
    "Mod": lambda each: Interval(
        -max(abs(each[1].low), abs(each[1].high)), max(abs(each[1].low), abs(each[1].high))
    ),
    "ReduceProd": lambda each: _capped(each[0]) if each[0].sizes else ANY,
    "ReduceSum": lambda each: _capped(each[0]) if each[0].sizes else ANY,
    "Range": _hull,
}


_OF_TWO = frozenset({"Add", "Sub", "Mul", "Div", "Mod"})


class Ranges:
    """The bounds of the values of a model, found when they are asked for."""

    def __init__(self) -> None:
        self._makers: dict[int, dict[str, tuple[NodeProto, int]]] = {}
        self._known: dict[tuple[int, str], Interval] = {}
        self._scopes: list[Scope] = []  # kept, so that each has an identity of its own

    def of(self, scope: Scope, name: str, depth: int = 0) -> Interval:
        """Return between which bounds the value `name` lies, as `scope` sees it."""
        key = (id(scope), name)
        if key not in self._known:
            self._scopes.append(scope)
            self._known[key] = ANY  # what a value that depends on itself is taken for
            self._known[key] = self._found(scope, name, depth)
        return self._known[key]

    def _found(self, scope: Scope, name: str, depth: int) -> Interval:
        constant = scope.constant(name)
        if constant is not None:
            return _of_array(constant)
        maker = scope.maker_of(name)
        typed = _of_dtype(scope.type_of(name).dtype)
        if maker is None or depth > _DEEPEST:
            return typed
        node, number = self._nodes(maker)[name]
        found = self._of_node(maker, node, number, depth + 1)
        return Interval(max(found.low, typed.low), min(found.high, typed.high), found.sizes)

    def _nodes(self, scope: Scope) -> dict[str, tuple[NodeProto, int]]:
        if id(scope) not in self._makers:
            self._makers[id(scope)] = {
                name: (node, number)
                for node in scope.body.node
                for number, name in enumerate(node.output)
            }
        return self._makers[id(scope)]

    def _of_node(self, scope: Scope, node: NodeProto, number: int, depth: int) -> Interval:
        kind = node.op_type
        if kind in {"Shape", "Size"} and node.input:
            return _of_sizes(scope, node) if kind == "Shape" else _capped(Interval(0, math.inf))
        if kind in _SIZES:
            return _SIZE if number in _SIZES[kind] else ANY
        if kind == "ConstantOfShape":
            given = [each for each in node.attribute if each.name == "value"]
            return _of_array(_array(given[0])) if given else Interval(0, 0, sizes=True)
        if kind == "If":
            branches = [scope.within(node, graph) for graph in subgraphs(node)]
            if not branches or any(number >= len(each.body.output) for each in branches):
                return ANY
            return _hull([self.of(each, each.body.output[number].name, depth) for each in branches])
        names = [node.input[each] for each in _inputs_of(node)]
        operands = [self.of(scope, name, depth) if name else ANY for name in names]
        if not operands or (kind in _OF_TWO and len(operands) != 2):
            return ANY
        return _hull(operands) if kind in _MOVES else _ARITHMETIC[kind](operands)


def _inputs_of(node: NodeProto) -> Sequence[int]:
    """Return which inputs of a node its values come from; none where they are not followed."""
    count = len(node.input)
    if node.op_type in _MOVES:
        chosen = _MOVES[node.op_type] or range(count)
        return chosen if all(each < count for each in chosen) else ()
    if node.op_type in _ARITHMETIC:
        return range(min(count, 1) if node.op_type.startswith("Reduce") else count)
    return ()


def _of_sizes(scope: Scope, node: NodeProto) -> Interval:
    shape = scope.type_of(node.input[0]).shape
    if not isinstance(shape, tuple):
        return _SIZE
    sizes = [each if isinstance(each, int) else _LARGEST_SIZE for each in shape]
    return Interval(0, max(sizes, default=0), sizes=True)


def _of_array(array: Any) -> Interval:
    if array.dtype.kind not in "biuf" or not array.size or not np.isfinite(array).all():
        return ANY
    low, high = float(array.min()), float(array.max())
    return Interval(low, high, sizes=low >= 0 and high <= _LARGEST_SIZE)


def _of_dtype(dtype: str | None) -> Interval:
    if dtype == "bool":
        return Interval(0, 1, sizes=True)
    if dtype is None or not dtype.startswith(("int", "uint")):
        return ANY
    try:
        limits = np.iinfo(dtype)
    except (TypeError, ValueError):  # types of four bits
        return Interval(-8, 15)
    return Interval(float(limits.min), float(limits.max))


def _array(attribute: Any) -> Any:
    return numpy_helper.to_array(attribute_value(attribute))
