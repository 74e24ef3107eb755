"""Gathers and scatters made of XLA's own: for GPUs and TPUs.

No index value can raise there. Under mode raise, a slice that a bad value names is filled with
what JAX fills with (NaN, or the least or greatest integer), and such an update is dropped.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ndgather import array_call, messages, reductions
from ndgather.array_call import Call, Refusal, _core
from ndgather.slow_path import explain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]


_METHODS = {"none": "set", "add": "add", "sub": "add", "mul": "mul", "min": "min", "max": "max"}


def gather(data: jax.Array, indices: jax.Array, *, op: Operation) -> jax.Array:
    if op.window:
        indices = expanded(indices, op, data.shape)
    filled = np.frombuffer(op.fill, data.dtype)[0] if op.fill else np.zeros((), data.dtype)
    if data.size == 0:
        return jnp.full(op.slices_shape(data.shape, indices.shape), filled)
    data, key = _indexed(data, indices, op)
    return data.at[key].get(mode="fill", fill_value=None if op.mode == "raise" else filled)


def scatter(
    data: jax.Array, indices: jax.Array, updates: jax.Array, *_: jax.Array, op: Operation
) -> jax.Array:
    shape = data.shape
    if data.size == 0 or updates.size == 0:
        return data
    data, key = _indexed(data, indices, op)
    if data.dtype == bool and op.reduction != "none":
        return _reduce_booleans(data, key, updates, op.reduction).reshape(shape)
    updates = -updates if op.reduction == "sub" else updates
    method = getattr(data.at[key], _METHODS[op.reduction])
    result: jax.Array = method(updates, mode="drop").reshape(shape)
    return result


def _reduce_booleans(data: Any, key: Any, updates: Any, reduction: str) -> Any:
    """Or, exclusive or, and."""
    counts, bits = data.astype(jnp.int32).at[key], updates.astype(jnp.int32)
    if reduction == "sub":
        return counts.add(bits, mode="drop") % 2 != 0
    method = counts.max if reduction in ("add", "max") else counts.min
    return method(bits, mode="drop") != 0


def any_outside(shape: Sequence[int], indices: jax.Array, op: Operation) -> jax.Array:
    """Return whether an entry of indices is outside of its axis."""
    if op.kind.endswith("_nd"):
        columns = [(indices[..., c], op.batch_dims + c) for c in range(indices.shape[-1])]
    else:
        columns = [(indices, op.axis)]
    found = jnp.zeros((), bool)
    for d, (values, axis) in enumerate(columns):
        size = shape[axis] if not op.window else shape[axis] - op.window[d] + 1
        found |= (resolved(values, size, op.mode, negative=op.negative) == size).any()
    return found


def expanded(starts: jax.Array, op: Operation, shape: Sequence[int]) -> jax.Array:
    """Return the index tuples of all positions in the windows at `starts`."""
    first = op.lead
    sizes = shape[first : first + len(op.window)]
    begins = [max(size - wide + 1, 0) for size, wide in zip(sizes, op.window, strict=True)]
    columns = [
        resolved(starts[..., d], begin, op.mode, negative=False, outside=max(sizes))
        for d, begin in enumerate(begins)
    ]
    return positions(jnp.stack(columns, axis=-1), op.window)


def positions(starts: jax.Array, window: tuple[int, ...]) -> jax.Array:
    """Return every position in windows: ``shape (N..., *window, k)``."""
    depth, wide = len(window), jnp.dtype(jnp.int32 if starts.dtype.itemsize <= 4 else jnp.int64)
    if starts.dtype.kind == "u" and starts.dtype.itemsize >= 4:
        starts = jnp.minimum(starts, np.iinfo(wide).max)
    starts = starts.astype(wide)  # so that the end of a window beyond all axes is negative
    within = np.stack([*np.indices(window)], axis=-1).astype(starts.dtype)
    return starts[(..., *(None,) * depth, slice(None))] + within


def resolved(
    values: jax.Array, size: int, mode: str, *, negative: bool, outside: int | None = None
) -> jax.Array:
    """Return index values in ``0..size-1``, or what is outside of the axis."""
    wide = jnp.dtype(jnp.int32 if values.dtype.itemsize <= 4 else jnp.int64)
    if values.dtype.kind == "u" and values.dtype.itemsize >= 4:
        most = np.iinfo(wide).max
        values = values % max(size, 1) if mode == "wrap" else jnp.minimum(values, most)
    values = values.astype(wide)
    outside = size if outside is None else outside
    if mode == "clip":
        inside = jnp.clip(values, 0, size - 1)
    elif mode == "wrap":
        inside = values % max(size, 1)
    else:
        inside = jnp.where(values < 0, values + size, values) if negative else values
        inside = jnp.where((inside < 0) | (inside >= size), outside, inside)
    return inside if size else jnp.full_like(values, outside)


def _indexed(data: jax.Array, indices: jax.Array, op: Operation) -> tuple[jax.Array, Any]:
    """Return data and a key such that ``data[key]`` are the slices; data may get one more axis."""

    def along(axis: int, rank: int, count: int | None = None) -> Any:
        """Return the positions on an axis that the operation does not index."""
        shape = tuple(-1 if d == axis else 1 for d in range(rank))
        size = data.shape[axis] if count is None else count
        return jnp.arange(size, dtype=jnp.int32).reshape(shape)

    def column(values: jax.Array, axis: int) -> jax.Array:
        return resolved(values, data.shape[axis], op.mode, negative=op.negative)

    if op.kind.endswith("_elements"):
        rank, counts = indices.ndim, (*(None,) * op.lead, *indices.shape[op.lead :])
        key = [along(d, rank, counts[d]) for d in range(rank)]
        key[op.axis] = column(indices, op.axis)
        return data, tuple(key)
    if op.kind == "gather" and op.batch_dims == 0:
        return data, (*(slice(None),) * op.axis, column(indices, op.axis))
    if op.kind == "gather":
        b, a = op.batch_dims, op.axis
        rank = a + indices.ndim - b
        values = indices.reshape(*indices.shape[:b], *(1,) * (a - b), *indices.shape[b:])
        return data, (*(along(d, rank) for d in range(a)), column(values, a))
    rank, depth = indices.ndim - 1, indices.shape[-1]
    key = [along(d, rank) for d in range(op.batch_dims)]
    key += [column(indices[..., c], op.batch_dims + c) for c in range(depth)]
    if depth == 0:  # the index tuples name nothing, but there are as many slices
        return data[None], (jnp.zeros(indices.shape[:-1], jnp.int32), *key)
    return data, tuple(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What is done with data, indices and updates. Axes count from 0, those of vmap included."""

    caller: str  # the name that error texts begin with
    kind: str  # one of _core.KINDS
    axis: int = 0
    batch_dims: int = 0
    mode: str = "raise"  # drop is fill
    reduction: str = "none"
    negative: bool = True  # whether negative index values count from the end
    fill: bytes = b""  # the element for mode fill; none are zeros
    window: tuple[int, ...] = ()  # of a gather_nd whose slices are windows
    lead: int = 0  # so many leading axes are of vmap: an array of size 1 there is repeated
    skip: int = 0  # so many axes of data are none of the caller's
    route: str = "handler"  # who carries it out on a CPU; see routes.py

    @property
    def scatters(self) -> bool:
        return self.kind.startswith("scatter")

    def batched(self) -> Operation:
        """Return the operation on arrays that have one more axis of vmap in front."""
        return replace(
            self,
            axis=self.axis + 1,
            batch_dims=self.batch_dims + 1,
            lead=self.lead + 1,
            skip=self.skip + 1,
        )

    def slices_shape(self, data: Sequence[Any], indices: Sequence[Any]) -> tuple[Any, ...]:
        """Return the shape of the slices that indices name, for shapes that fit."""
        lead = tuple(
            in_data if of_indices == 1 else of_indices
            for in_data, of_indices in zip(data[: self.lead], indices[: self.lead], strict=True)
        )
        if self.kind.endswith("_elements"):
            return (*lead, *indices[self.lead :])
        if self.kind == "gather":
            outer = (*lead, *data[self.lead : self.axis])
            return (*outer, *indices[self.batch_dims :], *data[self.axis + 1 :])
        rest = data[self.batch_dims + indices[-1] :]
        return (*lead, *indices[self.lead : -1], *self.window, *rest)


