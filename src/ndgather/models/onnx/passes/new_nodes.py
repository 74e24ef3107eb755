"""New nodes of a conversion pass, with constant folding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from onnx import NodeProto, helper, numpy_helper

from ndgather.errors import ModelError
from ndgather.models import Array
from ndgather.models.graph import unique
from ndgather.models.onnx.nodes import UNKNOWN, Scope, element_type
from ndgather.published.schema import TensorType

_LAST = np.iinfo(np.int64).max
_ALLOWS_ZERO = 14  # the first opset in which Reshape has the attribute allowzero
_FEW = 4096  # the maximum number of elements of a constant that is the sum of other constants


@dataclass(slots=True, kw_only=True)
class NewNodes:
    """Nodes that are added before and after a node, with value names that start with `prefix`.

    The types and constants of new nodes are added to `scope`. `taken` contains all value names.
    """

    scope: Scope
    taken: set[str]
    prefix: str
    before: list[NodeProto] = field(default_factory=list)
    after: list[NodeProto] = field(default_factory=list)

    def new_name(self, hint: str) -> str:
        return unique(f"{self.prefix}_{hint}", self.taken)

    def add(
        self,
        op_type: str,
        *inputs: str,
        known: TensorType = UNKNOWN,
        hint: str = "",
        **attributes: Any,
    ) -> str:
        """Add a node whose output has the type `known` and return the name of the output."""
        output = self.new_name(hint or op_type.lower())
        node = helper.make_node(op_type, inputs, [output], output, **attributes)
        self.before.append(node)
        self.scope.set_type(output, known)
        self.scope.add(node)
        return output

    def constant(self, values: object, hint: str = "constant", dtype: Any = np.int64) -> str:
        array = numpy_helper.from_array(np.array(values, dtype))
        return self.add("Constant", hint=hint, value=array)


def keep_identity(node: NodeProto, new: Sequence[NodeProto], titles: set[str]) -> list[NodeProto]:
    """Copy the name, documentation and metadata of `node` to the nodes that replace it.

    The node that computes the output is given the name of `node`, and the other nodes use this name
    as a prefix. `titles` contains the names of all nodes.
    """
    outputs = {*node.output} - {""}
    for item in new:
        if item is node:
            continue
        item.doc_string = node.doc_string
        del item.metadata_props[:]
        item.metadata_props.extend(node.metadata_props)
        if node.name:
            keeps = not outputs.isdisjoint(item.output)
            title = f"{node.name}/{item.op_type.lower()}"
            item.name = node.name if keeps else unique(title, titles)
            outputs -= {*node.output} if keeps else set()
    return list(new)


@dataclass(frozen=True, slots=True)
class Size:
    """A number multiplied by dynamic sizes, which are (value name, axis) pairs."""

    number: int = 1
    open: tuple[tuple[str, int], ...] = ()

    def __mul__(self, other: Size) -> Size:
        return Size(self.number * other.number, (*self.open, *other.open))


def product(sizes: Iterable[Size]) -> Size:
    return prod(sizes, start=Size())


def strides(sizes: Sequence[Size]) -> list[Size]:
    """Return the row-major strides of a shape, in elements."""
    return [product(sizes[axis + 1 :]) for axis in range(len(sizes))]


_FOLDS: Mapping[str, Callable[..., Any]] = {
    "Add": np.add,
    "Div": np.floor_divide,
    "Concat": lambda *arrays, axis: np.concatenate(arrays, axis),
    "Equal": np.equal,
    "Expand": lambda array, shape: np.broadcast_to(array, np.broadcast_shapes(array.shape, shape)),
    "Less": np.less,
    "Max": np.maximum,
    "Mul": np.multiply,
    "Reshape": np.reshape,
    "Where": np.where,
}
"""NumPy functions that compute nodes whose inputs are constants."""


@dataclass(slots=True, kw_only=True)
class SizedNodes(NewNodes):
    """New nodes in `opset` that compute indices of type `dtype`.

    `small` contains the axes whose dynamic size is assumed to be at most 2**31 - 1.
    """

    opset: int
    dtype: str = "int64"
    small: list[tuple[str, int]] = field(default_factory=list)
    _shapes: dict[str, str] = field(default_factory=dict)
    _constants: dict[tuple[object, ...], str] = field(default_factory=dict)

    def constant(self, values: object, hint: str = "constant", dtype: Any = np.int64) -> str:
        array = np.array(values, dtype)
        key = (str(array.dtype), array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = NewNodes.constant(self, array, hint, array.dtype)
        return self._constants[key]

    def sizes(self, name: str, shape: Sequence[object]) -> list[Size]:
        return [
            Size(size) if isinstance(size, int) else Size(1, ((name, axis),))
            for axis, size in enumerate(shape)
        ]

    def compute(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Add a node, or a constant if all its inputs are constants."""
        arrays: list[Array] = []
        if op_type in _FOLDS:
            arrays = [x for x in map(self.scope.constant, inputs) if x is not None]
        if not arrays or len(arrays) < len(inputs):
            return self.add(op_type, *inputs, **attributes)
        value = _FOLDS[op_type](*arrays, **attributes)
        return self.constant(value, dtype=value.dtype)

    def cast(self, name: str, dtype: str) -> str:
        array = self.scope.constant(name)
        if array is None:
            return self.add("Cast", name, to=element_type(dtype))
        return self.constant(array, dtype=dtype)

    def numbers(self, sizes: Sequence[Size], dtype: str = "int64") -> str:
        if not any(size.open for size in sizes):
            return self.constant([size.number for size in sizes], "sizes", dtype)
        items = [self._number(size) for size in sizes]
        joined = items[0] if len(items) == 1 else self.compute("Concat", *items, axis=0)
        return joined if dtype == "int64" else self.cast(joined, dtype)

    def _number(self, size: Size) -> str:
        factors = [self.constant([size.number])] if size.number != 1 or not size.open else []
        for name, axis in size.open:
            if name not in self._shapes:
                self._shapes[name] = self.add("Shape", name)
            bounds = [self.constant([axis]), self.constant([axis + 1])]
            factors.append(self.add("Slice", self._shapes[name], *bounds))
        result = factors[0]
        for factor in factors[1:]:
            result = self.add("Mul", result, factor)
        return result

    def reshape(self, name: str, sizes: Sequence[Size], before: Sequence[Size] = ()) -> str:
        """Reshape a value. If its current sizes are known, `before` contains them."""
        opened = [number for number, size in enumerate(sizes) if size.open]
        zeros = [number for number, size in enumerate(sizes) if size.number == 0]
        shape = [0 if size.open else size.number for size in sizes]
        array = None if opened else self.scope.constant(name)
        if array is not None:
            return self.constant(np.reshape(array, shape), dtype=array.dtype)
        if len(opened) == 1 and not zeros:
            shape[opened[0]] = -1
        elif any([sizes[axis]] != list(before[axis : axis + 1]) for axis in opened + zeros):
            # Without allowzero, Reshape replaces a size of 0 with the input size on the same axis.
            return self.add("Reshape", name, self.numbers(sizes), allowzero=1)
        return self.compute("Reshape", name, self.constant(shape, "shape"))

    def line(self, size: Size, stride: Size, axis: int, rank: int) -> str:
        """Return a tensor of rank `rank` that contains the multiples of `stride` along `axis`."""
        if size.open:
            bounds = self.constant(0), self.add("Reshape", self._number(size), self.constant([]))
            line = self.add("Range", *bounds, self.constant(1))
            line = line if self.dtype == "int64" else self.cast(line, self.dtype)
        else:
            line = self.constant(np.arange(size.number), "positions", self.dtype)
        if rank > 1:
            shape = [-1 if number == axis else 1 for number in range(rank)]
            line = self.compute("Reshape", line, self.constant(shape))
        return self.scaled(line, [stride])

    def scaled(self, name: str, factors: Sequence[Size]) -> str:
        if all(factor == Size() for factor in factors):
            return name
        return self.compute("Mul", name, self.numbers(factors, self.dtype))

    def total(self, terms: Sequence[str]) -> str:
        """Add small constants to each other, then return the sum of all broadcast tensors."""
        first, *rest = terms
        constants: list[Array] = []
        for term in rest:
            array = self.scope.constant(term)
            if array is None:
                first = self.compute("Add", first, term)
            elif constants and np.broadcast(constants[-1], array).size <= _FEW:
                constants[-1] = constants[-1] + array
            else:
                constants.append(array)
        for array in constants:
            first = self.compute("Add", first, self.constant(array, "offsets", self.dtype))
        return first

    def column(self, name: str, number: int) -> str:
        """Return a slice of index tuples that contains only the index at position `number`."""
        array = self.scope.constant(name)
        if array is not None:
            return self.constant(array[..., number : number + 1], dtype=array.dtype)
        return self.part(name, number, number + 1, -1)

    def part(self, name: str, start: int, end: int | None, axis: int) -> str:
        bounds = (start, _LAST if end is None else end, axis)
        return self.add("Slice", name, *(self.constant([bound]) for bound in bounds))

    def finish(self, output: str) -> None:
        """Rename the output of the last node to `output`, and drop unused nodes."""
        self.before[-1].output[0] = output
        used = {output}
        kept: list[NodeProto] = []
        for node in reversed(self.before):
            if used.intersection(node.output):
                used.update(node.input)
                kept.append(node)
        self.before[:] = reversed(kept)
        self.check_opset()

    def check_opset(self) -> None:
        has_zeros = any(item.name == "allowzero" for node in self.before for item in node.attribute)
        if has_zeros and self.opset < _ALLOWS_ZERO:
            raise ModelError(
                f"Reshape of opset {self.opset} does not support sizes that may be 0 "
                f"(allowed: opset {_ALLOWS_ZERO} or later)"
            )
