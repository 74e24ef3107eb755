"""Errors of the constants of a model, and of the files that hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import FileError
from ndgather.errors.shape_errors import shown
from ndgather.errors.texts import reason

if TYPE_CHECKING:
    from collections.abc import Sequence


def unreadable_tensor(name: str, error: BaseException) -> FileError:
    return FileError(f"constant {name!r}: cannot be read: {reason(error)}")


def in_constant(name: str, error: FileError) -> FileError:
    return FileError(f"constant {name!r}: {error}")


def tensor_elsewhere(name: str) -> FileError:
    return FileError(
        f"constant {name!r}: cannot be read: it is in another file, and the folder of the model "
        f"is not known (allowed: the path of the model)"
    )


def tensor_place(name: str, location: str) -> FileError:
    return FileError(
        f"constant {name!r}: location = {location!r} is not inside the folder of the model "
        f"(allowed: a file there)"
    )


def tensor_count(name: str, key: str, text: str) -> FileError:
    return FileError(f"constant {name!r}: {key} = {text!r} is not a whole number")


def tensor_dims(name: str, dims: Sequence[int]) -> FileError:
    return FileError(f"constant {name!r}: dims = {shown(dims)} has a negative size")


def tensor_beyond(name: str, path: object, offset: int, length: int, size: int) -> FileError:
    return FileError(
        f"constant {name!r}: bytes {offset}..{offset + length} are not in {path}, which has {size}"
    )


def tensor_length(name: str, length: int, needed: int) -> FileError:
    return FileError(
        f"constant {name!r}: has {length} bytes in its file (allowed: {needed}, by its type and "
        f"dims)"
    )


def tensor_of_two_names(name: str, path: object) -> FileError:
    return FileError(
        f"constant {name!r}: {path} has a second name, which may be outside of its folder "
        "(allowed: a file of one name)"
    )
