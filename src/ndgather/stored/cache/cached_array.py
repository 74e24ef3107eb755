"""Stored arrays whose decoded chunks are cached between calls."""

from __future__ import annotations

import itertools
import math
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from os import PathLike, fspath
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ndgather import arguments, exchange, foreign, messages
from ndgather.api import own_errors
from ndgather.array_call import Array, Call, Kind, _core, with_padding
from ndgather.errors import CallError, DTypeError, StoredArrayError
from ndgather.messages import shown_value
from ndgather.stored import calls, ranges
from ndgather.stored.cache.chunk_cache import ArrayChunks, CacheInfo, ChunkCache, itself
from ndgather.stored.chunks import (
    Buffers,
    Chunk,
    Grid,
    IndexedArray,
    Reader,
    Writer,
    box_shape,
    stand_in,
)
from ndgather.stored.plan import make_plan, with_data
from ndgather.stored.walk import read_chunk, walk

_MEMORY = "512 MiB"
_BOX_BYTES = 2**20  # maximum size of the boxes in which arrays without chunks are cached


@own_errors("cached")
def cached(
    array: Any, memory: int | str = _MEMORY, *, cache: ChunkCache | None = None
) -> CachedArray:
    """Return a stored array that keeps its decoded chunks in memory.

    The returned array can replace `array` in any function. Each chunk is read and decoded only
    once, unless the memory budget is exceeded and the least recently used chunks are evicted.

    Parameters
    ----------
    array : stored array
        A zarr, tensorstore or h5py array, a memory map, or any object with `shape` and `dtype` that
        can be indexed with slices. Such an object is read from several threads, along its `chunks`
        if it has any.
    memory : int or str, default "512 MiB"
        The maximum size of the cached chunks. Chunks that are being decoded, up to a chunk per
        thread, are not included.
    cache : ChunkCache, optional
        A cache shared by several arrays, instead of `memory`.

    Returns
    -------
    CachedArray

    Raises
    ------
    DTypeError
        If `array` is not a stored array.
    AttributeValueError
        If `memory` is not a number of bytes.

    See Also
    --------
    ChunkCache : A memory budget shared by several arrays.

    Examples
    --------
    >>> import numpy as np
    >>> import zarr
    >>> import ndgather
    >>> z = zarr.create_array(store={}, data=np.arange(10_000).reshape(100, 100), chunks=(10, 10))
    >>> with ndgather.cached(z, memory="64 MiB") as c:
    ...     for step in range(5):
    ...         values = ndgather.gather_nd(c, [[step, 4], [step + 5, 6], [99, 99]])
    ...     c.info().decodes, c.info().hits
    (2, 8)
    """
    if cache is None:
        cache = ChunkCache(memory)
    elif memory != _MEMORY:
        raise CallError(
            f"cached: memory = {shown_value(memory)} is given together with a cache, which has its "
            f"own budget (allowed: one of them)"
        )
    return CachedArray(array, cache)


