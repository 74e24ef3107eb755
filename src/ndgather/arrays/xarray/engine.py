"""A backend of xarray: data sets as its own backends open them, with points read by this package.

Selections along axes stay those of xarray. A selection of points is kept as it is until its values
are needed; then each chunk that holds a point is read once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray
from xarray.backends import BackendEntrypoint, H5netcdfBackendEntrypoint, ZarrBackendEntrypoint
from xarray.core import indexing

from ndgather import messages
from ndgather.arguments import check_storage_options
from ndgather.array_call import Call, Kind
from ndgather.arrays.xarray import arrays
from ndgather.arrays.xarray.arrays import Positions
from ndgather.arrays.xarray.selection import checked_positions
from ndgather.stored.cache import ChunkCache
from ndgather.stored.open_path import ZARR_SUFFIX, store_of

__all__ = ["Engine"]

_KINDS = "biufcmM"  # of dtypes whose values are decoded element by element


class Engine(BackendEntrypoint):
    """Open zarr stores and netCDF 4 files as data sets; ``engine="ndgather"`` of `open_dataset`.

    Values, coordinates and attributes are those of the engines "zarr" and "h5netcdf", which also
    have the options. `memory` limits the buffers of a selection of points. The decoded chunks of
    such selections stay in memory, up to the bytes of `chunk_cache` for the data set: a number, a
    text such as "2 GiB", a `ndgather.ChunkCache` that other data sets share, or None to keep none.
    Closing the data set drops them. (``cache=True`` is an option of xarray: it keeps the values of
    whole variables that were loaded.)

    Examples
    --------
    >>> import tempfile, xarray as xr
    >>> from ndgather.arrays.xarray.engine import Engine
    >>> folder = tempfile.TemporaryDirectory()
    >>> sst = xr.DataArray([[1.0, 2.0], [3.0, 4.0]], {"lat": [0, 1], "lon": [8, 9]}, name="sst")
    >>> _ = sst.to_netcdf(f"{folder.name}/sst.nc", engine="h5netcdf")
    >>> with xr.open_dataset(f"{folder.name}/sst.nc", engine=Engine) as data:
    ...     data.sst.isel(lat=("p", [1, 0, 1]), lon=("p", [0, 1, 1])).values
    array([3., 2., 4.])
    >>> folder.cleanup()
    """

    description = "Open zarr stores and netCDF 4 files, and read many points of them at once"
    open_dataset_parameters = (  # the decoders that xarray passes
        *("filename_or_obj", "drop_variables", "mask_and_scale", "decode_times"),
        *("decode_timedelta", "use_cftime", "concat_characters", "decode_coords"),
    )

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        memory: Any = None,
        chunk_cache: ChunkCache | int | str | None = "512 MiB",
        **options: Any,
    ) -> xarray.Dataset:
        call = check_storage_options(Call("isel", Kind.GATHER_ND, None, None, memory=memory))
        is_zarr = _is_zarr(filename_or_obj)
        engine: Any = ZarrBackendEntrypoint() if is_zarr else H5netcdfBackendEntrypoint()
        messages.need("zarr" if is_zarr else "h5netcdf", "stores")
        if is_zarr and isinstance(filename_or_obj, str):
            store = store_of(filename_or_obj, storage_options=options.get("storage_options"))
            if not isinstance(store, str):
                filename_or_obj = store
                options.pop("storage_options", None)  # it has them
        cache = chunk_cache
        if not (cache is None or isinstance(cache, ChunkCache)):
            cache = ChunkCache(cache)
        all_kept: list[arrays.CachedVariable] = []
        data: xarray.Dataset = engine.open_dataset(filename_or_obj, **options)
        pointwise = data.copy(deep=False)
        for name, variable in pointwise.variables.items():
            array = arrays.array_of(variable)
            if isinstance(array, indexing.ExplicitlyIndexed) and variable.dtype.kind in _KINDS:
                chunks = arrays.chunks_of(variable)
                kept = None if cache is None else arrays.CachedVariable(cache, chunks, str(name))
                source = replace(arrays.Source.of(array), cached=kept)
                variable.data = StoredArray(array, source, arrays.Options(call, str(name), chunks))
                all_kept += [] if kept is None else [kept]
        pointwise.set_close(partial(_close, data, all_kept))
        return pointwise


def _close(data: xarray.Dataset, all_kept: list[arrays.CachedVariable]) -> None:
    """Close a data set, and drop its chunks."""
    for kept in all_kept:
        if kept.array is not None:
            kept.array.clear()
    data.close()


def _is_zarr(place: Any) -> bool:
    if not isinstance(place, str | os.PathLike):
        return not hasattr(place, "read") and not isinstance(place, bytes | memoryview)
    text = os.fspath(place)
    return "://" in text or Path(text).suffix == ZARR_SUFFIX or Path(text).is_dir()


class StoredArray(indexing.ExplicitlyIndexedNDArrayMixin):
    """The lazy array of a variable, which knows its source; points of it are `SelectedPoints`."""

    __slots__ = ("array", "options", "source")

    def __init__(self, array: Any, source: arrays.Source, options: arrays.Options) -> None:
        self.array, self.source, self.options = array, source, options

    def get_duck_array(self) -> Any:
        return self.array.get_duck_array()

    async def async_get_duck_array(self) -> Any:
        return await self.array.async_get_duck_array()

    def transpose(self, order: Sequence[int]) -> Any:
        return self.array.transpose(order)

    def __getitem__(self, indexer: Any) -> StoredArray:
        return StoredArray(self.array[indexer], self.source.at(indexer.tuple), self.options)

    def _oindex_get(self, indexer: Any) -> StoredArray:
        part = self.array.oindex[indexer]
        return StoredArray(part, self.source.at(indexer.tuple), self.options)

    def _vindex_get(self, indexer: Any) -> SelectedPoints:
        key: list[Any] = []
        for axis, (entry, size) in enumerate(zip(indexer.tuple, self.shape, strict=True)):
            # As unsigned numbers, negative positions are larger than any size.
            if isinstance(entry, slice) or not entry.size or entry.view("u8").max() < size:
                key.append(entry)
            else:
                named = xarray.Variable(range(entry.ndim), entry)
                key.append(checked_positions("isel", f"axis {axis}", named, size).values)
        return SelectedPoints(self, tuple(key), self.options)


class SelectedPoints(indexing.ExplicitlyIndexedNDArrayMixin):
    """Points of a stored array, which are read when their values are needed."""

    __slots__ = ("_key", "_options", "_order", "_shape", "array")

    def __init__(
        self,
        array: StoredArray,
        key: tuple[slice | Positions, ...],
        options: arrays.Options,
        order: Sequence[int] | None = None,
    ) -> None:
        self.array, self._key, self._options = array, key, options
        pairs = [*zip(key, array.shape, strict=True)]
        slices = [range(size)[entry] for entry, size in pairs if isinstance(entry, slice)]
        points = [entry.shape for entry in key if not isinstance(entry, slice)]
        first = (*np.broadcast_shapes(*points), *map(len, slices))  # those of the points
        self._order = range(len(first)) if order is None else order
        self._shape = tuple(first[axis] for axis in self._order)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    def transpose(self, order: Sequence[int]) -> SelectedPoints:
        return SelectedPoints(
            self.array, self._key, self._options, [self._order[axis] for axis in order]
        )

    def get_duck_array(self) -> Any:
        options = replace(self._options, plans=[])
        values = arrays.take_present(self.array, self._key, options)
        return values.transpose(self._order)

    async def async_get_duck_array(self) -> Any:
        return await asyncio.to_thread(self.get_duck_array)

    def _as_xarray(self) -> Any:
        key = indexing.VectorizedIndexer(self._key)
        source: Any = self.array
        lazy: Any = indexing.LazilyVectorizedIndexedArray(source, key)
        return lazy if [*self._order] == [*range(lazy.ndim)] else lazy.transpose(self._order)

    def __getitem__(self, indexer: Any) -> Any:
        return self._as_xarray()[indexer]

    def _oindex_get(self, indexer: Any) -> Any:
        return self._as_xarray().oindex[indexer]

    def _vindex_get(self, indexer: Any) -> Any:
        return self._as_xarray().vindex[indexer]
