"""The header of a ``.npy`` file: a literal, believed only as far as bytes follow it.

The format is that of NumPy's `numpy.lib.format`, versions 1.0 to 3.0. Nothing is allocated for
what a header merely says, and Python objects are never read.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ndgather.errors import FileError, file_errors
from ndgather.errors.similar_names import did_you_mean
from ndgather.errors.texts import listed

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO


LONGEST = 40_000  # bytes: NumPy itself believes no header of more than 10,000 characters
HIGHEST_RANK = 64

_KEYS = {"descr", "fortran_order", "shape"}
_FORMS = {(1, 0): (2, "latin1"), (2, 0): (4, "latin1"), (3, 0): (4, "utf-8")}
_LONG = re.compile(r"(?<=[0-9])L\b")  # Python 2 wrote some sizes as 3L


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a header says; `start` is where the elements begin."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    start: int

    @property
    def size(self) -> int:
        """How many bytes the elements take; Python integers do not overflow."""
        return math.prod(self.shape) * self.dtype.itemsize

    def check_room(self, size: int) -> None:
        """Refuse a header that promises more than the `size` bytes that follow it."""
        if self.size > size:
            raise ValueError(f"its header promises {self.size} bytes, {size} follow it")


def read_npy(file: IO[bytes]) -> Header:
    """Read the header of a file that stands at its beginning."""
    version = npy.read_magic(file)
    if version not in _FORMS:
        raise ValueError(f"its version {version} is unknown (allowed: 1.0, 2.0, 3.0)")
    width, encoding = _FORMS[version]
    length = int.from_bytes(_exactly(file, width), "little")
    if length > LONGEST:
        raise ValueError(f"its header has {length} bytes (allowed: at most {LONGEST})")
    text = _exactly(file, length).decode(encoding)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # escapes in a text that is not a header; old names of dtypes
        found = _literal(text)
        if not isinstance(found, dict) or found.keys() != _KEYS:
            raise ValueError(f"its header is not a dict of {', '.join(sorted(_KEYS))}")
        dtype = _dtype(found["descr"])
    if type(found["fortran_order"]) is not bool:
        raise ValueError("its fortran_order is neither True nor False")
    return Header(
        dtype=dtype,
        shape=_shape(found["shape"]),
        order="F" if found["fortran_order"] else "C",
        start=npy.MAGIC_LEN + width + length,
    )


def _exactly(file: IO[bytes], count: int) -> bytes:
    content = file.read(count)
    if len(content) < count:
        raise ValueError(f"its header ends after {len(content)} of {count} bytes")
    return content


def _literal(text: str) -> object:
    try:
        try:
            return ast.literal_eval(text)
        except SyntaxError:
            return ast.literal_eval(_LONG.sub("", text))
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError("its header is not a literal") from error


def _dtype(description: Any) -> np.dtype[Any]:
    try:
        dtype = npy.descr_to_dtype(description)
    except Exception as error:  # it takes the description apart before it has looked at it
        raise ValueError("its descr is not a dtype") from error
    if dtype.itemsize == 0:
        raise ValueError(f"elements of its dtype {dtype} have no bytes")
    return dtype


def _shape(shape: object) -> tuple[int, ...]:
    if (
        not isinstance(shape, tuple)
        or len(shape) > HIGHEST_RANK
        or not all(type(size) is int and size >= 0 for size in shape)
    ):
        raise ValueError(f"its shape is not a tuple of at most {HIGHEST_RANK} sizes")
    return shape


Array = NDArray[Any]

# Compressed arrays of zeros shrink a thousandfold. What is above both bounds is refused.
LARGEST_INFLATED = 2**32
MOST_INFLATED = 32  # times the size of the archive

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what NumPy writes
_CHUNK = 2**20


def read_npz(path: Path, member: str) -> Array:
    """Return the array `member` of an archive; without a name, the only one that it has."""
    try:
        with zipfile.ZipFile(path) as archive:
            info = _member(path, archive, member)
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


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, place: str) -> Array:
    with archive.open(info) as file:
        try:
            header = read_npy(file)
            if header.dtype.hasobject:
                raise FileError(
                    f"{place}: holds pickled Python objects, which are never loaded "
                    f"(allowed: numbers, booleans, dates, fixed-width strings and records)"
                )
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
            raise FileError(
                f"{place}: ends after {header.start + filled} of {info.file_size} bytes"
            )
    return array
