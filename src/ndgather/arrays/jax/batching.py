"""vmap: one more axis. No array is repeated for another, unless it is what a scatter writes to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jax.interpreters import batching

from ndgather.arrays.jax.primitives import gather, gather_p, scatter, scatter_p

if TYPE_CHECKING:
    from collections.abc import Sequence

    import jax

    from ndgather.arrays.jax.operation import Operation


def _in_front(array: Any, dim: int | None) -> jax.Array:
    """Return an array with the axis of vmap in front, of size 1 where it has none."""
    return array[None] if dim is None else jnp.moveaxis(array, dim, 0)


def _batch_gather(
    arrays: Sequence[Any], dims: Sequence[int | None], *, op: Operation
) -> tuple[jax.Array, int]:
    (data, indices), (of_data, of_indices) = arrays, dims
    if op.batch_dims == 0 and of_data is None and not op.kind.endswith("_elements"):
        at = op.axis if op.kind == "gather" else 0
        return gather(data, _in_front(indices, of_indices), op), at
    if op.batch_dims == 0 and of_indices is None and op.kind == "gather":
        wider = replace(op, axis=op.axis + 1, skip=op.skip + 1)
        return gather(_in_front(data, of_data), indices, wider), 0
    data, indices = _in_front(data, of_data), _in_front(indices, of_indices)
    return gather(data, indices, op.batched()), 0


def _batch_scatter(
    arrays: Sequence[Any], dims: Sequence[int | None], *, op: Operation
) -> tuple[jax.Array, int]:
    size = next(a.shape[d] for a, d in zip(arrays, dims, strict=True) if d is not None)
    data, indices, updates = map(_in_front, arrays[:3], dims[:3])
    data = jnp.broadcast_to(data, (size, *data.shape[1:]))
    return scatter(data, indices, updates, op.batched()), 0


batching.primitive_batchers[gather_p] = _batch_gather
batching.primitive_batchers[scatter_p] = _batch_scatter