class CachedArray(np.lib.mixins.NDArrayOperatorsMixin):
    """A stored array with a cache of its decoded chunks; see `ndgather.cached`.

    Several threads may use the array concurrently. A scatter into the array updates the store first
    and then the cache. Changes that other code makes to the store become visible after `clear`. In
    a forked or spawned process, the cache is initially empty.

    Attributes
    ----------
    array : stored array
        The array to read.
    cache : ChunkCache
        The cache that holds its chunks.
    shape : tuple of int
    dtype : numpy.dtype
    chunks : tuple
        The shape of the cached units (for shards, of the inner chunks), or a tuple of all lengths
        for each axis if the lengths differ.
    """

    def __init__(
        self, array: Any, cache: ChunkCache, open_reader: Callable[[Any], Reader] | None = None
    ) -> None:
        self.array, self.cache, self._open_reader = array, cache, open_reader
        self._chunks = self._watched(ArrayChunks(cache, partial(open_reader or _opened, array)))

    def __reduce__(self) -> Any:
        return CachedArray, (self.array, self.cache, self._open_reader)

    def _watched(self, chunks: ArrayChunks) -> ArrayChunks:
        """Return `chunks` after registering a finalizer that drops them from the cache."""
        weakref.finalize(self, self.cache.abandon, chunks).atexit = False
        return chunks

    @property
    def _kept(self) -> ArrayChunks:
        """The array's cached chunks; after `clear`, the first access reopens the array."""
        if self._chunks.is_cleared:
            if self._open_reader is None and not self._chunks.closed:
                self.array = _as_stored_now(self.array)
            open_reader = partial(self._open_reader or _opened, self.array)
            opened = self._chunks.opened_again(open_reader)
            if opened is not self._chunks:
                self._chunks = self._watched(opened)
        return self._chunks

    @property
    def shape(self) -> tuple[int, ...]:
        return self._kept.grid.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._kept.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def chunks(self) -> tuple[Any, ...]:
        grid = self._kept.grid
        if grid.is_regular:
            return grid.chunk_lengths
        borders = (grid.borders(axis, np.arange(n)) for axis, n in enumerate(grid.counts))
        return tuple(tuple((end - begin).tolist()) for begin, end in borders)

    def info(self) -> CacheInfo:
        """Return usage statistics of the cache for this array."""
        return self.cache.array_info(self._kept)

    def clear(self) -> None:
        """Drop all cached chunks of this array and reset its counters.

        The next call reopens the store and picks up a changed shape, for example after another
        program has appended to the array. The attribute `array` is then set to a new object.
        """
        self.cache.clear_array(self._chunks)

    def close(self) -> None:
        """Drop all cached chunks and make later reads raise an error; `array` stays open."""
        self._chunks.closed = True
        self.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def prefetch(
        self,
        indices: ArrayLike | Iterable[ArrayLike],
        window_shape: Sequence[int] | None = None,
    ) -> Future[int]:
        """Start reading the chunks of future calls in the background and return immediately.

        The total size of these chunks never exceeds the memory budget. Out-of-bounds indices are
        ignored.

        Parameters
        ----------
        indices : array_like of int, shape ``(N..., k)``; or an iterator or a list of such arrays
            Index tuples as for `gather_nd`, of a single call or of several calls in order.
        window_shape : sequence of int, optional
            The shape of the windows that start at the index tuples, for `gather_windows`.

        Returns
        -------
        concurrent.futures.Future
            Its result is the number of chunks read. If a chunk cannot be read, the future has an
            exception, and a call that needs the chunk tries again.
        """
        several = isinstance(indices, Iterator) or (
            isinstance(indices, list | tuple) and all(isinstance(x, np.ndarray) for x in indices)
        )
        coming: Any = indices if several else [np.asarray(indices)]
        window = (
            None
            if window_shape is None
            else arguments.sizes("prefetch", "window_shape", window_shape)
        )
        future: Future[int] = Future()

        def read_ahead() -> None:
            try:
                future.set_result(self._read_ahead(coming, window))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(name="ndgather-prefetch", target=read_ahead, daemon=True).start()
        return future

    def _read_ahead(self, coming: Iterable[Array], window: tuple[int, ...] | None) -> int:
        kept = self._kept
        done, room = 0, self.cache.memory
        for indices in coming:
            kind = Kind.GATHER_ND if window is None else Kind.GATHER_WINDOWS
            call = Call("prefetch", kind, None, indices, mode="fill", window_shape=window or ())
            jobs = []
            for chunk in self._missing(call):
                size = kept.size_of(kept.grid.extent(chunk))
                if size <= room:
                    jobs.append(_BoxJob(chunk))
                    room -= size
            _read(call, kept, jobs)
            done += len(jobs)
        return done

    def _missing(self, call: Call) -> list[Chunk]:
        kept = self._kept
        if (
            kept.table is not None
            and call.kind is Kind.GATHER_ND
            and type(call.indices) is np.ndarray
        ):
            found = _core.look_up(kept.table, call.arguments(), kept.data, True)
            if isinstance(found, np.ndarray):
                return []
            if not isinstance(found, _core.Refusal) and 0 < len(found[0]) < _core.LISTED_CHUNKS:
                return kept.chunks_at(found[0])
        plan = make_plan(with_data(call, kept.grid, kept.dtype), kept.grid)
        chunks = [*map(plan.chunk, range(len(plan)))]
        missing = {*kept.cache.missing(kept, [*map(kept.number, chunks)])}
        return [chunk for chunk in chunks if kept.number(chunk) in missing]

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array of rank 0")
        return self.shape[0]

    def __repr__(self) -> str:
        info = self.info()
        return (
            f"<CachedArray: {self._kept.name}, shape {self.shape}, {self.dtype}, "
            f"{info.bytes} of {info.memory} bytes>"
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("cached: copy = False requires data in memory (allowed: None, True)")
        return np.asarray(self[...], dtype)

    def __array_function__(
        self, function: Callable[..., Any], types: Any, arguments: Any, options: Any
    ) -> Any:
        """Apply a NumPy function to the whole array, which is loaded into memory."""
        del types  # xarray does not load arrays that have this method into memory
        return function(*_in_memory(arguments), **_in_memory(options))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return getattr(ufunc, method)(*_in_memory(inputs), **_in_memory(options))

    def transpose(self, *axes: Any) -> Array:
        return np.asarray(self).transpose(*axes)

    __hash__ = object.__hash__

    def __getitem__(self, key: Any) -> Any:
        """Index the array like a NumPy array, with basic or advanced indexing."""
        entries = key if isinstance(key, tuple) else (key,)
        if not all(map(_is_basic, entries)):
            return self._at(key)
        result = stand_in(self.shape, self.dtype)[key]  # raises as NumPy does
        given: list[Any] = [entry for entry in entries if entry is not None]
        if not any(entry is ... for entry in given):
            given.append(...)
        place = next(n for n, entry in enumerate(given) if entry is ...)
        given[place : place + 1] = [slice(None)] * (self.ndim - len(given) + 1)
        sides = [
            range(size)[entry if isinstance(entry, slice) else slice(at := entry % size, at + 1)]
            for entry, size in zip(given, self.shape, strict=True)
        ]
        rising = [side if side.step > 0 else side[::-1] for side in sides]
        turned: Any = (*(slice(None, None, 1 if side.step > 0 else -1) for side in sides), ...)
        values = self._box(rising)[turned].reshape(np.shape(result))
        return values if values.ndim or any(entry is ... for entry in entries) else values[()]

    def _box(self, sides: Sequence[range]) -> Array:
        """Return the elements at the given ascending positions along each axis."""
        result: Array = np.empty([len(side) for side in sides], self.dtype)
        jobs = [
            _BoxJob(chunk, here, result[there] if there else result)
            for chunk, here, there in _parts(sides, self._kept.grid)
        ]
        _read(Call("cached", Kind.GATHER_ND, None, None), self._kept, jobs)
        return result

    def _at(self, key: Any) -> Array:
        """Return the result of advanced indexing, as defined by NumPy."""
        call = Call("cached", Kind.GATHER, self, key)
        if not isinstance(key, tuple) and np.asarray(key).dtype.kind in "iu":
            positions = np.asarray(key)
            stand_in(self.shape[:1], self.dtype)[positions]  # raises as NumPy does
            return run(replace(call, indices=positions))  # type: ignore[no-any-return]  # an array
        # Apply the key to the coordinates along each axis to find the indices of every result.
        columns = []
        for axis, size in enumerate(self.shape):
            along = np.arange(size).reshape(-1, *[1] * (self.ndim - axis - 1))
            columns.append(np.broadcast_to(along, self.shape)[key])
        indices = np.stack(columns, axis=-1)
        return run(replace(call, kind=Kind.GATHER_ND, indices=indices))  # type: ignore[no-any-return]


def run(call: Call) -> Any:
    data = call.data
    if isinstance(data, CachedArray) and not call.scatters:
        indices = arguments.native_indices(call)
        plain = arguments.checked(replace(call, indices=indices, data=data._kept.data), data.dtype)
        found = _look_up(replace(plain, data=data).arguments(), call.caller)
        if found is not NotImplemented:
            return found
    return calls.gather_or_scatter(call, CachedArray, reader, writer)


run_ranges = ranges.run_ranges


def reader(array: CachedArray) -> ArrayChunks:
    return array._kept


def writer(array: CachedArray) -> Any:
    return _CachedWriter(array._kept, _opened(array.array, "writer"))


def _look_up(given: _core.Arguments, caller: str = "") -> Any:
    """Look up points in the core's table of cached chunks, or return NotImplemented.

    Chunks that are missing from the cache are read first.
    """
    kept = given.data._kept
    if kept.table is None or given.progress is not None or given.executor is not None:
        return NotImplemented
    found = _core.look_up(kept.table, given, kept.data, False)
    if isinstance(found, tuple) and not isinstance(found, _core.Refusal):
        numbers, hits = found
        if not len(numbers) or (len(numbers) + hits) * kept.chunk_bytes > kept.cache.memory:
            return NotImplemented
        kept.cache.add_hits(kept, hits)
        jobs = [*map(_BoxJob, kept.chunks_at(numbers))]
        read = Call(caller or given.kind, Kind(given.kind), None, None, memory=given.memory)
        _read(read, kept, jobs)
        found = _core.look_up(kept.table, given, kept.data, True)
    return found if isinstance(found, np.ndarray) else NotImplemented


exchange.TAKEN_UP[CachedArray] = "fallback", _look_up


def _opened(array: Any, what: str = "reader") -> Any:
    """Return the reader or writer of the array that a cache wraps."""
    if isinstance(array, np.memmap):
        return import_module("ndgather.stored.memory_map").Pages(array, _BOX_BYTES)
    module = exchange.adapter_name(type(array))
    if module is None and hasattr(array, "read") and isinstance(getattr(array, "grid", None), Grid):
        return array
    if isinstance(array, str | PathLike):
        raise messages.text_not_opened("cached", "array", fspath(array))
    if foreign.is_of_netcdf4(array):
        raise messages.of_netcdf4("cached", "array", array)
    names = ("shape", "dtype", "__getitem__")
    if module is None and type(array) is not np.ndarray and all(hasattr(array, n) for n in names):
        return _indexed(array)
    if exchange.store_of(array) is None or module == __name__:
        raise DTypeError(
            f"cached: array = {type(array).__name__} object is not stored (allowed: a zarr, "
            f"tensorstore or h5py array, a memory map, or an object with shape, dtype and [...])"
        )
    kind = Kind.GATHER_ND if what == "reader" else Kind.SCATTER_ND
    return exchange.opened(Call("cached", kind, array, None), "array")


def _as_stored_now(array: Any) -> Any:
    read_again = getattr(exchange.store_of(array), "as_stored_now", lambda array: array)
    with messages.foreign_errors(StoredArrayError, "cached: the array cannot be opened again"):
        return read_again(array)


def _indexed(array: Any) -> IndexedArray:
    """Return a reader that indexes `array` with slices and uses its `chunks`, if it has any."""
    shape, dtype = tuple(array.shape), np.dtype(array.dtype)
    chunks: Any = getattr(array, "chunks", None) or box_shape(shape, dtype.itemsize, _BOX_BYTES)
    regular = all(isinstance(length, int) for length in chunks)
    grid = Grid.regular(shape, chunks) if regular else Grid.of_sizes(chunks)
    return IndexedArray.of(array, f"{type(array).__name__} object", grid)


class _CachedWriter:
    """A writer that updates the store first and then the cached chunks."""

    def __init__(self, kept: ArrayChunks, store: Writer) -> None:
        self.kept, self.store = kept, store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)  # everything except `write`

    def __reduce__(self) -> Any:
        return itself, (self.store,)

    def write(self, chunk: Chunk, values: Array) -> None:
        kept = self.kept
        box = [range(side.start, side.stop) for side in self.grid.box(chunk)]
        is_written = False
        try:
            self.store.write(chunk, values)
            is_written = True
        finally:
            kept.forget_reader()
            for part, here, there in _parts(box, kept.grid):
                new = values[there] if is_written else None
                kept.cache.change(kept, kept.number(part), here, new)


