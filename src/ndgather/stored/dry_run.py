"""What a call on a stored array would read and take, without reading any of it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ndgather import call_options, dispatch
from ndgather.array_call import Call
from ndgather.compiled import _core
from ndgather.errors import NdgatherError, option_errors, stored_errors
from ndgather.stored.plan import plan, with_data
from ndgather.stored.walk import workers

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_OVERHEAD = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a call would read and take; bytes, but for the first two."""

    points: int  # positions that the indices name
    chunks: int  # that would be read, each once
    decoded_bytes: int  # of these chunks, at most
    stored_bytes: int  # of these chunks: an estimate
    result_bytes: int  # of the result of a gather, or the updates of a scatter
    memory_bytes: int  # that the call would take at most, the result of a gather included


def estimate(
    kind: str,
    data: Any,
    indices: ArrayLike,
    *,
    axis: int = 0,
    batch_dims: int = 0,
    mode: str = "raise",
    memory: int | str | None = None,
) -> Estimate:
    """Return what a call on a stored array would read and take; nothing of the array is read.

    The indices are checked as the call checks them, and grouped by chunk. With `T` threads and `n`
    points, the memory of a call is at most::

        result + 8 n + T (raw + stored) + in_flight * stored + 16 runs + 16 MiB

    where `raw` and `stored` are the bytes of the largest chunk, decoded and as it is stored, and
    runs are the touched chunks, each counted once for every block of points that are sorted
    together: 262,144, or a sixteenth of all if that is more. Positions have 28 bytes more while
    their block is sorted.

    Parameters
    ----------
    kind : {"gather_nd", "gather_elements", "gather", "scatter_nd", "scatter_elements"}
        Which function would be called.
    data : stored array
        An array of zarr, tensorstore or h5py, or a memory map.
    indices, axis, batch_dims, mode, memory
        The arguments of that function.

    Returns
    -------
    Estimate

    Raises
    ------
    NdgatherError
        The call would be refused, or `data` is not stored.

    Examples
    --------
    >>> import numpy as np
    >>> import zarr
    >>> from ndgather.stored import estimate
    >>> z = zarr.create_array(store={}, shape=(100, 100), chunks=(10, 10), dtype="f4")
    >>> found = estimate("gather_nd", z, [[3, 4], [5, 6], [99, 99]])
    >>> found.points, found.chunks, found.decoded_bytes
    (3, 2, 800)
    """
    caller = "estimate"
    if kind not in _core.KINDS:
        raise option_errors.unknown_choice(caller, "kind", kind, _core.KINDS)
    call = call_options.checked(
        Call(
            caller, kind, data, indices, axis=axis, batch_dims=batch_dims, mode=mode, memory=memory
        )
    )
    module = dispatch.adapter_name(data)
    adapter = None if module is None else import_module(module)
    opened = getattr(adapter, "writer" if call.scatters else "reader", None)
    if opened is None:
        raise stored_errors.not_stored(caller, data)
    try:
        reader = opened(data)
    except (NdgatherError, MemoryError):
        raise
    except Exception as error:  # a group, or of a file that was closed
        raise stored_errors.not_stored(caller, data) from error
    grid = reader.grid
    made = plan(with_data(call, grid, reader.dtype), grid)
    points, itemsize = made.points, reader.dtype.itemsize
    dense = itemsize
    for size in made.dense_shape:
        dense *= size
    reading, decoding = workers(call, reader, made.steps)
    stored = reader.stored_bytes
    held = sum(
        each.nbytes
        for each in (points.local, points.positions, points.chunks, points.starts, points.stops)
    )
    buffers = decoding * (reader.chunk_bytes + stored) + reading * stored
    result = 0 if call.scatters else dense
    return Estimate(
        points=len(points.positions),
        chunks=made.steps,
        decoded_bytes=made.steps * reader.chunk_bytes,
        stored_bytes=made.steps * stored,
        result_bytes=dense,
        memory_bytes=result + held + buffers + _OVERHEAD,
    )
