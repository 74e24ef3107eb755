"""From the arguments of a call to arrays of JAX with no value lost, and what is done with them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ndgather import array_call, messages, slow_path
from ndgather.array_call import _core
from ndgather.arrays.jax.operation import Operation, get_route
from ndgather.errors import jax_errors
from ndgather.slow_path import explain

if TYPE_CHECKING:
    from ndgather.array_call import Call


def checked(call: Call) -> tuple[Call, Operation]:
    """Return a call with arrays of JAX and options that are checked, and what it does.

    Raises
    ------
    NdgatherError
        The call is refused.
    """
    if call.out is not None:
        raise jax_errors.immutable_out(call.caller)
    data = array(call.caller, "data", call.data)
    call = replace(call, data=data, indices=_indices(call, data.shape))
    if call.scatters:
        call = _with_updates(call)
    slices = _slices_shape(call)
    if call.scatters and slices is not None and call.updates.shape != slices:
        shapes = (data.shape, call.indices.shape, slices, call.updates.shape)
        raise explain(call, array_call.refusal("updates_shape", (0, 0), *shapes))
    mode = _mode(call)
    axis, batch_dims = int(call.axis), int(call.batch_dims)
    kind = call.kind
    if kind == "gather_windows":
        kind, axis, batch_dims = "gather_nd", 0, 0
    if not kind.endswith("_nd"):
        axis %= max(data.ndim, 1)
    op = Operation(
        caller=call.caller,
        kind=kind,
        axis=axis,
        batch_dims=batch_dims + (call.indices.ndim if batch_dims < 0 else 0),
        mode="fill" if mode == "drop" else mode,
        reduction=call.reduction if call.scatters else "none",
        negative=call.negative and not call.window_shape,
        fill=_fill(call, mode),
        window=tuple(call.window_shape),
        route=get_route(),
    )
    return call, op


def array(caller: str, argument: str, value: Any) -> jax.Array:
    """Return an array of JAX that holds what is given.

    Raises
    ------
    NdgatherError
        It is no array, or not of a type that JAX has.
    """
    if isinstance(value, jax.Array):
        if not jnp.issubdtype(value.dtype, jnp.number) and value.dtype != bool:
            raise jax_errors.unknown_dtype(caller, argument, value.dtype)
        _check_rank(caller, argument, value.ndim)
        return value
    plain = slow_path.plain_array(caller, argument, value)
    plain = plain.astype(plain.dtype.newbyteorder("="), copy=False)
    kept = jax.dtypes.canonicalize_dtype(plain.dtype, allow_extended_dtype=True)
    if isinstance(value, np.ndarray | np.generic) and kept != plain.dtype:
        raise jax_errors.dtype_not_kept(caller, argument, plain.dtype, kept)
    try:
        return jnp.asarray(plain)
    except TypeError as error:  # strings, objects, dates, records
        raise jax_errors.unknown_dtype(caller, argument, plain.dtype) from error


def _check_rank(caller: str, argument: str, rank: int) -> None:
    if rank > _core.HIGHEST_RANK:
        raise messages.too_many_axes(caller, argument, rank, _core.HIGHEST_RANK)


def _indices(call: Call, shape: tuple[int, ...]) -> jax.Array:
    name = call.indices_name
    if not isinstance(call.indices, jax.Array):
        call = replace(call, indices=slow_path.native_indices(call.caller, call.indices, name))
    dtype = call.indices.dtype
    _check_rank(call.caller, name, call.indices.ndim)
    if 0 in call.indices.shape and jnp.issubdtype(dtype, jnp.floating):
        return jnp.zeros(call.indices.shape, jnp.int32)
    if getattr(dtype, "kind", "") not in ("i", "u"):  # a key of random numbers has none
        raise explain(call, array_call.refusal("index_dtype"))
    if isinstance(call.indices, jax.Array):
        return call.indices
    return jnp.asarray(_narrowed(call, shape))


def _narrowed(call: Call, shape: tuple[int, ...]) -> Any:
    """Return NumPy's indices such that JAX cuts off none of their bits."""
    indices = call.indices
    kept = np.dtype(jax.dtypes.canonicalize_dtype(indices.dtype))
    if kept == indices.dtype or not indices.size:
        return indices
    bounds = np.iinfo(kept)
    if bounds.min <= indices.min() and indices.max() <= bounds.max:
        return indices.astype(kept)
    if call.mode == "wrap":  # of all sizes, so that every column keeps its remainder
        columns = (
            [indices[..., d] for d in range(indices.shape[-1])] if _has_tuples(call) else [indices]
        )
        first = int(call.batch_dims) if _has_tuples(call) else int(call.axis)
        sizes = [shape[first + d] for d in range(len(columns))]
        rests = [column % max(size, 1) for column, size in zip(columns, sizes, strict=True)]
        return (np.stack(rests, axis=-1) if _has_tuples(call) else rests[0]).astype(kept)
    if call.mode == "raise":  # there is such an error: it is to name the value that was given
        empty = np.broadcast_to(np.uint8(0), shape)
        bare = replace(
            call, kind=call.kind.replace("scatter", "gather"), data=empty, fill_value=None
        )
        slow_path.run(replace(bare, updates=None, reduction="none"))
    return np.clip(indices, bounds.min, bounds.max).astype(kept)


