"""Expected results by NumPy for calls that are too large for the plain loops.

`places` defines a function by arrays: the flat position in data, counted in rows, of each row of
the result or of updates. `expected_by_numpy` copies or combines these rows one by one.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tests.definitions import reference
from tests.definitions.draws import kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.definitions.calls import PublicCall

Array = NDArray[Any]

UFUNCS = {
    "add": np.add,
    "mean": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def resolved(values: Array, size: int, mode: str) -> Array:
    """Return the position on an axis that each index selects, or -1."""
    wide = values.astype(np.uint64 if values.dtype.kind == "u" else np.int64)
    if mode == "wrap":
        return np.mod(wide, size).astype(np.int64)
    if mode == "clip":
        return np.clip(wide, 0, size - 1).astype(np.int64)
    inside = (wide >= -size) & (wide < size)
    kept = np.where(inside, wide, 0).astype(np.int64)
    return np.where(inside, np.where(kept < 0, kept + size, kept), -1)


def _padded(position: Array, size: int, mode: str) -> Array:
    if mode == "wrap":
        return position % size
    if mode in ("edge", "clip"):
        return np.clip(position, 0, size - 1)
    if mode == "reflect":
        position = position % max(2 * (size - 1), 1)
        return np.minimum(position, max(2 * (size - 1), 1) - position) if size > 1 else position * 0
    return np.where((position >= 0) & (position < size), position, -1)


def _flat(coordinates: Sequence[Array], sizes: Sequence[int]) -> Array:
    flat, inside = np.int64(0), np.bool_(True)
    for coordinate, size in zip(coordinates, sizes, strict=True):
        flat, inside = flat * size + coordinate, inside & (coordinate >= 0)
    return np.where(inside, flat, -1)


def _along(values: Array, axis: int, rank: int) -> Array:
    """Return the last axis of `values` as one of several trailing axes."""
    return values.reshape(
        *values.shape[:-1], *[1] * axis, values.shape[-1], *[1] * (rank - axis - 1)
    )


def places(call: PublicCall) -> tuple[Array, tuple[int, ...]]:
    """Return the row of data for each row of the result or of updates, or -1, and the shape."""
    shape, mode = call.data_shape or call.data.shape, call.options.get("mode", "raise")
    kind = call.function.removeprefix("vjp.")
    axis = call.options.get("axis", 0) % max(len(shape), 1)
    batch = call.options.get("batch_dims", 0)
    if kind == "gather_ranges":
        starts, stops = (each.astype(np.int64) for each in call.arrays[1:3])
        offsets = np.cumsum(stops - starts) - (stops - starts)
        taken = np.repeat(starts - offsets, stops - starts) + np.arange(int((stops - starts).sum()))
        if mode in ("wrap", "clip"):
            taken = resolved(taken, shape[axis], mode)
        taken = np.where((taken >= 0) & (taken < shape[axis]), taken, -1)
        lead = np.indices(shape[:axis], sparse=True)
        coordinates = [*(each[..., np.newaxis] for each in lead), taken]
        return _flat(coordinates, shape[: axis + 1]), shape[axis + 1 :]
    indices = call.indices
    if kind == "gather_windows":
        window, depth = call.options["window_shape"], indices.shape[-1]
        modes = [mode] * depth if isinstance(mode, str) else mode
        coordinates = []
        for c in range(depth):
            start = indices[..., c].astype(np.int64)
            if modes[c] == "clip":
                start = np.clip(start, 0, shape[c] - window[c])
            steps = _along(start[..., np.newaxis] + np.arange(window[c]), c, depth)
            coordinates.append(_padded(steps, shape[c], modes[c]))
        flat = _flat(coordinates, shape[:depth])
        return np.broadcast_to(flat, indices.shape[:-1] + window), shape[depth:]
    if kind.endswith("_nd"):
        depth = indices.shape[-1]
        named = [resolved(indices[..., c], shape[batch + c], mode) for c in range(depth)]
        lead = np.indices(indices.shape[:-1], sparse=True)[:batch]
        flat = _flat([*lead, *named], shape[: batch + depth])
        return np.broadcast_to(flat, indices.shape[:-1]), shape[batch + depth :]
    if kind == "gather":
        outer = np.indices(shape[:axis], sparse=True)
        lead = indices.reshape(
            indices.shape[:batch] + (1,) * (axis - batch) + indices.shape[batch:]
        )
        more = (1,) * (indices.ndim - batch)
        coordinates = [*(each.reshape(each.shape + more) for each in outer)]
        coordinates.append(resolved(lead, shape[axis], mode))
        return _flat(coordinates, shape[: axis + 1]), shape[axis + 1 :]
    named = list(np.indices(indices.shape, sparse=True))
    named[axis] = resolved(indices, shape[axis], mode)
    return _flat(named, shape), ()


def in_order(
    data: Array, places: Array, updates: Array, reduction: str, *, use_init_val: bool = True
) -> Array:
    """Return rows of data after applying updates one by one, by NumPy loops in one thread."""
    result = data.copy()
    if reduction == "none":
        last, first_from_behind = np.unique(places[::-1], return_index=True)
        result[last] = updates[::-1][first_from_behind]
        return result
    if not use_init_val:
        result[places] = reference.identity(reduction, data.dtype)  # type: ignore[arg-type]
    ufunc = UFUNCS[reduction]
    if data.dtype == bool and reduction == "sub":
        ufunc = np.logical_xor
    with np.errstate(all="ignore"):
        ufunc.at(result, places, updates)
        if reduction == "mean":
            touched, counts = np.unique(places, return_counts=True)
            counts = (counts + use_init_val).reshape(-1, *[1] * (data.ndim - 1))
            result[touched] = _divided(result[touched], counts)
    if reduction in ("min", "max") and kind_of(data.dtype) == "f":
        _first_zeros(result, data, places, updates, use_init_val)
    return result


def _first_zeros(
    result: Array, data: Array, places: Array, updates: Array, use_init_val: bool
) -> None:
    """Give each 0 the sign of the first 0, because zeros of either sign are equal."""
    updates = updates.reshape(len(places), data[0].size)
    rows, columns = np.nonzero(updates == 0)
    rows, columns = rows[::-1], columns[::-1]  # the first update of a target is assigned last
    negative = np.signbit(data).reshape(len(data), -1)
    first = negative.copy()
    first[places[rows], columns] = np.signbit(updates[rows, columns])
    if use_init_val:
        first = np.where(data.reshape(first.shape) == 0, negative, first)
    zeros = result == 0
    result[zeros] = np.where(first.reshape(result.shape)[zeros], -0.0, 0.0).astype(result.dtype)


def _divided(total: Array, counts: Array) -> Array:
    if kind_of(total.dtype) == "c":
        parts = np.empty_like(total)
        parts.real, parts.imag = _divided(total.real, counts), _divided(total.imag, counts)
        return parts
    if kind_of(total.dtype) == "i":
        wide = total.astype(np.uint64 if total.dtype.kind == "u" else np.int64)
        return (wide // counts.astype(wide.dtype)).astype(total.dtype)
    wide = total.astype(np.longdouble if total.dtype.char == "g" else np.float64)
    return (wide / counts.astype(wide.dtype)).astype(total.dtype)


def expected_by_numpy(call: PublicCall) -> Array:
    """Return the result as a new array in C order; for ranges, their values."""
    where, rest = places(call)
    dtype, as_bytes = call.data.dtype, f"V{call.data.dtype.itemsize}"

    def rows_of(array: Array) -> Array:
        return np.ascontiguousarray(array.view(as_bytes)).reshape(-1, prod(rest)).view(dtype)

    flat, rows = where.reshape(-1), rows_of(call.data)
    kept = flat >= 0
    if call.data_shape is not None:
        zeros = np.zeros((prod(call.data_shape) // prod(rest), prod(rest)), dtype)
        return in_order(zeros, flat[kept], rows[kept], "add").reshape(call.data_shape)
    if call.updates is None:
        made = rows.view(as_bytes)[flat]
        made[~kept] = np.asarray(call.options.get("fill_value", np.zeros((), dtype)), dtype).view(
            as_bytes
        )
        return made.view(dtype).reshape(where.shape + rest)
    updates, reduction = rows_of(call.updates), call.options["reduction"]
    if reduction == "none":
        rows, updates = rows.view(as_bytes), updates.view(as_bytes)
    init = call.options.get("use_init_val", True)
    made = in_order(rows, flat[kept], updates[kept], reduction, use_init_val=init)
    return made.view(dtype).reshape(call.data.shape)
