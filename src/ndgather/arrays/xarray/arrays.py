"""Values at points of the array of a variable, which is in memory or is read lazily.

xarray wraps a stored array once for each step of its decoding. These steps work element by element:
points are gathered from the innermost array, and then decoded by the same steps. An array that is
wrapped in another way is read in boxes through its own indexing.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from xarray.core import indexing
from xarray.core.dtypes import maybe_promote

from ndgather import api
from ndgather.array_call import Call
from ndgather.dispatch import adapter_name
from ndgather.stored import calls
from ndgather.stored.chunks import Grid, box_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ndgather.stored.chunks import Array, Buffers, Chunk, Reader
    from ndgather.stored.plan import Plan

Positions: TypeAlias = "NDArray[np.int64]"
Key: TypeAlias = "tuple[slice | Positions, ...]"  # axes of the arrays come first in the result

_BOX_BYTES = 4 << 20  # of arrays with unknown chunks
# Decoding steps that keep the shape, by their name: xarray has moved them between its modules.
_STEPS = ("_ElementwiseFunctionArray", "NativeEndiannessArray", "BoolTypeArray")
_CACHES = (indexing.CopyOnWriteArray, indexing.MemoryCachedArray, indexing.NumpyIndexingAdapter)


@dataclass(frozen=True, slots=True)
class Options:
    """The name of a call in error texts, and its options for stored arrays."""

    caller: str
    memory: Any = None
    progress: Any = None
    executor: Any = None
    name: str = ""  # of the variable
    chunks: Any = None  # of the stored array, if its variable knows them
    plans: list[Plan] = field(default_factory=list)  # shared by the variables of a data set


def chunks_of(variable: Any) -> Sequence[int] | None:
    """Return the shape of the chunks that a variable was read from, as backends note it."""
    found: Any = variable.encoding.get("chunksizes") or variable.encoding.get("chunks")
    return found if isinstance(found, tuple) else None


def open_reader(array: Any, chunks: Sequence[int] | None, name: str) -> Reader:
    """Return the reader of the stored array behind a backend of xarray, or one of boxes."""
    dtype = np.dtype(array.dtype)
    if hasattr(array, "get_array") and dtype.kind != "O":
        stored = array.get_array()
        stored = getattr(stored, "_h5ds", stored)
        if stored.shape == array.shape and stored.dtype == dtype and adapter_name(stored):
            found: Reader = import_module(adapter_name(stored) or "").reader(stored)
            return found
    if chunks is None or len(chunks) != len(array.shape):
        chunks = box_shape(array.shape, dtype.itemsize, _BOX_BYTES)
    grid = Grid.regular(array.shape, chunks)
    return BoxReader(array, name, dtype, grid, dtype.itemsize * math.prod(grid.largest))


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
class TransposedReader:
    """Reads an array with its axes in another order."""

    reader: Reader
    order: tuple[int, ...]  # of axes of the array
    name: str
    dtype: np.dtype[Any]
    grid: Grid
    chunk_bytes: int
    stored_bytes: int
    in_flight: int

    @classmethod
    def of(cls, reader: Reader, order: tuple[int, ...]) -> TransposedReader:
        sizes = reader.chunk_bytes, reader.stored_bytes, reader.in_flight
        return cls(reader, order, reader.name, reader.dtype, reader.grid.along(order), *sizes)

    def read(self, chunk: Chunk, buffers: Buffers) -> Array:
        there = tuple(chunk[self.order.index(axis)] for axis in range(len(chunk)))
        return self.reader.read(there, buffers).transpose(self.order)


def unwrapped(array: Any, key: Key | None = None) -> tuple[Any, Key | None, list[Any]]:
    """Return the innermost array, the key into it, and the steps that decode its values.

    Without a key, the array is unwrapped as far as it is whole.
    """
    steps: list[Any] = []
    while not isinstance(array, np.ndarray):
        if type(array).__name__ in _STEPS:
            steps.insert(0, array)
        elif isinstance(array, indexing.LazilyIndexedArray):
            first, shape = array.key.tuple, array.array.shape
            if key is not None:
                key = _composed(first, key, shape)
            elif not all(map(_is_whole, first, shape)):
                break
        elif not isinstance(array, _CACHES):
            break
        array = array.array
    return array, key, steps


def decoded(steps: Sequence[Any], values: Array) -> Array:
    """Return values decoded by the steps of their variable."""
    for step in steps:
        step_of_values = copy.copy(step)
        step_of_values.array = indexing.NumpyIndexingAdapter(values)  # type: ignore[no-untyped-call]
        values = np.asarray(step_of_values.get_duck_array())
    return values


def take(array: Any, key: Key, options: Options) -> Array:
    """Return the elements of `array` at a key; a position of -1 gives NaN, as in `reindex`."""
    absent = np.any(
        np.broadcast_arrays(*(entry < 0 for entry in key if not isinstance(entry, slice))), axis=0
    )
    if not absent.any():
        return _take(array, key, options)
    found = tuple(
        entry if isinstance(entry, slice) else np.broadcast_to(entry, absent.shape)[~absent]
        for entry in key
    )
    values = _take(array, found, options)
    dtype, missing = maybe_promote(np.dtype(int) if values.dtype == bool else values.dtype)
    result = np.full((*absent.shape, *values.shape[1:]), missing, dtype)
    result[~absent] = values
    return result


def _take(array: Any, key: Key, options: Options) -> Array:
    inner, of_inner, steps = unwrapped(array, key)
    key = of_inner or ()
    if not isinstance(inner, np.ndarray):
        return decoded(steps, _from_store(inner, key, options))
    front = [axis for axis, entry in enumerate(key) if not isinstance(entry, slice)]
    positions = [entry for entry in key if not isinstance(entry, slice)]
    part = inner[tuple(entry if isinstance(entry, slice) else slice(None) for entry in key)]
    if len(front) == 1:
        values = api.gather(part, positions[0], axis=front[0])
        rank = positions[0].ndim
        values = np.moveaxis(values, range(front[0], front[0] + rank), range(rank))
    else:
        values = api.gather_nd(np.moveaxis(part, front, range(len(front))), tuples(positions))
    return decoded(steps, values)


def _from_store(array: Any, key: Key, options: Options) -> Array:
    if any(
        isinstance(entry, slice) and not _is_whole(entry, size)
        for entry, size in zip(key, array.shape, strict=True)
    ):
        key = _without_slices(key, array.shape)
    front = [axis for axis, entry in enumerate(key) if not isinstance(entry, slice)]
    behind = [axis for axis, entry in enumerate(key) if isinstance(entry, slice)]
    reader = open_reader(array, options.chunks, options.name)
    call = Call(
        options.caller,
        "gather_nd",
        None,
        tuples([entry for entry in key if not isinstance(entry, slice)]),
        memory=options.memory,
        progress=options.progress,
        executor=options.executor,
    )
    return calls.gather(call, TransposedReader.of(reader, (*front, *behind)), options.plans)


def tuples(positions: list[Positions]) -> Positions:
    """Return positions on several axes as index tuples, along a last axis."""
    shape = np.broadcast_shapes(*(each.shape for each in positions))
    indices = np.empty((*shape, len(positions)), np.int64)
    for axis, along in enumerate(positions):
        indices[..., axis] = along
    return indices


def _is_whole(entry: slice | Positions, size: int) -> bool:
    return isinstance(entry, slice) and entry.indices(size) == (0, size, 1)


def _composed(first: Sequence[Any], key: Key, shape: Sequence[int]) -> Key:
    """Return the key that takes from an array what `key` takes from the selection `first` of it.

    `first` has a number, a slice or a 1-d array of positions for each axis of an array of this
    shape; `key` has an entry for each axis that is left.
    """
    whole = [_is_whole(entry, size) for entry, size in zip(first, shape, strict=True)]
    along = [np.arange(size)[entry] for entry, size in zip(first, shape, strict=True)]
    left = [(steps, kept) for steps, kept in zip(along, whole, strict=True) if steps.ndim]
    if any(
        isinstance(entry, slice) and not kept for entry, (_, kept) in zip(key, left, strict=True)
    ):
        key = _without_slices(key, [len(steps) for steps, _ in left])
    entries = iter(key)
    composed: list[slice | Positions] = []
    for steps, kept in zip(along, whole, strict=True):
        entry: Any = next(entries) if steps.ndim else ()
        composed.append(entry if kept else np.asarray(steps[entry], np.int64))
    return tuple(composed)


def _without_slices(key: Key, shape: Sequence[int]) -> Key:
    """Return a key of arrays; each one in place of a slice varies along an axis of its own."""
    count = sum(isinstance(entry, slice) for entry in key)
    arrays: list[Positions] = []
    axis = 0
    for entry, size in zip(key, shape, strict=True):
        if isinstance(entry, slice):
            arrays.append(np.arange(size)[entry].reshape((-1,) + (1,) * (count - axis - 1)))
            axis += 1
        else:
            arrays.append(entry.reshape(entry.shape + (1,) * count))
    return tuple(arrays)
