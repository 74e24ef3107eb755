"""Read the objects of zarr stores and the inner chunks of shards.

Local files are read into reused buffers, and other objects with the `get` method of the store. In
zarr format 3, the index of a shard contains the byte ranges of its inner chunks.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import zarr.storage
from numpy.typing import NDArray
from zarr.abc.store import ByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.buffer.cpu import buffer_prototype
from zarr.core.sync import sync

from ndgather.stored.chunks import Buffers, Chunk, LocalFile
from ndgather.stored.zarr.codecs import Bytes, configuration, v3_decoder

if TYPE_CHECKING:
    from zarr.codecs import ShardingCodec

    # A shard and its index, in which the starts and lengths of inner chunks alternate.
    Shard: TypeAlias = tuple["StoredObject", NDArray[np.uint64]]

_TO_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # opening a pipe does not block
_NOWHERE = 2**64 - 1
_ENTRY_BYTES = 16  # a start and a length
_MOST_INDEX_BYTES = 4 * 2**20
_MOST_SHARDS = 64  # the maximum number of shards to keep, each of which may be an open file
_POLL_SECONDS = 0.1


class LocalFiles:
    """The objects of a local store."""

    in_flight = 1

    def __init__(self, root: Path) -> None:
        self._root = os.fspath(root)

    def whole(self, key: str, buffers: Buffers) -> Bytes | None:
        """Return all bytes of an object, or None if it does not exist."""
        file = self.open(key)
        return None if file is None else file.part(0, file.size, buffers)

    def open(self, key: str) -> LocalFile | None:
        """Open an object to read parts of it; return None if it does not exist."""
        try:
            file = LocalFile(os.open(f"{self._root}/{key}", _TO_READ))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return None if file.is_folder else file

    def size(self, key: str) -> int | None:
        try:
            return Path(self._root, key).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return 0


class StoreObjects:
    """The objects of a store that is not local; the store is responsible for retrying requests."""

    def __init__(self, store: Store, in_flight: int) -> None:
        self._store = store
        self.in_flight = in_flight

    def whole(self, key: str, buffers: Buffers) -> Bytes | None:
        return self.get(key, None, buffers)

    def open(self, key: str) -> StoreObject:
        return StoreObject(self, key)

    def size(self, key: str) -> int | None:
        if type(self._store) is not zarr.storage.MemoryStore:
            return None  # `getsize` would send a request for each object, or read it
        try:
            return sync(self._store.getsize(key))
        except FileNotFoundError:
            return 0

    def get(self, key: str, request: ByteRequest | None, buffers: Buffers) -> Bytes | None:
        read = partial(self._store.get, key, buffer_prototype, request)
        near = self.in_flight == 1
        answer = _at_once(read) if near else sync(_unless_stopped(read(), buffers.stopped))
        if answer is None:
            return None
        content: Bytes = answer.as_numpy_array().view()
        content.flags.writeable = False  # the memory may belong to the store
        return content


def _at_once(read: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Read without an event loop, so that several threads can read concurrently.

    If the store has to wait, the read is repeated in zarr's event loop.
    """
    reply = read()
    try:
        reply.send(None)
    except StopIteration as done:
        return done.value
    except RuntimeError:  # raised if the coroutine needs a running event loop
        pass
    reply.close()
    return sync(read())


async def _unless_stopped(reply: Coroutine[Any, Any, Any], stopped: Callable[[], bool]) -> Any:
    """Wait for a reply, and cancel the request if the call ends early."""
    task = asyncio.ensure_future(reply)
    while not task.done() and not stopped():
        await asyncio.wait({task}, timeout=_POLL_SECONDS)
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
        raise InterruptedError("the call was stopped")
    return task.result()


