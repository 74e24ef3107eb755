"""Which coordinates of an axis are drawn: all of a short one, else its ends and those asked for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def chosen(
    size: int, most: int, wanted: Iterable[int] = (), with_ends: bool = True
) -> tuple[int, ...]:
    """Return at most so many coordinates of an axis, in order.

    Of a longer axis they are its first and its last if asked for, those wanted, the first of these
    before the others, and then those at its beginning.
    """
    if size <= most:
        return tuple(range(size))
    found = dict.fromkeys((0, size - 1)[:most] if with_ends else ())
    for each in (*dict.fromkeys(wanted), *range(most)):
        if len(found) >= most:
            break
        if 0 <= each < size:
            found[each] = None
    return tuple(sorted(found))


def within(
    shape: Sequence[int], most: int, wanted: Sequence[Iterable[int]] = ()
) -> tuple[tuple[int, ...], ...]:
    """Return coordinates along each axis of a shape, those wanted of it first.

    No more than `most` places have them.
    """
    limits = [min(size, most) for size in shape]
    while math.prod(limits) > most and max(limits, default=0) > 1:
        limits[limits.index(max(limits))] -= 1
    wanted = wanted or [()] * len(limits)
    return tuple(map(chosen, shape, limits, wanted))


def with_gaps(coordinates: Sequence[int], size: int) -> tuple[int | None, ...]:
    """Return coordinates with None wherever some are left out between two of them, or at an end."""
    found: list[int | None] = []
    before = -1
    for each in (*coordinates, size):
        if each > before + 1 and size:
            found.append(None)
        if each < size:
            found.append(each)
        before = each
    return tuple(found)
