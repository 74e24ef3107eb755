"""Values at points of what stands behind a variable: an array in memory, or one read lazily.

xarray wraps a stored array once for each step of its decoding. The steps work element by element,
and so points are gathered from the innermost array and decoded by the steps of the variable
itself. What is no such step is read in boxes, one at a time, through its own indexing.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from functools import reduce
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from xarray.core import indexing
from xarray.core.dtypes import maybe_promote

from ndgather import api
from ndgather.array_call import Call
from ndgather.dispatch import adapter_name
from ndgather.stored import calls
from ndgather.stored.chunks import Grid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ndgather.stored.chunks import Array, Buffers, Chunk, Reader
    from ndgather.stored.plan import Plan


_BOX_BYTES = 4 << 20  # of arrays that do not say how they are chunked


def open_reader(array: Any, chunks: Sequence[int] | None, name: str) -> Reader:
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
    name: str
    dtype: np.dtype[Any]
    grid: Grid
    chunk_bytes: int
    stored_bytes: int
    in_flight: int

    @classmethod
    def of(cls, reader: Reader, order: tuple[int, ...]) -> MovedReader:
        return cls(
            reader,
            order,
            reader.name,
            reader.dtype,
            reader.grid.along(order),
            reader.chunk_bytes,
            reader.stored_bytes,
            reader.in_flight,
        )

    def read(self, chunk: Chunk, buffers: Buffers) -> Array:
        there = tuple(chunk[self.order.index(axis)] for axis in range(len(chunk)))
        return self.reader.read(there, buffers).transpose(self.order)


Positions: TypeAlias = "NDArray[np.int64]"
Key: TypeAlias = "tuple[slice | Positions, ...]"


def points_shape(key: Key) -> tuple[int, ...]:
    return np.broadcast_shapes(*(each.shape for each in key if not isinstance(each, slice)))


def is_whole(each: slice | Positions, size: int) -> bool:
    return isinstance(each, slice) and each.indices(size) == (0, size, 1)


def behind(first: Sequence[Any], key: Key, shape: Sequence[int]) -> Key:
    """Return the key that takes from an array what `key` takes from the selection `first` of it.

    `first` has a number, a slice or a 1-d array of positions for each axis of an array of this
    shape; `key` has an entry for each axis that is left.
    """
    whole = [is_whole(each, size) for each, size in zip(first, shape, strict=True)]
    along = [np.arange(size)[each] for each, size in zip(first, shape, strict=True)]
    left = [(of, kept) for of, kept in zip(along, whole, strict=True) if of.ndim]
    if any(isinstance(k, slice) and not kept for k, (_, kept) in zip(key, left, strict=True)):
        key = _as_arrays(key, [len(of) for of, _ in left])
    entries = iter(key)
    made: list[slice | Positions] = []
    for of, kept in zip(along, whole, strict=True):
        entry: Any = next(entries) if of.ndim else ()
        made.append(entry if kept else np.asarray(of[entry], np.int64))
    return tuple(made)


def _as_arrays(key: Key, shape: Sequence[int]) -> Key:
    count = sum(isinstance(each, slice) for each in key)
    made: list[Positions] = []
    at = 0
    for each, size in zip(key, shape, strict=True):
        if isinstance(each, slice):
            along = np.arange(*each.indices(size))
            made.append(along.reshape((-1,) + (1,) * (count - at - 1)))
            at += 1
        else:
            made.append(each.reshape(each.shape + (1,) * count))
    return tuple(made)


# Decoding steps that keep the shape, by their name: xarray has moved them between its modules.
_ELEMENT_BY_ELEMENT = ("_ElementwiseFunctionArray", "NativeEndiannessArray", "BoolTypeArray")
_CACHES = (indexing.CopyOnWriteArray, indexing.MemoryCachedArray)


@dataclass(frozen=True, slots=True)
class Options:
    """How a call reads: its name in error texts, and the options of calls on stored arrays."""

    caller: str
    memory: Any = None
    progress: Any = None
    executor: Any = None
    name: str = ""  # of the variable
    chunks: Any = None  # of the stored array, where its variable knows them
    plans: list[Plan] = field(default_factory=list)  # that the variables of a dataset share


def take(array: Any, key: Key, options: Options) -> Array:
    """Return the elements of `array` that `key` takes, decoded; entries of -1 take nothing.

    They give NaN, in the type that `reindex` of xarray gives.
    """
    arrays = [each for each in key if not isinstance(each, slice)]
    absent = np.broadcast_to(False, points_shape(key))
    for each in arrays:
        if (each < 0).any():
            absent = absent | (each < 0)
    if not absent.any():
        return _take(array, key, options)
    found = tuple(
        each if isinstance(each, slice) else np.broadcast_to(each, absent.shape)[~absent]
        for each in key
    )
    values = _take(array, found, options)
    dtype, missing = maybe_promote(np.dtype(int) if values.dtype == bool else values.dtype)
    result = np.full((*absent.shape, *values.shape[1:]), missing, dtype)
    result[~absent] = values
    return result


def _take(array: Any, key: Key, options: Options) -> Array:
    if isinstance(array, np.ndarray):
        return _from_memory(array, key)
    if isinstance(array, _CACHES):
        return _take(array.array, key, options)
    if isinstance(array, indexing.LazilyIndexedArray):
        return _take(array.array, behind(array.key.tuple, key, array.array.shape), options)
    if isinstance(array, indexing.NumpyIndexingAdapter):
        return _take(array.array, key, options)
    if type(array).__name__ in _ELEMENT_BY_ELEMENT:
        return _decoded(array, _take(array.array, key, options))
    return _from_store(array, key, options)


def _decoded(step: Any, values: Array) -> Array:
    """Return what a step of decoding makes of values."""
    step = copy.copy(step)
    step.array = indexing.NumpyIndexingAdapter(values)  # type: ignore[no-untyped-call]
    return np.asarray(step.get_duck_array())


def innermost(array: Any) -> tuple[Any, Callable[[Array], Array]]:
    """Return the whole array that stands behind a lazy one, and what decodes its values."""
    steps: list[Any] = []
    while True:
        if type(array).__name__ in _ELEMENT_BY_ELEMENT:
            steps.insert(0, array)
        elif isinstance(array, indexing.LazilyIndexedArray):
            if not all(map(is_whole, array.key.tuple, array.array.shape)):
                break
        elif not isinstance(array, (*_CACHES, indexing.NumpyIndexingAdapter)):
            break
        array = array.array
    return array, lambda values: reduce(lambda made, step: _decoded(step, made), steps, values)


def _from_memory(array: Array, key: Key) -> Array:
    sliced = array[tuple(each if isinstance(each, slice) else slice(None) for each in key)]
    axes = [axis for axis, each in enumerate(key) if not isinstance(each, slice)]
    positions = [each for each in key if not isinstance(each, slice)]
    if len(axes) == 1:
        taken = api.gather(sliced, positions[0], axis=axes[0])
        inner = range(axes[0], axes[0] + positions[0].ndim)
        return np.moveaxis(taken, tuple(inner), tuple(range(positions[0].ndim)))
    front = np.moveaxis(sliced, axes, range(len(axes)))
    return api.gather_nd(front, tuples(positions))


def tuples(positions: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return positions on some axes as tuples of indices, along a last axis."""
    shape = np.broadcast_shapes(*(each.shape for each in positions))
    made = np.empty((*shape, len(positions)), np.int64)
    for axis, each in enumerate(positions):
        made[..., axis] = each
    return made


def _from_store(array: Any, key: Key, options: Options) -> Array:
    """Gather what a key takes, chunk by chunk; only slices of whole axes stay slices."""
    if any(
        isinstance(k, slice) and not is_whole(k, size)
        for k, size in zip(key, array.shape, strict=True)
    ):
        key = _as_arrays(key, array.shape)
    front = [axis for axis, each in enumerate(key) if not isinstance(each, slice)]
    behind = [axis for axis, each in enumerate(key) if isinstance(each, slice)]
    reader = open_reader(array, options.chunks, options.name)
    moved = MovedReader.of(reader, (*front, *behind))
    call = Call(
        options.caller,
        "gather_nd",
        None,
        tuples([each for each in key if not isinstance(each, slice)]),
        memory=options.memory,
        progress=options.progress,
        executor=options.executor,
    )
    return calls.gather(call, moved, options.plans)
