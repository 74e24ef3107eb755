"""The bytes of objects of a zarr store: of local files in reused memory, of others by `get`."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import zarr.storage
from zarr.abc.store import RangeByteRequest, SuffixByteRequest
from zarr.buffer.cpu import buffer_prototype
from zarr.core.sync import sync

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from numpy.typing import NDArray
    from zarr.abc.store import ByteRequest, Store

    from ndgather.stored.chunks import Buffers

    Bytes = NDArray[Any]  # of uint8

_TO_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # to open a pipe would wait for its writer
_PATIENCE = 0.1  # seconds until a request is cancelled after the call has ended


class LocalFiles:
    """The objects of a store in a folder."""

    in_flight = 1

    def __init__(self, root: Path) -> None:
        self._root = os.fspath(root)

    def whole(self, key: str, buffers: Buffers) -> Bytes | None:
        """Return all bytes of an object, or None if there is none."""
        file = self.open(key)
        return None if file is None else file.part(0, file.size, buffers)

    def open(self, key: str) -> LocalFile | None:
        """Return an object to read parts of, or None if there is none."""
        try:
            file = LocalFile(os.open(f"{self._root}/{key}", _TO_READ))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return None if file.is_folder else file

    def size(self, key: str) -> int | None:
        """Return the bytes of an object, 0 if there is none, or None if only a read tells."""
        try:
            return Path(self._root, key).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return 0


class LocalFile:
    """An open file; all its parts are of one version, even if the file is replaced."""

    __slots__ = ("_descriptor", "is_folder", "size")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        status = os.fstat(descriptor)
        self.size = status.st_size
        self.is_folder = stat.S_ISDIR(status.st_mode)
        if not self.is_folder and not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a regular file")

    def __del__(self) -> None:
        os.close(self._descriptor)

    def part(self, start: int, stop: int, buffers: Buffers) -> Bytes:
        """Return the bytes from `start` to `stop`, which must all exist."""
        if stop > self.size:
            raise ValueError(f"the file has {self.size} bytes, and not the {stop} that it should")
        memory = buffers.memory("stored", stop - start)
        done = 0
        while done < memory.size:
            count = os.preadv(self._descriptor, [memory[done:].data], start + done)
            if count == 0:
                raise ValueError(f"the file became shorter, and ends after {start + done} bytes")
            done += count
        return memory

    def edge(self, count: int, at_start: bool, buffers: Buffers) -> Bytes | None:
        """Return the first or the last `count` bytes, or None if there is no object."""
        start = 0 if at_start else max(0, self.size - count)
        return self.part(start, start + count, buffers)


class StoreObjects:
    """The objects of any other store, read by its `get`, with the store's own retries."""

    def __init__(self, store: Store, in_flight: int) -> None:
        self._store = store
        self.in_flight = in_flight

    def whole(self, key: str, buffers: Buffers) -> Bytes | None:
        return self.get(key, None, buffers)

    def open(self, key: str) -> StoreObject:
        return StoreObject(self, key)

    def size(self, key: str) -> int | None:
        if type(self._store) is not zarr.storage.MemoryStore:
            return None  # it would be a request per object, or a read
        try:
            return sync(self._store.getsize(key))
        except FileNotFoundError:
            return 0

    def get(self, key: str, request: ByteRequest | None, buffers: Buffers) -> Bytes | None:
        reply = self._store.get(key, buffer_prototype, request)
        answer = sync(_unless_stopped(reply, buffers.stopped))
        if answer is None:
            return None
        content: Bytes = answer.as_numpy_array().view()
        content.flags.writeable = False  # it may be the memory of the store
        return content


async def _unless_stopped(reply: Coroutine[Any, Any, Any], stopped: Callable[[], bool]) -> Any:
    """Wait for an answer, unless the call ends before."""
    task = asyncio.ensure_future(reply)
    while not task.done() and not stopped():
        await asyncio.wait({task}, timeout=_PATIENCE)
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
        raise InterruptedError("the call was stopped")
    return task.result()


class StoreObject:
    """One object of a store; every part is a request."""

    def __init__(self, objects: StoreObjects, key: str) -> None:
        self._objects = objects
        self._key = key

    def part(self, start: int, stop: int, buffers: Buffers) -> Bytes:
        content = self._objects.get(self._key, RangeByteRequest(start, stop), buffers)
        if content is None:
            raise ValueError(f"{self._key} is gone, and its {stop - start} bytes with it")
        return self._complete(content, stop - start)

    def edge(self, count: int, at_start: bool, buffers: Buffers) -> Bytes | None:
        request = RangeByteRequest(0, count) if at_start else SuffixByteRequest(count)
        content = self._objects.get(self._key, request, buffers)
        return None if content is None else self._complete(content, count)

    def _complete(self, content: Bytes, count: int) -> Bytes:
        if content.size != count:
            raise ValueError(f"{self._key} gave {content.size} of {count} bytes")
        return content


Objects: TypeAlias = LocalFiles | StoreObjects
StoredObject: TypeAlias = LocalFile | StoreObject


def objects_of(store: Store) -> Objects:
    """Return the objects of a store."""
    # Subclasses may read in their own way: only these very classes are known.
    if type(store) is zarr.storage.LocalStore:
        return LocalFiles(store.root)
    near = type(store) in (zarr.storage.MemoryStore, zarr.storage.ZipStore)
    return StoreObjects(store, 1 if near else 16)
