"""Range analysis, which finds the lowest and the highest possible element of an integer tensor.

`RULES` and `COUNTS` contain the supported operators. The result of any other operator is assumed to
have the full range of its type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple, TypeAlias

import numpy as np
from onnx import NodeProto

from ndgather.models.onnx.nodes import Scope, attribute_value, row_domain
from ndgather.published.rows import DEFAULT_DOMAIN


class Interval(NamedTuple):
    """The integers from `lowest` to `highest`, inclusive."""

    lowest: int
    highest: int

    def union(self, *others: Interval) -> Interval:
        lowest, highest = zip(self, *others, strict=True)
        return Interval(min(lowest), max(highest))

    def is_within(self, other: Interval) -> bool:
        return other.lowest <= self.lowest and self.highest <= other.highest


Rule: TypeAlias = Callable[[NodeProto, Sequence[Interval]], Interval]

# Each rule computes the range of a result from the ranges of the inputs, ignoring overflow.
RULES: dict[str, Rule] = {
    "Abs": lambda _, x: _abs(x[0]),
    "Add": lambda _, x: _monotonic(x, lambda a, b: a + b),
    "Cast": lambda _, x: x[0],
    "Clip": lambda node, x: _clip(node, *x),
    "Concat": lambda _, x: x[0].union(*x[1:]),
    "Div": lambda _, x: _div(*x),
    "Max": lambda _, x: _monotonic(x, max),
    "Min": lambda _, x: _monotonic(x, min),
    "Mod": lambda node, x: _mod(node, *x),
    "Mul": lambda _, x: _monotonic(x, lambda a, b: a * b),
    "Neg": lambda _, x: Interval(-x[0].highest, -x[0].lowest),
    "Range": lambda _, x: _range(x[0], x[1]),
    "Sub": lambda _, x: _monotonic(x, lambda a, b: a - b),
}
# Ranges that follow from the condition of a Where also hold for inputs of elementwise operators.
_ELEMENTWISE = frozenset({"Abs", "Add", "Cast", "Max", "Min", "Mul", "Neg", "Sub"})
# Operators whose results contain only elements of the first input
SAME_VALUES = frozenset(
    {"Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Reshape", "Slice"}
    | {"Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"}
)
# Operator → (first output with positions or sizes, input that they refer to, highest value)
COUNTS: dict[str, tuple[int, int, Callable[[NodeProto, Sequence[int]], int]]] = {
    "ArgMax": (0, 0, lambda node, sizes: _size_along(node, sizes, 0) - 1),
    "ArgMin": (0, 0, lambda node, sizes: _size_along(node, sizes, 0) - 1),
    "NonMaxSuppression": (0, 1, lambda _, sizes: max(sizes, default=1) - 1),
    "NonZero": (0, 0, lambda _, sizes: max(sizes, default=1) - 1),
    "Shape": (0, 0, lambda _, sizes: max(sizes, default=1)),
    "Size": (0, 0, lambda _, sizes: math.prod(sizes)),
    "TopK": (1, 0, lambda node, sizes: _size_along(node, sizes, -1) - 1),
    "Unique": (1, 0, lambda _, sizes: math.prod(sizes)),
}
# Maps supported conditions of a Where to 1, or to -1 if the operands must be swapped.
_TESTS = {"Less": 1, "LessOrEqual": 1, "Greater": -1, "GreaterOrEqual": -1}

_UNKNOWN = Interval(-(1 << 200), 1 << 200)  # the range of floats and of values with unknown type
_MOST_NODES = 30  # the maximum length of a chain of nodes in a search
_MOST_VISITS = 1000  # a limit that prevents an exponential search
_32_BITS = Interval(1 - 2**31, 2**31 - 1)


def may_be_negative(scope: Scope, name: str, *, in_bounds: bool = False) -> bool:
    """Return whether a value may have a negative element, based on the nodes that compute it.

    If `in_bounds`, assume that all indices are in bounds. Then computations with indices do not
    overflow, and a Where node makes negative indices non-negative.
    """
    return _Search(in_bounds=in_bounds).find(scope, name).lowest < 0


def fits_32_bits(scope: Scope, name: str) -> bool:
    """Return whether all elements fit in int32, assuming that dynamic sizes do."""
    return _Search(_32_BITS.highest).find(scope, name).is_within(_32_BITS)


def find_value_range(scope: Scope, name: str) -> Interval:
    return _Search().find(scope, name)


class _Search:
    """A search for a range. `most` is the assumed maximum of unknown sizes and positions."""

    def __init__(self, most: int = 2**63 - 1, *, in_bounds: bool = False) -> None:
        self._most, self._in_bounds, self._visits = most, in_bounds, 0

    def find(
        self,
        scope: Scope,
        name: str,
        assumed: Mapping[str, Interval] | None = None,
        nodes: int = _MOST_NODES,
    ) -> Interval:
        """Return the range of a value. `assumed` has the ranges that follow from a condition."""
        self._visits += 1
        if assumed and name in assumed:
            return assumed[name]
        full, array = _type_range(scope.type_of(name).dtype), scope.constant(name)
        if array is not None and array.dtype.kind in "biu":
            return Interval(int(array.min()), int(array.max())) if array.size else Interval(0, 0)
        inner, stops = scope.computing(name), not nodes or self._visits > _MOST_VISITS
        if array is not None or inner is None or full is _UNKNOWN or stops:
            return full
        node = inner.node_of(name)
        if row_domain(node.domain) != DEFAULT_DOMAIN:
            return full
        first, counted, highest = COUNTS.get(node.op_type, (len(node.output), 0, None))
        if highest is not None and list(node.output).index(name) >= first:
            sizes = inner.type_of(node.input[counted]).numbers
            return Interval(0, self._most if sizes is None else max(highest(node, sizes), 0))

        def find(value: str, known: Mapping[str, Interval] | None = None) -> Interval:
            return self.find(inner, value, known, nodes - 1)

        if node.op_type == "Where":
            found = _where(inner, node, find)
            is_normalized = self._in_bounds and _adds_sizes(inner, node, find)
            return Interval(0, found.highest) if is_normalized else found
        if node.op_type in SAME_VALUES:
            return find(node.input[0])
        if node.op_type not in RULES:
            return full
        here = assumed if node.op_type in _ELEMENTWISE else None
        inputs = [find(value, here) if value else _UNKNOWN for value in node.input]
        found = RULES[node.op_type](node, inputs)
        return found if self._in_bounds or found.is_within(full) else full


def _type_range(dtype: str | None) -> Interval:
    if dtype == "bool":
        return Interval(0, 1)
    try:
        bounds = np.iinfo(dtype or "float32")
    except (TypeError, ValueError):
        return _UNKNOWN
    return Interval(int(bounds.min), int(bounds.max))


def _where(scope: Scope, node: NodeProto, find: Callable[..., Interval]) -> Interval:
    """Return the range of a Where, whose condition may restrict the ranges of both values."""
    condition, first, second = node.input
    known = scope.constant(condition)
    if known is not None and known.size and known.all() == known.any():
        return find(first) if known.all() else find(second)
    test = _node_of(scope, condition)
    chosen: list[dict[str, Interval]] = [{}, {}]
    if test is not None and test.op_type in _TESTS:
        left, right = test.input if _TESTS[test.op_type] > 0 else reversed(test.input)
        strictly = test.op_type in {"Less", "Greater"}
        low, high = find(left), find(right)  # If the test is true, left < right or left <= right.
        chosen = [
            {
                left: Interval(low.lowest, min(low.highest, high.highest - strictly)),
                right: Interval(max(high.lowest, low.lowest + strictly), high.highest),
            },
            {
                left: Interval(max(low.lowest, high.lowest + (not strictly)), low.highest),
                right: Interval(high.lowest, min(high.highest, low.highest - (not strictly))),
            },
        ]
    reached = [
        find(value, known)
        for value, known in zip((first, second), chosen, strict=True)
        if all(interval.lowest <= interval.highest for interval in known.values())
    ]
    return reached[0].union(*reached[1:]) if reached else find(first).union(find(second))


def _adds_sizes(scope: Scope, node: NodeProto, find: Callable[..., Interval]) -> bool:
    """Return whether a Where node normalizes negative indices by adding the size."""
    condition, added, index = node.input
    chosen, values = scope.constant(condition), scope.constant(index)
    if chosen is not None:
        is_sign = values is not None and np.array_equal(chosen, values < 0)
    else:
        test = _node_of(scope, condition)
        if test is None or test.op_type != "Less" or test.input[0] != index:
            return False
        is_sign = find(test.input[1]) == Interval(0, 0)
    total = _node_of(scope, added)
    if not is_sign or total is None or total.op_type != "Add":
        return False
    sizes = [name for name in total.input if name != index]
    return len(sizes) == 1 and find(sizes[0]).lowest >= 0


def _node_of(scope: Scope, name: str) -> NodeProto | None:
    inner = scope.computing(name)
    return None if inner is None else inner.node_of(name)


def _attribute(node: NodeProto, name: str, default: int = 0) -> int:
    return next((attribute_value(item) for item in node.attribute if item.name == name), default)


def _size_along(node: NodeProto, sizes: Sequence[int], axis: int) -> int:
    axis = _attribute(node, "axis", axis)
    return max(sizes[axis : axis + 1 or None], default=1)


def _monotonic(inputs: Sequence[Interval], operation: Callable[[int, int], int]) -> Interval:
    """Return the range of a binary function that is monotonic in each argument."""

    def combine(x: Interval, y: Interval) -> Interval:
        values = [operation(a, b) for a in x for b in y]
        return Interval(min(values), max(values))

    return reduce(combine, inputs)


def _abs(x: Interval) -> Interval:
    # abs(-2**63) overflows, so the caller discards a range that contains 2**63.
    least = 0 if x.lowest <= 0 <= x.highest else min(map(abs, x))
    return Interval(least, max(map(abs, x)))


def _div(dividend: Interval, divisor: Interval) -> Interval:
    # Runtimes round negative quotients differently.
    if dividend.lowest < 0 or divisor.lowest < 1:
        return _UNKNOWN
    return Interval(dividend.lowest // divisor.highest, dividend.highest // divisor.lowest)


def _mod(node: NodeProto, dividend: Interval, divisor: Interval) -> Interval:
    # The remainder has the sign of the divisor, or the sign of the dividend if fmod is 1.
    if divisor.lowest < 1 or (dividend.lowest < 0 and _attribute(node, "fmod")):
        return _UNKNOWN
    most = divisor.highest - 1
    return Interval(0, most if dividend.lowest < 0 else min(most, dividend.highest))


def _clip(node: NodeProto, x: Interval, *bounds: Interval) -> Interval:
    if node.attribute:  # In opset 6, the bounds are float attributes.
        return _UNKNOWN
    for name, bound, limit in zip(node.input[1:], bounds, (max, min), strict=False):
        x = _monotonic([x, bound], limit) if name else x
    return x


def _range(start: Interval, limit: Interval) -> Interval:
    # The result does not contain the limit, even if the step is negative.
    return start.union(
        Interval(min(start.lowest, limit.lowest + 1), max(*start, limit.highest - 1))
    )
