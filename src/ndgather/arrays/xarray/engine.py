"""An xarray backend that extends xarray's own backends with fast selections of points.

xarray handles selections along axes. A selection of points stays lazy until its values are needed.
Each chunk that contains a point is then read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import xarray
from xarray.backends import BackendEntrypoint, H5netcdfBackendEntrypoint, ZarrBackendEntrypoint
from xarray.core.indexing import LazilyIndexedArray

from ndgather import messages
from ndgather.arrays.xarray import arrays
from ndgather.arrays.xarray.arrays import Positions, checked_positions, is_zarr
from ndgather.stored.cache import ChunkCache

__all__ = ["Engine"]

_KINDS = "biufcmM"  # kinds of dtypes that are decoded elementwise
_S3_OPTIONS = {  # maps the names of fsspec to the names of obstore
    "anon": "skip_signature",
    "key": "access_key_id",
    "secret": "secret_access_key",
    "token": "session_token",
    "endpoint_url": "endpoint",
    "region_name": "region",
}


class Engine(BackendEntrypoint):
    """The backend for ``xarray.open_dataset(..., engine="ndgather")``.

    The backend opens zarr stores and netCDF-4 files with the same values, coordinates, attributes
    and options as the engines "zarr" and "h5netcdf". The additional option `memory` limits the
    buffers of a selection of points, and `chunk_cache` limits the cache of decoded chunks.
    `chunk_cache` is a number of bytes, a string like "2 GiB", a `ndgather.ChunkCache` shared with
    other datasets, or None for no cache. (xarray's own option ``cache=True`` keeps whole variables
    in memory.)

    If the store changes after chunks were cached, selections of points return the old values until
    ``data.ndgather.clear()`` is called. Closing the dataset drops the cached chunks.

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
    supports_groups = True
    open_dataset_parameters = (  # the options that `xarray.open_dataset` passes
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
        engine, place, options = _engine_of(filename_or_obj, options)
        data: xarray.Dataset = engine.open_dataset(place, **options)
        return _with_points(data, memory, _as_cache(chunk_cache))

    def open_groups_as_dict(
        self,
        filename_or_obj: Any,
        *,
        memory: Any = None,
        chunk_cache: ChunkCache | int | str | None = "512 MiB",
        **options: Any,
    ) -> dict[str, xarray.Dataset]:
        engine, place, options = _engine_of(filename_or_obj, options)
        groups: dict[str, xarray.Dataset] = engine.open_groups_as_dict(place, **options)
        cache = _as_cache(chunk_cache)
        return {name: _with_points(data, memory, cache) for name, data in groups.items()}

    def open_datatree(self, filename_or_obj: Any, **options: Any) -> xarray.DataTree:
        groups = self.open_groups_as_dict(filename_or_obj, **options)
        tree = xarray.DataTree.from_dict(groups)
        for name, data in groups.items():
            tree[name].set_close(data.close)
        return tree


def _engine_of(place: Any, options: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Return the xarray backend for a path, URL or object, with its argument and options."""
    in_zarr = is_zarr(place)
    messages.need("zarr" if in_zarr else "h5netcdf", "stores")
    if in_zarr and isinstance(place, str):
        store = zarr_store(place, storage_options=options.get("storage_options"))
        if not isinstance(store, str):  # `storage_options` are part of the store
            return ZarrBackendEntrypoint(), store, {**options, "storage_options": None}
    return ZarrBackendEntrypoint() if in_zarr else H5netcdfBackendEntrypoint(), place, options


def _as_cache(cache: ChunkCache | int | str | None) -> ChunkCache | None:
    return cache if cache is None or isinstance(cache, ChunkCache) else ChunkCache(cache)


def _with_points(data: xarray.Dataset, memory: Any, cache: ChunkCache | None) -> xarray.Dataset:
    """Return a dataset that supports lazy selections of points from stored arrays."""
    common = arrays.storage_options("isel", memory)
    all_kept: list[arrays.CachedVariable] = []
    pointwise = data.copy(deep=False)
    for name, variable in pointwise.variables.items():
        array = arrays.array_of(variable)
        if arrays.is_lazy(array) and variable.dtype.kind in _KINDS:
            own = common.of(name, variable)
            kept = None if cache is None else arrays.CachedVariable(cache, own.chunks, own.name)
            source = replace(arrays.Source.of(array), cached=kept)
            variable.data = StoredArray(array, source, own)
            all_kept += [] if kept is None else [kept]
    pointwise.set_close(partial(_close, data, all_kept))
    return pointwise


def _close(data: xarray.Dataset, all_kept: list[arrays.CachedVariable]) -> None:
    for kept in all_kept:
        kept.clear()
    data.close()


def zarr_store(place: str, storage_options: Any = None) -> Any:
    """Return a zarr store for a path or URL, using obstore if possible and otherwise fsspec.

    If fsspec's `storage_options` are given, obstore is used only for S3 URLs, and only if obstore
    has an equivalent for each option.
    """
    given = dict(storage_options or {})
    given |= given.pop("client_kwargs", None) or {}
    is_known = not given or (place.startswith("s3://") and given.keys() <= _S3_OPTIONS.keys())
    if "://" not in place or not is_known:
        return place
    with suppress(ImportError):
        from obstore import store as stores  # noqa: PLC0415 - an optional package
        from obstore.exceptions import BaseError  # noqa: PLC0415
        from zarr.storage import ObjectStore  # noqa: PLC0415 - an extra

        options: Any = {_S3_OPTIONS[name]: given[name] for name in given}
        if (options.get("endpoint") or place).startswith("http://"):
            options["client_options"] = {"allow_http": True}
        with suppress(BaseError, ValueError):  # the scheme is not supported by obstore
            return ObjectStore(stores.from_url(place, **options), read_only=True)
    return place


class StoredArray(arrays.LazyArray):
    """A lazy array with a known `Source`, which selects points as `SelectedPoints`."""

    __slots__ = ("array", "options", "source")

    def __init__(self, array: Any, source: arrays.Source, options: arrays.Options) -> None:
        super().__init__(array, array.shape)
        self.array, self.source, self.options = array, source, options

    def get_duck_array(self, dtype: Any = None) -> Any:
        return self.array.get_duck_array()

    async def async_get_duck_array(self, dtype: Any = None) -> Any:
        return await self.array.async_get_duck_array()

    def transpose(self, order: Sequence[int]) -> Any:
        return self.array.transpose(order)

    def __getitem__(self, indexer: Any) -> Any:
        part = self.array[indexer]
        if not part.shape:  # xarray would read a StoredArray of rank 0 immediately
            return part
        return StoredArray(part, self.source.at(indexer.tuple), self.options)

    def select_along(self, indexer: Any) -> StoredArray:
        part = self.array.oindex[indexer]
        return StoredArray(part, self.source.at(indexer.tuple), self.options)

    def select_points(self, indexer: Any) -> SelectedPoints:
        key: list[Any] = []
        for axis, (entry, size) in enumerate(zip(indexer.tuple, self.shape, strict=True)):
            # Negative positions are larger than any size if viewed as unsigned integers.
            if isinstance(entry, slice) or not entry.size or entry.view("u8").max() < size:
                key.append(entry)
            else:
                named = xarray.Variable(range(entry.ndim), entry)
                key.append(checked_positions("isel", f"axis {axis}", named, size).values)
        return SelectedPoints(self, tuple(key), self.options)


class SelectedPoints(arrays.LazyArray):
    """Points of a stored array that are read when their values are needed."""

    __slots__ = ("_key", "_options", "_order", "array")

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
        first = (*np.broadcast_shapes(*points), *map(len, slices))  # the axes of points are first
        self._order = range(len(first)) if order is None else order
        super().__init__(array, [first[axis] for axis in self._order])

    def transpose(self, order: Sequence[int]) -> SelectedPoints:
        turned = [self._order[axis] for axis in order]
        return SelectedPoints(self.array, self._key, self._options, turned)

    def get_duck_array(self, dtype: Any = None) -> Any:
        options = replace(self._options, plans=[])
        values = arrays.take_present(self.array, self._key, options)
        return values.transpose(self._order)

    def _positions(self) -> list[Positions]:
        """Return the position of every value along each axis of the array."""
        number = after = sum(isinstance(entry, slice) for entry in self._key)
        grids = []
        for entry, size in zip(self._key, self.array.shape, strict=True):
            if isinstance(entry, slice):
                after -= 1
                grids.append(np.arange(size)[entry].reshape(-1, *[1] * after))
            else:
                grids.append(entry.reshape((*entry.shape, *[1] * number)))
        return [each.transpose(self._order) for each in np.broadcast_arrays(*grids)]

    def select_along(self, indexer: Any) -> Any:
        def select(grid: Positions) -> Positions:
            for axis in reversed(range(grid.ndim)):
                grid = grid[(slice(None),) * axis + (indexer.tuple[axis],)]
            return np.asarray(grid)

        key = tuple(map(select, self._positions()))
        points = SelectedPoints(self.array, key, self._options)
        # xarray would read a SelectedPoints of rank 0 immediately.
        return points if points.shape or not self.shape else LazilyIndexedArray(points)

    def select_points(self, indexer: Any) -> SelectedPoints:
        front = [axis for axis, k in enumerate(indexer.tuple) if not isinstance(k, slice)]
        order = sorted(range(len(self.shape)), key=lambda axis: axis not in front)
        taken = tuple(indexer.tuple[axis] for axis in order)
        key = tuple(grid.transpose(order)[taken] for grid in self._positions())
        return SelectedPoints(self.array, key, self._options)
