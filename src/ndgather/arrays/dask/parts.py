"""The parts of windows that lie in one block, for tasks that take them and put them together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import windows
from ndgather.stored.pieces import Places, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ndgather.stored.window_parts import Parts

    Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Kinds:
    """Which parts there are: of kind i ``ends[i] - ends[i - 1]``, each this box of its window."""

    ends: Array
    low: Array
    high: Array

    def runs(self) -> list[tuple[slice, tuple[slice, ...]]]:
        """Return where the points of each kind stand, and its box."""
        ends = self.ends.tolist()
        boxes = [
            tuple(map(slice, low, high))
            for low, high in zip(self.low.tolist(), self.high.tolist(), strict=True)
        ]
        return [*zip(map(slice, [0, *ends], ends), boxes, strict=False)]


@dataclass(frozen=True, slots=True)
class TakenParts:
    """Where the parts of windows begin in a block."""

    kinds: Kinds
    places: Places

    def read(self, block: Array) -> list[Array]:
        """Return the values of each kind of parts."""
        values = []
        for points, box in self.kinds.runs():
            shape = tuple(each.stop - each.start for each in box)
            places = Places(self.places.bits, self.places.local[points])
            values.append(places.read(windows.view(block, shape)))
        return values


@dataclass(frozen=True, slots=True)
class PutParts:
    """Which windows of a region the parts belong to."""

    kinds: Kinds
    positions: Array

    def write(self, values: Sequence[Array], dense: Array) -> None:
        """Put the values of each kind of parts into the windows of `dense`."""
        for (points, box), each in zip(self.kinds.runs(), values, strict=True):
            write(each, self.positions[points], dense[(slice(None), *box)])


def parts_in_blocks(parts: Parts) -> dict[int, tuple[TakenParts, PutParts]]:
    """Return the parts by the number of their block."""
    found = {}
    for number, block in enumerate(parts.chunks.tolist()):
        kinds = slice(int(parts.first[number]), int(parts.first[number + 1]))
        starts, stops = parts.starts[kinds], parts.stops[kinds]
        runs = [slice(a, b) for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]
        same = Kinds((stops - starts).cumsum(), parts.low[kinds], parts.high[kinds])
        local = np.concatenate([parts.points.local[run] for run in runs])
        positions = np.concatenate([parts.points.positions[run] for run in runs])
        taken = TakenParts(same, Places(parts.points.bits, local))
        found[block] = taken, PutParts(same, positions)
    return found
