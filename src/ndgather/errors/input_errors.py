"""Errors of inputs that are made up, or that come from one file or folder for all."""

from __future__ import annotations

from ndgather.errors import ModelError


def output_differs(
    name: str, place: tuple[int, ...], found: object, expected: object, file: object
) -> ModelError:
    where = f"[{', '.join(map(str, place))}]"
    return ModelError(f"output {name!r}: {name}{where} = {found} differs from {expected} in {file}")
