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

from ndgather import slow_path
from ndgather.array_call import Call
from ndgather.errors import IndexOutOfBoundsError, index_errors, lazy_errors
from ndgather.stored.chunks import Grid, stand_in
from ndgather.stored.plan import Axes, axes_of, plan
from ndgather.stored.walk import Places, write_piece

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from ndgather.stored.walk import Parts

    Array = NDArray[Any]


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


_MOST = 2**32  # entries of indices in a region: positions have four bytes


@dataclass(frozen=True, slots=True)
class Points:
    """Points by the number of their block along the indexed axes; 8 bytes each.

    Those of a block stand in C order of their positions. Positions whose index ``mode="fill"``
    leaves out of bounds are in no group.
    """

    blocks: NDArray[np.int64]  # rising
    starts: NDArray[np.int64]  # where the points of each block begin, and the end
    positions: NDArray[np.uint32]  # within the region, in C order
    bits: tuple[int, ...]
    local: NDArray[np.unsignedinteger[Any]]

    def of(self, block: int) -> slice:
        """Return where the points of a block stand."""
        at = int(np.searchsorted(self.blocks, block))
        if at == len(self.blocks) or self.blocks[at] != block:
            return slice(0, 0)
        return slice(int(self.starts[at]), int(self.starts[at + 1]))

    def places(self, block: int) -> Places:
        return Places(self.bits, self.local[self.of(block)])

    def without_places(self) -> Points:
        """Return what is needed to put values at positions."""
        return replace(self, local=self.local[:0])


def points_of(call: Call, sizes: Chunks, indexed: Sequence[int], indices: Array) -> Points:
    """Check the indices of a region and group its points.

    Raises
    ------
    IndexOutOfBoundsError
        An index is out of bounds; its position is that within the region.
    """
    if math.prod(indices.shape) > _MOST:
        raise lazy_errors.too_many_in_a_block(call.caller, indices.shape, _MOST)
    data = stand_in(tuple(map(sum, sizes)), np.dtype(np.uint8))
    call = replace(call, data=data, indices=indices)
    made = plan(call, Grid.of_sizes(sizes))
    found = made.points
    groups = range(len(found.chunks))
    runs = [
        slice(start, stop)
        for group in groups
        for start, stop in zip(*(line.tolist() for line in found.runs(group)), strict=True)
    ]
    counts = np.array([found.count(group) for group in groups], np.int64)
    positions = [found.positions[run] + run.start // found.block * found.block for run in runs]
    return Points(
        _numbers(found.chunks, sizes, made.axes.points, indexed),
        np.append(0, counts.cumsum()),
        np.concatenate([np.empty(0, np.uint32), *positions]).astype(np.uint32, copy=False),
        found.bits,
        np.concatenate([found.local[:0], *(found.local[run] for run in runs)]),
    )


def _numbers(
    chunks: NDArray[np.int64], sizes: Chunks, axes: Sequence[int], indexed: Sequence[int]
) -> NDArray[np.int64]:
    """Return the numbers of chunks along the indexed axes, those without elements counted too."""
    filled = {axis: np.flatnonzero(sizes[axis]) for axis in axes}
    numbers, rest, weight = np.zeros_like(chunks), chunks, 1
    for axis in reversed(axes):
        rest, at = np.divmod(rest, max(1, len(filled[axis])))
        if axis in indexed and len(chunks):
            numbers += weight * filled[axis][at]
            weight *= len(sizes[axis])
    return numbers


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong with the index values of some regions: the first bad entry in C order."""

    seen: int  # entries of indices that were looked at
    bad: int = 0
    position: tuple[int, ...] = ()
    value: int = 0
    axis: int = 0
    size: int = 0

    @classmethod
    def of(cls, error: IndexOutOfBoundsError, start: Sequence[int], seen: int) -> Verdict:
        """Return the verdict on a region that begins at `start`."""
        shift = (*start, *[0] * (len(error.position) - len(start)))
        position = tuple(p + s for p, s in zip(error.position, shift, strict=True))
        return cls(seen, error.count, position, error.value, error.axis, error.size)

    def refuse(self, call: Call, index_shape: Sequence[int]) -> None:
        """Raise the error that a call in memory raises, if an entry is bad.

        How many are bad in all is said where all were looked at.
        """
        if not self.bad:
            return
        total = math.prod(index_shape)
        count = self.bad if self.seen == total else 1
        if call.kind == "gather_windows":
            begins = self.size - call.window_shape[self.axis] + 1
            facts = self.position, self.value, self.axis, begins, 0, count, total
            raise index_errors.window_outside(call.caller, call.window_shape, *facts)
        raise index_errors.index_out_of_bounds(
            call.caller,
            self.position,
            self.value,
            self.axis,
            self.size,
            -self.size if call.negative else 0,
            count,
            total,
        )


def lowest(earlier: Verdict | None, *verdicts: Verdict) -> Verdict:
    """Return the verdict on several regions, all of which come after those of `earlier`."""
    if earlier is not None and earlier.bad:
        return earlier
    seen = sum(each.seen for each in verdicts) + (0 if earlier is None else earlier.seen)
    bad = [each for each in verdicts if each.bad]
    if not bad:
        return Verdict(seen)
    first = min(bad, key=lambda each: each.position)
    return replace(first, seen=seen, bad=sum(each.bad for each in bad))


@dataclass(frozen=True, slots=True)
class Kinds:
    """Which parts there are: of kind i ``ends[i] - ends[i - 1]``, each this box of its window."""

    ends: Array
    low: Array
    high: Array

    def runs(self) -> list[tuple[slice, tuple[slice, ...]]]:
        """Return where the points of each kind stand, and its box."""
        ends = self.ends.tolist()
        boxes = [
            tuple(map(slice, low, high))
            for low, high in zip(self.low.tolist(), self.high.tolist(), strict=True)
        ]
        return [*zip(map(slice, [0, *ends], ends), boxes, strict=False)]


@dataclass(frozen=True, slots=True)
class TakenParts:
    """Where the parts of windows begin in a block."""

    kinds: Kinds
    places: Places

    def read(self, block: Array) -> list[Array]:
        """Return the values of each kind of parts."""
        values = []
        for points, box in self.kinds.runs():
            shape = tuple(each.stop - each.start for each in box)
            places = Places(self.places.bits, self.places.local[points])
            values.append(places.read(slow_path.view(block, shape)))
        return values


@dataclass(frozen=True, slots=True)
class PutParts:
    """Which windows of a region the parts belong to."""

    kinds: Kinds
    positions: Array

    def write(self, values: Sequence[Array], dense: Array) -> None:
        """Put the values of each kind of parts into the windows of `dense`."""
        for (points, box), each in zip(self.kinds.runs(), values, strict=True):
            write_piece(each, self.positions[points], dense[(slice(None), *box)])


def parts_in_blocks(parts: Parts) -> dict[int, tuple[TakenParts, PutParts]]:
    """Return the parts by the number of their block."""
    found = {}
    for number, block in enumerate(parts.chunks.tolist()):
        kinds = slice(int(parts.first[number]), int(parts.first[number + 1]))
        starts, stops = parts.starts[kinds], parts.stops[kinds]
        runs = [slice(a, b) for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]
        same = Kinds((stops - starts).cumsum(), parts.low[kinds], parts.high[kinds])
        local = np.concatenate([parts.points.local[run] for run in runs])
        positions = np.concatenate([parts.points.positions[run] for run in runs])
        taken = TakenParts(same, Places(parts.points.bits, local))
        found[block] = taken, PutParts(same, positions)
    return found
