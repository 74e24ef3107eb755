"""What is taken from an array by points: one entry of a key for each axis.

An entry is a slice, or an array of positions; all arrays of a key are broadcast against each
other. The result has the axes of the arrays first and then those of the slices, in their order,
as the `vindex` of xarray.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Positions: TypeAlias = "NDArray[np.int64]"
Key: TypeAlias = "tuple[slice | Positions, ...]"


def of_outer(key: Sequence[Any]) -> Key:
    """Return the key of an outer selection: each array along an axis of its own.

    Arrays lead in the result, and so all axes are in the order of the array only where no slice
    stands before an array; `outer_order` says where they belong.
    """
    arrays = [each for each in key if not isinstance(each, slice)]
    made: list[slice | Positions] = []
    rank = sum(np.ndim(each) for each in arrays)
    at = 0
    for each in key:
        if isinstance(each, slice):
            made.append(each)
            continue
        positions = np.asarray(each, np.int64)
        if positions.ndim:
            positions = positions.reshape((1,) * at + (-1,) + (1,) * (rank - at - 1))
            at += 1
        made.append(positions)
    return tuple(made)


def outer_order(key: Sequence[Any]) -> list[int]:
    """Return where in the result of `of_outer` each axis of the outer selection stands."""
    kept = [each for each in key if isinstance(each, slice) or np.ndim(each)]
    leading = [i for i, each in enumerate(kept) if not isinstance(each, slice)]
    behind = [i for i, each in enumerate(kept) if isinstance(each, slice)]
    return [int(i) for i in np.argsort(leading + behind)]


def points_shape(key: Key) -> tuple[int, ...]:
    return np.broadcast_shapes(*(each.shape for each in key if not isinstance(each, slice)))


def result_shape(key: Key, shape: Sequence[int]) -> tuple[int, ...]:
    sliced = (
        len(range(*each.indices(size)))
        for each, size in zip(key, shape, strict=True)
        if isinstance(each, slice)
    )
    return (*points_shape(key), *sliced)


def is_whole(each: slice | Positions, size: int) -> bool:
    return isinstance(each, slice) and each.indices(size) == (0, size, 1)


def without_parts(key: Key, shape: Sequence[int]) -> Key:
    """Return a key with the same result whose slices are whole axes.

    Where one is not, all slices become arrays of positions.
    """
    if all(
        not isinstance(k, slice) or is_whole(k, size) for k, size in zip(key, shape, strict=True)
    ):
        return key
    return _as_arrays(key, shape)


def behind(first: Sequence[Any], key: Key, shape: Sequence[int]) -> Key:
    """Return the key that takes from an array what `key` takes from the selection `first` of it.

    `first` has a number, a slice or a 1-d array of positions for each axis of an array of this
    shape; `key` has an entry for each axis that is left.
    """
    left = [
        (each, size)
        for each, size in zip(first, shape, strict=True)
        if np.ndim(each) or isinstance(each, slice)
    ]
    if any(
        isinstance(k, slice) and not isinstance(each, slice)
        for k, (each, _) in zip(key, left, strict=True)
    ):
        sizes = [
            len(range(*each.indices(size))) if isinstance(each, slice) else len(each)
            for each, size in left
        ]
        key = _as_arrays(key, sizes)
    entries = iter(key)
    made: list[slice | Positions] = []
    for each, size in zip(first, shape, strict=True):
        if isinstance(each, slice):
            made.append(_compose(each, next(entries), size))
        elif np.ndim(each):
            made.append(np.asarray(each, np.int64)[next(entries)])
        else:
            made.append(np.asarray(each, np.int64))
    return tuple(made)


def _as_arrays(key: Key, shape: Sequence[int]) -> Key:
    count = sum(isinstance(each, slice) for each in key)
    made: list[Positions] = []
    at = 0
    for each, size in zip(key, shape, strict=True):
        if isinstance(each, slice):
            along = np.arange(*each.indices(size))
            made.append(along.reshape((-1,) + (1,) * (count - at - 1)))
            at += 1
        else:
            made.append(each.reshape(each.shape + (1,) * count))
    return tuple(made)


def _compose(first: slice, then: slice | Positions, size: int) -> slice | Positions:
    steps = range(*first.indices(size))
    if not isinstance(then, slice):
        return steps.start + steps.step * then
    chosen = steps[then]
    stop = None if chosen.stop < 0 else chosen.stop
    return slice(chosen.start, stop, chosen.step)
