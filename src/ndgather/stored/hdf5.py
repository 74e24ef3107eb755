"""h5py datasets.

The HDF5 library reads and decompresses only one chunk at a time. Chunks with common filters or
without filters are therefore read in stored form and decompressed here by several threads.
Contiguous datasets are read directly from the file.
"""

from __future__ import annotations

import os
import zlib
from contextlib import nullcontext
from itertools import accumulate
from math import prod
from operator import mul
from typing import Any

import h5py
import numpy as np
from h5py._objects import phil

from ndgather.array_call import Array, Call, _core
from ndgather.errors import DTypeError
from ndgather.messages import LOGGER
from ndgather.stored import calls, ranges
from ndgather.stored.chunks import (
    Box,
    Buffers,
    Chunk,
    Grid,
    LocalFile,
    box_shape,
    missing_raises,
    no_chunk,
    wrong_size,
)

# The filters that this module can decode.
_DEFLATE, _SHUFFLE = h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE
_LZF, _CHECKSUM, _CHECKSUM_BYTES = h5py.h5z.FILTER_LZF, h5py.h5z.FILTER_FLETCHER32, 4
_KNOWN_FILTERS = {_DEFLATE, _SHUFFLE, _LZF, _CHECKSUM}
_LOSSLESS = _KNOWN_FILTERS | {h5py.h5z.FILTER_SZIP}
# The filter ids of bzip2, Blosc, LZ4, Bitshuffle, Zstandard and Blosc2, which are lossless.
_LOSSLESS |= {307, 32001, 32004, 32008, 32015, 32026}

_BOX_BYTES = 2**16  # box size for contiguous datasets, a compromise between sparse and dense reads
_VIRTUAL_BOX_BYTES = 2**20
_BLOCK_WORDS = 2**14  # the cumulative sums of a block fit in the L2 cache
_PACKING = ("scale_factor", "add_offset", "_FillValue")


def run(call: Call) -> Any:
    data = call.data
    if isinstance(data, h5py.Dataset):
        why = None
        if not data:
            why = "belongs to a closed file"
        elif data.shape is None:
            why = "is empty"
        elif call.scatters and h5py.check_vlen_dtype(data.dtype.base) not in (None, str, bytes):
            # If it wrote variable-length arrays, h5py would interpret bytes as pointers and crash.
            why = "has elements of variable length, which cannot be written safely"
        if why:
            raise DTypeError(
                f"{call.caller}: data = {type(data).__name__} object {why} "
                f"(allowed: a dataset of an open file, with values)"
            )
        packed = [name for name in _PACKING if name in data.attrs]
        if packed:
            LOGGER.info(
                "%s: values of %s are not decoded; xarray.open_dataset applies %s",
                call.caller,
                data.name,
                ", ".join(packed),
            )
    return calls.gather_or_scatter(call, h5py.Dataset, reader, writer)


run_ranges = ranges.run_ranges


