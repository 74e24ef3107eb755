"""Errors of inputs that are made up, or that come from one file or folder for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import ModelError
from ndgather.errors.similar_names import did_you_mean
from ndgather.errors.texts import listed

if TYPE_CHECKING:
    from collections.abc import Sequence


def unknown_size(name: str, known: Sequence[str]) -> ModelError:
    return ModelError(
        f"the model has no size {name!r} (allowed: {listed(known)}){did_you_mean(name, known)}"
    )


def too_large(name: str, shape: tuple[int, ...]) -> ModelError:
    return ModelError(f"input {name!r}: shape = {shape} is too large to be made up")


def no_rank(name: str) -> ModelError:
    return ModelError(
        f"input {name!r}: the model does not say how many axes it has, so it cannot be made up "
        "(give it by --input)"
    )


def output_differs(
    name: str, place: tuple[int, ...], found: object, expected: object, file: object
) -> ModelError:
    where = f"[{', '.join(map(str, place))}]"
    return ModelError(f"output {name!r}: {name}{where} = {found} differs from {expected} in {file}")
