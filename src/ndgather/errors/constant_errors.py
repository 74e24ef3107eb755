"""Errors of the constants of a model, and of the files that hold them."""

from __future__ import annotations

from ndgather.errors import FileError


def tensor_elsewhere(name: str) -> FileError:
    return FileError(
        f"constant {name!r}: cannot be read: it is in another file, and the folder of the model "
        f"is not known (allowed: the path of the model)"
    )
