"""The definitions as plain loops: the oracle of the tests.

Nothing here is fast, and nothing here calls the engine. Each function is the defining
equation of its operator, read one position at a time with Python integers. Callers pass
arguments that fit; the functions check index values and nothing else.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Mode = Literal["raise", "wrap", "clip", "fill"]


def resolve(value: int, size: int, mode: Mode) -> int | None:
    """Return the place on an axis of `size` that `value` names, or None for "fill it".

    Raises
    ------
    IndexError
        The value names no place, and `mode` gives it none.
    """
    if mode == "wrap" and size:
        return value % size
    if mode == "clip" and size:
        return min(max(value, 0), size - 1)
    if -size <= value < size:
        return value + size if value < 0 else value
    if mode == "fill":
        return None
    raise IndexError(value)


def gather_nd(
    data: Array, indices: Array, batch_dims: int = 0, mode: Mode = "raise", fill_value: Any = 0
) -> Array:
    """``out[p] = data[(*p[:b], *indices[p])]`` for every `p` in ``indices.shape[:-1]``."""
    depth = indices.shape[-1]
    out = np.empty(indices.shape[:-1] + data.shape[batch_dims + depth :], data.dtype)
    for p in np.ndindex(indices.shape[:-1]):
        sizes = data.shape[batch_dims : batch_dims + depth]
        place = [
            resolve(int(value), size, mode) for value, size in zip(indices[p], sizes, strict=True)
        ]
        out[p] = fill_value if None in place else data[(*p[:batch_dims], *place)]
    return out


def gather_elements(
    data: Array, indices: Array, axis: int = 0, mode: Mode = "raise", fill_value: Any = 0
) -> Array:
    """``out[p] = data[p with p[axis] replaced by indices[p]]`` for every `p`."""
    axis %= data.ndim
    out = np.empty(indices.shape, data.dtype)
    for p in np.ndindex(indices.shape):
        place = resolve(int(indices[p]), data.shape[axis], mode)
        out[p] = fill_value if place is None else data[(*p[:axis], place, *p[axis + 1 :])]
    return out


def gather(
    data: Array,
    indices: Array,
    axis: int = 0,
    batch_dims: int = 0,
    mode: Mode = "raise",
    fill_value: Any = 0,
) -> Array:
    """``out[o, p, s] = data[o, indices[o[:b], p], s]``: whole slices along one axis."""
    axis %= data.ndim
    batch_dims %= max(indices.ndim, 1) if batch_dims < 0 else batch_dims + 1
    outer, inner = data.shape[:axis], data.shape[axis + 1 :]
    out = np.empty(outer + indices.shape[batch_dims:] + inner, data.dtype)
    for o in np.ndindex(outer):
        for p in np.ndindex(indices.shape[batch_dims:]):
            value = int(indices[(*o[:batch_dims], *p)])
            place = resolve(value, data.shape[axis], mode)
            out[(*o, *p)] = fill_value if place is None else data[(*o, place)]
    return out
