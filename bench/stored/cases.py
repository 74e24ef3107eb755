"""The cases, the arguments of their calls, and the checks of their results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from . import field

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from .field import Array, Size

Work = Literal["points", "rows", "windows", "scatter", "labels", "instructions"]
Store = Literal["chunked", "sharded", "target", "memory"]
Place = Literal["local", "remote", "cluster"]

THREADS = 2
_READS_IN_FLIGHT = {"local": 2, "remote": 16, "cluster": 2}
_WINDOW = (30, 30, 30)
_BLOCK = 1 << 18  # results are compared in blocks of this size
_ITEM_BYTES = 4
_POINT_BYTES = 8
_CHUNK_ENTRY_BYTES = 16
_SLACK_BYTES = 16 << 20
_LATITUDES = np.linspace(-90, 90, 721)
_LONGITUDES = np.arange(1440) / 4


_LOCAL = ("floor", "ndgather", "zarr", "zarr-fused", "tensorstore", "dask", "xarray")


@dataclass(frozen=True, slots=True)
class Case:
    """A row of the table."""

    name: str
    why: str
    work: Work
    count: int
    methods: tuple[str, ...] = _LOCAL
    store: Store = "chunked"
    place: Place = "local"


_SHARDED = "points from shards: only the needed inner chunks are read"
_REMOTE: Any = {"place": "remote", "methods": ("ndgather", "zarr", "zarr-fused", "tensorstore")}
CASES = (
    Case(
        "points-1e7",
        "satellite tracks through a volume: thousands of points per chunk",
        "points",
        10_000_000,
    ),
    Case("points-1e6", "the log of a ship or a list of stations", "points", 1_000_000),
    Case("sharded-1e5", _SHARDED, "points", 100_000, store="sharded"),
    Case("sharded-1e7", _SHARDED, "points", 10_000_000, store="sharded"),
    Case(
        "rows",
        "whole profiles or time series [i, j, :]",
        "rows",
        10_000,
        ("floor", "ndgather", "zarr", "tensorstore", "dask"),
    ),
    Case(
        "windows", "patches of 30^3 elements for training a network", "windows", 1_000, _LOCAL[:-1]
    ),
    Case("remote-1e3", "a few points over HTTP, 30 ms per request", "points", 1_000, **_REMOTE),
    Case("remote-1e7", "many points over HTTP, 30 ms per request", "points", 10_000_000, **_REMOTE),
    Case(
        "cluster-1e7",
        "two worker processes of dask.distributed",
        "points",
        10_000_000,
        ("ndgather", "dask"),
        place="cluster",
    ),
    Case(
        "labels-1e6",
        "nearest latitude and longitude, in an array in memory",
        "labels",
        1_000_000,
        ("ndgather", "xarray"),
        store="memory",
    ),
    Case(
        "scatter-1e6",
        "points added to a stored grid of 64 chunks",
        "scatter",
        1_000_000,
        ("ndgather", "loop"),
        store="target",
    ),
    Case(
        "numpy-call",
        "arrays in memory: instructions of a small call",
        "instructions",
        20_000,
        ("ndgather", "before"),
        store="memory",
    ),
)


def select(names: Sequence[str], methods: Sequence[str] | None = None) -> tuple[Case, ...]:
    """Return the cases whose names match, with all methods or only `methods`."""
    cases = [case for case in CASES if any(fnmatchcase(case.name, name) for name in names)]
    if methods is not None:
        kept = (tuple(name for name in case.methods if name in methods) for case in cases)
        cases = [replace(case, methods=names) for case, names in zip(cases, kept, strict=True)]
    return tuple(case for case in cases if case.methods)


@dataclass(frozen=True, kw_only=True)
class Request:
    """A call on an array, which is read from `url` if there is one."""

    case: Case
    size: Size
    path: Path
    url: str = ""

    @property
    def side(self) -> int:
        return self.size.target if self.case.store == "target" else self.size.side

    @property
    def grid(self) -> int:
        """Side length of the smallest part of the array that can be read."""
        return self.size.inner if self.case.store == "sharded" else self.size.chunk

    @cached_property
    def indices(self) -> NDArray[np.int64]:
        """Index tuples of points, rows, or starts of windows."""
        side = self.side - (self.window[0] - 1 if self.case.work == "windows" else 0)
        shape = (self.size.count(self.case.count), 2 if self.case.work == "rows" else 3)
        return np.random.default_rng(len(self.case.name)).integers(0, side, shape)

    @cached_property
    def updates(self) -> NDArray[np.float32]:
        """Small integers, so that sums are exact in any order."""
        rng = np.random.default_rng(1)
        return rng.integers(-8, 8, len(self.indices)).astype(np.float32)

    @property
    def window(self) -> tuple[int, ...]:
        return tuple(min(width, self.size.side // 4) for width in _WINDOW)

    def boxes(self) -> Iterator[tuple[slice, ...]]:
        """Yield the slices of every window."""
        for start in self.indices.tolist():
            yield tuple(slice(i, i + width) for i, width in zip(start, self.window, strict=True))

    @cached_property
    def labels(self) -> tuple[Array, Array]:
        """Random labels near the coordinates of `labeled`."""
        rng, count = np.random.default_rng(2), self.size.count(self.case.count)
        return rng.uniform(-90, 90, count), rng.uniform(0, _LONGITUDES[-1], count)

    @property
    def slices(self) -> tuple[int, ...]:
        """Shape of the result for one index tuple."""
        if self.case.work == "windows":
            return self.window
        return (self.side,) if self.case.work == "rows" else ()

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a decoded chunk."""
        return _ITEM_BYTES * self.grid**3

    @property
    def allowed_bytes(self) -> int:
        """The memory limit of a call, or 0; docs/guarantees.md explains the terms."""
        if self.case.work in ("scatter", "labels") or self.case.place == "cluster":
            return 0
        files = (path for path in (self.path / "c").rglob("*") if path.is_file())
        stored = max(path.stat().st_size for path in files)
        if self.case.store == "sharded":
            stored //= (self.size.shard // self.size.inner) ** 3
        return (
            _ITEM_BYTES * len(self.indices) * prod(self.slices)
            + _POINT_BYTES * len(self.indices)
            + THREADS * (self.chunk_bytes + stored)
            + _READS_IN_FLIGHT[self.case.place] * stored
            + _CHUNK_ENTRY_BYTES * len(self.touched())
            + _SLACK_BYTES
        )

    def touched(self) -> list[tuple[int, ...]]:
        """Return the chunks that contain an element of the result, in C order."""
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
        """Raise AssertionError if a result differs from the values of the field."""
        if self.case.work == "labels":
            rows, columns = (
                np.rint((labels - values[0]) / (values[1] - values[0])).astype(np.int64)
                for labels, values in zip(self.labels, (_LATITUDES, _LONGITUDES), strict=True)
            )
            np.testing.assert_array_equal(answer, labeled()[0][rows, columns])
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
            starts = (column[:, None, None, None] for column in columns)
            return field.values(*map(np.add, starts, offsets))
        if self.case.work == "rows":
            return field.values(*(column[:, None] for column in columns), np.arange(self.side))
        return field.values(*columns)

    def check_target(self, array: Array) -> None:
        """Raise AssertionError if the target of a scatter has wrong values."""
        side, grid = self.side, self.grid
        cells = np.ravel_multi_index(tuple(self.indices.T), (side,) * 3)
        sums = np.bincount(cells, self.updates, side**3).astype(np.float32).reshape((side,) * 3)
        for first in range(0, side, grid):
            slab = slice(first, first + grid)
            expected = field.values(*np.ix_(np.arange(side)[slab], *(np.arange(side),) * 2))
            np.testing.assert_array_equal(array[slab], expected + sums[slab])


def labeled() -> tuple[Array, dict[str, Array]]:
    """Return an in-memory field on latitudes and longitudes, and its coordinates."""
    rows, columns = np.ix_(np.arange(len(_LATITUDES)), np.arange(len(_LONGITUDES)))
    coordinates = {"lat": _LATITUDES, "lon": _LONGITUDES}
    return field.values(rows, columns, np.zeros((1, 1), np.int64)), coordinates
