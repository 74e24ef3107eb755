"""The arguments of a case, the chunks that its call touches, and whether an answer is right."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from . import field
from .cases import WINDOW

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from .cases import Case
    from .field import Array, Size

_BLOCK = 1 << 18  # answers are compared so many at a time
_ITEM_BYTES = 4
_LATITUDES = np.linspace(-90, 90, 721)
_LONGITUDES = np.arange(1440) / 4


@dataclass(frozen=True, kw_only=True)
class Request:
    """One call: the array, by its path and, where it is served, its URL; and the places."""

    case: Case
    size: Size
    path: Path
    url: str = ""

    @property
    def side(self) -> int:
        return self.size.target if self.case.store == "target" else self.size.side

    @property
    def grid(self) -> int:
        """Side of the unit of reading."""
        return self.size.inner if self.case.store == "sharded" else self.size.chunk

    @cached_property
    def indices(self) -> NDArray[np.int64]:
        """Index tuples of points, rows, or starts of windows."""
        case = self.case
        count, depth = self.size.count(case.count), 2 if case.work == "rows" else 3
        side = self.side
        if case.work == "windows":
            side -= self.window[0] - 1
        return np.random.default_rng(len(case.name)).integers(0, side, (count, depth))

    @cached_property
    def updates(self) -> NDArray[np.float32]:
        """What is scattered: small whole numbers, so that sums are exact in any order."""
        draw = np.random.default_rng(1)
        return draw.integers(-8, 8, len(self.indices)).astype(np.float32)

    @property
    def window(self) -> tuple[int, ...]:
        return tuple(min(width, self.size.side // 4) for width in WINDOW)

    @cached_property
    def labels(self) -> tuple[Array, Array]:
        """Latitudes and longitudes near the labels of `labelled`."""
        draw, count = np.random.default_rng(2), self.size.count(self.case.count)
        return draw.uniform(-90, 90, count), draw.uniform(0, _LONGITUDES[-1], count)

    @property
    def result_bytes(self) -> int:
        return _ITEM_BYTES * len(self.indices) * prod(self.slices)

    @property
    def slices(self) -> tuple[int, ...]:
        """Shape of what is read at each place."""
        if self.case.work == "windows":
            return self.window
        return (self.side,) if self.case.work == "rows" else ()

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a unit of reading once it is decoded."""
        return _ITEM_BYTES * self.grid**3

    @cached_property
    def stored_bytes(self) -> int:
        """Bytes of the largest unit of reading in the store, estimated where they lie in shards."""
        largest = max(
            path.stat().st_size for path in (self.path / "c").rglob("*") if path.is_file()
        )
        if self.case.store != "sharded":
            return largest
        return largest // (self.size.shard // self.size.inner) ** 3

    def touched(self) -> list[tuple[int, ...]]:
        """Return the chunks that hold an element of the answer, in C order."""
        mask = np.zeros((self.side // self.grid,) * 3, bool)
        first = self.indices // self.grid
        if self.case.work == "windows":
            last = (self.indices + np.array(self.window) - 1) // self.grid
            for low, high in zip(first.tolist(), last.tolist(), strict=True):
                mask[tuple(slice(a, b + 1) for a, b in zip(low, high, strict=True))] = True
        else:
            mask[tuple(first.T)] = True
        return [tuple(chunk) for chunk in np.argwhere(mask).tolist()]

    def check(self, answer: Array) -> None:
        """Compare an answer with the values of the field.

        Raises
        ------
        AssertionError
            It is wrong.
        """
        if self.case.work == "labels":
            expected = labelled()[self.nearest()]
            np.testing.assert_array_equal(answer, expected)
            return
        assert answer.shape == (len(self.indices), *self.slices), answer.shape
        assert answer.dtype == np.float32, answer.dtype
        step = max(_BLOCK // prod(self.slices), 1)
        for start in range(0, len(answer), step):
            block = slice(start, start + step)
            np.testing.assert_array_equal(answer[block], self._expected(self.indices[block]))

    def _expected(self, indices: NDArray[np.int64]) -> Array:
        columns = [indices[:, axis] for axis in range(indices.shape[1])]
        if self.case.work == "windows":
            offsets = np.ix_(*(np.arange(width) for width in self.window))
            return field.values(
                *(
                    column[:, None, None, None] + offset
                    for column, offset in zip(columns, offsets, strict=True)
                )
            )
        if self.case.work == "rows":
            return field.values(*(column[:, None] for column in columns), np.arange(self.side))
        return field.values(*columns)

    def nearest(self) -> tuple[Array, Array]:
        """Return the row and the column of `labelled` for each pair of labels."""
        latitudes, longitudes = self.labels
        return _nearest(latitudes, _LATITUDES), _nearest(longitudes, _LONGITUDES)


def _nearest(labels: Array, values: Array) -> NDArray[np.int64]:
    """Return positions of the nearest of evenly spaced values; random labels lie half-way never."""
    steps = (labels - values[0]) / (values[1] - values[0])
    return np.asarray(np.rint(steps), np.int64)


def labelled() -> Array:
    """Return a field on latitudes and longitudes, in memory."""
    rows, columns = np.ix_(np.arange(len(_LATITUDES)), np.arange(len(_LONGITUDES)))
    return field.values(rows, columns, np.zeros((1, 1), np.int64))


def coordinates() -> dict[str, Array]:
    return {"lat": _LATITUDES, "lon": _LONGITUDES}
