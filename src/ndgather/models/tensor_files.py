"""Array files: read without unpickling, and written completely or not at all."""

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
    """Raise for pipes and devices, which may be endless or block the reader."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(21, "Is a directory")
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        raise messages.unreadable(path, error) from error
    if not stat.S_ISREG(mode):
        raise FileError(f"{path}: cannot be read: is not a regular file")


def content(path: Path, most: int) -> bytes:
    """Return the bytes of a file; raise if there are more than `most`."""
    check_regular(path)
    try:
        if (size := path.stat().st_size) <= most:
            with path.open("rb") as file:
                return file.read(size)
    except OSError as error:
        raise messages.unreadable(path, error) from error
    raise FileError(f"{path}: is too large to be read (allowed: at most {most} bytes)")


def read(path: Path) -> Array:
    """Return the array in a ``.npy`` file, memory-mapped and read-only, or in a ``.pb`` file."""
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
    """Return the arrays of a ``.npz`` archive by name."""
    if path.suffix != ".npz":
        raise messages.unknown_suffix(path, (".npz",))
    with _reading(path, ".npz"), path.open("rb") as file, np.load(file) as archive:
        return dict(archive)


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Convert the exceptions of a library that reads a file to FileError."""
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
    """Return a path with all symbolic links resolved."""
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError) as error:  # a null byte, or a cycle of links
        raise messages.unwritable(path, error) from error


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise messages.unwritable(folder, error) from error


def check_place(path: Path, suffixes: Sequence[str]) -> None:
    """Raise early if no file can be written to `path`."""
    target = resolved(path)
    if path.suffix not in suffixes:
        raise messages.unknown_suffix(path, suffixes)
    if not target.parent.is_dir():
        raise FileError(f"{path}: cannot be written: there is no folder {path.parent}")
    if target.exists() and not target.is_file():
        raise FileError(f"{path}: cannot be written: exists and is not a regular file")


def replace_file(*files: tuple[Path, Callable[[Path], object]]) -> None:
    """Write files to temporary paths, then move either all of them into place or none.

    The function of each file writes it to a temporary path in the same folder.
    """
    targets = [resolved(path) for path, _ in files]
    stems = [target.parent / f".ndgather-{os.getpid()}-{os.urandom(4).hex()}" for target in targets]
    moved: list[tuple[Path, Path, bool]] = []  # target, backup, whether the target existed
    try:
        for stem, (path, write_to) in zip(stems, files, strict=True):
            part = stem.with_suffix(".part")
            try:
                write_to(part)
                with part.open("rb+") as file:
                    os.fsync(file.fileno())  # so that the rename cannot precede the data on disk
            except NdgatherError:  # from reading the source of the file
                raise
            except OSError as error:
                raise messages.unwritable(path, error) from error
        for stem, target, (path, _) in zip(stems, targets, files, strict=True):
            backup = stem.with_suffix(".old")
            try:
                existed = target.exists()
                with suppress(OSError):  # no backup if the file system lacks hard links
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
    """Write arrays to ``.npy`` and ``.pb`` files, either all of them or none."""
    for path in arrays:
        check_place(path, SUFFIXES)
    replace_file(*((path, _writer(path, array)) for path, array in arrays.items()))


def _writer(path: Path, array: Array) -> Callable[[Path], object]:
    """Return a function that writes an array to a temporary path in the format of `path`."""
    if path.suffix == ".pb":
        from onnx import numpy_helper  # noqa: PLC0415 - slow, and an extra

        what = f"dtype {array.dtype}"  # not an ONNX type, or the tensor exceeds 2 GiB
        with messages.converted_errors(lambda _: messages.not_storable(path, what, _PROTOBUF)):
            serialized = numpy_helper.from_array(array).SerializeToString()
        return lambda part: part.write_bytes(serialized)
    if array.dtype.kind == "O":  # Python strings become fixed-width strings
        fixed = array.astype(np.str_) if all(isinstance(x, str) for x in array.flat) else None
        if fixed is None or not np.array_equal(fixed, array):  # NumPy drops trailing null chars
            raise messages.not_storable(path, f"dtype {array.dtype} with these values", ".npy")
        array = fixed
    return partial(_write_npy, array=array)


def _write_npy(part: Path, array: Array) -> None:
    out = np.lib.format.open_memmap(part, mode="w+", dtype=array.dtype, shape=array.shape)
    if hasattr(os, "posix_fallocate"):
        # Detect a full disk here: writing to mapped pages of a sparse file would crash (SIGBUS).
        with part.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, part.stat().st_size)
    np.copyto(out, array)
    out.flush()