def _has_tuples(call: Call) -> bool:
    return call.kind.endswith(("_nd", "_windows"))


def _with_updates(call: Call) -> Call:
    """Return a scatter with its updates, reduction and use_init_val checked."""
    caller, dtype = call.caller, np.dtype(call.data.dtype)
    updates = call.updates
    if not isinstance(updates, jax.Array):
        updates = jnp.asarray(slow_path.plain_updates(caller, updates, dtype, call.updates_name))
    elif updates.dtype != dtype:
        is_weak = getattr(updates, "weak_type", False)  # keys of random numbers do not say
        if not (is_weak and jnp.result_type(updates, dtype) == dtype):
            raise messages.updates_dtype(caller, updates.dtype, dtype, call.updates_name)
        updates = updates.astype(dtype)
    none = np.zeros(0, np.int8 if _is_narrow_integer(dtype) else dtype)
    plain = slow_path.plain_scatter(
        replace(call, data=none, indices=np.zeros(0, int), updates=none)
    )
    if is_narrow(dtype) and not _is_narrow_integer(dtype) and plain.reduction != "none":
        raise jax_errors.narrow_reduction(caller, plain.reduction, dtype)
    return replace(
        call, updates=updates, reduction=plain.reduction, use_init_val=plain.use_init_val
    )


def is_narrow(dtype: Any) -> bool:
    """Whether elements have less than a byte: JAX packs several into one."""
    return dtype in ("int2", "uint2", "int4", "uint4", "float4_e2m1fn")


def _is_narrow_integer(dtype: Any) -> bool:
    return is_narrow(dtype) and dtype != "float4_e2m1fn"


def _slices_shape(call: Call) -> tuple[int, ...] | None:
    """Return the shape of the slices; None where it is not needed, or sizes are symbols of JAX.

    Symbols are numbers only when the call is carried out: it is refused then if they do not fit.
    """
    if not all(isinstance(size, int) for size in (*call.data.shape, *call.indices.shape)):
        _check_ranks(call)
        return None
    if call.kind == "gather_windows":
        slow_path.check_shapes(call)
        return None
    return slow_path.result_shape(call)


def _check_ranks(call: Call) -> None:
    """Check all but the sizes: the ranks, how many axes are indexed, the axis and batch_dims."""
    if call.kind == "gather_windows":
        return
    in_data, in_indices = (1,) * call.data.ndim, (1,) * call.indices.ndim
    if _has_tuples(call) and in_indices:
        depth = call.indices.shape[-1]
        if not isinstance(depth, int):
            raise messages.depth_unknown(call.caller, call.indices_name)
        in_indices = (*in_indices[:-1], depth)
    axis, batch_dims = (slow_path.integer(call, option) for option in ("axis", "batch_dims"))
    refusal = _core.slices_shape(call.kind, in_data, in_indices, axis, batch_dims)
    if refusal.rule != "none":
        raise explain(call, array_call.refusal(*refusal[:2], call.data.shape, call.indices.shape))


def _mode(call: Call) -> str:
    if call.kind == "gather_windows":
        return str(call.mode)
    modes = _core.SCATTER_MODES if call.scatters else _core.GATHER_MODES
    return slow_path.choice(call.caller, "mode", call.mode, modes)


def _fill(call: Call, mode: str) -> bytes:
    if call.scatters or call.fill_value is None:
        return b""
    if mode != "fill":
        raise messages.fill_value_unused(call.caller, mode)
    return slow_path.fill_element(call.caller, call.fill_value, np.dtype(call.data.dtype)).tobytes()
