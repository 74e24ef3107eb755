"""Validation of calls with JAX arrays, and selection of the route on a CPU."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ndgather import arguments, foreign, messages, slow_path, windows
from ndgather.array_call import Array, Call, Mode, _core, replace
from ndgather.arrays import lowering
from ndgather.errors import AttributeValueError, DTypeError


@dataclass(frozen=True, kw_only=True)
class Operation(Call):
    """The options of a call as a hashable parameter of JAX primitives.

    All arrays are None, because arrays are operands of the primitives. `axis` and `batch_dims` are
    non-negative and count the vmap axes. For scatters, mode drop is stored as mode fill.
    """

    fill: bytes = b""  # the fill value for mode fill, or empty for zeros
    vmap_axes: int = 0  # the number of leading vmap axes; an axis of size 1 is broadcast
    hidden_axes: int = 0  # the number of data axes that the caller does not see
    route: str = "handler"  # how the operation runs on a CPU; see `set_route`

    def batched(self) -> Operation:
        """Return the operation for arrays with an additional leading vmap axis."""
        return replace(
            self,
            axis=self.axis + 1,
            batch_dims=self.batch_dims + 1,
            vmap_axes=self.vmap_axes + 1,
            hidden_axes=self.hidden_axes + 1,
        )

    def vmap_sizes(self, data: Sequence[Any], indices: Sequence[Any]) -> tuple[Any, ...]:
        pairs = zip(data[: self.vmap_axes], indices[: self.vmap_axes], strict=True)
        return tuple(size if repeated == 1 else repeated for size, repeated in pairs)

    def slices_shape(self, data: Sequence[Any], indices: Sequence[Any]) -> tuple[Any, ...]:
        """Return the shape of the selected slices for valid shapes of data and indices."""
        sizes = self.vmap_sizes(data, indices)
        return tuple(lowering.layout_of(self, data, (*sizes, *indices[self.vmap_axes :])).result)

    def call(self, data: Any, indices: Any) -> Call:
        """Return a call with the operation's options and the given arrays, but without updates."""
        mode = Mode.DROP if self.scatters and self.mode == Mode.FILL else self.mode
        fill = np.frombuffer(self.fill, data.dtype)[0, ...] if self.fill else None
        given = {"data": data, "indices": indices, "mode": mode, "fill_value": fill}
        return replace(self, **given, use_init_val=True)


def checked(call: Call) -> tuple[Call, Operation]:
    """Validate a call. Return the call with JAX arrays, and the operation."""
    for name, value in (*call.named()[:3], ("fill_value", call.fill_value)):
        if name == "data" or isinstance(value, jax.Array):
            check_array(call.caller, name, value)
    if call.out is not None:
        raise AttributeValueError(
            f"{call.caller}: out is given, but JAX arrays are immutable (allowed: None)"
        )
    data = call.data
    dtype = np.dtype(data.dtype)
    call = replace(call, indices=_indices(call))
    if call.scatters:
        call = replace(call, updates=_updates(call))
    call = arguments.checked(call, dtype)
    if dtype == "float4_e2m1fn" and call.reduction != "none":
        raise DTypeError(
            f"{call.caller}: data.dtype = {dtype} does not support reduction = {call.reduction!r} "
            f"in JAX (allowed: none)"
        )
    _check_shapes(call)
    call = replace(call, indices=_narrowed(call))
    batch_dims, axis = int(call.batch_dims), int(call.axis)
    op = Operation(
        call.caller,
        call.kind,
        None,
        None,
        axis=axis % max(data.ndim, 1),
        batch_dims=batch_dims + (call.indices.ndim if batch_dims < 0 else 0),
        mode=Mode.FILL if call.mode == Mode.DROP else call.mode,
        reduction=call.reduction if call.scatters else "none",
        use_init_val=call.use_init_val,
        negative=call.negative and not call.window_shape,
        fill=b"" if call.scatters or call.fill_value is None else call.fill_value.tobytes(),
        window_shape=tuple(call.window_shape),
        route=get_route(),
    )
    return call, op


