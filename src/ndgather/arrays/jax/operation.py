"""One gather or scatter as JAX sees it: everything but the arrays, which XLA has as constants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What is done with data, indices and updates. Axes count from 0, those of vmap included."""

    caller: str  # the name that error texts begin with
    kind: str  # one of _core.KINDS
    axis: int = 0
    batch_dims: int = 0
    mode: str = "raise"  # drop is fill
    reduction: str = "none"
    negative: bool = True  # whether negative index values count from the end
    fill: bytes = b""  # the element for mode fill; none are zeros
    window: tuple[int, ...] = ()  # of a gather_nd whose slices are windows
    lead: int = 0  # so many leading axes are of vmap: an array of size 1 there is repeated
    skip: int = 0  # so many axes of data are none of the caller's
    route: str = "handler"  # who carries it out on a CPU; see routes.py

    @property
    def scatters(self) -> bool:
        return self.kind.startswith("scatter")

    def batched(self) -> Operation:
        """Return the operation on arrays that have one more axis of vmap in front."""
        return replace(
            self,
            axis=self.axis + 1,
            batch_dims=self.batch_dims + 1,
            lead=self.lead + 1,
            skip=self.skip + 1,
        )

    def slices_shape(self, data: Sequence[Any], indices: Sequence[Any]) -> tuple[Any, ...]:
        """Return the shape of the slices that indices name, for shapes that fit."""
        lead = tuple(
            in_data if of_indices == 1 else of_indices
            for in_data, of_indices in zip(data[: self.lead], indices[: self.lead], strict=True)
        )
        if self.kind.endswith("_elements"):
            return (*lead, *indices[self.lead :])
        if self.kind == "gather":
            outer = (*lead, *data[self.lead : self.axis])
            return (*outer, *indices[self.batch_dims :], *data[self.axis + 1 :])
        rest = data[self.batch_dims + indices[-1] :]
        return (*lead, *indices[self.lead : -1], *self.window, *rest)
