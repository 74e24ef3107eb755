"""Values inside of loops as outputs of a model, of every iteration, in memory known before."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, TensorProto, helper, numpy_helper

from ndgather.models import Array
from ndgather.models.onnx.nodes import OpNode, Scope, declaration, dtype_name, element_type
from ndgather.models.onnx.tracing import NotTraceableError, Outputs, TracedNode, ValueInLoops
from ndgather.published.rows import DEFAULT_DOMAIN
from ndgather.published.schema import TensorType
from ndgather.runtimes.runtime import STRING, dtype_named

_SINCE = 9  # the opset whose Scan has the form of today, and which has Expand
_AXES_AS_INPUT = 18  # of reductions, from this opset on
_INT64 = TensorProto.INT64
_BYTES_OF_STRING = 64  # about: a reference, and an object with a few characters


@dataclass(frozen=True, slots=True)
class Extents:
    """The largest size and rank of a value in all iterations, and the numbers of iterations."""

    size: int
    rank: int
    counts: tuple[int, ...]  # of the outermost loop first

    @classmethod
    def of(cls, vectors: Sequence[Array]) -> Extents:
        """Return what has room for a value in every runtime; vectors are outputs of `SizeOutputs`.

        Everything is at least 1, so that no vector is empty.
        """
        size, rank, *counts = np.maximum(np.max(vectors, axis=0), 1).tolist()
        return cls(size, rank, tuple(reversed(counts)))


class _LoopOutputs(Outputs):
    """Vectors that leave bodies as outputs of the nodes around them."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = itertools.count()
        self._known: dict[tuple[int, str], str] = {}

    def value_in_loops(self, scope: Scope, name: str) -> str:
        key = (id(scope), name)
        if key not in self._known:
            known, opset = scope.type_of(name).dtype, scope.opsets.get(DEFAULT_DOMAIN, _SINCE)
            if opset < _SINCE:
                raise NotTraceableError(f"its loop is of opset {opset}, which is below {_SINCE}")
            if known is None:
                raise NotTraceableError(f"the type of {name!r}, a value of its loop, is not known")
            self._known[key] = self._leave(scope, name, known)
        return self._known[key]

    def _leave(self, scope: Scope, name: str, dtype: str) -> str:
        raise NotImplementedError

    def _write(self, graph: GraphProto, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Add a node to a graph, and return the name of its output."""
        name = f"{next(self._numbers)}:{op_type}:exposed"
        graph.node.append(helper.make_node(op_type, inputs, [name], **attributes))
        return name

    def _numbers_in(self, graph: GraphProto, *numbers: int) -> str:
        value = numpy_helper.from_array(np.array(numbers, np.int64))
        return self._write(graph, "Constant", value=value)

    def _zeros(self, graph: GraphProto, count: str, elem_type: int) -> str:
        """Add zeros, or empty strings; `count` is a vector of one number."""
        zero = TensorProto(data_type=elem_type, dims=[1])
        if elem_type == TensorProto.STRING:
            zero.string_data.append(b"")
        else:
            zero.raw_data = bytes(dtype_named(dtype_name(elem_type, count)).itemsize)
        return self._write(graph, "Expand", self._write(graph, "Constant", value=zero), count)

    def _with_zeros(self, graph: GraphProto, vector: str, length: int, elem_type: int) -> str:
        """Add zeros behind a vector, so that it has `length` elements."""
        size = self._write(graph, "Shape", vector)
        count = self._write(graph, "Sub", self._numbers_in(graph, length), size)
        return self._write(graph, "Concat", vector, self._zeros(graph, count, elem_type), axis=0)

    def _raised(self, scope: Scope, vector: str, length: int, elem_type: int) -> str:
        """Make a vector of a body an output of the node around it, and return its name there.

        It is the vector where the node is an If, of zeros if another branch runs, and a matrix with
        a row for every iteration where it is a Loop or a Scan.
        """
        node, body = scope.around[-1], scope.body
        bodies = [item.g for item in node.attribute if item.type == AttributeProto.GRAPH]
        if node.op_type != "If":  # the last outputs of a node may be left out
            first = 1 if node.op_type == "Loop" else 0
            while len(node.output) < len(body.output) - first:
                node.output.append(f"{next(self._numbers)}:left out:exposed")
            for attribute in node.attribute:
                if attribute.name in {"scan_output_axes", "scan_output_directions"}:
                    attribute.ints.append(0)
        declared = declaration(TensorType(dtype_name(elem_type, vector), (length,)))
        for graph in bodies:
            name = vector
            if graph != body:
                name = self._zeros(graph, self._numbers_in(graph, length), elem_type)
            graph.output.add(name=name).type.CopyFrom(declared)
        outer = f"{next(self._numbers)}:{node.op_type}:exposed"
        node.output.append(outer)
        return outer


class SizeOutputs(_LoopOutputs):
    """For every value of a loop an output: the vector that `Extents.of` reads."""

    @property
    def vectors(self) -> tuple[str, ...]:
        return tuple(self._known.values())

    def _leave(self, scope: Scope, name: str, dtype: str) -> str:
        del dtype
        body, length = scope.body, 2
        # The Size of a scalar crashes OpenVINO 2026.4.
        flat = self._write(body, "Reshape", name, self._numbers_in(body, -1))
        size = self._write(body, "Shape", flat)
        rank = self._write(body, "Shape", self._write(body, "Shape", name))
        vector = self._write(body, "Concat", size, rank, axis=0)
        while scope.outer is not None:
            node, vector = scope.around[-1], self._raised(scope, vector, length, _INT64)
            opset, scope = scope.opsets.get(DEFAULT_DOMAIN, _SINCE), scope.outer
            if node.op_type != "If":
                vector = self._largest(scope.body, vector, length, opset)
                length += 1
        self.expose(vector)
        return vector

    def _largest(self, graph: GraphProto, rows: str, length: int, opset: int) -> str:
        """Add the largest numbers of all rows, and the number of rows."""
        no_row = numpy_helper.from_array(np.zeros((1, length), np.int64))
        all_rows = self._write(
            graph, "Concat", self._write(graph, "Constant", value=no_row), rows, axis=0
        )
        if opset >= _AXES_AS_INPUT:
            axes = self._numbers_in(graph, 0)
            largest = self._write(graph, "ReduceMax", all_rows, axes, keepdims=0)
        else:
            largest = self._write(graph, "ReduceMax", all_rows, axes=[0], keepdims=0)
        shape = self._write(graph, "Shape", rows)
        count = self._write(graph, "Gather", shape, self._numbers_in(graph, 0))
        return self._write(graph, "Concat", largest, count, axis=0)


class ValueOutputs(_LoopOutputs):
    """For every value of a loop two outputs: those of a `ValueInLoops`.

    `extents` are those of the values, in the order in which `SizeOutputs` meets them; none if no
    runtime computes them.
    """

    def __init__(self, extents: Iterable[Extents]) -> None:
        super().__init__()
        self._extents = iter(extents)
        self.values: dict[str, ValueInLoops] = {}
        self.bytes = 0

    def traced(self, op_node: OpNode) -> TracedNode:
        node = super().traced(op_node)
        names = (*node.reads, node.gives)
        in_loops = {name: self.values[name] for name in names if name in self.values}
        return replace(node, in_loops=in_loops)

    def _leave(self, scope: Scope, name: str, dtype: str) -> str:
        extents, body, elem_type = next(self._extents, None), scope.body, element_type(dtype)
        if extents is None:
            raise NotTraceableError("no runtime returns the sizes of the values in its loop")
        shape = self._write(body, "Shape", name)
        rank = self._write(body, "Shape", shape)
        more = self._write(body, "Add", rank, self._numbers_in(body, 1))
        vectors = [
            self._write(body, "Reshape", name, self._numbers_in(body, -1)),
            self._write(body, "Concat", more, shape, axis=0),
        ]
        widths = extents.size + 1, extents.rank + 2  # never full: there are always zeros behind
        outputs = []
        for vector, width, kind in zip(vectors, widths, (elem_type, _INT64), strict=True):
            outputs.append(self._out_of_all(scope, vector, width, kind, extents.counts))
        value = ValueInLoops(outputs[0], outputs[1], extents.counts)
        itemsize = _BYTES_OF_STRING if dtype == STRING else dtype_named(dtype).itemsize
        self.bytes += math.prod(extents.counts) * (widths[0] * itemsize + widths[1] * 8)
        self.values[value.data_name] = value
        return value.data_name

    def _out_of_all(
        self, scope: Scope, vector: str, length: int, elem_type: int, counts: Sequence[int]
    ) -> str:
        """Make a vector of a body an output of the model, with zeros for what did not run."""
        rest = list(counts)
        vector = self._with_zeros(scope.body, vector, length, elem_type)
        while scope.outer is not None:
            node, vector = scope.around[-1], self._raised(scope, vector, length, elem_type)
            scope = scope.outer
            if node.op_type != "If":
                length = length * rest.pop() + 1
                whole = self._numbers_in(scope.body, -1)
                flat = self._write(scope.body, "Reshape", vector, whole)
                vector = self._with_zeros(scope.body, flat, length, elem_type)
        self.expose(vector)
        return vector
