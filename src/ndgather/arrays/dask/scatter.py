"""Scatters as graphs: each block of data has one task, which gets its updates in C order."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from dask.array.core import Array as DaskArray
from dask.array.core import from_array
from dask.base import tokenize

from ndgather.arrays.dask import tasks
from ndgather.arrays.dask.gather import KnownRegions, LazyRegions
from ndgather.arrays.dask.tasks import Graph, cut_indices, dask_array, data_block, rechunked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgather.array_call import Call
    from ndgather.arrays.dask.layout import Chunks, Coordinates, Layout, Region

    Array = NDArray[Any]


def scatter(call: Call, layout: Layout) -> DaskArray:
    """Return data, a dask array, after its updates; indices and updates are lazy or in memory."""
    layout = layout.with_positions(_position_chunks(call, layout))
    graph: Graph = {}
    sources, updates = [call.data], call.updates
    regions: KnownRegions | LazyRegions
    if isinstance(call.updates, DaskArray):
        updates = rechunked(call.updates, layout.dense_chunks)
    elif isinstance(call.indices, DaskArray):
        updates = from_array(call.updates, chunks=layout.dense_chunks)
    if isinstance(updates, DaskArray):
        sources.append(updates)
    named = updates.name if isinstance(updates, DaskArray) else updates
    options = tasks.without_arrays(call)
    if isinstance(call.indices, DaskArray):
        indices = cut_indices(layout, call.indices)
        sources.append(indices)
        token = tokenize(call.data.name, named, layout, options, indices.name)
        regions = LazyRegions(layout, indices, token, graph)
    else:
        regions = known = KnownRegions(layout, call.indices)
        token = tokenize(call.data.name, named, layout, options, known.token())
    name = f"{call.kind}-{token}"
    _Owners(layout, options, call.data.name, updates, regions, name, graph).add_tasks()
    return dask_array(name, graph, sources, layout.data_chunks, call.data.dtype)


def _position_chunks(call: Call, layout: Layout) -> Chunks:
    """Return chunks of positions that follow each other in C order where they meet one block."""
    if isinstance(call.indices, DaskArray):
        chunks = call.indices.chunks
    elif isinstance(call.updates, DaskArray):
        chunks = call.updates.chunks
    else:
        return layout.position_chunks
    cut = list(layout.position_chunks)
    free = [axis for axis in range(len(cut)) if axis not in layout.aligned and sum(cut[axis]) > 1]
    if free:
        cut[free[0]] = chunks[free[0]]
    return tuple(cut)


@dataclass(frozen=True, slots=True)
class _Owners:
    """One task for each block of data."""

    layout: Layout
    options: Call
    source: str
    updates: Any
    regions: KnownRegions | LazyRegions
    name: str
    graph: Graph

    def add_tasks(self) -> None:
        layout = self.layout
        for at in product(*(range(len(sizes)) for sizes in layout.data_chunks)):
            self.graph[(self.name, *at)] = (self.source, *at)  # as it is, unless updates meet it
        for column, members in layout.columns.items():
            for block in self.regions.blocks(members):
                askers = [each for each in members if self.regions.touches(each, block)]
                places = [self.regions.places(each, block) for each in askers]
                for copied in layout.copied_blocks:
                    source, shape = data_block(layout, self.source, column, block, copied)
                    self.graph[(self.name, *source[1:])] = (
                        tasks.apply,
                        self.options,
                        shape,
                        list(self.regions.index_shape),
                        self.regions.verdict,
                        source,
                        places,
                        [self._updates(each, block, copied) for each in askers],
                    )

    def _updates(self, region: Region, block: int, copied: Coordinates) -> Any:
        """Return, or a task that returns, the updates of a region for one block of data."""
        layout, positions = self.layout, self.regions.positions(region, block)
        if isinstance(self.updates, DaskArray):
            at = layout.dense_order(region.coordinates, copied)
            return (tasks.pick, layout.axes, positions, (self.updates.name, *at))
        boxes = [
            slice(
                start := sum(layout.data_chunks[axis][:number]),
                start + layout.data_chunks[axis][number],
            )
            for axis, number in zip(layout.axes.slices, copied, strict=True)
        ]
        box = tuple(layout.dense_order(region.box, boxes))
        return tasks.pick(layout.axes, positions, self.updates[(*box, ...)])  # never a scalar
