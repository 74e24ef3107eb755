"""Memory-mapped arrays: the core works on the mapping, with the advice that suits the points.

Nothing is copied before a call. A scatter in place writes to the mapping and does not flush it.
"""

from __future__ import annotations

import mmap
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import slow_path
from ndgather.stored.chunks import Grid, box_shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ndgather.array_call import Call
    from ndgather.stored.chunks import Array, Buffers, Chunk

# Reading a page alone takes as long as reading this much in a row: 0.09 ms of a virtual disk with
# 1.3 GB/s. So with fewer pages than this, reading ahead only reads what nobody asked for.
_READ_AHEAD_BYTES = 128 * 1024


def run(call: Call) -> Any:
    """Carry out a call with a memory-mapped array; the result is a plain array."""
    data = call.data
    plain = replace(
        call,
        data=_plain(data),
        indices=_plain(call.indices),
        updates=_plain(call.updates),
        out=_plain(call.out),
    )
    with _advised(data, plain):
        result = slow_path.run(plain)
    return result if call.out is None else call.out


def reader(array: np.memmap[Any, Any]) -> Pages:
    """Return a mapping as the pages that the system reads of it."""
    return Pages(array)


writer = reader


class Pages:
    """The pages of a mapping, as far as its axes can be cut there.

    Calls work on the mapping itself; `estimate` counts pages.
    """

    in_flight = 1

    def __init__(self, array: np.memmap[Any, Any]) -> None:
        self.array = array
        self.name = str(array.filename)
        self.dtype = array.dtype
        turned = array.flags.f_contiguous and not array.flags.c_contiguous
        order = slice(None, None, -1 if turned else 1)
        box = box_shape(array.shape[order], self.dtype.itemsize, mmap.PAGESIZE)
        self.grid = Grid.regular(array.shape, box[order])
        self.chunk_bytes = self.stored_bytes = self.dtype.itemsize * prod(self.grid.largest)

    def stored_size(self, chunk: Chunk) -> int:
        return int(self.dtype.itemsize * prod(self.grid.extent(chunk)))

    def read(self, chunk: Chunk, buffers: Buffers) -> Array:
        del buffers
        part: Array = _plain(self.array)[self.grid.box(chunk)]
        return part


def _plain(value: Any) -> Any:
    """Return a memory-mapped array as a plain one with the same memory."""
    return np.ndarray.view(value, np.ndarray) if isinstance(value, np.memmap) else value


@contextmanager
def _advised(data: Any, call: Call) -> Iterator[None]:
    """Tell the kernel not to read ahead meanwhile, if few pages of `data` are touched."""
    mapped = _mapping(data)
    windows = call.kind == "gather_windows"  # each of many rows
    sparse = mapped is not None and not windows and _pages(call) * _READ_AHEAD_BYTES < data.nbytes
    if mapped is None or not sparse:
        yield
        return
    mapped.madvise(mmap.MADV_RANDOM)
    try:
        yield
    finally:
        mapped.madvise(mmap.MADV_NORMAL)


def _mapping(data: Any) -> mmap.mmap | None:
    """Return what a memory-mapped array is a view of, where the system takes advice."""
    base: object = data if isinstance(data, np.memmap) and hasattr(mmap.mmap, "madvise") else None
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, mmap.mmap) else None


def _pages(call: Call) -> int:
    """Return about how many pages a call touches, which is checked elsewhere."""
    data: Array = call.data
    indices = slow_path.native_indices(call.caller, call.indices)
    if call.kind.endswith("_nd"):
        depth = indices.shape[-1] if indices.ndim else 0
        count = prod(indices.shape[:-1])
        run_bytes = prod(data.shape[depth:]) * data.itemsize
    else:
        count, run_bytes = indices.size, data.itemsize
    return count * (1 + run_bytes // mmap.PAGESIZE)
