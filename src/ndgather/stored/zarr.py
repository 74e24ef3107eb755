"""zarr arrays, read as ``z[...]`` reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather.stored import calls
from ndgather.stored.chunks import Grid

if TYPE_CHECKING:
    import zarr

    from ndgather.array_call import Call
    from ndgather.stored.chunks import Array, Buffers, Chunk


def run(call: Call) -> Any:
    """Carry out a call whose data is a zarr array."""
    return calls.gather(call, reader(call.data))


def reader(array: zarr.Array[Any]) -> ZarrReader:
    """Return what reads a zarr array chunk by chunk."""
    dtype = np.dtype(array.dtype)
    grid = Grid.regular(array.shape, array.chunks)
    chunk_bytes = dtype.itemsize * int(np.prod(grid.largest, dtype=object))
    name = str(array.store_path)
    return ZarrReader(array, name, dtype, grid, chunk_bytes, chunk_bytes)


@dataclass(frozen=True, slots=True)
class ZarrReader:
    """Reads the chunks of a zarr array."""

    array: zarr.Array[Any]
    name: str
    dtype: np.dtype[Any]
    grid: Grid
    chunk_bytes: int
    stored_bytes: int
    in_flight: int = 1

    def read(self, chunk: Chunk, buffers: Buffers) -> Array:
        buffers.take_turn()
        return np.asarray(self.array[self.grid.box(chunk)])
