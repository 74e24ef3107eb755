"""Gathers of windows as graphs: each part of a window is taken from the block that it lies in."""

from __future__ import annotations

import operator
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.base import tokenize

from ndgather import windows
from ndgather.arrays.dask import tasks
from ndgather.arrays.dask.graph import Graph, auto_chunks, dask_array
from ndgather.arrays.dask.layout import regions_of
from ndgather.arrays.dask.parts import PutParts, parts_in_blocks
from ndgather.stored.chunks import Grid, stand_in
from ndgather.stored.window_parts import parts_of

if TYPE_CHECKING:
    from dask.array.core import Array as DaskArray
    from numpy.typing import NDArray

    from ndgather.array_call import Call
    from ndgather.arrays.dask.layout import Chunks, Coordinates, Region
    from ndgather.arrays.dask.parts import TakenParts

    Array = NDArray[Any]
    Blocks = dict[Coordinates, dict[Region, tuple[TakenParts, PutParts]]]


def gather_windows(call: Call, fill: Array) -> DaskArray:
    """Gather windows of a dask array from starts in memory, which are checked here."""
    data, depth = call.data, len(call.window_shape)
    shape, chunks = data.shape, data.chunks
    call = replace(call, data=stand_in(shape, data.dtype), fill_value=None)
    windows.check(call)
    lead = call.indices.shape[:-1]
    whole = tuple((size,) for size in (*lead, *call.window_shape))
    result_chunks = auto_chunks((*whole, *chunks[depth:]), range(len(lead)), fill.dtype)
    regions = regions_of(result_chunks[: len(lead)])
    blocks = _blocks(call, chunks[:depth], regions)
    token = tokenize(data.name, call.indices, call.window_shape, call.mode, fill, result_chunks)
    name, graph = f"gather_windows-{token}", Graph()
    for copied in product(*(range(len(sizes)) for sizes in chunks[depth:])):
        values: dict[Region, list[Any]] = {each: [] for each in regions}
        for at, found in blocks.items():
            key = (*at, *copied)
            block_shape = tuple(sizes[i] for sizes, i in zip(chunks, key, strict=True))
            taken = (f"take-{token}", *key)
            asked = [each for each, _ in found.values()]
            graph[taken] = (
                tasks.take_parts,
                call.caller,
                block_shape,
                (data.name, *key),
                asked,
            )
            for number, region in enumerate(found):
                piece = (f"piece-{token}", *key, number)
                graph[piece] = (operator.getitem, taken, number)
                values[region].append(piece)
        rest = [sizes[i] for sizes, i in zip(chunks[depth:], copied, strict=True)]
        for region in regions:
            put = [found[region][1] for found in blocks.values() if region in found]
            out = (*region.shape, *call.window_shape, *rest)
            graph[(name, *region.coordinates, *[0] * depth, *copied)] = (
                tasks.assemble_parts,
                out,
                len(lead),
                fill if call.mode == "fill" else None,
                fill.dtype,
                put,
                values[region],
            )
    return dask_array(name, graph, [data], result_chunks, fill.dtype)


def _blocks(call: Call, chunks: Chunks, regions: list[Region]) -> Blocks:
    """Return the parts of windows by block of data, along the axes of windows, and by region."""
    grid = Grid.of_sizes(chunks)
    blocks: Blocks = {}
    for region in regions:
        starts = call.indices[region.box].reshape(*region.shape, len(chunks))
        for number, parts in parts_in_blocks(parts_of(replace(call, indices=starts), grid)).items():
            blocks.setdefault(block_at(chunks, number), {})[region] = parts
    return blocks


def block_at(chunks: Chunks, number: int) -> Coordinates:
    """Return which block along some axes has a number; those without elements have none."""
    at = []
    for sizes in reversed(chunks):
        filled = np.flatnonzero(sizes)
        number, here = divmod(number, len(filled))
        at.append(int(filled[here]))
    return tuple(reversed(at))