def under_own_settings(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function independent of the caller's dtype and rank promotion settings."""

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        with (
            jax.numpy_rank_promotion("allow"),
            jax.numpy_dtype_promotion("standard"),
            jax.transfer_guard_host_to_device("allow"),  # for constants and lists
        ):
            return function(*arguments, **options)

    return call


def alike(*arrays: Any) -> list[Any]:
    """Convert arrays to matching types for `jax.shard_map` and meshes with explicit axes.

    In `shard_map`, if any array is varying, all arrays are marked as varying, so that the gradients
    of replicated arrays are summed over the devices. On a mesh with explicit axes, sharded arrays
    are replicated on every device.
    """
    types = [jax.typeof(each) for each in arrays]
    varying = frozenset[str]().union(*(each.mat.varying for each in types))
    meshes = [
        (each if isinstance(array, jax.core.Tracer) else array).sharding.mesh
        for array, each in zip(arrays, types, strict=True)
        if each.sharding.mesh.explicit_axes
    ]
    result = []
    for each, of_type in zip(arrays, types, strict=True):
        if missing := tuple(varying - of_type.mat.varying):
            each = jax.lax.pcast(each, missing, to="varying")  # noqa: PLW2901
        if meshes and any(of_type.sharding.spec):
            by_trace = isinstance(each, jax.core.Tracer) or not isinstance(meshes[0], Mesh)
            move = jax.sharding.reshard if by_trace else jax.device_put
            each = move(each, whole_on(meshes[0], each.ndim))  # noqa: PLW2901
        result.append(each)
    return result


def whole_on(mesh: Any, rank: int) -> NamedSharding:
    """Return the sharding of an array that is replicated on every device of a mesh."""
    return NamedSharding(mesh, PartitionSpec(*[None] * rank))


def check_array(caller: str, argument: str, value: jax.Array) -> None:
    """Raise an error if a JAX array is not numeric, has too many axes or has been deleted."""
    if not isinstance(value, jax.Array):
        raise messages.not_an_array(caller, argument, value, "is a JAX object, but not an array")
    if not jnp.issubdtype(value.dtype, jnp.number) and value.dtype != bool:
        raise _unknown_dtype(caller, argument, value.dtype)
    _check_rank(caller, argument, value.ndim)
    if not isinstance(value, jax.core.Tracer) and value.is_deleted():
        why = "was deleted, or donated to another call"
        raise messages.not_an_array(caller, argument, value, why, "an array with values")


def to_numpy(call: Call, name: str, value: jax.Array) -> Array:
    check_array(call.caller, name, value)
    if isinstance(value, jax.core.Tracer):
        why = "is traced by JAX, so its values are not known"
        raise messages.unknown_values(call.caller, name, value, why, "jax.numpy.asarray")
    return arguments.plain_array(call.caller, name, value)


def _unknown_dtype(caller: str, argument: str, dtype: object) -> DTypeError:
    is_key = jnp.issubdtype(dtype, jax.dtypes.extended)
    hint = f"; write jax.random.key_data({argument})" if is_key else ""
    return DTypeError(
        f"{caller}: {argument}.dtype = {dtype} is not numeric or boolean (allowed: integers, "
        f"floats, complex numbers, booleans){hint}"
    )


def _would_become(caller: str, argument: str, dtype: Any, kept: Any) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument}.dtype = {dtype} would become {kept} in JAX (allowed: a dtype that "
        f"JAX supports; jax.config.update('jax_enable_x64', True) enables 64 bits)"
    )


def _check_rank(caller: str, argument: str, rank: int) -> None:
    if rank > _core.HIGHEST_RANK:
        raise messages.too_many_axes(caller, argument, rank, _core.HIGHEST_RANK)


def _indices(call: Call) -> Any:
    name, indices = call.indices_name, call.indices
    if not isinstance(indices, jax.Array):
        indices = arguments.native_indices(call)
    _check_rank(call.caller, name, indices.ndim)
    if is_narrow(indices.dtype) and jnp.issubdtype(indices.dtype, jnp.integer):
        return indices.astype(jnp.int8)
    if 0 in indices.shape and jnp.issubdtype(indices.dtype, jnp.floating):
        arguments.check_depth(call, indices)
        return jnp.zeros(indices.shape, jnp.int32)
    if indices.dtype.kind not in "iu":
        is_unknown_mask = isinstance(indices, jax.core.Tracer) and indices.dtype == bool
        library = None if is_unknown_mask else foreign.library_of([call.indices])
        raise arguments.index_dtype(call.caller, indices.dtype, name, library)
    return indices


def _narrowed(call: Call) -> jax.Array:
    """Return indices as a JAX array. If JAX supports only 32 bits, clip or wrap larger values."""
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
    axes = lowering.layout_of(call, shape, indices.shape).axes
    sizes = [shape[axis] for axis in axes if isinstance(shape[axis], int)]  # skip symbolic sizes
    if max(sizes, default=0) - 1 > bounds.max:  # an index of more than 32 bits may be in bounds
        raise _would_become(call.caller, call.indices_name, indices.dtype, kept)
    if call.window_shape and call.mode not in ("raise", "clip"):
        windows.check(replace(call, data=np.broadcast_to(np.uint8(0), shape), fill_value=None))
        near = [
            windows.near(mode, indices[..., axis], shape[axis], wide)
            for axis, (mode, wide) in enumerate(zip(call.modes, call.window_shape, strict=True))
        ]
        return jnp.asarray(np.stack(near, -1), kept)
    if call.mode == "wrap" and len(sizes) == len(axes) and all(sizes):
        inside = indices % np.array(sizes, indices.dtype)
        return jnp.asarray(inside.reshape(indices.shape), kept)  # undo broadcasting of `sizes`
    # Let the core raise an error with the original value. Mode clip fails only on empty axes.
    if call.mode in ("raise", "wrap") or (call.mode == "clip" and 0 in sizes):
        if not all(isinstance(size, int) for size in shape):
            raise _would_become(call.caller, call.indices_name, indices.dtype, kept)
        kind = call.kind.gather
        bare = replace(call, kind=kind, data=np.broadcast_to(np.uint8(0), shape))
        slow_path.run(replace(bare, updates=None, reduction="none", fill_value=None))
    return jnp.asarray(np.clip(indices, bounds.min, bounds.max), kept)


