"""Estimates of the cost of a call on a stored array, without reading the array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from ndgather import arguments, exchange, ranges
from ndgather.api import own_errors
from ndgather.array_call import Call, Kind
from ndgather.stored.chunks import Reader
from ndgather.stored.plan import StoredPlan, make_plan, with_data
from ndgather.stored.ranges import RangePlan
from ndgather.stored.walk import workers

_OVERHEAD = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The amounts of data that a call would read and allocate."""

    points: int  # the number of points that the indices select in data
    chunks: int  # the number of chunks that the call reads, each of them once
    decoded_bytes: int  # an upper bound for the decoded size of these chunks, in bytes
    stored_bytes: int  # the stored size, or `decoded_bytes` if the store does not report it
    stored_is_known: bool
    result_bytes: int  # the size of a gather's result or of a scatter's updates

    memory_bytes: int  # an upper bound for allocated memory, including a gather's result


@own_errors("estimate")
def estimate(
    kind: str,
    data: Any,
    indices: ArrayLike,
    *,
    axis: int = 0,
    batch_dims: int = 0,
    mode: str = "raise",
    window_shape: Sequence[int] | None = None,
    stops: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
    memory: int | str | None = None,
) -> Estimate:
    """Estimate how much a call on a stored array would read and allocate.

    The indices are checked and grouped by chunk exactly as in the call, but no chunk is read.
    Stored sizes are exact for local files, in-memory stores, shards and HDF5 files, where they can
    be determined without a request per chunk. For other arrays, such as tensorstore arrays or
    unsharded zarr arrays in a bucket, decoded sizes are used instead. The chunks of a memory map
    are its pages.

    Parameters
    ----------
    kind : {"gather_nd", "gather_elements", "gather", "gather_windows", \
"gather_ranges", "scatter_nd", "scatter_elements"}
        The function to estimate.
    data : stored array
        A zarr, tensorstore or h5py array, a memory map, or a lazy DataArray (memory that xarray
        allocates for decoding is not included). An array returned by `ndgather.cached` is treated
        as if its cache were empty.
    indices, axis, batch_dims, mode, window_shape, stops, lengths, memory
        The arguments of that function. For windows and ranges, `indices` are the starts.

    Returns
    -------
    Estimate

    Raises
    ------
    NdgatherError
        If the call would raise it or `data` is not a stored array.

    Notes
    -----
    With `T` threads and `n` points, a call allocates at most::

        result + 8 n + T (raw + stored) + in_flight * stored + 16 runs + 16 MiB

    `raw` and `stored` are the decoded and stored sizes of the largest chunk. Points are sorted in
    blocks of 262,144 points, or 1/16 of all points if that is more. `runs` is the number of chunks
    that a block touches, summed over all blocks. Sorting a block takes another 28 bytes per point.

    Examples
    --------
    >>> import numpy as np
    >>> import zarr
    >>> from ndgather.stored import estimate
    >>> z = zarr.create_array(store={}, shape=(100, 100), chunks=(10, 10), dtype="f4")
    >>> expected = estimate("gather_nd", z, [[3, 4], [5, 6], [99, 99]])
    >>> expected.points, expected.chunks, expected.decoded_bytes
    (3, 2, 800)
    """
    caller = "estimate"
    arguments.choice(caller, "kind", kind, (*Kind, "gather_ranges"))
    options: dict[str, Any] = {"axis": axis, "batch_dims": batch_dims, "mode": mode}
    chosen = Kind.GATHER if kind == "gather_ranges" else Kind(kind)
    if chosen.windows:
        options["window_shape"] = arguments.sizes(caller, "window_shape", window_shape)
    call = arguments.check_storage_options(
        Call(caller, chosen, data, indices, memory=memory, **options)
    )
    reader: Reader = exchange.opened(call)
    if kind != "gather_ranges":
        return estimate_of(call, reader)
    shape = reader.grid.shape
    call = ranges.with_axis(call, shape)
    named = ranges.read(caller, indices, stops, lengths, shape[call.axis])
    if not ranges.check(call, named, lengths is not None):
        return estimate_of(ranges.by_positions(call, named), reader)
    plan = RangePlan(reader.grid, call.axis, named)
    return _estimate(call, reader, plan, int(named.offsets[-1]))


def estimate_of(call: Call, reader: Reader) -> Estimate:
    plan = make_plan(with_data(call, reader.grid, reader.dtype), reader.grid)
    tuples = call.kind.tuples
    points = math.prod(plan.call.indices.shape[: -1 if tuples else None])
    return _estimate(call, reader, plan, points)


def _estimate(call: Call, reader: Reader, plan: StoredPlan | RangePlan, points: int) -> Estimate:
    steps = len(plan)
    dense = math.prod(plan.dense_shape) * reader.dtype.itemsize
    reading, decoding = workers(call, reader, steps)
    buffers = decoding * (reader.chunk_bytes + reader.stored_bytes) + reading * reader.stored_bytes
    decoded = steps * reader.chunk_bytes
    stored = _stored_bytes(reader, plan)
    return Estimate(
        points=points,
        chunks=steps,
        decoded_bytes=decoded,
        stored_bytes=decoded if stored is None else stored,
        stored_is_known=stored is not None,
        result_bytes=dense,
        memory_bytes=(0 if call.scatters else dense) + plan.nbytes + buffers + _OVERHEAD,
    )


def _stored_bytes(reader: Reader, plan: StoredPlan | RangePlan) -> int | None:
    """Return the total stored size of the plan's chunks, or None if it is unknown."""
    size_of = getattr(reader, "stored_size", None)
    if size_of is None:
        return None
    total = 0
    for step in range(len(plan)):
        size = size_of(plan.chunk(step))
        if size is None:
            return None
        total += size
    return total
