"""The points of a region by block of data, and the tasks that read, place and apply them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ndgather import slow_path, windows
from ndgather.errors import NdgatherError
from ndgather.messages import shown
from ndgather.stored.calls import coordinates, read_at, write_at
from ndgather.stored.chunks import Grid, stand_in
from ndgather.stored.plan import make_plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ndgather.array_call import Call
    from ndgather.arrays.dask.layout import BlockLayout, Coordinates, Region
    from ndgather.stored.plan import PointAxes

    Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Boxes:
    """The parts of windows that runs of points copy.

    Run i, which ends at point ``stops[i]``, copies the box ``low[i]..high[i]`` of a window.
    """

    stops: Array
    low: Array
    high: Array

    def __iter__(self) -> Iterator[tuple[slice, tuple[slice, ...]]]:
        start = 0
        rows = zip(self.stops.tolist(), self.low.tolist(), self.high.tolist(), strict=True)
        for stop, low, high in rows:
            yield slice(start, stop), tuple(map(slice, low, high))
            start = stop


_ELEMENTS = ((slice(None), ()),)  # in place of boxes where points copy no windows


@dataclass(frozen=True, slots=True)
class Sources:
    """Where points lie in a block of data: four or eight bytes a point."""

    bits: tuple[int, ...]
    local: NDArray[np.unsignedinteger[Any]]
    boxes: Boxes | None

    def read(self, block: Array) -> list[Array]:
        """Return the values of each run; the axes of points come first in `block`."""
        values = []
        for run, box in self.boxes or _ELEMENTS:
            shape = tuple(part.stop - part.start for part in box)
            view = windows.view(block, shape) if shape else block
            values.append(read_at(self.bits, self.local[run], view))
        return values

    def coordinates(self) -> Array:
        """Return the points as index tuples."""
        tuples = np.empty((len(self.local), len(self.bits)), np.intp)
        for axis, column in enumerate(coordinates(self.bits, self.local)):
            tuples[:, axis] = column
        return tuples


@dataclass(frozen=True, slots=True)
class Targets:
    """The positions of the same points in their region, in C order: four bytes a point."""

    positions: NDArray[np.uint32]
    boxes: Boxes | None

    def write(self, values: Sequence[Array], dense: Array, rank: int) -> None:
        """Write the values of each run to `dense`, whose first `rank` axes are the positions."""
        for (run, box), piece in zip(self.boxes or _ELEMENTS, values, strict=True):
            write_at(self.positions[run], dense[(*[slice(None)] * rank, *box)], piece)


Groups: TypeAlias = "dict[Coordinates, tuple[Sources, Targets]]"  # by block along the point axes


def check_indices(layout: BlockLayout, shape: Sequence[int], indices: Array) -> None:
    """Raise the error of the first index out of bounds; `shape` is that of the positions."""
    data = stand_in(tuple(map(sum, layout.read_chunks(shape))), np.dtype(np.uint8))
    call = replace(layout.call, data=data, indices=indices)
    if call.mode == "raise":
        (windows.check if call.kind == "gather_windows" else slow_path.run)(call)


def group(layout: BlockLayout, region: Region, indices: Array) -> Groups:
    """Return the points of a region by block of data; positions to fill are in no block."""
    chunks = layout.read_chunks(region.shape)
    box: tuple[Any, ...] = (*region.box, ...)  # with the ellipsis, never a scalar
    call = replace(
        layout.call,
        data=stand_in(tuple(map(sum, chunks)), np.dtype(np.uint8)),
        indices=indices[box],
    )
    grid = Grid.of_sizes(chunks)
    points = make_plan(call, grid).points
    groups = {}
    blocks = _blocks(layout, region, points.chunks)
    for number, block in enumerate(blocks):
        starts, stops = points.runs(number)
        boxes = None
        if points.low is not None and points.high is not None:
            kinds = slice(points.first[number], points.first[number + 1])
            boxes = Boxes((stops - starts).cumsum(), points.low[kinds], points.high[kinds])
        local, positions = points.of_runs((starts, stops))
        groups[block] = Sources(points.bits, local, boxes), Targets(positions, boxes)
    return groups


def _blocks(layout: BlockLayout, region: Region, numbers: Array) -> list[Coordinates]:
    """Return the numbers of blocks along each axis of points; empty chunks have no number."""
    filled = [
        np.array([region.coordinates[axis]])
        if axis in layout.aligned
        else np.flatnonzero(layout.data_chunks[axis])
        for axis in layout.axes.points
    ]
    along = np.unravel_index(numbers, (1, *(max(1, len(chunks)) for chunks in filled)))[1:]
    columns = [chunks[at] for chunks, at in zip(filled, along, strict=True)]
    rows = np.array(columns, np.int64).reshape(len(filled), len(numbers)).T
    return list(map(tuple, rows.tolist()))


def plain(caller: str, argument: str, block: Any, shape: tuple[int, ...]) -> Array:
    """Return a block as a NumPy array with the shape of its chunk."""
    array = np.asarray(block)
    if array.shape != shape:
        raise NdgatherError(
            f"{caller}: a block of {argument} has shape {shown(array.shape)}, its chunk has "
            f"{shown(shape)} (allowed: blocks of the shape of their chunks)"
        )
    return array


def take(
    caller: str, axes: PointAxes, shape: tuple[int, ...], block: Any, sources: Sequence[Sources]
) -> list[list[Array]]:
    """Return the values that regions need of a block of data, one list for each region."""
    view = axes.data_view(plain(caller, "data", block, shape))
    return [points.read(view) for points in sources]


def assemble(
    axes: PointAxes,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    fill: Array | None,
    targets: Sequence[Targets],
    values: Sequence[Sequence[Array]],
) -> Array:
    """Return a block of the result; `fill` is None where every element has a value."""
    dense = np.empty(shape, dtype)
    if fill is not None:
        dense[...] = fill
    rank = len(axes.dense_positions)
    view = axes.dense_view(dense) if rank else dense[np.newaxis]
    for points, pieces in zip(targets, values, strict=True):
        points.write(pieces, view, max(rank, 1))
    return dense


def pick(axes: PointAxes, dtype: np.dtype[Any], positions: Array, updates: Any) -> Array:
    """Return the updates at some positions of a region."""
    view = axes.dense_view(np.asarray(updates, dtype))
    rank = len(axes.dense_positions)
    rows: Array = view.reshape(int(np.prod(view.shape[:rank])), *view.shape[rank:])[positions]
    return rows


def apply(
    call: Call,
    shape: tuple[int, ...],
    block: Any,
    sources: Sequence[Sources],
    updates: Sequence[Array],
) -> Array:
    """Return a block of data with its updates applied in the order of the regions."""
    return slow_path.run(
        replace(
            call,
            kind="scatter_nd",
            axis=0,
            batch_dims=0,
            mode="raise",
            data=plain(call.caller, "data", block, shape),
            indices=np.concatenate([points.coordinates() for points in sources]),
            updates=np.concatenate(list(updates)),
        )
    )