class DatasetReader:
    """A reader and writer for the chunks of a dataset, or for boxes if it has no chunks.

    If the elements are arrays, their axes become trailing axes of the grid. An unpickled reader
    opens the file again, in read-only mode.
    """

    in_flight = 1

    def __init__(self, array: h5py.Dataset, all_chunks_exist: bool) -> None:
        self.array = array
        self._all_exist = all_chunks_exist
        self.name = f"{array.file.filename}:{array.name}"
        self.dtype, inside = array.dtype.subdtype or (np.dtype(array.dtype), ())
        shape = array.shape
        # Every read of a virtual dataset is slow, even if the box is small.
        most = _BOX_BYTES if not array.is_virtual else _VIRTUAL_BOX_BYTES
        boxes = box_shape(shape, array.dtype.itemsize, most)
        self._chunk_shape = array.chunks  # cached, because h5py queries HDF5 on every access
        self._rank = len(shape)
        self.grid = Grid.regular(shape + inside, (self._chunk_shape or boxes) + inside)
        self.chunk_bytes = self.dtype.itemsize * prod(self.grid.largest)
        self.stored_bytes = self.chunk_bytes
        self._filters = _filters_of(array)
        self._item_bytes = array.id.get_type().get_size()  # in the file
        self._is_plain = _is_plain(array)
        self._file = _own_file(array)
        if self._file is not None:
            self._place = _offset(array)
            self._alone: Any = nullcontext() if array.file.mode == "r" else phil
            sizes = (self.dtype.itemsize, *shape[:0:-1])
            self._strides = tuple(accumulate(sizes, mul))[::-1]

    @property
    def is_open(self) -> bool:
        return bool(self.array)

    @property
    def writeable(self) -> bool:
        return bool(self.array.file.mode != "r")

    def __reduce__(self) -> Any:
        return _reopened, (self.array.file.filename, self.array.name, self._all_exist)

    @property
    def loss(self) -> str:
        """The reason why values may differ when read back, or an empty string."""
        if self.array.is_virtual:
            return "is a virtual dataset, whose sources may overlap"
        if not {*self._filters} <= _LOSSLESS:
            return "has a filter that may be lossy"
        kind = h5py.h5t.py_create(self.array.dtype, logical=True)
        is_same = self.array.id.get_type().equal(kind)
        return "" if is_same else "has an HDF5 type that may have lower precision"

    def stored_size(self, chunk: Chunk) -> int:
        if self._chunk_shape is None:
            return int(self.dtype.itemsize * prod(self.grid.extent(chunk)))
        return int(self._stored(chunk).size)

    def _box(self, chunk: Chunk) -> Box:
        return self.grid.box(chunk)[: self._rank]

    def _stored(self, chunk: Chunk) -> Any:
        start = tuple(each.start for each in self._box(chunk))
        return self.array.id.get_chunk_info_by_coord(start)

    def exists(self, chunk: Chunk) -> bool:
        if self._chunk_shape is not None:
            return self._stored(chunk).byte_offset is not None
        layout = self.array.id.get_create_plist().get_layout()
        is_here = layout != h5py.h5d.CONTIGUOUS or _offset(self.array) is not None
        return is_here or bool(self.array.external)

    def read(self, chunk: Chunk, buffers: Buffers) -> Array:
        if self._all_exist and not self.exists(chunk):
            raise no_chunk()
        if self._chunk_shape is not None and not self.dtype.hasobject:  # else pointers
            whole = self._decoded(chunk, buffers)
            if whole is not None and self._is_plain:
                values: Array = whole.view(self.dtype).reshape(self._chunk_shape)
                return values[tuple(map(slice, self.grid.extent(chunk)))]
        if self._file is not None:
            starts = (each.start for each in self.grid.box(chunk))
            shape, at = self.grid.extent(chunk), self._place + sum(map(mul, starts, self._strides))
            stop = at + self.dtype.itemsize * prod(shape)
            with self._alone:
                self.array.flush()  # h5py must write its buffered data first
                part: Array = self._file.part(at, stop, buffers).view(self.dtype)
            buffers.acquire_permit()
            return part.reshape(shape)
        buffers.acquire_permit()
        # Read with h5py, which zeroes memory that HDF5 may leave uninitialized:
        # padding of structured elements, and missing chunks without a fill value.
        read = self.array[self._box(chunk)]
        if isinstance(read, np.ndarray) and read.dtype == self.dtype:
            return read
        values = np.empty((), self.dtype)  # h5py has returned a scalar
        values[()] = read
        return values

    def write(self, chunk: Chunk, values: Array) -> None:
        self.array[self._box(chunk)] = values
        self.array.flush()  # report a full disk now, instead of when the file is closed

    def _decoded(self, chunk: Chunk, buffers: Buffers) -> Array | None:
        """Return the bytes of a decoded chunk, or None if it is missing or only HDF5 can decode it.

        Raise an error if the chunk is damaged, because the filters of HDF5 would read past its end
        or leave memory uninitialized.
        """
        if self._filters and self._filters[-1] not in _KNOWN_FILTERS:
            stored = self._stored(chunk)
            if stored.byte_offset is None or not stored.filter_mask:
                return None
        start = tuple(each.start for each in self._box(chunk))
        try:
            with phil:  # `read_direct_chunk` does not acquire the lock of h5py
                left_out, content = self.array.id.read_direct_chunk(start)
        except (MemoryError, OSError, RuntimeError, ValueError):
            return None  # for a missing chunk, h5py may request an arbitrary amount of memory
        buffers.acquire_permit()
        left = [*self._filters]
        if left_out:
            left = [each for n, each in enumerate(left) if not left_out >> n & 1]
        whole = self._item_bytes * prod(self._chunk_shape)
        values = np.frombuffer(content, np.uint8)
        while left:
            each = left.pop()
            if each not in _KNOWN_FILTERS:
                return None
            # The size of data between two compression filters is unknown, so allow generous room.
            room = whole + _CHECKSUM_BYTES * left.count(_CHECKSUM)
            room += (whole + 1024) * (_LZF in left or _DEFLATE in left)
            if each == _CHECKSUM:
                values = _checked(values)
            elif each == _DEFLATE:
                content = zlib.decompressobj().decompress(values.data, room + 1)
                values = np.frombuffer(content, np.uint8)
            elif each == _LZF:
                memory = buffers.memory("LZF", room) if left else buffers.decoded(room)
                size = _core.unpack_lzf(values, memory)
                if size < 0:
                    raise ValueError(f"the {values.size} bytes of the chunk are not valid LZF")
                if size > room:
                    raise wrong_size(size, whole)
                values = memory[:size]
            else:
                memory = buffers.memory("shuffled", values.size)
                if not left:
                    memory = buffers.decoded(values.size)
                values = _unshuffled(values, self._item_bytes, memory)
        if values.size != whole:
            raise wrong_size(values.size, whole)
        return values


