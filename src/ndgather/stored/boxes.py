"""Arrays that are stored in one piece: where to cut them, so that parts are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def box_shape(shape: Sequence[int], item_bytes: int, most_bytes: int = 2**20) -> tuple[int, ...]:
    """Return the shape of boxes whose elements lie together in C order, of bounded size."""
    left = max(1, most_bytes // max(1, item_bytes))
    lengths = []
    for size in reversed(shape):
        lengths.append(max(1, min(size, left)))
        left //= lengths[-1]
    return tuple(reversed(lengths))
