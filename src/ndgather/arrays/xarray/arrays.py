"""Values at points of the array of a variable, which is in memory or is read lazily.

xarray wraps a stored array once for every step of its decoding. These steps work element by
element: points are gathered from the innermost array, and then decoded by the same steps. An array
that is wrapped in another way is read in boxes by indexing it.
"""

from __future__ import annotations

import copy
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from xarray.core import indexing
from xarray.core.dtypes import maybe_promote

from ndgather import api, exchange, slow_path
from ndgather.errors import DTypeError
from ndgather.foreign import is_of_netcdf4
from ndgather.stored import calls
from ndgather.stored.cache import CachedArray, cached_array
from ndgather.stored.chunks import Grid, IndexedArray, box_shape, stand_in
from ndgather.stored.estimates import estimate_of
from ndgather.stored.walk import read_chunk

if TYPE_CHECKING:
    from collections.abc import Sequence

    import xarray
    from numpy.typing import NDArray

    from ndgather.array_call import Call
    from ndgather.stored.cache import ChunkCache
    from ndgather.stored.chunks import Array, Box, Buffers, Chunk, Reader
    from ndgather.stored.estimates import Estimate
    from ndgather.stored.plan import StoredPlan

Positions: TypeAlias = "NDArray[np.int64]"
# The axes of arrays come first in the result.
Key: TypeAlias = "tuple[slice | Line | Positions, ...]"

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
    plans: list[StoredPlan] = field(default_factory=list)  # shared by the variables of a data set
    estimates: dict[str, Estimate] | None = None  # by variable, in place of values
    kept: CachedVariable | None = None  # of data sets that are opened with a cache


@dataclass(slots=True)
class CachedVariable:
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
        if is_of_netcdf4(stored):
            stored = _filled(stored)
        stored = getattr(stored, "_h5ds", stored)
        store = exchange.store_of(stored)
        if store is not None and stored.shape == array.shape and stored.dtype == dtype:
            reader: Reader = store.reader(stored)
            return reader
    if chunks is None or len(chunks) != len(array.shape):
        chunks = box_shape(array.shape, dtype.itemsize, _BOX_BYTES)
    return BoxReader.of(array, name, Grid.regular(array.shape, chunks))


def _filled(variable: Any) -> Any:
    """Return a variable of netCDF4 if it has a fill value, or else its dataset of h5py.

    Where nothing was written, netCDF4 returns memory as it finds it, and h5py zeros.
    """
    group = variable.group()
    has_value = hasattr(variable, "get_fill_value") and variable.get_fill_value() is not None
    if has_value or not group.data_model.startswith("NETCDF4"):
        return variable
    with suppress(ImportError, KeyError, OSError):
        stored = import_module("h5py").File(group.filepath())[f"{group.path}/{variable.name}"]
        if stored.shape == variable.shape:
            return stored
    raise DTypeError(
        f"open_dataset: engine = 'netcdf4' returns the memory of others where variable "
        f"{variable.name} was not written, as it has no fill value (allowed: 'h5netcdf', "
        f"'ndgather')"
    )


class BoxReader(IndexedArray):
    """Reads boxes of any array of xarray by indexing it."""

    __slots__ = ()

    def values(self, box: Box) -> Array:
        taken = self.array[indexing.BasicIndexer(box)]
        if isinstance(taken, indexing.ExplicitlyIndexed):
            taken = taken.get_duck_array()  # type: ignore[no-untyped-call]
        return np.asarray(taken, self.dtype)


@dataclass(frozen=True, slots=True)
class Line:
    """Positions along an axis that the result keeps; slices are another kind of entry."""

    positions: Positions


