"""Where the points of each region come from: grouped at the call, or by tasks of the graph."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather.arrays.dask import tasks
from ndgather.arrays.dask.graph import index_block
from ndgather.arrays.dask.points import lowest, points_of
from ndgather.errors import IndexOutOfBoundsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dask.array.core import Array as DaskArray
    from numpy.typing import NDArray

    from ndgather.arrays.dask.graph import Graph
    from ndgather.arrays.dask.layout import Layout, Region
    from ndgather.arrays.dask.points import Points


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
