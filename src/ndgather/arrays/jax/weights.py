"""By what changes of data and of updates count in a product, a minimum or a maximum.

Every element of such a scatter changes by ``of_data * d(data) + sum(of_updates * d(update))``.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from ndgather.arrays.jax.primitives import gather, scatter
from ndgather.errors import jax_errors

if TYPE_CHECKING:
    from ndgather.arrays.jax.operation import Operation


def weights(
    data: jax.Array, indices: jax.Array, updates: jax.Array, result: jax.Array, op: Operation
) -> tuple[jax.Array, jax.Array]:
    """Return ``of_data`` and ``of_updates``; of those that axes of vmap repeat, all of them."""
    back = replace(op, kind=op.kind.replace("scatter", "gather"), reduction="none")
    if op.reduction == "mul":
        of_data = scatter(jnp.ones_like(data), indices, updates, op)
        return of_data, _others(data, indices, updates, back) * gather(data, indices, back)
    # Those that are equal to the result share its change.
    hits = (updates == gather(result, indices, back)).astype(data.dtype)
    kept = (data == result).astype(data.dtype)
    share = 1 / jnp.maximum(scatter(kept, indices, hits, replace(op, reduction="add")), 1)
    return kept * share, hits * gather(share, indices, back)


def _others(data: jax.Array, indices: jax.Array, updates: jax.Array, back: Operation) -> jax.Array:
    """Return, for each update, the product of the other updates of its element.

    Updates are sorted by their elements, and products are made from both ends of each run. Nothing
    is divided, so that zeros are factors like all others, and the result can be differentiated.
    """
    wide = jax.dtypes.canonicalize_dtype(np.int64)
    sizes = (*data.shape, *indices.shape)
    if not all(isinstance(n, int) for n in sizes) or prod(data.shape) > np.iinfo(wide).max:
        raise jax_errors.not_numbered(back.caller, data.shape, indices.shape)
    nowhere = np.full((), -1, wide).tobytes() if back.mode == "fill" else b""
    numbers = jnp.arange(data.size, dtype=wide).reshape(data.shape)
    numbers = gather(numbers, indices, replace(back, fill=nowhere))
    shape = numbers.shape
    order = jnp.argsort(numbers.reshape(-1), stable=True)
    rows = numbers.reshape(-1)[order]
    factors = jnp.broadcast_to(updates, shape).reshape(-1)[order]
    others = _before(factors, rows) * _before(factors[::-1], rows[::-1])[::-1]
    return jnp.zeros_like(others).at[order].set(others, unique_indices=True).reshape(shape)


def _before(factors: jax.Array, rows: jax.Array) -> jax.Array:
    """Return the product of the factors before each one in its run of equal rows."""
    begins = jnp.concatenate([jnp.ones_like(rows[:1], bool), rows[1:] != rows[:-1]])

    def joined(left: tuple[jax.Array, ...], right: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        return jnp.where(right[1], right[0], left[0] * right[0]), left[1] | right[1]

    products, _ = jax.lax.associative_scan(joined, (factors, begins)) if rows.size else (factors, 0)
    ones = jnp.ones_like(factors[:1])
    return jnp.where(begins, 1, jnp.concatenate([ones, products[:-1]]))
