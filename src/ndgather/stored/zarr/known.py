"""Arrays all of whose codecs are known here: how their chunks are found and decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
import zarr.codecs

from ndgather.stored.zarr.codecs import v2_decoder, v3_decoder
from ndgather.stored.zarr.shards import Shards, index_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ndgather.stored.chunks import Array, Buffers, Chunk
    from ndgather.stored.zarr.codecs import Bytes, Decoder
    from ndgather.stored.zarr.objects import Objects


@dataclass(frozen=True, slots=True)
class KnownChunks:
    """How the stored bytes of a chunk are found, None where there are none, and decoded."""

    stored: Callable[[Chunk, Buffers], Bytes | None]
    size: Callable[[Chunk], int | None]  # of what is stored; None: only a read says
    decoder: Decoder
    fill_value: Array


def known_chunks(array: zarr.Array[Any], objects: Objects) -> KnownChunks | None:
    """Return how chunks of a regular grid are read, of shards the inner ones; None if by zarr."""
    metadata = array.metadata
    dtype = np.dtype(array.dtype)
    prefix = f"{array.path}/" if array.path else ""

    def key_of(chunk: Chunk) -> str:
        return prefix + metadata.encode_chunk_key(chunk)

    def whole(chunk: Chunk, buffers: Buffers) -> Bytes | None:
        return objects.whole(key_of(chunk), buffers)

    def size_of(chunk: Chunk) -> int | None:
        return objects.size(key_of(chunk))

    stored: Callable[[Chunk, Buffers], Bytes | None] = whole
    size: Callable[[Chunk], int | None] = size_of
    if metadata.zarr_format == 2:
        decoder = v2_decoder(metadata, dtype)
    elif array.shards is None:
        decoder = v3_decoder(metadata.codecs, dtype, array.chunks)
    else:
        codec = metadata.codecs[0]
        counts = tuple(map(int.__floordiv__, array.shards, array.chunks))
        if type(codec) is not zarr.codecs.ShardingCodec:
            return None
        index = index_of(codec, counts)
        decoder = v3_decoder(codec.codecs, dtype, array.chunks) if index else None
        if index:
            stored = shards = Shards(objects, key_of, counts, index)
            size = shards.size
    # Arrays may be opened so that zarr raises an error for a missing chunk.
    fills = getattr(getattr(array, "config", None), "read_missing_chunks", True)
    if decoder is None or not fills:
        return None
    value = np.zeros((), dtype) if array.fill_value is None else array.fill_value
    return KnownChunks(stored, size, decoder, np.asarray(value, dtype))
