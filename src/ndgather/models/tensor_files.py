"""Tensors in files: read without pickles, written whole or not at all.

`.npy` files are memory-mapped both ways, so that neither data nor result has to fit in
memory. A file that is written grows under another name beside its place and takes its place
at the end: whoever interrupts the work finds what was there before.
"""

from __future__ import annotations

import os
import secrets
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndgather.models import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Array = NDArray[Any]

INPUT_SUFFIXES = (".npy", ".npz", ".pb")
OUTPUT_SUFFIXES = (".npy", ".pb")


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

    Raises
    ------
    FileError
        The file or member does not exist, or does not hold what its name promises.
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
        if isinstance(error, errors.FileError):
            raise
        raise errors.unreadable(path, error) from error
    raise errors.unknown_suffix(path, INPUT_SUFFIXES)


def _split(place: str) -> tuple[Path, str]:
    file, colon, member = place.rpartition(".npz:")
    return (Path(f"{file}.npz"), member) if colon else (Path(place), "")


def _read_npy(path: Path) -> Array:
    try:
        return np.asarray(np.lib.format.open_memmap(path, mode="r"))
    except ValueError as error:
        if "Python objects" in str(error):
            raise errors.holds_objects(path) from error
        raise errors.not_of_its_kind(path, ".npy", error) from error


def _read_npz(path: Path, member: str) -> Array:
    if path.is_file() and not zipfile.is_zipfile(path):
        raise errors.not_of_its_kind(path, ".npz")
    with np.load(path, allow_pickle=False) as archive:
        if not member and len(archive.files) != 1:
            raise errors.member_not_named(path, archive.files)
        name = member or archive.files[0]
        if name not in archive.files:
            raise errors.no_member(path, name, archive.files)
        try:
            array = archive[name]
        except ValueError as error:
            if "allow_pickle" in str(error):
                raise errors.holds_objects(f"{path}:{name}") from error
            raise errors.not_of_its_kind(path, ".npz", error) from error
        except zipfile.BadZipFile as error:
            raise errors.not_of_its_kind(path, ".npz", error) from error
    if not isinstance(array, np.ndarray):
        raise errors.not_of_its_kind(f"{path}:{name}", ".npy")
    return array


def _read_pb(path: Path) -> Array:
    from ndgather.models import onnx  # noqa: PLC0415 - slow, and an extra

    return onnx.tensor_from_bytes(path.read_bytes(), path)


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise errors.unwritable(folder, error) from error


def check_place(path: Path, suffixes: Sequence[str] = OUTPUT_SUFFIXES) -> None:
    """Refuse a place where no file could be put, before any work is done for it."""
    target = path.resolve()
    if path.suffix not in suffixes:
        raise errors.unknown_suffix(path, suffixes)
    if not target.parent.is_dir():
        raise errors.no_folder(path, path.parent)
    if target.exists() and not target.is_file():
        raise errors.not_a_regular_file(path)


def write(path: Path, array: Array) -> None:
    """Write `array` to `path`, a ``.npy`` or ``.pb`` file, whole or not at all."""
    check_place(path)
    if path.suffix == ".pb":
        from ndgather.models import onnx  # noqa: PLC0415 - slow, and an extra

        content = onnx.tensor_to_bytes(array, path)
        with replacing(path) as part:
            part.write_bytes(content)
    else:
        plain = _without_objects(path, array)
        fill(path, plain.shape, plain.dtype, lambda out: np.copyto(out, plain))


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
    with replacing(path) as part:
        out = np.lib.format.open_memmap(part, mode="w+", dtype=dtype, shape=shape)
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
    raise errors.not_storable(path, f"dtype {array.dtype} with these values", ".npy")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a new name in the folder of `path`; the file made there replaces `path` at the end."""
    target = path.resolve()
    part = target.with_name(f".ndgather-{secrets.token_hex(4)}.part")
    try:
        yield part
        part.replace(target)
    except OSError as error:
        raise errors.unwritable(path, error) from error
    finally:
        part.unlink(missing_ok=True)
