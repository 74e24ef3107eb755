"""Chunk grids, the interfaces of readers and writers, and buffers for decoded chunks."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from operator import eq
from queue import SimpleQueue
from typing import Any, Literal, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ndgather.api import own_errors
from ndgather.arguments import choice
from ndgather.array_call import Array

Chunk: TypeAlias = tuple[int, ...]  # the index of a chunk along each axis
Box: TypeAlias = tuple[slice, ...]
Permits: TypeAlias = SimpleQueue[NDArray[np.uint8] | None]

_MISSING: ContextVar[str] = ContextVar("missing_chunks", default="fill")


@own_errors("missing_chunks")
@contextmanager
def missing_chunks(what: Literal["fill", "raise"]) -> Iterator[None]:
    """Context manager that makes gathers raise an error if a stored chunk is missing.

    Chunks are missing if they were never written or if a copy or upload was incomplete. By
    default, zarr and HDF5 return the fill value for missing chunks.

    Parameters
    ----------
    what : {"fill", "raise"}
        "raise" is meant for zarr and h5py arrays that must be complete; tensorstore has its own
        option, ``fill_missing_data_reads=False``. By default, zarr does not write chunks that
        contain only the fill value (``write_empty_chunks=False``); they count as missing too.
        The setting applies when a call opens its readers, so it has no effect on `dask` arrays,
        which are read later. Virtual HDF5 datasets are not supported, because HDF5 does not report
        missing sources.

    Raises
    ------
    AttributeValueError
        `what` is neither "fill" nor "raise".

    Examples
    --------
    >>> import zarr, ndgather
    >>> from ndgather.stored import missing_chunks
    >>> z = zarr.create_array(store={}, shape=(100,), chunks=(10,), dtype="f4")
    >>> z[:10] = 1
    >>> ndgather.gather_nd(z, [[3], [47]])
    array([1., 0.], dtype=float32)
    >>> with missing_chunks("raise"):  # doctest: +ELLIPSIS
    ...     ndgather.gather_nd(z, [[3], [47]])
    Traceback (most recent call last):
    ...
    ndgather.errors.StoredArrayError: gather_nd: chunk (4) of ..., which holds [40:50], cannot be \
