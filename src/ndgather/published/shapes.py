"""Sizes and axes that may be unknown, with equalities and bounds between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ndgather.published.schema import Dim, Shape, first_sizes

LARGEST_RANK = 64
"""The maximum rank of an array, which protects against models that declare a huge rank."""


class Unknown:
    """A size without a value or a name, which equals only itself."""

    __slots__ = ()


Size: TypeAlias = int | str | Unknown


class Sizes:
    """A union-find structure over the sizes of a call, with bounds.

    Equal sizes are represented by a number if one is known, and otherwise by a name if possible.
    """

    def __init__(self) -> None:
        self._parents: dict[Size, Size] = {}
        self._bounds: dict[Size, tuple[int, int | None]] = {}
        self.steps = 0  # counts changes, to detect a fixed point

    def copy(self) -> Sizes:
        copied = Sizes()
        copied._parents, copied._bounds = dict(self._parents), dict(self._bounds)
        copied.steps = self.steps
        return copied

    def find(self, size: Size) -> Size:
        while size in self._parents:
            size = self._parents[size]
        return size

    def value(self, size: Size) -> int | None:
        known = self.find(size)
        return known if isinstance(known, int) else None

    def bounds(self, size: Size) -> tuple[int, int | None]:
        """Return the minimum and maximum of `size`, where a maximum of None means unlimited."""
        known = self.find(size)
        return (known, known) if isinstance(known, int) else self._bounds.get(known, (0, None))

    def bound(self, size: Size, least: int, most: int | None = None) -> bool:
        """Restrict `size` to an interval and return whether that is possible."""
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
        """Make two sizes equal and return whether that is possible."""
        first, second = self.find(first), self.find(second)
        if first == second:
            return True
        if isinstance(first, int) or (isinstance(first, str) and isinstance(second, Unknown)):
            first, second = second, first
        if isinstance(first, int):
            return False
        least, most = self.bounds(first)
        self._parents[first] = second
        self.steps += 1
        return self.bound(second, least, most)

    def dim(self, size: Size) -> Dim:
        """Return the value or name to display for `size`, or None if it has neither."""
        known = self.find(size)
        if isinstance(known, int):
            return known
        if isinstance(size, str):
            return size
        return known if isinstance(known, str) else None


@dataclass(slots=True)
class Axes:
    """All axes of a tensor or, if `exact` is false, its leading axes."""

    sizes: list[Size]
    exact: bool = True

    @classmethod
    def of(cls, shape: Shape) -> Axes:
        sizes = [Unknown() if dim is None else dim for dim in first_sizes(shape)]
        return cls(sizes, isinstance(shape, tuple))

    @property
    def rank(self) -> int:
        return len(self.sizes)

    def reaches(self, rank: int) -> bool:
        """Append axes if the rank is unknown, and return whether there are at least `rank` axes."""
        if not self.exact:
            self.sizes += [Unknown() for _ in range(min(rank, LARGEST_RANK) - self.rank)]
        return self.rank >= rank

    def is_of(self, rank: int) -> bool:
        """Append axes if the rank is unknown, and return whether there are exactly `rank` axes."""
        fits = self.reaches(rank) and self.rank == rank
        self.exact = self.exact or fits
        return fits

    def is_as_long_as(self, other: Axes) -> bool:
        """Append axes if a rank is unknown, and return whether the two ranks can be equal."""
        rank = max(self.rank, other.rank)
        if self.exact or other.exact:
            return self.is_of(rank) and other.is_of(rank)
        return self.reaches(rank) and other.reaches(rank)
