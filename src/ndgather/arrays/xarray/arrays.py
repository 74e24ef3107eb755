"""Gather from xarray variables, both from arrays in memory and from lazy arrays.

An xarray backend wraps a stored array once for each selection and once for each function that
decodes its elements. A `Source` describes the array inside these wrappers. Points are gathered from
the source and then decoded. For ``data.sst.isel(lat=slice(10, 20), time=3)``, stored as integers::

    array     a wrapper that decodes(LazilyIndexedArray(BackendArray))
    source    array = BackendArray, key = (3, Line([10, ..., 19]), slice(None)), decoders = (...)

If an array has other wrappers, boxes are read through the wrappers.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import xarray
from numpy.typing import NDArray
from xarray.backends import BackendArray
from xarray.core.indexing import LazilyIndexedArray

from ndgather import api, arguments, exchange, slow_path
from ndgather.array_call import Array, Call, Kind
from ndgather.errors import (
    AttributeValueError,
    DTypeError,
    IndexOutOfBoundsError,
    NdgatherError,
    ShapeError,
)
from ndgather.messages import listed, reason, shown_value, subscript
from ndgather.stored import calls
from ndgather.stored.cache import CachedArray, ChunkCache, cached_array
from ndgather.stored.chunks import (
    Box,
    Buffers,
    Chunk,
    Grid,
    IndexedArray,
    Reader,
    box_shape,
)
from ndgather.stored.estimates import Estimate, estimate_of
from ndgather.stored.plan import StoredPlan
from ndgather.stored.walk import read_chunk

Positions: TypeAlias = NDArray[np.int64]
# The axes of points are the first axes of the result, and the axes of slices and lines follow.
Key: TypeAlias = "tuple[slice | Line | Positions, ...]"

_NAMED = xarray.DataArray | xarray.Variable
_CONVERTED = pd.Index | _NAMED
ZARR_SUFFIX = ".zarr"
_BOX_BYTES = 4 << 20  # the maximum box size if the chunks are unknown


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a selection."""

    call: Call  # a gather with the options for stored arrays, but without arrays
    name: str = ""  # name of the variable
    chunks: Any = None  # chunk shape of the stored array if the variable records it
    plans: list[StoredPlan] = field(default_factory=list)  # shared by the variables of a dataset

    def of(self, name: Hashable, variable: xarray.Variable) -> Options:
        """Return the options for a variable of a dataset."""
        return replace(self, name=self.name or str(name), chunks=chunks_of(variable))


def storage_options(
    caller: str, memory: Any = None, progress: Any = None, executor: Any = None
) -> Options:
    """Return the validated options of a call."""
    options = {"memory": memory, "progress": progress, "executor": executor}
    call = Call(caller, Kind.GATHER_ND, None, None, **options)
    return Options(arguments.check_storage_options(call))


@dataclass(slots=True)
class CachedVariable:
    """The stored array of a variable and the cache that contains its chunks."""

    cache: ChunkCache
    chunks: Any
    name: str
    array: CachedArray | None = None  # None until points are read

    def of(self, array: Any) -> CachedArray:
        if self.array is None:
            opened = partial(open_reader, chunks=self.chunks, name=self.name)
            self.array = CachedArray(array, self.cache, opened)
        return self.array

    def clear(self) -> None:
        """Drop the cached chunks of this variable, so that the next selection reads the store."""
        if self.array is not None:
            self.array.clear()


def array_of(variable: xarray.Variable) -> Any:
    """Return the array of a variable without reading a lazy array."""
    array = super(xarray.Variable, variable).data  # `Variable.data` would read the array
    return array if is_lazy(array) else variable.data


def is_lazy(array: Any) -> bool:
    """Return whether an xarray backend will read the array when its values are needed."""
    while not isinstance(array, BackendArray) and hasattr(array, "get_duck_array"):
        array = getattr(array, "array", None)
    return isinstance(array, BackendArray)


def missing_value(dtype: Any) -> tuple[Any, Any]:
    """Return the dtype and the fill value that xarray uses for arrays with missing values."""
    # Let xarray fill the first element by shifting an array.
    numbers = np.dtype(int) if dtype.kind == "b" else dtype
    shifted: Any = xarray.Variable("x", np.zeros(1, numbers)).shift(x=1)  # type: ignore[no-untyped-call]
    return shifted.dtype, np.nan if shifted.dtype == object else shifted.values[0]


