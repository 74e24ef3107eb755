"""What a call on a stored array would read and take, without reading any of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ndgather import array_call, dispatch, slow_path
from ndgather.array_call import Call, _core
from ndgather.errors import NdgatherError, option_errors, stored_errors
from ndgather.stored import calls
from ndgather.stored.plan import plan, with_data
from ndgather.stored.walk import workers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from ndgather.stored.calls import WindowPlan
    from ndgather.stored.chunks import Reader
    from ndgather.stored.plan import Plan, Steps

_OVERHEAD = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a call would read and take; bytes, but for the first two."""

    points: int  # positions that the indices name
    chunks: int  # that would be read, each once
    decoded_bytes: int  # of these chunks, at most
    stored_bytes: int  # of these chunks, where the store says so; else those decoded
    stored_is_known: bool  # whether the store says so
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
    window_shape: Sequence[int] | None = None,
    memory: int | str | None = None,
) -> Estimate:
    """Return what a call on a stored array would read and take; nothing of the array is read.

    The indices are checked as the call checks them, and grouped by chunk. How many bytes the chunks
    have as they are stored is asked of what tells it without a request for each chunk: local files,
    stores in memory, the indices of shards and of HDF5 files; a memory map is read in pages. Of
    other arrays, such as zarr's without shards in a bucket and those of tensorstore, it is how many
    bytes they have decoded. With `T` threads and `n` points, the memory of a
    call is at most::

        result + 8 n + T (raw + stored) + in_flight * stored + 16 runs + 16 MiB

    where `raw` and `stored` are the bytes of the largest chunk, decoded and as it is stored, and
    runs are the touched chunks, each counted once for every block of points that are sorted
    together: 262,144, or a sixteenth of all if that is more. Positions have 28 bytes more while
    their block is sorted.

    Parameters
    ----------
    kind : {"gather_nd", "gather_elements", "gather", "gather_windows", "scatter_nd", \
"scatter_elements"}
        Which function would be called.
    data : stored array
        An array of zarr, tensorstore or h5py, or a memory map.
    indices, axis, batch_dims, mode, window_shape, memory
        The arguments of that function; the starts of windows are its indices.

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
    call = _call(kind, data, indices, axis, batch_dims, mode, window_shape, memory)
    reader = reader_of(call)
    grid = reader.grid
    call = with_data(call, grid, reader.dtype)
    made: Plan | WindowPlan
    if kind == "gather_windows":
        made = calls.plan_windows(call, grid)
        points, count = made.parts.points, math.prod(made.call.indices.shape[:-1])
    else:
        made = plan(call, grid)
        points, count = made.points, len(made.points.positions)
    steps = len(made.steps)
    dense = math.prod(made.dense_shape) * reader.dtype.itemsize
    reading, decoding = workers(call, reader, steps)
    held = sum(
        each.nbytes
        for each in (points.local, points.positions, points.chunks, points.starts, points.stops)
    )
    buffers = decoding * (reader.chunk_bytes + reader.stored_bytes) + reading * reader.stored_bytes
    decoded = steps * reader.chunk_bytes
    stored = _stored_bytes(reader, made.steps)
    return Estimate(
        points=count,
        chunks=steps,
        decoded_bytes=decoded,
        stored_bytes=decoded if stored is None else stored,
        stored_is_known=stored is not None,
        result_bytes=dense,
        memory_bytes=(0 if call.scatters else dense) + held + buffers + _OVERHEAD,
    )


def _call(
    kind: str,
    data: Any,
    indices: ArrayLike,
    axis: int,
    batch_dims: int,
    mode: str,
    window_shape: Sequence[int] | None,
    memory: int | str | None,
) -> Call:
    caller = "estimate"
    if kind not in _core.KINDS:
        raise option_errors.unknown_choice(caller, "kind", kind, _core.KINDS)
    call = Call(
        caller, kind, data, indices, axis=axis, batch_dims=batch_dims, mode=mode, memory=memory
    )
    if kind == "gather_windows":
        sizes = slow_path.sizes(caller, "window_shape", window_shape)
        call = replace(call, window_shape=sizes, negative=False)
    return array_call.checked(call)


def reader_of(call: Call) -> Reader:
    """Return what reads the stored array of a call.

    Raises
    ------
    NdgatherError
        Its data is not stored.
    """
    module = dispatch.adapter_name(call.data)
    adapter = None if module is None else import_module(module)
    opened = getattr(adapter, "writer" if call.scatters else "reader", None)
    if opened is None:
        raise stored_errors.not_stored(call.caller, call.data)
    try:
        reader: Reader = opened(call.data)
    except (NdgatherError, MemoryError):
        raise
    except Exception as error:  # a group, or of a file that was closed
        raise stored_errors.not_stored(call.caller, call.data) from error
    return reader


def _stored_bytes(reader: Reader, steps: Steps) -> int | None:
    """Return the bytes of all chunks as they are stored; None where the store does not say."""
    size_of = getattr(reader, "stored_size", None)
    if size_of is None:
        return None
    total = 0
    for step in range(len(steps)):
        size = size_of(steps.chunk(step))
        if size is None:
            return None
        total += size
    return total
