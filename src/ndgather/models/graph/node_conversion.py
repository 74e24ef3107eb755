"""How a gather or scatter node becomes one of another version, in whatever file it stands.

Wherever both give a result it is the same, byte for byte. What the other version certainly
cannot give is refused. Where one of the two may give a result and the other an error, which
depends on values that only a run knows, a `Difference` says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather.errors import ModelError, conversion_errors
from ndgather.models.graph.differences import Difference, Meaning, differences, meaning_of
from ndgather.published import operator
from ndgather.published.schema import (
    FLOATS,
    INTEGERS,
    BatchRule,
    OperatorVersion,
    Reduction,
    Role,
)

if TYPE_CHECKING:
    from ndgather.models.graph import Array
    from ndgather.published.tensor_types import TensorType

_SILENT = {"axis": 0, "batch_dims": 0, "reduction": "none", "use_init_val": True}
"""What a version without an attribute does: the same as others do with this value of it."""


@dataclass(slots=True, kw_only=True)
class Call:
    """A node on its way to another version: what it reads, by roles, and its attributes.

    `origin` is the version that it was; `row` the one whose words its attributes are. A format
    of models adds how a value is cast, and how a constant is written.
    """

    origin: OperatorVersion
    row: OperatorVersion
    inputs: dict[Role, str]
    types: dict[Role, TensorType]
    constants: dict[Role, Array]
    attributes: dict[str, Any]

    def cast(self, role: Role, dtype: str) -> None:
        """Make what it reads in a role of this type, which every value of it fits."""
        raise NotImplementedError

    def set_constant(self, role: Role, array: Array) -> None:
        """Have it read these values in a role."""
        raise NotImplementedError

    def fold_batch_dims(self, target: OperatorVersion) -> None:
        """Put the coordinates of the batch axes into the index tuples."""
        count = self.attributes["batch_dims"]
        raise self.refuse(target, f"it has no batch_dims, which is {count}")

    def refuse(self, target: object, why: str) -> ModelError:
        return conversion_errors.cannot_become(self.origin, target, why)


def fit(call: Call, target: OperatorVersion) -> tuple[Difference, ...]:
    """Make a call what the version `target` takes, and return where the two may differ.

    Raises
    ------
    NdgatherError
        There is no exact counterpart; the text says why.
    """
    meaning = meaning_of(call.row, call.attributes, call.constants.get(Role.AXIS))
    _refuse_other_meaning(call, target, meaning)
    call.attributes = _attributes(call, target, meaning)
    for each in target.inputs:
        if each.role is Role.AXIS and Role.AXIS not in call.inputs:
            call.set_constant(Role.AXIS, np.array(meaning.axis, np.int64))
        _fit_type(call, target, each.role)
    if call.origin.index_rule.negative and not target.index_rule.negative:
        _count_from_the_front(call, target, meaning)
    call.inputs = {each.role: call.inputs[each.role] for each in target.inputs}
    inputs = [call.types[role] for role in call.inputs]
    constants = {role.value: array for role, array in call.constants.items()}
    known = {each.name: constants[each.role] for each in target.inputs if each.role in constants}
    function = operator(target.name, domain=target.domain, version=target.since)
    function.infer(*inputs, constants=known, **call.attributes)
    found = differences(call.origin, target, meaning, call.types, call.constants)
    return tuple(found)


def is_exact_cast(source: str, target: str) -> bool:
    """Return whether every value of one type is a value of the other, and of no other kind."""
    for kind in (INTEGERS, FLOATS):
        if source in kind and target in kind:
            return bool(np.can_cast(source, target, "safe"))
    return source == target or (source == "bool" and target in (*INTEGERS, *FLOATS))


def _refuse_other_meaning(call: Call, target: OperatorVersion, meaning: Meaning) -> None:
    fuses = [row.batch_rule is BatchRule.FUSED for row in (call.row, target)]
    if meaning.batch_dims > 1 and fuses[0] is not fuses[1]:
        raise call.refuse(target, "one of them fuses several batch axes in the result")
    other = call.row.domain != target.domain
    if meaning.reduction is not Reduction.NONE and call.types[Role.DATA].dtype == "bool" and other:
        raise call.refuse(target, "they do not define reductions of booleans alike")
    if meaning.axis is None and target.attribute("axis") is not None:
        raise call.refuse(target, "its axis is not a constant")


def _attributes(call: Call, target: OperatorVersion, meaning: Meaning) -> dict[str, Any]:
    """Return what the call says in the words of another version, as briefly as it does."""
    reduction = target.attribute("reduction")
    words = {each.reduction: each.word for each in reduction.choices} if reduction else {}
    if meaning.reduction is not Reduction.NONE and meaning.reduction not in words:
        raise call.refuse(target, f"it has no reduction {meaning.reduction.value}")
    said: dict[str, Any] = {
        "batch_dims": meaning.batch_dims,
        "use_init_val": meaning.use_init_val,
        "reduction": words.get(meaning.reduction, "none"),
    }
    if meaning.axis is not None and target.input(Role.AXIS) is None:
        said["axis"] = meaning.axis
    kept = {}
    for name, value in said.items():
        attribute = target.attribute(name)
        if attribute is not None:
            if name in call.attributes or value != attribute.default:
                kept[name] = value
        elif value != _SILENT[name]:
            if name != "batch_dims":
                raise call.refuse(target, f"it has no {name}, which is {value!r}")
            call.fold_batch_dims(target)
    return kept


def _fit_type(call: Call, target: OperatorVersion, role: Role) -> None:
    """Cast what is read in a role where the target takes other types there, if that is exact."""
    before, after = call.origin.input(role), target.input(role)
    dtype = call.types[role].dtype
    if after is None or dtype in after.types:
        return
    if dtype is None:
        if before is not None and not set(before.types) <= set(after.types):
            raise call.refuse(target, f"the type of {role.value} is not known")
        return
    if role in {Role.DATA, Role.UPDATES}:
        return  # the operator says which types it takes
    wanted = "int64" if "int64" in after.types else after.types[-1]
    if role not in call.constants and not is_exact_cast(dtype, wanted):
        raise call.refuse(
            target, f"{role.value} of {dtype} would have to become {wanted}, which may change them"
        )
    call.cast(role, wanted)


def _count_from_the_front(call: Call, target: OperatorVersion, meaning: Meaning) -> None:
    """Replace negative constants along one axis of known size."""
    indices = call.constants.get(Role.INDICES)
    if indices is None or not (indices < 0).any():
        return
    shape = call.types[Role.DATA].shape
    size = None
    if isinstance(shape, tuple) and meaning.axis is not None:
        size = shape[meaning.axis % len(shape)]
    if not isinstance(size, int):
        raise call.refuse(target, "an index is negative, and the size of the axis is not known")
    counted = np.where(indices < 0, indices + size, indices).astype(indices.dtype)
    call.set_constant(Role.INDICES, counted)
