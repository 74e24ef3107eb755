"""Derivatives of the two operations: their tangents, and the transposes of linear ones.

A gather is linear in data, a scatter that assigns, adds or subtracts in data and updates together;
tangents move as what they belong to does. In the other reductions they are weighted and added.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad

from ndgather.arrays.jax import native
from ndgather.arrays.jax.primitives import gather, gather_p, scatter, scatter_p
from ndgather.arrays.jax.weights import weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    import jax

    from ndgather.arrays.jax.operation import Operation

_LINEAR = ("none", "add", "sub")


def _tangent_of_gather(primals: Sequence[Any], tangents: Sequence[Any], *, op: Operation) -> Any:
    result = gather(primals[0], primals[1], op)
    tangent = tangents[0]
    if type(tangent) is ad.Zero:
        return result, ad.Zero.from_primal_value(result)
    return result, gather(tangent, primals[1], replace(op, fill=b""))


def _tangent_of_scatter(primals: Sequence[Any], tangents: Sequence[Any], *, op: Operation) -> Any:
    data, indices, updates = primals[:3]
    result = scatter(data, indices, updates, op)
    if all(type(tangent) is ad.Zero for tangent in (tangents[0], tangents[2])):
        return result, ad.Zero.from_primal_value(result)
    of_data, of_updates = map(ad.instantiate_zeros, (tangents[0], tangents[2]))
    if op.reduction not in _LINEAR:
        factors = weights(data, indices, updates, result, op)
        of_data, of_updates = of_data * factors[0], of_updates * factors[1]
        op = replace(op, reduction="add")
    return result, scatter(of_data, indices, of_updates, op)


def _transpose_gather(
    cotangent: Any, data: Any, indices: jax.Array, *, op: Operation
) -> tuple[Any, None]:
    if type(cotangent) is ad.Zero:
        return ad.Zero(data.aval), None
    return scatter_slices(cotangent, data.aval.shape, indices, op), None


def scatter_slices(
    cotangent: jax.Array, shape: tuple[int, ...], indices: jax.Array, op: Operation
) -> jax.Array:
    """Return zeros of `shape` to which every slice is added where a gather took it from."""
    lead = op.slices_shape(shape, indices.shape)[: op.lead]
    zeros = jnp.zeros((*lead, *shape[op.lead :]), cotangent.dtype)
    add = replace(op, kind="scatter_nd", reduction="add", fill=b"", window=())
    if op.window:
        if op.mode == "clip":
            ends = [s - w for s, w in zip(shape[op.lead :], op.window, strict=False)]
            indices = jnp.stack(
                [
                    native.resolved(indices[..., d], end + 1, "clip", negative=False)
                    for d, end in enumerate(ends)
                ],
                axis=-1,
            )
        result = scatter(zeros, native.positions(indices, op.window), cotangent, add)
    elif op.kind == "gather":
        batch, axis = op.batch_dims, op.axis
        count = indices.ndim - batch
        moved = jnp.moveaxis(zeros, axis, batch)
        positions = range(axis, axis + count), range(batch, batch + count)
        slices = jnp.moveaxis(cotangent, *positions)
        moved = scatter(moved, indices[..., None], slices, add)
        result = jnp.moveaxis(moved, batch, axis)
    else:
        add = replace(add, kind=op.kind.replace("gather", "scatter"))
        result = scatter(zeros, indices, cotangent, add)
    repeated = tuple(d for d in range(op.lead) if shape[d] == 1 and lead[d] != 1)
    return result.sum(repeated, keepdims=True) if repeated else result


def _transpose_scatter(
    cotangent: Any, data: Any, indices: jax.Array, updates: Any, *table: Any, op: Operation
) -> tuple[Any, ...]:
    unused = (None,) * len(table)
    of_data: Any = None
    of_updates: Any = None
    if type(cotangent) is ad.Zero:
        if ad.is_undefined_primal(data):
            of_data = ad.Zero(data.aval)
        if ad.is_undefined_primal(updates):
            of_updates = ad.Zero(updates.aval)
        return of_data, None, of_updates, *unused
    if ad.is_undefined_primal(data):
        of_data = data_of_scatter(cotangent, indices, op)
    if ad.is_undefined_primal(updates):
        of_updates = updates_of_scatter(cotangent, updates.aval.shape, indices, op)
    return of_data, None, of_updates, *unused


def data_of_scatter(cotangent: jax.Array, indices: jax.Array, op: Operation) -> jax.Array:
    """Return the cotangent of data: without what was replaced."""
    if op.reduction != "none":
        return cotangent
    zeros = jnp.zeros(op.slices_shape(cotangent.shape, indices.shape), cotangent.dtype)
    return scatter(cotangent, indices, zeros, op)


def updates_of_scatter(
    cotangent: jax.Array, shape: tuple[int, ...], indices: jax.Array, op: Operation
) -> jax.Array:
    """Return the cotangent of updates; of several updates of one element the last has it all."""
    back = replace(op, kind=op.kind.replace("scatter", "gather"), reduction="none")
    result = gather(cotangent, indices, back)
    if op.reduction == "sub":
        result = -result
    if op.reduction == "none":
        # Updates are numbered, by tuple or by element; the last of an element leaves its number.
        places, count = cotangent.shape, indices.shape
        if op.kind == "scatter_nd":
            places, count = places[: op.batch_dims + count[-1]], count[:-1]
        numbers = np.arange(np.prod(count, dtype=int), dtype=np.int32).reshape(count)
        last = scatter(jnp.zeros(places, np.int32), indices, jnp.asarray(numbers), op)
        won = gather(last, indices, back) == numbers
        result = jnp.where(won.reshape(*won.shape, *(1,) * (result.ndim - won.ndim)), result, 0)
    repeated = tuple(d for d in range(op.lead) if shape[d] == 1 and result.shape[d] != 1)
    return result.sum(repeated, keepdims=True) if repeated else result


ad.primitive_jvps[gather_p] = _tangent_of_gather
ad.primitive_jvps[scatter_p] = _tangent_of_scatter
ad.primitive_transposes[gather_p] = _transpose_gather
ad.primitive_transposes[scatter_p] = _transpose_scatter
