"""Arrays that are stored in one piece: where to cut them, so that parts are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_BYTES = 2**20


def box_shape(shape: Sequence[int], item_bytes: int) -> tuple[int, ...]:
    """Return the shape of boxes whose elements lie together in C order, of at most 1 MiB."""
    left = max(1, _MOST_BYTES // max(1, item_bytes))
    lengths = []
    for size in reversed(shape):
        lengths.append(max(1, min(size, left)))
        left //= lengths[-1]
    return tuple(reversed(lengths))