def chunks_of(variable: Any) -> Sequence[int] | None:
    """Return the shape of a variable's stored chunks, as recorded by its backend."""
    chunks: Any = variable.encoding.get("chunksizes") or variable.encoding.get("chunks")
    return chunks if isinstance(chunks, tuple) else None


def open_reader(array: Any, chunks: Sequence[int] | None, name: str) -> Reader:
    """Return a reader for the stored array that an xarray backend reads, or a `BoxReader`."""
    dtype = np.dtype(array.dtype)
    if dtype.kind != "O":
        stored = array.get_array() if hasattr(array, "get_array") else array
        if type(stored).__module__.startswith("netCDF4"):
            stored = _dataset_of_h5py(stored)
        else:
            stored = getattr(stored, "_h5ds", stored)
        store = None if stored is None else exchange.store_of(stored)
        if store is not None and stored.shape == array.shape and stored.dtype == dtype:
            reader: Reader = store.reader(stored)
            return reader
    if chunks is None or len(chunks) != len(array.shape):
        chunks = box_shape(array.shape, dtype.itemsize, _BOX_BYTES)
    return BoxReader.of(array, name, Grid.regular(array.shape, chunks))


def _dataset_of_h5py(variable: Any) -> Any:
    """Return the h5py dataset of a netCDF4 variable if the variable has no fill value, or None.

    Without a fill value, netCDF4 returns uninitialized memory for unwritten parts of a variable,
    but h5py returns zeros.
    """
    group = variable.group()
    has_value = hasattr(variable, "get_fill_value") and variable.get_fill_value() is not None
    if has_value or not group.data_model.startswith("NETCDF4"):
        return None
    with suppress(ImportError, KeyError, OSError):
        stored = import_module("h5py").File(group.filepath())[f"{group.path}/{variable.name}"]
        if stored.shape == variable.shape:
            return stored
    raise DTypeError(
        f"open_dataset: engine = 'netcdf4' returns uninitialized memory for unwritten parts of "
        f"variable {variable.name}, which has no fill value (allowed: 'h5netcdf', 'ndgather')"
    )


class LazyArray(BackendArray):
    """A lazy array that implements selections of points and selections along axes.

    xarray uses ``array[indexer]`` for numbers and slices, ``array.oindex[indexer]`` for arrays
    along individual axes and ``array.vindex[indexer]`` for arrays of points.
    """

    __slots__ = ("dtype", "shape")

    def __init__(self, array: Any, shape: Sequence[int]) -> None:
        self.dtype, self.shape = array.dtype, tuple(shape)

    def select_along(self, indexer: Any) -> Any:
        raise NotImplementedError

    def select_points(self, indexer: Any) -> Any:
        raise NotImplementedError

    @property
    def oindex(self) -> _Selector:
        return _Selector(self.select_along)

    @property
    def vindex(self) -> _Selector:
        return _Selector(self.select_points)

    def __getitem__(self, indexer: Any) -> Any:
        return self.select_along(indexer)

    async def async_get_duck_array(self, dtype: Any = None) -> Any:
        return await asyncio.to_thread(self.get_duck_array)


@dataclass(frozen=True, slots=True)
class _Selector:
    select: Callable[[Any], Any]

    def __getitem__(self, indexer: Any) -> Any:
        return self.select(indexer)


class BoxReader(IndexedArray):
    """A reader that reads boxes of any xarray array by indexing the array."""

    __slots__ = ()

    def values(self, box: Box) -> Array:
        taken = xarray.Variable(range(len(box)), self.array)[box]
        return np.asarray(taken.values, self.dtype)


@dataclass(frozen=True, slots=True)
class Line:
    """An entry of a key that selects positions along an axis and keeps the axis."""

    positions: Positions


