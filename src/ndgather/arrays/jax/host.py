"""A call on NumPy arrays: what Python does when XLA calls it back, and what names an error."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import reductions
from ndgather.array_call import Call
from ndgather.explain import explain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgather.arrays.jax.operation import Operation

    Array = NDArray[Any]


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
        call = replace(call, data=_windows(call.data, op.window, op.lead))
    result = call.run()
    if not isinstance(result, tuple):
        return result
    if result[0] != "out_of_bounds":
        raise explain(call, result)
    position, value, axis, size, lowest, count, total = result[1]
    repeated = [d for d in range(op.lead) if indices.shape[d] == 1]
    times = int(np.prod([lead[d] for d in repeated]))
    where = tuple(at for d, at in enumerate(position) if d not in repeated)
    facts = (where, value, axis - op.skip, size, lowest, count // times, total // times)
    if op.window:
        call = replace(call, kind="gather_windows", window_shape=op.window)
    raise explain(call, ("out_of_bounds", facts, *result[2:]))


def _windows(data: Array, window: tuple[int, ...], lead: int) -> Array:
    """Return a view: behind the axes of vmap are where a window may begin, then what it holds."""
    depth = len(window)
    axes = tuple(range(lead, lead + depth))
    view = np.lib.stride_tricks.sliding_window_view(data, window, axis=axes)
    return np.moveaxis(view, range(-depth, 0), range(lead + depth, lead + 2 * depth))
