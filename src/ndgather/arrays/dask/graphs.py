"""Task graphs of gathers and scatters, where a single task reads each block of data."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, product
from math import prod
from typing import Any, TypeAlias, cast

import numpy as np
from dask.array import zeros
from dask.array.core import Array as DaskArray
from dask.array.core import from_array, normalize_chunks
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from ndgather import arguments, slow_path
from ndgather.array_call import Array, Call
from ndgather.arrays.dask import points
from ndgather.arrays.dask.points import BlockLayout, Chunks, Coordinates, Region
from ndgather.errors import IndexOutOfBoundsError

Graph: TypeAlias = dict[Any, Any]
_AT_ONCE = 2**26  # lazy indices of up to 64 MiB are all checked before use

Readers: TypeAlias = dict[Coordinates, list[tuple[Region, points.Sources, points.Targets]]]


def gather(call: Call, layout: BlockLayout, fill: Array) -> DaskArray:
    """Return a lazy gather from a dask array, after checking the indices in memory."""
    layout = layout.with_positions(_auto_positions(layout, fill.dtype))
    readers = _readers(call, layout)
    token = tokenize(call.data.name, call.indices, layout, fill)
    name = f"{call.kind}-{token}"
    graph: Graph = {}
    copied_blocks = layout.copied_blocks

    def shared(prefix: str, at: Coordinates, value: Any) -> Any:
        """Return `value`, or a graph key for `value` if several tasks need it."""
        if len(copied_blocks) == 1:
            return value
        graph[key := (f"{prefix}-{token}", *at)] = value
        return key

    sources = {
        block: shared("sources", block, [source for _, source, _ in members])
        for block, members in readers.items()
    }
    of_regions: dict[Region, list[points.Targets]] = {region: [] for region in layout.regions}
    for members in readers.values():
        for region, _, target in members:
            of_regions[region].append(target)
    targets = {
        region: shared("targets", region.coordinates, every) for region, every in of_regions.items()
    }
    filled = fill if call.fills else None
    for copied in copied_blocks:
        values: dict[Region, list[Any]] = {region: [] for region in targets}
        for block, members in readers.items():
            source, shape = _data_block(layout, block, copied)
            taken = (f"take-{token}", *source)
            read = (call.data.name, *source)
            graph[taken] = (points.take, call.caller, shape, fill.dtype, read, sources[block])
            for number, (region, *_) in enumerate(members):
                of_region: Any = (operator.getitem, taken, number)
                if len(members) > 1:  # a region must not keep the values of other regions in memory
                    graph[key := (f"values-{token}", *source, number)] = of_region
                    of_region = key
                values[region].append(of_region)
        for region, target in targets.items():
            graph[(name, *layout.result_block(region, copied))] = (
                points.assemble,
                layout,
                call.indices[(*region.box, ...)] if call.window_shape else None,
                layout.result_shape(region, copied),
                fill.dtype,
                filled,
                target,
                values[region],
            )
    return _dask_array(name, graph, [call.data], layout.result_chunks, fill.dtype)


def scatter(call: Call, layout: BlockLayout) -> DaskArray:
    """Return a lazy scatter to a dask array, with indices in memory."""
    layout = layout.with_positions(_positions_of_updates(call, layout))
    readers = _readers(call, layout)
    if isinstance(call.updates, DaskArray):
        updates = _rechunked(call.updates, layout.result_chunks)
    else:
        updates = from_array(call.updates, chunks=layout.result_chunks)
    options = replace(call, data=None, indices=None, updates=None)
    token = tokenize(call.data.name, call.indices, updates.name, layout, options)
    name = f"{call.kind}-{token}"
    graph: Graph = {}
    for at in product(*(range(len(sizes)) for sizes in layout.data_chunks)):
        graph[(name, *at)] = (call.data.name, *at)  # replaced below if the block has updates
    for block, members in readers.items():
        for copied in layout.copied_blocks:
            source, shape = _data_block(layout, block, copied)
            picked = [
                (
                    points.pick,
                    options,
                    layout.axes,
                    layout.result_shape(region, copied),
                    call.data.dtype,
                    target,
                    (updates.name, *layout.result_block(region, copied)),
                )
                for region, _, target in members
            ]
            graph[(name, *source)] = (
                points.apply,
                options,
                shape,
                (call.data.name, *source),
                [sources for _, sources, _ in members],
                picked,
            )
    return _dask_array(name, graph, [call.data, updates], layout.data_chunks, call.data.dtype)


def gather_by_lazy_indices(
    call: Call, layout: BlockLayout, data: Any, dtype: np.dtype[Any]
) -> DaskArray:
    """Return a lazy gather from data in memory or in a store, with lazy indices.

    The graph has a gather task for each block of indices, and separate tasks check the indices. The
    layout treats data as a single chunk. If the indices are small (see `_AT_ONCE`), gather tasks
    wait until all indices have been checked. Otherwise, a gather task waits only for the checks of
    its own row of blocks and of earlier rows.
    """
    cut = list(call.indices.chunks)
    tuples = int(call.kind.tuples)
    if tuples:
        cut[-1] = (sum(cut[-1]),)
    for axis in layout.axes.aligned:
        if not isinstance(data, np.ndarray):
            cut[axis] = (sum(cut[axis]),)
    indices = _rechunked(call.indices, tuple(cut))
    layout = replace(layout, position_chunks=indices.chunks[: len(cut) - tuples])
    token = tokenize(data, indices.name, layout, call.fill_value)
    name, held = f"{call.kind}-{token}", f"data-{token}"
    graph: Graph = {held: data}
    options = replace(call, data=None, indices=None)
    copied = (0,) * len(layout.axes.slices)
    rows = [
        (row, list(regions))
        for row, regions in groupby(layout.regions, key=lambda region: region.coordinates[:1])
    ]
    tasks: dict[Region, Any] = {
        region: (indices.name, *region.coordinates, *[0] * tuples) for region in layout.regions
    }
    errors: list[Any] = [None]
    if layout.may_raise:
        for row, regions in rows:
            graph[key := (f"check-{token}", *row)] = (
                *(_count_errors, layout, indices.shape, errors[-1], regions),
                [tasks[region] for region in regions],
            )
            errors.append(key)
    wait = indices.nbytes <= _AT_ONCE
    for number, (_, regions) in enumerate(rows):
        for region in regions:
            box = [slice(None)] * len(layout.data_chunks)
            for axis in layout.axes.aligned:
                if isinstance(data, np.ndarray):
                    box[axis] = region.box[axis]
            graph[(name, *layout.result_block(region, copied))] = (
                _gather_block,
                options,
                (*region.shape, *indices.shape[len(region.shape) :]),
                tuple(box),
                errors[-1] if wait else errors[min(number + 1, len(errors) - 1)],
                held,
                tasks[region],
            )
    return _dask_array(name, graph, [indices], layout.result_chunks, dtype)


def _count_errors(
    layout: BlockLayout,
    index_shape: tuple[int, ...],
    earlier: IndexOutOfBoundsError | None,
    regions: Sequence[Region],
    blocks: Sequence[Any],
) -> IndexOutOfBoundsError | None:
    """Return an error for the out-of-bounds indices in `blocks` and in earlier blocks, or None."""
    call = layout.call
    errors = [] if earlier is None else [earlier]
    for region, block in zip(regions, blocks, strict=True):
        shape = (*region.shape, *index_shape[len(region.shape) :])
        try:
            indices = points.plain(call.caller, call.indices_name, block, shape)
            points.check_indices(layout, region.shape, indices)
        except IndexOutOfBoundsError as error:
            start = (*region.start, *[0] * (len(shape) - len(region.start)))
            error.position = tuple(map(operator.add, error.position, start))
            errors.append(error)
    if not errors:
        return None
    first = min(errors, key=lambda error: error.position)
    lowest = -first.size if call.raises and call.negative and not call.kind.windows else 0
    facts = (first.position, first.value, first.axis, first.size, lowest)
    count = sum(error.count for error in errors)
    return arguments.out_of_bounds(call, (*facts, count, prod(index_shape)))


def _gather_block(
    call: Call,
    shape: tuple[int, ...],
    box: tuple[slice, ...],
    error: IndexOutOfBoundsError | None,
    data: Any,
    block: Any,
) -> Array:
    if error is not None:
        raise error
    indices = points.plain(call.caller, call.indices_name, block, shape)
    inside: Any = (*box, ...)  # with an ellipsis, a 0-d result is an array
    part = data[inside] if isinstance(data, np.ndarray) else data
    return slow_path.run(replace(call, data=part, indices=indices))


def _readers(call: Call, layout: BlockLayout) -> Readers:
    """For each block of data, return the regions that need the block, with the points to copy."""
    points.check_indices(layout, tuple(map(sum, layout.position_chunks)), call.indices)
    readers: Readers = {}
    for region in layout.regions:
        for block, pair in points.group_points(layout, region, call.indices).items():
            readers.setdefault(block, []).append((region, *pair))
    return readers


def _data_block(
    layout: BlockLayout, block: Coordinates, copied: Coordinates
) -> tuple[Coordinates, tuple[int, ...]]:
    at = layout.axes.in_data(block, copied)
    return at, tuple(sizes[number] for sizes, number in zip(layout.data_chunks, at, strict=True))


def _auto_positions(layout: BlockLayout, dtype: np.dtype[Any]) -> Chunks:
    """Return chunks of positions that keep result blocks within dask's ``array.chunk-size``."""
    chunks = layout.result_chunks
    axes = layout.axes.positions
    shape = tuple(map(sum, chunks))
    if not dtype.hasobject and dtype.itemsize and prod(shape):
        free = [axis for number, axis in enumerate(axes) if number not in layout.axes.aligned]
        wanted = tuple("auto" if axis in free else sizes for axis, sizes in enumerate(chunks))
        chunks = cast("Chunks", normalize_chunks(wanted, shape=shape, dtype=dtype))
    return tuple(chunks[axis] for axis in axes)


