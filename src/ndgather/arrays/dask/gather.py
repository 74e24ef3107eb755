"""Gathers as graphs: values are taken from each block of data once, then put together."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.array.core import Array as DaskArray
from dask.base import tokenize

from ndgather.arrays.dask import tasks
from ndgather.arrays.dask.layout import lowest, points_of
from ndgather.arrays.dask.tasks import Graph, auto_chunks, dask_array, data_block, index_block
from ndgather.errors import IndexOutOfBoundsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ndgather.array_call import Call
    from ndgather.arrays.dask.layout import Chunks, Coordinates, Layout, Points, Region

    Array = NDArray[Any]


class KnownRegions:
    """Regions of indices in memory: only the blocks that their points touch are in the graph."""

    verdict = None  # all indices are checked

    def __init__(self, layout: Layout, indices: NDArray[Any]) -> None:
        self.index_shape = indices.shape
        self._points = {
            region.coordinates: _points(layout, region, indices) for region in layout.regions
        }

    def token(self) -> list[Any]:
        """Return what makes these regions differ from others."""
        lines = self._points.values()
        return [(each.blocks, each.starts, each.positions, each.local) for each in lines]

    def blocks(self, regions: Sequence[Region]) -> list[int]:
        """Return the numbers of the blocks of data that some regions touch."""
        every = [self._points[each.coordinates].blocks for each in regions]
        return np.unique(np.concatenate(every)).tolist()  # type: ignore[no-any-return]  # numbers

    def touches(self, region: Region, block: int) -> bool:
        points = self._points[region.coordinates].of(block)
        return bool(points.start < points.stop)

    def places(self, region: Region, block: int) -> Any:
        """Return, or the key of what returns, where the points of a region lie in a block."""
        return self._points[region.coordinates].places(block)

    def points(self, region: Region) -> Any:
        """Return, or the key of what returns, the positions of a region by block."""
        return self._points[region.coordinates].without_places()

    def positions(self, region: Region, block: int) -> Any:
        """Return, or a task that returns, the positions of a region that name places in a block."""
        points = self._points[region.coordinates]
        return points.positions[points.of(block)]


def _points(layout: Layout, region: Region, indices: NDArray[Any]) -> Points:
    """Group the points of a region; an error is that of all indices."""
    try:
        sizes = layout.read_sizes(region)
        shape = (*region.shape, *indices.shape[len(region.shape) :])  # a scalar is no array
        return points_of(layout.call, sizes, layout.indexed, indices[region.box].reshape(shape))
    except IndexOutOfBoundsError:
        shape = tuple(map(sum, layout.position_chunks))
        sizes = layout.read_sizes(replace(region, shape=shape))
        points_of(layout.call, sizes, layout.indexed, indices)
        raise


class LazyRegions:
    """Regions of indices that are computed later: any block of data may be touched."""

    def __init__(self, layout: Layout, indices: DaskArray, token: str, graph: Graph) -> None:
        self.index_shape = indices.shape
        self._graph, self._token = graph, token
        self._blocks = list(range(layout.indexed_blocks))
        verdicts = []
        for region in layout.regions:
            key, shape = index_block(layout, indices.name, region)
            graph[self.points(region)] = (
                tasks.group,
                layout.call,
                layout.read_sizes(region),
                list(layout.indexed),
                list(region.start),
                shape,
                key,
            )
            verdicts.append((tasks.judge, self.points(region), math.prod(shape)))
        self.verdict = (f"verdict-{token}",)
        graph[self.verdict] = (lowest, None, *verdicts)

    def blocks(self, _: Sequence[Region]) -> list[int]:
        return self._blocks

    def touches(self, _region: Region, _block: int) -> bool:
        return True

    def places(self, region: Region, block: int) -> Any:
        key = (f"places-{self._token}", *region.coordinates, block)
        self._graph[key] = (tasks.places, self.points(region), block)
        return key

    def points(self, region: Region) -> Any:
        return (f"group-{self._token}", *region.coordinates)

    def positions(self, region: Region, block: int) -> Any:
        return (tasks.positions, self.points(region), block)


def gather_known(call: Call, layout: Layout, fill: Array) -> DaskArray:
    """Gather from a dask array with indices in memory, checked here."""
    layout = layout.with_positions(_position_chunks(layout, fill))
    regions = KnownRegions(layout, call.indices)
    token = tokenize(call.data.name, call.indices.shape, layout, fill, regions.token())
    return _Shuffle(call, layout, fill, regions, token, {}).array([call.data])


def gather_lazy(call: Call, layout: Layout, fill: Array) -> DaskArray:
    """Gather from a dask array in several blocks with indices that are computed later."""
    token = tokenize(call.data.name, call.indices.name, layout, fill)
    graph: Graph = {}
    regions = LazyRegions(layout, call.indices, token, graph)
    shuffle = _Shuffle(call, layout, fill, regions, token, graph)
    return shuffle.array([call.data, call.indices])


def _position_chunks(layout: Layout, element: Array) -> Chunks:
    """Return chunks of positions that keep blocks of the result below dask's array.chunk-size."""
    free = [
        axis
        for number, axis in enumerate(layout.axes.dense_positions)
        if number not in layout.aligned
    ]
    chunks = auto_chunks(layout.dense_chunks, free, element.dtype)
    return tuple(chunks[axis] for axis in layout.axes.dense_positions)


