"""Gather and scatter nodes in another version of their operator, where that is exact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from ndgather import messages
from ndgather.errors import ModelError
from ndgather.models import Array
from ndgather.models.graph import Arguments
from ndgather.published import operator
from ndgather.published.schema import (
    FLOATS,
    INTEGERS,
    OperatorVersion,
    Reduction,
    Role,
    TensorType,
)

# The behaviour of a version without the attribute, as a value of it.
_DEFAULTS: dict[str, int | str] = {"axis": 0, "batch_dims": 0, "reduction": "none"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What the attributes of a node mean in every version. An axis of None is not an attribute."""

    axis: int | None
    batch_dims: int
    reduction: Reduction

    @classmethod
    def of(cls, row: OperatorVersion, attributes: Mapping[str, int | str | bool]) -> Self:
        """Return the meaning of attributes of `row`."""
        values: dict[str, int | str | bool] = dict(_DEFAULTS)
        values |= {item.name: item.default for item in row.attributes if item.default is not None}
        values |= attributes
        reduction = row.attribute("reduction")
        words = {item.word: item.reduction for item in reduction.choices} if reduction else {}
        return cls(
            axis=None if row.attribute("axis") is None else int(values["axis"]),
            batch_dims=int(values["batch_dims"]),
            reduction=words.get(str(values["reduction"]), Reduction.NONE),
        )


class Loss(NamedTuple):
    """A rule by which the old version has a result, and the new one has none."""

    rule: str
    source: str
    target: str


@dataclass(slots=True, kw_only=True)
class NodeCall:
    """A node that is converted: its inputs by their roles, and its attributes.

    `origin` is its old version, `row` the version that its attributes are written for. Subclasses
    add how a format of models casts an input and writes a constant.
    """

    origin: OperatorVersion
    row: OperatorVersion
    inputs: dict[Role, str]
    types: dict[Role, TensorType]
    constants: dict[Role, Array]
    attributes: dict[str, Any]

    def cast(self, role: Role, dtype: str) -> None:
        """Cast an input to a type that holds all of its values."""
        raise NotImplementedError

    def set_constant(self, role: Role, array: Array) -> None:
        """Replace an input by a constant."""
        raise NotImplementedError

    def fold_batch_dims(self, target: OperatorVersion) -> None:
        """Put the coordinates of the batch axes into the index tuples."""
        count = self.attributes["batch_dims"]
        raise self.cannot_become(target, f"it has no batch_dims, which is {count}")

    def cannot_become(self, target: object, why: str) -> ModelError:
        return messages.cannot_become(self.origin, target, why)


def fit(call: NodeCall, target: OperatorVersion) -> tuple[Loss, ...]:
    """Convert a call to the version `target`, and return which results may be lost."""
    meaning = Meaning.of(call.row, call.attributes)
    call.attributes = _attributes(call, target, meaning)
    for item in target.inputs:
        _fit_type(call, target, item.role)
    if call.origin.index_rule.negative and not target.index_rule.negative:
        _count_from_the_front(call, target, meaning)
    call.inputs = {item.role: call.inputs[item.role] for item in target.inputs}
    known = {x.name: call.constants[x.role] for x in target.inputs if x.role in call.constants}
    function = operator(target.name, domain=target.domain, version=target.since)
    types = tuple(call.types[role] for role in call.inputs)
    Arguments.of(function, known, call.attributes).infer(types)
    return tuple(_losses(call, target))


def is_exact_cast(source: str, target: str) -> bool:
    """Return whether every value of one type is a value of the other, of the same kind."""
    for kind in (INTEGERS, FLOATS):
        if source in kind and target in kind:
            return bool(np.can_cast(source, target, "safe"))
    return source == target or (source == "bool" and target in (*INTEGERS, *FLOATS))


def _attributes(call: NodeCall, target: OperatorVersion, meaning: Meaning) -> dict[str, Any]:
    """Return the attributes of the call for another version; defaults stay left out."""
    reduction = target.attribute("reduction")
    words = {item.reduction: item.word for item in reduction.choices} if reduction else {}
    if meaning.reduction is not Reduction.NONE and meaning.reduction not in words:
        raise call.cannot_become(target, f"it has no reduction {meaning.reduction.value}")
    values: dict[str, Any] = {
        "batch_dims": meaning.batch_dims,
        "reduction": words.get(meaning.reduction, "none"),
    }
    if meaning.axis is not None:
        values["axis"] = meaning.axis
    kept = {}
    for name, value in values.items():
        attribute = target.attribute(name)
        if attribute is not None:
            if name in call.attributes or value != attribute.default:
                kept[name] = value
        elif value != _DEFAULTS[name]:
            if name != "batch_dims":
                raise call.cannot_become(target, f"it has no {name}, which is {value!r}")
            call.fold_batch_dims(target)
    return kept


def _fit_type(call: NodeCall, target: OperatorVersion, role: Role) -> None:
    """Cast an input if the target takes other types and the cast is exact."""
    before, after = call.origin.input(role), target.input(role)
    dtype = call.types[role].dtype
    if after is None or dtype in after.types:
        return
    if dtype is None:
        if before is not None and not set(before.types) <= set(after.types):
            raise call.cannot_become(target, f"the type of {role.value} is not known")
        return
    if role in {Role.DATA, Role.UPDATES}:
        return  # inference raises for the type
    wanted = "int64" if "int64" in after.types else after.types[-1]
    if role not in call.constants and not is_exact_cast(dtype, wanted):
        raise call.cannot_become(
            target, f"{role.value} of {dtype} would have to become {wanted}, which may change them"
        )
    call.cast(role, wanted)


def _count_from_the_front(call: NodeCall, target: OperatorVersion, meaning: Meaning) -> None:
    """Replace negative constants along one axis of known size."""
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
    fits = counted.max() <= np.iinfo(indices.dtype).max  # all versions take int64
    call.set_constant(Role.INDICES, counted.astype(indices.dtype) if fits else counted)


def _losses(call: NodeCall, target: OperatorVersion) -> Iterator[Loss]:
    """Yield the results of the old version of a call that `target` may not have."""
    source = call.origin
    counts = source.index_rule.negative and not target.index_rule.negative
    if counts and Role.INDICES not in call.constants:  # constants are counted from the front
        yield Loss("index range", "a negative index counts from the end", "it is out of range")
    indices = call.types[Role.INDICES].dims
    depth = indices[-1] if indices else None
    shorter = source.lowest_depth < target.lowest_depth and source.kind is target.kind
    if source.kind.tuples and shorter and not isinstance(depth, int):
        yield Loss("depth", "a tuple of no index copies its batch", "it is an error")