def _positions_of_updates(call: Call, layout: BlockLayout) -> Chunks:
    """Return chunks of positions that match the chunks of lazy updates along one axis.

    Matching more axes would change the order of duplicate indices within a block of data.
    """
    cut = list(layout.position_chunks)
    free = [
        axis for axis in range(len(cut)) if axis not in layout.axes.aligned and sum(cut[axis]) > 1
    ]
    if free and isinstance(call.updates, DaskArray):
        cut[free[0]] = call.updates.chunks[layout.axes.positions[free[0]]]
    return tuple(cut)


def _rechunked(array: DaskArray, chunks: Chunks) -> DaskArray:
    """Rechunk an array. Unlike dask's ``rechunk``, this function also rechunks empty arrays."""
    if array.size or array.chunks == chunks:
        return cast("DaskArray", array.rechunk(chunks))
    return cast("DaskArray", zeros(array.shape, dtype=array.dtype, chunks=chunks))


def _dask_array(
    name: str, graph: Graph, sources: Sequence[DaskArray], chunks: Chunks, dtype: np.dtype[Any]
) -> DaskArray:
    layers = HighLevelGraph.from_collections(name, graph, dependencies=[*sources])  # type: ignore[list-item]  # arrays are collections
    return DaskArray(layers, name, chunks, meta=np.empty((0,) * len(chunks), dtype))
