"""What the tasks of a graph do: functions of blocks, in whatever process they are run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from dask.array import zeros
from dask.array.core import Array as DaskArray
from dask.array.core import normalize_chunks
from dask.highlevelgraph import HighLevelGraph

from ndgather import slow_path
from ndgather.arrays.dask.layout import Points, Verdict, points_of
from ndgather.errors import IndexOutOfBoundsError, lazy_errors
from ndgather.stored.walk import Places, write_piece

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ndgather.array_call import Call
    from ndgather.arrays.dask.layout import (
        Chunks,
        Coordinates,
        Layout,
        PutParts,
        Region,
        TakenParts,
    )
    from ndgather.stored.plan import Axes

    Array = NDArray[Any]


def without_arrays(call: Call) -> Call:
    """Return the options of a call, for tasks that have the arrays."""
    return replace(call, data=None, indices=None, updates=None)


def plain(caller: str, argument: str, block: Any, shape: tuple[int, ...]) -> Array:
    """Return a block as a NumPy array, which has the shape that its chunk says."""
    array = np.asarray(block)
    if array.shape != shape:
        raise lazy_errors.block_shape(caller, argument, array.shape, shape)
    return array


def group(
    call: Call,
    sizes: Chunks,
    indexed: Sequence[int],
    start: Sequence[int],
    shape: tuple[int, ...],
    block: Any,
) -> Points | Verdict:
    """Group the points of a block of indices, or say which of its entries is bad."""
    indices = plain(call.caller, "indices", block, shape)
    try:
        return points_of(call, sizes, indexed, indices)
    except IndexOutOfBoundsError as error:
        return Verdict.of(error, start, indices.size)


def judge(points: Points | Verdict, seen: int) -> Verdict:
    """Return the verdict on a block of indices with so many entries, after they were grouped."""
    return points if isinstance(points, Verdict) else Verdict(seen)


def places(points: Points | Verdict, block: int) -> Places | None:
    """Return where the points of a block of data lie; None where indices are bad."""
    return None if isinstance(points, Verdict) else points.places(block)


def take(
    call: Call,
    axes: Axes,
    shape: tuple[int, ...],
    index_shape: Sequence[int],
    verdict: Verdict | None,
    block: Any,
    *asked: Places,
) -> list[Array]:
    """Return the values at some places of a block of data, a list for the regions that ask."""
    if verdict is not None:
        verdict.refuse(call, index_shape)
    view = axes.data_view(plain(call.caller, "data", block, shape))
    return [each.read(view) for each in asked]


def assemble(
    axes: Axes,
    shape: tuple[int, ...],
    fill: Array,
    points: Points,
    blocks: Sequence[int],
    values: Sequence[Array],
) -> Array:
    """Put the values that came from blocks of data at the positions of a region."""
    placed = sum(map(len, values))
    rank = len(axes.dense_positions)
    dense = np.empty(shape, fill.dtype)
    view = axes.dense_view(dense) if rank else dense[np.newaxis]
    if placed < math.prod(view.shape[: max(rank, 1)]):
        dense[...] = fill
    for block, each in zip(blocks, values, strict=True):
        write_piece(each, points.positions[points.of(block)], view)
    return dense


def whole(
    call: Call,
    data_shape: tuple[int, ...] | None,
    index_shape: tuple[int, ...],
    all_indices: Sequence[int],
    verdict: Verdict,
    data: Any,
    indices: Any,
) -> Array:
    """Gather from the one block of data that all positions of a region need."""
    verdict.refuse(call, all_indices)
    if data_shape is not None:
        data = plain(call.caller, "data", data, data_shape)
    indices = plain(call.caller, "indices", indices, index_shape)
    return slow_path.run(replace(call, data=data, indices=indices))


def check(
    call: Call, sizes: Chunks, start: Sequence[int], shape: tuple[int, ...], block: Any
) -> Verdict:
    """Look for the first bad entry of a block of indices."""
    found = group(call, sizes, (), start, shape, block)
    return judge(found, math.prod(shape))


def positions(points: Points | Verdict, block: int) -> Array | None:
    """Return the positions that name places in a block of data; None where indices are bad."""
    return None if isinstance(points, Verdict) else points.positions[points.of(block)]


def pick(axes: Axes, asked: Array | None, updates: Any) -> Array | None:
    """Return the updates at some positions of a region."""
    if asked is None:
        return None
    view = axes.dense_view(np.asarray(updates))
    rank = len(axes.dense_positions)
    rows = view.reshape(math.prod(view.shape[:rank]), *view.shape[rank:])
    return rows[asked]


def apply(
    call: Call,
    shape: tuple[int, ...],
    index_shape: Sequence[int],
    verdict: Verdict | None,
    block: Any,
    asked: Sequence[Places],
    updates: Sequence[Array],
) -> Array:
    """Return a block of data after its updates, in the order in which they are given."""
    if verdict is not None:
        verdict.refuse(call, index_shape)
    data = plain(call.caller, "data", block, shape)
    indices = np.concatenate([each.coordinates() for each in asked])
    return slow_path.run(
        replace(
            call,
            kind="scatter_nd",
            mode="raise",
            data=data,
            indices=indices,
            updates=np.concatenate(list(updates)),
        )
    )


def take_parts(
    caller: str, shape: tuple[int, ...], block: Any, asked: Sequence[TakenParts]
) -> list[list[Array]]:
    """Return the parts of windows that lie in a block of data, for each region that asks."""
    data = plain(caller, "data", block, shape)
    return [each.read(data) for each in asked]


def assemble_parts(
    shape: tuple[int, ...],
    lead: int,
    fill: Array | None,
    dtype: np.dtype[Any],
    put: Sequence[PutParts],
    values: Sequence[Sequence[Array]],
) -> Array:
    """Put the parts that came from blocks of data into the windows of a region."""
    dense = np.empty(shape, dtype)
    if fill is not None:
        dense[...] = fill
    rows = dense.reshape(math.prod(shape[:lead]), *shape[lead:])
    for parts, each in zip(put, values, strict=True):
        parts.write(each, rows)
    return dense


Graph: TypeAlias = dict[Any, Any]


@dataclass(frozen=True, slots=True)
class StoredData:
    """Data that are stored: tasks read them, each what it needs."""

    array: Any
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        return len(self.shape)


def dask_array(
    name: str, graph: Graph, sources: Sequence[DaskArray], chunks: Chunks, dtype: np.dtype[Any]
) -> DaskArray:
    """Return the array that a graph on top of those of other arrays computes."""
    layers = HighLevelGraph.from_collections(name, graph, dependencies=[*sources])  # type: ignore[list-item]  # arrays are collections
    return DaskArray(layers, name, chunks, meta=np.empty((0,) * len(chunks), dtype))


def data_block(
    layout: Layout, name: str, aligned: Coordinates, block: int, copied: Coordinates
) -> tuple[Any, tuple[int, ...]]:
    """Return the key and the shape of a block of data; `block` counts along the indexed axes."""
    at = layout.data_block(aligned, block, copied)
    shape = tuple(sizes[number] for sizes, number in zip(layout.data_chunks, at, strict=True))
    return (name, *at), shape


def index_block(layout: Layout, name: str, region: Region) -> tuple[Any, tuple[int, ...]]:
    """Return the key and the shape of the block of indices that holds a region."""
    if layout.call.kind != "gather_nd":
        return (name, *region.coordinates), region.shape
    return (name, *region.coordinates, 0), (*region.shape, len(layout.indexed))


def auto_chunks(chunks: Chunks, free: Sequence[int], dtype: np.dtype[Any]) -> Chunks:
    """Return chunks cut along some axes, so that blocks are below dask's array.chunk-size."""
    shape = tuple(map(sum, chunks))
    if dtype.hasobject or not dtype.itemsize or not math.prod(shape):
        return chunks
    wanted = tuple("auto" if axis in free else sizes for axis, sizes in enumerate(chunks))
    return cast("Chunks", normalize_chunks(wanted, shape=shape, dtype=dtype))


def rechunked(array: DaskArray, chunks: Chunks) -> DaskArray:
    """Return an array in other chunks; dask leaves those of an array without elements alone."""
    if array.size or array.chunks == chunks:
        return cast("DaskArray", array.rechunk(chunks))
    return cast("DaskArray", zeros(array.shape, dtype=array.dtype, chunks=chunks))


def cut_indices(layout: Layout, indices: DaskArray) -> DaskArray:
    """Return indices in blocks that hold one region each, with whole tuples."""
    tuples = ((len(layout.indexed),),) if layout.call.kind == "gather_nd" else ()
    return rechunked(indices, (*layout.position_chunks, *tuples))