@dataclass(frozen=True, slots=True)
class _BoxJob:
    """A job that reads a chunk into the cache and optionally copies a part of it to `result`."""

    chunk: Chunk
    part: Any = ()
    result: Array | None = None
    is_read: bool = True

    def use(self, values: Array) -> None:
        if self.result is not None:
            with_padding(self.result)[...] = with_padding(values)[(*self.part, ...)]

    def send(self) -> Any:
        raise NotImplementedError  # not called, because executors never run such jobs

    def receive(self, result: Any) -> None:
        raise NotImplementedError


def _read(call: Call, kept: ArrayChunks, jobs: list[_BoxJob]) -> None:
    """Run the jobs, using threads only if the reads take longer than starting threads."""
    missing = kept.cache.missing(kept, [kept.number(job.chunk) for job in jobs])
    is_small = kept.in_flight == 1 and len(missing) * kept.chunk_bytes <= _BOX_BYTES
    if len(missing) > 1 and not is_small:
        walk(call, kept, len(jobs), lambda step: jobs[step])
        return
    buffers = Buffers()
    for job in jobs:
        job.use(read_chunk(call.caller, kept, job.chunk, True, buffers))
        buffers.release_permit()


def _parts(
    ranges: Sequence[range], grid: Grid
) -> Iterator[tuple[Chunk, tuple[slice, ...], tuple[slice, ...]]]:
    """Yield each chunk that contains positions, its slices, and the slices of the result.

    For example, the positions 1, 3 and 5 along an axis with chunks of length 4 are the elements
    ``[1:4:2]`` of chunk 0 and ``[1:2:2]`` of chunk 1.
    """
    sides = []
    for axis, at in enumerate(ranges):
        side = []
        low, high = (int(grid.chunk_at(axis, end)) for end in (at[0], at[-1])) if at else (0, -1)
        for number in range(low, high + 1):
            first, last = map(int, grid.borders(axis, number))
            begin, end = (
                min(max(0, -(-(n - at.start) // at.step)), len(at)) for n in (first, last)
            )
            if begin < end:
                here = slice(at[begin] - first, at[end - 1] - first + 1, at.step)
                side.append((number, here, slice(begin, end)))
        sides.append(side)
    for chosen in itertools.product(*sides):
        parts: Any = tuple(zip(*chosen, strict=True)) or ((), (), ())
        yield parts


def _is_basic(entry: Any) -> bool:
    if entry is None or entry is ... or isinstance(entry, slice):
        return True
    return (
        not isinstance(entry, bool | np.bool_)
        and hasattr(entry, "__index__")
        and not np.ndim(entry)
    )


def _in_memory(value: Any) -> Any:
    if isinstance(value, CachedArray):
        return np.asarray(value)
    if isinstance(value, list | tuple):
        return type(value)(map(_in_memory, value))
    if isinstance(value, dict):
        return {key: _in_memory(each) for key, each in value.items()}
    return value
