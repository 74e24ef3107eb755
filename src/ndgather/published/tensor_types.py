"""Types and shapes of tensors, where sizes may be known, named or unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Dim: TypeAlias = int | str | None
"""The size of an axis: known, known by a name, or unknown."""


@dataclass(frozen=True, slots=True)
class RankAtLeast:
    """A shape of which only the first sizes are given; more axes may follow.

    Parameters
    ----------
    first : tuple of int, str or None
        The first sizes: numbers, names, or None where a size is unknown.

    Examples
    --------
    >>> import ndgather
    >>> some = ndgather.RankAtLeast(("N",))
    >>> ndgather.operator("Gather").infer_shape(some, (3,), axis=0)
    RankAtLeast(first=(3,))
    """

    first: tuple[Dim, ...]


Shape: TypeAlias = tuple[Dim, ...] | RankAtLeast | None
"""A shape: every size, the first sizes, or (None) not even the rank."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """The element type and the shape of a tensor; None stands for what is unknown.

    Parameters
    ----------
    dtype : str, optional
        The name of the element type as NumPy and ml_dtypes have it, or ``"string"``.
    shape : tuple of int, str or None; or RankAtLeast, optional
        The sizes: numbers, names, or None where a size is unknown.

    Examples
    --------
    >>> import ndgather
    >>> ndgather.TensorType("float32", ("N", 3, None))
    TensorType(dtype='float32', shape=('N', 3, None))
    """

    dtype: str | None = None
    shape: Shape = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Equality:
    """The name of a size, and the number or the other name that it must equal."""

    name: str
    equals: int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    """What follows from the types and shapes of the inputs of one call.

    Attributes
    ----------
    outputs : tuple of TensorType
        The types of the outputs.
    inputs : tuple of TensorType
        The types of the inputs, with the sizes and ranks that follow from the call.
    equalities : tuple of Equality
        The names of sizes that the call forces to be equal to a number or to another name.
    depth : int or None
        The length of an index tuple, if there are tuples and only one length fits.
    """

    outputs: tuple[TensorType, ...]
    inputs: tuple[TensorType, ...]
    equalities: tuple[Equality, ...] = ()
    depth: int | None = None
