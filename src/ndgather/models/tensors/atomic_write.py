"""Files that take their places whole, and together where they are several.

A file grows under another name beside its place, is brought to the disk, and takes its place at
the end: whoever interrupts the work, fills the disk or cuts the power finds a whole file, the old
one or the new one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ndgather.errors import FileError, file_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class _File:
    """A place as it was named, what it leads to, and the names beside it."""

    path: Path
    target: Path
    part: Path
    before: Path


def replace(*files: tuple[Path, Callable[[Path], object]]) -> None:
    """Make files, and put all of them in their places or none.

    Parameters
    ----------
    *files : tuple of path and callable
        Each place, and what makes the file at the path that it is called with: a new name in
        the folder of the place.

    Raises
    ------
    FileError
        A file cannot be made, or cannot take its place; the text names the place.
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
    """Return where a path leads.

    Raises
    ------
    FileError
        No file can have that path.
    """
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
