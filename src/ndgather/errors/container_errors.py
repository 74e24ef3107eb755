"""Errors of objects of a library that are not its arrays."""

from __future__ import annotations

from ndgather.errors import DTypeError


def no_array(caller: str, argument: str, value: object, allowed: str) -> DTypeError:
    package = type(value).__module__.partition(".")[0]
    return DTypeError(
        f"{caller}: {argument} = {type(value).__name__} object is of {package}, but not an array "
        f"(allowed: {allowed})"
    )
