"""A gather or scatter node of ONNX on its way to another version, with the nodes before it.

The nodes that are added use only what opsets from 11 on have in common.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, helper, numpy_helper

from ndgather.models.graph import unique
from ndgather.models.graph.node_conversion import Call
from ndgather.models.onnx.type_protos import element_type
from ndgather.published.schema import Role
from ndgather.published.tensor_types import RankAtLeast, TensorType

if TYPE_CHECKING:
    from collections.abc import Callable

    from ndgather.published.schema import OperatorVersion
    from ndgather.published.tensor_types import Dim, Shape

Array = NDArray[Any]


@dataclass(slots=True, kw_only=True)
class Rewrite(Call):
    """A call in an ONNX model, which becomes the operator `name` of `domain`.

    `taken` are the names in use. `before` are the nodes that have to stand before it, and
    `made` the types of the indices that they make.
    """

    name: str
    domain: str
    taken: set[str]
    before: list[NodeProto] = field(default_factory=list)
    made: dict[str, TensorType] = field(default_factory=dict)

    def dims(self, role: Role) -> tuple[Dim, ...]:
        """Return the sizes of an input, whose rank has to be known."""
        shape = self.types[role].shape
        if shape is None or isinstance(shape, RankAtLeast):
            raise self.refuse(self.name, f"the rank of {role.value} is not known")
        return shape

    def axis(self) -> int:
        return int(self.attributes.get("axis", 0)) % len(self.dims(Role.DATA))

    def batch_dims(self) -> int:
        return int(self.attributes.get("batch_dims", 0))

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Add a node, and return the name of its output."""
        output = unique(f"{self.inputs[Role.INDICES]}_{op_type.lower()}", self.taken)
        self.before.append(helper.make_node(op_type, inputs, [output], output, **attributes))
        return output

    def constant(self, values: object) -> str:
        return self.add("Constant", value=numpy_helper.from_array(np.array(values, np.int64)))

    def cast(self, role: Role, dtype: str) -> None:
        """Put a Cast before the node."""
        name = self.add("Cast", self.inputs[role], to=element_type(dtype))
        self.inputs[role] = name
        self.types[role] = replace(self.types[role], dtype=dtype)
        self.made[name] = self.types[role]
        if role in self.constants:
            self.constants[role] = self.constants[role].astype(dtype)

    def set_constant(self, role: Role, array: Array) -> None:
        self.inputs[role] = self.add("Constant", value=numpy_helper.from_array(array))
        self.constants[role] = array

    def cast_indices(self) -> None:
        """Make the indices int64."""
        if self.types[Role.INDICES].dtype != "int64":
            self.cast(Role.INDICES, "int64")

    def append_axis(self) -> None:
        """Give the indices a last axis of size 1."""
        dims = self.dims(Role.INDICES)
        sizes = self.add("Concat", self._sizes(Role.INDICES), self.constant([1]), axis=0)
        self._set_indices(self._reshaped(sizes), (*dims, 1))

    def drop_last_axis(self) -> None:
        """Take away the last axis of the indices, which has size 1."""
        dims = self.dims(Role.INDICES)
        sizes = self._without_last(self._sizes(Role.INDICES))
        self._set_indices(self._reshaped(sizes), dims[:-1])

    def fold_batch_dims(self, _: OperatorVersion) -> None:
        """Put the coordinates of the batch axes before the index tuples."""
        *lead, depth = self.dims(Role.INDICES)
        count = self.batch_dims()
        target = self.add(
            "Concat",
            self._without_last(self._sizes(Role.INDICES)),
            self.constant([1]),
            axis=0,
        )
        # Counted by the sizes of data, so that other sizes of indices are refused here too.
        sizes = self._sizes(Role.DATA)
        columns = [self._coordinates(sizes, axis, len(lead) + 1, target) for axis in range(count)]
        joined = self.add("Concat", *columns, self.inputs[Role.INDICES], axis=-1)
        deeper = depth + count if isinstance(depth, int) else None
        self._set_indices(joined, (*lead, deeper))

    def spell_out_coordinates(self) -> None:
        """Make index tuples out of single indices: those along the axis, and their positions."""
        dims, along = self.dims(Role.INDICES), self.axis()
        sizes = self._sizes(Role.INDICES)
        target = self.add("Concat", sizes, self.constant([1]), axis=0)
        columns = [
            self._reshaped(target)
            if axis == along
            else self._coordinates(sizes, axis, len(dims) + 1, target)
            for axis in range(len(dims))
        ]
        joined = columns[0] if len(columns) == 1 else self.add("Concat", *columns, axis=-1)
        self._set_indices(joined, (*dims, len(dims)))

    def _coordinates(self, sizes: str, axis: int, rank: int, target: str) -> str:
        """Return the position along `axis` of every element of a tensor of the sizes `target`."""
        count = self.add("Gather", sizes, self.constant(axis), axis=0)
        steps = self.add("Range", self.constant(0), count, self.constant(1))
        line = [-1 if each == axis else 1 for each in range(rank)]
        return self.add("Expand", self.add("Reshape", steps, self.constant(line)), target)

    def _sizes(self, role: Role) -> str:
        return self.add("Shape", self.inputs[role])

    def _without_last(self, sizes: str) -> str:
        return self.add("Slice", sizes, self.constant([0]), self.constant([-1]))

    def _reshaped(self, sizes: str) -> str:
        return self.add("Reshape", self.inputs[Role.INDICES], sizes)

    def _set_indices(self, name: str, shape: Shape) -> None:
        self.inputs[Role.INDICES] = name
        self.types[Role.INDICES] = replace(
            self.types[Role.INDICES],
            dtype="int64",
            shape=shape,
        )
        self.made[name] = self.types[Role.INDICES]
        self.constants.pop(Role.INDICES, None)


