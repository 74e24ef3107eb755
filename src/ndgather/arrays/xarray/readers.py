"""Readers of what stands behind lazy variables, for the walk over chunks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from xarray.core import indexing

from ndgather.dispatch import adapter_name
from ndgather.stored.chunks import Grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndgather.stored.chunks import Array, Buffers, Chunk, Reader

_BOX_BYTES = 4 << 20  # of arrays that do not say how they are chunked


def reader(array: Any, chunks: Sequence[int] | None, name: str) -> Reader:
    """Return what reads a lazy array of xarray: its stored array itself, where that is known."""
    stored = _stored_array(array)
    adapter = None if stored is None else adapter_name(stored)
    if adapter is not None:
        found: Reader = import_module(adapter).reader(stored)
        return found
    dtype = np.dtype(array.dtype)
    if chunks is None or len(chunks) != len(array.shape):
        chunks = _box(array.shape, dtype.itemsize)
    grid = Grid.regular(array.shape, chunks)
    return BoxReader(array, name, dtype, grid, dtype.itemsize * math.prod(grid.largest))


def chunks_of(variable: Any) -> Sequence[int] | None:
    """Return the shape of the chunks that a variable was read from, as backends note it."""
    found: Any = variable.encoding.get("chunksizes") or variable.encoding.get("chunks")
    return found if isinstance(found, tuple) else None


def _stored_array(array: Any) -> Any:
    """Return the zarr array or HDF5 data set behind a backend of xarray, if it is just that."""
    get_array = getattr(array, "get_array", None)
    if get_array is None or np.dtype(array.dtype).kind == "O":
        return None
    stored = get_array()
    stored = getattr(stored, "_h5ds", stored)
    alike = stored.shape == array.shape and stored.dtype == array.dtype
    return stored if alike else None


def _box(shape: Sequence[int], itemsize: int) -> list[int]:
    """Return the shape of boxes of bounded size: whole along the last axes."""
    box, left = [1] * len(shape), max(1, _BOX_BYTES // itemsize)
    for axis in reversed(range(len(shape))):
        box[axis] = max(1, min(shape[axis], left))
        left //= box[axis]
    return box


@dataclass(frozen=True, slots=True)
class BoxReader:
    """Reads boxes of any array of xarray by its own indexing."""

    array: Any
    name: str
    dtype: np.dtype[Any]
    grid: Grid
    chunk_bytes: int
    in_flight: int = 1

    @property
    def stored_bytes(self) -> int:
        return self.chunk_bytes

    def read(self, chunk: Chunk, buffers: Buffers) -> Array:
        buffers.take_turn()
        taken = self.array[indexing.BasicIndexer(self.grid.box(chunk))]
        if isinstance(taken, indexing.ExplicitlyIndexed):
            taken = taken.get_duck_array()  # type: ignore[no-untyped-call]
        return np.asarray(taken, self.dtype)


@dataclass(frozen=True, slots=True)
class MovedReader:
    """Reads an array with its axes in another order."""

    reader: Reader
    order: tuple[int, ...]  # of axes of the array

    @property
    def name(self) -> str:
        return self.reader.name

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.reader.dtype

    @property
    def grid(self) -> Grid:
        return self.reader.grid.along(self.order)

    @property
    def chunk_bytes(self) -> int:
        return self.reader.chunk_bytes

    @property
    def stored_bytes(self) -> int:
        return self.reader.stored_bytes

    @property
    def in_flight(self) -> int:
        return self.reader.in_flight

    def read(self, chunk: Chunk, buffers: Buffers) -> Array:
        there = tuple(chunk[self.order.index(axis)] for axis in range(len(chunk)))
        return self.reader.read(there, buffers).transpose(self.order)
