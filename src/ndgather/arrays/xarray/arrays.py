"""Values at points of the array of a variable, which is in memory or is read lazily.

xarray wraps a stored array once for every step of its decoding. These steps work element by
element: points are gathered from the innermost array, and then decoded by the same steps. An array
that is wrapped in another way is read in boxes by indexing it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from xarray.core import indexing
from xarray.core.dtypes import maybe_promote

from ndgather import api, slow_path
from ndgather.exchange import adapter_name
from ndgather.stored import calls
from ndgather.stored.cache import CachedArray, cached_array
from ndgather.stored.chunks import Grid, IndexedArray, box_shape, stand_in
from ndgather.stored.estimates import estimate_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import xarray
    from numpy.typing import NDArray

    from ndgather.array_call import Call
    from ndgather.stored.cache import ChunkCache
    from ndgather.stored.chunks import Array, Box, Buffers, Chunk, Reader
    from ndgather.stored.estimates import Estimate
    from ndgather.stored.plan import Plan

Positions: TypeAlias = "NDArray[np.int64]"
Key: TypeAlias = "tuple[slice | Positions, ...]"  # axes of the arrays come first in the result

_BOX_BYTES = 4 << 20  # of arrays with unknown chunks
# Decoding steps that keep the shape, by their name: xarray has moved them between its modules.
_STEPS = ("_ElementwiseFunctionArray", "NativeEndiannessArray", "BoolTypeArray")
_OF_ENGINE = "StoredArray"  # of this package
_CACHES = (indexing.CopyOnWriteArray, indexing.MemoryCachedArray, indexing.NumpyIndexingAdapter)


@dataclass(frozen=True, slots=True)
class Options:
    """What a selection needs besides positions."""

    call: Call  # a gather without arrays, with the options for stored arrays
    name: str = ""  # of the variable
    chunks: Any = None  # of the stored array, if its variable knows them
    plans: list[Plan] = field(default_factory=list)  # shared by the variables of a data set
    estimates: dict[str, Estimate] | None = None  # by variable, in place of values
    kept: Kept | None = None  # of data sets that are opened with a cache


@dataclass(slots=True)
class Kept:
    """The stored array of a variable, whose chunks stay in a cache."""

    cache: ChunkCache
    chunks: Any
    name: str
    array: CachedArray | None = None  # once points were read

    def of(self, array: Any) -> CachedArray:
        if self.array is None:
            opened = partial(open_reader, chunks=self.chunks, name=self.name)
            self.array = CachedArray(array, self.cache, opened)
        return self.array


def array_of(variable: xarray.Variable) -> Any:
    """Return the array of a variable; one that is read lazily stays unread."""
    array: Any = variable._data  # no public name gives it
    lazy = isinstance(array, indexing.ExplicitlyIndexed) and not variable._in_memory
    return array if lazy else variable.data


def chunks_of(variable: Any) -> Sequence[int] | None:
    """Return the shape of the chunks that a variable was read from, as backends note it."""
    chunks: Any = variable.encoding.get("chunksizes") or variable.encoding.get("chunks")
    return chunks if isinstance(chunks, tuple) else None


def open_reader(array: Any, chunks: Sequence[int] | None, name: str) -> Reader:
    """Return the reader of the stored array behind a backend of xarray, or one of boxes."""
    dtype = np.dtype(array.dtype)
    if dtype.kind != "O":
        stored = array.get_array() if hasattr(array, "get_array") else array
        stored = getattr(stored, "_h5ds", stored)
        adapter = adapter_name(stored) or ""
        if (
            adapter.startswith("ndgather.stored.")
            and stored.shape == array.shape
            and stored.dtype == dtype
        ):
            reader: Reader = import_module(adapter).reader(stored)
            return reader
    if chunks is None or len(chunks) != len(array.shape):
        chunks = box_shape(array.shape, dtype.itemsize, _BOX_BYTES)
    return BoxReader.of(array, name, Grid.regular(array.shape, chunks))


class BoxReader(IndexedArray):
    """Reads boxes of any array of xarray by indexing it."""

    __slots__ = ()

    def values(self, box: Box) -> Array:
        taken = self.array[indexing.BasicIndexer(box)]
        if isinstance(taken, indexing.ExplicitlyIndexed):
            taken = taken.get_duck_array()  # type: ignore[no-untyped-call]
        return np.asarray(taken, self.dtype)


class TransposedReader:
    """Reads an array with its axes in another order."""

    def __init__(self, reader: Reader, order: tuple[int, ...]) -> None:
        self.reader, self.order = reader, order
        self.name, self.dtype, self.grid = reader.name, reader.dtype, reader.grid.along(order)
        self.chunk_bytes, self.stored_bytes = reader.chunk_bytes, reader.stored_bytes
        self.in_flight = reader.in_flight

    def stored_size(self, chunk: Chunk) -> int | None:
        size_of = getattr(self.reader, "stored_size", None)
        return None if size_of is None else size_of(self._there(chunk))

    def _there(self, chunk: Chunk) -> Chunk:
        return tuple(chunk[self.order.index(axis)] for axis in range(len(chunk)))

    def read(self, chunk: Chunk, buffers: Buffers) -> Array:
        return self.reader.read(self._there(chunk), buffers).transpose(self.order)


def kept_of(array: Any) -> Kept | None:
    """Return what a data set keeps of the array of a variable, if it was opened with a cache."""
    while type(array).__name__ != _OF_ENGINE:
        if isinstance(array, np.ndarray) or not hasattr(array, "array"):
            return None
        array = array.array
    return array.options.kept  # type: ignore[no-any-return]  # of `engine.StoredArray`


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
        elif not isinstance(array, _CACHES) and type(array).__name__ != _OF_ENGINE:
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
    negative = [entry < 0 for entry in key if not isinstance(entry, slice)]
    if not any(each.any() for each in negative):
        return take_present(array, key, options)
    absent = np.any(np.broadcast_arrays(*negative), axis=0)
    present = tuple(
        entry if isinstance(entry, slice) else np.broadcast_to(entry, absent.shape)[~absent]
        for entry in key
    )
    values = take_present(array, present, options)
    dtype, missing = maybe_promote(np.dtype(int) if values.dtype == bool else values.dtype)
    result = np.full((*absent.shape, *values.shape[1:]), missing, dtype)
    result[~absent] = values
    return result


def take_present(array: Any, key: Key, options: Options) -> Array:
    """Return the elements of `array` at a key without negative positions."""
    inner, of_inner, steps = unwrapped(array, key)
    key = of_inner or ()
    in_memory = isinstance(inner, np.ndarray)
    if not in_memory and any(
        isinstance(entry, slice) and not _is_whole(entry, size)
        for entry, size in zip(key, inner.shape, strict=True)
    ):
        key = without_slices(key, inner.shape)
    front = [axis for axis, entry in enumerate(key) if not isinstance(entry, slice)]
    positions = [entry for entry in key if not isinstance(entry, slice)]
    if not in_memory:
        behind = [axis for axis, entry in enumerate(key) if isinstance(entry, slice)]
        call = replace(options.call, indices=tuples(positions))
        kept = kept_of(array)
        if kept is not None and options.estimates is None and not behind:
            return decoded(steps, cached_array.run(replace(call, data=kept.of(inner))))
        transposed = TransposedReader(_reader(inner, kept, options), (*front, *behind))
        if options.estimates is not None:
            options.estimates[options.name] = estimate_of(call, transposed)
            shape = call.indices.shape[:-1] + transposed.grid.shape[len(front) :]
            return stand_in(shape, np.dtype(array.dtype))
        return decoded(steps, calls.gather(call, transposed, options.plans))
    box = inner[tuple(entry if isinstance(entry, slice) else slice(None) for entry in key)]
    if len(front) == 1:
        values = api.gather(box, positions[0], axis=front[0])
        rank = positions[0].ndim
        values = np.moveaxis(values, range(front[0], front[0] + rank), range(rank))
    else:
        values = api.gather_nd(np.moveaxis(box, front, range(len(front))), tuples(positions))
    return decoded(steps, values)


def gather(array: Any, call: Call, options: Options, front: Sequence[int] = ()) -> Any:
    """Return the result of a gather from `array`, of which some axes are moved to the front."""
    order = (*front, *(axis for axis in range(len(array.shape)) if axis not in front))
    inner, _, steps = unwrapped(array)
    if not isinstance(inner, indexing.ExplicitlyIndexed):
        return decoded(steps, slow_path.run(replace(call, data=inner.transpose(order))))
    transposed = TransposedReader(_reader(inner, kept_of(array), options), order)
    return decoded(steps, calls.gather(call, transposed))


def _reader(inner: Any, kept: Kept | None, options: Options) -> Reader:
    if kept is None or options.estimates is not None:
        return open_reader(inner, options.chunks, options.name)
    return cached_array.reader(kept.of(inner))


def _is_whole(entry: slice | Positions, size: int) -> bool:
    return isinstance(entry, slice) and entry.indices(size) == (0, size, 1)


def _composed(first: Sequence[Any], key: Key, shape: Sequence[int]) -> Key:
    """Return the key that takes from an array what `key` takes from the selection `first` of it.

    `first` has a number, a slice or a 1-d array of positions for every axis of an array of this
    shape; `key` has an entry for every axis that is left.
    """
    whole = [_is_whole(entry, size) for entry, size in zip(first, shape, strict=True)]
    along = [np.arange(size)[entry] for entry, size in zip(first, shape, strict=True)]
    left = [(steps, kept) for steps, kept in zip(along, whole, strict=True) if steps.ndim]
    if any(
        isinstance(entry, slice) and not kept for entry, (_, kept) in zip(key, left, strict=True)
    ):
        key = without_slices(key, [len(steps) for steps, _ in left])
    entries = iter(key)
    composed: list[slice | Positions] = []
    for steps, kept in zip(along, whole, strict=True):
        entry: Any = next(entries) if steps.ndim else ()
        composed.append(entry if kept else np.asarray(steps[entry], np.int64))
    return tuple(composed)


def tuples(positions: list[Positions]) -> Positions:
    """Return positions on several axes as index tuples, along a last axis."""
    columns = np.empty((len(positions), *np.broadcast(*positions).shape), np.int64)
    for column, array in zip(columns, positions, strict=True):
        column[...] = array
    return np.moveaxis(columns, 0, -1)


def without_slices(key: Key, shape: Sequence[int]) -> Key:
    """Return a key of arrays; every slice becomes an array along one more axis."""
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