class PartReader:
    """A reader of a part of an array, with permuted axes.

    Along axes with slices or lines, every position is read once, in ascending order. `arranged`
    then restores the order of the key. Only chunks that contain a selected position are part of the
    grid. On an axis of size 12 with chunks of length 4, the line 9 1 0 1 is read as 3 positions::

        axis       0  1  2  3 | 4  5  6  7 | 8  9 10 11
        read       *  *       |            |    *            grid: 2 | 1
        parts      chunk 0, 0:2              chunk 2, 1:2    inverse: 2 1 0 1
    """

    def __init__(self, reader: Reader, order: Sequence[int], key: Key, caller: str) -> None:
        self.reader, self.order, self.caller = reader, order, caller
        self.name, self.dtype = reader.name, reader.dtype
        self.chunk_bytes, self.stored_bytes = reader.chunk_bytes, reader.stored_bytes
        self.in_flight = reader.in_flight
        chunk_lengths: list[Any] = [*reader.grid.chunk_lengths]
        shape = [*reader.grid.shape]
        # For each axis, the index of each chunk to read, and the positions to take from the chunk.
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
            # With chunks of length 4, positions 0 1 9 are in chunks 0 0 2, and first = 0 2.
            # Without positions, `split` returns an empty piece, but `zip` yields nothing.
            pieces = np.split(positions, first[1:])
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
        """Return a chunk of the whole array, and the positions to take along every axis."""
        there, here = [], []
        for axis in range(len(chunk)):
            number = chunk[self.order.index(axis)]
            number, taken = self.parts[axis][number] if axis in self.parts else (number, ...)
            there.append(number)
            here.append(taken)
        return tuple(there), here

    def read(self, chunk: Chunk, buffers: Buffers) -> Array:
        there, here = self._there(chunk)
        # Errors raised by `read_chunk` name the chunk of the whole array.
        values = read_chunk(self.caller, self.reader, there, True, buffers)
        for axis, taken in enumerate(here):
            if taken is not ...:
                values = values[(slice(None),) * axis + (taken,)]
        return values.transpose(self.order)

    def arranged(self, values: Array) -> Array:
        """Restore the order of the key along the last axes of a gather's result."""
        # Count axes from the end, because the number of leading axes of points is unknown.
        for axis, inverse in self.inverses.items():
            values = values.take(inverse, self.order.index(axis) - len(self.order))
        return values


@dataclass(frozen=True, slots=True)
class Source:
    """A backend array, the selected part of this array, and the decoders of the values.

    For every axis of `array`, `key` contains a slice, a `Line`, or the positions of points. If an
    axis is indexed with an integer, its positions are an array of rank 0.
    """

    array: Any
    key: Key
    decoders: tuple[Any, ...] = ()  # xarray wrappers that do not change the shape
    dtype: Any = None  # dtype of the decoded values
    cached: CachedVariable | None = None  # None unless the dataset was opened with a cache

    @classmethod
    def of(cls, array: Any) -> Source:
        """Return the source of an array that has xarray's wrappers."""
        if isinstance(source := getattr(array, "source", None), Source):  # from engine.py
            return source
        if isinstance(array, LazilyIndexedArray):
            return cls.of(array.array).at(array.key.tuple)
        if isinstance(array, BackendArray) or not is_lazy(array) or hasattr(array, "key"):
            return cls.plain(array)
        inner = cls.of(array.array)
        if array.array.shape != array.shape:  # the decoder joins characters to strings
            return cls.plain(array)
        return replace(inner, decoders=(*inner.decoders, array), dtype=array.dtype)

    @classmethod
    def whole(cls, array: Any) -> Source:
        """Return the source of `array`, or `array` itself if the source is larger."""
        source = cls.of(array)
        return source if all(map(_is_whole, source.key, source.array.shape)) else cls.plain(array)

    @classmethod
    def plain(cls, array: Any) -> Source:
        """Return a source that consists of the whole `array`."""
        return cls(array, (slice(None),) * len(array.shape))

    def at(self, taken: Sequence[Any]) -> Source:
        """Return the part selected by integers, slices and 1-d arrays, each along its own axis."""
        return self.taken(tuple([t if isinstance(t, slice) else _as_entry(t) for t in taken]))

    def taken(self, key: Key) -> Source:
        """Return the part selected by a key, which has an entry for every remaining axis."""
        # For example, the keys (3, Line([5, 6, 7])) and (Line([2, 0]),) give (3, Line([7, 5])).
        entries = iter(key)
        composed: list[Any] = []
        for first, size in zip(self.key, self.array.shape, strict=True):
            entry = first if isinstance(first, np.ndarray) else next(entries)
            is_points = isinstance(entry, np.ndarray) and entry.ndim > 0
            is_same = (is_points or isinstance(entry, slice)) and _is_whole(first, size)
            if entry is not first and not is_same:
                there = _along(first, size)
                if isinstance(entry, slice | Line):
                    entry = Line(there[_along(entry, len(there))])
                else:  # copy the positions, because another thread may change them meanwhile
                    entry = np.asarray(there[np.array(entry)], np.int64)
            composed.append(entry)
        return replace(self, key=tuple(composed))

    def decoded(self, values: Array) -> Array:
        """Decode stored values into the variable's values."""
        if self.decoders and not values.size:  # xarray cannot decode empty arrays of times
            return np.empty(values.shape, self.dtype)
        for decoder in self.decoders:
            around = copy(decoder)
            around.array = LazilyIndexedArray(np.asarray(values))
            values = np.asarray(around.get_duck_array())
        return values

    def reader(self, options: Options) -> Reader:
        """Return the reader of the whole array."""
        if isinstance(self.array, CachedArray):
            return cached_array.reader(self.array)
        if self.cached is None:
            return open_reader(self.array, options.chunks, options.name)
        return cached_array.reader(self.cached.of(self.array))


