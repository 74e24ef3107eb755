"""zarr arrays of formats 2 and 3, sharded too, in any store of zarr.

The objects of a store are read and decoded here as long as every codec is known; other arrays are
read as ``z[...]`` reads them. All are written as ``z[...] = values`` writes them.
"""

from __future__ import annotations

from math import prod
from operator import eq
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr

from ndgather.stored import calls
from ndgather.stored.chunks import Grid
from ndgather.stored.zarr.known import known_chunks
from ndgather.stored.zarr.objects import objects_of

if TYPE_CHECKING:
    from ndgather.array_call import Call
    from ndgather.stored.chunks import Array, Buffers, Chunk


def run(call: Call) -> Any:
    """Carry out a call with a zarr array."""
    return calls.run(call, zarr.Array, reader, writer)


def reader(array: zarr.Array[Any]) -> ZarrReader:
    """Return what reads a zarr array chunk by chunk; of a shard its inner chunks."""
    return ZarrReader(array)


def writer(array: zarr.Array[Any]) -> ZarrWriter:
    """Return what reads and writes a zarr array shard by shard, or chunk by chunk."""
    return ZarrWriter(array)


class ZarrReader:
    """Reads the chunks of a zarr array."""

    whole_shards = False

    def __init__(self, array: zarr.Array[Any]) -> None:
        self.array = array
        self.name = str(array.store_path)
        self.dtype = np.dtype(array.dtype)
        objects = objects_of(array.store)
        self.in_flight = objects.in_flight
        try:
            chunks, shards = array.chunks, array.shards
        except NotImplementedError:  # chunks of unequal lengths, which zarr calls rectilinear
            sizes = "write_chunk_sizes" if self.whole_shards else "read_chunk_sizes"
            self.grid, self._known = Grid.of_sizes(getattr(array, sizes)), None
        else:
            whole = shards if self.whole_shards else None
            self.grid = Grid.regular(array.shape, whole or chunks)
            self._known = None if whole else known_chunks(array, objects)
        # Along each axis, the number of the chunk that the end of the array cuts; -1: none.
        self._cut = tuple(
            count - 1 if isinstance(step, int) and size % step else -1
            for count, step, size in zip(
                self.grid.counts, self.grid.steps, self.grid.shape, strict=True
            )
        )
        self.chunk_bytes = self.dtype.itemsize * prod(self.grid.largest)
        self.stored_bytes = self.chunk_bytes

    def __reduce__(self) -> Any:
        return type(self), (self.array,)

    def stored_size(self, chunk: Chunk) -> int | None:
        """Return the bytes of a chunk as it is stored; None where only a read says."""
        return None if self._known is None else self._known.size(chunk)

    def read(self, chunk: Chunk, buffers: Buffers) -> Array:
        if self._known is None:
            buffers.take_turn()
            return np.asarray(self.array[self.grid.box(chunk)])
        stored = self._known.stored(chunk, buffers)
        if stored is None:
            buffers.take_turn()
            return np.broadcast_to(self._known.fill_value, self.grid.extent(chunk))
        values = self._known.decoder.decode(stored, buffers)
        if any(map(eq, chunk, self._cut)):
            return values[tuple(map(slice, self.grid.extent(chunk)))]
        return values


class ZarrWriter(ZarrReader):
    """Reads and writes what a zarr array stores as one object."""

    whole_shards = True

    @property
    def writeable(self) -> bool:
        return not self.array.read_only

    def write(self, chunk: Chunk, values: Array) -> None:
        self.array[self.grid.box(chunk)] = values
