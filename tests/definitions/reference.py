"""The definitions as plain loops: the reference for the tests.

The functions are slow and do not use the package. Each implements the defining equation of its
operator, one position at a time, with Python integers. Arguments must be valid except for indices,
which are checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = NDArray[Any]
Mode = Literal["raise", "wrap", "clip", "fill", "drop"]
WindowMode = Literal["raise", "clip", "fill", "wrap", "edge", "reflect"]
Reduction = Literal["none", "add", "sub", "mul", "min", "max", "mean"]


def resolve(value: int, size: int, mode: Mode) -> int | None:
    """Return the position on an axis of `size` that `value` selects, or None to fill or drop it.

    Raises
    ------
    IndexError
        If the value is out of bounds and `mode` is "raise".
    """
    if mode == "wrap" and size:
        return value % size
    if mode == "clip" and size:
        return min(max(value, 0), size - 1)
    if -size <= value < size:
        return value + size if value < 0 else value
    if mode in ("fill", "drop"):
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
        position = [
            resolve(int(value), size, mode) for value, size in zip(indices[p], sizes, strict=True)
        ]
        out[p] = fill_value if None in position else data[(*p[:batch_dims], *position)]
    return out


def gather_elements(
    data: Array, indices: Array, axis: int = 0, mode: Mode = "raise", fill_value: Any = 0
) -> Array:
    """``out[p] = data[p with p[axis] replaced by indices[p]]`` for every `p`."""
    axis %= data.ndim
    out = np.empty(indices.shape, data.dtype)
    for p in np.ndindex(indices.shape):
        position = resolve(int(indices[p]), data.shape[axis], mode)
        out[p] = fill_value if position is None else data[(*p[:axis], position, *p[axis + 1 :])]
    return out


def gather(
    data: Array,
    indices: Array,
    axis: int = 0,
    batch_dims: int = 0,
    mode: Mode = "raise",
    fill_value: Any = 0,
) -> Array:
    """``out[o, p, s] = data[o, indices[o[:b], p], s]``: whole slices along an axis."""
    axis %= data.ndim
    batch_dims %= max(indices.ndim, 1) if batch_dims < 0 else batch_dims + 1
    outer, inner = data.shape[:axis], data.shape[axis + 1 :]
    out = np.empty(outer + indices.shape[batch_dims:] + inner, data.dtype)
    for o in np.ndindex(outer):
        for p in np.ndindex(indices.shape[batch_dims:]):
            value = int(indices[(*o[:batch_dims], *p)])
            position = resolve(value, data.shape[axis], mode)
            out[(*o, *p)] = fill_value if position is None else data[(*o, position)]
    return out


def gather_windows(
    data: Array,
    starts: Array,
    window_shape: tuple[int, ...],
    mode: WindowMode | Sequence[WindowMode] = "raise",
    fill_value: Any = 0,
) -> Array:
    """``out[(*p, *w, *s)] = data[(*(starts[p] + w), *s)]``, element by element.

    `mode` applies to all axes of a window, or is a sequence with a mode for each axis.

    Raises
    ------
    IndexError
        If a window extends past the bounds of data and `mode` does not allow it.
    """
    modes = [mode] * len(window_shape) if isinstance(mode, str) else list(mode)
    rest = data.shape[len(window_shape) :]
    out = np.full((*starts.shape[:-1], *window_shape, *rest), fill_value, data.dtype)
    for p in np.ndindex(starts.shape[:-1]):
        start = [int(value) for value in starts[p]]
        for axis, (size, wide) in enumerate(zip(data.shape, window_shape, strict=False)):
            if modes[axis] == "clip":
                start[axis] = min(max(start[axis], 0), size - wide)
            if modes[axis] == "raise" and not 0 <= start[axis] <= size - wide:
                raise IndexError(start)
        for w in np.ndindex(window_shape):
            position = tuple(
                _padded(start[axis] + step, data.shape[axis], modes[axis])
                for axis, step in enumerate(w)
            )
            if all(0 <= at < size for at, size in zip(position, data.shape, strict=False)):
                out[(*p, *w)] = data[position]
    return out


def _padded(position: int, size: int, mode: str) -> int:
    """Return the position on an axis that padding in `mode` repeats at `position`."""
    if mode == "wrap":
        return position % size
    if mode == "edge":
        return min(max(position, 0), size - 1)
    if mode == "reflect":
        there_and_back = max(2 * (size - 1), 1)
        position %= there_and_back
        return min(position, there_and_back - position) if size > 1 else 0
    return position


def gather_ranges(
    data: Array,
    starts: Array,
    stops: Array,
    axis: int = 0,
    mode: Mode = "raise",
    fill_value: Any = 0,
) -> tuple[Array, Array]:
    """``values[offsets[i] + n] = data[starts[i] + n]`` along an axis, position by position.

    Raises
    ------
    IndexError
        If a position is out of bounds and `mode` is "raise".
    """
    lead: tuple[Any, ...] = (slice(None),) * (axis % data.ndim)
    size = data.shape[axis]
    slices, offsets = [], [0]
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        for value in range(start, stop):
            position: int | None = value
            if mode in ("wrap", "clip"):
                position = resolve(value, size, mode)
            elif not 0 <= value < size:
                if mode == "raise":
                    raise IndexError(value)
                position = None
            slices.append(position)
        offsets.append(len(slices))
    shape = list(data.shape)
    shape[axis] = len(slices)
    values = np.full(shape, fill_value, data.dtype)
    for n, position in enumerate(slices):
        if position is not None:
            values[(*lead, n)] = data[(*lead, position)]
    return values, np.array(offsets, np.int64)


def combine(reduction: Reduction, old: Array, update: Array) -> Array:
    """Return ``f(old, update)`` for arrays of a dtype, with every element rounded to that dtype."""
    with np.errstate(all="ignore"):
        if reduction == "none":
            return update
        if reduction in ("min", "max"):
            wins = update < old if reduction == "min" else update > old
            # Only NaN differs from itself.
            return np.where((old == old) & (wins | (update != update)), update, old)  # noqa: PLR0124
        if reduction == "sub":
            return np.logical_xor(old, update) if old.dtype == bool else np.subtract(old, update)
        if reduction == "mul" and old.dtype.kind == "c":
            result = np.empty(np.shape(update), old.dtype)
            result.real = old.real * update.real - old.imag * update.imag
            result.imag = old.real * update.imag + old.imag * update.real
            return result
        if reduction in ("add", "mul"):
            return np.multiply(old, update) if reduction == "mul" else np.add(old, update)
    raise AssertionError(f"reduction {reduction!r} is not defined here")


def identity(reduction: Reduction, dtype: np.dtype[Any]) -> Any:
    """Return the identity of a reduction as a Python number."""
    if reduction not in ("min", "max"):
        return {"add": 0, "sub": 0, "mul": 1, "mean": 0}[reduction]
    if dtype.kind == "b":
        return reduction == "min"
    if dtype.kind in "iu":
        return np.iinfo(dtype).max if reduction == "min" else np.iinfo(dtype).min
    if dtype.kind == "V" and dtype.itemsize == 1:
        every = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float64).tolist()
        numbers = [value for value in every if value == value]  # noqa: PLR0124 - no NaN
        return max(numbers) if reduction == "min" else min(numbers)
    return np.inf if reduction == "min" else -np.inf


def mean(total: Any, count: int, dtype: np.dtype[Any]) -> Any:
    """Return ``total / count``, in Python numbers if possible; integers are rounded down."""
    if dtype.kind in "iu" or dtype.name.startswith(("int", "uint")):
        return int(total) // count
    if dtype.char == "g":
        return total / np.longdouble(count)
    if dtype.kind == "c":
        parts = np.zeros((), dtype)
        parts.real = mean(total.real, count, parts.real.dtype)
        parts.imag = mean(total.imag, count, parts.imag.dtype)
        return parts[()]
    return float(total) / count


def scatter(
    data: Array,
    named: Sequence[tuple[tuple[Any, ...], Array]],
    reduction: Reduction,
    use_init_val: bool,
) -> Array:
    """Apply updates one by one, each to the slice at its target."""
    out = data.copy()
    counts = np.zeros(data.shape, int)
    for position, update in named:
        starts = not use_init_val and reduction in ("add", "mean") and not np.any(counts[position])
        if starts and data.dtype.name == "float8_e8m0fnu":  # it has no 0 to start a sum from
            out[position] = update
            counts[position] += 1
            continue
        if not use_init_val and reduction != "none":
            out[position] = np.where(
                counts[position],
                out[position],
                np.array(identity(reduction, data.dtype)).astype(out.dtype),
            )
        counts[position] += 1
        out[position] = combine("add" if reduction == "mean" else reduction, out[position], update)
    if reduction == "mean":
        for position in np.ndindex(data.shape):
            if counts[position]:
                with np.errstate(all="ignore"):
                    quotient = mean(out[position], int(counts[position]) + use_init_val, data.dtype)
                    out[position] = np.array(quotient).astype(data.dtype)
    return out


def scatter_nd(
    data: Array,
    indices: Array,
    updates: Array,
    reduction: Reduction = "none",
    mode: Mode = "raise",
    use_init_val: bool = True,
) -> Array:
    """``out[indices[p]] = f(out[indices[p]], updates[p])`` for every `p`, in C order."""
    named = []
    for p in np.ndindex(indices.shape[:-1]):
        position = [
            resolve(int(value), size, mode)
            for value, size in zip(indices[p], data.shape, strict=False)
        ]
        if None not in position:
            named.append((tuple(position), updates[p]))
    return scatter(data, named, reduction, use_init_val)


def scatter_elements(
    data: Array,
    indices: Array,
    updates: Array,
    axis: int = 0,
    reduction: Reduction = "none",
    mode: Mode = "raise",
    use_init_val: bool = True,
) -> Array:
    """``out[q] = f(out[q], updates[p])``, where `q` is `p` with ``q[axis] = indices[p]``."""
    axis %= data.ndim
    named = []
    for p in np.ndindex(indices.shape):
        position = resolve(int(indices[p]), data.shape[axis], mode)
        if position is not None:
            named.append(((*p[:axis], position, *p[axis + 1 :]), updates[p]))
    return scatter(data, named, reduction, use_init_val)