class StoreObject:
    """An object whose parts are read by separate requests to its store."""

    def __init__(self, objects: StoreObjects, key: str) -> None:
        self._objects = objects
        self._key = key

    def part(self, start: int, stop: int, buffers: Buffers) -> Bytes:
        content = self._objects.get(self._key, RangeByteRequest(start, stop), buffers)
        if content is None:
            raise ValueError(f"{self._key} no longer exists")
        return self._complete(content, stop - start)

    def edge(self, count: int, at_start: bool, buffers: Buffers) -> Bytes | None:
        request = RangeByteRequest(0, count) if at_start else SuffixByteRequest(count)
        content = self._objects.get(self._key, request, buffers)
        return None if content is None else self._complete(content, count)

    def _complete(self, content: Bytes, count: int) -> Bytes:
        if content.size != count:
            raise ValueError(f"{self._key} returned {content.size} of {count} bytes")
        return content


Objects: TypeAlias = LocalFiles | StoreObjects
StoredObject: TypeAlias = LocalFile | StoreObject


def objects_of(store: Store) -> Objects:
    # Subclasses may override how objects are read, so compare exact classes.
    if type(store) is zarr.storage.LocalStore:
        return LocalFiles(store.root)
    near = type(store) in (zarr.storage.MemoryStore, zarr.storage.ZipStore)
    near = near or type(store).__module__ == "tifffile.zarr"
    return StoreObjects(store, 1 if near else 16)


class Shards:
    """A reader for the inner chunks of shards that reads only the required byte ranges."""

    def __init__(
        self,
        objects: Objects,
        key_of: Callable[[Chunk], str],
        counts: tuple[int, ...],
        codec: ShardingCodec,
    ) -> None:
        self._objects = objects
        self._key_of = key_of
        self._counts = counts  # the number of inner chunks along each axis of a shard
        self._decoder = v3_decoder(codec.index_codecs, np.dtype("<u8"), (*counts, 2))
        self._at_start = configuration(codec)["index_location"] == "start"
        self._most = min(_MOST_SHARDS, max(1, _MOST_INDEX_BYTES // (_ENTRY_BYTES * prod(counts))))
        self._lock = threading.Lock()
        self._held: OrderedDict[Chunk, Future[Shard | None]] = OrderedDict()
        self._last: tuple[list[int], Shard | None] = [], None

    @property
    def is_known(self) -> bool:
        """True if the codecs of the index are known and do not compress it."""
        decoder = self._decoder
        return decoder is not None and not any(x.size_of or x.expected_size for x in decoder.steps)

    def read(self, chunk: Chunk, buffers: Buffers) -> Bytes | None:
        """Return the stored bytes of an inner chunk, or None if it does not exist."""
        shard, start, length = self._find(chunk, buffers)
        if shard is None or start == length == _NOWHERE:
            return None
        if start + length > _NOWHERE // 2:
            raise ValueError(f"the shard's index has an entry of {length} bytes at {start}")
        return shard[0].part(start, start + length, buffers)

    def size(self, chunk: Chunk) -> int | None:
        shard, _, length = self._find(chunk, Buffers())
        return 0 if shard is None or length == _NOWHERE else length

    def _find(self, chunk: Chunk, buffers: Buffers) -> tuple[Shard | None, int, int]:
        """Return the shard of an inner chunk, or None, and the start and length of the chunk.

        With 2 by 3 inner chunks per shard, chunk (5, 4) is entry 1 * 3 + 1 = 4 of shard (2, 1).
        """
        number = 0
        at_shard = []
        for at, count in zip(chunk, self._counts, strict=True):
            whole, inside = divmod(at, count)
            at_shard.append(whole)
            number = number * count + inside
        last, shard = self._last  # successive reads usually use the same shard
        if last != at_shard:
            shard = self._shard(tuple(at_shard), buffers)
            self._last = at_shard, shard
        if shard is None:
            return None, 0, 0
        return shard, shard[1].item(2 * number), shard[1].item(2 * number + 1)

    def _shard(self, chunk: Chunk, buffers: Buffers) -> Shard | None:
        """Return a shard, whose index is read by a single thread while other threads wait."""
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
