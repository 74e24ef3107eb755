"""Between which bounds the values of a model lie, as far as that follows from the model.

Sizes and positions have bounds: what Shape, Size, ArgMax, NonZero and TopK give, constants, casts,
and the arithmetic of these. A size that is not declared is taken to be below 2**24, and a product
of sizes to be the number of elements of a tensor, which is below 2**31.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import numpy_helper

from ndgather.models.onnx.domains import subgraphs
from ndgather.models.onnx.op_nodes import attribute_value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from onnx import NodeProto

    from ndgather.models.onnx.op_nodes import Scope


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
