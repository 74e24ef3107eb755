"""Shards of zarr format 3: the index of a shard says where its inner chunks lie."""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ndgather.stored.chunks import Buffers
from ndgather.stored.zarr.codecs import configuration, v3_decoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from zarr.codecs import ShardingCodec

    from ndgather.stored.chunks import Chunk
    from ndgather.stored.zarr.codecs import Bytes
    from ndgather.stored.zarr.objects import Objects, StoredObject

    Shard: TypeAlias = tuple[
        StoredObject, NDArray[np.uint64]
    ]  # with starts and lengths, alternating

_NOWHERE = 2**64 - 1
_ENTRY_BYTES = 16  # a start and a length
_MOST_BYTES = 4 * 2**20  # of the indices that are held
_MOST_SHARDS = 64  # that are held; each may be an open file


class Shards:
    """The inner chunks of shards, of which only the needed bytes are read."""

    def __init__(
        self,
        objects: Objects,
        key_of: Callable[[Chunk], str],
        counts: tuple[int, ...],
        codec: ShardingCodec,
    ) -> None:
        self._objects = objects
        self._key_of = key_of
        self._counts = counts  # of inner chunks along each axis of a shard
        self._decoder = v3_decoder(codec.index_codecs, np.dtype("<u8"), (*counts, 2))
        self._at_start = configuration(codec)["index_location"] == "start"
        self._most = min(_MOST_SHARDS, max(1, _MOST_BYTES // (_ENTRY_BYTES * prod(counts))))
        self._lock = threading.Lock()
        self._held: OrderedDict[Chunk, Future[Shard | None]] = OrderedDict()

    @property
    def is_known(self) -> bool:
        """Whether the index has known codecs, that do not change its size but for a checksum."""
        decoder = self._decoder
        return decoder is not None and not any(step.size_of or step.size for step in decoder.steps)

    def read(self, chunk: Chunk, buffers: Buffers) -> Bytes | None:
        """Return the stored bytes of an inner chunk, or None if there are none."""
        shard, start, length = self._find(chunk, buffers)
        if shard is None or start == length == _NOWHERE:
            return None
        if start + length > _NOWHERE // 2:
            raise ValueError(f"the index of the shard says {length} bytes from {start}")
        return shard[0].part(start, start + length, buffers)

    def size(self, chunk: Chunk) -> int | None:
        """Return the number of stored bytes of an inner chunk."""
        shard, _, length = self._find(chunk, Buffers())
        return 0 if shard is None or length == _NOWHERE else length

    def _find(self, chunk: Chunk, buffers: Buffers) -> tuple[Shard | None, int, int]:
        """Return the shard of an inner chunk, if it exists, and the start and length there."""
        number = 0
        for at, count in zip(chunk, self._counts, strict=True):
            number = number * count + at % count
        at_shard = tuple([at // count for at, count in zip(chunk, self._counts, strict=True)])
        shard = self._shard(at_shard, buffers)
        if shard is None:
            return None, 0, 0
        return shard, shard[1].item(2 * number), shard[1].item(2 * number + 1)

    def _shard(self, chunk: Chunk, buffers: Buffers) -> Shard | None:
        """Return a shard whose index is held, or read it: one thread reads, the others wait."""
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
        stored, decoder = self._objects.open(self._key_of(chunk)), self._decoder
        if stored is None or decoder is None:
            return None
        count = _ENTRY_BYTES * prod(self._counts) + 4 * len(decoder.steps)  # with checksums
        content = stored.edge(count, self._at_start, buffers)
        if content is None:
            return None
        return stored, decoder.decode(content, Buffers()).astype(np.uint64).reshape(-1)
