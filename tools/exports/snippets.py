"""The snippets of ``snippets.toml`` and the values of their inputs.

This module is imported in the environments of the exporters, which have no ndgather.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

CASES = ("valid", "negative", "outside", "repeated")
_SCALE = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """A row of ``snippets.toml``; `targets` are the targets of a scikit-learn model."""

    name: str
    python: str
    inputs: dict[str, list[Any]] = field(default_factory=dict)
    indices: dict[str, int | list[int]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    targets: str = "classes"

    @property
    def cases(self) -> tuple[str, ...]:
        return CASES if self.indices else CASES[:1]

    def values(self, case: str) -> dict[str, Array]:
        """Return random inputs with the indices of a case."""
        rng = np.random.default_rng(33)
        arrays: dict[str, Array] = {}
        for name, (dtype, *shape) in self.inputs.items():
            if name in self.indices:
                sizes = np.asarray(self.indices[name])
                arrays[name] = _indices(shape, sizes, case).astype(dtype)
            elif dtype == "bool":
                arrays[name] = rng.random(shape) < 0.5
            else:
                arrays[name] = (rng.random(shape) * _SCALE).astype(dtype)
        return arrays


def snippets(package: str) -> list[Snippet]:
    text = Path(__file__).with_name("snippets.toml").read_text(encoding="utf-8")
    return [Snippet(name=name, **row) for name, row in tomllib.loads(text)[package].items()]


def _indices(shape: list[int], sizes: Array, case: str) -> Array:
    """Return distinct indices if the axis is long enough; the last index is the hard one."""
    indices = np.arange(int(np.prod(shape))).reshape(shape)
    indices = indices // shape[-1] % sizes if sizes.ndim else indices % sizes
    match case:
        case "negative":
            indices[-1:] = indices[-1:] - sizes
        case "outside":
            indices.reshape(-1)[-1] = sizes if sizes.ndim == 0 else sizes[-1]
        case "repeated":
            indices[...] = 1
    return indices
