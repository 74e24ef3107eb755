"""The lowest and the highest value that integers of a model can have, as its nodes prove.

`RULES` and `COUNTS` are the table of operators. The result of any other operator may have every
value of its type.
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


class Domain(NamedTuple):
    """Integers from `lowest` to `highest`, both included."""

    lowest: int
    highest: int

    def union(self, *others: Domain) -> Domain:
        lowest, highest = zip(self, *others, strict=True)
        return Domain(min(lowest), max(highest))

    def within(self, other: Domain) -> bool:
        return other.lowest <= self.lowest and self.highest <= other.highest


Rule: TypeAlias = Callable[[NodeProto, Sequence[Domain]], Domain]

# The domain of the result, for those of the inputs. One that exceeds the type of the result is
# dropped, because the operator wraps around there.
RULES: dict[str, Rule] = {
    "Abs": lambda _, x: _abs(x[0]),
    "Add": lambda _, x: _ends(x, lambda a, b: a + b),
    "Cast": lambda _, x: x[0],
    "Clip": lambda node, x: _clip(node, *x),
    "Concat": lambda _, x: x[0].union(*x[1:]),
    "Div": lambda _, x: _div(*x),
    "Max": lambda _, x: _ends(x, max),
    "Min": lambda _, x: _ends(x, min),
    "Mod": lambda node, x: _mod(node, *x),
    "Mul": lambda _, x: _ends(x, lambda a, b: a * b),
    "Neg": lambda _, x: Domain(-x[0].highest, -x[0].lowest),
    "Range": lambda _, x: _range(x[0], x[1]),
    "Sub": lambda _, x: _ends(x, lambda a, b: a - b),
}
# These read each input at the position of the result, where more may be known of an element.
_ELEMENTWISE = frozenset({"Abs", "Add", "Cast", "Max", "Min", "Mul", "Neg", "Sub"})
# These return elements of their first input, and no others.
SAME_VALUES = frozenset(
    {"Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Reshape", "Slice"}
    | {"Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"}
)
# These return positions or sizes: the first such output, the input that is counted, and the highest
# number for the sizes of that input. TopK of 8 rows of 100 columns returns positions up to 99.
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
# Comparisons that choose between the values of a Where; -1 if their inputs change places.
_TESTS = {"Less": 1, "LessOrEqual": 1, "Greater": -1, "GreaterOrEqual": -1}

_UNKNOWN = Domain(-(1 << 200), 1 << 200)  # values that are not integers, or have no known type
_MOST_NODES = 30  # on the way to a value
_MOST_VISITS = 1000  # of values: each of n nodes that read their input twice doubles them
_32_BITS = Domain(1 - 2**31, 2**31 - 1)


def may_be_negative(scope: Scope, name: str, *, in_bounds: bool = False) -> bool:
    """Return whether a value may have a negative element, as far as its nodes show.

    If `in_bounds`, the model reads no index that is out of bounds: one to which a Where adds the
    size if it is negative is not negative then, and no computation with it overflows.
    """
    most = int(np.iinfo(np.int64).max)
    return _Search(most, in_bounds=in_bounds).find(scope, name).lowest < 0


def fits_32_bits(scope: Scope, name: str) -> bool:
    """Return whether no element of a value needs more bits; unknown sizes and positions do not."""
    return _Search(_32_BITS.highest).find(scope, name).within(_32_BITS)


def domain_of(scope: Scope, name: str) -> Domain:
    return _Search(int(np.iinfo(np.int64).max)).find(scope, name)


class _Search:
    """A search for the domain of a value, where sizes and positions are at most `most`."""

    def __init__(self, most: int, *, in_bounds: bool = False) -> None:
        self._most, self._in_bounds, self._visits = most, in_bounds, 0

    def find(
        self,
        scope: Scope,
        name: str,
        assumed: Mapping[str, Domain] | None = None,
        nodes: int = _MOST_NODES,
    ) -> Domain:
        """Return the domain of a value; `assumed` are those that are known where it is used."""
        self._visits += 1
        if assumed and name in assumed:
            return assumed[name]
        full, array = _of_type(scope.type_of(name).dtype), scope.constant(name)
        if array is not None and array.dtype.kind in "biu":
            return Domain(int(array.min()), int(array.max())) if array.size else Domain(0, 0)
        inner, stops = scope.computing(name), not nodes or self._visits > _MOST_VISITS
        if array is not None or inner is None or full is _UNKNOWN or stops:
            return full
        node = inner.node_of(name)
        if row_domain(node.domain) != DEFAULT_DOMAIN:
            return full
        first, counted, highest = COUNTS.get(node.op_type, (len(node.output), 0, None))
        if highest is not None and list(node.output).index(name) >= first:
            sizes = inner.type_of(node.input[counted]).numbers
            return Domain(0, self._most if sizes is None else max(highest(node, sizes), 0))

        def find(value: str, known: Mapping[str, Domain] | None = None) -> Domain:
            return self.find(inner, value, known, nodes - 1)

        if node.op_type == "Where":
            found = _where(inner, node, find)
            is_normalized = self._in_bounds and _adds_sizes(inner, node, find)
            return Domain(0, found.highest) if is_normalized else found
        if node.op_type in SAME_VALUES:
            return find(node.input[0])
        if node.op_type not in RULES:
            return full
        here = assumed if node.op_type in _ELEMENTWISE else None
        inputs = [find(value, here) if value else _UNKNOWN for value in node.input]
        found = RULES[node.op_type](node, inputs)
        return found if self._in_bounds or found.within(full) else full


def _of_type(dtype: str | None) -> Domain:
    """Return all values of a type."""
    if dtype == "bool":
        return Domain(0, 1)
    try:
        bounds = np.iinfo(dtype or "float32")
    except (TypeError, ValueError):
        return _UNKNOWN
    return Domain(int(bounds.min), int(bounds.max))


def _where(scope: Scope, node: NodeProto, find: Callable[..., Domain]) -> Domain:
    """Return the domain of both values, each where the condition chooses it."""
    condition, first, second = node.input
    known = scope.constant(condition)
    if known is not None and known.size and known.all() == known.any():
        return find(first) if known.all() else find(second)
    test = _node_of(scope, condition)
    chosen: list[dict[str, Domain]] = [{}, {}]
    if test is not None and test.op_type in _TESTS:
        left, right = test.input if _TESTS[test.op_type] > 0 else reversed(test.input)
        strictly = test.op_type in {"Less", "Greater"}
        low, high = find(left), find(right)  # left < right where the test is true
        chosen = [
            {
                left: Domain(low.lowest, min(low.highest, high.highest - strictly)),
                right: Domain(max(high.lowest, low.lowest + strictly), high.highest),
            },
            {
                left: Domain(max(low.lowest, high.lowest + (not strictly)), low.highest),
                right: Domain(high.lowest, min(high.highest, low.highest - (not strictly))),
            },
        ]
    reached = [
        find(value, known)
        for value, known in zip((first, second), chosen, strict=True)
        if all(domain.lowest <= domain.highest for domain in known.values())
    ]
    return reached[0].union(*reached[1:]) if reached else find(first).union(find(second))


def _adds_sizes(scope: Scope, node: NodeProto, find: Callable[..., Domain]) -> bool:
    """Return whether a Where adds a size to the negative elements of a value, and to no others."""
    condition, added, index = node.input
    chosen, values = scope.constant(condition), scope.constant(index)
    if chosen is not None:
        is_sign = values is not None and np.array_equal(chosen, values < 0)
    else:
        test = _node_of(scope, condition)
        if test is None or test.op_type != "Less" or test.input[0] != index:
            return False
        is_sign = find(test.input[1]) == Domain(0, 0)
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
    """Return the size of the axis that an attribute names, which is `axis` by default."""
    axis = _attribute(node, "axis", axis)
    return max(sizes[axis : axis + 1 or None], default=1)


def _ends(inputs: Sequence[Domain], operation: Callable[[int, int], int]) -> Domain:
    """Return the domain of a function that is monotonic in each of its two arguments."""

    def of_two(x: Domain, y: Domain) -> Domain:
        values = [operation(a, b) for a in x for b in y]
        return Domain(min(values), max(values))

    return reduce(of_two, inputs)


def _abs(x: Domain) -> Domain:
    # The lowest integer stays negative: 2**63 is outside its type, and so outside this domain.
    least = 0 if x.lowest <= 0 <= x.highest else min(map(abs, x))
    return Domain(least, max(map(abs, x)))


def _div(dividend: Domain, divisor: Domain) -> Domain:
    """Runtimes round negative quotients in two ways, so there is no rule for them."""
    if dividend.lowest < 0 or divisor.lowest < 1:
        return _UNKNOWN
    return Domain(dividend.lowest // divisor.highest, dividend.highest // divisor.lowest)


def _mod(node: NodeProto, dividend: Domain, divisor: Domain) -> Domain:
    # The remainder has the sign of the divisor, and with fmod that of the dividend.
    if divisor.lowest < 1 or (dividend.lowest < 0 and _attribute(node, "fmod")):
        return _UNKNOWN
    most = divisor.highest - 1
    return Domain(0, most if dividend.lowest < 0 else min(most, dividend.highest))


def _clip(node: NodeProto, x: Domain, *bounds: Domain) -> Domain:
    if node.attribute:  # bounds of opset 6, which are floats
        return _UNKNOWN
    for name, bound, limit in zip(node.input[1:], bounds, (max, min), strict=False):
        x = _ends([x, bound], limit) if name else x
    return x


def _range(start: Domain, limit: Domain) -> Domain:
    # The limit is beyond the last element, whichever sign the step has.
    return start.union(Domain(min(start.lowest, limit.lowest + 1), max(*start, limit.highest - 1)))
