"""The points that tasks copy between blocks of data and blocks of the result.

A position of a call is an index or an index tuple. An axis of data is *indexed* if its coordinates
are in `indices`, *aligned* if it has the same coordinates as the positions, or *copied* if all of
its elements are used. Positions are divided into regions, one for each chunk of the result. Along
aligned axes, regions are chunked like data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, product
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ndgather import arguments, dtypes, foreign, slow_path, windows
from ndgather.array_call import Array, Call, Kind
from ndgather.axes import Axes
from ndgather.errors import DTypeError, NdgatherError
from ndgather.messages import shown
from ndgather.stored.calls import values_at, write_at
from ndgather.stored.chunks import Grid, stand_in
from ndgather.stored.plan import PointsOfChunk, make_plan

Chunks: TypeAlias = tuple[tuple[int, ...], ...]  # chunk sizes along each axis, as in dask
Coordinates: TypeAlias = tuple[int, ...]  # the index of a chunk along each axis


@dataclass(frozen=True, slots=True)
class Region:
    """A box of positions."""

    coordinates: Coordinates
    start: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def box(self) -> tuple[slice, ...]:
        """The slices that select the region from an array of positions."""
        return tuple(
            slice(start, start + size) for start, size in zip(self.start, self.shape, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockLayout:
    """The axes of a call and the chunks of its data and positions."""

    call: Call  # the call, converted to a gather, without its arrays
    axes: Axes
    data_chunks: Chunks
    position_chunks: Chunks

    @property
    def regions(self) -> list[Region]:
        starts = [tuple(accumulate(sizes, initial=0)) for sizes in self.position_chunks]
        return [
            Region(at, _pick(starts, at), _pick(self.position_chunks, at))
            for at in product(*(range(len(sizes)) for sizes in self.position_chunks))
        ]

    @property
    def copied_blocks(self) -> list[Coordinates]:
        return list(product(*(range(len(self.data_chunks[axis])) for axis in self.axes.slices)))

    @property
    def result_chunks(self) -> Chunks:
        """The chunks of a gather's result or a scatter's updates."""
        window = [(size,) for size in self.call.window_shape]
        copied = [self.data_chunks[axis] for axis in self.axes.slices]
        return self.axes.in_dense(self.position_chunks, window, copied)

    def result_block(self, region: Region, copied: Coordinates) -> Coordinates:
        """Return the index of the result chunk that a region fills."""
        return self.axes.in_dense(region.coordinates, [0] * len(self.axes.window), copied)

    def result_shape(self, region: Region, copied: Coordinates) -> tuple[int, ...]:
        sizes = [
            self.data_chunks[axis][number]
            for axis, number in zip(self.axes.slices, copied, strict=True)
        ]
        return self.axes.in_dense(region.shape, self.call.window_shape, sizes)

    def with_positions(self, chunks: Iterable[Sequence[int]]) -> BlockLayout:
        """Return the layout with positions in `chunks`, but with aligned axes chunked like data."""
        cut = [tuple(sizes) for sizes in chunks]
        for axis in self.axes.aligned:
            cut[axis] = _cut_to(self.data_chunks[axis], sum(cut[axis]))
        return replace(self, position_chunks=tuple(cut))

    @property
    def may_raise(self) -> bool:
        """True if an index may raise an error, because of mode ``raise`` or an empty axis."""
        return self.call.raises or any(not sum(self.data_chunks[a]) for a in self.axes.indexed)

    def read_chunks(self, shape: Sequence[int]) -> Chunks:
        """Return the chunks of the data that a region of the given shape reads.

        Aligned and copied axes have a single chunk.
        """
        chunks = list(self.data_chunks)
        for axis in self.axes.aligned:
            chunks[axis] = (shape[axis],)
        for axis in self.axes.slices:
            chunks[axis] = (max(1, sum(chunks[axis])),)
        return tuple(chunks)


def layout_of(call: Call, data_chunks: Chunks) -> BlockLayout:
    """Return the layout of a call with valid shapes. Only aligned axes of positions are divided."""
    tuples, shape = int(call.kind.tuples), call.indices.shape
    bare = call.as_gather(data=None, indices=None, updates=None)
    layout = BlockLayout(
        call=replace(bare, reduction="none", use_init_val=True, fill_value=None),
        axes=Axes.of(call, len(data_chunks), shape),
        data_chunks=data_chunks,
        position_chunks=(),
    )
    return layout.with_positions((size,) for size in shape[: len(shape) - tuples])


def _cut_to(chunks: Sequence[int], size: int) -> tuple[int, ...]:
    """Return the chunks of the first `size` elements of an axis, truncating the last chunk."""
    ends = [min(end, size) for end in accumulate(chunks)]
    sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    while len(sizes) > 1 and not sizes[-1] and size < sum(chunks):
        sizes.pop()
    return tuple(sizes)


def _pick(lines: Iterable[Sequence[int]], at: Coordinates) -> tuple[int, ...]:
    return tuple(line[number] for line, number in zip(lines, at, strict=True))


Sources: TypeAlias = "list[PointsOfChunk]"  # for windows, one entry for each copied box
# For each entry of `Sources`, the positions of its points in the region and the key of its box.
Targets: TypeAlias = list[tuple[NDArray[np.uint32], tuple[Any, ...]]]


def check_indices(layout: BlockLayout, shape: Sequence[int], indices: Array) -> None:
    """Raise an error if an index is out of bounds, given the shape of the positions."""
    data = stand_in(tuple(map(sum, layout.read_chunks(shape))), np.dtype(np.uint8))
    call = replace(layout.call, data=data, indices=indices)
    if layout.may_raise:
        (windows.check if call.kind.windows else slow_path.run)(call)


def group_points(
    layout: BlockLayout, region: Region, indices: Array
) -> dict[Coordinates, tuple[Sources, Targets]]:
    """Return the points of a region, grouped by block of data.

    A key is a block's index along the axes that are not copied. Positions to fill have no points.
    """
    chunks = layout.read_chunks(region.shape)
    box: tuple[Any, ...] = (*region.box, ...)  # with an ellipsis, a 0-d result is an array
    call = replace(
        layout.call,
        data=stand_in(tuple(map(sum, chunks)), np.dtype(np.uint8)),
        indices=indices[box],
    )
    plan = make_plan(call, Grid.of_sizes(chunks))
    numbers = _block_numbers(layout, region)
    groups = {}
    for step in range(len(plan)):
        chunk = plan.chunk(step)
        block = tuple(numbers[axis][chunk[axis]] for axis in layout.axes.points)
        sources, targets = [], []
        for copy in plan.copies(step, chunk):
            source, positions = copy.apart()
            sources.append(source)
            targets.append((positions, copy.part))
        groups[block] = sources, targets
    return groups


def _block_numbers(layout: BlockLayout, region: Region) -> list[list[int]]:
    """For each axis of data, return the block numbers that correspond to the chunks of a plan.

    Plans skip empty chunks. Along aligned axes, a plan contains only the
    block that the region belongs to.
    """
    numbers: list[list[int]] = [np.flatnonzero(sizes).tolist() for sizes in layout.data_chunks]
    for axis in layout.axes.aligned:
        numbers[axis] = [region.coordinates[axis]]
    return numbers


def masked(caller: str, argument: str) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument} = dask array of masked arrays would lose its mask (allowed: blocks "
        f"of numpy.ndarray, such as dask.array.ma.filled({argument}, value))"
    )


def plain(
    caller: str,
    argument: str,
    block: Any,
    shape: tuple[int, ...],
    dtype: np.dtype[Any] | None = None,
) -> Array:
    """Return a block as a NumPy array, or raise an error if it has the wrong shape or dtype."""
    if foreign.has_mask(block):
        raise masked(caller, argument)
    array = arguments.plain_array(caller, argument, block)
    if array.shape != shape:
        raise NdgatherError(
            f"{caller}: a block of {argument} has shape {shown(array.shape)}, but its chunk has "
            f"shape {shown(shape)} (allowed: blocks of the shape of their chunks)"
        )
    if dtype is None:
        return array
    if not dtypes.holds_all(dtype, array.dtype):
        raise DTypeError(
            f"{caller}: a block of {argument} has dtype {array.dtype}, but its dask array has "
            f"dtype {dtype} (allowed: blocks of {dtype}); write {argument}.map_blocks("
            f"numpy.asarray, dtype={array.dtype.str!r})"
        )
    return array.astype(dtype, copy=False)


def take(
    caller: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    block: Any,
    sources: Sequence[Sources],
) -> list[list[Array]]:
    """For each region, return a list of the values that the region needs from a block of data."""
    values = plain(caller, "data", block, shape, dtype)
    return [values_at(of_region, values) for of_region in sources]


def assemble(
    layout: BlockLayout,
    starts: Array | None,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    fill: Array | None,
    targets: Sequence[Targets],
    values: Sequence[Sequence[Array]],
) -> Array:
    """Return a block of the result, assembled from the values of all blocks of data."""
    axes = layout.axes
    dense = np.empty(shape, dtype)
    if fill is not None:
        dense[...] = fill
    view = axes.dense_view(dense)
    if not axes.positions:
        view = view[np.newaxis]
    for of_block, taken in zip(targets, values, strict=True):
        for (positions, part), of_box in zip(of_block, taken, strict=True):
            write_at(positions, view[part], of_box)
    if starts is not None:
        sizes = tuple(map(sum, layout.data_chunks))
        windows.arrange(replace(layout.call, indices=starts), sizes, axes.dense_view(dense))
    return dense


def pick(
    call: Call,
    axes: Axes,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    targets: Targets,
    updates: Any,
) -> Array:
    [(positions, _)] = targets
    view = axes.dense_view(plain(call.caller, call.updates_name, updates, shape, dtype))
    rank = len(axes.positions)
    rows: Array = view.reshape(int(np.prod(view.shape[:rank])), *view.shape[rank:])[positions]
    return rows


def apply(
    call: Call,
    shape: tuple[int, ...],
    block: Any,
    sources: Sequence[Sources],
    updates: Sequence[Array],
) -> Array:
    """Return a block of data after applying its updates, region by region."""
    tuples = []
    for [points] in sources:
        of_region = np.empty((len(points.offset_in_chunk), len(points.bits)), np.intp)
        for axis, column in enumerate(points.coordinates()):
            of_region[:, axis] = column
        tuples.append(of_region)
    return slow_path.run(
        replace(
            call,
            kind=Kind.SCATTER_ND,
            axis=0,
            batch_dims=0,
            mode="raise",
            data=plain(call.caller, "data", block, shape, updates[0].dtype),
            indices=np.concatenate(tuples),
            updates=np.concatenate(list(updates)),
        )
    )
