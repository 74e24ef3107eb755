"""The whole content of a file that may be anything: a regular one, of bounded size."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from ndgather.errors import file_errors

if TYPE_CHECKING:
    from pathlib import Path


def check_regular(path: Path) -> None:
    """Refuse what has no end, or blocks who opens it: pipes and devices.

    Raises
    ------
    FileError
        There is no such file, or it is not a regular one.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:  # ValueError: a NUL in its name
        raise file_errors.unreadable(path, error) from error
    if stat.S_ISDIR(mode):
        raise file_errors.unreadable(path, IsADirectoryError(21, "Is a directory"))
    if not stat.S_ISREG(mode):
        raise file_errors.not_a_file(path)


def content(path: Path, most: int) -> bytes:
    """Return what a file holds.

    Raises
    ------
    FileError
        The file cannot be read, is not a regular one, or holds more than `most` bytes.
    """
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
        raise file_errors.too_large(path, most)
    return found