read: LookupError: the chunk does not exist
    """
    token = _MISSING.set(choice("missing_chunks", "what", what, ("fill", "raise")))
    try:
        yield
    finally:
        _MISSING.reset(token)


def missing_raises() -> bool:
    return _MISSING.get() == "raise"


def no_chunk() -> LookupError:
    return LookupError("the chunk does not exist")


def wrong_size(size: int, expected: int) -> ValueError:
    return ValueError(f"the chunk holds {size} bytes instead of {expected}")


@dataclass(frozen=True, eq=False)
class Grid:
    """The division of an array into chunks.

    For each axis, `chunk_lengths` contains the chunk length or, if the lengths differ, an int64
    array of all chunk boundaries. The last chunk of an axis may be shorter than the chunk length.
    For example, chunks of length 4, or of lengths 3, 5 and 2, along an axis of size 10 result in::

        0  1  2  3 | 4  5  6  7 | 8  9        4
        0  1  2 | 3  4  5  6  7 | 8  9        [0, 3, 8, 10]
    """

    shape: tuple[int, ...]
    chunk_lengths: tuple[int | NDArray[np.int64], ...]

    @classmethod
    def regular(cls, shape: Sequence[int], chunk: Sequence[int]) -> Grid:
        """Return a grid of equal chunks, except that the last chunk of an axis may be shorter."""
        return cls(tuple(shape), tuple([max(1, length) for length in chunk]))

    @classmethod
    def of_sizes(cls, sizes: Iterable[Sequence[int]]) -> Grid:
        """Return a grid from the chunk lengths along each axis."""
        shape, chunk_lengths = [], []
        for axis in sizes:
            lengths = np.array([length for length in axis if length > 0], np.int64)
            shape.append(int(lengths.sum()))
            first = int(lengths[0]) if lengths.size else 1
            regular = (lengths[:-1] == first).all() and (lengths[-1:] <= first).all()
            chunk_lengths.append(first if regular else np.concatenate(([0], lengths.cumsum())))
        return cls(tuple(shape), tuple(chunk_lengths))

    @property
    def is_regular(self) -> bool:
        """True if all chunks have the same shape, except that the last chunks may be shorter."""
        return all(isinstance(length, int) for length in self.chunk_lengths)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        pairs = zip(self.shape, self.chunk_lengths, strict=True)
        return tuple(
            [
                -(-size // length) if isinstance(length, int) else len(length) - 1
                for size, length in pairs
            ]
        )

    @cached_property
    def largest(self) -> tuple[int, ...]:
        pairs = zip(self.shape, self.chunk_lengths, strict=True)
        return tuple(
            [
                min(size, length)
                if isinstance(length, int)
                else int(np.diff(length).max(initial=0))
                for size, length in pairs
            ]
        )

    @property
    def shortest(self) -> tuple[int, ...]:
        """A lower bound for the chunk lengths along each axis, ignoring a shorter last chunk."""
        return tuple(
            length if isinstance(length, int) else int(np.diff(length).min(initial=1))
            for length in self.chunk_lengths
        )

    def chunk_at(self, axis: int, at: Any) -> Any:
        """Return the indices of the chunks that contain the given positions along an axis."""
        length = self.chunk_lengths[axis]
        if isinstance(length, int):
            return at // length
        return np.searchsorted(length, at, side="right") - 1

    def borders(self, axis: int, number: Any) -> tuple[Any, Any]:
        """Return the start and end positions of chunks along an axis."""
        length = self.chunk_lengths[axis]
        if isinstance(length, int):
            return number * length, np.minimum((number + 1) * length, self.shape[axis])
        return length[number], length[number + 1]

    @cached_property
    def bits(self) -> tuple[int, ...]:
        """The number of bits needed for a coordinate within a chunk, for each axis."""
        return tuple([max(0, length - 1).bit_length() for length in self.largest])

    def box(self, chunk: Chunk) -> Box:
        return tuple(
            [
                slice(number * length, min((number + 1) * length, size))
                if isinstance(length, int)
                else slice(int(length[number]), int(length[number + 1]))
                for number, size, length in zip(chunk, self.shape, self.chunk_lengths, strict=True)
            ]
        )

    @cached_property
    def _cut(self) -> tuple[int, ...] | None:
        """The index of the truncated chunk along each axis (-1 if none), or None if irregular."""
        if not self.is_regular:
            return None
        return tuple(
            count - 1 if size % length else -1
            for count, size, length in zip(self.counts, self.shape, self.chunk_lengths, strict=True)
        )

    def extent(self, chunk: Chunk) -> tuple[int, ...]:
        if self._cut is not None and not any(map(eq, chunk, self._cut)):
            return self.largest
        return tuple([part.stop - part.start for part in self.box(chunk)])

    def is_like(self, other: Grid) -> bool:
        pairs = zip(self.chunk_lengths, other.chunk_lengths, strict=False)
        return self.shape == other.shape and all(np.array_equal(*pair) for pair in pairs)

    def along(self, axes: Sequence[int]) -> Grid:
        if [*axes] == [*range(len(self.shape))]:
            return self
        lengths = tuple([self.chunk_lengths[axis] for axis in axes])
        return Grid(tuple([self.shape[axis] for axis in axes]), lengths)


def stand_in(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array of the given shape and dtype that allocates only a single element."""
    return np.broadcast_to(np.zeros((), dtype), shape)


class Reader(Protocol):
    """A picklable object that reads chunks of a stored array from several threads at a time."""

    @property
    def name(self) -> str:
        """The name of the array, used in error messages."""

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def grid(self) -> Grid:
        """The grid of the chunks that are read, which are the inner chunks of sharded arrays."""

    @property
    def chunk_bytes(self) -> int:
        """The decoded size of the largest chunk, in bytes."""

    @property
    def stored_bytes(self) -> int:
        """An upper bound for the encoded size of a chunk, in bytes."""

    @property
    def in_flight(self) -> int:
        """The number of concurrent reads that the store needs for its full throughput."""

    def read(self, chunk: Chunk, buffers: Buffers) -> Array:
        """Return the values of a chunk, which are valid until `buffers` is used again."""


class Writer(Reader, Protocol):
    """A reader that can also replace whole chunks of its grid.

    The optional attribute `replaces_objects` is true if each write is atomic and is durable as soon
    as `write` returns, which `journal` requires. If values may differ when read back, the optional
    attribute `loss` contains the reason, and scatters raise an error with this reason.
    """

    @property
    def writeable(self) -> bool: ...

    def write(self, chunk: Chunk, values: Array) -> None:
        """Replace a chunk with `values`, an array of the same shape."""


