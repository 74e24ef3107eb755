"""What adapters share: the inputs of a case as arrays, and what a call of it asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndgather.published.rows import ROWS
from ndgather.published.schema import Kind, OperatorVersion

if TYPE_CHECKING:
    from ndgather.testing.conformance.cases import Case

Array = NDArray[Any]


class CannotExpressError(Exception):
    """A library has no call that asks for this case; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The work of a case, whoever specified it.

    Attributes
    ----------
    axis, batch_dims : int
        As the case gives them; 0 where it does not.
    reduction : str
        The name that this package has for it.
    mode : str
        What is asked of an index out of bounds.
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


def row_of(case: Case) -> OperatorVersion:
    """Return the specification of the operator of a case."""
    wanted = (case.operator.name, case.operator.domain, case.operator.version)
    return next(row for row in ROWS if (row.name, row.domain, row.since) == wanted)


def arrays_of(case: Case) -> dict[str, Array]:
    """Return the inputs of a case.

    Raises
    ------
    CannotExpressError
        The package that brings an element type to NumPy is not installed.
    """
    try:
        return {name: tensor.array() for name, tensor in case.inputs.items()}
    except ModuleNotFoundError as missing:
        raise CannotExpressError(f"needs {missing.name}") from missing


def asked_of(case: Case) -> Asked:
    """Return what a case asks for, in terms that no specification owns."""
    arrays, attributes = arrays_of(case), case.attributes
    if case.operator.version is None:
        kind, word = Kind(case.operator.name), attributes.get("reduction", "none")
    else:
        row = row_of(case)
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