def _updates(call: Call) -> jax.Array:
    caller, name, updates = call.caller, call.updates_name, call.updates
    dtype = np.dtype(call.data.dtype)
    if not isinstance(updates, jax.Array):
        return jnp.asarray(arguments.plain_updates(call, dtype))
    if updates.dtype == dtype:
        return updates
    if not (updates.weak_type and jnp.result_type(updates, dtype) == dtype):
        raise messages.updates_dtype(caller, updates.dtype, dtype, name)
    return updates.astype(dtype)


def is_narrow(dtype: Any) -> bool:
    """Return whether elements are smaller than a byte, so that JAX packs several into a byte."""
    return dtype in ("int2", "uint2", "int4", "uint4", "float4_e2m1fn")


def _check_shapes(call: Call) -> None:
    """Raise ShapeError if shapes do not match. Symbolic shapes are checked when the call runs."""
    data, indices = call.data.shape, call.indices.shape
    if call.kind.tuples and not isinstance((1, *indices)[-1], int):
        raise messages.depth_unknown(call.caller, call.indices_name)
    lowering.check_shapes(call, data, indices)
    if call.scatters and all(isinstance(size, int) for size in (*data, *indices)):
        slices = lowering.layout_of(call, data, indices).result
        arguments.check_updates(call, call.updates.shape, slices)


ROUTES = ("handler", "callback", "native")


def usable(handler: tuple[Any, int, int] | None) -> Any:
    """Return the handler if the installed XLA supports its interface version, otherwise None.

    JAX would not start if a handler with a newer interface version were registered. The version
    that jaxlib supports is read from the C header files of jaxlib.
    """
    if handler is None:
        return None
    header = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h")
    text = header.read_text() if header.exists() else ""
    found = dict(re.findall(r"#define XLA_FFI_API_(MAJOR|MINOR) (\d+)", text))
    made, major, minor = handler
    fits = int(found.get("MAJOR", -1)) == major and int(found.get("MINOR", -1)) >= minor
    return made if fits else None


HANDLER = usable(_core.jax_handler)
_AVAILABLE = ROUTES if HANDLER is not None else ROUTES[1:]


def _available(name: str, value: str) -> str:
    if value not in _AVAILABLE:
        raise messages.unknown_choice("arrays.jax", name, value, _AVAILABLE)
    return value


_route = _available("NDGATHER_JAX_ROUTE", os.environ.get("NDGATHER_JAX_ROUTE", _AVAILABLE[0]))


def get_route() -> str:
    """Return the route of calls on a CPU; see `set_route`."""
    return _route


def set_route(route: str) -> None:
    """Choose how calls run on a CPU.

    The route applies to all calls that JAX traces afterwards. The environment variable
    ``NDGATHER_JAX_ROUTE`` sets the initial route.

    Parameters
    ----------
    route : {"handler", "callback", "native"}
        With ``handler``, the default if the core was built with it, XLA calls the core directly.
        With ``callback``, `jax.pure_callback` calls the core through Python. With ``native``, XLA's
        own gather and scatter run, as on a GPU or TPU.

    Raises
    ------
    AttributeValueError
        If `route` is unknown, or the core has no handler for the installed jaxlib.

    Examples
    --------
    >>> from ndgather.arrays.jax import get_route, set_route
    >>> before = get_route()
    >>> set_route("native")
    >>> get_route()
    'native'
    >>> set_route(before)
    """
    global _route  # noqa: PLW0603 - one setting for the process, as for threads
    _route = _available("route", route)


def run_in_core(op: Operation, data: Array, indices: Array, updates: Array | None = None) -> Array:
    sizes = op.vmap_sizes(data.shape, indices.shape)

    def whole(array: Array) -> Array:
        return np.broadcast_to(array, (*sizes, *array.shape[op.vmap_axes :]))

    call = op.call(whole(data), whole(indices))
    if updates is not None:
        arithmetic = slow_path.core_arithmetic(data.dtype, op.reduction)
        call = replace(call, updates=whole(updates), arithmetic=arithmetic)
    result = call.run()
    if not isinstance(result, _core.Refusal):
        return result
    if result.rule != "out_of_bounds":
        arguments.raise_error(call, result)
    # The error must not mention axes along which vmap broadcasts the indices.
    position, value, axis, size, lowest, count, total = result.facts
    repeated = [d for d in range(op.vmap_axes) if indices.shape[d] == 1]
    times = int(np.prod([sizes[d] for d in repeated]))
    where = tuple(at for d, at in enumerate(position) if d not in repeated)
    facts = (where, value, axis - op.hidden_axes, size, lowest, count // times, total // times)
    raise arguments.out_of_bounds(call, facts)
