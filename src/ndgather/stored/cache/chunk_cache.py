"""A least-recently-used cache of decoded chunks with a memory budget."""

from __future__ import annotations

import heapq
import mmap
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent import futures
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from math import prod
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from ndgather import arguments
from ndgather.array_call import Array, _core, with_padding
from ndgather.errors import AttributeValueError, NdgatherError
from ndgather.stored.chunks import Buffers, Chunk, Reader, stand_in

_MAPPED_BYTES = 1 << 17  # minimum size of chunks that are allocated with mmap
_PRIVATE: dict[str, int] = {}
if os.name == "posix":
    # If the system supports MAP_POPULATE, all pages are populated by a single system call.
    _PRIVATE["flags"] = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_POPULATE", 0)
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheInfo:
    """Statistics of a cache since its creation or last `clear`; a call counts a chunk only once."""

    hits: int  # the number of chunks that were found in the cache
    misses: int  # the number of chunks that were not found in the cache
    decodes: int  # the number of chunks that were read and decoded
    evictions: int  # the number of chunks that were dropped to stay within the budget
    chunks: int  # the number of chunks in the cache
    bytes: int  # the total size of these chunks, in bytes
    memory: int  # the memory budget, in bytes


class CachedChunk:
    """A decoded chunk in a cache, whose array of values is read-only."""

    __slots__ = ("number", "of", "own_use", "size", "values")

    def __init__(self, of: ArrayChunks, number: int, values: Array, size: int) -> None:
        self.of, self.number, self.values, self.size = of, number, values, size
        self.own_use = 0

    def use(self) -> int:
        self.own_use = _core.last_use(None, 0)
        return self.own_use

    @property
    def last_use(self) -> int:
        if self.of.table is None:
            return self.own_use
        return max(self.own_use, _core.last_use(self.of.table, self.number))


class ArrayChunks:
    """A reader that returns cached chunks and reads missing chunks from the array."""

    def __init__(self, cache: ChunkCache, open_reader: Callable[[], Reader]) -> None:
        self.cache, self._open_reader = cache, open_reader
        reader = open_reader()
        self.name, self.grid, self.dtype = reader.name, reader.grid, reader.dtype
        self.chunk_bytes, self.stored_bytes = reader.chunk_bytes, reader.stored_bytes
        self.in_flight = reader.in_flight
        self.stored_size = getattr(reader, "stored_size", None)
        self.data = stand_in(self.grid.shape, self.dtype)
        self.closed = False
        self.start_empty()
        self._reader: Reader | None = reader
        self.is_cleared = False
        cache.add(self)

    def __reduce__(self) -> Any:
        return itself, (self.reader,)  # other processes bypass the cache

    @property
    def reader(self) -> Reader:
        """The underlying reader, reopened after `forget_reader` or if its file was closed."""
        reader = self._reader
        if reader is None or not getattr(reader, "is_open", True):
            reader = self._reader = self._open_reader()
        return reader

    def forget_reader(self) -> None:
        """Discard the underlying reader, because its metadata may be outdated."""
        self._reader = None

    def opened_again(self, open_reader: Callable[[], Reader]) -> ArrayChunks:
        """Reopen the array and return `self`, or a new object if the grid or dtype has changed."""
        self._open_reader = open_reader
        with suppress(NdgatherError):  # the next read raises the error
            reader = None if self.closed else self._open_reader()
            self.is_cleared = False
            if reader and not (reader.grid.is_like(self.grid) and reader.dtype == self.dtype):
                return ArrayChunks(self.cache, self._open_reader)
        return self

    def start_empty(self) -> None:
        self.forget_reader()
        self.is_cleared = True
        grid, size = self.grid, self.dtype.itemsize
        self._largest = grid.largest
        is_plain = size > 0 and not self.dtype.hasobject
        # The core looks up points in this table if the grid is regular and has no Python objects.
        self.table = None
        if is_plain and grid.is_regular:
            lengths: Any = grid.chunk_lengths
            self.table = _core.chunk_table(grid.shape, lengths, size)
        self.kept: dict[int, CachedChunk] = {}
        self.reading: dict[int, futures.Future[Array | None]] = {}
        self.hits = self.misses = self.decodes = self.evictions = self.bytes = 0

    def number(self, chunk: Chunk) -> int:
        number = 0
        for at, length in zip(chunk, self.grid.counts, strict=True):
            number = number * length + at
        return number

    def chunks_at(self, numbers: Array) -> list[Chunk]:
        counts = self.grid.counts
        if not counts:
            return [()]
        at = np.unravel_index(numbers, counts)
        return [*zip(*(axis.tolist() for axis in at), strict=True)]

    def size_of(self, shape: tuple[int, ...]) -> int:
        """Return how many bytes the cache allocates for a chunk of the given shape."""
        return prod(shape[:1] + self._largest[1:]) * self.dtype.itemsize

    def put(self, number: int, values: Array | None) -> None:
        """Add a chunk to the core's lookup table, or remove the chunk if `values` is None."""
        if self.table is not None:
            _core.set_chunk(self.table, number, values)

    def read(self, chunk: Chunk, buffers: Buffers) -> Array:
        return self.cache.read(self, self.number(chunk), chunk, buffers)

    def decode(self, chunk: Chunk, buffers: Buffers) -> Array:
        values = self.reader.read(chunk, buffers)
        if values.shape != self.grid.extent(chunk) or values.dtype != self.dtype:
            raise ValueError(
                f"the chunk has {values.dtype} values of shape {values.shape} instead of "
                f"{self.dtype} values of shape {self.grid.extent(chunk)}"
            )
        return values

    def copy(self, values: Array) -> Array:
        """Return a copy of a chunk; truncated chunks get the same strides as whole chunks."""
        shape = values.shape[:1] + self._largest[1:]
        if self.dtype.hasobject:
            memory: Array = np.empty(shape, self.dtype)
        else:
            memory = _new_memory(self.size_of(values.shape)).view(self.dtype).reshape(shape)
        inside: Any = (*map(slice, values.shape), ...)
        kept: Array = memory[inside]
        with_padding(kept)[...] = with_padding(values)
        return kept


