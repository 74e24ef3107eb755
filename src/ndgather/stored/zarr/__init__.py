"""Read and write zarr arrays of formats 2 and 3, sharded or not, in any zarr store.

Arrays with known codecs are read and decoded by this package, and other arrays are read with
``z[...]``. All arrays are written with ``z[...] = values``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from operator import floordiv
from typing import Any

import numpy as np
import zarr
import zarr.codecs
import zarr.storage
from zarr.core.sync import sync

from ndgather.array_call import Array, Call
from ndgather.stored import calls, ranges
from ndgather.stored.chunks import Buffers, Chunk, Grid, missing_raises, no_chunk
from ndgather.stored.zarr.codecs import Bytes, Decoder, is_lossless, v2_decoder, v3_decoder
from ndgather.stored.zarr.objects import Objects, Shards, objects_of

# Stores that write objects immediately, unlike Icechunk, whose sessions must be committed.
_OF_OBJECTS = (
    zarr.storage.LocalStore,
    zarr.storage.MemoryStore,
    zarr.storage.FsspecStore,
    zarr.storage.ObjectStore,
)


def run(call: Call) -> Any:
    return calls.gather_or_scatter(call, zarr.Array, reader, writer)


run_ranges = ranges.run_ranges


@dataclass(frozen=True, slots=True)
class _KnownChunks:
    """The functions that read and decode the stored bytes of chunks."""

    read: Callable[[Chunk, Buffers], Bytes | None]  # returns None if the chunk is missing
    decoder: Decoder
    size: Callable[[Chunk], int | None]  # returns the stored size, or None if it is unknown
    fill_value: Array

    @classmethod
    def of(cls, array: zarr.Array[Any], objects: Objects) -> _KnownChunks | None:
        """Return the functions for an array with a regular grid, or None if zarr must read it."""
        metadata, dtype = array.metadata, np.dtype(array.dtype)
        prefix = f"{array.path}/" if array.path else ""

        def key_of(chunk: Chunk) -> str:
            return prefix + metadata.encode_chunk_key(chunk)

        def read(chunk: Chunk, buffers: Buffers) -> Bytes | None:
            return objects.whole(key_of(chunk), buffers)

        def size(chunk: Chunk) -> int | None:
            return objects.size(key_of(chunk))

        if metadata.zarr_format == 2:
            decoder = v2_decoder(metadata, dtype)
        elif array.shards is None:
            decoder = v3_decoder(metadata.codecs, dtype, array.chunks)
        else:
            codec = metadata.codecs[0]
            if type(codec) is not zarr.codecs.ShardingCodec:
                return None
            counts = tuple(map(int.__floordiv__, array.shards, array.chunks))
            shards = Shards(objects, key_of, counts, codec)
            if not shards.is_known:
                return None
            read, size = shards.read, shards.size
            decoder = v3_decoder(codec.codecs, dtype, array.chunks)
        if decoder is None:
            return None
        value = array.fill_value
        if value is None:  # format 2 allows arrays without a fill value
            value = "NaT" if dtype.kind in "mM" else 0
        return cls(read, decoder, size, np.asarray(value, dtype))


class ZarrReader:
    """A reader for the chunks of a zarr array or, if it is sharded, the inner chunks."""

    whole_shards = False
    _shards: tuple[int, ...] | None = None

    def __init__(self, array: zarr.Array[Any], all_chunks_exist: bool = False) -> None:
        self.array = array
        self.name = str(array.store_path)
        self.dtype = np.dtype(array.dtype)
        objects = objects_of(array.store)
        self.in_flight = objects.in_flight
        try:
            chunks, shards = array.chunks, array.shards
        except NotImplementedError:  # a rectilinear grid, whose chunk lengths differ
            sizes = "write_chunk_sizes" if self.whole_shards else "read_chunk_sizes"
            self.grid, self._known = Grid.of_sizes(getattr(array, sizes)), None
        else:
            whole, self._shards = shards if self.whole_shards else None, shards
            self.grid = Grid.regular(array.shape, whole or chunks)
            self._known = None if whole else _KnownChunks.of(array, objects)
        self.chunk_bytes = self.dtype.itemsize * prod(self.grid.largest)
        self.stored_bytes = self.chunk_bytes
        # zarr arrays can also be configured to raise an error for missing chunks.
        fills = getattr(getattr(array, "config", None), "read_missing_chunks", True)
        self._all_exist = all_chunks_exist or missing_raises() or not fills
        if self.whole_shards:
            self._all_exist = False  # scatters may create chunks that are missing

    def __reduce__(self) -> Any:
        return type(self), (self.array, self._all_exist)

    def stored_size(self, chunk: Chunk) -> int | None:
        """Return the stored size of a chunk in bytes, or None if only a read can determine it."""
        return None if self._known is None else self._known.size(chunk)

    def read(self, chunk: Chunk, buffers: Buffers) -> Array:
        if self._known is None:
            if self._all_exist or self._shards:
                self._check_object(chunk)
            buffers.acquire_permit()
            return np.asarray(self.array[self.grid.box(chunk)])
        stored = self._known.read(chunk, buffers)
        if stored is None:
            if self._all_exist:
                raise no_chunk()
            buffers.acquire_permit()
            return np.broadcast_to(self._known.fill_value, self.grid.extent(chunk))
        values = self._known.decoder.decode(stored, buffers)
        extent = self.grid.extent(chunk)  # stored chunks may extend past the end of the array
        return values if values.shape == extent else values[tuple(map(slice, extent))]

    def _check_object(self, chunk: Chunk) -> None:
        """Raise an error if a chunk's object is empty, or if it is missing but must exist."""
        if self._shards:
            starts = (part.start for part in self.grid.box(chunk))
            chunk = tuple(map(floordiv, starts, self._shards))
        key = f"{self.array.path}/{self.array.metadata.encode_chunk_key(chunk)}".lstrip("/")
        try:
            size = sync(self.array.store.getsize(key))
        except FileNotFoundError:
            size = -1
        # Icechunk also reports a size of 0 for objects that do not exist.
        if size == 0 and sync(self.array.store.exists(key)):
            raise ValueError("its object has 0 bytes")
        if size <= 0 and self._all_exist:
            raise no_chunk()


