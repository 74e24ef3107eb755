"""Types and shapes of tensors, where sizes may be known, named or unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from numpy.typing import NDArray

Dim: TypeAlias = int | str | None
"""The size of an axis: known, known by a name, or unknown."""


@dataclass(frozen=True, slots=True)
class RankAtLeast:
    """A shape whose first sizes are given, and that may go on."""

    first: tuple[Dim, ...]


Shape: TypeAlias = tuple[Dim, ...] | RankAtLeast | None
"""A shape: every size, the first sizes, or (None) not even the rank."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """The type and the shape of a tensor; None stands for what is unknown."""

    dtype: str | None = None
    shape: Shape = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Equality:
    """A name, and the size or the other name that it must equal."""

    name: str
    equals: int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    """What follows from the types and shapes of the inputs of one call.

    `inputs` are the inputs again, with what was learnt about them: sizes merged, ranks
    found. `depth` is the length of an index tuple, where there are tuples and one length
    fits. `equalities` are the names that the call forces to be equal.
    """

    outputs: tuple[TensorType, ...]
    inputs: tuple[TensorType, ...]
    equalities: tuple[Equality, ...] = ()
    depth: int | None = None


def dtype_name(array: NDArray[Any]) -> str:
    """Return the name that the specifications' rows have for the type of `array`."""
    kind = array.dtype.kind
    if kind in "UST" or (
        kind == "O" and all(isinstance(each, (str, bytes)) for each in array.flat)
    ):
        return "string"
    return array.dtype.name