def _unshuffled(planes: Array, item_bytes: int, memory: Array) -> Array:
    """Undo the shuffle filter, which stores byte 0 of all elements, then byte 1, and so on."""
    whole = planes.size // item_bytes * item_bytes
    items, plane = memory[:whole].reshape(-1, item_bytes), whole // item_bytes
    for number in range(item_bytes):  # three times as fast as copying a transposed view
        items[:, number] = planes[number * plane : (number + 1) * plane]
    memory[whole:] = planes[whole:]
    return memory


def _checked(stored: Array) -> Array:
    """Check and remove the Fletcher32 checksum at the end."""
    if stored.size < _CHECKSUM_BYTES:
        raise ValueError(f"the chunk holds {stored.size} bytes and no checksum")
    content, end = stored[:-_CHECKSUM_BYTES], stored[-_CHECKSUM_BYTES:]
    words = np.append(content, np.uint8(0)) if content.size % 2 else content
    words, first, second = words.view(np.uint16), 0, 0
    for begin in range(0, words.size, _BLOCK_WORDS):
        sums = words[begin : begin + _BLOCK_WORDS].cumsum(dtype=np.uint64)
        second += first * sums.size + int(sums.sum())
        first += int(sums[-1])
    # HDF5 reduces nonzero sums modulo 65535 to values from 1 to 65535.
    # Old versions of HDF5 swapped the bytes of each word, so both byte orders are valid.
    folded = [total and (total - 1) % 65535 + 1 for total in (first, second)]
    found = [np.array(folded, order).tobytes() for order in ("<u2", ">u2")]
    if end.tobytes() not in found:
        raise ValueError("the Fletcher32 checksum does not match")
    return content


def reader(array: h5py.Dataset) -> DatasetReader:
    if missing_raises() and array.is_virtual:
        raise DTypeError(
            f"missing_chunks: {array.name} is a virtual dataset, and HDF5 does not report missing "
            f"sources (allowed: 'fill', or the datasets listed by virtual_sources())"
        )
    return DatasetReader(array, missing_raises())


def writer(array: h5py.Dataset) -> DatasetReader:
    return DatasetReader(array, False)  # scatters may create chunks that are missing


def as_stored_now(array: h5py.Dataset) -> h5py.Dataset:
    """Return the array after refreshing its shape, which may change in SWMR mode."""
    if array and array.file.swmr_mode:
        array.refresh()
    return array


def _is_plain(array: h5py.Dataset) -> bool:
    """Return whether elements are stored in the format of NumPy; 24-bit integers are not."""
    if array.dtype.kind not in "biufc":
        return False
    return bool(array.id.get_type().equal(h5py.h5t.py_create(array.dtype)))


def _offset(array: h5py.Dataset) -> Any:
    """Return the file offset of a contiguous dataset, or None if no space is allocated for it.

    Check the allocation, because HDF5 returns an invalid offset if the file has a user block.
    """
    is_written = array.id.get_space_status() != h5py.h5d.SPACE_STATUS_NOT_ALLOCATED
    return array.id.get_offset() if is_written else None


def _own_file(array: h5py.Dataset) -> LocalFile | None:
    """Open the file of a contiguous dataset to bypass h5py, which reads boxes more slowly."""
    file, is_contiguous = array.file, array.chunks is None and _offset(array) is not None
    if not is_contiguous or file.driver != "sec2" or not _is_plain(array):
        return None
    file.flush()  # extends the file on disk to its full size
    try:
        own = LocalFile(os.open(file.filename, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:  # the file was renamed
        return None
    return own if own.is_file(file.id.get_vfd_handle()) else None


def _filters_of(array: h5py.Dataset) -> tuple[int, ...]:
    properties = array.id.get_create_plist()
    return tuple(properties.get_filter(i)[0] for i in range(properties.get_nfilters()))


def _reopened(filename: str, name: str, all_exist: bool) -> DatasetReader:
    return DatasetReader(h5py.File(filename, "r")[name], all_exist)
