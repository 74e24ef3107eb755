"""The two JAX primitives with their shape rules, batching rules and lowering rules.

On GPUs and TPUs, the primitives are lowered to XLA's own gather and scatter, which cannot raise an
error for an index value. In mode raise, slices at out-of-bounds indices are therefore filled with
JAX's fill value (NaN, or the smallest or largest integer). Out-of-bounds updates are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir
from jax.sharding import NamedSharding

from ndgather import messages, slow_path, windows
from ndgather.array_call import Call, Kind, _core, replace
from ndgather.arrays import lowering
from ndgather.arrays.jax import operation
from ndgather.arrays.jax.operation import HANDLER, Operation, alike, under_own_settings, whole_on
from ndgather.arrays.lowering import Layout, coordinates_of, layout_of
from ndgather.reductions import ROWS

TARGET = "ndgather"

gather_p = Primitive("ndgather_gather")
scatter_p = Primitive("ndgather_scatter")

if HANDLER is not None:
    jax.ffi.register_ffi_target(TARGET, HANDLER, platform="cpu")


def _shape_of_gather(data: Any, indices: Any, *, op: Operation) -> Any:
    shape = op.slices_shape(data.shape, indices.shape)
    sharding = whole_on(data.sharding.mesh, len(shape))
    return data.update(shape=shape, weak_type=False, sharding=sharding)


def _shape_of_scatter(data: Any, *_: Any, op: Operation) -> Any:
    return data.update(weak_type=False)


def _called_back(*arrays: jax.Array, op: Operation) -> jax.Array:
    data, indices, *rest = arrays
    shape = data.shape if op.scatters else op.slices_shape(data.shape, indices.shape)
    result = jax.ShapeDtypeStruct(shape, data.dtype)

    def call(*given: Any) -> Any:
        return operation.run_in_core(op, *map(np.asarray, given[:3]))

    return jax.pure_callback(call, result, data, indices, *rest[:1], vmap_method=None)


def _attributes(op: Operation) -> dict[str, Any]:
    return {
        "kind": np.int64(_core.KINDS.index(op.kind)),
        "mode": np.int64(_core.GATHER_MODES.index(op.mode)),
        "reduction": np.int64(_core.REDUCTIONS.index(op.reduction)),
        "axis": np.int64(op.axis),
        "batch_dims": np.int64(op.batch_dims),
        "lead": np.int64(op.vmap_axes),
        "skip": np.int64(op.hidden_axes),
        "negative": op.negative,
        "window": np.array(op.window_shape, np.int64),
        "fill": np.frombuffer(op.fill, np.uint8),
        "caller": op.caller,
    }


def _lower_on_cpu(ctx: Any, *operands: Any, op: Operation) -> Any:
    if op.route == "handler":
        aliases = {0: 0} if op.scatters else None  # XLA copies data if data is needed later
        rule = jax.ffi.ffi_lowering(TARGET, operand_output_aliases=aliases)
        return rule(ctx, *operands, **_attributes(op))
    # Exported functions must not depend on Python.
    exports = ctx.module_context.lowering_parameters.for_export
    native = _native_scatter if op.scatters else _native_gather
    composed = _called_back if op.route == "callback" and not exports else native
    return mlir.lower_fun(composed, multiple_results=False)(ctx, *operands, op=op)


class JaxLibrary(lowering.Library):
    """The JAX functions that compute coordinates. Out-of-bounds flags are stored in `outside`."""

    def __init__(self) -> None:
        super().__init__(jnp, None)
        self.outside: Any = None

    def arange(self, size: Any) -> jax.Array:
        return jnp.arange(size, dtype=jnp.int32)

    def integers(self, indices: jax.Array, modulus: Any) -> jax.Array:
        wide = jnp.dtype(jnp.int32 if indices.dtype.itemsize <= 4 else jnp.int64)
        if indices.dtype.kind == "u" and indices.dtype.itemsize >= 4:
            most = np.iinfo(wide).max
            indices = indices % modulus if modulus else jnp.minimum(indices, most)
        indices = indices.astype(wide)
        return indices if modulus is None else indices % modulus

    def raise_if_any(self, outside: jax.Array, _: Any) -> bool:
        self.outside = outside
        return False

    def clip(self, values: jax.Array, lowest: Any, highest: Any) -> jax.Array:
        return jnp.clip(values, lowest, highest)

    def where(self, condition: jax.Array, true: Any, false: Any) -> jax.Array:
        return jnp.where(condition, true, false)


def _call_of(op: Operation, data: Any, indices: jax.Array) -> tuple[Call, Layout]:
    mapped = op.vmap_sizes(data.shape, indices.shape)
    indices = jnp.broadcast_to(indices, (*mapped, *indices.shape[op.vmap_axes :]))
    return op.call(data, indices), layout_of(op, data.shape, indices.shape)


def _indexed(op: Operation, data: jax.Array, indices: jax.Array) -> tuple[jax.Array, Any]:
    """Return data, possibly with an added axis of size 1, and a key for ``data[key]``."""
    call, layout = _call_of(op, data, indices)
    coordinates = coordinates_of(call, JaxLibrary(), layout)
    key = [slice(None)] * layout.first + [None] * (layout.end - layout.first)
    for axis, column in zip(layout.axes, coordinates.columns, strict=True):
        if coordinates.outside is None:
            key[axis] = column
        else:
            key[axis] = jnp.where(coordinates.outside, data.shape[axis], column)
    for axis, size, shape in layout.others():
        key[axis] = jnp.arange(size, dtype=jnp.int32).reshape(shape)
    if not layout.axes:  # empty index tuples select all of data
        return data[None], (jnp.zeros(layout.positions, jnp.int32), *key)
    return data, tuple(key)


@under_own_settings
def _native_gather(data: jax.Array, indices: jax.Array, *, op: Operation) -> jax.Array:
    filled = np.frombuffer(op.fill, data.dtype)[0] if op.fill else np.zeros((), data.dtype)
    if data.size == 0:
        return jnp.full(op.slices_shape(data.shape, indices.shape), filled)
    data, key = _indexed(op, data, indices)
    return data.at[key].get(mode="fill", fill_value=None if op.mode == "raise" else filled)


@under_own_settings
def _native_scatter(
    data: jax.Array, indices: jax.Array, updates: jax.Array, *_: jax.Array, op: Operation
) -> jax.Array:
    shape, reduction = data.shape, op.reduction
    if data.size == 0 or updates.size == 0:
        return data
    data, key = _indexed(op, data, indices)
    if reduction == "none":
        key = _keep_last(data, key)
    as_bits = data.dtype == bool and reduction != "none"
    if as_bits:
        data, updates = data.astype("i4"), updates.astype("i4")
        reduction = ROWS[reduction].of_bits
    elif ROWS[reduction].added == -1:
        updates, reduction = -updates, "add"
    method = getattr(data.at[key], "set" if reduction == "none" else reduction, None)
    if method is None:
        raise messages.no_reduction(op.caller, op.reduction, "XLA")
    result: jax.Array = method(updates, mode="drop").reshape(shape)
    return result % 2 == 1 if as_bits else result


def _keep_last(data: jax.Array, key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a key in which all duplicate indices except the last are out of bounds.

    A GPU assigns in arbitrary order, so only the last update of an element must be in bounds.
    """
    places = jnp.broadcast_shapes(*(np.shape(each) for each in key))
    numbers = 1 + jnp.arange(prod(places), dtype=jnp.uint32).reshape(places)  # up to 2**32
    last = jnp.zeros(data.shape[: len(key)], jnp.uint32).at[key].max(numbers, mode="drop")
    stays = last.at[key].get(mode="fill", fill_value=0) == numbers
    return (jnp.where(stays, key[0], data.shape[0]), *key[1:])


