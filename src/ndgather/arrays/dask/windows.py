"""Gathers of windows whose starts are computed later: any block of data may be touched."""

from __future__ import annotations

import math
import operator
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.array.core import Array as DaskArray
from dask.base import tokenize

from ndgather import slow_path
from ndgather.arrays.dask import tasks
from ndgather.arrays.dask.layout import PutParts, Verdict, lowest, parts_in_blocks, regions_of
from ndgather.arrays.dask.tasks import Graph, auto_chunks, dask_array, rechunked
from ndgather.errors import IndexOutOfBoundsError, lazy_errors
from ndgather.stored.chunks import Grid, stand_in
from ndgather.stored.walk import MOST_WINDOWS, parts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ndgather.array_call import Call
    from ndgather.arrays.dask.layout import Chunks, Coordinates, Region, TakenParts

    Array = NDArray[Any]
    Blocks = dict[Coordinates, dict[Region, tuple[TakenParts, PutParts]]]
    Found = dict[int, tuple[TakenParts, PutParts]]


def gather_windows(call: Call, fill: Array) -> DaskArray:
    """Gather windows of a dask array from starts in memory, which are checked here."""
    data, depth = call.data, len(call.window_shape)
    shape, chunks = data.shape, data.chunks
    call = replace(call, data=stand_in(shape, data.dtype), fill_value=None)
    slow_path.check(call)
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


def gather_lazy_windows(call: Call, fill: Array) -> DaskArray:
    """Gather windows from starts that are computed later.

    Of lazy data each block is computed once. Other data are read by the task of each block of
    starts, what it needs.
    """
    depth, shape = len(call.window_shape), call.data.shape
    starts = rechunked(call.indices, (*call.indices.chunks[:-1], (depth,)))
    lazy = isinstance(call.data, DaskArray)
    chunks = call.data.chunks if lazy else tuple((size,) for size in shape)
    regions = regions_of(starts.chunks[:-1])
    options = tasks.without_arrays(call)
    source = call.data.name if lazy else getattr(call.data, "array", call.data)
    token = tokenize(source, starts.name, call.window_shape, call.mode, fill)
    name, graph = f"gather_windows-{token}", Graph()
    groups, judged = {}, []
    for region in regions:
        key = groups[region] = (f"group-{token}", *region.coordinates)
        block_shape, block = (*region.shape, depth), (starts.name, *region.coordinates, 0)
        sizes = chunks[:depth] if lazy else None
        graph[key] = (_group, options, shape, sizes, [*region.start], block_shape, block)
        judged.append((tasks.judge, key, math.prod(block_shape)))
    verdict = (f"verdict-{token}",)
    graph[verdict] = (lowest, None, *judged)
    checks = options, list(starts.shape), verdict
    result_chunks = (*starts.chunks[:-1], *((size,) for size in call.window_shape), *chunks[depth:])
    if not lazy:
        graph[held := (f"data-{token}",)] = source
        rest = [0] * (len(shape) - depth)
        for region in regions:
            block = (starts.name, *region.coordinates, 0)
            out = (name, *region.coordinates, *[0] * depth, *rest)
            graph[out] = (_whole, *checks, held, (*region.shape, depth), block)
        return dask_array(name, graph, [starts], result_chunks, fill.dtype)
    numbers = range(math.prod(np.count_nonzero(sizes) for sizes in chunks[:depth]))
    for copied in product(*(range(len(sizes)) for sizes in chunks[depth:])):
        for number in numbers:
            at = (*block_at(chunks[:depth], number), *copied)
            block_shape = tuple(sizes[i] for sizes, i in zip(chunks, at, strict=True))
            taken = (*checks, block_shape, (source, *at), number, *groups.values())
            graph[(f"take-{token}", number, *copied)] = (_take, *taken)
        rest = [sizes[i] for sizes, i in zip(chunks[depth:], copied, strict=True)]
        for which, region in enumerate(regions):
            pieces = [
                (operator.getitem, (f"take-{token}", number, *copied), which) for number in numbers
            ]
            graph[(name, *region.coordinates, *[0] * depth, *copied)] = (
                _assemble,
                *checks,
                (*region.shape, *call.window_shape, *rest),
                fill,
                groups[region],
                pieces,
            )
    return dask_array(name, graph, [call.data, starts], result_chunks, fill.dtype)


def _group(
    call: Call,
    data_shape: tuple[int, ...],
    chunks: Chunks | None,
    start: Sequence[int],
    shape: tuple[int, ...],
    block: Any,
) -> Found | Verdict:
    """Find the parts of the windows of a block of starts, or say which of its entries is bad."""
    starts = tasks.plain(call.caller, "starts", block, shape)
    starts = slow_path.native_indices(call.caller, starts, "starts")
    if math.prod(shape[:-1]) > MOST_WINDOWS:
        raise lazy_errors.too_many_in_a_block(call.caller, shape, MOST_WINDOWS)
    call = replace(call, data=stand_in(data_shape, np.dtype(np.uint8)), indices=starts)
    try:
        slow_path.check(call)
    except IndexOutOfBoundsError as error:
        return Verdict.of(error, start, starts.size)
    return {} if chunks is None else parts_in_blocks(parts_of(call, Grid.of_sizes(chunks)))


def _take(
    call: Call,
    start_shape: Sequence[int],
    verdict: Verdict,
    shape: tuple[int, ...],
    block: Any,
    number: int,
    *groups: Found,
) -> list[list[Array]]:
    """Return the parts of windows that lie in a block of data, for each block of starts."""
    verdict.refuse(call, start_shape)
    data = tasks.plain(call.caller, "data", block, shape)
    return [each[number][0].read(data) if number in each else [] for each in groups]


def _assemble(
    call: Call,
    start_shape: Sequence[int],
    verdict: Verdict,
    shape: tuple[int, ...],
    fill: Array,
    group: Found,
    pieces: Sequence[list[Array]],
) -> Array:
    """Put what came from each block of data into the windows of a block of starts."""
    verdict.refuse(call, start_shape)
    put = {number: parts for number, (_, parts) in group.items()}
    values = [pieces[number] for number in put]
    filled = fill if call.mode == "fill" else None
    lead = len(start_shape) - 1
    return tasks.assemble_parts(shape, lead, filled, fill.dtype, [*put.values()], values)


def _whole(
    call: Call,
    start_shape: Sequence[int],
    verdict: Verdict,
    data: Any,
    shape: tuple[int, ...],
    block: Any,
) -> Array:
    """Gather the windows of a block of starts from data in memory or in a store."""
    verdict.refuse(call, start_shape)
    starts = tasks.plain(call.caller, "starts", block, shape)
    return slow_path.run(replace(call, data=data, indices=starts))
