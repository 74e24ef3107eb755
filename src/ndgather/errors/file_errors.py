"""Errors of files of tensors and models: reading and writing them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import FileError
from ndgather.errors.similar_names import did_you_mean
from ndgather.errors.texts import listed, reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def unreadable(path: object, error: BaseException) -> FileError:
    return FileError(f"{path}: cannot be read: {reason(error)}")


def not_of_its_kind(path: object, kind: str, error: BaseException | None = None) -> FileError:
    why = f": {reason(error)}" if error else ""
    return FileError(f"{path}: is not a complete {kind} file{why}")


def not_a_file(path: object) -> FileError:
    return FileError(f"{path}: cannot be read: is not a regular file")


def too_large(path: object, most: int) -> FileError:
    return FileError(f"{path}: is too large to be read (allowed: at most {most} bytes)")


def holds_objects(path: object) -> FileError:
    return FileError(
        f"{path}: holds pickled Python objects, which are never loaded "
        f"(allowed: numbers, booleans, dates, fixed-width strings and records)"
    )


def unknown_suffix(path: object, suffixes: Iterable[str]) -> FileError:
    return FileError(f"{path}: unknown kind of file (allowed: {listed(suffixes)})")


def not_in_place(path: object) -> FileError:
    return FileError(f"{path}: cannot be changed in place (allowed: .npy and stored arrays)")


def no_member(path: object, member: str, members: Sequence[str]) -> FileError:
    return FileError(
        f"{path}: has no member {member!r} (allowed: {listed(members)})"
        f"{did_you_mean(member, members)}"
    )


def no_arrays(path: object) -> FileError:
    return FileError(f"{path}: holds no arrays")


def member_twice(path: object, member: str) -> FileError:
    return FileError(f"{path}: has several members {member!r} (allowed: one of each name)")


def inflates(place: object, size: int, most: int) -> FileError:
    return FileError(
        f"{place}: would take {size} bytes in memory (allowed: at most {most} out of such an "
        f"archive; a .npy file may be of any size)"
    )


def other_compression(place: object, method: int) -> FileError:
    return FileError(
        f"{place}: is compressed by method {method} (allowed: 0, stored, and 8, deflated)"
    )


def ends_early(place: object, count: int, size: int) -> FileError:
    return FileError(f"{place}: ends after {count} of {size} bytes")


def member_not_named(path: object, members: Iterable[str]) -> FileError:
    return FileError(
        f"{path}: holds several arrays, name one as {path}:MEMBER (allowed: {listed(members)})"
    )


def unwritable(path: object, error: BaseException) -> FileError:
    return FileError(f"{path}: cannot be written: {reason(error)}")


def no_folder(path: object, folder: object) -> FileError:
    return FileError(f"{path}: cannot be written: there is no folder {folder}")


def not_a_regular_file(path: object) -> FileError:
    return FileError(f"{path}: cannot be written: exists and is not a regular file")


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


def same_file(name: str, path: object) -> FileError:
    return FileError(
        f"{path}: cannot be written: output {name!r} and another one would both be written there "
        f"(allowed: --output NAME=FILE for each)"
    )


def not_storable(path: object, what: str, kind: str) -> FileError:
    return FileError(f"{path}: cannot be written: {what} cannot be stored in a {kind} file")


def in_model(path: object, error: FileError) -> FileError:
    return FileError(f"{path}: {error}")
