"""Scatters into stored arrays: each touched chunk is read, updated and replaced by one worker.

The updates of a chunk are applied in C order, as in memory, so the result has the same bits
whatever the number of workers. Workers of an executor read and update chunks, which are written
here: an executor may do a task twice, as dask does after it has lost a worker.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import dispatch, reductions, slow_path
from ndgather.errors import StoredArrayError, argument_errors, stored_errors
from ndgather.settings import LOGGER, counted
from ndgather.stored import executors, grouping
from ndgather.stored.chunks import Buffers
from ndgather.stored.executors import run_tasks
from ndgather.stored.grouping import ChunkedPoints, move, places_of
from ndgather.stored.plan import Steps, plan, provide_out, with_data
from ndgather.stored.walk import BLOCK, MOST_WINDOWS, Piece, parts_of, read, walk, write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ndgather.array_call import Call
    from ndgather.stored.chunks import Array, Chunk, Grid, Reader, Writer
    from ndgather.stored.plan import Axes, Plan, Plans
    from ndgather.stored.walk import Parts


@dataclass(frozen=True, slots=True)
class Update:
    """The updates that meet one chunk; executors are sent those that are `compact`."""

    call: Call  # its options count
    axes: Axes
    points: ChunkedPoints
    runs: tuple[Array, Array]
    updates: Array  # the axes of the positions come first

    def apply(self, values: Array) -> Array:
        """Apply the updates, in C order, to the values of the chunk; return the new values.

        The old ones are changed where they can be.
        """
        call = self.call
        if not values.flags.writeable:
            values = values.copy()
        if slow_path.is_one_step(call):
            updates = self.updates.astype(values.dtype, copy=False)  # pickles may be native
            self._step(values, updates, call.reduction)
            return values
        native = values.astype(values.dtype.newbyteorder("="), copy=False)
        library = reductions.InPlace(self._step)
        reductions.in_steps(library, native, self.updates, call.reduction, call.use_init_val)
        return native.astype(values.dtype, copy=False)

    def _step(self, data: Array, updates: Array, reduction: str) -> None:
        arithmetic = reductions.for_core(data.dtype, reduction)
        move(self.points, self.runs, self.axes.data_view(data), updates, reduction, arithmetic)

    def compact(self) -> Update:
        """Return the same without what other chunks are met by."""
        points, runs = self.points, list(zip(*(each.tolist() for each in self.runs), strict=True))
        local = np.concatenate([points.local[start:stop] for start, stop in runs])
        rank = len(self.axes.dense_positions)
        updates = self.updates if rank else self.updates[np.newaxis]
        lead = self.updates.shape[:rank]
        own_updates = [updates[places_of(points, start, stop, lead)] for start, stop in runs]
        numbers = np.arange(len(local), dtype=np.uint32)
        alone = ChunkedPoints.one_group(points.bits, local, numbers)
        call = replace(self.call, indices=None, updates=None, executor=None, progress=None)
        return replace(
            self, call=call, points=alone, runs=alone.runs(0), updates=np.concatenate(own_updates)
        )


def scatter(call: Call, writer: Writer) -> Any:
    """Carry out a scatter into what `writer` writes, which is data and `out` of the call.

    All arguments are checked before the first chunk is read.

    Raises
    ------
    StoredArrayError
        A chunk could not be read or written: `written` says which were.
    """
    made, updates = _checked(call, writer)
    written: list[Chunk] = []

    def update_of(step: int) -> Update:
        group, chunk = made.steps.group(step), made.steps.chunk(step)
        part = made.dense_part(updates, chunk)
        return Update(made.call, made.axes, made.points, made.points.runs(group), part)

    def replace_chunk(chunk: Chunk, values: Array) -> None:
        write(call.caller, writer, chunk, values)
        written.append(chunk)

    try:
        if call.executor is None:
            walk(
                call,
                writer,
                len(made.steps),
                made.steps.chunk,
                lambda step, chunk, values: replace_chunk(chunk, update_of(step).apply(values)),
                lambda step: not _overwrites(made, step),
            )
        else:
            _walk_elsewhere(call, writer, made, update_of, replace_chunk)
    except BaseException as error:
        error.add_note(
            stored_errors.partly_written(call.caller, writer.name, written, len(made.steps))
        )
        if isinstance(error, StoredArrayError):
            error.written = tuple(written)
        raise
    LOGGER.info("%s: %s of %s replaced", call.caller, counted(len(written), "chunk"), writer.name)
    return call.out


def _checked(call: Call, writer: Writer) -> tuple[Plan, Array]:
    """Return the plan of a call, and its updates with the axes of the positions first."""
    if not writer.writeable:
        raise argument_errors.out_read_only(call.caller)
    call = with_data(replace(call, out=None), writer.grid, writer.dtype)
    call = slow_path.plain_scatter(call)
    updates = call.updates
    slow_path.check_updates(call, updates.shape, slow_path.result_shape(call))
    made = plan(call, writer.grid)
    if call.reduction != "none":
        updates = updates.astype(updates.dtype.newbyteorder("="), copy=False)
    return made, made.axes.dense_view(updates)


def _overwrites(made: Plan, step: int) -> bool:
    """Whether the updates of a step take every place of its chunk, whatever stands there."""
    data = made.call.data
    if made.call.reduction != "none" or data.dtype.hasobject or not data.itemsize:
        return False
    extent = made.grid.extent(made.steps.chunk(step))
    size = math.prod(extent[axis] for axis in made.axes.points)
    runs = made.points.runs(made.steps.group(step))
    if int((runs[1] - runs[0]).sum()) < size:
        return False
    local = [made.points.local[a:b] for a, b in zip(*(r.tolist() for r in runs), strict=True)]
    return len(np.unique(np.concatenate(local))) == size


@dataclass(frozen=True, slots=True)
class _Request:
    """One chunk, and what is done to it."""

    chunk: Chunk
    update: Update
    is_read: bool  # or else its values may be any
    bytes: int


def _walk_elsewhere(
    call: Call,
    writer: Writer,
    made: Plan,
    update_of: Callable[[int], Update],
    replace_chunk: Callable[[Chunk, Array], None],
) -> None:
    """Let the executor of a call read and update each chunk, and write it here."""

    def request(step: int) -> list[_Request]:
        update = update_of(step).compact()
        sent = update.points.local.nbytes + update.updates.nbytes
        is_read = not _overwrites(made, step)
        return [_Request(made.steps.chunk(step), update, is_read, sent + writer.chunk_bytes)]

    def start(task: Sequence[_Request]) -> tuple[Any, ...]:
        only = task[0]
        return updated, call.caller, writer, only.chunk, only.update, only.is_read

    def land(task: Sequence[_Request], values: Array) -> None:
        chunk = task[0].chunk
        shape = writer.grid.extent(chunk)
        if values.shape != shape:
            raise ValueError(f"values of shape {values.shape} for a chunk of shape {shape}")
        replace_chunk(chunk, values)

    steps = len(made.steps)
    run_tasks(call, writer, steps, map(request, range(steps)), start, land)


def updated(caller: str, reader: Reader, chunk: Chunk, update: Update, is_read: bool) -> Array:
    """Read a chunk and return it with its updates; workers are sent this."""
    if is_read:
        values = read(caller, reader, chunk, Buffers())
    else:
        values = np.empty(reader.grid.extent(chunk), reader.dtype)
    values = update.apply(values)
    return values if values.flags.c_contiguous and values.base is None else values.copy()


def copy_pieces(
    call: Call,
    reader: Reader,
    steps: Steps,
    pieces_of: Callable[[int, Chunk], list[Piece]],
) -> None:
    """Read the chunk of each step and copy its pieces.

    Raises
    ------
    StoredArrayError
        A chunk could not be read.
    """

    def use(step: int, chunk: Chunk, values: Array) -> None:
        for piece in pieces_of(step, chunk):
            piece.copy(values)

    if call.executor is None:
        walk(call, reader, len(steps), steps.chunk, use)
    else:
        executors.walk(call, reader, len(steps), steps.chunk, pieces_of)
    LOGGER.info("%s: %s of %s read", call.caller, counted(len(steps), "chunk"), reader.name)


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """The parts of the windows of a call by chunk, and the steps in which these are read."""

    call: Call  # with plain starts, and a stand-in for data
    parts: Parts
    dense_shape: tuple[int, ...]
    steps: Steps


def plan_windows(call: Call, grid: Grid) -> WindowPlan:
    """Check all of a call but its `out`, and find the parts of its windows.

    Raises
    ------
    NdgatherError
        The call is refused, as it would be for an array in memory.
    """
    window = call.window_shape
    starts = slow_path.native_indices(call.caller, call.indices, call.indices_name)
    if math.prod(starts.shape[:-1]) > MOST_WINDOWS:
        raise stored_errors.too_many_windows(call.caller, starts.shape, MOST_WINDOWS)
    # A copy: another thread may change them, or `out` have their memory, while they are used.
    call = replace(call, indices=starts.copy())
    slow_path.check(call)
    along = range(len(window))
    parts = parts_of(call, grid.along(along))
    shape = (*starts.shape[:-1], *window, *grid.shape[len(window) :])
    return WindowPlan(call, parts, shape, Steps.of(grid, along, parts.chunks))


def gather_of_windows(call: Call, reader: Reader) -> Array:
    """Carry out a gather of windows whose data is what `reader` reads.

    All starts are checked, and `out` too, before the first chunk is read.
    """
    grid, depth = reader.grid, len(call.window_shape)
    made = plan_windows(with_data(call, grid, reader.dtype), grid)
    call, parts, steps = made.call, made.parts, made.steps
    out = provide_out(call, made.dense_shape)
    if call.mode == "fill":
        _fill(call, out)
    rank = call.indices.ndim - 1

    def pieces_of(step: int, chunk: Chunk) -> list[Piece]:
        whole = grid.box(chunk)[depth:]
        number = steps.group(step)
        pieces = []
        for kind in range(int(parts.first[number]), int(parts.first[number + 1])):
            low, high = parts.low[kind].tolist(), parts.high[kind].tolist()
            to: tuple[Any, ...] = (..., *map(slice, low, high), *whole)
            shape = tuple(end - begin for begin, end in zip(low, high, strict=True))
            runs = parts.starts[kind : kind + 1], parts.stops[kind : kind + 1]
            view = partial(slow_path.view, window=shape)
            pieces.append(Piece(parts.points, runs, view, out[to], rank))
        return pieces

    copy_pieces(call, reader, steps, pieces_of)
    return out if call.out is None else call.out


def _fill(call: Call, out: Array) -> None:
    """Fill the windows that stick out; what of them lies in data is copied over it later."""
    window, lead = call.window_shape, call.indices.shape[:-1]
    starts = call.indices.reshape(math.prod(lead), len(window))
    sizes = call.data.shape[: len(window)]
    value = np.zeros((), call.data.dtype) if call.fill_value is None else call.fill_value
    for first in range(0, len(starts), BLOCK):
        some = slow_path.signed(starts[first : first + BLOCK])
        low, high = slow_path.shared_parts(some, sizes, window)
        outside = np.flatnonzero(((low > 0) | (high < window)).any(axis=1)) + first
        if len(outside):
            out[np.unravel_index(outside, lead) if lead else ()] = value


def run(
    call: Call, stored: type, reader: Callable[[Any], Reader], writer: Callable[[Any], Writer]
) -> Any:
    """Carry out a call with arrays of the type `stored`; all but its data are read whole.

    Raises
    ------
    NdgatherError
        An argument is something else of the package of `stored`, such as a group, or `out` is
        stored and cannot take the result.
    """
    plain: dict[str, Any] = {}
    names = {"data": "data", "indices": call.indices_name, "updates": call.updates_name}
    for argument, name in names.items():
        value = getattr(call, argument)
        if isinstance(value, stored):
            if argument != "data":
                plain[argument] = slow_path.plain_array(call.caller, name, value)
        elif dispatch.adapter_name(value) == reader.__module__:
            raise stored_errors.not_this_type(call.caller, name, value, stored)
    if call.scatters and isinstance(call.data, stored):
        if call.out is not call.data:
            raise stored_errors.not_in_place(call.caller, call.out, call.data)
        return scatter(replace(call, **plain), writer(call.data))
    if isinstance(call.out, stored):
        raise argument_errors.out_not_an_array(call.caller, call.out)
    call = replace(call, **plain)
    if not isinstance(call.data, stored):
        return slow_path.run(call)
    return gather(call, reader(call.data))


def gather(call: Call, reader: Reader, plans: Plans | None = None) -> Array:
    """Carry out a gather whose data is what `reader` reads.

    All indices are checked, and `out` too, before the first chunk is read. Gathers of the same
    points, by tuples and in the mode raise, may share their plans.
    """
    if call.kind == "gather_windows":
        return gather_of_windows(call, reader)
    grid = reader.grid
    call = with_data(call, grid, reader.dtype)
    made = plan(call, grid) if plans is None else plans.plan(call, grid)
    out = provide_out(call, made.dense_shape)
    dense = made.axes.dense_view(out)
    points = made.points
    value = np.zeros((), reader.dtype) if call.fill_value is None else call.fill_value
    grouping.fill(points, value, dense, grid.along(made.axes.slices).shape)

    def pieces_of(step: int, chunk: Chunk) -> list[Piece]:
        target = made.dense_part(dense, chunk)
        rank = len(made.axes.dense_positions)
        runs = points.runs(made.steps.group(step))
        return [Piece(points, runs, made.axes.data_view, target, rank)]

    copy_pieces(call, reader, made.steps, pieces_of)
    return out if call.out is None else call.out
