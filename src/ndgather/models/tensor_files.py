"""Array files, which are read without unpickling and replaced atomically."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import numpy as np

from ndgather import messages
from ndgather.errors import FileError, NdgatherError
from ndgather.models import Array

SUFFIXES = (".npy", ".pb")
LARGEST_PROTOBUF = 2**31 - 1
_PROTOBUF = "TensorProto (.pb)"


def check_regular(path: Path) -> None:
    """Raise FileError unless a path is a regular file, because reading a pipe may never end."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(21, "Is a directory")
    except (OSError, ValueError) as error:  # A null byte in the path raises ValueError.
        raise messages.unreadable(path, error) from error
    if not stat.S_ISREG(mode):
        raise FileError(f"{path}: cannot be read: is not a regular file")


def content(path: Path, most: int) -> bytes:
    """Return the content of a file, or raise FileError if it has more than `most` bytes."""
    check_regular(path)
    try:
        if (size := path.stat().st_size) <= most:
            with path.open("rb") as file:
                return file.read(size)
    except OSError as error:
        raise messages.unreadable(path, error) from error
    raise FileError(f"{path}: is too large to be read (allowed: at most {most} bytes)")


def read(path: Path) -> Array:
    """Return the array in a ``.pb`` file, or in a ``.npy`` file as a read-only memory map."""
    if path.suffix == ".npy":
        with _reading(path, ".npy"):
            return np.asarray(np.lib.format.open_memmap(path, mode="r"))
    if path.suffix == ".pb":
        messages.need("onnx", "onnx")
        from onnx import TensorProto, numpy_helper  # noqa: PLC0415 - slow, and an extra

        with _reading(path, _PROTOBUF):
            tensor = TensorProto.FromString(content(path, LARGEST_PROTOBUF))
            if tensor.data_location == TensorProto.EXTERNAL:
                raise messages.tensor_elsewhere(tensor.name)
            return np.asarray(numpy_helper.to_array(tensor))
    raise messages.unknown_suffix(path, SUFFIXES)


def read_archive(path: Path) -> dict[str, Array]:
    if path.suffix != ".npz":
        raise messages.unknown_suffix(path, (".npz",))
    with _reading(path, ".npz"), path.open("rb") as file, np.load(file) as archive:
        return dict(archive)


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Return a context manager that converts exceptions while reading a file to FileError."""
    check_regular(path)
    try:
        yield
    except (NdgatherError, MemoryError):
        raise
    except OSError as error:
        raise messages.unreadable(path, error) from error
    except Exception as error:
        raise messages.not_of_its_kind(path, kind, error) from error


def resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError) as error:
        # The path has a null byte, or symbolic links form a cycle.
        raise messages.unwritable(path, error) from error


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise messages.unwritable(folder, error) from error


def check_place(path: Path, suffixes: Sequence[str]) -> None:
    """Raise FileError if `path` is not a valid path for an output file."""
    target = resolved(path)
    if path.suffix not in suffixes:
        raise messages.unknown_suffix(path, suffixes)
    if not target.parent.is_dir():
        raise FileError(f"{path}: cannot be written: there is no folder {path.parent}")
    if target.exists() and not target.is_file():
        raise FileError(f"{path}: cannot be written: exists and is not a regular file")


def replace_file(*files: tuple[Path, Callable[[Path], object]]) -> None:
    """Write all files to temporary paths, then replace either all target files or none.

    Each argument is a target path and a function that writes the content to a given path.
    """
    targets = [resolved(path) for path, _ in files]
    stems = [target.parent / f".ndgather-{os.getpid()}-{os.urandom(4).hex()}" for target in targets]
    moved: list[tuple[Path, Path, bool]] = []  # (target, backup, whether the target existed)
    try:
        for stem, (path, write_to) in zip(stems, files, strict=True):
            part = stem.with_suffix(".part")
            try:
                write_to(part)
                with part.open("rb+") as file:
                    os.fsync(file.fileno())  # Flush the data to disk before the file is renamed.
            except NdgatherError:  # `write_to` cannot read a source file.
                raise
            except OSError as error:
                raise messages.unwritable(path, error) from error
        for stem, target, (path, _) in zip(stems, targets, files, strict=True):
            backup = stem.with_suffix(".old")
            try:
                existed = target.exists()
                with suppress(OSError):  # Skip the backup if hard links are not supported.
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


def write_all(arrays: Mapping[Path, Array]) -> None:
    """Write all arrays to ``.npy`` and ``.pb`` files, or none if an error occurs."""
    for path in arrays:
        check_place(path, SUFFIXES)
    replace_file(*((path, _writer(path, array)) for path, array in arrays.items()))


def _writer(path: Path, array: Array) -> Callable[[Path], object]:
    """Return a function that writes an array to a temporary path in the format of `path`."""
    if path.suffix == ".pb":
        from onnx import numpy_helper  # noqa: PLC0415 - slow, and an extra

        what = f"dtype {array.dtype}"
        with messages.converted_errors(lambda _: messages.not_storable(path, what, _PROTOBUF)):
            serialized = numpy_helper.from_array(array).SerializeToString()
        return lambda part: part.write_bytes(serialized)
    if array.dtype.kind == "O":  # Convert Python strings to fixed-width strings.
        fixed = array.astype(np.str_) if all(isinstance(x, str) for x in array.flat) else None
        # Fixed-width strings cannot represent trailing null characters.
        if fixed is None or not np.array_equal(fixed, array):
            raise messages.not_storable(path, f"dtype {array.dtype} with these values", ".npy")
        array = fixed
    return partial(_write_npy, array=array)


def _write_npy(part: Path, array: Array) -> None:
    out = np.lib.format.open_memmap(part, mode="w+", dtype=array.dtype, shape=array.shape)
    if hasattr(os, "posix_fallocate"):
        # Allocate the file now, because writing a mapped page would crash if the disk is full.
        with part.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, part.stat().st_size)
    np.copyto(out, array)
    out.flush()