class PartReader:
    """Reads a part of an array, with its axes in another order.

    Of axes with slices or lines, every position is read once, in rising order: `arranged` gives
    the order of the key. Only chunks with such a position are chunks of its grid.
    """

    def __init__(self, reader: Reader, order: Sequence[int], key: Key, caller: str) -> None:
        self.reader, self.order, self.caller = reader, order, caller
        self.name, self.dtype = reader.name, reader.dtype
        self.chunk_bytes, self.stored_bytes = reader.chunk_bytes, reader.stored_bytes
        self.in_flight = reader.in_flight
        chunk_lengths: list[Any] = [*reader.grid.chunk_lengths]
        shape = [*reader.grid.shape]
        # By axis, the chunks there and what is taken of them; and the positions in the order asked.
        self.parts: dict[int, list[tuple[int, Any]]] = {}
        self.inverses: dict[int, Positions] = {}
        for axis, entry in enumerate(key):
            if isinstance(entry, np.ndarray) or _is_whole(entry, shape[axis]):
                continue
            positions, inverse = np.unique(_along(entry, shape[axis]), return_inverse=True)
            if not np.array_equal(inverse, np.arange(len(positions))):
                self.inverses[axis] = inverse
            chunks = reader.grid.chunk_at(axis, positions)
            numbers, first = np.unique(chunks, return_index=True)
            pieces = np.split(positions, first[1:])  # one piece where there is no position
            self.parts[axis] = [
                (number, _as_slice(piece - reader.grid.borders(axis, number)[0]))
                for number, piece in zip(numbers.tolist(), pieces, strict=False)
            ]
            of_axis = Grid.of_sizes([[*map(len, pieces)]])
            shape[axis], chunk_lengths[axis] = of_axis.shape[0], of_axis.chunk_lengths[0]
        self.grid = Grid(tuple(shape), tuple(chunk_lengths)).along(order)

    def stored_size(self, chunk: Chunk) -> int | None:
        size_of = getattr(self.reader, "stored_size", None)
        return None if size_of is None else size_of(self._there(chunk)[0])

    def _there(self, chunk: Chunk) -> tuple[Chunk, list[Any]]:
        """Return the chunk of the array, and what is taken of it along every axis."""
        there, here = [], []
        for axis in range(len(chunk)):
            number = chunk[self.order.index(axis)]
            number, taken = self.parts[axis][number] if axis in self.parts else (number, ...)
            there.append(number)
            here.append(taken)
        return tuple(there), here

    def read(self, chunk: Chunk, buffers: Buffers) -> Array:
        there, here = self._there(chunk)
        values = read_chunk(self.caller, self.reader, there, True, buffers)  # errors name this one
        for axis, taken in enumerate(here):
            if taken is not ...:
                values = values[(slice(None),) * axis + (taken,)]
        return values.transpose(self.order)

    def arranged(self, values: Array) -> Array:
        """Return the result of a gather with the positions of its last axes as they are asked."""
        for axis, inverse in self.inverses.items():
            values = values.take(inverse, self.order.index(axis) - len(self.order))
        return values


def kept_of(array: Any) -> CachedVariable | None:
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
    if steps and not values.size:  # xarray looks for the first time of a calendar
        return np.empty(values.shape, steps[-1].dtype)
    for step in steps:
        step_of_values = copy.copy(step)
        step_of_values.array = indexing.NumpyIndexingAdapter(values)  # type: ignore[no-untyped-call]
        values = np.asarray(step_of_values.get_duck_array())
    return values


