"""Errors of lazy arrays: what cannot be planned before anything is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import ShapeError
from ndgather.messages import shown

if TYPE_CHECKING:
    from collections.abc import Sequence


def sizes_not_known(caller: str, argument: str, shape: Sequence[object]) -> ShapeError:
    return ShapeError(
        f"{caller}: {argument}.shape = {shown(shape)} is not known before {argument} is computed "
        f"(allowed: known sizes)"
    )
