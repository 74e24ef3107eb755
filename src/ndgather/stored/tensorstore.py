"""Tensorstore arrays of any format (zarr, N5, ...) in any tensorstore key-value store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np
import tensorstore

from ndgather.array_call import Array, Call
from ndgather.errors import StoredArrayError
from ndgather.stored import calls, ranges
from ndgather.stored.chunks import Buffers, Chunk, Grid, box_shape

_NEAR = ("file", "memory")  # key-value stores without a network
_REQUESTS = 16
_POLL_SECONDS = 0.1
_PROCESS = os.getpid()  # the process that imported tensorstore


def run(call: Call) -> Any:
    return calls.gather_or_scatter(call, tensorstore.TensorStore, reader, writer)


run_ranges = ranges.run_ranges


def reader(array: tensorstore.TensorStore) -> TensorStoreReader:
    """Return a reader for the chunks of an array or, if it is sharded, the inner chunks."""
    return TensorStoreReader(array, array.chunk_layout.read_chunk.shape)


def writer(array: tensorstore.TensorStore) -> TensorStoreReader:
    """Return a reader and writer for the chunks of an array or, if it is sharded, the shards."""
    return TensorStoreReader(array, array.chunk_layout.write_chunk.shape)


def as_stored_now(array: tensorstore.TensorStore) -> tensorstore.TensorStore:
    """Reopen the array, so that its bounds are current."""
    spec = array.spec(retain_context=True, minimal_spec=True)
    return tensorstore.open(spec, read=array.readable, write=array.writable).result()


class TensorStoreReader:
    """A reader and writer for the chunks or shards of a tensorstore array."""

    def __init__(self, array: tensorstore.TensorStore, unit: Sequence[int | None] | None) -> None:
        if os.getpid() != _PROCESS:  # tensorstore would crash the process
            raise StoredArrayError(
                "tensorstore: its threads do not exist in a forked process (allowed: spawned "
                "processes); write multiprocessing.get_context('spawn')"
            )
        self.array = array
        self._unit = unit
        self.name, self.in_flight = _place(array)
        self.dtype = np.dtype(array.dtype.numpy_dtype)
        self.grid = _grid(array, unit, self.dtype.itemsize)
        self.chunk_bytes = self.dtype.itemsize * prod(self.grid.largest)
        self.stored_bytes = self.chunk_bytes  # tensorstore returns decoded chunks

    @property
    def writeable(self) -> bool:
        return bool(self.array.writable)

    @property
    def replaces_objects(self) -> bool:
        return self.array.transaction is None  # a transaction delays writes until its commit

    @property
    def loss(self) -> str:
        """The reason why values may differ when read back, or an empty string."""
        array = self.array
        if array.kvstore is None or array.base is not None:
            return "is in memory or combines arrays that may overlap or have lower precision"
        if array.codec is not None and array.codec.to_json().get("encoding") == "jpeg":
            return "has a lossy encoding"
        transform: Any = array.spec().transform
        once = {each.input_dimension for each in transform.output}
        if any(size > 1 and axis not in once for axis, size in enumerate(array.shape)):
            return "is a view that may contain elements twice"
        return ""

    def __reduce__(self) -> Any:
        return type(self), (self.array, self._unit)

    def read(self, chunk: Chunk, buffers: Buffers) -> Array:
        request = self.array[self._box(chunk)].read(order="C")
        while not request.done():
            with suppress(TimeoutError):  # type: ignore[unreachable]  # after a timeout
                request.result(timeout=_POLL_SECONDS)
            if buffers.stopped():
                request.cancel()
        values = request.result()
        buffers.acquire_permit()
        return np.asarray(values)

    def write(self, chunk: Chunk, values: Array) -> None:
        self.array[self._box(chunk)].write(values).result()

    def _box(self, chunk: Chunk) -> tuple[slice, ...]:
        origin = self.array.domain.origin
        return tuple(
            slice(part.start + first, part.stop + first)
            for part, first in zip(self.grid.box(chunk), origin, strict=True)
        )


def _grid(
    array: tensorstore.TensorStore, unit: Sequence[int | None] | None, item_bytes: int
) -> Grid:
    """Return a grid whose boundaries are multiples of `unit`, counted from the grid origin."""
    shape = tuple(array.shape)
    boxes = box_shape(shape, item_bytes)
    origin = array.chunk_layout.grid_origin or (None,) * len(shape)
    sizes = []
    for axis, size in enumerate(shape):
        length = (unit[axis] if unit else None) or boxes[axis]
        before = (array.domain.origin[axis] - (origin[axis] or 0)) % length
        first = min(size, length - before)
        sizes.append((first, length, size))
    if all(first in (length, size) for first, length, size in sizes):
        return Grid.regular(shape, [length for _, length, _ in sizes])
    lengths = []
    for first, length, size in sizes:
        count, last = divmod(size - first, length)
        lengths.append([first, *[length] * count, last])
    return Grid.of_sizes(lengths)


def _place(array: tensorstore.TensorStore) -> tuple[str, int]:
    """Return the name of an array and the recommended number of concurrent requests."""
    store = array.kvstore
    if store is None:
        return "a tensorstore array", 1
    about = store.spec().to_json()
    try:
        name = store.url
    except (AttributeError, NotImplementedError, ValueError):  # raised if the store has no URL
        place = "/".join(str(about[part]) for part in ("bucket", "path") if part in about)
        name = f"{about['driver']}://{place}"
    while isinstance(about, dict) and isinstance(about.get("base"), dict):
        about = about["base"]
    near = isinstance(about, dict) and about.get("driver") in _NEAR
    return name, 1 if near else _REQUESTS
