"""Shards of zarr format 3: the index of each says where its inner chunks lie."""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ndgather.stored.chunks import Buffers
from ndgather.stored.zarr.codecs import configuration, v3_decoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from zarr.codecs import ShardingCodec

    from ndgather.stored.chunks import Chunk
    from ndgather.stored.zarr.codecs import Bytes, Decoder
    from ndgather.stored.zarr.objects import Objects, StoredObject

_NOWHERE = 2**64 - 1
_ENTRY_BYTES = 16  # where a chunk starts, and its length
_MOST_BYTES = 4 * 2**20  # of the indices that are held
_MOST_SHARDS = 64  # each may be an open file


class Shards:
    """The inner chunks of shards, of which only the bytes that are needed are read."""

    def __init__(
        self,
        objects: Objects,
        key_of: Callable[[Chunk], str],
        counts: tuple[int, ...],
        index: Index,
    ) -> None:
        self._objects = objects
        self._key_of = key_of
        self._counts = counts  # of inner chunks along each axis of a shard
        self._index = index
        self._most = min(_MOST_SHARDS, max(1, _MOST_BYTES // (_ENTRY_BYTES * prod(counts))))
        self._lock = threading.Lock()
        self._held: OrderedDict[Chunk, Future[Shard | None]] = OrderedDict()

    def __call__(self, chunk: Chunk, buffers: Buffers) -> Bytes | None:
        """Return the stored bytes of an inner chunk; None where there are none."""
        shard, number = self._find(chunk, buffers)
        return None if shard is None else shard.inner(number, buffers)

    def size(self, chunk: Chunk) -> int:
        """Return how many bytes an inner chunk has."""
        shard, number = self._find(chunk, Buffers())
        return 0 if shard is None else shard.size(number)

    def _find(self, chunk: Chunk, buffers: Buffers) -> tuple[Shard | None, int]:
        """Return the shard of an inner chunk, None where there is none, and its number there."""
        number = 0
        for at, count in zip(chunk, self._counts, strict=True):
            number = number * count + at % count
        at_shard = tuple([at // count for at, count in zip(chunk, self._counts, strict=True)])
        return self._shard(at_shard, buffers), number

    def _shard(self, chunk: Chunk, buffers: Buffers) -> Shard | None:
        """Return a shard that is held, or read its index: one thread does, the others wait."""
        with self._lock:
            held = self._held.get(chunk)
            if held is not None:
                self._held.move_to_end(chunk)
            else:
                mine: Future[Shard | None] = Future()
                self._held[chunk] = mine
                if len(self._held) > self._most:
                    self._held.popitem(last=False)
        if held is not None:
            return held.result()
        try:
            shard = self._open(chunk, buffers)
        except BaseException as error:
            with self._lock:
                self._held.pop(chunk, None)
            mine.set_exception(error)
            raise
        mine.set_result(shard)
        return shard

    def _open(self, chunk: Chunk, buffers: Buffers) -> Shard | None:
        stored = self._objects.open(self._key_of(chunk))
        places = None if stored is None else self._index.read(stored, buffers)
        return None if stored is None or places is None else Shard(stored, places)


class Shard:
    """One shard: an object, and where each of its inner chunks starts and how long it is."""

    __slots__ = ("_places", "_stored")

    def __init__(self, stored: StoredObject, places: NDArray[np.uint64]) -> None:
        self._stored = stored
        self._places = places

    def size(self, number: int) -> int:
        length: int = self._places.item(2 * number + 1)
        return 0 if length == _NOWHERE else length

    def inner(self, number: int, buffers: Buffers) -> Bytes | None:
        start, length = self._places.item(2 * number), self._places.item(2 * number + 1)
        if start == length == _NOWHERE:
            return None
        if start + length > _NOWHERE // 2:
            raise ValueError(f"the index of the shard says {length} bytes from {start}")
        return self._stored.part(start, start + length, buffers)


class Index:
    """How the index of each shard is stored."""

    def __init__(self, decoder: Decoder, stored_bytes: int, at_start: bool) -> None:
        self._decoder = decoder
        self._bytes = stored_bytes
        self._at_start = at_start

    def read(self, stored: StoredObject, buffers: Buffers) -> NDArray[np.uint64] | None:
        found = stored.edge(self._bytes, self._at_start, buffers)
        if found is None:
            return None
        return self._decoder.decode(found, Buffers()).astype(np.uint64).reshape(-1)


def index_of(codec: ShardingCodec, counts: tuple[int, ...]) -> Index | None:
    """Return how the indices of shards are stored, if all of their codecs are known here."""
    decoder = v3_decoder(codec.index_codecs, np.dtype("<u8"), (*counts, 2))
    if decoder is None or any(step.size_of or step.size for step in decoder.steps):
        return None
    stored_bytes = _ENTRY_BYTES * prod(counts) + 4 * len(decoder.steps)
    location = configuration(codec)["index_location"]
    return Index(decoder, stored_bytes, location == "start")
