"""Cases as calls of array functions, for libraries that implement no specification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from . import NDGATHER, OPENVINO, CannotExpressError, arrays_of

if TYPE_CHECKING:
    from conformance.corpus import Array, Case

# The operators that are a single call of a function.
FUNCTIONS = {
    "GatherND": "gather_nd",
    "GatherElements": "gather_elements",
    "Gather": "gather",
    "ScatterND": "scatter_nd",
    "ScatterNDUpdate": "scatter_nd",
    "ScatterElements": "scatter_elements",
    "ScatterElementsUpdate": "scatter_elements",
}
_WORDS_OF_OPENVINO = {"sum": "add", "prod": "mul"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A case as a call of a function of ndgather."""

    function: str
    data: Array
    indices: Array
    updates: Array | None
    axis: int
    batch_dims: int
    reduction: str
    mode: str
    other: frozenset[str]

    @property
    def scatters(self) -> bool:
        return self.updates is not None

    def check_key(self) -> None:
        """Raise `CannotExpressError` if advanced indexing has no key for this call."""
        if self.mode == "fill":
            raise CannotExpressError("has no fill value for out-of-bounds indices")
        if self.other:
            raise CannotExpressError(f"has no {', '.join(sorted(self.other))}")
        if self.function == "gather_nd" and not self.indices.ndim:
            raise CannotExpressError("a scalar is not an index tuple")
        if self.function in ("gather_nd", "scatter_nd") and not self.indices.shape[-1]:
            raise CannotExpressError("an empty key has no positions")
        if self.batch_dims < 0 or self.batch_dims > min(self.data.ndim, self.indices.ndim):
            raise CannotExpressError("a key does not support such batch axes")

    def tuple_key(self) -> tuple[Array, ...]:
        """Return the key of a gather or scatter by index tuples."""
        grid = _grid(self.data.shape[: self.batch_dims], self.indices.ndim - 1)
        depth = self.indices.shape[-1]
        return (*grid, *(self.indices[..., column] for column in range(depth)))

    def element_key(self) -> tuple[Array, ...]:
        """Return the key of a gather or scatter of single elements along an axis."""
        grid = _grid(self.indices.shape, self.indices.ndim)
        axis = range(self.indices.ndim)[self.axis]
        return (*grid[:axis], self.indices, *grid[axis + 1 :])

    def batch_key(self) -> tuple[Array, ...]:
        """Return the key of a gather along the axis that follows the batch axes."""
        return (*_grid(self.data.shape[: self.batch_dims], self.indices.ndim), self.indices)


def _grid(sides: tuple[int, ...], rank: int) -> list[Array]:
    return [
        np.arange(side).reshape((1,) * axis + (side,) + (1,) * (rank - axis - 1))
        for axis, side in enumerate(sides)
    ]


def call_of(case: Case) -> Call:
    """Return the call that a case describes."""
    arrays, attributes = arrays_of(case), case.attributes
    reduction = attributes.get("reduction", "none")
    if case.operator.domain == NDGATHER:
        function = case.operator.name
    elif case.operator.name in FUNCTIONS:
        function = FUNCTIONS[case.operator.name]
    else:
        raise CannotExpressError("has no such operator")
    if case.operator.domain == OPENVINO:
        reduction = _WORDS_OF_OPENVINO.get(reduction, reduction)
    axis = arrays.get("axis", attributes.get("axis", 0))
    if np.size(axis) != 1:
        raise CannotExpressError("takes one axis")
    return Call(
        function=function,
        data=arrays["data"],
        indices=arrays["indices"],
        updates=arrays.get("updates"),
        axis=int(np.reshape(axis, ())),
        batch_dims=int(attributes.get("batch_dims", 0)),
        reduction=reduction,
        mode=attributes.get("mode", "raise"),
        other=frozenset(attributes) - {"axis", "batch_dims", "reduction", "mode"},
    )
