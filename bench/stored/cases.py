"""The table: which calls are measured, beside whom, and what each has to reach."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

Work = Literal["points", "rows", "windows", "scatter", "labels", "instructions"]
Store = Literal["chunked", "sharded", "target", "memory"]
Place = Literal["local", "remote", "cluster"]
Quantity = Literal["wall", "cpu", "memory", "worker_memory", "instructions"]

WINDOW = (30, 30, 30)
MEGABYTE = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """``quantity <= factor * that of`` another method, or of what `of` names.

    "best" is the best of all methods but ours and the floor; "formula" is how much memory a call
    may take, of which docs/guarantees.md has the terms; "results" are the bytes of the result;
    "megabytes" is a million bytes.
    """

    quantity: Quantity
    factor: float
    of: Literal[
        "floor", "best", "dask", "xarray", "loop", "before", "formula", "results", "megabytes"
    ]

    def __str__(self) -> str:
        return f"{self.quantity.replace('_', ' ')} <= {self.factor:.3g} {self.of}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row of the table."""

    name: str
    why: str
    work: Work
    count: int
    methods: tuple[str, ...]
    conditions: tuple[Condition, ...]
    store: Store = "chunked"
    place: Place = "local"


_LOCAL = ("floor", "ndgather", "zarr", "zarr-fused", "tensorstore", "dask", "xarray")
_REMOTE = ("ndgather", "zarr", "zarr-fused", "tensorstore")


def _at_most(quantity: Quantity, factor: float, of: str) -> Condition:
    return Condition(quantity=quantity, factor=factor, of=of)  # type: ignore[arg-type]  # a row of the table


_FORMULA = _at_most("memory", 1.0, "formula")

CASES = (
    Case(
        name="points-1e7",
        why="satellite passes through a volume: every chunk has thousands of points",
        work="points",
        count=10_000_000,
        methods=_LOCAL,
        conditions=(
            _at_most("wall", 1.10, "floor"),
            _at_most("wall", 0.65, "best"),
            _FORMULA,
            _at_most("memory", 1 / 6, "dask"),
        ),
    ),
    Case(
        name="points-1e6",
        why="a ship's log or a station list",
        work="points",
        count=1_000_000,
        methods=_LOCAL,
        conditions=(_at_most("cpu", 1.05, "floor"), _at_most("cpu", 1.0, "best")),
    ),
    *(
        Case(
            name=f"sharded-{text}",
            why="the same from shards: only inner chunks that are needed",
            work="points",
            count=count,
            store="sharded",
            methods=_LOCAL,
            conditions=(
                _at_most("cpu", 1.15, "floor"),
                _at_most("cpu", 0.70, "best"),
                _FORMULA,
            ),
        )
        for text, count in (("1e5", 100_000), ("1e7", 10_000_000))
    ),
    Case(
        name="rows",
        why="whole profiles or time series [i, j, :]",
        work="rows",
        count=10_000,
        methods=("floor", "ndgather", "zarr", "tensorstore", "dask"),
        conditions=(_at_most("cpu", 1.10, "floor"), _at_most("memory", 2.0, "results")),
    ),
    Case(
        name="windows",
        why="patches of 30^3 for the training of a network",
        work="windows",
        count=1_000,
        methods=("floor", "ndgather", "zarr", "zarr-fused", "tensorstore", "dask"),
        conditions=(_at_most("wall", 0.70, "best"), _FORMULA),
    ),
    Case(
        name="remote-1e3",
        why="few points over HTTP, 30 ms a request",
        work="points",
        count=1_000,
        place="remote",
        methods=_REMOTE,
        conditions=(_at_most("wall", 1.2, "best"),),
    ),
    Case(
        name="remote-1e7",
        why="many points over HTTP, 30 ms a request",
        work="points",
        count=10_000_000,
        place="remote",
        methods=_REMOTE,
        conditions=(_at_most("wall", 0.90, "best"), _at_most("memory", 500, "megabytes")),
    ),
    Case(
        name="cluster-1e7",
        why="two processes of dask.distributed share the reading",
        work="points",
        count=10_000_000,
        place="cluster",
        methods=("ndgather", "dask"),
        conditions=(
            _at_most("wall", 0.35, "dask"),
            _at_most("memory", 1 / 5, "dask"),
            _at_most("worker_memory", 64, "megabytes"),
        ),
    ),
    Case(
        name="labels-1e6",
        why="nearest latitude and longitude of an array in memory",
        work="labels",
        count=1_000_000,
        store="memory",
        methods=("ndgather", "xarray"),
        conditions=(_at_most("wall", 0.25, "xarray"),),
    ),
    Case(
        name="scatter-1e6",
        why="points accumulated into a grid that does not fit: 64 chunks",
        work="scatter",
        count=1_000_000,
        store="target",
        methods=("ndgather", "loop"),
        conditions=(_at_most("wall", 0.9, "loop"),),
    ),
    Case(
        name="numpy-call",
        why="what arrays in memory pay for it: instructions of one small call",
        work="instructions",
        count=20_000,
        store="memory",
        methods=("ndgather", "before"),
        conditions=(_at_most("instructions", 1.01, "before"),),
    ),
)


def select(names: Sequence[str], methods: Sequence[str] | None = None) -> tuple[Case, ...]:
    """Return the cases whose names match, with all of their methods or those that are named."""
    chosen = (case for case in CASES if any(fnmatchcase(case.name, each) for each in names))
    if methods is None:
        return tuple(chosen)
    kept = ((case, tuple(each for each in case.methods if each in methods)) for case in chosen)
    return tuple(replace(case, methods=methods) for case, methods in kept if methods)
