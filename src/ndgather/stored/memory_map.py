"""Memory-mapped arrays, which the core reads and writes directly, without flushing them."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from ndgather import arguments, slow_path
from ndgather.array_call import Array, Call, replace
from ndgather.stored import ranges
from ndgather.stored.chunks import Buffers, Chunk, Grid, box_shape

# Reading a random page takes as long as reading this many contiguous bytes (0.09 ms at 1.3 GB/s).
_READ_AHEAD_BYTES = 128 * 1024


def run(call: Call) -> Any:
    data = call.data
    names = ("data", "indices", "updates", "out")
    plain = replace(call, **{name: _plain(getattr(call, name)) for name in names})
    with _advised(data, plain):
        result = slow_path.run(plain)
    return result if call.out is None else call.out


class Pages:
    """A reader and writer for boxes of a memory-mapped array; by default, a box fits in a page."""

    in_flight = 1

    def __init__(self, array: np.memmap[Any, Any], box_bytes: int = mmap.PAGESIZE) -> None:
        self.array = array
        self.name = str(array.filename)
        self.dtype = array.dtype
        turned = array.flags.f_contiguous and not array.flags.c_contiguous
        order = slice(None, None, -1 if turned else 1)
        box = box_shape(array.shape[order], self.dtype.itemsize, box_bytes)
        self.grid = Grid.regular(array.shape, box[order])
        self.chunk_bytes = self.stored_bytes = self.dtype.itemsize * prod(self.grid.largest)

    def stored_size(self, chunk: Chunk) -> int:
        return int(self.dtype.itemsize * prod(self.grid.extent(chunk)))

    def read(self, chunk: Chunk, buffers: Buffers) -> Array:
        del buffers
        part: Array = _plain(self.array)[self.grid.box(chunk)]
        return part

    @property
    def writeable(self) -> bool:
        return bool(self.array.flags.writeable)

    def write(self, chunk: Chunk, values: Array) -> None:
        _plain(self.array)[self.grid.box(chunk)] = values


reader = writer = Pages
run_ranges = ranges.run_ranges


def _plain(value: Any) -> Any:
    """Return a plain NumPy view of a memory-mapped array; return other values unchanged."""
    return np.ndarray.view(value, np.ndarray) if isinstance(value, np.memmap) else value


@contextmanager
def _advised(data: Any, call: Call) -> Iterator[None]:
    """Disable the kernel's read-ahead while a call reads only a few pages of `data`."""
    mapped = _mapping(data)
    # Read-ahead is useful for windows, because each window consists of many rows.
    if mapped is None or call.kind.windows or (_pages(call) * _READ_AHEAD_BYTES >= data.nbytes):
        yield
        return
    mapped.madvise(mmap.MADV_RANDOM)
    try:
        yield
    finally:
        mapped.madvise(mmap.MADV_NORMAL)


def _mapping(data: Any) -> mmap.mmap | None:
    """Return the mapping of a memory-mapped array, or None if `madvise` is not supported."""
    base: object = data if isinstance(data, np.memmap) and hasattr(mmap.mmap, "madvise") else None
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, mmap.mmap) else None


def _pages(call: Call) -> int:
    """Estimate how many pages a call will read, before its arguments have been checked."""
    data: Array = call.data
    indices = arguments.native_indices(call)
    if call.kind.tuples:
        depth = indices.shape[-1] if indices.ndim else 0
        count = prod(indices.shape[:-1])
        run_bytes = prod(data.shape[depth:]) * data.itemsize
    else:
        count, run_bytes = indices.size, data.itemsize
    return count * (1 + run_bytes // mmap.PAGESIZE)
