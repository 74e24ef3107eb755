"""Tangents of the two primitives, and transposes of the linear operations.

A gather is linear in data. A scatter that assigns, adds or subtracts is linear in data and updates,
so its tangent is the same scatter of the tangents. For other reductions, the tangents of data and
updates are multiplied by weights and then added.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad

from ndgather.array_call import Kind, Mode, replace
from ndgather.arrays import lowering
from ndgather.arrays.jax.operation import Operation, under_own_settings
from ndgather.arrays.jax.primitives import elements_of_windows, gather, gather_p, scatter, scatter_p
from ndgather.errors import ShapeError
from ndgather.messages import shown
from ndgather.reductions import ROWS


def weights(
    data: jax.Array, indices: jax.Array, updates: jax.Array, result: jax.Array, op: Operation
) -> tuple[jax.Array, jax.Array]:
    """Return the weights for the tangents of data and updates, with all vmap axes expanded."""
    back = replace(op, kind=op.kind.gather, reduction="none")
    rule = ROWS[op.reduction].derivative
    untouched = jnp.ones_like(data, bool)
    if not op.use_init_val:  # the old values of updated elements are ignored
        none = jnp.zeros_like(updates, bool), replace(op, reduction="none")
        untouched = scatter(untouched, indices, *none)
    if rule == "others":
        ones = untouched.astype(data.dtype)
        of_data = scatter(ones, indices, updates, op) if op.use_init_val else ones
        return of_data, _others(data, indices, updates, back) * gather(data, indices, back)
    # In min and max, all operands that equal the result share the tangent.
    hits = lowering.equal(updates, gather(result, indices, back)).astype(data.dtype)
    kept = (lowering.equal(data, result) & untouched).astype(data.dtype)
    share = 1 / jnp.maximum(scatter(kept, indices, hits, replace(op, reduction="add")), 1)
    return kept * share, hits * gather(share, indices, back)


def _others(data: jax.Array, indices: jax.Array, updates: jax.Array, back: Operation) -> jax.Array:
    """Return for each update the product of all other updates of the same element."""
    wide = jax.dtypes.canonicalize_dtype(np.int64)
    sizes = (*data.shape, *indices.shape)
    if not all(isinstance(n, int) for n in sizes) or prod(data.shape) > np.iinfo(wide).max:
        raise ShapeError(
            f"{back.caller}: the derivative of reduction = 'mul' cannot number the elements of "
            f"data.shape = {shown(data.shape)}, indices.shape = {shown(indices.shape)} (allowed: "
            f"numbers as sizes, and up to 2147483647 elements, or more with "
            f"jax.config.update('jax_enable_x64', True))"
        )
    nowhere = np.full((), -1, wide).tobytes() if back.mode == "fill" else b""
    numbers = jnp.arange(data.size, dtype=wide).reshape(data.shape)
    numbers = gather(numbers, indices, replace(back, fill=nowhere))
    factors = jnp.where(numbers < 0, 1, updates).reshape(-1, 1)  # 1 for dropped updates
    return lowering.products_of_others(jnp, factors, numbers.reshape(-1)).reshape(numbers.shape)


@under_own_settings
def _tangent_of_gather(primals: Sequence[Any], tangents: Sequence[Any], *, op: Operation) -> Any:
    result = gather(primals[0], primals[1], op)
    tangent = tangents[0]
    if type(tangent) is ad.Zero:
        return result, ad.Zero.from_primal_value(result)
    return result, gather(tangent, primals[1], replace(op, fill=b""))


@under_own_settings
def _tangent_of_scatter(primals: Sequence[Any], tangents: Sequence[Any], *, op: Operation) -> Any:
    data, indices, updates = primals[:3]
    result = scatter(data, indices, updates, op)
    if all(type(tangent) is ad.Zero for tangent in (tangents[0], tangents[2])):
        return result, ad.Zero.from_primal_value(result)
    of_data, of_updates = map(ad.instantiate_zeros, (tangents[0], tangents[2]))
    if ROWS[op.reduction].derivative != "moves":
        factors = weights(data, indices, updates, result, op)
        of_data, of_updates = of_data * factors[0], of_updates * factors[1]
        op = replace(op, reduction="add")
    return result, scatter(of_data, indices, of_updates, op)


@under_own_settings
def _transpose_gather(
    cotangent: Any, data: Any, indices: jax.Array, *, op: Operation
) -> tuple[Any, None]:
    if type(cotangent) is ad.Zero:
        return ad.Zero(data.aval), None
    return scatter_slices(cotangent, data.aval.shape, indices, op), None


def scatter_slices(
    cotangent: jax.Array, shape: tuple[int, ...], indices: jax.Array, op: Operation
) -> jax.Array:
    """Return the transpose of a gather, which adds the slices of `cotangent` to zeros."""
    mapped = op.slices_shape(shape, indices.shape)[: op.vmap_axes]
    zeros = jnp.zeros((*mapped, *shape[op.vmap_axes :]), cotangent.dtype)
    add = replace(op, kind=Kind.SCATTER_ND, reduction="add", fill=b"", window_shape=())
    if op.window_shape:
        indices = elements_of_windows(indices, op, shape[op.vmap_axes :])
        add = replace(add, mode=Mode.FILL if op.fills else Mode.RAISE)
        result = scatter(zeros, indices, cotangent, add)
    elif op.kind is Kind.GATHER:
        batch, axis = op.batch_dims, op.axis
        count = indices.ndim - batch
        slices = jnp.moveaxis(cotangent, range(axis, axis + count), range(batch, batch + count))
        moved = scatter(jnp.moveaxis(zeros, axis, batch), indices[..., None], slices, add)
        result = jnp.moveaxis(moved, batch, axis)
    else:
        add = replace(add, kind=op.kind.scatter)
        result = scatter(zeros, indices, cotangent, add)
    return _unrepeated(result, shape, op)


def _unrepeated(array: jax.Array, shape: tuple[int, ...], op: Operation) -> jax.Array:
    """Sum `array` over the vmap axes that have size 1 in `shape`."""
    repeated = tuple(d for d in range(op.vmap_axes) if shape[d] == 1 and array.shape[d] != 1)
    return array.sum(repeated, keepdims=True) if repeated else array


@under_own_settings
def _transpose_scatter(
    cotangent: Any, data: Any, indices: jax.Array, updates: Any, *byte_results: Any, op: Operation
) -> tuple[Any, ...]:
    is_zero = type(cotangent) is ad.Zero
    of_data: Any = None
    of_updates: Any = None
    if ad.is_undefined_primal(data):
        of_data = ad.Zero(data.aval) if is_zero else data_of_scatter(cotangent, indices, op)
    if ad.is_undefined_primal(updates):
        of_updates = ad.Zero(updates.aval)
        if not is_zero:
            of_updates = updates_of_scatter(cotangent, updates.aval.shape, indices, op)
    return of_data, None, of_updates, *(None,) * len(byte_results)


def data_of_scatter(cotangent: jax.Array, indices: jax.Array, op: Operation) -> jax.Array:
    """Return the cotangent of data, which is 0 for elements that updates replace."""
    if op.reduction != "none":
        return cotangent
    zeros = jnp.zeros(op.slices_shape(cotangent.shape, indices.shape), cotangent.dtype)
    return scatter(cotangent, indices, zeros, op)


def updates_of_scatter(
    cotangent: jax.Array, shape: tuple[int, ...], indices: jax.Array, op: Operation
) -> jax.Array:
    """Return the cotangent of updates.

    If updates replace elements, only the last update of each element has a nonzero cotangent.
    """
    back = replace(op, kind=op.kind.gather, reduction="none")
    result = gather(cotangent, indices, back)
    if ROWS[op.reduction].added == -1:
        result = -result
    if op.reduction == "none":
        # Scatter the updates' numbers, so that each element contains the number of its last update.
        sizes, count = cotangent.shape, indices.shape
        if op.kind.tuples:
            sizes, count = sizes[: op.batch_dims + count[-1]], count[:-1]
        numbers = np.arange(np.prod(count, dtype=int), dtype=np.int32).reshape(count)
        last = scatter(jnp.zeros(sizes, np.int32), indices, jnp.asarray(numbers), op)
        won = gather(last, indices, back) == numbers
        result = jnp.where(won.reshape(*won.shape, *(1,) * (result.ndim - won.ndim)), result, 0)
    return _unrepeated(result, shape, op)


ad.primitive_jvps[gather_p] = _tangent_of_gather
ad.primitive_jvps[scatter_p] = _tangent_of_scatter
ad.primitive_transposes[gather_p] = _transpose_gather
ad.primitive_transposes[scatter_p] = _transpose_scatter