class ZarrWriter(ZarrReader):
    """A reader and writer for the chunks of a zarr array or, if it is sharded, the shards."""

    whole_shards = True

    @property
    def writeable(self) -> bool:
        return not self.array.read_only

    @property
    def loss(self) -> str:
        """The reason why values may differ when read back, or an empty string."""
        array = self.array
        of_elements = () if array.metadata.zarr_format == 2 else (array.serializer,)
        codecs = (*array.filters, *array.compressors, *of_elements)
        lossy = [type(each).__name__ for each in codecs if not is_lossless(each, self.dtype)]
        return f"has {lossy[0]}, which may be lossy" if lossy else ""

    @property
    def replaces_objects(self) -> bool:
        store: Any = self.array.store
        protocols = store.fs.protocol if isinstance(store, zarr.storage.FsspecStore) else ()
        if "file" in ((protocols,) if isinstance(protocols, str) else protocols):
            return False  # fsspec overwrites local files in place
        return isinstance(store, _OF_OBJECTS)

    def write(self, chunk: Chunk, values: Array) -> None:
        array = self.array
        if self.dtype.kind in "cV":  # for these dtypes, zarr would not store chunks of -0.0
            config: Any = {"write_empty_chunks": True}
            array = zarr.Array(zarr.AsyncArray(array.metadata, array.store_path, config=config))
        if type(array.store) is not zarr.storage.LocalStore:
            values = values.copy()  # stores may keep references to uncompressed chunks
        array[self.grid.box(chunk)] = values


reader, writer = ZarrReader, ZarrWriter


def as_stored_now(array: zarr.Array[Any]) -> zarr.Array[Any]:
    options: Any = {"path": array.path, "zarr_format": array.metadata.zarr_format}
    found: Any = zarr.open_array(array.store, mode="r" if array.read_only else "r+", **options)
    config = getattr(array, "config", None)
    return zarr.Array(zarr.AsyncArray(found.metadata, array.store_path, config=config))
