"""From the arguments of a call to arrays of JAX, with no value lost, and an `Operation`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ndgather import arguments, messages, refusals, slow_path
from ndgather.array_call import _core
from ndgather.arrays import lowering
from ndgather.arrays.jax.operation import Operation, get_route
from ndgather.errors import AttributeValueError, DTypeError

if TYPE_CHECKING:
    from ndgather.array_call import Call


def checked(call: Call) -> tuple[Call, Operation]:
    """Return a call with arrays of JAX and checked options, and its operation."""
    if call.out is not None:
        raise AttributeValueError(
            f"{call.caller}: out is given, but arrays of JAX cannot be written (allowed: None)"
        )
    data = array(call.caller, "data", call.data)
    dtype = np.dtype(data.dtype)
    call = replace(call, data=data)
    call = replace(call, indices=_indices(call))
    if call.scatters:
        call = replace(call, updates=_updates(call))
    call = arguments.checked(call, dtype)
    if dtype == "float4_e2m1fn" and call.reduction != "none":
        raise DTypeError(
            f"{call.caller}: data.dtype = {dtype} has no reduction {call.reduction!r} in JAX "
            f"(allowed: none)"
        )
    _check_shapes(call)
    call = replace(call, indices=_narrowed(call))
    batch_dims, axis = int(call.batch_dims), int(call.axis)
    op = Operation(
        caller=call.caller,
        kind=call.kind,
        axis=axis % max(data.ndim, 1),
        batch_dims=batch_dims + (call.indices.ndim if batch_dims < 0 else 0),
        mode="fill" if call.mode == "drop" else call.mode,
        reduction=call.reduction if call.scatters else "none",
        negative=call.negative and not call.window_shape,
        fill=b"" if call.scatters or call.fill_value is None else call.fill_value.tobytes(),
        window_shape=tuple(call.window_shape),
        route=get_route(),
    )
    return call, op


def array(caller: str, argument: str, value: Any) -> jax.Array:
    """Return an array of JAX that holds `value`."""
    if isinstance(value, jax.Array):
        if not jnp.issubdtype(value.dtype, jnp.number) and value.dtype != bool:
            raise _unknown_dtype(caller, argument, value.dtype)
        _check_rank(caller, argument, value.ndim)
        return value
    plain = arguments.plain_array(caller, argument, value)
    plain = plain.astype(plain.dtype.newbyteorder("="), copy=False)
    kept = jax.dtypes.canonicalize_dtype(plain.dtype, allow_extended_dtype=True)
    if isinstance(value, np.ndarray | np.generic) and kept != plain.dtype:
        raise DTypeError(
            f"{caller}: {argument}.dtype = {plain.dtype} would become {kept} in JAX (allowed: a "
            f"dtype that JAX has; jax.config.update('jax_enable_x64', True) enables 64 bits)"
        )
    try:
        return jnp.asarray(plain)
    except TypeError as error:  # strings, objects, dates, records
        raise _unknown_dtype(caller, argument, plain.dtype) from error


def _unknown_dtype(caller: str, argument: str, dtype: object) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument}.dtype = {dtype} is not of numbers or booleans (allowed: integers, "
        f"floats, complex numbers, booleans)"
    )


def _check_rank(caller: str, argument: str, rank: int) -> None:
    if rank > _core.HIGHEST_RANK:
        raise messages.too_many_axes(caller, argument, rank, _core.HIGHEST_RANK)


def _indices(call: Call) -> Any:
    """Return indices as integers, of JAX or of NumPy."""
    name, indices = call.indices_name, call.indices
    if not isinstance(indices, jax.Array):
        indices = arguments.native_indices(call.caller, indices, name)
    _check_rank(call.caller, name, indices.ndim)
    if 0 in indices.shape and jnp.issubdtype(indices.dtype, jnp.floating):
        return jnp.zeros(indices.shape, jnp.int32)
    if getattr(indices.dtype, "kind", "") not in ("i", "u"):  # a key of random numbers has none
        raise refusals.index_dtype(replace(call, indices=indices))
    return indices


def _narrowed(call: Call) -> jax.Array:
    """Return indices as an array of JAX, which may have integers of 32 bits alone."""
    indices, shape = call.indices, call.data.shape
    if isinstance(indices, jax.Array):
        return indices
    kept = np.dtype(jax.dtypes.canonicalize_dtype(indices.dtype))
    bounds = np.iinfo(kept)
    if (
        kept == indices.dtype
        or not indices.size
        or (bounds.min <= indices.min() and indices.max() <= bounds.max)
    ):
        return jnp.asarray(indices, kept)
    if call.mode == "wrap":
        axes = lowering.layout_of(call, shape, indices.shape).axes
        sizes = np.maximum([shape[axis] for axis in axes], 1).astype(indices.dtype)
        return jnp.asarray(indices % sizes, kept)
    if call.mode == "raise":  # such a value is out of bounds: the error has to name it
        kind = call.kind.replace("scatter", "gather")
        bare = replace(call, kind=kind, data=np.broadcast_to(np.uint8(0), shape))
        slow_path.run(replace(bare, updates=None, reduction="none", fill_value=None))
    return jnp.asarray(np.clip(indices, bounds.min, bounds.max), kept)


def _updates(call: Call) -> jax.Array:
    """Return updates as an array of JAX of the dtype of data."""
    caller, name, updates = call.caller, call.updates_name, call.updates
    dtype = np.dtype(call.data.dtype)
    if not isinstance(updates, jax.Array):
        return jnp.asarray(arguments.plain_updates(caller, updates, dtype, name))
    if updates.dtype == dtype:
        return updates
    is_weak = getattr(updates, "weak_type", False)  # keys of random numbers have no such attribute
    if not (is_weak and jnp.result_type(updates, dtype) == dtype):
        raise messages.updates_dtype(caller, updates.dtype, dtype, name)
    return updates.astype(dtype)


def is_narrow(dtype: Any) -> bool:
    """Whether elements have less than a byte: JAX packs several into one."""
    return dtype in ("int2", "uint2", "int4", "uint4", "float4_e2m1fn")


def _check_shapes(call: Call) -> None:
    """Raise ShapeError if shapes do not fit; those with symbols may fail when the call runs."""
    data, indices = call.data.shape, call.indices.shape
    if call.kind.endswith(("_nd", "_windows")) and not isinstance((1, *indices)[-1], int):
        raise messages.depth_unknown(call.caller, call.indices_name)
    lowering.check_shapes(call, data, indices)
    if call.scatters and all(isinstance(size, int) for size in (*data, *indices)):
        slices = lowering.layout_of(call, data, indices).result
        arguments.check_updates(call, call.updates.shape, slices)
