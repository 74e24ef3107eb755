"""Tensors in files: read without pickles, written whole or not at all.

`.npy` files are memory-mapped both ways, so that neither data nor result has to fit in memory.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ndgather.errors import FileError, file_errors
from ndgather.models.tensors import formats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


def check_regular(path: Path) -> None:
    """Refuse what has no end, or blocks who opens it: pipes and devices."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:  # ValueError: a NUL in its name
        raise file_errors.unreadable(path, error) from error
    if stat.S_ISDIR(mode):
        raise file_errors.unreadable(path, IsADirectoryError(21, "Is a directory"))
    if not stat.S_ISREG(mode):
        raise FileError(f"{path}: cannot be read: is not a regular file")


def content(path: Path, most: int) -> bytes:
    """Return what a file holds."""
    check_regular(path)
    try:
        size = path.stat().st_size
        if size <= most:
            with path.open("rb") as file:
                found = file.read(size + 1)  # to ask for `most` would take as much memory
                if len(found) > size:  # it has grown
                    found += file.read(most + 1 - len(found))
            size = len(found)
    except OSError as error:
        raise file_errors.unreadable(path, error) from error
    if size > most:
        raise FileError(f"{path}: is too large to be read (allowed: at most {most} bytes)")
    return found


@dataclass(frozen=True, slots=True)
class _File:
    """A place as it was named, what it leads to, and the names beside it."""

    path: Path
    target: Path
    part: Path
    before: Path


def replace_file(*files: tuple[Path, Callable[[Path], object]]) -> None:
    """Make files, and put all of them in their places or none.

    Parameters
    ----------
    *files : tuple of path and callable
        Each place, and what makes the file at the path that it is called with: a new name in
        the folder of the place.
    """
    begun = [_beside(path) for path, _ in files]
    try:
        for each, (path, make) in zip(begun, files, strict=True):
            try:
                make(each.part)
                _keep(each.part)
            except FileError:
                raise
            except OSError as error:
                raise file_errors.unwritable(path, error) from error
        _place(begun)
    finally:
        for each in begun:
            for left in each.part, each.before:
                with suppress(OSError):
                    left.unlink(missing_ok=True)


def resolved(path: Path) -> Path:
    """Return where a path leads."""
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in it, or links in a circle
        raise file_errors.unwritable(path, error) from error


def _beside(path: Path) -> _File:
    target = resolved(path)
    name = f".ndgather-{os.urandom(4).hex()}"
    return _File(path, target, target.parent / f"{name}.part", target.parent / f"{name}.old")