def take(array: Any, key: Key, options: Options) -> Array:
    """Return the elements of `array` at a key; a position of -1 gives NaN, as in `reindex`."""
    negative = [entry < 0 for entry in key if isinstance(entry, np.ndarray)]
    if not any(each.any() for each in negative):
        return take_present(array, key, options)
    absent = np.any(np.broadcast_arrays(*negative), axis=0)
    present = tuple(
        np.broadcast_to(entry, absent.shape)[~absent] if isinstance(entry, np.ndarray) else entry
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
    front = [axis for axis, entry in enumerate(key) if isinstance(entry, np.ndarray)]
    behind = [axis for axis in range(len(key)) if axis not in front]
    positions: list[Any] = [key[axis] for axis in front]
    if isinstance(inner, np.ndarray):
        return decoded(steps, _take_in_memory(inner, key, front, positions))
    call = replace(options.call, indices=tuples(positions))
    kept = kept_of(array)
    if kept is not None and options.estimates is None and not behind:
        return decoded(steps, cached_array.run(replace(call, data=kept.of(inner))))
    part = PartReader(_reader(inner, kept, options), (*front, *behind), key, call.caller)
    if options.estimates is not None:
        options.estimates[options.name] = estimate_of(call, part)
        lengths = [len(_along(key[axis], inner.shape[axis])) for axis in behind]
        return stand_in((*call.indices.shape[:-1], *lengths), np.dtype(array.dtype))
    return decoded(steps, part.arranged(calls.gather(call, part, options.plans)))


def _take_in_memory(data: Array, key: Key, front: list[int], positions: list[Any]) -> Array:
    box = data[tuple(entry if isinstance(entry, slice) else slice(None) for entry in key)]
    for axis, entry in enumerate(key):
        if isinstance(entry, Line):
            box = box.take(entry.positions, axis)
    if len(front) > 1:
        return api.gather_nd(np.moveaxis(box, front, range(len(front))), tuples(positions))
    values = api.gather(box, positions[0], axis=front[0])
    rank = positions[0].ndim
    return np.moveaxis(values, range(front[0], front[0] + rank), range(rank))


def gather(array: Any, call: Call, options: Options, front: Sequence[int] = ()) -> Any:
    """Return the result of a gather from `array`, of which some axes are moved to the front."""
    order = (*front, *(axis for axis in range(len(array.shape)) if axis not in front))
    whole: Key = (slice(None),) * len(order)
    inner, key, steps = unwrapped(array, whole)
    kept = kept_of(array)
    if isinstance(inner, np.ndarray) or not all(map(_is_rising, key or ())):
        inner, _, steps = unwrapped(array)
        key, kept = whole, None if isinstance(inner, indexing.LazilyIndexedArray) else kept
    if not isinstance(inner, indexing.ExplicitlyIndexed):
        return decoded(steps, slow_path.run(replace(call, data=inner.transpose(order))))
    part = PartReader(_reader(inner, kept, options), order, key or (), call.caller)
    return decoded(steps, calls.gather(call, part))


def _reader(inner: Any, kept: CachedVariable | None, options: Options) -> Reader:
    if kept is None or options.estimates is not None:
        return open_reader(inner, options.chunks, options.name)
    return cached_array.reader(kept.of(inner))


def _is_whole(entry: Any, size: int) -> bool:
    return isinstance(entry, slice) and entry.indices(size) == (0, size, 1)


def _is_rising(entry: Any) -> bool:
    """Whether an axis stays an axis, with its positions in their order."""
    if isinstance(entry, Line):
        return bool((np.diff(entry.positions) > 0).all())
    return isinstance(entry, slice)


def _along(entry: Any, size: int) -> Positions:
    return entry.positions if isinstance(entry, Line) else np.arange(size)[entry]


def _as_slice(positions: Positions) -> slice | Positions:
    """Return rising positions as a slice, if they are one: it gives a view."""
    step = int(positions[1] - positions[0]) if len(positions) > 1 else 1
    if (np.diff(positions) == step).all():
        return slice(int(positions[0]), int(positions[-1]) + 1, step)
    return positions


def _composed(first: Sequence[Any], key: Key, shape: Sequence[int]) -> Key:
    """Return the key that takes from an array what `key` takes from the selection `first` of it.

    `first` has a number, a slice or a 1-d array of positions for every axis of an array of this
    shape; `key` has an entry for every axis that is left.
    """
    entries = iter(key)
    composed: list[Any] = []
    for taken, size in zip(first, shape, strict=True):
        if _is_whole(taken, size):
            composed.append(next(entries))
            continue
        there = np.arange(size)[taken]
        entry = next(entries) if there.ndim else ()
        if isinstance(entry, slice | Line):
            composed.append(Line(there[_along(entry, len(there))]))
        else:
            # A copy: another thread may write into the positions while NumPy uses them.
            positions = np.array(entry) if there.ndim else ()
            composed.append(np.asarray(there[positions], np.int64))
    return tuple(composed)


def tuples(positions: list[Positions]) -> Positions:
    """Return positions on several axes as index tuples, along a last axis."""
    columns = np.empty((len(positions), *np.broadcast(*positions).shape), np.int64)
    for column, array in zip(columns, positions, strict=True):
        column[...] = array
    return np.moveaxis(columns, 0, -1)
