"""Errors of files of tensors and models: reading and writing them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import FileError
from ndgather.messages import listed, reason

if TYPE_CHECKING:
    from collections.abc import Iterable


def unreadable(path: object, error: BaseException) -> FileError:
    return FileError(f"{path}: cannot be read: {reason(error)}")


def not_of_its_kind(path: object, kind: str, error: BaseException | None = None) -> FileError:
    why = f": {reason(error)}" if error else ""
    return FileError(f"{path}: is not a complete {kind} file{why}")


def unknown_suffix(path: object, suffixes: Iterable[str]) -> FileError:
    return FileError(f"{path}: unknown kind of file (allowed: {listed(suffixes)})")


def unwritable(path: object, error: BaseException) -> FileError:
    return FileError(f"{path}: cannot be written: {reason(error)}")


def keeps_tensors(path: object, model: object) -> FileError:
    return FileError(f"{path}: cannot be written: {model} keeps tensors there")


def tensors_elsewhere(path: object, error: FileError) -> FileError:
    return FileError(
        f"{path}: cannot be written: the model keeps tensors in other files, which are not beside "
        f"it: {error} (allowed: folder=, the folder of those files)"
    )


def too_large_without_tensors(path: object, most: int) -> FileError:
    return FileError(
        f"{path}: cannot be written: the model is too large, although its tensors are in another "
        f"file (allowed: at most {most} bytes)"
    )


def not_storable(path: object, what: str, kind: str) -> FileError:
    return FileError(f"{path}: cannot be written: {what} cannot be stored in a {kind} file")


def in_model(path: object, error: FileError) -> FileError:
    return FileError(f"{path}: {error}")
