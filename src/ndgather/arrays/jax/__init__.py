"""The adapter for JAX arrays, which returns JAX arrays and supports jit, vmap, grad and jvp.

On a CPU, code compiled by XLA calls a handler in the core. Without the handler, `jax.pure_callback`
calls the core through Python. On GPUs and TPUs, calls are built from XLA's own gather and scatter.
An out-of-bounds index raises `IndexOutOfBoundsError`. Under jit, JAX raises its own exception with
the same message when the program waits for the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from ndgather import messages

if find_spec("jax") is None:
    raise messages.extra_missing("jax", "jax")

import jax
import jax.numpy as jnp
import numpy as np

from ndgather import dtypes, reductions
from ndgather.array_call import Call, Kind, replace
from ndgather.arrays.jax import derivatives
from ndgather.arrays.jax.operation import (
    Operation,
    check_array,
    checked,
    get_route,
    is_narrow,
    set_route,
    under_own_settings,
)
from ndgather.arrays.jax.operation import to_numpy as to_numpy
from ndgather.arrays.jax.primitives import TARGET, elements_of_windows, gather, scatter
from ndgather.errors import AttributeValueError, ShapeError
from ndgather.messages import reason, shown

__all__ = ["export_checks", "get_route", "run", "set_route", "vjp"]


@under_own_settings
def run(call: Call) -> jax.Array:
    try:
        call, op = checked(call)
        if is_narrow(call.data.dtype):
            return _run_widened(call, op).astype(call.data.dtype)
        return _scatter(call, op) if op.scatters else _gather(call, op)
    except jax.errors.InconclusiveDimensionOperation as error:
        raise ShapeError(
            f"{call.caller}: data.shape = {shown(call.data.shape)} has symbolic sizes without the "
            f"necessary constraints: {reason(error)} (allowed: numbers, or constraints of "
            f"jax.export.symbolic_shape)"
        ) from error


@under_own_settings
def vjp(call: Call, data_shape: tuple[int, ...] | None = None) -> tuple[Any, ...]:
    indices, caller = call.indices, call.caller
    cotangent = call.data
    check_array(caller, "cotangent", cotangent)
    if cotangent.dtype == bool or is_narrow(cotangent.dtype):
        raise messages.cotangent_dtype(caller, cotangent.dtype)
    shape = cotangent.shape if data_shape is None else data_shape
    kind, reduction = call.kind.gather, call.reduction
    bare = replace(call, kind=kind, data=jnp.zeros(shape, cotangent.dtype), updates=None)
    bare, op = checked(replace(bare, reduction="none"))
    indices = bare.indices
    slices = op.slices_shape(shape, indices.shape)
    if data_shape is None:
        op = replace(op, kind=call.kind, reduction=reduction)
        of_updates = derivatives.updates_of_scatter(cotangent, slices, indices, op)
        return derivatives.data_of_scatter(cotangent, indices, op), of_updates
    if cotangent.shape != slices:
        raise messages.updates_do_not_fit(caller, cotangent.shape, slices, "cotangent")
    if op.window_shape:
        _gather(bare, op)  # raises an error if an entry of starts is out of bounds
    return (derivatives.scatter_slices(cotangent, shape, indices, op),)


def export_checks() -> list[jax.export.DisabledSafetyCheck]:
    """Return the safety checks to disable in `jax.export.export`.

    JAX refuses to export calls of ndgather's handler unless the result of this function is passed
    as `disabled_checks`. Import `ndgather.arrays.jax` before running an exported function that
    calls the handler.

    Returns
    -------
    list of jax.export.DisabledSafetyCheck

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> import ndgather
    >>> from ndgather.arrays.jax import export_checks
    >>> function = jax.jit(ndgather.gather_nd)
    >>> arrays = jnp.arange(5.0), jnp.array([[4], [0]])
    >>> exported = jax.export.export(function, disabled_checks=export_checks())(*arrays)
    >>> jax.export.deserialize(exported.serialize()).call(*arrays)
    Array([4., 0.], dtype=float32)
    """
    return [jax.export.DisabledSafetyCheck.custom_call(TARGET)]


def _gather(call: Call, op: Operation) -> jax.Array:
    if call.kind.windows and not op.window_shape and not op.fills:
        op = replace(op, mode="raise")  # windows without axes are never out of bounds
    if not op.window_shape or op.mode in ("raise", "clip"):
        return gather(call.data, call.indices, op)
    modes, shape = op.modes, call.data.shape
    by_element = replace(op, kind=Kind.GATHER_ND, mode="raise", window_shape=())
    raising = [mode == "raise" for mode in modes]
    if op.fills:
        if any(raising):
            raise AttributeValueError(
                f"{call.caller}: mode = {op.mode!r} mixes raise and fill, which is not supported "
                f"for JAX arrays (allowed: raise or fill)"
            )
        by_element = replace(by_element, mode="fill")
    elif any(raising):  # an empty gather checks starts, so that errors name an entry of starts
        pairs = zip(op.window_shape, shape, raising, strict=False)
        sizes = tuple(wide if raises else min(wide, size) for wide, size, raises in pairs)
        empty = jnp.zeros((*shape[: len(sizes)], 0))
        starts = call.indices * np.array(raising, call.indices.dtype)
        gather(empty, starts, replace(op, mode="raise", window_shape=sizes))
    return gather(call.data, elements_of_windows(call.indices, op, shape), by_element)


def _scatter(call: Call, op: Operation) -> jax.Array:
    steps = _Steps(call.indices, op)
    arrays = call.data, call.updates
    result: jax.Array = reductions.in_steps(steps, *arrays, op.reduction, call.use_init_val)
    return result


@dataclass(frozen=True)
class _Steps(reductions.Steps):
    """The JAX functions that `reductions.in_steps` calls. All scatters use the same indices."""

    indices: jax.Array
    op: Operation

    cast, complex, real, imag, maximum = map(
        staticmethod,
        (jax.lax.convert_element_type, jax.lax.complex, jnp.real, jnp.imag, jnp.maximum),
    )

    def scatter(self, data: jax.Array, updates: jax.Array, reduction: str) -> jax.Array:
        return scatter(data, self.indices, updates, replace(self.op, reduction=reduction))

    def start(self, updates: jax.Array, reduction: str) -> jax.Array:
        identity = reductions.identity(np.dtype(updates.dtype), reduction)
        return jnp.broadcast_to(jnp.asarray(identity), updates.shape)

    def counts(self, array: jax.Array, count: int) -> jax.Array:
        return jnp.full(array.shape, count, jnp.int32)

    def wide(self, dtype: np.dtype[Any]) -> tuple[str, Any]:
        kind = dtypes.number_kind(np.dtype(dtype))
        if kind == "i":
            return kind, jnp.promote_types(dtype, jnp.uint32 if dtype.kind == "u" else jnp.int32)
        return kind, jnp.float64 if dtype.itemsize == 8 else jnp.float32

    def quotient(self, totals: jax.Array, counts: jax.Array, where: jax.Array) -> jax.Array:
        # If a divisor is broadcast, XLA replaces the division with an inexact product.
        # Under vmap, `where` keeps the values but expands the counts, which prevents replacement.
        counts = jnp.where(totals == totals, counts, abs(counts))  # noqa: PLR0124
        quotients: jax.Array = super().quotient(totals, counts, where)
        return quotients


def _run_widened(call: Call, op: Operation) -> jax.Array:
    """Convert elements smaller than a byte to a wider dtype, and run the call."""
    dtype = np.dtype(call.data.dtype)
    floats = dtype == "float4_e2m1fn"
    wide = np.dtype(jnp.float32 if floats else jnp.int8 if "u" not in dtype.name else jnp.uint8)
    fill = np.frombuffer(op.fill, dtype).astype(wide).tobytes() if op.fill else b""
    op = replace(op, fill=fill)
    call = replace(call, data=call.data.astype(wide))
    if not op.scatters:
        return _gather(call, op)
    return _scatter(replace(call, updates=call.updates.astype(wide)), op)