def take(array: Any, key: Key, options: Options) -> Array:
    """Return the elements of `array` at a key, or a missing value at positions of -1."""
    negative = [entry < 0 for entry in key if isinstance(entry, np.ndarray)]
    if not any(each.any() for each in negative):
        return take_present(array, key, options)
    absent = np.any(np.broadcast_arrays(*negative), axis=0)
    present = tuple(
        np.broadcast_to(entry, absent.shape)[~absent] if isinstance(entry, np.ndarray) else entry
        for entry in key
    )
    values = take_present(array, present, options)
    dtype, missing = missing_value(values.dtype)
    result = np.full((*absent.shape, *values.shape[1:]), missing, dtype)
    result[~absent] = values
    return result


def take_present(array: Any, key: Key, options: Options) -> Array:
    """Return the elements of `array` at a key without negative positions."""
    source = Source.of(array).taken(key)
    inner, key = source.array, source.key
    points = {axis: entry for axis, entry in enumerate(key) if isinstance(entry, np.ndarray)}
    front, positions = [*points], [*points.values()]
    behind = [axis for axis in range(len(key)) if axis not in points]
    if isinstance(inner, np.ndarray):
        return source.decoded(_take_in_memory(inner, key, front, positions))
    call = replace(options.call, indices=tuples(positions))
    if source.cached is not None and not behind:
        return source.decoded(cached_array.run(replace(call, data=source.cached.of(inner))))
    reader = source.reader(options)
    if not behind:  # other variables with the same chunks can reuse the plan
        return source.decoded(calls.gather(call, reader, options.plans))
    part = PartReader(reader, (*front, *behind), key, call.caller)
    return source.decoded(part.arranged(calls.gather(call, part, options.plans)))


def estimate_points(
    array: Any, positions: Mapping[int, Positions], options: Options
) -> Estimate | None:
    """Estimate how much data must be read for points, or return None for an array in memory."""
    if not is_lazy(array):
        return None
    points = np.broadcast_arrays(*positions.values())
    present = np.logical_and.reduce([each >= 0 for each in points])
    entries = {axis: each[present] for axis, each in zip(positions, points, strict=True)}
    source = Source.of(array)
    source = source.taken(tuple(entries.get(n, slice(None)) for n in range(len(array.shape))))
    front = [axis for axis, entry in enumerate(source.key) if isinstance(entry, np.ndarray)]
    order = (*front, *(axis for axis in range(len(source.key)) if axis not in front))
    indices: list[Any] = [source.key[axis] for axis in front]
    call = replace(options.call, indices=tuples(indices))
    reader = open_reader(source.array, options.chunks, options.name)
    return estimate_of(call, PartReader(reader, order, source.key, call.caller))


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
    """Gather from `array` with some axes moved to the front."""
    order = (*front, *(axis for axis in range(len(array.shape)) if axis not in front))
    source = Source.of(array)
    lazy = is_lazy(source.array)
    # `PartReader` sorts positions along its axes, but the call indexes them in the original order.
    # Read a part with points or unsorted positions through xarray's wrappers instead.
    if not (lazy and all(map(_is_rising, source.key))):
        source = Source.whole(array)
    if not (is_lazy(source.array) or isinstance(source.array, CachedArray)):
        data = source.array.transpose(order)
        return source.decoded(slow_path.run(replace(call, data=data)))
    part = PartReader(source.reader(options), order, source.key, call.caller)
    return source.decoded(calls.gather(call, part))


