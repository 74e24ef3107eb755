"""Tensors in files: read without pickles, and written whole or not at all.

`.npy` files are memory-mapped for reading and writing, so that neither data nor result has to fit
in memory.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ndgather import messages
from ndgather.errors import FileError, NdgatherError
from ndgather.models import Array
from ndgather.models.tensors import formats

INPUT_SUFFIXES = (".npy", ".npz", ".pb")
OUTPUT_SUFFIXES = (".npy", ".pb")
LARGEST_PROTOBUF = 2**31 - 1


def check_regular(path: Path) -> None:
    """Raise for pipes and devices, which may have no end or block the reader."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(21, "Is a directory")
    except (OSError, ValueError) as error:  # ValueError: a NUL in its name
        raise messages.unreadable(path, error) from error
    if not stat.S_ISREG(mode):
        raise FileError(f"{path}: cannot be read: is not a regular file")


def content(path: Path, most: int) -> bytes:
    """Return the bytes of a file that has at most `most`."""
    check_regular(path)
    with _reading(path):
        if (size := path.stat().st_size) <= most:
            with path.open("rb") as file:
                return file.read(size)
    raise FileError(f"{path}: is too large to be read (allowed: at most {most} bytes)")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise messages.unreadable(path, error) from error


def read(place: str) -> Array:
    """Return the tensor at `place`: ``FILE.npy``, ``FILE.npz:MEMBER`` or ``FILE.pb``.

    ``.npy`` files are memory-mapped, read-only. The member may be left out if there is only one.
    """
    file, colon, member = place.rpartition(".npz:")
    path, member = (Path(f"{file}.npz"), member) if colon else (Path(place), "")
    with _reading(path):
        if path.suffix == ".npy":
            return np.asarray(_map_npy(path, "r"))
        if path.suffix == ".npz":
            check_regular(path)
            return formats.read_npz(path, member)
        if path.suffix == ".pb":
            from ndgather.models.tensors import pb_tensor  # noqa: PLC0415 - slow, and an extra

            return pb_tensor.tensor_from_bytes(content(path, LARGEST_PROTOBUF), path)
    raise messages.unknown_suffix(path, INPUT_SUFFIXES)


def read_all(path: Path) -> dict[str, Array]:
    """Return every array of a ``.npz`` archive by its name."""
    with _reading(path):
        names = formats.member_names(path)
    return {name: read(f"{path}:{name}") for name in names}


def _map_npy(path: Path, mode: Literal["r", "r+"]) -> np.memmap[Any, Any]:
    check_regular(path)
    with path.open(f"{mode}b") as file:
        return formats.map_npy(file, os.fstat(file.fileno()).st_size, path, mode)


@contextmanager
def in_place(path: Path) -> Iterator[Array]:
    """Yield the array of a ``.npy`` file, to be changed in place."""
    if path.suffix != ".npy":
        raise FileError(f"{path}: cannot be changed in place (allowed: .npy and stored arrays)")
    with _reading(path):
        array = _map_npy(path, "r+")
    yield np.asarray(array)
    array.flush()


def resolved(path: Path) -> Path:
    """Return the file that a path leads to."""
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in it, or links in a circle
        raise messages.unwritable(path, error) from error


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise messages.unwritable(folder, error) from error


def check_place(path: Path, suffixes: Sequence[str] = OUTPUT_SUFFIXES) -> None:
    """Raise if no file can be written to `path`, before any work is done for it."""
    target = resolved(path)
    if path.suffix not in suffixes:
        raise messages.unknown_suffix(path, suffixes)
    if not target.parent.is_dir():
        raise FileError(f"{path}: cannot be written: there is no folder {path.parent}")
    if target.exists() and not target.is_file():
        raise FileError(f"{path}: cannot be written: exists and is not a regular file")


def part_name(process: int | None = None) -> str:
    """Return the beginning of the names of files that a process has not finished."""
    return f".ndgather-{process or os.getpid()}-"


def replace_file(*files: tuple[Path, Callable[[Path], object]]) -> None:
    """Write files, and move all of them to their paths or none.

    The function of a file writes it to a temporary path in the same folder.
    """
    targets = [resolved(path) for path, _ in files]
    stems = [target.parent / f"{part_name()}{os.urandom(4).hex()}" for target in targets]
    moved: list[tuple[Path, Path, bool]] = []  # target, backup, whether there was a file
    try:
        for stem, (path, write_to) in zip(stems, files, strict=True):
            part = stem.with_suffix(".part")
            try:
                write_to(part)
                with part.open("rb+") as file:
                    os.fsync(file.fileno())  # or the name may reach the disk before the bytes
            except NdgatherError:  # of what is read meanwhile, too
                raise
            except OSError as error:
                raise messages.unwritable(path, error) from error
        for stem, target, (path, _) in zip(stems, targets, files, strict=True):
            backup = stem.with_suffix(".old")
            try:
                existed = target.exists()
                with suppress(OSError):  # without hard links there is no backup
                    if existed:
                        backup.hardlink_to(target)
                stem.with_suffix(".part").replace(target)
            except OSError as error:
                for before, backup, existed in reversed(moved):
                    with suppress(OSError):
                        if existed:
                            backup.replace(before)
                        else:
                            before.unlink()
                raise messages.unwritable(path, error) from error
            moved.append((target, backup, existed))
    finally:
        for stem in stems:
            for suffix in (".part", ".old"):
                with suppress(OSError):
                    stem.with_suffix(suffix).unlink(missing_ok=True)


def write(path: Path, array: Array) -> None:
    """Write `array` to `path`, a ``.npy`` or ``.pb`` file, whole or not at all."""
    write_all({path: array})


def write_all(arrays: Mapping[Path, Array]) -> None:
    """Write arrays to ``.npy`` and ``.pb`` files: all of them or none."""
    for path in arrays:
        check_place(path)
    replace_file(*((path, _writer(path, array)) for path, array in arrays.items()))


def _writer(path: Path, array: Array) -> Callable[[Path], object]:
    if path.suffix == ".pb":
        from ndgather.models.tensors import pb_tensor  # noqa: PLC0415 - slow, and an extra

        return lambda file: file.write_bytes(pb_tensor.tensor_to_bytes(array, path))
    if array.dtype.kind in "OT":  # strings as Python objects become fixed-width strings
        fixed = array.astype(np.str_) if all(isinstance(x, str) for x in array.flat) else None
        if fixed is None or not np.array_equal(fixed, array):  # NumPy drops NULs at the end
            raise messages.not_storable(path, f"dtype {array.dtype} with these values", ".npy")
        array = fixed
    work = partial(np.copyto, src=array)
    return partial(_fill, shape=array.shape, dtype=array.dtype, work=work)


def fill(
    path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], work: Callable[[Array], object]
) -> None:
    """Create the ``.npy`` file `path` and let `work` fill it, whole or not at all.

    `work` must keep no reference to the memory-mapped array.
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
    if hasattr(os, "posix_fallocate"):
        # A full disk is an error here; a write to pages of a sparse file would be a crash.
        with part.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, part.stat().st_size)
    work(np.asarray(out))
    out.flush()
    del out  # unmapped before it is renamed: some systems insist
