"""Sizes that may be known, named or unknown, and which of them are equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ndgather.published.tensor_types import Dim, RankAtLeast, Shape


class Unknown:
    """A size that is neither known nor named; equal to itself only."""

    __slots__ = ()


Size: TypeAlias = int | str | Unknown


class Sizes:
    """What is known of the sizes of a call: which are equal, and between which bounds.

    A known size stands for its names, and a name for what is unknown.
    """

    def __init__(self) -> None:
        self._found: dict[Size, Size] = {}
        self._bounds: dict[Size, tuple[int, int | None]] = {}
        self.steps = 0  # how many facts were added

    def copy(self) -> Sizes:
        copied = Sizes()
        copied._found, copied._bounds = dict(self._found), dict(self._bounds)
        copied.steps = self.steps
        return copied

    def find(self, size: Size) -> Size:
        while size in self._found:
            size = self._found[size]
        return size

    def value(self, size: Size) -> int | None:
        found = self.find(size)
        return found if isinstance(found, int) else None

    def bounds(self, size: Size) -> tuple[int, int | None]:
        """Return the bounds of `size`; None stands for no upper bound."""
        found = self.find(size)
        return (found, found) if isinstance(found, int) else self._bounds.get(found, (0, None))

    def bound(self, size: Size, least: int, most: int | None = None) -> bool:
        """Hold `size` between bounds, and return whether it can be."""
        before = self.bounds(size)
        highs = [high for high in (before[1], most) if high is not None]
        low, high = max(before[0], least), min(highs, default=None)
        if (low, high) == before:
            return True
        if high is not None and low > high:
            return False
        if low == high:
            return self.equate(size, low)
        self._bounds[self.find(size)] = (low, high)
        self.steps += 1
        return True

    def equate(self, first: Size, second: Size) -> bool:
        """Make two sizes one, and return whether they can be."""
        first, second = self.find(first), self.find(second)
        if first == second:
            return True
        if isinstance(first, int) or (isinstance(first, str) and isinstance(second, Unknown)):
            first, second = second, first
        if isinstance(first, int):
            return False
        least, most = self.bounds(first)
        self._found[first] = second
        self.steps += 1
        return self.bound(second, least, most)

    def dim(self, size: Size) -> Dim:
        """Return `size` as a shape shows it: its value, or its own name, or another's."""
        found = self.find(size)
        if isinstance(found, int):
            return found
        if isinstance(size, str):
            return size
        return found if isinstance(found, str) else None


LARGEST_RANK = 64
"""The most axes that an array can have. A model that declares more could use up the memory."""


@dataclass(slots=True)
class Axes:
    """The axes of one tensor: all of them, or (`exact` is false) the first ones."""

    sizes: list[Size]
    exact: bool = True

    @classmethod
    def of(cls, shape: Shape) -> Axes:
        dims = () if shape is None else shape.first if isinstance(shape, RankAtLeast) else shape
        exact = isinstance(shape, tuple)
        return cls([Unknown() if dim is None else dim for dim in dims], exact)

    @property
    def rank(self) -> int:
        return len(self.sizes)

    def copy(self) -> Axes:
        return Axes(list(self.sizes), self.exact)

    def reaches(self, rank: int) -> bool:
        """Return whether there are `rank` axes or more, adding unknown ones where they may be."""
        if not self.exact:
            self.sizes += [Unknown() for _ in range(min(rank, LARGEST_RANK) - self.rank)]
        return self.rank >= rank

    def is_of(self, rank: int) -> bool:
        """Return whether there are just `rank` axes, adding unknown ones where they may be."""
        fits = self.reaches(rank) and self.rank == rank
        self.exact = self.exact or fits
        return fits

    def is_as_long_as(self, other: Axes) -> bool:
        """Return whether both have the same rank, adding unknown axes where they may be."""
        rank = max(self.rank, other.rank)
        if self.exact or other.exact:
            return self.is_of(rank) and other.is_of(rank)
        return self.reaches(rank) and other.reaches(rank)
