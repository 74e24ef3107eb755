"""Gathers and scatters made of XLA's own: for GPUs and TPUs.

No index value can raise there. Under mode raise, a slice that a bad value names is filled with
what JAX fills with (NaN, or the least or greatest integer), and such an update is dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import jax

    from ndgather.arrays.jax.operation import Operation

_METHODS = {"none": "set", "add": "add", "sub": "add", "mul": "mul", "min": "min", "max": "max"}


def gather(data: jax.Array, indices: jax.Array, *, op: Operation) -> jax.Array:
    if op.window:
        indices = expanded(indices, op, data.shape)
    filled = np.frombuffer(op.fill, data.dtype)[0] if op.fill else np.zeros((), data.dtype)
    if data.size == 0:
        return jnp.full(op.slices_shape(data.shape, indices.shape), filled)
    data, key = _indexed(data, indices, op)
    return data.at[key].get(mode="fill", fill_value=None if op.mode == "raise" else filled)


def scatter(
    data: jax.Array, indices: jax.Array, updates: jax.Array, *_: jax.Array, op: Operation
) -> jax.Array:
    shape = data.shape
    if data.size == 0 or updates.size == 0:
        return data
    data, key = _indexed(data, indices, op)
    if data.dtype == bool and op.reduction != "none":
        return _reduce_booleans(data, key, updates, op.reduction).reshape(shape)
    updates = -updates if op.reduction == "sub" else updates
    method = getattr(data.at[key], _METHODS[op.reduction])
    result: jax.Array = method(updates, mode="drop").reshape(shape)
    return result


def _reduce_booleans(data: Any, key: Any, updates: Any, reduction: str) -> Any:
    """Or, exclusive or, and."""
    counts, bits = data.astype(jnp.int32).at[key], updates.astype(jnp.int32)
    if reduction == "sub":
        return counts.add(bits, mode="drop") % 2 != 0
    method = counts.max if reduction in ("add", "max") else counts.min
    return method(bits, mode="drop") != 0


def any_outside(shape: Sequence[int], indices: jax.Array, op: Operation) -> jax.Array:
    """Return whether an entry of indices is outside of its axis."""
    if op.kind.endswith("_nd"):
        columns = [(indices[..., c], op.batch_dims + c) for c in range(indices.shape[-1])]
    else:
        columns = [(indices, op.axis)]
    found = jnp.zeros((), bool)
    for d, (values, axis) in enumerate(columns):
        size = shape[axis] if not op.window else shape[axis] - op.window[d] + 1
        found |= (resolved(values, size, op.mode, negative=op.negative) == size).any()
    return found


def expanded(starts: jax.Array, op: Operation, shape: Sequence[int]) -> jax.Array:
    """Return the index tuples of all positions in the windows at `starts`."""
    first = op.lead
    sizes = shape[first : first + len(op.window)]
    begins = [max(size - wide + 1, 0) for size, wide in zip(sizes, op.window, strict=True)]
    columns = [
        resolved(starts[..., d], begin, op.mode, negative=False, outside=max(sizes))
        for d, begin in enumerate(begins)
    ]
    return positions(jnp.stack(columns, axis=-1), op.window)


def positions(starts: jax.Array, window: tuple[int, ...]) -> jax.Array:
    """Return every position in windows: ``shape (N..., *window, k)``."""
    depth, wide = len(window), jnp.dtype(jnp.int32 if starts.dtype.itemsize <= 4 else jnp.int64)
    if starts.dtype.kind == "u" and starts.dtype.itemsize >= 4:
        starts = jnp.minimum(starts, np.iinfo(wide).max)
    starts = starts.astype(wide)  # so that the end of a window beyond all axes is negative
    within = np.stack([*np.indices(window)], axis=-1).astype(starts.dtype)
    return starts[(..., *(None,) * depth, slice(None))] + within


def resolved(
    values: jax.Array, size: int, mode: str, *, negative: bool, outside: int | None = None
) -> jax.Array:
    """Return index values in ``0..size-1``, or what is outside of the axis."""
    wide = jnp.dtype(jnp.int32 if values.dtype.itemsize <= 4 else jnp.int64)
    if values.dtype.kind == "u" and values.dtype.itemsize >= 4:
        most = np.iinfo(wide).max
        values = values % max(size, 1) if mode == "wrap" else jnp.minimum(values, most)
    values = values.astype(wide)
    outside = size if outside is None else outside
    if mode == "clip":
        inside = jnp.clip(values, 0, size - 1)
    elif mode == "wrap":
        inside = values % max(size, 1)
    else:
        inside = jnp.where(values < 0, values + size, values) if negative else values
        inside = jnp.where((inside < 0) | (inside >= size), outside, inside)
    return inside if size else jnp.full_like(values, outside)


def _indexed(data: jax.Array, indices: jax.Array, op: Operation) -> tuple[jax.Array, Any]:
    """Return data and a key such that ``data[key]`` are the slices; data may get one more axis."""

    def along(axis: int, rank: int, count: int | None = None) -> Any:
        """Return the positions on an axis that the operation does not index."""
        shape = tuple(-1 if d == axis else 1 for d in range(rank))
        size = data.shape[axis] if count is None else count
        return jnp.arange(size, dtype=jnp.int32).reshape(shape)

    def column(values: jax.Array, axis: int) -> jax.Array:
        return resolved(values, data.shape[axis], op.mode, negative=op.negative)

    if op.kind.endswith("_elements"):
        rank, counts = indices.ndim, (*(None,) * op.lead, *indices.shape[op.lead :])
        key = [along(d, rank, counts[d]) for d in range(rank)]
        key[op.axis] = column(indices, op.axis)
        return data, tuple(key)
    if op.kind == "gather" and op.batch_dims == 0:
        return data, (*(slice(None),) * op.axis, column(indices, op.axis))
    if op.kind == "gather":
        b, a = op.batch_dims, op.axis
        rank = a + indices.ndim - b
        values = indices.reshape(*indices.shape[:b], *(1,) * (a - b), *indices.shape[b:])
        return data, (*(along(d, rank) for d in range(a)), column(values, a))
    rank, depth = indices.ndim - 1, indices.shape[-1]
    key = [along(d, rank) for d in range(op.batch_dims)]
    key += [column(indices[..., c], op.batch_dims + c) for c in range(depth)]
    if depth == 0:  # the index tuples name nothing, but there are as many slices
        return data[None], (jnp.zeros(indices.shape[:-1], jnp.int32), *key)
    return data, tuple(key)