def _is_whole(entry: Any, size: int) -> bool:
    return isinstance(entry, slice) and entry.indices(size) == (0, size, 1)


def _as_entry(taken: Any) -> Any:
    """Convert a number or an array in an xarray key to an entry of `Key`."""
    positions = np.asarray(taken, np.int64)
    return Line(positions) if positions.ndim else positions


def _is_rising(entry: Any) -> bool:
    """Return whether an entry is a slice or line with strictly ascending positions."""
    if isinstance(entry, Line):
        return bool((np.diff(entry.positions) > 0).all())
    return isinstance(entry, slice) and (entry.step or 1) > 0


def _along(entry: Any, size: int) -> Positions:
    return entry.positions if isinstance(entry, Line) else np.arange(size)[entry]


def _as_slice(positions: Positions) -> slice | Positions:
    """Convert positions to a slice, which yields a view, if all steps are equal."""
    step = int(positions[1] - positions[0]) if len(positions) > 1 else 1
    if (np.diff(positions) == step).all():
        return slice(int(positions[0]), int(positions[-1]) + 1, step)
    return positions


def tuples(positions: list[Positions]) -> Positions:
    """Stack positions along several axes into index tuples along a new last axis."""
    columns = np.empty((len(positions), *np.broadcast(*positions).shape), np.int64)
    for axis, array in enumerate(positions):
        columns[axis, ...] = array
    return np.moveaxis(columns, 0, -1)


class PointwiseArray(LazyArray):
    """An array that makes xarray's `isel` gather with ndgather."""

    __slots__ = ("_array", "_options", "_take")

    def __init__(self, array: Any, options: Options, take: Callable[..., Any]) -> None:
        super().__init__(array, array.shape)
        self._array, self._options, self._take = array, options, take

    def get_duck_array(self, dtype: Any = None) -> Any:
        return np.asarray(self._array)

    def select_points(self, indexer: Any) -> Any:
        return self._gathered(indexer.tuple)

    def _gathered(self, key: Iterable[Any]) -> Any:
        checked = [k if isinstance(k, slice) else np.asarray(k, np.int64) for k in key]
        return self._take(self._array, tuple(checked), self._options)

    def select_along(self, indexer: Any) -> Any:
        kept = [k for k in indexer.tuple if isinstance(k, slice) or np.ndim(k)]
        lines = iter(np.ix_(*(k for k in kept if not isinstance(k, slice))))
        taken = self._gathered(next(lines) if np.ndim(k) else k for k in indexer.tuple)
        axes = sorted(range(len(kept)), key=lambda axis: isinstance(kept[axis], slice))
        return taken.transpose(np.argsort(axes))  # the axes of arrays are first in `taken`


def select(
    data: xarray.Dataset,
    positions: Mapping[Hashable, Any],
    options: Options,
    missing: str = "raise",
) -> xarray.Dataset:
    """Return the same as ``data.isel(positions)``.

    If `missing` is "nan", positions of -1 yield NaN in every variable. This function modifies the
    variables of `data`, so `data` must be a copy.
    """
    by_array = {
        name: as_array(options.call.caller, name, p)
        for name, p in positions.items()
        if not isinstance(p, slice)
    }
    masked = set()
    if missing == "nan":
        masked = {name for name, array in by_array.items() if array.size and array.min() < 0}
    taking = take if masked else take_present
    by_points = masked | {name for name, array in by_array.items() if array.ndim}
    lost = []
    if masked:
        lost = [name for name in data.xindexes if masked.intersection(data.variables[name].dims)]
    bare = data.drop_indexes(lost) if lost else data
    for name, variable in bare.variables.items():
        if name in bare.xindexes or not by_points.intersection(variable.dims):
            continue
        array = array_of(variable)
        # Arrays of other libraries keep their own indexing.
        if type(array) is np.ndarray or is_lazy(array):
            variable.data = PointwiseArray(array, options.of(name, variable), taking)
    with errors_of_xarray(options.call.caller, positions):
        taken = bare.isel(positions)
    for name in lost:
        if name in taken.coords and taken[name].dims == (name,):
            taken = taken.set_xindex([name])
    return taken