def _gather_as_gather_nd(rewrite: Rewrite) -> None:
    if rewrite.axis() != 0:
        raise rewrite.refuse(rewrite.name, f"axis = {rewrite.axis()} is not the first one")
    rewrite.cast_indices()
    rewrite.append_axis()


def _gather_nd_as_gather(rewrite: Rewrite) -> None:
    if rewrite.batch_dims():
        raise rewrite.refuse(rewrite.name, f"batch_dims = {rewrite.batch_dims()} is not 0")
    _refuse_other_depths(rewrite)
    rewrite.drop_last_axis()


def _refuse_other_depths(rewrite: Rewrite) -> None:
    depth = rewrite.dims(Role.INDICES)[-1]
    if depth != 1:
        raise rewrite.refuse(
            rewrite.name, f"the length of the index tuples is {depth or 'not known'}, not 1"
        )


def _gather_elements_as_gather_nd(rewrite: Rewrite) -> None:
    rewrite.cast_indices()
    rewrite.spell_out_coordinates()


def _gather_nd_as_gather_elements(rewrite: Rewrite) -> None:
    _refuse_other_depths(rewrite)
    rank, count = len(rewrite.dims(Role.DATA)), rewrite.batch_dims()
    if count != rank - 1 or len(rewrite.dims(Role.INDICES)) != rank + 1:
        raise rewrite.refuse(
            rewrite.name,
            "only tuples along the last axis of data, with all axes before it as batch axes and "
            "one axis of positions, are indices of single elements",
        )
    rewrite.drop_last_axis()
    rewrite.attributes["axis"] = rank - 1


def _flat(rewrite: Rewrite) -> None:
    ranks = [len(rewrite.dims(role)) for role in (Role.DATA, Role.INDICES)]
    if ranks != [1, 1]:
        raise rewrite.refuse(
            rewrite.name, f"data and indices have ranks {ranks[0]} and {ranks[1]}, not 1"
        )


EQUIVALENCES: dict[tuple[str, str], Callable[[Rewrite], None]] = {
    ("Gather", "GatherND"): _gather_as_gather_nd,
    ("GatherND", "Gather"): _gather_nd_as_gather,
    ("GatherElements", "GatherND"): _gather_elements_as_gather_nd,
    ("GatherND", "GatherElements"): _gather_nd_as_gather_elements,
    ("Gather", "GatherElements"): _flat,
    ("GatherElements", "Gather"): _flat,
    ("ScatterElements", "ScatterND"): _gather_elements_as_gather_nd,
}
"""How a node becomes one of another operator, where that is exact."""

KEPT_ATTRIBUTES = {
    ("Gather", "GatherElements"): ("axis",),
    ("GatherElements", "Gather"): ("axis",),
    ("GatherND", "GatherElements"): ("axis",),
    ("ScatterElements", "ScatterND"): ("reduction",),
}
"""The attributes that the other operator has as well."""
