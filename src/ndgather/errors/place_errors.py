"""Errors of stored arrays that are named by a path or a URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import FileError
from ndgather.errors.texts import listed, one_line, reason

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_NAMES = 20


def unreadable(place: str, error: BaseException) -> FileError:
    why = reason(error).partition(" Debug source:")[0]  # obstore shows its structs after it
    return FileError(f"{one_line(place)}: cannot be read: {one_line(why)}")


def no_array(place: str) -> FileError:
    return FileError(f"{one_line(place)}: cannot be read: there is no array")


def group(place: str, arrays: Sequence[str]) -> FileError:
    names = sorted(arrays)
    shown = names[:_MOST_NAMES] + ["..."] * (len(names) > _MOST_NAMES)
    return FileError(
        f"{one_line(place)}: is a group of arrays, name one as {one_line(place)}/ARRAY "
        f"(allowed: {one_line(listed(shown))})"
    )