def itself(reader: Reader) -> Reader:
    """Return `reader`, so that unpickling a wrapper of a reader returns the reader itself."""
    return reader


def _new_memory(count: int) -> NDArray[np.uint8]:
    """Allocate `count` bytes; large allocations return to the system when they are freed."""
    if count < _MAPPED_BYTES:
        return np.empty(count, np.uint8)
    return np.frombuffer(mmap.mmap(-1, count, **_PRIVATE), np.uint8)


class ChunkCache:
    """A cache of decoded chunks that several arrays can share.

    Parameters
    ----------
    memory : int or str, default "512 MiB"
        The maximum size of all cached chunks. Chunks that are being decoded, up to a chunk per
        thread, are not included.

    See Also
    --------
    cached : Return an array that keeps its decoded chunks in memory.

    Notes
    -----
    In a forked process, all caches are initially empty. An unpickled cache is empty too.

    Examples
    --------
    >>> import zarr
    >>> import ndgather
    >>> cache = ndgather.ChunkCache("2 GiB")
    >>> u = zarr.create_array(store={}, shape=(100, 100), chunks=(10, 10), dtype="f4")
    >>> v = zarr.create_array(store={}, shape=(100, 100), chunks=(10, 10), dtype="f4")
    >>> u, v = ndgather.cached(u, cache=cache), ndgather.cached(v, cache=cache)
    >>> points = [[3, 4], [5, 6], [99, 99]]
    >>> _ = ndgather.gather_nd(u, points), ndgather.gather_nd(v, points)
    >>> cache.info().chunks, cache.info().bytes
    (4, 1600)
    """

    def __init__(self, memory: int | str = "512 MiB") -> None:
        self.memory: int = arguments.byte_count("ChunkCache", memory)
        self._arrays: WeakSet[ArrayChunks] = WeakSet()
        self._order: list[tuple[int, int, CachedChunk]]  # a heap of chunks, ordered by last use
        self._start_empty()
        _CACHES.add(self)

    def __reduce__(self) -> Any:
        return ChunkCache, (self.memory,)

    def __repr__(self) -> str:
        return f"<ChunkCache: {self._bytes} of {self.memory} bytes>"

    def info(self) -> CacheInfo:
        """Return usage statistics of the cache for all of its arrays."""
        with self._lock:
            return self._info(*self._arrays)

    def clear(self) -> None:
        """Drop all chunks and reset all counters; later calls reopen the stores."""
        with self._lock:
            for chunks in list(self._arrays):
                self._forget(chunks)

    def add(self, chunks: ArrayChunks) -> None:
        with self._lock:
            self._arrays.add(chunks)

    def array_info(self, chunks: ArrayChunks) -> CacheInfo:
        with self._lock:
            return self._info(chunks)

    def clear_array(self, chunks: ArrayChunks) -> None:
        """Drop all chunks of an array, even chunks that are being read, and reset its counters."""
        with self._lock:
            self._forget(chunks)

    def abandon(self, chunks: ArrayChunks) -> None:
        """Drop the chunks of a garbage-collected array.

        Finalizers may run while their thread holds the lock, so do not wait for the lock here.
        """
        self._abandoned.append(chunks)
        if self._lock.acquire(blocking=False):
            try:
                self._forget_abandoned()
            finally:
                self._lock.release()

    def read(self, chunks: ArrayChunks, number: int, chunk: Chunk, buffers: Buffers) -> Array:
        """Return the values of a chunk, reading the chunk if it is not in the cache.

        If several threads need the same chunk, the first thread decodes it and the others wait. If
        decoding fails, every thread that needs the chunk raises the error, which is not cached. If
        the first thread's call is stopped, another thread decodes the chunk.
        """
        is_new = True
        while True:
            with self._lock:
                if chunks.closed:
                    raise AttributeValueError(
                        "cached: the array is closed (allowed: an open array)"
                    )
                kept = chunks.kept.get(number)
                if kept is not None:
                    kept.use()
                    chunks.hits += is_new
                    return kept.values
                chunks.misses += is_new
                is_new = False
                reading = chunks.reading.get(number)
                if reading is None:
                    mine = chunks.reading[number] = futures.Future()
                    break
            while not reading.done():
                futures.wait([reading], _POLL_SECONDS)
                if buffers.stopped():
                    raise InterruptedError("the call was stopped")
            values = reading.result()
            if values is not None:
                return values
        try:
            values = self._keep(chunks, number, mine, chunks.decode(chunk, buffers))
        except BaseException as error:
            with self._lock:
                if chunks.reading.get(number) is mine:
                    del chunks.reading[number]
            if buffers.stopped() or not isinstance(error, Exception):
                mine.set_result(None)
            else:
                mine.set_exception(error)
            raise
        mine.set_result(values)
        return values

    def add_hits(self, chunks: ArrayChunks, count: int) -> None:
        with self._lock:
            chunks.hits += count

    def missing(self, chunks: ArrayChunks, numbers: list[int]) -> list[int]:
        with self._lock:
            return [number for number in numbers if number not in chunks.kept]

    def change(
        self, chunks: ArrayChunks, number: int, part: tuple[slice, ...], values: Array | None
    ) -> None:
        """Replace a part of a cached chunk, or drop the chunk if `values` is None.

        If another thread is reading the chunk, the values that it reads are not cached.
        """
        with self._lock:
            chunks.reading.pop(number, None)
            kept = chunks.kept.get(number)
            if kept is None:
                return
            if values is None:
                self._remove(kept)
                return
            changed = chunks.copy(kept.values)
            with_padding(changed)[part] = with_padding(values)
            changed.flags.writeable = False
            chunks.put(number, changed)
            kept.values = changed

    def _keep(
        self,
        chunks: ArrayChunks,
        number: int,
        mine: futures.Future[Array | None],
        values: Array,
    ) -> Array:
        """Copy a decoded chunk, cache the copy if the budget allows, and return it."""
        size = chunks.size_of(values.shape)
        with self._lock:
            chunks.decodes += 1
            has_room = self._make_room(size)
            self._bytes += size if has_room else 0
        kept = None
        try:
            values = chunks.copy(values)
            values.flags.writeable = False
            kept = CachedChunk(chunks, number, values, size)
        finally:
            with self._lock:
                is_current = chunks.reading.get(number) is mine
                if kept is not None and has_room and is_current:
                    del chunks.reading[number]
                    chunks.kept[number] = kept
                    chunks.bytes += size
                    chunks.put(number, kept.values)
                    heapq.heappush(self._order, (kept.use(), next(self._turns), kept))
                else:
                    self._bytes -= size if has_room else 0
                    if is_current:
                        del chunks.reading[number]
        return kept.values

    def _make_room(self, size: int) -> bool:
        """Evict chunks until `size` more bytes fit in the budget; return whether they fit."""
        self._forget_abandoned()
        if size > self.memory:
            return False
        while self._bytes + size > self.memory and self._order:
            # A chunk that was used since it was pushed onto the heap is pushed again.
            known, turn, oldest = heapq.heappop(self._order)
            if oldest.of.kept.get(oldest.number) is not oldest:
                continue
            last_use = oldest.last_use
            if last_use > known:
                heapq.heappush(self._order, (last_use, turn, oldest))
                continue
            self._remove(oldest)
            oldest.of.evictions += 1
        return self._bytes + size <= self.memory

    def _remove(self, chunk: CachedChunk) -> None:
        chunk.of.put(chunk.number, None)
        del chunk.of.kept[chunk.number]
        chunk.of.bytes -= chunk.size
        self._bytes -= chunk.size

    def _forget_abandoned(self) -> None:
        while self._abandoned:
            self._forget(self._abandoned.popleft())

    def _forget(self, chunks: ArrayChunks) -> None:
        self._bytes -= chunks.bytes
        self._order = [entry for entry in self._order if entry[2].of is not chunks]
        heapq.heapify(self._order)
        chunks.put(-1, None)  # removes all chunks
        chunks.start_empty()

    def _info(self, *arrays: ArrayChunks) -> CacheInfo:
        names = ("hits", "misses", "decodes", "evictions", "bytes")
        sums = {name: sum(getattr(each, name) for each in arrays) for name in names}
        tables = [each.table for each in arrays if each.table is not None]
        sums["hits"] += sum(map(_core.count_hits, tables))
        there = sum(len(each.kept) for each in arrays)
        return CacheInfo(chunks=there, memory=self.memory, **sums)

    def _start_empty(self) -> None:
        self._lock = threading.Lock()
        self._bytes = 0  # total size of all chunks in the cache or being copied to it
        self._order = []
        self._turns = count()
        self._abandoned: deque[ArrayChunks] = deque()
        for chunks in list(self._arrays):
            chunks.start_empty()


_CACHES: WeakSet[ChunkCache] = WeakSet()


def _start_empty_in_child() -> None:
    for cache in list(_CACHES):
        cache._start_empty()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_empty_in_child)
