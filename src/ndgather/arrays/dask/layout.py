"""How the chunks of data and the chunks of a result meet; only shapes matter here.

A position of a call is one index or one tuple of indices. Along an axis of data, a position is
*aligned* (its own coordinate is the index), *indexed* (the index is in `indices`), or *copied*
(every element is taken). Positions are cut into regions, one for each chunk of the result; along
aligned axes they are cut where data is cut.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate, product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ndgather.array_call import Call
from ndgather.stored.chunks import stand_in
from ndgather.stored.plan import PointAxes, axes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Chunks: TypeAlias = tuple[tuple[int, ...], ...]  # the sizes of the chunks along every axis
Coordinates: TypeAlias = tuple[int, ...]  # the number of a chunk along every axis


@dataclass(frozen=True, slots=True)
class Region:
    """A box of positions."""

    coordinates: Coordinates
    start: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def box(self) -> tuple[slice, ...]:
        """Its slices of `indices`, without the axis of index tuples."""
        return tuple(
            slice(start, start + size) for start, size in zip(self.start, self.shape, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockLayout:
    """The axes and the chunks of a call."""

    call: Call  # the gather that reads what the call reads or updates, without its arrays
    axes: PointAxes  # of windows: `dense_slices` begins with the axes of a window
    aligned: tuple[int, ...]  # axes of data, and the same axes of positions
    data_chunks: Chunks
    position_chunks: Chunks

    @property
    def regions(self) -> list[Region]:
        """The regions in C order."""
        starts = [tuple(accumulate(sizes, initial=0)) for sizes in self.position_chunks]
        return [
            Region(at, _pick(starts, at), _pick(self.position_chunks, at))
            for at in product(*(range(len(sizes)) for sizes in self.position_chunks))
        ]

    @property
    def copied_blocks(self) -> list[Coordinates]:
        """The chunks along the copied axes."""
        return list(product(*(range(len(self.data_chunks[axis])) for axis in self.axes.slices)))

    @property
    def result_chunks(self) -> Chunks:
        """The chunks of the result of a gather, and of the updates of a scatter."""
        window = [(size,) for size in self.call.window_shape]
        copied = [self.data_chunks[axis] for axis in self.axes.slices]
        return tuple(self.in_result(self.position_chunks, [*window, *copied]))

    def in_result(self, positions: Sequence[Any], slices: Sequence[Any]) -> list[Any]:
        """Return values for the axes of positions and of slices in the order of the result."""
        order = self.axes.dense_positions + self.axes.dense_slices
        by_axis = dict(zip(order, (*positions, *slices), strict=True))
        return [by_axis[axis] for axis in range(len(order))]

    def result_block(self, region: Region, copied: Coordinates) -> Coordinates:
        """Return the chunk of the result that a region fills."""
        window = [0] * len(self.call.window_shape)
        return tuple(self.in_result(region.coordinates, [*window, *copied]))

    def result_shape(self, region: Region, copied: Coordinates) -> tuple[int, ...]:
        """Return the shape of that chunk."""
        sizes = [
            self.data_chunks[axis][number]
            for axis, number in zip(self.axes.slices, copied, strict=True)
        ]
        return tuple(self.in_result(region.shape, [*self.call.window_shape, *sizes]))

    def data_block(self, points: Coordinates, copied: Coordinates) -> Coordinates:
        """Return the chunk of data with these numbers along the axes of points and of slices."""
        order = self.axes.points + self.axes.slices
        by_axis = dict(zip(order, points + copied, strict=True))
        return tuple(by_axis[axis] for axis in range(len(order)))

    def with_positions(self, chunks: Iterable[Sequence[int]]) -> BlockLayout:
        """Return the layout with positions cut at `chunks`, and along aligned axes as data is."""
        cut = [tuple(sizes) for sizes in chunks]
        for axis in self.aligned:
            cut[axis] = _cut_to(self.data_chunks[axis], sum(cut[axis]))
        return replace(self, position_chunks=tuple(cut))

    def read_chunks(self, shape: Sequence[int]) -> Chunks:
        """Return the chunks of the part of data that positions of this shape address.

        It has the size of the positions along aligned axes, and one element along copied axes.
        """
        chunks = list(self.data_chunks)
        for axis in self.aligned:
            chunks[axis] = (shape[axis],)
        for axis in self.axes.slices:
            chunks[axis] = (1,)
        return tuple(chunks)


def layout_of(call: Call, data_chunks: Chunks) -> BlockLayout:
    """Return the layout of a call with valid shapes; its positions are cut only where data is."""
    kind = call.kind.replace("scatter", "gather")
    rank = len(data_chunks)
    aligned: tuple[int, ...]
    data = stand_in(tuple(map(sum, data_chunks)), np.dtype(np.uint8))
    axes = axes_of(replace(call, kind=kind, data=data))
    if kind == "gather_windows":
        aligned = ()
    elif kind == "gather_elements":
        aligned = tuple(axis for axis in range(rank) if axis != int(call.axis) % rank)
    else:
        indexed = call.indices.shape[-1] if kind == "gather_nd" else 1
        aligned = axes.points[: len(axes.points) - indexed]
    bare = Call(
        call.caller,
        kind,
        None,
        None,
        axis=call.axis,
        batch_dims=call.batch_dims,
        mode="fill" if call.mode == "drop" else call.mode,
        negative=call.negative,
        window_shape=call.window_shape,
    )
    shape = call.indices.shape if axes_of_tuples(kind) == 0 else call.indices.shape[:-1]
    layout = BlockLayout(
        call=bare, axes=axes, aligned=aligned, data_chunks=data_chunks, position_chunks=()
    )
    return layout.with_positions((size,) for size in shape)


def axes_of_tuples(kind: str) -> int:
    """Return how many axes of `indices` hold index tuples."""
    return int(kind.endswith(("_nd", "_windows")))


def _cut_to(chunks: Sequence[int], size: int) -> tuple[int, ...]:
    """Return the chunks of the first `size` elements of an axis; the last chunk is cut."""
    ends = [min(end, size) for end in accumulate(chunks)]
    sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    while len(sizes) > 1 and not sizes[-1] and size < sum(chunks):
        sizes.pop()
    return tuple(sizes)


def _pick(lines: Iterable[Sequence[int]], at: Coordinates) -> tuple[int, ...]:
    return tuple(line[number] for line, number in zip(lines, at, strict=True))
