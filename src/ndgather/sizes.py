"""Sizes that may be known, named or unknown, and which of them are equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ndgather.spec import Dim, RankAtLeast, Shape

if TYPE_CHECKING:
    from collections.abc import Mapping


class Unknown:
    """A size that is neither known nor named; equal to itself only."""

    __slots__ = ()


Size: TypeAlias = int | str | Unknown


class Sizes:
    """Which sizes of a call are equal. A known size stands for its names, a name for unknowns."""

    def __init__(self, found: Mapping[str | Unknown, Size] | None = None) -> None:
        self._found = dict(found or {})

    def copy(self) -> Sizes:
        return Sizes(self._found)

    @property
    def merges(self) -> int:
        """How many times two sizes were made one."""
        return len(self._found)

    def find(self, size: Size) -> Size:
        while not isinstance(size, int) and size in self._found:
            size = self._found[size]
        return size

    def value(self, size: Size) -> int | None:
        found = self.find(size)
        return found if isinstance(found, int) else None

    def equate(self, first: Size, second: Size) -> bool:
        """Make two sizes one, and return whether they can be."""
        first, second = self.find(first), self.find(second)
        if first is second or first == second:
            return True
        if isinstance(first, int) or (isinstance(first, str) and isinstance(second, Unknown)):
            first, second = second, first
        if isinstance(first, int):
            return False
        self._found[first] = second
        return True

    def dim(self, size: Size) -> Dim:
        """Return `size` as a shape shows it: its value, or its own name, or another's."""
        found = self.find(size)
        if isinstance(found, int):
            return found
        if isinstance(size, str):
            return size
        return found if isinstance(found, str) else None


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
            self.sizes += [Unknown() for _ in range(rank - self.rank)]
        return self.rank >= rank

    def is_of(self, rank: int) -> bool:
        """Return whether there are just `rank` axes, adding unknown ones where they may be."""
        fits = self.reaches(rank) and self.rank == rank
        self.exact = self.exact or fits
        return fits
