"""Bytes of the objects of a zarr store: of local files into reused memory, else by its `get`."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

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

_TO_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe would wait for who writes
_PATIENCE = 0.1  # seconds until a request is given up that is not wanted any more


class StoredObject(Protocol):
    """An object that exists: its parts can be read."""

    def part(self, start: int, stop: int, buffers: Buffers) -> Bytes:
        """Return the bytes from `start` to `stop`; all are there."""

    def edge(self, count: int, at_start: bool, buffers: Buffers) -> Bytes | None:
        """Return the first or the last `count` bytes; None where there is no object."""


class Objects(Protocol):
    """The objects of a store."""

    in_flight: int  # how many reads should overlap

    def whole(self, key: str, buffers: Buffers) -> Bytes | None:
        """Return all bytes of an object; None where there is none."""

    def open(self, key: str) -> StoredObject | None:
        """Return an object to read parts of; None where it is known that there is none."""

    def size(self, key: str) -> int | None:
        """Return how many bytes an object has, 0 where there is none; None: only a read says."""


def objects_of(store: Store) -> Objects:
    """Return what reads the objects of a store in the way that suits it."""
    # A subclass may read in its own way, and so only these very classes are known.
    if type(store) is zarr.storage.LocalStore:
        return LocalFiles(store.root)
    near = type(store) in (zarr.storage.MemoryStore, zarr.storage.ZipStore)
    return StoreObjects(store, 1 if near else 16)


class LocalFiles:
    """The files of a folder."""

    in_flight = 1

    def __init__(self, root: Path) -> None:
        self._root = os.fspath(root)

    def whole(self, key: str, buffers: Buffers) -> Bytes | None:
        file = self.open(key)
        return None if file is None else file.part(0, file.size, buffers)

    def open(self, key: str) -> LocalFile | None:
        try:
            file = LocalFile(os.open(f"{self._root}/{key}", _TO_READ))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return None if file.is_folder else file

    def size(self, key: str) -> int:
        try:
            return Path(self._root, key).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return 0


class LocalFile:
    """An open file, which is closed when nobody refers to it any more.

    Whoever replaces it meanwhile changes nothing here: an index and the parts that it names are of
    one version.
    """

    __slots__ = ("_descriptor", "is_folder", "size")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        status = os.fstat(descriptor)
        self.size = status.st_size
        self.is_folder = stat.S_ISDIR(status.st_mode)
        if not self.is_folder and not stat.S_ISREG(status.st_mode):
            raise ValueError("what stands there is no file")

    def __del__(self) -> None:
        os.close(self._descriptor)

    def part(self, start: int, stop: int, buffers: Buffers) -> Bytes:
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

    def edge(self, count: int, at_start: bool, buffers: Buffers) -> Bytes:
        start = 0 if at_start else max(0, self.size - count)
        return self.part(start, start + count, buffers)


class StoreObjects:
    """The objects of any store, read by its own `get`, which retries as the store is told to."""

    def __init__(self, store: Store, in_flight: int) -> None:
        self._store = store
        self.in_flight = in_flight

    def whole(self, key: str, buffers: Buffers) -> Bytes | None:
        return self.get(key, None, buffers)

    def open(self, key: str) -> ObjectOfStore:
        return ObjectOfStore(self, key)

    def size(self, key: str) -> int | None:
        if type(self._store) is not zarr.storage.MemoryStore:
            return None  # to ask for it is a request for each object, or reads it
        try:
            return sync(self._store.getsize(key))
        except FileNotFoundError:
            return 0

    def get(self, key: str, request: ByteRequest | None, buffers: Buffers) -> Bytes | None:
        asked = self._store.get(key, buffer_prototype, request)
        found = sync(_unless_stopped(asked, buffers.stopped))
        if found is None:
            return None
        content: Bytes = found.as_numpy_array().view()
        content.flags.writeable = False  # it may be the memory of the store
        return content


async def _unless_stopped(asked: Coroutine[Any, Any, Any], stopped: Callable[[], bool]) -> Any:
    """Wait for an answer as long as it is wanted."""
    task = asyncio.ensure_future(asked)
    while not task.done() and not stopped():
        await asyncio.wait({task}, timeout=_PATIENCE)
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
        raise InterruptedError("the call was stopped")
    return task.result()


class ObjectOfStore:
    """One object of a store, whose parts are asked for one by one."""

    def __init__(self, objects: StoreObjects, key: str) -> None:
        self._objects = objects
        self._key = key

    def part(self, start: int, stop: int, buffers: Buffers) -> Bytes:
        found = self._objects.get(self._key, RangeByteRequest(start, stop), buffers)
        return self._complete(found, stop - start)

    def edge(self, count: int, at_start: bool, buffers: Buffers) -> Bytes | None:
        request = RangeByteRequest(0, count) if at_start else SuffixByteRequest(count)
        found = self._objects.get(self._key, request, buffers)
        return None if found is None else self._complete(found, count)

    def _complete(self, found: Bytes | None, count: int) -> Bytes:
        if found is None:
            raise ValueError(f"{self._key} is gone, of which {count} bytes were asked for")
        if found.size != count:
            raise ValueError(f"{self._key} gave {found.size} bytes of the {count} asked for")
        return found