@dataclass(frozen=True, slots=True)
class _Shuffle:
    """Tasks that take from each block of data what regions need, and tasks that put it together."""

    call: Call
    layout: Layout
    fill: Array
    regions: KnownRegions | LazyRegions
    token: str
    graph: Graph

    def array(self, sources: Sequence[DaskArray]) -> DaskArray:
        layout, name = self.layout, f"{self.call.kind}-{self.token}"
        for column, members in layout.columns.items():
            asked = {
                block: [each for each in members if self.regions.touches(each, block)]
                for block in self.regions.blocks(members)
            }
            places = {
                block: [
                    self._shared(self.regions.places(each, block), each, block)
                    for each in asked[block]
                ]
                for block in asked
            }
            points = {each: self._shared(self.regions.points(each), each) for each in members}
            for copied in layout.copied_blocks:
                values: dict[Region, dict[int, Any]] = {each: {} for each in members}
                for block, askers in asked.items():
                    pieces = self._take(column, block, copied, places[block])
                    for region, piece in zip(askers, pieces, strict=True):
                        values[region][block] = piece
                for region in members:
                    out = (name, *layout.dense_order(region.coordinates, copied))
                    self.graph[out] = self._assemble(region, copied, points[region], values[region])
        return dask_array(name, self.graph, sources, layout.dense_chunks, self.fill.dtype)

    def _shared(self, value: Any, region: Region, *block: int) -> Any:
        """Return what is for several blocks along the copied axes as one key of the graph."""
        copied = (self.layout.data_chunks[axis] for axis in self.layout.axes.slices)
        if isinstance(value, tuple) or all(len(sizes) == 1 for sizes in copied):
            return value  # is a key, or for one task alone
        key = (f"points-{self.token}", *region.coordinates, *block)
        self.graph[key] = value
        return key

    def _take(
        self, column: Coordinates, block: int, copied: Coordinates, places: list[Any]
    ) -> list[Any]:
        """Read a block of data once; return what has the values for each region that asks."""
        layout = self.layout
        source, shape = data_block(layout, self.call.data.name, column, block, copied)
        at = (*column, block, *copied)
        taken = (f"take-{self.token}", *at)
        self.graph[taken] = (
            tasks.take,
            layout.call,
            layout.axes,
            shape,
            list(self.regions.index_shape),
            self.regions.verdict,
            source,
            *places,
        )
        if len(places) == 1:
            return [(operator.getitem, taken, 0)]
        pieces = [(f"piece-{self.token}", *at, number) for number in range(len(places))]
        for number, piece in enumerate(pieces):
            self.graph[piece] = (operator.getitem, taken, number)
        return pieces

    def _assemble(
        self, region: Region, copied: Coordinates, points: Any, values: dict[int, Any]
    ) -> Any:
        layout = self.layout
        sizes = [
            layout.data_chunks[axis][number]
            for axis, number in zip(layout.axes.slices, copied, strict=True)
        ]
        shape = tuple(layout.dense_order(region.shape, sizes))
        blocks = list(values)
        return (tasks.assemble, layout.axes, shape, self.fill, points, blocks, [*values.values()])


def gather_blocks(call: Call, layout: Layout, fill: Array) -> DaskArray:
    """Gather with indices that are computed later from data in one block, or in memory.

    Each block of indices is on its own: one task checks it, another gathers.
    """
    source = call.data.name if isinstance(call.data, DaskArray) else None
    token = tokenize(source or call.data.array, call.indices.name, layout, fill)
    name, held = f"{call.kind}-{token}", f"data-{token}"
    graph: Graph = {} if source else {held: call.data.array}
    checked = _checks(call, layout, token, graph)
    for column, members in layout.columns.items():
        for copied in layout.copied_blocks:
            key, shape = data_block(layout, source or held, column, 0, copied)
            for region in members:
                indices, index_shape = index_block(layout, call.indices.name, region)
                graph[(name, *layout.dense_order(region.coordinates, copied))] = (
                    tasks.whole,
                    tasks.without_arrays(call),
                    shape if source else None,
                    index_shape,
                    list(call.indices.shape),
                    checked[region.coordinates[0] if region.coordinates else 0],
                    key if source else held,
                    indices,
                )
    sources = [call.data, call.indices] if source else [call.indices]
    return dask_array(name, graph, sources, layout.dense_chunks, fill.dtype)


def _checks(call: Call, layout: Layout, token: str, graph: Graph) -> list[Any]:
    """Add tasks that look for the lowest bad entry of indices; return their keys.

    There is one for each chunk along the first axis of positions, which knows of all before it. So
    whatever block fails first, it fails with the lowest bad entry of all.
    """
    rows: dict[int, list[Any]] = {}
    for region in layout.regions:
        key, shape = index_block(layout, call.indices.name, region)
        checked = (tasks.check, layout.call, layout.read_sizes(region), [*region.start], shape, key)
        rows.setdefault(region.coordinates[0] if region.coordinates else 0, []).append(checked)
    keys: list[Any] = [(f"verdict-{token}", row) for row in rows]
    for row, members in rows.items():
        graph[keys[row]] = (lowest, keys[row - 1] if row else None, *members)
    return keys