def _keep(path: Path) -> None:
    """Wait until what was written is on the disk: a name may reach it before the bytes do."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _place(files: Iterable[_File]) -> None:
    """Rename all; where one cannot be, give those before it back what was there."""
    placed: list[tuple[_File, bool]] = []
    for each in files:
        try:
            existed = each.target.exists()
            with suppress(OSError):  # a system without hard links keeps nothing to give back
                if existed:
                    each.before.hardlink_to(each.target)
            each.part.replace(each.target)
        except OSError as error:
            for other, had in reversed(placed):
                with suppress(OSError):
                    if had:
                        other.before.replace(other.target)
                    else:
                        other.target.unlink()
            raise file_errors.unwritable(each.path, error) from error
        placed.append((each, existed))


Array = NDArray[Any]

INPUT_SUFFIXES = (".npy", ".npz", ".pb")
OUTPUT_SUFFIXES = (".npy", ".pb")

LARGEST_PROTOBUF = 2**31 - 1


def read(place: str) -> Array:
    """Return the tensor that `place` names.

    Parameters
    ----------
    place : str
        ``FILE.npy`` (memory-mapped, read-only), ``FILE.npz:MEMBER`` (the member may be left
        out where there is only one), or ``FILE.pb`` (a serialized ONNX TensorProto; needs the
        `onnx` extra).

    Returns
    -------
    array
        What the file holds; never unpickled.
    """
    path, member = _split(place)
    try:
        if path.suffix == ".npy":
            return _read_npy(path)
        if path.suffix == ".npz":
            return _read_npz(path, member)
        if path.suffix == ".pb":
            return _read_pb(path)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise file_errors.unreadable(path, error) from error
    raise file_errors.unknown_suffix(path, INPUT_SUFFIXES)


def read_all(path: Path) -> dict[str, Array]:
    """Return every array of a ``.npz`` archive by its name."""
    try:
        names = formats.names(path)
    except OSError as error:
        raise file_errors.unreadable(path, error) from error
    return {name: read(f"{path}:{name}") for name in names}


def _split(place: str) -> tuple[Path, str]:
    file, colon, member = place.rpartition(".npz:")
    return (Path(f"{file}.npz"), member) if colon else (Path(place), "")


def _read_npy(path: Path, mode: Literal["r", "r+"] = "r") -> Array:
    check_regular(path)
    with path.open(f"{mode}b") as file:
        try:
            header = formats.read_npy(file)
            if header.dtype.hasobject:
                raise FileError(
                    f"{path}: holds pickled Python objects, which are never loaded "
                    f"(allowed: numbers, booleans, dates, fixed-width strings and records)"
                )
            header.check_room(os.fstat(file.fileno()).st_size - header.start)
            return np.asarray(
                np.memmap(file, header.dtype, mode, header.start, header.shape, header.order)
            )
        except ValueError as error:
            raise file_errors.not_of_its_kind(path, ".npy", error) from error


def _read_npz(path: Path, member: str) -> Array:
    check_regular(path)
    return formats.read_npz(path, member)


@contextmanager
def in_place(path: Path) -> Iterator[Array]:
    """Give the array of a ``.npy`` file, to be changed where it is."""
    if path.suffix != ".npy":
        raise FileError(f"{path}: cannot be changed in place (allowed: .npy and stored arrays)")
    try:
        array = _read_npy(path, "r+")
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise file_errors.unreadable(path, error) from error
    yield array
    if isinstance(array.base, np.memmap):
        array.base.flush()


def _read_pb(path: Path) -> Array:
    from ndgather.models.tensors import pb_tensor  # noqa: PLC0415 - slow, and an extra

    return pb_tensor.tensor_from_bytes(content(path, LARGEST_PROTOBUF), path)


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise file_errors.unwritable(folder, error) from error


def check_place(path: Path, suffixes: Sequence[str] = OUTPUT_SUFFIXES) -> None:
    """Refuse a place where no file could be put, before any work is done for it."""
    target = resolved(path)
    if path.suffix not in suffixes:
        raise file_errors.unknown_suffix(path, suffixes)
    if not target.parent.is_dir():
        raise FileError(f"{path}: cannot be written: there is no folder {path.parent}")
    if target.exists() and not target.is_file():
        raise FileError(f"{path}: cannot be written: exists and is not a regular file")


def write(path: Path, array: Array) -> None:
    """Write `array` to `path`, a ``.npy`` or ``.pb`` file, whole or not at all."""
    write_all({path: array})


def write_all(arrays: Mapping[Path, Array]) -> None:
    """Write arrays to ``.npy`` and ``.pb`` files: all of them, each whole, or none."""
    for path in arrays:
        check_place(path)
    replace_file(*((path, _writer(path, array)) for path, array in arrays.items()))


def _writer(path: Path, array: Array) -> Callable[[Path], object]:
    if path.suffix == ".pb":
        return lambda part: part.write_bytes(_protobuf(path, array))
    plain = _without_objects(path, array)
    return partial(
        _fill, shape=plain.shape, dtype=plain.dtype, work=lambda out: np.copyto(out, plain)
    )


def _protobuf(path: Path, array: Array) -> bytes:
    from ndgather.models.tensors import pb_tensor  # noqa: PLC0415 - slow, and an extra

    return pb_tensor.tensor_to_bytes(array, path)


def fill(
    path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], work: Callable[[Array], object]
) -> None:
    """Create the ``.npy`` file `path` and let `work` fill it, whole or not at all.

    Parameters
    ----------
    path : Path
        The file. One that exists stays as it is until `work` is done.
    shape, dtype
        Of the array in the file; no Python objects.
    work : callable
        Called with the memory-mapped array, in C order. It must keep no reference to it.
    """
    check_place(path)
    replace_file((path, partial(_fill, shape=shape, dtype=dtype, work=work)))


def _fill(
    part: Path, shape: tuple[int, ...], dtype: np.dtype[Any], work: Callable[[Array], object]
) -> None:
    try:
        out = np.lib.format.open_memmap(part, mode="w+", dtype=dtype, shape=shape)
    except (ValueError, OverflowError) as error:  # beyond all integers, not only all disks
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG)) from error
    _reserve(part)
    work(np.asarray(out))
    out.flush()
    del out  # unmapped before it is renamed: some systems insist


def _reserve(part: Path) -> None:
    # A full disk is an error here; once pages of a sparse file are written it is a crash.
    if hasattr(os, "posix_fallocate"):
        with part.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, part.stat().st_size)


def _without_objects(path: Path, array: Array) -> Array:
    """Return strings that stand as Python objects as fixed-width strings."""
    if array.dtype.kind not in "OT":
        return array
    if all(isinstance(item, str) for item in array.flat):
        fixed = array.astype(np.str_)
        if np.array_equal(fixed, array):  # NumPy drops NULs at the end of a string
            return fixed
    raise file_errors.not_storable(path, f"dtype {array.dtype} with these values", ".npy")
