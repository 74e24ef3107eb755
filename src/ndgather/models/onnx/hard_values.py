"""Values on which runtimes part, put into a few elements of made-up inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Array = NDArray[Any]
Inputs = dict[str, Array]

_MOST_CHANGED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An element of an input, by its place in order, and its new value."""

    name: str
    place: int
    value: Any


def drawn(
    base: Inputs, bounds: Mapping[str, int], rng: np.random.Generator
) -> tuple[str, list[Change]]:
    """Draw which elements of which input become what, and say so."""
    names = [name for name, each in base.items() if each.size and each.dtype.kind in "iuf"]
    names = [name for name in names if name in bounds] * 3 + names  # indices more often
    if not names:
        return "made-up inputs", []
    name = str(rng.choice(names))
    array = base[name]
    kinds = _hard_values(array.dtype, bounds.get(name))
    what = str(rng.choice(list(kinds)))
    count = int(rng.integers(1, min(_MOST_CHANGED, array.size) + 1))
    places = rng.choice(array.size, count, replace=False)
    values = kinds[what]
    return f"{what} in {name}", [
        Change(name=name, place=int(place), value=values[int(rng.integers(len(values)))])
        for place in places
    ]


def _hard_values(dtype: np.dtype[Any], highest: int | None) -> dict[str, list[Any]]:
    if dtype.kind == "f":
        largest = float(np.finfo(dtype).max)
        return {
            "NaN": [np.nan],
            "an infinity": [np.inf, -np.inf],
            "a huge value": [largest, -largest],
            "a negative zero": [-0.0],
        }
    limits = np.iinfo(dtype)
    size = (1 if highest is None else highest) + 1
    wanted = {
        "a negative index": [-1, -size],
        "an end of the axis": [0, size - 1],
        "an index out of bounds": [size, -size - 1],
        "a huge value": [int(limits.max), int(limits.min), 2**31],
    }
    if highest is None:
        del wanted["an end of the axis"]
    kept = {
        what: [each for each in values if limits.min <= each <= limits.max]
        for what, values in wanted.items()
    }
    return {what: values for what, values in kept.items() if values}


def with_changes(base: Inputs, changes: Sequence[Change]) -> Inputs:
    changed = {name: each.copy() for name, each in base.items()}
    for change in changes:
        array = changed[change.name]
        if change.place < array.size:
            array.reshape(-1)[change.place] = change.value
    return changed
