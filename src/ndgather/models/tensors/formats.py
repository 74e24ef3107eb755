"""Arrays in ``.npy`` and ``.npz`` files from anyone.

NumPy parses the headers. Before it does, and before memory is allocated, this module bounds the
length of a header and compares the size of its array with the size of the file.
"""

from __future__ import annotations

import io
import math
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.lib import format as npy

from ndgather import messages
from ndgather.errors import FileError
from ndgather.messages import did_you_mean, listed, reason
from ndgather.models import Array

LONGEST_HEADER = 40_000  # bytes; NumPy's default is 10,000
HIGHEST_RANK = 64

# Compressed zeros shrink a thousandfold. Larger members than both bounds allow are not read.
LARGEST_INFLATED = 2**32
MOST_INFLATED = 32  # times the size of the archive

_VERSIONS = {(1, 0): (2, "latin1"), (2, 0): (4, "latin1"), (3, 0): (4, "utf-8")}
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # those that NumPy writes
_CHUNK = 2**20


def map_npy(
    file: IO[bytes], size: int, place: object, mode: Literal["r", "r+"]
) -> np.memmap[Any, Any]:
    """Memory-map the array of an open ``.npy`` file of `size` bytes."""
    try:
        dtype, shape, order = _read_header(file, size, place)
        return np.memmap(file, dtype, mode, file.tell(), shape, order)
    except ValueError as error:
        raise messages.not_of_its_kind(place, ".npy", error) from error


def _read_header(
    file: IO[bytes], size: int, place: object
) -> tuple[np.dtype[Any], tuple[int, ...], Literal["C", "F"]]:
    """Return dtype, shape and order, with the file at the first element."""
    version = npy.read_magic(file)
    if version not in _VERSIONS:
        raise ValueError(f"its version {version} is unknown (allowed: 1.0, 2.0, 3.0)")
    width, encoding = _VERSIONS[version]
    prefix = file.read(width)
    length = int.from_bytes(prefix, "little")
    if length > LONGEST_HEADER:
        raise ValueError(f"its header has {length} bytes (allowed: at most {LONGEST_HEADER})")
    header = file.read(length)
    if len(prefix) < width or len(header) < length:
        raise ValueError("its header is cut off")
    # NumPy has no public function for version 3.0, which is 2.0 with names in UTF-8.
    text = header.decode(encoding).encode("latin1", "backslashreplace")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sizes of Python 2, and old names of dtypes
            shape, fortran, dtype = npy.read_array_header_2_0(
                io.BytesIO(len(text).to_bytes(4, "little") + text), max_header_size=len(text)
            )
    except Exception as error:  # a MemoryError too: of the parser, at the deepest brackets
        raise ValueError(f"its header cannot be parsed: {reason(error)}") from error
    if len(shape) > HIGHEST_RANK or any(type(size) is not int or size < 0 for size in shape):
        raise ValueError(f"its shape is not a tuple of at most {HIGHEST_RANK} sizes")
    if dtype.itemsize == 0:
        raise ValueError(f"elements of its dtype {dtype} have no bytes")
    if dtype.hasobject:
        raise FileError(
            f"{place}: holds pickled Python objects, which are never loaded "
            f"(allowed: numbers, booleans, dates, fixed-width strings and records)"
        )
    promised, left = math.prod(shape) * dtype.itemsize, size - file.tell()
    if promised > left:
        raise ValueError(f"its header promises {promised} bytes, {left} follow it")
    return dtype, shape, "F" if fortran else "C"


def read_npz(path: Path, member: str) -> Array:
    """Return the array `member` of an archive; "" is the only one in it."""
    with _archive(path) as archive:
        info = _member(path, archive.infolist(), member)
        place = f"{path}:{info.filename.removesuffix('.npy')}"
        most = max(LARGEST_INFLATED, MOST_INFLATED * path.stat().st_size)
        if info.file_size > most:
            raise FileError(
                f"{place}: would take {info.file_size} bytes in memory (allowed: at most "
                f"{most} out of such an archive; a .npy file may be of any size)"
            )
        if info.compress_type not in _METHODS:
            raise FileError(
                f"{place}: is compressed by method {info.compress_type} (allowed: 0, stored, "
                "and 8, deflated)"
            )
        with archive.open(info) as file:
            try:
                _read_header(file, info.file_size, place)
                file.seek(0)
                array = npy.read_array(file, allow_pickle=False, max_header_size=LONGEST_HEADER)
            except ValueError as error:
                raise messages.not_of_its_kind(place, ".npy", error) from error
            while file.read(_CHUNK):  # zipfile compares the checksum at the end
                pass
        return np.asarray(array)


def member_names(path: Path) -> list[str]:
    with _archive(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (OSError, MemoryError):
        raise
    except Exception as error:  # damaged archives raise errors of many classes
        raise messages.not_of_its_kind(path, ".npz", error) from error


def _member(path: Path, infos: list[zipfile.ZipInfo], member: str) -> zipfile.ZipInfo:
    names = [info.filename.removesuffix(".npy") for info in infos]
    if not names:
        raise FileError(f"{path}: holds no arrays")
    if not member and len(names) != 1:
        raise FileError(
            f"{path}: holds several arrays, name one as {path}:MEMBER (allowed: {listed(names)})"
        )
    name = member or names[0]
    if name not in names:
        raise FileError(
            f"{path}: has no member {name!r} (allowed: {listed(names)}){did_you_mean(name, names)}"
        )
    if names.count(name) > 1:
        raise FileError(f"{path}: has several members {name!r} (allowed: one of each name)")
    return infos[names.index(name)]