@dataclass(frozen=True, slots=True)
class IndexedArray:
    """A reader and writer for any array that can be indexed with slices."""

    array: Any
    name: str
    dtype: np.dtype[Any]
    grid: Grid
    chunk_bytes: int
    in_flight: int = 1

    @classmethod
    def of(cls, array: Any, name: str, grid: Grid) -> Self:
        dtype = np.dtype(array.dtype)
        return cls(array, name, dtype, grid, dtype.itemsize * math.prod(grid.largest))

    @property
    def stored_bytes(self) -> int:
        return self.chunk_bytes

    @property
    def writeable(self) -> bool:
        return hasattr(self.array, "__setitem__")

    def values(self, box: Box) -> Array:
        values = self.array[box]
        if isinstance(values, np.ma.MaskedArray):
            raise TypeError("masked values cannot be cached")
        values = np.asarray(values).view()
        values.flags.writeable = False  # the memory may belong to `array`
        return values

    def read(self, chunk: Chunk, buffers: Buffers) -> Array:
        buffers.acquire_permit()
        return self.values(self.grid.box(chunk))

    def write(self, chunk: Chunk, values: Array) -> None:
        self.array[self.grid.box(chunk)] = values


def new_permits(count: int) -> Permits:
    """Return a queue of permits to hold a decoded chunk; a permit is a reusable buffer or None."""
    free: Permits = SimpleQueue()
    for _ in range(count):
        free.put(None)
    return free


class Buffers:
    """The buffers of a worker, which are reused for all of its chunks.

    Permits limit how many workers hold a decoded chunk at a time, while other workers read ahead.
    The methods `decoded` and `acquire_permit` wait for a permit.
    """

    def __init__(
        self, permits: Permits | None = None, stopped: Callable[[], bool] = lambda: False
    ) -> None:
        self.stopped = stopped  # long reads are canceled if this function returns True
        self._permits = permits or new_permits(1)
        self._has_permit = False
        self._decoded: NDArray[np.uint8] | None = None
        self._memory: dict[str, NDArray[np.uint8]] = {}

    def memory(self, purpose: str, count: int) -> NDArray[np.uint8]:
        """Return `count` bytes of a buffer that all calls with the same `purpose` share."""
        held = self._memory.get(purpose)
        if held is None or held.size < count:
            self._memory.pop(purpose, None)
            held = self._memory[purpose] = np.empty(count, np.uint8)
        return held[:count]

    def decoded(self, count: int) -> NDArray[np.uint8]:
        """Wait for a permit and return a buffer of `count` bytes for a decoded chunk."""
        self.acquire_permit()
        if self._decoded is None or self._decoded.size < count:
            self._decoded = None  # free the old buffer first to stay within the memory limit
            self._decoded = np.empty(count, np.uint8)
        return self._decoded[:count]

    def acquire_permit(self) -> None:
        """Wait for a permit without allocating a buffer."""
        if not self._has_permit:
            self._decoded = self._permits.get()
            self._has_permit = True

    def release_permit(self) -> None:
        """Release the permit, after which the values of the chunk are no longer valid."""
        if self._has_permit:
            self._has_permit = False
            memory, self._decoded = self._decoded, None
            self._permits.put(memory)


class LocalFile:
    """An open file, whose content remains readable even if another file replaces its path."""

    __slots__ = ("_descriptor", "is_folder", "size")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        status = os.fstat(descriptor)
        self.size = status.st_size
        self.is_folder = stat.S_ISDIR(status.st_mode)
        if not self.is_folder and not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a regular file")

    def __del__(self) -> None:
        os.close(self._descriptor)

    def is_file(self, descriptor: int) -> bool:
        return os.path.samestat(os.fstat(self._descriptor), os.fstat(descriptor))

    def part(self, start: int, stop: int, buffers: Buffers) -> NDArray[np.uint8]:
        """Return the bytes from `start` to `stop`, or raise an error if the file is too short."""
        if stop > self.size:
            raise ValueError(f"the file has {self.size} bytes instead of at least {stop}")
        memory = buffers.memory("stored", stop - start)
        done = 0
        while done < memory.size:
            count = os.preadv(self._descriptor, [memory[done:].data], start + done)
            if count == 0:
                raise ValueError(f"the file was truncated to {start + done} bytes")
            done += count
        return memory

    def edge(self, count: int, at_start: bool, buffers: Buffers) -> NDArray[np.uint8] | None:
        """Return the first or last `count` bytes of the file."""
        start = 0 if at_start else max(0, self.size - count)
        return self.part(start, start + count, buffers)


def box_shape(shape: Sequence[int], item_bytes: int, most_bytes: int = 2**20) -> tuple[int, ...]:
    """Return the shape of boxes of at most `most_bytes` that are contiguous in C order."""
    left = max(1, most_bytes // max(1, item_bytes))
    lengths = []
    for size in reversed(shape):
        lengths.append(max(1, min(size, left)))
        left //= lengths[-1]
    return tuple(reversed(lengths))
