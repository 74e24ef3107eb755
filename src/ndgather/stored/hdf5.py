"""Datasets of HDF5 files, by h5py.

The HDF5 library reads and decompresses one chunk at a time. Chunks with the common filters, or
none, are therefore read as they are stored, and decompressed here by many threads; datasets in one
piece are read from their file.
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
from numpy.typing import NDArray

from ndgather.array_call import Array, Call
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
)

# The filters that are decoded here, in the order of encoding.
_DEFLATE, _SHUFFLE = h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE
_KNOWN_FILTERS = ((), (_DEFLATE,), (_SHUFFLE, _DEFLATE))
_LZF, _CHECKSUM, _CHECKSUM_BYTES = h5py.h5z.FILTER_LZF, h5py.h5z.FILTER_FLETCHER32, 4
# Those that give back what they are given; and bzip2, LZ4, Bitshuffle, Zstandard, both of Blosc.
_LOSSLESS = {_DEFLATE, _SHUFFLE, _LZF, _CHECKSUM, h5py.h5z.FILTER_SZIP}
_LOSSLESS |= {307, 32001, 32004, 32008, 32015, 32026}

_BOX_BYTES = 2**16  # of datasets in one piece: small enough for few points, and large for many
_VIRTUAL_BOX_BYTES = 2**20
_PACKING = ("scale_factor", "add_offset", "_FillValue")  # attributes of netCDF


def run(call: Call) -> Any:
    data = call.data
    if isinstance(data, h5py.Dataset):
        why = None
        if not data:
            why = "is of a file that was closed"
        elif data.shape is None:
            why = "is empty"
        elif call.scatters and h5py.check_vlen_dtype(data.dtype.base) not in (None, str, bytes):
            # h5py would read the bytes on disk as pointers and crash the process.
            why = "has elements of variable length, which are not written safely"
        if why:
            raise DTypeError(
                f"{call.caller}: data = {type(data).__name__} object {why} "
                f"(allowed: one with values)"
            )
        packed = [name for name in _PACKING if name in data.attrs]
        if packed:
            LOGGER.info(
                "%s: values of %s are as they are stored; xarray.open_dataset applies %s",
                call.caller,
                data.name,
                ", ".join(packed),
            )
    return calls.gather_or_scatter(call, h5py.Dataset, reader, writer)


run_ranges = ranges.run_ranges


class DatasetReader:
    """Reads and writes a dataset: chunk by chunk, or in boxes if it has no chunks.

    Elements that are arrays are axes at the end. Another process opens the file again, to read.
    """

    in_flight = 1

    def __init__(self, array: h5py.Dataset, all_chunks_exist: bool) -> None:
        self.array = array
        self._all_exist = all_chunks_exist
        self.name = f"{array.file.filename}:{array.name}"
        self.dtype, inside = array.dtype.subdtype or (np.dtype(array.dtype), ())
        shape = array.shape
        # A dataset of many sources takes long to read, however small the box.
        most = _BOX_BYTES if not array.is_virtual else _VIRTUAL_BOX_BYTES
        boxes = box_shape(shape, array.dtype.itemsize, most)
        self.grid = Grid.regular(shape + inside, (array.chunks or boxes) + inside)
        self.chunk_bytes = self.dtype.itemsize * prod(self.grid.largest)
        self.stored_bytes = self.chunk_bytes
        self._filters = _filters_of(array)
        is_known = array.chunks is not None and self._filters in _KNOWN_FILTERS
        self._is_known = is_known and _is_plain(array)
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
        """Why other values are read than were written, or ""."""
        if self.array.is_virtual:
            return "is made of others, which may overlap"
        if not {*self._filters} <= _LOSSLESS:
            return "has a filter that may lose digits"
        kind = h5py.h5t.py_create(self.array.dtype, logical=True)
        return "" if self.array.id.get_type().equal(kind) else "has a type that may hold less"

    def stored_size(self, chunk: Chunk) -> int:
        """Return the bytes of a chunk as it is stored."""
        if self.array.chunks is None:
            return int(self.dtype.itemsize * prod(self.grid.extent(chunk)))
        return int(self._stored(chunk).size)

    def _box(self, chunk: Chunk) -> Box:
        return self.grid.box(chunk)[: self.array.ndim]

    def _stored(self, chunk: Chunk) -> Any:
        start = tuple(each.start for each in self._box(chunk))
        return self.array.id.get_chunk_info_by_coord(start)

    def exists(self, chunk: Chunk) -> bool:
        if self.array.chunks is not None:
            return self._stored(chunk).byte_offset is not None
        layout = self.array.id.get_create_plist().get_layout()
        is_here = layout != h5py.h5d.CONTIGUOUS or _offset(self.array) is not None
        return is_here or bool(self.array.external)

    def read(self, chunk: Chunk, buffers: Buffers) -> Array:
        if self._all_exist and not self.exists(chunk):
            raise no_chunk()
        if self._is_known:
            start = tuple(each.start for each in self._box(chunk))
            whole = self._decoded(start, buffers)
            if whole is not None:
                return whole[tuple(map(slice, self.grid.extent(chunk)))]
        elif self.array.chunks is not None and not self.dtype.hasobject:  # else pointers
            self._check_filtered(chunk)
        if self._file is not None:
            starts = (each.start for each in self.grid.box(chunk))
            shape, at = self.grid.extent(chunk), self._place + sum(map(mul, starts, self._strides))
            stop = at + self.dtype.itemsize * prod(shape)
            with self._alone:
                self.array.flush()  # what this object of h5py wrote, or another one
                part: Array = self._file.part(at, stop, buffers).view(self.dtype)
            buffers.acquire_permit()
            return part.reshape(shape)
        buffers.acquire_permit()
        # h5py reads into zeros. HDF5 itself would leave memory as it is in the gaps of structured
        # elements, and where nothing was written and nothing is filled in.
        read = self.array[self._box(chunk)]
        if isinstance(read, np.ndarray) and read.dtype == self.dtype:
            return read
        values: Array = np.empty((), self.dtype)  # one element, as h5py returns it
        values[()] = read
        return values

    def write(self, chunk: Chunk, values: Array) -> None:
        self.array[self._box(chunk)] = values
        self.array.flush()  # so that a full disk is an error now

    def _check_filtered(self, chunk: Chunk) -> None:
        """Raise if the filters of HDF5 would read behind a chunk, or not fill all of its memory."""
        stored = self._stored(chunk)
        if stored.byte_offset is None:
            return
        size, content = stored.size, None
        left = [each for n, each in enumerate(self._filters) if not stored.filter_mask >> n & 1]
        packed = _LZF in left or _DEFLATE in left
        while left:
            each = left.pop()
            if each == _CHECKSUM:
                if size < _CHECKSUM_BYTES:
                    raise ValueError(f"the chunk holds {size} bytes, and no checksum")
                size -= _CHECKSUM_BYTES
            elif packed and each in (_SHUFFLE, _LZF, _DEFLATE):
                if content is None:
                    with phil:
                        at = tuple(part.start for part in self._box(chunk))
                        content = self.array.id.read_direct_chunk(at)[1]
                content = content[:size]
                if each == _SHUFFLE:
                    content = _unshuffled(content, self.array.id.get_type().get_size())
                    continue
                packed = False
                if each == _LZF:
                    size = _lzf_size(content)
                else:
                    most = self._whole() + _CHECKSUM_BYTES * left.count(_CHECKSUM)
                    size = len(zlib.decompressobj().decompress(content, most + 1))
            elif each != _SHUFFLE:
                return  # a filter that HDF5 alone knows
        self._check_size(size)

    def _whole(self) -> int:
        """Return the bytes of a decoded chunk in memory of HDF5."""
        size: int = self.array.id.get_type().get_size() * prod(self.array.chunks)
        return size

    def _check_size(self, size: int) -> None:
        whole = self._whole()
        if size != whole:
            raise ValueError(f"the chunk holds {size} bytes, and not the {whole} that it should")

    def _decoded(self, start: tuple[int, ...], buffers: Buffers) -> Array | None:
        """Decode a whole chunk; return None if it is missing, or the library has to read it.

        For a missing chunk h5py may take any number for its size, and allocate as much.
        """
        try:
            with phil:  # h5py takes it in all other functions that are called here
                left_out, stored = self.array.id.read_direct_chunk(start)
        except (MemoryError, OSError, RuntimeError, ValueError):
            return None
        filters = [each for n, each in enumerate(self._filters) if not left_out >> n & 1]
        chunk = self.array.chunks
        count = self.dtype.itemsize * prod(chunk)
        buffers.acquire_permit()
        if _DEFLATE in filters:
            stored = zlib.decompressobj().decompress(stored, count + 1)
        self._check_size(len(stored))
        raw: NDArray[np.uint8] = np.frombuffer(stored, np.uint8)
        if _SHUFFLE in filters:
            values = buffers.decoded(count)
            item_bytes = self.dtype.itemsize
            np.copyto(values.reshape(-1, item_bytes), raw.reshape(item_bytes, -1).T)
            raw = values
        whole: Array = raw.view(self.dtype).reshape(chunk)
        return whole


def _unshuffled(stored: bytes, item_bytes: int) -> bytes:
    """Return bytes in the order of elements; those of no whole element are where they were."""
    whole = len(stored) // item_bytes * item_bytes
    planes = np.frombuffer(stored[:whole], np.uint8).reshape(item_bytes, -1)
    return planes.T.tobytes() + stored[whole:]


def _lzf_size(stored: bytes) -> int:
    """Return how many bytes LZF makes of some, -1 if the last ones are missing."""
    at = size = 0
    while at < len(stored):
        head = stored[at]
        if head < 32:  # that many bytes, and one more, as they are
            at, length = at + head + 2, head + 1
        else:  # bytes that came before; seven or more have their number in a byte of its own
            is_long = head >= 224
            length = (head >> 5) + 2 + (stored[at + 1] if is_long and at + 1 < len(stored) else 0)
            at += 2 + is_long
        size += length
    return size if at == len(stored) else -1


def reader(array: h5py.Dataset) -> DatasetReader:
    if missing_raises() and array.is_virtual:
        raise DTypeError(
            f"missing_chunks: {array.name} is a virtual dataset, and HDF5 does not say which of "
            f"its sources are there (allowed: 'fill', or the datasets that virtual_sources() names)"
        )
    return DatasetReader(array, missing_raises())


def writer(array: h5py.Dataset) -> DatasetReader:
    return DatasetReader(array, False)  # a scatter makes the chunks that do not exist


def _is_plain(array: h5py.Dataset) -> bool:
    """Whether elements are stored as NumPy has them in memory; integers of 24 bits are not."""
    if array.dtype.kind not in "iufc":
        return False
    return bool(array.id.get_type().equal(h5py.h5t.py_create(array.dtype)))


def _offset(array: h5py.Dataset) -> Any:
    """Return where a dataset in one piece lies; None if nowhere, where HDF5 adds a user block."""
    is_written = array.id.get_space_status() != h5py.h5d.SPACE_STATUS_NOT_ALLOCATED
    return array.id.get_offset() if is_written else None


def _own_file(array: h5py.Dataset) -> LocalFile | None:
    """Return the file of a dataset in one piece, whose parts h5py takes much longer to read."""
    file, is_in_one_piece = array.file, array.chunks is None and _offset(array) is not None
    if not is_in_one_piece or file.driver != "sec2" or not _is_plain(array):
        return None
    file.flush()  # so that it has its size
    try:
        own = LocalFile(os.open(file.filename, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:  # it has another name now
        return None
    return own if own.is_file(file.id.get_vfd_handle()) else None


def _filters_of(array: h5py.Dataset) -> tuple[int, ...]:
    """Return the filters of a dataset, in the order of encoding."""
    properties = array.id.get_create_plist()
    return tuple(properties.get_filter(i)[0] for i in range(properties.get_nfilters()))


def _reopened(filename: str, name: str, all_exist: bool) -> DatasetReader:
    return DatasetReader(h5py.File(filename, "r")[name], all_exist)
