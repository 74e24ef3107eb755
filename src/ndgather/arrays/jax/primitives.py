"""The two operations as JAX knows them: their shapes, and who carries them out where."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir

from ndgather import reductions
from ndgather.array_call import _core
from ndgather.arrays.jax import operation
from ndgather.arrays.jax.operation import HANDLER

if TYPE_CHECKING:
    from collections.abc import Callable

    from ndgather.arrays.jax.operation import Operation

TARGET = "ndgather"

gather_p = Primitive("ndgather_gather")
scatter_p = Primitive("ndgather_scatter")

if HANDLER is not None:
    jax.ffi.register_ffi_target(TARGET, HANDLER, platform="cpu")


def _shape_of_gather(data: Any, indices: Any, *, op: Operation) -> Any:
    return data.update(shape=op.slices_shape(data.shape, indices.shape), weak_type=False)


def _shape_of_scatter(data: Any, *_: Any, op: Operation) -> Any:
    return data.update(weak_type=False)


def _called_back(*arrays: jax.Array, op: Operation) -> jax.Array:
    """Let Python carry out the operation."""
    data, indices, *rest = arrays
    shape = data.shape if op.scatters else op.slices_shape(data.shape, indices.shape)
    result = jax.ShapeDtypeStruct(shape, data.dtype)

    def call(*given: Any) -> Any:
        return operation.run(op, *map(np.asarray, given[:3]))

    return jax.pure_callback(call, result, data, indices, *rest[:1], vmap_method=None)


def _attributes(op: Operation) -> dict[str, Any]:
    """Return what the handler reads by name."""
    return {
        "kind": np.int64(_core.KINDS.index(op.kind)),
        "mode": np.int64(_core.GATHER_MODES.index(op.mode)),
        "reduction": np.int64(_core.REDUCTIONS.index(op.reduction)),
        "axis": np.int64(op.axis),
        "batch_dims": np.int64(op.batch_dims),
        "lead": np.int64(op.lead),
        "skip": np.int64(op.skip),
        "negative": op.negative,
        "window": np.array(op.window, np.int64),
        "fill": np.frombuffer(op.fill, np.uint8),
        "caller": op.caller,
    }


def _lower_on_cpu(ctx: Any, *operands: Any, op: Operation) -> Any:
    if op.route == "handler":
        aliases = {0: 0} if op.scatters else None  # XLA copies data where it is used again
        rule = jax.ffi.ffi_lowering(TARGET, operand_output_aliases=aliases)
        return rule(ctx, *operands, **_attributes(op))
    # What is exported may run where Python does not.
    exports = ctx.module_context.lowering_parameters.for_export
    composed = _called_back if op.route == "callback" and not exports else _native(op)
    return mlir.lower_fun(composed, multiple_results=False)(ctx, *operands, op=op)


def _lower_elsewhere(ctx: Any, *operands: Any, op: Operation) -> Any:
    return mlir.lower_fun(_native(op), multiple_results=False)(ctx, *operands, op=op)


def _native(op: Operation) -> Callable[..., jax.Array]:
    return operation.scatter if op.scatters else operation.gather


@lru_cache(maxsize=1024)
def _compiled(op: Operation) -> Any:
    primitive = scatter_p if op.scatters else gather_p
    return jax.jit(lambda *arrays: primitive.bind(*arrays, op=op))


def _run(*arrays: Any, op: Operation) -> jax.Array:
    """Carry out an operation outside of jit; a bad index raises our exception at once."""
    result, failed = None, None
    try:
        result = _compiled(op)(*arrays)
        if op.mode != "fill":
            result.block_until_ready()
    except (ValueError, RuntimeError) as error:  # as JAX raises what a handler or callback refuses
        failed = error
    if failed is not None or (_was_unchecked(op, result) and _has_outside(*arrays[:2], op)):
        operation.run(op, *map(np.asarray, arrays[:3]))
    if failed is not None:
        raise failed
    return result


def _was_unchecked(op: Operation, result: jax.Array) -> bool:
    """Whether XLA itself carried out the operation, or left it out as the result is empty."""
    if op.mode == "fill":
        return False
    on_cpu = all(each.platform == "cpu" for each in result.devices())
    return op.route == "native" or result.size == 0 or not on_cpu


@partial(jax.jit, static_argnums=2)
def _has_outside(data: jax.Array, indices: jax.Array, op: Operation) -> jax.Array:
    return operation.any_outside(data.shape, indices, op)


for _primitive, _shape in ((gather_p, _shape_of_gather), (scatter_p, _shape_of_scatter)):
    _primitive.def_impl(_run)
    _primitive.def_abstract_eval(_shape)
    mlir.register_lowering(_primitive, _lower_elsewhere)
    mlir.register_lowering(_primitive, _lower_on_cpu, platform="cpu")


def gather(data: Any, indices: Any, op: Operation) -> jax.Array:
    result: jax.Array = gather_p.bind(data, indices, op=op)
    return result


def scatter(data: Any, indices: Any, updates: Any, op: Operation) -> jax.Array:
    """Apply an operation; types of one byte that C++ does not know bring a table of results."""
    dtype = np.dtype(data.dtype)
    table = reductions.for_core(dtype, op.reduction)
    more = () if table is None or isinstance(table, str) else (jax.numpy.asarray(table),)
    result: jax.Array = scatter_p.bind(data, indices, updates, *more, op=op)
    return result
