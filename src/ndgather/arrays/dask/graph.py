"""Graphs of dask: keys of blocks, and arrays made of graphs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from dask.array import zeros
from dask.array.core import Array as DaskArray
from dask.array.core import normalize_chunks
from dask.highlevelgraph import HighLevelGraph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndgather.arrays.dask.layout import Chunks, Coordinates, Layout, Region

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
