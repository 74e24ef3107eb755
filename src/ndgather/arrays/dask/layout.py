"""How the chunks of data and of the positions of a call meet; arithmetic of shapes alone.

A position of a call is a tuple of indices, or one index. Each axis of data is *aligned* (the
position itself is the coordinate), *indexed* (indices have the coordinate), or *copied* (all of
it). Positions are cut into *regions*, one for each chunk of the result along the axes of positions;
along the aligned axes they are cut where data is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import accumulate, product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ndgather.array_call import Call
from ndgather.stored.chunks import stand_in
from ndgather.stored.plan import Axes, axes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Chunks: TypeAlias = tuple[tuple[int, ...], ...]  # the sizes of the chunks along each axis
Coordinates: TypeAlias = tuple[int, ...]  # the number of a chunk along each axis


@dataclass(frozen=True, slots=True)
class Region:
    """A box of positions."""

    coordinates: Coordinates
    start: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def box(self) -> tuple[slice, ...]:
        """Where it lies in indices, without their axis of tuples."""
        pairs = zip(self.start, self.shape, strict=True)
        return tuple(slice(start, start + size) for start, size in pairs)


def regions_of(chunks: Chunks) -> list[Region]:
    """Return the chunks of positions, in C order."""
    starts = [tuple(accumulate(sizes, initial=0)) for sizes in chunks]
    return [
        Region(at, _pick(starts, at), _pick(chunks, at))
        for at in product(*(range(len(sizes)) for sizes in chunks))
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The axes of a call on an array in chunks."""

    call: Call  # the gather that reads what the call reads or updates, without its arrays
    axes: Axes
    aligned: tuple[int, ...]  # axes of data, and the same ones of positions
    indexed: tuple[int, ...]  # axes of data
    data_chunks: Chunks
    position_chunks: Chunks

    @property
    def regions(self) -> list[Region]:
        """The regions, in C order."""
        return regions_of(self.position_chunks)

    @property
    def columns(self) -> dict[Coordinates, list[Region]]:
        """The regions that meet the same blocks of data, by the chunk along the aligned axes."""
        columns: dict[Coordinates, list[Region]] = {}
        for region in self.regions:
            aligned = tuple(region.coordinates[a] for a in self.aligned)
            columns.setdefault(aligned, []).append(region)
        return columns

    @property
    def copied_blocks(self) -> list[Coordinates]:
        """The chunks along the copied axes."""
        return list(product(*(range(len(self.data_chunks[a])) for a in self.axes.slices)))

    @property
    def indexed_blocks(self) -> int:
        """How many chunks there are along the indexed axes."""
        return math.prod(len(self.data_chunks[a]) for a in self.indexed)

    @property
    def dense_chunks(self) -> Chunks:
        """The chunks of the result of a gather, and of the updates of a scatter."""
        copied = [self.data_chunks[a] for a in self.axes.slices]
        return tuple(self.dense_order(self.position_chunks, copied))

    def dense_order(self, positions: Sequence[Any], copied: Sequence[Any]) -> list[Any]:
        """Return what is given for axes of positions and for copied axes in the result's order."""
        order = self.axes.dense_positions + self.axes.dense_slices
        both = dict(zip(order, (*positions, *copied), strict=True))
        return [both[axis] for axis in range(len(order))]

    def data_block(self, aligned: Coordinates, block: int, copied: Coordinates) -> Coordinates:
        """Return the numbers of the chunk of data; `block` counts along the indexed axes."""
        at = dict(zip(self.aligned + self.axes.slices, aligned + copied, strict=True))
        for axis in reversed(self.indexed):
            block, at[axis] = divmod(block, len(self.data_chunks[axis]))
        return tuple(at[axis] for axis in range(len(at)))

    def with_positions(self, chunks: Iterable[Sequence[int]]) -> Layout:
        """Return the layout whose positions are cut at `chunks`, and where data is."""
        cut = [tuple(sizes) for sizes in chunks]
        for axis in self.aligned:
            cut[axis] = _cut_to(self.data_chunks[axis], sum(cut[axis]))
        return replace(self, position_chunks=tuple(cut))

    def read_sizes(self, region: Region) -> Chunks:
        """Return the chunks of what the positions of a region read.

        That has the size of the region along the aligned axes, and one element along the copied.
        """
        sizes = list(self.data_chunks)
        for axis in self.aligned:
            sizes[axis] = (region.shape[axis],)
        for axis in self.axes.slices:
            sizes[axis] = (1,)
        return tuple(sizes)


def layout_of(call: Call, data_chunks: Chunks) -> Layout:
    """Return the layout of a call whose shapes fit, with its positions uncut but where data is."""
    kind = call.kind.replace("scatter", "gather")
    shape = tuple(map(sum, data_chunks))
    shapes = replace(call, kind=kind, data=stand_in(shape, np.dtype(np.uint8)))
    axes = axes_of(shapes)
    count = call.indices.shape[-1] if kind == "gather_nd" else 1
    if kind == "gather_elements":
        indexed: tuple[int, ...] = (int(call.axis) % len(shape),)
    else:
        indexed = axes.points[len(axes.points) - count :]
    positions = call.indices.shape[:-1] if kind == "gather_nd" else call.indices.shape
    bare = Call(
        call.caller,
        kind,
        None,
        None,
        axis=call.axis,
        batch_dims=call.batch_dims,
        mode="fill" if call.mode == "drop" else call.mode,
        negative=call.negative,
    )
    return Layout(
        call=bare,
        axes=axes,
        aligned=tuple(axis for axis in axes.points if axis not in indexed),
        indexed=indexed,
        data_chunks=data_chunks,
        position_chunks=(),
    ).with_positions((size,) for size in positions)


def _cut_to(chunks: Sequence[int], size: int) -> tuple[int, ...]:
    """Return the chunks that the first `size` elements of an axis lie in, the last one cut."""
    ends = [min(end, size) for end in accumulate(chunks)]
    sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    while len(sizes) > 1 and not sizes[-1] and size < sum(chunks):
        sizes.pop()
    return tuple(sizes)


def _pick(lines: Iterable[Sequence[int]], at: Coordinates) -> tuple[int, ...]:
    return tuple(line[number] for line, number in zip(lines, at, strict=True))