def as_array(caller: str, name: Hashable, indexer: Any) -> Array:
    """Convert labels or positions to an array. Arrays of rank 2 or more need dimension names."""
    if hasattr(type(indexer), "untyped_storage"):  # a torch tensor
        indexer = arguments.plain_array(caller, str(name), indexer)
    try:
        # `to_numpy` is faster than `asarray`, which looks up many attributes of xarray objects.
        array = indexer.to_numpy() if isinstance(indexer, _CONVERTED) else np.asarray(indexer)
    except (TypeError, ValueError) as error:
        raise _not_an_indexer(caller, name, indexer) from error
    if array.ndim > 1 and not isinstance(indexer, _NAMED):
        raise ShapeError(
            f"{caller}: {name} is an array of shape {array.shape} without dimension names "
            f"(allowed: rank 1); write xarray.DataArray({name}, dims=[...])"
        )
    return array


def checked_positions(caller: str, name: Hashable, indexer: Any, size: int) -> Any:
    """Check positions, and return an indexer of the same kind without negative positions."""
    if isinstance(indexer, slice):
        return indexer
    if isinstance(indexer, tuple):
        raise _not_an_indexer(caller, name, indexer)
    array = as_array(caller, name, indexer)
    if array.dtype.kind == "b":
        return indexer
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise DTypeError(
            f"{caller}: {name}.dtype = {array.dtype} is not an integer type (allowed: positions; "
            f"labels are looked up by sel)"
        )
    least, greatest = (array.min(), array.max()) if array.size else (0, -1)
    if least < -size or greatest >= size:
        outside = (array < -size) | (array >= size)
        at, count = tuple(int(i) for i in np.argwhere(outside)[0]), int(outside.sum())
        allowed = f"allowed: {-size}..{size - 1}" if size else "the axis is empty"
        more = f"; {count} positions are out of bounds" if count > 1 else ""
        raise IndexOutOfBoundsError(
            f"{caller}: {name}{subscript(at)} = {int(array[at])} is out of bounds for {name}, "
            f"which has size {size} ({allowed}){more}",
            position=at,
            value=int(array[at]),
            size=size,
            count=count,
        )
    array = array.astype(np.int64, copy=False)
    return with_dims_of(indexer, np.where(array < 0, array + size, array) if least < 0 else array)


def with_dims_of(indexer: Any, array: Any) -> Any:
    """Return `array` with the dimensions and coordinates of an indexer."""
    if isinstance(indexer, xarray.DataArray) and indexer.coords:
        return indexer.copy(deep=False, data=array)
    if isinstance(indexer, _NAMED):
        return xarray.Variable(indexer.dims, array)
    return array if array.ndim else int(array) if array >= 0 else array


def _not_an_indexer(caller: str, name: Hashable, indexer: object) -> DTypeError:
    return DTypeError(
        f"{caller}: {name} = {shown_value(indexer)} is not an array (allowed: an array of labels "
        f"or positions, or a tuple with its dimensions: ({name!r}, array))"
    )


def is_zarr(place: Any) -> bool:
    """Return whether a path, a URL or an object refers to a zarr store instead of a file."""
    if not isinstance(place, str | os.PathLike):
        return not hasattr(place, "read") and not isinstance(place, bytes | memoryview)
    text = os.fspath(place)
    return "://" in text or Path(text).suffix == ZARR_SUFFIX or Path(text).is_dir()


@contextmanager
def errors_of_xarray(caller: str, names: Iterable[Hashable]) -> Iterator[None]:
    """Convert errors that xarray raises in a selection to `AttributeValueError`."""
    try:
        yield
    except (MemoryError, OSError, NdgatherError):
        raise
    except Exception as error:
        raise AttributeValueError(
            f"{caller}: the selection by {listed(map(str, names))} failed: {reason(error)} "
            f"(allowed: indexers that xarray supports)"
        ) from error
