"""Copies of arrays in the layouts that NumPy knows: orders of axes, strides, alignment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndgather.testing import moves_as_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Array = NDArray[Any]


def strided(values: Array, axes: Sequence[int], steps: Sequence[int], offset: int = 0) -> Array:
    """Return a copy whose memory has `axes` in this order, and a stride of `steps` elements.

    `offset` is the number of bytes before the first element, for arrays that are not aligned.
    """
    room = [abs(step) * size for step, size in zip(steps, values.shape, strict=True)]
    room = [room[axis] for axis in axes]
    if moves_as_bytes(values.dtype):
        width = values.dtype.itemsize
        memory = np.full(offset + width * int(np.prod(room, dtype=int)) + 1, 0xA5, np.uint8)
        whole: Array = np.ndarray(room, values.dtype, memory.data, offset)
    else:
        whole = np.empty(room, values.dtype)
    skips: tuple[Any, ...] = (*(slice(None, None, step) for step in steps), ...)
    view: Array = whole.transpose(np.argsort(axes))[skips]
    if moves_as_bytes(values.dtype):
        as_bytes = f"V{values.dtype.itemsize}"
        view.view(as_bytes)[...] = values.view(as_bytes)
    else:
        view[...] = values
    return view


def _with_step(values: Array, step: int = 1, offset: int = 0) -> Array:
    return strided(values, range(values.ndim), [step] * values.ndim, offset)


def _read_only(values: Array) -> Array:
    array = _with_step(values)
    array.flags.writeable = False
    return array


def _repeated(values: Array, first: Array) -> Array:
    return np.broadcast_to(_with_step(first), values.shape)


#: Functions that copy an array to another layout in memory, by the name of the layout.
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "C": _with_step,
    "F": lambda values: strided(values, range(values.ndim)[::-1], [1] * values.ndim),
    "negative strides": lambda values: _with_step(values, -1),
    "every second": lambda values: _with_step(values, 2),
    "unaligned": lambda values: _with_step(values, offset=1),
    "read-only": _read_only,
    "stride 0, first axis": lambda values: _repeated(values, values[:1] if values.ndim else values),
    "stride 0, last axis": lambda values: _repeated(
        values, values[..., :1] if values.ndim else values
    ),
}