ROUTES = ("handler", "callback", "native")


def usable(handler: tuple[Any, int, int] | None) -> Any:
    """Return a handler, if XLA takes it: a newer one would keep JAX from starting at all.

    A handler comes with the version of the interface that it was built for, and the installed
    jaxlib has its own version in its headers.
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


def _checked(name: str, value: str) -> str:
    if value not in _AVAILABLE:
        raise messages.unknown_choice("arrays.jax", name, value, _AVAILABLE)
    return value


_route = _checked("NDGATHER_JAX_ROUTE", os.environ.get("NDGATHER_JAX_ROUTE", _AVAILABLE[0]))


def get_route() -> str:
    """Return who carries out calls on a CPU; see `set_route`."""
    return _route


def set_route(route: str) -> None:
    """Choose who carries out the calls that JAX traces from now on, where they run on a CPU.

    The environment variable ``NDGATHER_JAX_ROUTE`` chooses it before the first call.

    Parameters
    ----------
    route : {"handler", "callback", "native"}
        ``handler`` is the function of the core that XLA calls, where the core was built with it;
        ``callback`` is `jax.pure_callback`, which calls the core through Python; ``native`` are
        the gather and scatter of XLA, as on a GPU or TPU.

    Raises
    ------
    AttributeValueError
        `route` is none of them, or the core has no handler for the installed jaxlib.

    Examples
    --------
    >>> from ndgather.arrays.jax import get_route, set_route
    >>> before = get_route()
    >>> set_route("native")
    >>> get_route()
    'native'
    >>> set_route(before)
    """
    global _route  # noqa: PLW0603 - one setting for the process, as settings.py has them
    _route = _checked("route", route)


def run(op: Operation, data: Array, indices: Array, updates: Array | None = None) -> Array:
    """Return the result of an operation.

    Raises
    ------
    IndexOutOfBoundsError
        An entry of `indices` is out of bounds. It names what is the caller's of it: not the axes
        of vmap over other arrays.
    """
    shape = op.slices_shape(data.shape, indices.shape)
    lead = data.shape[: op.lead] if op.scatters else shape[: op.lead]
    fill = np.frombuffer(op.fill, data.dtype)[0, ...] if op.fill else None
    call = Call(
        op.caller,
        op.kind,
        np.broadcast_to(data, (*lead, *data.shape[op.lead :])),
        np.broadcast_to(indices, (*lead, *indices.shape[op.lead :])),
        axis=op.axis,
        batch_dims=op.batch_dims,
        mode="drop" if op.scatters and op.mode == "fill" else op.mode,
        reduction=op.reduction,
        fill_value=fill,
        negative=op.negative,
    )
    if updates is not None:
        call = replace(
            call,
            updates=np.broadcast_to(updates, (*lead, *updates.shape[op.lead :])),
            arithmetic=reductions.for_core(data.dtype, op.reduction),
        )
    if op.window:
        call = replace(call, kind="gather_windows", window_shape=op.window)
    result = call.run()
    if not isinstance(result, Refusal):
        return result
    if result.rule != "out_of_bounds":
        raise explain(call, result)
    position, value, axis, size, lowest, count, total = result.facts
    repeated = [d for d in range(op.lead) if indices.shape[d] == 1]
    times = int(np.prod([lead[d] for d in repeated]))
    where = tuple(at for d, at in enumerate(position) if d not in repeated)
    facts = (where, value, axis - op.skip, size, lowest, count // times, total // times)
    raise explain(call, array_call.refusal("out_of_bounds", facts))