@lru_cache(maxsize=1024)
def _compiled(op: Operation) -> Any:
    primitive = scatter_p if op.scatters else gather_p
    return jax.jit(lambda *arrays: primitive.bind(*arrays, op=op))


def _run_eagerly(*arrays: Any, op: Operation) -> jax.Array:
    """Run an operation outside jit; raise IndexOutOfBoundsError for an out-of-bounds index."""
    result, failed = None, None
    placed = [each for each in arrays if hasattr(each, "devices")]  # literals have no device
    on_cpu = all(device.platform == "cpu" for each in placed for device in each.devices())
    if op.route == "callback" and on_cpu:
        made = operation.run_in_core(op, *map(np.asarray, arrays[:3]))
        return _placed_like(made, *placed)
    try:
        with jax.disable_jit(False):  # without jit, `bind` would call this function recursively
            result = _compiled(op)(*arrays)
        if op.mode != "fill":
            result.block_until_ready()
    except (ValueError, RuntimeError, FloatingPointError) as error:
        # JAX raises an error if the handler refuses a call, or if debug_nans finds a fill value.
        failed = error
    if failed is not None or (_was_unchecked(op, result) and _has_outside(*arrays[:2], op)):
        operation.run_in_core(op, *map(np.asarray, arrays[:3]))
    if failed is not None:
        raise failed
    return result


def _placed_like(made: Any, *arrays: jax.Array) -> jax.Array:
    """Convert a NumPy array to a JAX array on the devices of other arrays."""
    placed = [each.sharding for each in arrays if each.committed]
    meshes = [each.mesh for each in placed if isinstance(each, NamedSharding)]
    if meshes:
        return jax.device_put(made, whole_on(meshes[0], made.ndim))
    return jax.device_put(made, placed[0]) if placed else jnp.asarray(made)


