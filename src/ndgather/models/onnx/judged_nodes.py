"""A value that a runtime gave for a gather or scatter node, beside that of the specification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndgather.errors import NdgatherError
from ndgather.published.schema import Reduction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndgather.models.onnx.op_nodes import OpNode

Array = NDArray[Any]

_ORDERED = {Reduction.NONE.value, Reduction.MIN.value, Reduction.MAX.value}
_ROUNDINGS = 64  # how many units in the last place a sum may be off for its order of additions


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedNode:
    """What a node gave in a runtime and what its specification gives for the same inputs.

    Attributes
    ----------
    ours : array or None
        None where the specification does not allow the call, as `refusal` says.
    theirs : array or None
        None where the runtime gave nothing.
    first : tuple of int or None
        The first element that differs; None where none does, or `ours` or `theirs` is no array of
        the same shape.
    """

    inputs: tuple[Array, ...]
    theirs: Array | None
    ours: Array | None = None
    refusal: NdgatherError | None = None
    first: tuple[int, ...] | None = None

    @property
    def same(self) -> bool:
        both = self.ours is not None and self.theirs is not None
        return both and self.first is None and _alike(self.ours, self.theirs)


def judged(op_node: OpNode, inputs: Sequence[Array], theirs: Array | None) -> JudgedNode:
    """Compute a node by the version of its operator, and compare."""
    given = tuple(np.asarray(each) for each in inputs)
    attributes = op_node.attributes()
    try:
        ours = op_node.operator()(*given, **attributes)
    except NdgatherError as refusal:
        return JudgedNode(inputs=given, theirs=theirs, refusal=refusal)
    first = None
    if theirs is not None and _alike(ours, theirs):
        rounds = attributes.get("reduction", "none") not in _ORDERED
        first = first_difference(ours, theirs, rounds=rounds)
    return JudgedNode(inputs=given, theirs=theirs, ours=ours, first=first)


def first_difference(
    ours: Array, theirs: Array, *, rounds: bool = False, rtol: float = 0.0, atol: float = 0.0
) -> tuple[int, ...] | None:
    """Return the first place at which two arrays of one shape differ, or None.

    NaN equals NaN, and 0.0 differs from -0.0. With `rounds`, sums of floats may differ by what
    another order of additions makes of them; `rtol` and `atol` are those of `numpy.isclose`.
    """
    if (rounds or rtol or atol) and np.issubdtype(ours.dtype, np.inexact):
        if rounds:
            unit = _ROUNDINGS * float(np.finfo(ours.dtype).eps)
            finite = np.abs(ours[np.isfinite(ours)])
            rtol, atol = unit, unit * float(finite.max(initial=0))
        differs = ~np.isclose(ours, theirs, rtol, atol, equal_nan=True)
    elif ours.dtype.kind in "OUST":
        differs = np.asarray(ours.astype(object) != theirs.astype(object))
    elif ours.tobytes() == theirs.tobytes():
        return None
    else:
        bits = [np.ascontiguousarray(each)[..., None].view(np.uint8) for each in (ours, theirs)]
        differs = np.asarray((bits[0] != bits[1]).any(axis=-1))
        with np.errstate(invalid="ignore"):
            differs &= ~np.asarray((ours != ours) & (theirs != theirs), bool)  # noqa: PLR0124 - NaN
    if not differs.any():
        return None
    return tuple(map(int, np.unravel_index(int(differs.argmax()), differs.shape)))


def _alike(ours: Array | None, theirs: Array | None) -> bool:
    if ours is None or theirs is None or ours.shape != theirs.shape:
        return False
    return ours.dtype == theirs.dtype or {ours.dtype.kind, theirs.dtype.kind} <= set("OUST")
