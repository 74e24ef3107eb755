"""Exact conversion of gather and scatter nodes to other operators and operator versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from onnx import defs, numpy_helper

from ndgather import messages
from ndgather.errors import ModelError
from ndgather.models import Array
from ndgather.models.graph import infer_call
from ndgather.models.graph.diagnostics import KnownCall, differing_results
from ndgather.models.onnx.inference import InferredNode
from ndgather.models.onnx.nodes import Scope, element_type, implementation
from ndgather.models.onnx.passes.new_nodes import Size, SizedNodes
from ndgather.models.onnx.value_ranges import Interval, find_value_range
from ndgather.published import Operator
from ndgather.published.rows import DEFAULT_DOMAIN
from ndgather.published.schema import (
    Dim,
    Input,
    OperatorVersion,
    Reduction,
    Role,
    Shape,
    TensorType,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """Version-independent attributes of a call. `axis` is None for GatherND and ScatterND."""

    axis: int | None
    batch_dims: int
    reduction: Reduction

    @classmethod
    def from_attributes(
        cls, row: OperatorVersion, attributes: Mapping[str, int | str | bool]
    ) -> Self:
        """Interpret `attributes` as defined by the operator version `row`, adding its defaults."""
        values: dict[str, int | str | bool] = {"axis": 0, "batch_dims": 0, "reduction": "none"}
        values |= {item.name: item.default for item in row.attributes if item.default is not None}
        values |= attributes
        reduction = row.attribute("reduction")
        words = {item.word: item.reduction for item in reduction.choices} if reduction else {}
        return cls(
            axis=None if row.attribute("axis") is None else int(values["axis"]),
            batch_dims=int(values["batch_dims"]),
            reduction=words.get(str(values["reduction"]), Reduction.NONE),
        )


@dataclass(slots=True, kw_only=True)
class GatherCall:
    """A gather or scatter node that is being converted to the operator `name` of `domain`.

    `origin` is the operator version in the source model, and `row` is the version that defines
    `attributes`. `inputs`, `types` and `constants` are keyed by role. `new` collects the nodes that
    are added before the call. `indices` contains the names of new indices. `known` describes the
    original node. `safe_range` is the range of the original indices if all indices are in bounds.
    """

    origin: OperatorVersion
    row: OperatorVersion
    name: str
    domain: str
    inputs: dict[Role, str]
    types: dict[Role, TensorType]
    constants: dict[Role, Array]
    attributes: dict[str, Any]
    new: SizedNodes
    known: KnownCall | None
    indices: list[str] = field(default_factory=list)
    safe_range: Interval | None = None

    @classmethod
    def from_node(cls, inferred: InferredNode, new: SizedNodes) -> Self:
        """Return a call that represents a node and adds nodes to `new` during conversion."""
        op_node = inferred.op_node
        row = op_node.operator().row
        roles = [parameter.role for parameter in row.inputs]
        types = inferred.inference.inputs if inferred.inference else op_node.known_types()
        indices, attributes = op_node.constants().get(Role.INDICES.value), op_node.attributes()
        data = types[0]
        if data.dtype == "string" and data.dims:  # Runtimes agree on slices of a single string.
            data = replace(data, shape=tuple(x if isinstance(x, int) else 1 for x in data.dims))
        call = cls(
            origin=row,
            row=row,
            name=row.name,
            domain=row.domain,
            inputs=dict(zip(roles, op_node.node.input, strict=True)),
            types=dict(zip(roles, types, strict=True)),
            constants={} if indices is None else {Role.INDICES: indices},
            attributes=attributes,
            new=new,
            known=KnownCall.of(row, (data, *types[1:]), attributes, indices=indices),
        )
        call.safe_range = call.find_safe_range()
        return call

    def indexed_sizes(self) -> list[Dim]:
        """Return the sizes of the indexed axes of data, or an empty list if they are unknown."""
        data, indices = (self.types[role].dims or () for role in (Role.DATA, Role.INDICES))
        first, depth = self.attribute("batch_dims"), indices[-1] if indices else None
        if self.row.kind.tuples:
            return [*data[first : first + depth]] if isinstance(depth, int) else []
        return [data[self.attribute("axis") % len(data)]] if data else []

    def find_safe_range(self) -> Interval | None:
        """Return the range of the indices if all indices are provably in bounds."""
        scope, name, sizes = self.new.scope, self.inputs[Role.INDICES], self.indexed_sizes()
        numbers = [size for size in sizes if isinstance(size, int)]
        if not numbers or len(numbers) < len(sizes):
            return None
        known, mask = find_value_range(scope, name), scope.type_of(masked_by(scope, name)).numbers
        fits = mask and all(x <= y for x, y in zip(mask, numbers, strict=False))
        return known if fits or known.is_within(Interval(-min(numbers), min(numbers) - 1)) else None

    def cannot_become(self, target: object, why: str) -> ModelError:
        return messages.cannot_become(self.origin, target, why)

    def new_difference(
        self,
        row: OperatorVersion,
        types: Sequence[TensorType],
        attributes: Mapping[str, Any],
        indices: Array | None = None,
    ) -> str | None:
        """Return how runtimes differ for a new node, ignoring differences for the original node."""
        known = KnownCall.of(row, types, attributes, indices=indices)
        results = differing_results(known)
        before = differing_results(self.known) if results and self.known else {}
        return next((what for rule, what in results.items() if rule not in before), None)

    def change_operator(self, name: str) -> None:
        change = (self.name, name)
        self.name, self.domain = name, DEFAULT_DOMAIN
        if change not in EQUIVALENCES:
            raise self.cannot_become(name, "no exact counterpart is known")
        function, kept = EQUIVALENCES[change]
        function(self)
        self.attributes = {key: value for key, value in self.attributes.items() if key in kept}
        row = implementation(name, DEFAULT_DOMAIN, defs.onnx_opset_version()).row
        types = [self.types[role] for role in self.inputs]
        indices = self.constants.get(Role.INDICES)
        difference = self.new_difference(row, types, self.attributes, indices)
        if difference is not None:
            raise self.cannot_become(name, difference)

    def dims(self, role: Role) -> tuple[Dim, ...]:
        dims = self.types[role].dims
        if dims is None:
            raise self.cannot_become(self.name, f"the rank of {role.value} is not known")
        return dims

    def attribute(self, name: str) -> int:
        return int(self.attributes.get(name, 0))

    def cast(self, role: Role, dtype: str) -> None:
        """Cast an input to a type that can represent all of its values."""
        known = replace(self.types[role], dtype=dtype)
        self._read(role, self.new.add("Cast", self.inputs[role], to=element_type(dtype)), known)
        if role in self.constants:
            self.constants[role] = self.constants[role].astype(dtype)

    def set_constant(self, role: Role, array: Array) -> None:
        self.inputs[role] = self.new.add("Constant", value=numpy_helper.from_array(array))
        self.constants[role] = array

    def set_indices(self, name: str, shape: Shape) -> None:
        dtype = self.types[Role.INDICES].dtype or "int64"
        self._read(Role.INDICES, name, TensorType(dtype, shape))
        self.constants.pop(Role.INDICES, None)

    def _read(self, role: Role, name: str, known: TensorType) -> None:
        self.inputs[role], self.types[role] = name, known
        self.new.scope.set_type(name, known)
        self.indices.append(name)

    def sizes(self, role: Role) -> list[Size]:
        return self.new.sizes(self.inputs[role], self.dims(role))

    def reshaped(self, sizes: Sequence[Size]) -> str:
        return self.new.reshape(self.inputs[Role.INDICES], sizes, self.sizes(Role.INDICES))

    def coordinates(self, sizes: Sequence[Size], axis: int, shape: Sequence[Size]) -> str:
        """Return a tensor of shape `shape` that contains the position of each element on `axis`."""
        line = self.new.line(sizes[axis], Size(), axis, len(shape))
        return self.new.compute("Expand", line, self.new.numbers(shape))

    def fold_batch_dims(self) -> None:
        """Insert the batch coordinates into the index tuples so that `batch_dims` is not needed.

        With batch_dims = 1, the index tuple (5, 6) in batch 2 becomes (2, 5, 6).
        """
        *lead, depth = self.dims(Role.INDICES)
        count = self.attribute("batch_dims")
        shape = [*self.sizes(Role.INDICES)[:-1], Size()]
        # Use the sizes of data, so that indices with different batch sizes still raise an error.
        columns = [self.coordinates(self.sizes(Role.DATA), axis, shape) for axis in range(count)]
        joined = self.new.compute("Concat", *columns, self.inputs[Role.INDICES], axis=-1)
        deeper = depth + count if isinstance(depth, int) else None
        self.set_indices(joined, (*lead, deeper))


def masked_by(scope: Scope, name: str) -> str:
    """Return the input of the NonZero node that computes `name`, or an empty string."""
    for op_type in "Transpose", "NonZero":
        inner = scope.computing(name)
        if inner is None or inner.node_of(name).op_type != op_type:
            return ""
        node = inner.node_of(name)
        if any(list(item.ints) != [1, 0] for item in node.attribute):
            return ""
        scope, name = inner, node.input[0]
    return name


def fit(call: GatherCall, function: Operator) -> None:
    """Convert the inputs and attributes of a call to the version of `function`."""
    target = function.row
    meaning = Meaning.from_attributes(call.row, call.attributes)
    call.attributes = _attributes(call, target, meaning)
    for item in target.inputs:
        _fit_type(call, target, item)
    if call.origin.index_rule.negative and not target.index_rule.negative:
        _count_from_the_front(call, target, meaning)
    call.inputs = {item.role: call.inputs[item.role] for item in target.inputs}
    known = {x.name: call.constants[x.role] for x in target.inputs if x.role in call.constants}
    types = tuple(call.types[role] for role in call.inputs)
    infer_call(function, types, known, call.attributes)


def _attributes(call: GatherCall, target: OperatorVersion, meaning: Meaning) -> dict[str, Any]:
    reduction = target.attribute("reduction")
    words = {item.reduction: item.word for item in reduction.choices} if reduction else {}
    if meaning.reduction is not Reduction.NONE and meaning.reduction not in words:
        raise call.cannot_become(target, f"it has no reduction {meaning.reduction.value}")
    values: dict[str, Any] = {
        "batch_dims": meaning.batch_dims,
        "reduction": words.get(meaning.reduction, "none"),
        "axis": meaning.axis,
    }
    kept = {}
    for name, value in values.items():
        attribute = target.attribute(name)
        if attribute is not None and (name in call.attributes or value != attribute.default):
            kept[name] = value
    if meaning.batch_dims and target.attribute("batch_dims") is None:
        call.fold_batch_dims()
    return kept


def _fit_type(call: GatherCall, target: OperatorVersion, parameter: Input) -> None:
    """Cast indices of an unsupported type to int64, which every version supports."""
    role = parameter.role
    dtype, before = call.types[role].dtype, call.origin.input(role)
    if dtype is None:
        if before is not None and not set(before.types) <= set(parameter.types):
            raise call.cannot_become(target, f"the type of {role.value} is not known")
    elif role is Role.INDICES and dtype not in parameter.types:
        call.cast(role, "int64")


def _count_from_the_front(call: GatherCall, target: OperatorVersion, meaning: Meaning) -> None:
    """Normalize negative indices if they are constant and the size of the axis is known."""
    indices = call.constants.get(Role.INDICES)
    if indices is None or not (indices < 0).any():
        return
    dims = call.types[Role.DATA].dims
    size = dims[meaning.axis % len(dims)] if dims and meaning.axis is not None else None
    if not isinstance(size, int):
        raise call.cannot_become(
            target, "an index is negative, and the size of the axis is not known"
        )
    counted = np.where(indices < 0, indices + np.int64(size), indices)
    fits = counted.max() <= np.iinfo(indices.dtype).max  # If an index does not fit, use int64.
    call.set_constant(Role.INDICES, counted.astype(indices.dtype) if fits else counted)


def _gather_as_gather_nd(call: GatherCall) -> None:
    dims = call.dims(Role.DATA)
    axis = call.attribute("axis") % len(dims)
    if axis != 0:
        raise call.cannot_become(call.name, f"axis = {axis} is not 0")
    _cast_to_int64(call)
    dims = call.dims(Role.INDICES)
    call.set_indices(call.reshaped([*call.sizes(Role.INDICES), Size()]), (*dims, 1))


def _gather_nd_as_gather(call: GatherCall) -> None:
    if call.attribute("batch_dims"):
        raise call.cannot_become(call.name, f"batch_dims = {call.attribute('batch_dims')} is not 0")
    _drop_last_axis(call)


def _drop_last_axis(call: GatherCall) -> None:
    *dims, depth = call.dims(Role.INDICES)
    if depth != 1:
        why = f"the length of the index tuples is {depth or 'not known'}, not 1"
        raise call.cannot_become(call.name, why)
    call.set_indices(call.reshaped(call.sizes(Role.INDICES)[:-1]), tuple(dims))


def _elements_as_tuples(call: GatherCall) -> None:
    """Convert indices along one axis to index tuples that address single elements of data."""
    axis = call.attribute("axis") % len(call.dims(Role.DATA))
    _cast_to_int64(call)
    dims = call.dims(Role.INDICES)
    sizes = call.sizes(Role.INDICES)
    shape = [*sizes, Size()]
    columns = [
        call.reshaped(shape) if number == axis else call.coordinates(sizes, number, shape)
        for number in range(len(dims))
    ]
    joined = columns[0]
    if len(columns) > 1:
        joined = call.new.compute("Concat", *columns, axis=-1)
    call.set_indices(joined, (*dims, len(dims)))


def _cast_to_int64(call: GatherCall) -> None:
    if call.types[Role.INDICES].dtype != "int64":
        call.cast(Role.INDICES, "int64")


def _gather_nd_as_gather_elements(call: GatherCall) -> None:
    rank, indices = len(call.dims(Role.DATA)), call.dims(Role.INDICES)
    if indices[-1] == 1 and (call.attribute("batch_dims"), len(indices)) != (rank - 1, rank + 1):
        raise call.cannot_become(
            call.name,
            "index tuples select single elements only along the last axis of data, if all other "
            "axes are batch axes and indices have one axis of positions",
        )
    _drop_last_axis(call)
    call.attributes["axis"] = rank - 1


def _check_one_axis(call: GatherCall) -> None:
    ranks = [len(call.dims(role)) for role in (Role.DATA, Role.INDICES)]
    if ranks != [1, 1]:
        why = f"data and indices have ranks {ranks[0]} and {ranks[1]}, not 1"
        raise call.cannot_become(call.name, why)


EQUIVALENCES: dict[tuple[str, str], tuple[Callable[[GatherCall], None], tuple[str, ...]]] = {
    ("Gather", "GatherND"): (_gather_as_gather_nd, ()),
    ("GatherND", "Gather"): (_gather_nd_as_gather, ()),
    ("GatherElements", "GatherND"): (_elements_as_tuples, ()),
    ("GatherND", "GatherElements"): (_gather_nd_as_gather_elements, ("axis",)),
    ("Gather", "GatherElements"): (_check_one_axis, ("axis",)),
    ("GatherElements", "Gather"): (_check_one_axis, ("axis",)),
    ("ScatterElements", "ScatterND"): (_elements_as_tuples, ("reduction",)),
}
"""(Operator, equivalent operator) → the function that converts a call and the kept attributes."""