def _was_unchecked(op: Operation, result: jax.Array) -> bool:
    """Return whether indices are unchecked because XLA's functions ran or the result is empty."""
    if op.mode == "fill":
        return False
    on_cpu = all(each.platform == "cpu" for each in result.devices())
    return op.route == "native" or result.size == 0 or not on_cpu


@partial(jax.jit, static_argnums=2)
def _has_outside(data: jax.Array, indices: jax.Array, op: Operation) -> jax.Array:
    library = JaxLibrary()
    call, layout = _call_of(op, data, indices)
    coordinates_of(call, library, layout)
    return jnp.zeros((), bool) if library.outside is None else library.outside.any()


for _primitive, _shape, _native in (
    (gather_p, _shape_of_gather, _native_gather),
    (scatter_p, _shape_of_scatter, _native_scatter),
):
    _primitive.def_impl(_run_eagerly)
    _primitive.def_abstract_eval(_shape)
    mlir.register_lowering(_primitive, mlir.lower_fun(_native, multiple_results=False))
    mlir.register_lowering(_primitive, _lower_on_cpu, platform="cpu")


def gather(data: Any, indices: Any, op: Operation) -> jax.Array:
    result: jax.Array = gather_p.bind(*alike(data, indices), op=op)
    return result


def scatter(data: Any, indices: Any, updates: Any, op: Operation) -> jax.Array:
    dtype = np.dtype(data.dtype)
    # For 1-byte dtypes that C++ lacks, `arithmetic` is a table of results for all pairs of bytes.
    arithmetic = slow_path.core_arithmetic(dtype, op.reduction)
    more = () if arithmetic is None or isinstance(arithmetic, str) else (jnp.asarray(arithmetic),)
    result: jax.Array = scatter_p.bind(*alike(data, indices, updates, *more), op=op)
    return result


# Under vmap, each array has an additional axis.
# Arrays without this axis are broadcast instead of copied, except for the data of a scatter.


def _in_front(array: Any, dim: int | None) -> jax.Array:
    """Move the vmap axis to the front, or add an axis of size 1 if the array is not mapped."""
    return array[None] if dim is None else jnp.moveaxis(array, dim, 0)


@under_own_settings
def _batch_gather(
    arrays: Sequence[Any], dims: Sequence[int | None], *, op: Operation
) -> tuple[jax.Array, int]:
    (data, indices), (of_data, of_indices) = arrays, dims
    if op.batch_dims == 0 and of_data is None and not op.kind.elements:
        at = op.axis if op.kind is Kind.GATHER else 0
        return gather(data, _in_front(indices, of_indices), op), at
    if op.batch_dims == 0 and of_indices is None and op.kind is Kind.GATHER:
        wider = replace(op, axis=op.axis + 1, hidden_axes=op.hidden_axes + 1)
        return gather(_in_front(data, of_data), indices, wider), 0
    data, indices = _in_front(data, of_data), _in_front(indices, of_indices)
    return gather(data, indices, op.batched()), 0


@under_own_settings
def _batch_scatter(
    arrays: Sequence[Any], dims: Sequence[int | None], *, op: Operation
) -> tuple[jax.Array, int]:
    size = next(a.shape[d] for a, d in zip(arrays, dims, strict=True) if d is not None)
    data, indices, updates = map(_in_front, arrays[:3], dims[:3])
    data = jnp.broadcast_to(data, (size, *data.shape[1:]))
    return scatter(data, indices, updates, op.batched()), 0


batching.primitive_batchers[gather_p] = _batch_gather
batching.primitive_batchers[scatter_p] = _batch_scatter


def elements_of_windows(starts: jax.Array, op: Operation, shape: Sequence[int]) -> jax.Array:
    """Return the index tuple of each window element, for data of the given shape.

    Indices may be out of bounds along axes with mode raise or fill.
    """
    library, window = JaxLibrary(), op.window_shape
    columns = []
    for axis, (mode, wide) in enumerate(zip(op.modes, window, strict=True)):
        size, at = shape[axis], starts[..., axis]
        if mode == "raise":  # a window end that overflows becomes negative
            at = library.integers(at, None)
        else:
            at = windows.near(mode, at, size, wide, library)
        within = np.arange(wide).reshape(-1, *(1,) * (len(window) - axis - 1)).astype(at.dtype)
        at = at.reshape(*at.shape, *(1,) * len(window)) + within
        at = windows.positions(mode, at, size, library)
        columns.append(jnp.broadcast_to(at, (*starts.shape[:-1], *window)))
    return jnp.stack(columns, -1) if columns else jnp.zeros((*starts.shape[:-1], 0), starts.dtype)
