"""The lines of ``lines.toml``, and the values that they are given.

Imported in the environments of the exporters, which have no ndgather.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LINES = Path(__file__).with_name("lines.toml")
CASES = ("valid", "negative", "outside", "repeated")
_SCALE = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of Python.

    Attributes
    ----------
    python : str
        The line; where there are several, the last one is what they return.
    inputs : dict
        The type and the shape of each input.
    indices : dict
        The size of the axis that an input addresses: one, or one for each of its columns.
    why : dict
        Of an exporter, why what it writes gives another value.
    targets : str
        What a model of scikit-learn is fitted to: "classes", or "sums", which are floats.
    """

    name: str
    package: str
    python: str
    inputs: dict[str, list[Any]] = field(default_factory=dict)
    indices: dict[str, int | list[int]] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    targets: str = "classes"

    @property
    def cases(self) -> tuple[str, ...]:
        return CASES if self.indices else CASES[:1]


def lines(package: str) -> list[Line]:
    """Return the lines of a package, in their order."""
    rows = tomllib.loads(LINES.read_text(encoding="utf-8"))["line"]
    return [Line(**row) for row in rows if row["package"] == package]


def values(line: Line, case: str) -> dict[str, Array]:
    """Return the inputs of a line, with indices of one kind."""
    rng = np.random.default_rng(33)
    found: dict[str, Array] = {}
    for name, (dtype, *shape) in line.inputs.items():
        if name in line.indices:
            found[name] = _indices(shape, np.asarray(line.indices[name]), case).astype(dtype)
        elif dtype == "bool":
            found[name] = rng.random(shape) < 0.5
        else:
            found[name] = (rng.random(shape) * _SCALE).astype(dtype)
    return found


def values_of_cases(line: Line) -> dict[str, dict[str, Array]]:
    """Return the inputs of a line for each of its cases."""
    return {case: values(line, case) for case in line.cases}


def _indices(shape: list[int], sizes: Array, case: str) -> Array:
    """Return distinct indices where the axis is long enough, and one hard one at the end."""
    count = int(np.prod(shape))
    found = np.arange(count).reshape(shape)
    found = found // shape[-1] % sizes if sizes.ndim else found % sizes
    match case:
        case "negative":
            found[-1:] = found[-1:] - sizes
        case "outside":
            found.reshape(-1)[-1] = sizes if sizes.ndim == 0 else sizes[-1]
        case "repeated":
            found[...] = 1
    return found
