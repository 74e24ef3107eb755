"""The lowest and the highest value that integers of a model can have, as its nodes prove.

Every rule returns the domain of a result for those of the inputs. Where there is no rule, nothing
but the type is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

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


_UNKNOWN = Domain(-(1 << 200), 1 << 200)  # of values that are no integers, or of no known type
_COUNTS = Domain(0, np.iinfo(np.int64).max)
_MOST_NODES = 30  # on the way to a value
_MOST_VISITS = 1000  # of values: each of n nodes that read their input twice doubles them
_32_BITS = Domain(1 - 2**31, 2**31 - 1)
_COUNTING = {"ArgMax": 0, "ArgMin": 0, "NonMaxSuppression": 0, "NonZero": 0, "Shape": 0, "Size": 0}
_COUNTING |= {"TopK": 1, "Unique": 1}
"""Operators whose outputs, from this one on, are positions or sizes."""
SAME_VALUES = frozenset(
    {"Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Reshape", "Slice"}
    | {"Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"}
)
"""Operators that return elements of their first input, and no others."""


def may_be_negative(scope: Scope, name: str) -> bool:
    """Return whether a value may have a negative element, as far as its nodes show."""
    return domain_of(scope, name).lowest < 0


def fits_32_bits(scope: Scope, name: str) -> bool:
    """Return whether no element of a value needs more bits; sizes and positions do not."""
    return _Search(Domain(0, _32_BITS.highest)).find(scope, name).within(_32_BITS)


def domain_of(scope: Scope, name: str) -> Domain:
    return _Search(_COUNTS).find(scope, name)


class _Search:
    """A search for the domain of a value, where sizes and positions have the domain `counts`."""

    def __init__(self, counts: Domain) -> None:
        self._counts, self._visits = counts, 0

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
        if list(node.output).index(name) >= _COUNTING.get(node.op_type, len(node.output)):
            most = _most_counted(inner, node)
            return self._counts if most is None else Domain(0, most)

        def find(value: str, known: Mapping[str, Domain] | None = None) -> Domain:
            return self.find(inner, value, known, nodes - 1)

        if node.op_type == "Where":
            return _where(inner, node, find)
        if node.op_type in SAME_VALUES:
            return find(node.input[0])
        rule = _RULES.get(node.op_type)
        if rule is None:
            return full
        here = assumed if node.op_type in _ELEMENTWISE else None
        found = rule(node, [find(value, here) if value else _UNKNOWN for value in node.input])
        return found if found.within(full) else full


def _most_counted(scope: Scope, node: NodeProto) -> int | None:
    """Return the highest position or size that a node of `_COUNTING` can return, if it is known.

    TopK of 8 rows of 100 columns returns positions up to 99.
    """
    counted = node.input[1 if node.op_type == "NonMaxSuppression" else 0]
    sizes = scope.type_of(counted).numbers
    if sizes is None:
        return None
    if node.op_type in {"Size", "Unique"}:
        return math.prod(sizes)
    if node.op_type in {"ArgMax", "ArgMin", "TopK"}:
        axis = _attribute(node, "axis", -1 if node.op_type == "TopK" else 0)
        sizes = sizes[axis : axis + 1 or None]
    return max(max(sizes, default=1) - (node.op_type != "Shape"), 0)  # of no values, any


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
    if known is not None and known.size and known.all() != known.any():
        known = None
    if known is not None and known.size:
        return find(first) if known.all() else find(second)
    tests = scope.computing(condition)
    test = None if tests is None else tests.node_of(condition)
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


_TESTS = {"Less": 1, "LessOrEqual": 1, "Greater": -1, "GreaterOrEqual": -1}
"""Comparisons, and -1 for those whose inputs change places."""


def _attribute(node: NodeProto, name: str, default: int = 0) -> int:
    return next((attribute_value(item) for item in node.attribute if item.name == name), default)


def _mul(node: NodeProto, inputs: list[Domain]) -> Domain:
    ends = [x * y for x in inputs[0] for y in inputs[1]]
    return Domain(min(ends), max(ends))


def _div(node: NodeProto, inputs: list[Domain]) -> Domain:
    """Runtimes round negative quotients in two ways, so there is no rule for them."""
    dividend, divisor = inputs
    if dividend.lowest < 0 or divisor.lowest < 1:
        return _UNKNOWN
    return Domain(dividend.lowest // divisor.highest, dividend.highest // divisor.lowest)


def _mod(node: NodeProto, inputs: list[Domain]) -> Domain:
    # The remainder has the sign of the divisor, and with fmod that of the dividend.
    dividend, divisor = inputs
    if divisor.lowest < 1 or (dividend.lowest < 0 and _attribute(node, "fmod")):
        return _UNKNOWN
    most = divisor.highest - 1
    return Domain(0, most if dividend.lowest < 0 else min(most, dividend.highest))


def _abs(node: NodeProto, inputs: list[Domain]) -> Domain:
    # The lowest integer stays negative: 2**63 is outside of its type, and so of this domain.
    lowest, highest = inputs[0]
    least = 0 if lowest <= 0 <= highest else min(abs(lowest), abs(highest))
    return Domain(least, max(abs(lowest), abs(highest)))


def _max(node: NodeProto, inputs: list[Domain]) -> Domain:
    return Domain(*map(max, zip(*inputs, strict=True)))


def _min(node: NodeProto, inputs: list[Domain]) -> Domain:
    return Domain(*map(min, zip(*inputs, strict=True)))


def _clip(node: NodeProto, inputs: list[Domain]) -> Domain:
    result = inputs[0]
    for number, rule in ((1, _max), (2, _min)):
        if node.input[number : number + 1] not in ([], [""]):
            result = rule(node, [result, inputs[number]])
    return result if not node.attribute else _UNKNOWN  # bounds of opset 6, which are floats


def _range(node: NodeProto, inputs: list[Domain]) -> Domain:
    start, limit, _ = inputs  # the limit stands after the last element
    return start.union(Domain(min(start.lowest, limit.lowest + 1), max(*start, limit.highest - 1)))


_ELEMENTWISE = frozenset({"Abs", "Add", "Cast", "Max", "Min", "Mul", "Neg", "Sub"})
"""Operators whose result reads each input at the same position."""
_RULES: dict[str, Callable[[NodeProto, list[Domain]], Domain]] = {
    "Abs": _abs,
    "Add": lambda _, of: Domain(of[0].lowest + of[1].lowest, of[0].highest + of[1].highest),
    "Cast": lambda _, of: of[0],  # what is outside of the new type becomes any of its values
    "Clip": _clip,
    "Concat": lambda _, of: of[0].union(*of[1:]),
    "Div": _div,
    "Max": _max,
    "Min": _min,
    "Mod": _mod,
    "Mul": _mul,
    "Neg": lambda _, of: Domain(-of[0].highest, -of[0].lowest),
    "Range": _range,
    "Sub": lambda _, of: Domain(of[0].lowest - of[1].highest, of[0].highest - of[1].lowest),
}
