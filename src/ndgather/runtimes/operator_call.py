"""What a runtime is asked: one call of one operator, and its work in terms of no specification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ndgather.published.rows import ROWS
from ndgather.published.schema import Kind, OperatorVersion

if TYPE_CHECKING:
    from collections.abc import Mapping

Array = NDArray[Any]


class CannotExpressError(Exception):
    """A runtime has no call that asks for this; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorName:
    """Which operator a call is of; the functions of this package have no version."""

    name: str
    domain: str
    version: int | None

    def __str__(self) -> str:
        if self.version is None:
            return f"{self.domain}.{self.name}"
        return f"{self.domain} {self.name}-{self.version}"


class Tensor(Protocol):
    """An input: the name of its element type, and how to get it as a new array."""

    @property
    def dtype(self) -> str: ...

    def array(self) -> Array: ...


class OperatorCall(Protocol):
    """One call of one operator."""

    @property
    def operator(self) -> OperatorName: ...

    @property
    def inputs(self) -> Mapping[str, Tensor]: ...

    @property
    def attributes(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The work of a call, whoever specified it.

    Attributes
    ----------
    axis, batch_dims : int
        As the call gives them; 0 where it does not.
    reduction : str
        The name that this package has for it.
    mode : str
        What is to be done with an index out of bounds.
    """

    kind: Kind
    data: Array
    indices: Array
    updates: Array | None
    axis: int
    batch_dims: int
    reduction: str
    mode: str
    other: frozenset[str]


_KNOWN = frozenset({"axis", "batch_dims", "reduction", "mode"})


def row_of(call: OperatorCall) -> OperatorVersion:
    """Return the specification of the operator of a call."""
    wanted = (call.operator.name, call.operator.domain, call.operator.version)
    return next(row for row in ROWS if (row.name, row.domain, row.since) == wanted)


def arrays_of(call: OperatorCall) -> dict[str, Array]:
    """Return the inputs of a call.

    Raises
    ------
    CannotExpressError
        The package that brings an element type to NumPy is not installed.
    """
    try:
        return {name: tensor.array() for name, tensor in call.inputs.items()}
    except ModuleNotFoundError as missing:
        raise CannotExpressError(f"needs {missing.name}") from missing


def asked_of(call: OperatorCall) -> Asked:
    """Return what a call asks for, in terms that no specification owns."""
    arrays, attributes = arrays_of(call), call.attributes
    if call.operator.version is None:
        kind, word = Kind(call.operator.name), attributes.get("reduction", "none")
    else:
        row = row_of(call)
        kind = row.kind
        given = attributes.get("reduction", "none")
        attribute = row.attribute("reduction")
        words = {} if attribute is None else {c.word: c.reduction for c in attribute.choices}
        word = words[given].value if given in words else given
    axis = arrays.get("axis", attributes.get("axis", 0))
    if np.size(axis) != 1:
        raise CannotExpressError("takes one axis")
    return Asked(
        kind=kind,
        data=arrays["data"],
        indices=arrays["indices"],
        updates=arrays.get("updates"),
        axis=int(np.reshape(axis, ())),
        batch_dims=int(attributes.get("batch_dims", 0)),
        reduction=word,
        mode=attributes.get("mode", "raise"),
        other=frozenset(attributes) - _KNOWN,
    )
