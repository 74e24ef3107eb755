"""Arrays out of ``.npz`` archives: what a member would inflate to is bounded before it does."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndgather.errors import file_errors
from ndgather.models.tensors import npy_header

if TYPE_CHECKING:
    from pathlib import Path

Array = NDArray[Any]

# Compressed arrays of zeros shrink a thousandfold. What is above both bounds is refused.
LARGEST_INFLATED = 2**32
MOST_INFLATED = 32  # times the size of the archive

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what NumPy writes
_CHUNK = 2**20


def read(path: Path, member: str) -> Array:
    """Return the array `member` of an archive; without a name, the only one that it has.

    Raises
    ------
    FileError
        There is no such member, or it is not an array, or is too large.
    OSError
        The file cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            info = _member(path, archive, member)
            place = f"{path}:{info.filename.removesuffix('.npy')}"
            most = max(LARGEST_INFLATED, MOST_INFLATED * path.stat().st_size)
            if info.file_size > most:
                raise file_errors.inflates(place, info.file_size, most)
            if info.compress_type not in _METHODS:
                raise file_errors.other_compression(place, info.compress_type)
            return _array(archive, info, place)
    except (OSError, MemoryError):
        raise
    except Exception as error:  # a damaged archive fails in as many ways as it has parts
        raise file_errors.not_of_its_kind(path, ".npz", error) from error


def names(path: Path) -> list[str]:
    """Return the names of the arrays in an archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            return [each.removesuffix(".npy") for each in archive.namelist()]
    except OSError:
        raise
    except Exception as error:
        raise file_errors.not_of_its_kind(path, ".npz", error) from error


def _member(path: Path, archive: zipfile.ZipFile, member: str) -> zipfile.ZipInfo:
    infos = archive.infolist()
    names = [info.filename.removesuffix(".npy") for info in infos]
    if not names:
        raise file_errors.no_arrays(path)
    if not member and len(names) != 1:
        raise file_errors.member_not_named(path, names)
    name = member or names[0]
    if name not in names:
        raise file_errors.no_member(path, name, names)
    if names.count(name) > 1:
        raise file_errors.member_twice(path, name)
    return infos[names.index(name)]


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, place: str) -> Array:
    with archive.open(info) as file:
        try:
            header = npy_header.read(file)
            if header.dtype.hasobject:
                raise file_errors.holds_objects(place)
            header.check_room(info.file_size - header.start)
            content = np.empty(header.size, np.uint8)
            array = np.ndarray(header.shape, header.dtype, content.data, order=header.order)
        except ValueError as error:
            raise file_errors.not_of_its_kind(place, ".npy", error) from error
        filled = 0
        while chunk := file.read(_CHUNK):  # to the end, where the checksum is compared
            part = np.frombuffer(chunk, np.uint8)[: content.size - filled]
            content[filled : filled + part.size] = part
            filled += part.size
        if filled < content.size:
            raise file_errors.ends_early(place, header.start + filled, info.file_size)
    return array
