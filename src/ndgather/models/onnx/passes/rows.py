"""Conversion of gathers and scatters to operators that address the rows of a matrix.

After the indexed axes of data are merged, an index tuple corresponds to a row number, which is the
dot product of the tuple and the strides of the axes. For example, data of shape (2, 3) has the
strides (3, 1), so the index tuple (1, 2) selects row 1 * 3 + 2 * 1 = 5:

                 axis 1
               0   1   2
             +---+---+---+
    axis 0 0 | 0 | 1 | 2 |       +---+---+---+---+---+---+
             +---+---+---+  -->  | 0 | 1 | 2 | 3 | 4 | 5 |
           1 | 3 | 4 | 5 |       +---+---+---+---+---+---+
             +---+---+---+

New nodes compute the row numbers from the indices. The rows are gathered by Gather, by GatherND
with index tuples of length 1, or by Slice and Concat if the row numbers are constants.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather.array_call import Kind
from ndgather.models import Array
from ndgather.models.onnx.nodes import element_type, implementation
from ndgather.models.onnx.passes.calls import Meaning, masked_by
from ndgather.models.onnx.passes.new_nodes import Size, product, strides
from ndgather.models.onnx.value_ranges import find_value_range
from ndgather.published.rows import DEFAULT_DOMAIN
from ndgather.published.schema import Reduction, Role, TensorType
from ndgather.reductions import ROWS

if TYPE_CHECKING:
    from ndgather.models.onnx.passes.calls import GatherCall
    from ndgather.models.onnx.passes.target import Limits, Target

MOST_UPDATES = 16
"""The maximum number of updates that are applied one by one, and the maximum number of slices."""

_GATHERS, _SCATTERS = (
    {Kind.GATHER: "Gather", Kind.GATHER_ND: "GatherND"},
    {Kind.SCATTER_ND: "ScatterND", Kind.SCATTER_ELEMENTS: "ScatterElements"},
)
_NAMES = _GATHERS | _SCATTERS
_OF_ROWS = Meaning(axis=0, batch_dims=0, reduction=Reduction.NONE)
_LARGEST_INT32 = np.iinfo(np.int32).max


class Rows:
    """A call that is being converted to gathers and scatters of rows.

    `limits` contains the index types that the target supports. If `checked`, out-of-bounds indices
    result in out-of-bounds row numbers.
    """

    def __init__(
        self, call: GatherCall, target: Target, limits: Limits, *, checked: bool, matmul: bool
    ) -> None:
        self.call, self.new, self.target, self.limits = call, call.new, target, limits
        self.checked, self.matmul = checked, matmul
        self.data, self.indices = (call.sizes(role) for role in (Role.DATA, Role.INDICES))
        self.meaning = Meaning.from_attributes(call.row, call.attributes)
        self._why = ""  # the reason why the target does not support an operator on rows
        self._row: Sequence[Size] = ()  # the shape of a row

    def write(self) -> str:
        """Add the new nodes, and return how they treat out-of-bounds indices."""
        call = self.call
        # In cases 1 and 3 of `_gather`, row numbers are less than the size of the axis.
        outer = product(self.data[: self.axis])
        whole = call.row.kind is Kind.GATHER and (outer == Size() or outer.open)
        self._choose_type([self.data[self.axis]] if whole and self.data else None)
        name = call.inputs[Role.INDICES]
        match call.row.kind:
            case Kind.GATHER:
                self._gather(name)
            case Kind.GATHER_ND:
                count, rank = self._addressed(), len(self.indices)
                flat = self._tuples(name)
                shape = [*self.indices[:-1], *self.data[count:]]
                self._gather_rows(call.inputs[Role.DATA], count, flat, rank, shape)
            case Kind.GATHER_ELEMENTS:
                rank = len(self.data)
                flat = self._elements(name)
                self._gather_rows(call.inputs[Role.DATA], rank, flat, rank, self.indices)
            case Kind.SCATTER_ND:
                self._scatter_rows(self._addressed(), self._tuples(name), self.indices[:-1])
            case Kind.SCATTER_ELEMENTS:
                shared = self._shared_indices()
                if shared is None:
                    self._scatter_rows(len(self.data), self._elements(name), self.indices)
                else:
                    self._scatter_slices(shared)
        scatters = call.row.kind.scatters
        return self.outside("is ignored or raises an error" if scatters else "stays out of bounds")

    def outside(self, checked: str) -> str:
        """Return how out-of-bounds indices are treated, which is `checked` if checks are added."""
        verb = "change" if self.call.row.kind.scatters else "select"
        return checked if self.checked else f"may {verb} another element"

    def normalize_indices(self) -> None:
        """Normalize the negative indices of the call, using a type that the target supports."""
        call, axis = self.call, self.axis
        batch, tuples = self.meaning.batch_dims, call.row.kind.tuples
        sizes = self.data[batch : self._addressed()] if tuples else [self.data[axis]]
        self._choose_type(sizes)
        before = call.inputs[Role.INDICES]
        name = self._normalize(before, sizes, sizes)
        if name != before and not self.indices:  # Broadcasting to `sizes` has added an axis.
            name = self.new.compute("Reshape", name, self.new.constant([]))
        call.inputs[Role.INDICES] = name
        known = replace(call.types[Role.INDICES], dtype=self.new.dtype)
        call.types[Role.INDICES] = known
        self.new.scope.set_type(name, known)

    @property
    def axis(self) -> int:
        return (self.meaning.axis or 0) % max(len(self.data), 1)

    def _choose_type(self, sizes: Sequence[Size] | None = None) -> None:
        """Choose the dtype in which row numbers are computed, preferably the index dtype.

        Row numbers are bounded by `sizes` or, if it is None, by the number of elements of data.
        """
        dtype, allowed = self.call.types[Role.INDICES].dtype, self.limits.index_types
        # If checks are added, each term of a row number may be as large as the size of data.
        size = product(self.data) * Size(len(self.data) + 1)
        small = not size.open and size.number <= _LARGEST_INT32
        if dtype == "int32" and small and (allowed is None or "int32" in allowed):
            self.new.dtype = "int32"
        elif allowed is not None and "int64" not in allowed:
            if sizes is not None:
                small = all(size.number <= _LARGEST_INT32 for size in sizes)
                self.new.small += (place for size in sizes for place in size.open)
            if not small:
                raise self.call.cannot_become(
                    "Gather", "its indices would have to be int32, which may overflow"
                )
            self.new.dtype = "int32"

    def _addressed(self) -> int:
        """Return the total number of batch axes and indexed axes."""
        depth = self.indices[-1]
        if depth.open or not depth.number:
            why = "not known" if depth.open else "0"
            raise self.call.cannot_become("Gather", f"the length of the index tuples is {why}")
        return self.meaning.batch_dims + depth.number

    def _normalize(self, name: str, sizes: Sequence[Size], beyond: Sequence[Size]) -> str:
        """Normalize indices, where `sizes` contains the size of each indexed axis.

        For an axis of size 5, the index -2 becomes 3, and 3 is unchanged. If `checked`,
        out-of-bounds indices such as 5 and -6 are replaced with `beyond`.
        """
        new, dtype = self.new, self.new.dtype
        # The range is analyzed before the cast, because the analysis is less precise after it.
        is_negative = find_value_range(new.scope, name).lowest < 0
        adds_checks = self.checked and self.call.safe_range is None
        before = self.call.types[Role.INDICES].dtype or dtype
        # Shape returns dynamic sizes as int64, so compute in int64 and cast only the result.
        is_open = any(size.open for size in sizes)
        if adds_checks or (is_open and before == "int64"):
            dtype = before  # Casting first could turn an out-of-bounds index into a valid index.
        elif before != dtype:
            name = new.cast(name, dtype)
        zero, size = new.constant(0, "zero", dtype), new.numbers(sizes, dtype)
        compares = self.target.has("Less") and self.target.has("Where")
        if is_negative and (compares or self.checked):
            behind = new.compute("Add", name, size)
            name = new.compute("Where", new.compute("Less", name, zero), behind, name)
        elif is_negative:
            # Max(-Max(index, -1), 0) is 1 for a negative index and 0 for any other index.
            # The index increases by the product of this factor and the size: -2 becomes -2 + 1 * 5.
            below = new.compute("Max", name, new.constant(-1, "below", dtype))
            negated = new.compute("Mul", below, new.constant(-1, "below", dtype))
            turns = new.compute("Mul", new.compute("Max", negated, zero), size)
            name = new.compute("Max", new.compute("Add", name, turns), zero)
        if adds_checks and new.scope.constant(name) is None:
            large = new.numbers(beyond, dtype)
            name = new.compute("Where", new.compute("Less", name, zero), large, name)
            name = new.compute("Where", new.compute("Less", name, size), name, large)
        return name if dtype == new.dtype else new.cast(name, new.dtype)

    def _beyond(self, first: int, count: int) -> list[Size]:
        """Return, for each indexed axis, an index that results in an out-of-bounds row number.

        For data of shape (2, 3) with strides (3, 1), the indices are 2 and 6, because 2 * 3 and
        6 * 1 both give row 6, and the last row is row 5.
        """
        return [product(self.data[: axis + 1]) for axis in range(first, first + count)]

    def _tuples(self, name: str) -> str:
        """Return the row number of each index tuple, in a tensor whose last axis has size 1.

        For data of shape (4, 2, 3, 7), indices of shape (4, 5, 2) and batch_dims = 1, the first
        three axes of data are merged. With the strides (6, 3, 1), the index tuple (1, 2) in batch 3
        selects row 3 * 6 + 1 * 3 + 2 * 1 = 23.
        """
        batch, new = self.meaning.batch_dims, self.new
        sizes = self.data[: self._addressed()]
        apart = strides(sizes)
        beyond = self._beyond(batch, len(sizes) - batch)
        name = new.scaled(self._normalize(name, sizes[batch:], beyond), apart[batch:])
        columns = [name]  # the terms of the row number that depend on the index tuple
        if len(sizes) - batch > 1:
            columns = [new.column(name, number) for number in range(len(sizes) - batch)]
        rank = len(self.indices)
        # Each batch axis adds a term. In the example above, the terms are 0, 6, 12 and 18.
        lines = [new.line(sizes[axis], apart[axis], axis, rank) for axis in range(batch)]
        return new.total([*columns, *lines])

    def _elements(self, name: str) -> str:
        """Return the flat position of the element that each index selects.

        For data of shape (2, 3) and axis 1, the indices [[2, 0], [1, 1]] select the flat positions
        [[2, 0], [4, 4]], because the rows of data start at the flat positions 0 and 3.
        """
        rank, apart, new = len(self.data), strides(self.data), self.new
        name = self._normalize(name, [self.data[self.axis]], self._beyond(self.axis, 1))
        name = new.scaled(name, [apart[self.axis]])
        lines = [
            new.line(self.indices[axis], apart[axis], axis, rank)
            for axis in range(rank)
            if axis != self.axis and self.indices[axis] != Size()
        ]
        return new.total([name, *lines])

    def _gather(self, name: str) -> None:
        """Gather slices along an axis.

        1. For data of shape (5, 7) and axis 0, the slices are rows.
        2. For data of shape (2, 5, 7) and axis 1, index i selects the rows i and 5 + i.
        3. For data of shape (N, 5, 7) and axis 1, the axis is moved to the front and back again.

                   N 5 7  -- Transpose -->  5 N 7  -- Gather -->  3 N 7  -- Transpose -->  N 3 7
        """
        axis, new, data = self.axis, self.new, self.call.inputs[Role.DATA]
        sizes, places = self.data, self.indices
        shape = [*sizes[:axis], *places, *sizes[axis + 1 :]]
        outer = product(sizes[:axis])
        beyond = [sizes[axis]] if outer.open else self._beyond(axis, 1)
        flat = self._normalize(name, [sizes[axis]], beyond)
        if outer == Size():  # Case 1
            self._gather_rows(data, axis + 1, flat, len(places), shape)
        elif not outer.open:  # Case 2
            flat = new.reshape(flat, [Size(1), product(places)])
            flat = new.total([flat, new.line(outer, sizes[axis], 0, 2)])
            self._gather_rows(data, axis + 1, flat, 2, shape)
        else:  # Case 3
            order = [axis, *(number for number in range(len(sizes)) if number != axis)]
            self._row = [sizes[number] for number in order[1:]]
            data = new.add("Transpose", data, perm=order)
            flat = flat if len(places) == 1 else new.reshape(flat, [product(places)])
            rows = self._rows_at(data, len(sizes), flat)
            order = [*range(1, axis + 1), 0, *range(axis + 1, len(sizes))]
            result = new.add("Transpose", rows, perm=order)
            if len(places) != 1:
                new.reshape(result, shape)

    def _gather_rows(
        self, data: str, count: int, flat: str, rank: int, shape: Sequence[Size]
    ) -> None:
        """Merge the first `count` axes of data, gather rows and reshape the result.

        In this example, the target only supports matrices, data has shape (2, 3, 7, 8), `count`
        is 2, and the row numbers have shape (4, 5):

            2 3 7 8  -- Reshape -->  6 56  -- Gather -->  20 56  -- Reshape -->  4 5 7 8
        """
        new, rest = self.new, self.data[count:]
        self._row = rest
        if rank != 1:
            flat = new.reshape(flat, [product(shape[: len(shape) - len(rest)])])
        after = len(rest)  # axes of a row
        if count > 1 or self._operator_of_rows(_GATHERS, data, 1 + after, flat) is None:
            after = min(after, 1)
            data = self._as_rows(data, self.data[:count], rest)
        result = self._rows_at(data, 1 + after, flat)
        if len(shape) != 1 + after or after != len(rest):
            new.reshape(result, shape)

    def _as_rows(self, name: str, first: Sequence[Size], rest: Sequence[Size]) -> str:
        """Reshape a tensor with axes of sizes `first` and `rest` to a matrix or vector of rows."""
        if len(first) == 1 and len(rest) <= 1:
            return name
        sizes = [product(first)] if not rest else [product(first), product(rest)]
        return self.new.reshape(name, sizes)

    def _operator_of_rows(
        self, kinds: Iterable[Kind], rows: str, rank: int, flat: str
    ) -> Kind | None:
        """Return the first of `kinds` that the target supports for `rows`, or None."""
        # Targets distinguish only dynamic and fixed sizes, so 1 represents any fixed size.
        is_open = any(size.open for size in (*self.data, *self.indices))
        scope, dim, self._why = self.new.scope, None if is_open else 1, ""
        dims = {Kind.GATHER: (dim,), Kind.SCATTER_ELEMENTS: (dim,) * rank}
        for kind in (kind for kind in kinds if _NAMES[kind] in self.target.limits):
            reduction = self.meaning.reduction if kind.scatters else Reduction.NONE
            dtype = "int64" if kind.tuples else self.new.dtype
            refusal = self.target.limits[_NAMES[kind]].refusal(
                kind,
                replace(_OF_ROWS, reduction=reduction),
                TensorType(self.call.types[Role.DATA].dtype, (dim,) * rank),
                TensorType(dtype, dims.get(kind, (dim, 1))),
                constant=scope.constant(flat) is not None,
                constant_data=scope.has_constant(rows),
            )
            refusal = refusal or self._difference(kind, rank)
            if refusal is None:
                return kind
            self._why = self._why or refusal
        return None

    def _difference(self, kind: Kind, rank: int) -> str | None:
        """Return how runtimes differ if an operator is applied to rows, or None if they agree."""
        call, name = self.call, _NAMES[kind]
        row = implementation(name, DEFAULT_DOMAIN, self.new.scope.opsets[DEFAULT_DOMAIN]).row
        width = product(self._row if rank > 1 else ())
        dims = (None, *(1,) * (rank - 2), None if width.open else width.number)[:rank]
        types = [TensorType(call.types[Role.DATA].dtype, dims), TensorType(self.new.dtype)]
        attributes: dict[str, Any] = {"axis": 0} if row.attribute("axis") else {}
        if kind.scatters:
            types.append(call.types[Role.UPDATES])
            attributes["reduction"] = self.meaning.reduction.value
        return call.new_difference(row, types, attributes)

    def _as_tuples(self, flat: str) -> str:
        new = self.new
        flat = flat if new.dtype == "int64" else new.cast(flat, "int64")
        return new.compute("Reshape", flat, new.constant([-1, 1]))

    def _rows_at(self, rows: str, rank: int, flat: str) -> str:
        """Add nodes that gather rows. Raise ModelError if the target supports no such nodes."""
        new, position = self.new, self.new.scope.constant(flat)
        kind = self._operator_of_rows(_GATHERS, rows, rank, flat)
        # Some targets only gather from matrices, so a vector becomes a matrix with one column.
        if kind is None and rank == 1 and self._operator_of_rows(_GATHERS, rows, 2, flat):
            rows = new.compute("Reshape", rows, new.constant([-1, 1]))
            return new.add("Reshape", self._rows_at(rows, 2, flat), new.constant([-1]))
        match kind:
            case Kind.GATHER:
                return new.add("Gather", rows, flat, axis=0)
            case Kind.GATHER_ND:
                return new.add("GatherND", rows, self._as_tuples(flat))
        if position is None:
            why = self._why or f"{self.target.name} does not support gathers of rows"
            raise self.call.cannot_become("Gather", why)
        # Consecutive rows form a single slice, so rows 4, 5, 6 and 1 need only two slices.
        ends = np.flatnonzero(np.diff(position, append=-2) != 1) + 1
        if len(ends) > MOST_UPDATES:
            why = f"the rows need {len(ends)} slices (allowed: at most {MOST_UPDATES})"
            raise self.call.cannot_become("Slice", why)
        slices = [(int(x[0]), int(x[-1]) + 1) for x in np.split(position, ends[:-1]) if x.size]
        parts = [new.part(rows, *bounds, 0) for bounds in slices or [(0, 0)]]
        return parts[0] if len(parts) == 1 else new.add("Concat", *parts, axis=0)

    def _scatter_rows(self, count: int, flat: str, places: Sequence[Size]) -> None:
        """Merge the first `count` axes of data, and scatter updates into the rows.

        1. The target supports a scatter into rows.
        2. The call has a reduction.
        3. The row numbers are constants.
        4. The row numbers are the positions of the true elements of a mask.
        5. There are few updates. Rows are gathered from updates and data, after each update has
           replaced a row number. For 4 rows of data and updates of rows 2 and 0:

                u0 u1 d0 d1 d2 d3        no update   2 3 4 5
                 0  1  2  3  4  5        row 2 = u0  2 3 0 5
                                         row 0 = u1  1 3 0 5
        """
        call, new = self.call, self.new
        head, rest = self.data[:count], self.data[count:]
        self._row = rest
        rows, number = product(head), product(places)
        if len(self.indices) != 1:
            flat = new.reshape(flat, [number])
        rank = 1 + bool(rest)
        position = None if rows.open else new.scope.constant(flat)
        data = self._as_rows(call.inputs[Role.DATA], head, rest)
        updates = self._as_rows(call.inputs[Role.UPDATES], places, rest)
        scattered = self._add_scatter(data, updates, flat, rank, rest)
        if scattered is not None:  # Case 1
            result = scattered
        elif self.meaning.reduction is not Reduction.NONE:  # Case 2
            result = self._reduce(data, updates, flat, position, rows, number, rank)
        elif position is not None:  # Case 3
            result = self._replace(data, updates, position, rows.number, rank)
        elif mask := self._mask(count):  # Case 4
            source = self._numbered(new.reshape(mask, [rows]), rows)
            both = new.add("Concat", data, updates, axis=0)
            result = self._rows_at(both, rank, source)
        elif number.open or number.number > MOST_UPDATES:
            raise self._too_many(number)
        else:  # Case 5
            line = new.line(rows, Size(), 0, 1)
            source = new.total([line, new.constant(number.number, "count", new.dtype)])
            for update in range(number.number):
                place = new.constant(update, "update", new.dtype)
                row = new.part(flat, update, update + 1, 0)
                source = self._where_equal(line, row, place, source)
            both = new.add("Concat", updates, data, axis=0)
            result = self._rows_at(both, rank, source)
        new.reshape(result, self.data)

    def _add_scatter(
        self, data: str, updates: str, flat: str, rank: int, rest: Sequence[Size]
    ) -> str | None:
        """Add a scatter into rows, and return its output, or None if it is not supported."""
        new, word = self.new, self.meaning.reduction.value
        kind = self._operator_of_rows(_SCATTERS, data, rank, flat)
        if kind is None:
            return None
        attributes: dict[str, Any] = {} if word == "none" else {"reduction": word}
        if kind is Kind.SCATTER_ND:
            return new.add("ScatterND", data, self._as_tuples(flat), updates, **attributes)
        if rank == 2:  # ScatterElements requires an index for each element of a row.
            column = new.compute("Reshape", flat, new.constant([-1, 1]))
            flat = new.total([column, new.line(product(rest), Size(0), 1, 2)])
        return new.add("ScatterElements", data, flat, updates, axis=0, **attributes)

    def _mask(self, count: int) -> str:
        """Return the mask whose nonzero positions are the index tuples, or an empty string."""
        name = masked_by(self.new.scope, self.call.inputs[Role.INDICES])
        known = self.new.scope.type_of(name)
        sizes = self.new.sizes(name, known.dims or ())
        whole = bool(name) and known.dtype == "bool" and sizes == self.data[:count]
        return name if whole and not product(self.data[:count]).open else ""

    def _numbered(self, mask: str, rows: Size) -> str:
        """Return row numbers that select updates for true elements of a mask, and data otherwise.

        The row numbers index the concatenation of data and updates. Because the k-th true element
        selects update k, the true elements are counted by a cumulative sum in log2(rows) steps:

            mask            . x . x
            count           0 1 1 2
            plus 4 rows - 1 3 4 4 5
            row numbers     0 4 2 5   d0 u0 d2 u1 of d0 d1 d2 d3 u0 u1
        """
        new, count, step = self.new, rows.number, 1
        place = new.cast(mask, new.dtype)
        while step < count:
            parts = new.part(place, step, None, 0), new.part(place, 0, count - step, 0)
            sums = new.add("Add", *parts)
            place = new.add("Concat", new.part(place, 0, step, 0), sums, axis=0)
            step *= 2
        place = new.add("Add", place, new.constant(count - 1, "count", new.dtype))
        # Max allows the range analysis to prove that the row numbers are non-negative.
        place = new.add("Max", new.constant(0, "zero", new.dtype), place)
        return new.add("Where", mask, place, new.line(rows, Size(), 0, 1))

    def _where_equal(self, line: str, place: str, then: str, other: str) -> str:
        """Return elements of `then` if `line` equals `place`, and elements of `other` otherwise."""
        new = self.new
        if self.target.has("Equal") and self.target.has("Where"):
            return new.compute("Where", new.compute("Equal", line, place), then, other)
        # For d = line - place, the factor Max(1 - Max(d, -d), 0) is 1 if d is 0, and 0 otherwise.
        # The selected element is other + factor * (then - other).
        minus, one, zero = (new.constant(x, "factor", new.dtype) for x in (-1, 1, 0))
        apart = new.compute("Add", line, new.compute("Mul", place, minus))
        distance = new.compute("Max", apart, new.compute("Mul", apart, minus))
        near = new.compute("Add", new.compute("Mul", distance, minus), one)
        here = new.compute("Max", near, zero)
        change = new.compute("Add", then, new.compute("Mul", other, minus))
        result = new.compute("Add", other, new.compute("Mul", here, change))
        return new.compute("Max", result, zero)  # Max makes the range of the result non-negative.

    def _shared_indices(self) -> str | None:
        """Return the input of the Expand node that expands each index to a slice of data, or None.

        For data of shape (9, 4, 5) and axis 0, indices of shape (3, 1, 1) that an Expand node
        expands to (3, 4, 5) select three whole slices.
        """
        scope, name = self.new.scope.computing(self.call.inputs[Role.INDICES]), ""
        if scope is None or Role.INDICES in self.call.constants:
            return None
        node = scope.node_of(self.call.inputs[Role.INDICES])
        shape = scope.type_of(node.input[0]).dims if node.op_type == "Expand" else None
        if shape is not None and len(shape) == len(self.data):
            others = [axis for axis in range(len(shape)) if axis != self.axis]
            whole = all(self.indices[axis] == self.data[axis] for axis in others)
            count = self.call.dims(Role.INDICES)[self.axis]
            once = count is not None and shape[self.axis] == count
            if whole and once and all(shape[axis] == 1 for axis in others):
                name = node.input[0]
        return name or None

    def _scatter_slices(self, name: str) -> None:
        call, new, rank = self.call, self.new, len(self.data)
        order = [self.axis, *(axis for axis in range(rank) if axis != self.axis)]
        count = self.indices[self.axis]
        flat = self._normalize(name, [self.data[self.axis]], self._beyond(self.axis, 1))
        flat = new.reshape(flat, [count])
        self.data, self.indices = [self.data[axis] for axis in order], [count]
        if order != sorted(order):
            for role in (Role.DATA, Role.UPDATES):
                call.inputs[role] = new.add("Transpose", call.inputs[role], perm=order)
        self._scatter_rows(1, flat, [count])
        if order != sorted(order):
            back = [order.index(axis) for axis in range(rank)]
            new.add("Transpose", new.before[-1].output[0], perm=back)

    def _too_many(self, number: Size) -> Exception:
        count = "open" if number.open else number.number
        what = f"its indices are not a constant, and the number of updates is {count}"
        adds = self.meaning.reduction is Reduction.ADD and self.target.opset is None
        adds = adds and not self.matmul and "float" in (self.call.types[Role.DATA].dtype or "")
        asked = ", or any number with allow_matmul=True, --allow-matmul" if adds else ""
        what = f"{what} (allowed: 1..{MOST_UPDATES}{asked})"
        return self.call.cannot_become("Gather", what)

    def _replace(self, data: str, updates: str, position: Array, rows: int, rank: int) -> str:
        """Replace rows at constant positions, keeping the last update of each row.

        For 5 rows and updates of the rows 3, 1 and 3:

            u0 u1 u2 d0 d1 d2 d3 d4
             0  1  2  3  4  5  6  7        row numbers 3 1 5 2 7: d0 u1 d2 u2 d4
        """
        new, count = self.new, position.size
        # For consecutive rows, the updates are inserted between two parts of data.
        if count and np.array_equal(position, position[0] + np.arange(count)):
            start, end = int(position[0]), int(position[0]) + count
            parts = [new.part(data, 0, start, 0)] if start else []
            parts += [updates, *([new.part(data, end, None, 0)] if end < rows else [])]
            return new.add("Concat", *parts, axis=0)
        source = count + np.arange(rows)
        source[position] = np.arange(count)
        both = new.add("Concat", updates, data, axis=0)
        return self._rows_at(both, rank, new.constant(source, "rows", new.dtype))

    def _reduce(
        self,
        data: str,
        updates: str,
        flat: str,
        position: Array | None,
        rows: Size,
        number: Size,
        rank: int,
    ) -> str:
        """Combine updates with rows of data in the order of the updates.

        1. If positions are constant, each pass updates a row at most once. For the rows 1, 0 and 1,
           the first pass applies updates 0 and 1, and the second pass applies update 2.
        2. If there are few updates, each update gathers, combines and replaces a single row.
        3. If there are many updates, the updates are multiplied by a matrix whose element (i, k) is
           1 if update k addresses row i.
        """
        call, new, word = self.call, self.new, self.meaning.reduction.value
        dtype = call.types[Role.DATA].dtype or ""
        if "int" not in dtype and "float" not in dtype:
            raise call.cannot_become("Gather", f"it reduces data of type {dtype or 'unknown'}")
        op_type = ROWS[word].onnx[0]
        if position is not None:  # Case 1
            turn, seen = np.empty(position.size, np.int64), np.zeros(rows.number, np.int64)
            for update, row in enumerate(position):
                turn[update] = seen[row]
                seen[row] += 1
            if seen.max(initial=0) > MOST_UPDATES:
                what = f"an element has {seen.max()} updates (allowed: at most {MOST_UPDATES})"
                raise call.cannot_become("Gather", what)
            for number_of_turn in range(seen.max(initial=0)):
                mine = np.flatnonzero(turn == number_of_turn)
                sources = (data, position[mine]), (updates, mine)
                parts = (
                    self._rows_at(name, rank, new.constant(places, "rows", new.dtype))
                    for name, places in sources
                )
                value = new.add(op_type, *parts)
                data = self._replace(data, value, position[mine], rows.number, rank)
        elif not number.open and number.number <= MOST_UPDATES:  # Case 2
            line = new.line(rows, Size(), 0, 1)
            # Rows are selected by index, because Where in onnxruntime turns -0.0 into 0.0.
            others = new.total([line, new.constant(1, "count", new.dtype)])
            for update in range(number.number):
                place = new.part(flat, update, update + 1, 0)
                row = self._rows_at(data, rank, place)
                value = new.add(op_type, row, new.part(updates, update, update + 1, 0))
                first = new.constant(0, "first", new.dtype)
                source = self._where_equal(line, place, first, others)
                data = self._rows_at(new.add("Concat", value, data, axis=0), rank, source)
        elif self.matmul and op_type == "Add" and "float" in dtype:  # Case 3
            line = new.line(rows, Size(), 0, 2)
            here = new.compute("Equal", line, new.reshape(flat, [Size(), number]))
            hot = new.add("Cast", here, to=element_type(dtype))
            data = new.add("Add", data, new.add("MatMul", hot, updates))
        else:
            raise self._too_many(number)
        return data
