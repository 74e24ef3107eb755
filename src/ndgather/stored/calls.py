"""Gather from and scatter into stored arrays.

Each touched chunk is read once. In a scatter, a single worker applies all updates of a chunk in C
order, so the result is bitwise identical for any number of workers. The workers of an executor read
and update chunks, but only this process writes chunks, because an executor may run a task twice.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ndgather import arguments, exchange, messages, reductions, slow_path, windows
from ndgather.array_call import Array, Call, _core, with_padding
from ndgather.axes import Axes
from ndgather.errors import (
    AttributeValueError,
    DTypeError,
    StoredArrayError,
    one_line,
)
from ndgather.messages import LOGGER, plural, shown_value
from ndgather.stored.chunks import Chunk, Reader, Writer
from ndgather.stored.journals import CallJournal, digest, open_journal
from ndgather.stored.plan import (
    ChunkCopy,
    Points,
    PointsOfChunk,
    Runs,
    StoredPlan,
    make_plan,
    shared_plan,
    with_data,
    with_stand_in,
)
from ndgather.stored.walk import walk, write

_MOST_SHOWN = 20  # maximum number of chunks listed in an error message


def gather_or_scatter(
    call: Call, stored: type, reader: Callable[[Any], Reader], writer: Callable[[Any], Writer]
) -> Any:
    """Run a call on data of type `stored`, and read stored indices and updates completely."""
    caller = call.caller
    plain: dict[str, Any] = {}
    names = {"data": "data", "indices": call.indices_name, "updates": call.updates_name}
    for argument, name in names.items():
        value = getattr(call, argument)
        if isinstance(value, stored):
            if argument != "data":
                plain[argument] = arguments.plain_array(caller, name, value)
        elif exchange.adapter_name(type(value)) == reader.__module__:  # for example a group
            raise DTypeError(
                f"{caller}: {name} = {type(value).__name__} object is not a stored array "
                f"(allowed: {stored.__module__.partition('.')[0]}.{stored.__name__})"
            )
    if call.scatters and isinstance(call.data, stored):
        if call.out is not call.data:
            raise AttributeValueError(
                f"{caller}: out = {shown_value(call.out)} is not data, a stored "
                f"{type(call.data).__name__}, which can only be updated in place (allowed: the "
                f"same object); write out=data"
            )
        return scatter(replace(call, **plain), writer(call.data))
    if exchange.adapter_name(type(call.out)) == reader.__module__:
        raise messages.out_not_an_array(caller, call.out)
    call = replace(call, **plain)
    return gather(call, reader(call.data)) if isinstance(call.data, stored) else slow_path.run(call)


def gather(call: Call, reader: Reader, plans: list[StoredPlan] | None = None) -> Array:
    """Gather from a stored array; calls with index tuples and mode "raise" can share `plans`."""
    grid = reader.grid
    call = with_data(call, grid, reader.dtype)
    plan = make_plan(call, grid) if plans is None else shared_plan(call, grid, plans)
    arguments.check_rows_of_strings(call.caller, reader.dtype, bool(plan.axes.slices))
    out = provide_out(call, plan.dense_shape)
    dense = plan.axes.dense_view(out)
    if plan.points.outside or (call.kind.windows and call.fills):
        # In-bounds elements are overwritten when their chunks are read.
        value = np.zeros((), reader.dtype) if call.fill_value is None else call.fill_value
        with_padding(out)[...] = with_padding(value)

    def job_of(step: int) -> _GatherJob:
        chunk = plan.chunk(step)
        return _GatherJob(chunk, plan.copies(step, chunk), dense, len(plan.axes.positions), [])

    walk(call, reader, len(plan), job_of)
    if call.kind.windows:
        windows.arrange(plan.call, grid.shape, dense)
    _note(call, len(plan), reader, "read")
    return out if call.out is None else call.out


def _note(call: Call, count: int, reader: Reader, done: str) -> None:
    if LOGGER.isEnabledFor(logging.INFO):
        LOGGER.info("%s: %s of %s %s", call.caller, plural(count, "chunk"), reader.name, done)


def provide_out(call: Call, shape: tuple[int, ...]) -> Array:
    """Return `out` after checking it, or a new array if `out` is None."""
    if call.out is None:
        try:
            return np.empty(shape, call.data.dtype)
        except (MemoryError, ValueError):
            raise messages.result_too_large(call.caller, shape) from None
    out: Array = call.out
    if isinstance(out, np.ndarray):
        out = arguments.plain_array(call.caller, "out", out)
    arguments.check_plain_out(replace(call, out=out), shape)
    return out


@dataclass(slots=True)
class _GatherJob:
    chunk: Chunk
    copies: Sequence[ChunkCopy]
    dense: Array  # the result, whose first `rank` axes are the axes of the positions
    rank: int
    positions: list[Array]  # the positions of each copy, set by `send`
    is_read: bool = True

    def use(self, values: Array) -> None:
        for copy in self.copies:
            move(copy.points, copy.runs, copy.view(values), self.dense[copy.part])

    def send(self) -> tuple[Callable[[Array], Any], int]:
        sources, count = [], 0
        for copy in self.copies:
            source, positions = copy.apart()
            sources.append(source)
            self.positions.append(positions)
            of_point = math.prod(self.dense[copy.part].shape[self.rank :]) * self.dense.itemsize
            count += len(positions) * (of_point + source.offset_in_chunk.itemsize)
        return partial(values_at, sources), count

    def receive(self, result: Any) -> None:
        for copy, positions, values in zip(self.copies, self.positions, result, strict=True):
            if len(values) != len(positions):
                raise ValueError(f"{len(values)} values for {len(positions)} points")
            # Pickling may have converted the values to native byte order.
            write_at(positions, self.dense[copy.part], values.astype(self.dense.dtype, copy=False))


def values_at(sources: Sequence[PointsOfChunk], values: Array) -> list[Array]:
    """For each set of points in a chunk, return an array of the elements at these points."""
    return [read_at(source, source.view(values)) for source in sources]


def scatter(call: Call, writer: Writer) -> Any:
    """Check all arguments of a scatter, and then apply it to the array of `writer`."""
    plan, updates = _checked_scatter(call, writer)
    written: list[Chunk] = []
    opened = open_journal()
    journal = None if opened is None else opened.begin(plan, writer)
    steps = range(len(plan)) if journal is None else journal.steps

    def replace_chunk(chunk: Chunk, values: Array) -> None:
        write(call.caller, writer, chunk, values)
        written.append(chunk)

    def job_of(number: int) -> _ScatterJob:
        step = steps[number]
        chunk = plan.chunk(step)
        [copy] = plan.copies(step, chunk)
        options = plan.call.reduction, plan.call.use_init_val
        update = ChunkUpdate(plan.axes, copy.points, copy.runs, updates[copy.part], *options)
        is_read = not _overwrites(plan, step)
        return _ScatterJob(chunk, update, is_read, writer, replace_chunk, journal)

    try:
        walk(call, writer, len(steps), job_of)
    except BaseException as error:
        some = ", ".join(f"({', '.join(map(str, chunk))})" for chunk in written[:_MOST_SHOWN])
        rest = ", ..." if len(written) > _MOST_SHOWN else ""
        error.add_note(
            f"{call.caller}: {len(written) or 'none'} of the {len(plan)} updated chunks of "
            f"{one_line(writer.name)} were written"
            f"{f': {some}{rest}' if written else ''}"
        )
        if isinstance(error, StoredArrayError):
            error.written = tuple(written)
        raise
    if journal is not None:
        journal.end()
    _note(call, len(written), writer, "replaced")
    return call.out


def _checked_scatter(call: Call, writer: Writer) -> tuple[StoredPlan, Array]:
    """Return the plan and updates of a scatter, with the axes of positions moved to the front."""
    if not writer.writeable:
        raise messages.out_read_only(call.caller)
    if loss := getattr(writer, "loss", ""):
        raise DTypeError(
            f"{call.caller}: data = {one_line(writer.name)} {loss} (allowed: an array that stores "
            f"values exactly); write {call.caller}(numpy.asarray(data), ...) without out"
        )
    call = slow_path.plain_scatter(with_stand_in(call, writer.grid, writer.dtype))
    updates = call.updates
    arguments.check_updates(call, updates.shape, slow_path.result_shape(call))
    plan = make_plan(replace(call, out=None), writer.grid)
    arguments.check_rows_of_strings(call.caller, writer.dtype, bool(plan.axes.slices))
    if call.reduction != "none":
        updates = updates.astype(updates.dtype.newbyteorder("="), copy=False)
    return plan, plan.axes.dense_view(updates)


def _overwrites(plan: StoredPlan, step: int) -> bool:
    data = plan.call.data
    if plan.call.reduction != "none" or data.dtype.hasobject or not data.itemsize:
        return False
    extent, runs = plan.grid.extent(plan.chunk(step)), plan.runs(step)
    size = math.prod(extent[axis] for axis in plan.axes.points)
    if int((runs[1] - runs[0]).sum()) < size:
        return False
    return len(np.unique(plan.points.of_runs(runs)[0])) == size


@dataclass(frozen=True, slots=True)
class ChunkUpdate:
    """All updates of a chunk."""

    axes: Axes
    points: Points
    runs: Runs
    updates: Array  # the leading axes correspond to the positions of points
    reduction: str
    use_init_val: bool

    def apply(self, values: Array) -> Array:
        """Apply the updates to the values of the chunk, in place if possible."""
        if not values.flags.writeable:
            values = values.copy()
        if not reductions.has_start(self, values.dtype):  # the first update initializes the element
            offsets = self.points.of_runs(self.runs)[0]
            first = np.unique(offsets, return_index=True)[1]
            values = replace(self.compact(first), reduction="none").apply(values)
            others = self.compact(np.delete(np.arange(len(offsets)), first))
            return replace(others, use_init_val=True).apply(values)
        one = reductions.in_one_step(self.reduction, self.use_init_val)
        if one and (self.reduction == "none" or values.dtype.isnative):
            self._scatter(values, self.updates.astype(values.dtype, copy=False), self.reduction)
            return values
        native = values.astype(values.dtype.newbyteorder("="), copy=False)
        library = reductions.InPlace(self._scatter)
        steps = library, native, self.updates, self.reduction, self.use_init_val
        _core.in_default_environment(reductions.in_steps, *steps)
        return native.astype(values.dtype, copy=False)

    def _scatter(self, data: Array, updates: Array, reduction: str) -> None:
        move(self.points, self.runs, self.axes.data_view(data), updates, reduction)

    def apply_elsewhere(self, values: Array) -> Array:
        """Return the updated values as a contiguous array that owns its memory."""
        values = self.apply(values)
        return values if values.flags.c_contiguous and values.base is None else values.copy()

    def compact(self, some: Any = ...) -> ChunkUpdate:
        """Return a compact copy with all points and updates, or with those that `some` selects."""
        offset_in_chunk, positions = (each[some] for each in self.points.of_runs(self.runs))
        lead = self.updates.shape[: self.updates.ndim - len(self.axes.slices)]
        updates = self.updates if lead else self.updates[np.newaxis]
        points = Points.one_run(
            self.points.bits, offset_in_chunk, np.arange(len(offset_in_chunk), dtype=np.uint32)
        )
        updates = updates[np.unravel_index(positions, lead or (1,))]
        return replace(self, points=points, runs=points.runs(0), updates=updates)


@dataclass(frozen=True, slots=True)
class _ScatterJob:
    chunk: Chunk
    update: ChunkUpdate
    is_read: bool
    writer: Writer
    replace_chunk: Callable[[Chunk, Array], None]
    journal: CallJournal | None = None

    def use(self, values: Array) -> None:
        if self.journal is None:
            self.replace_chunk(self.chunk, self.update.apply(values))
            return
        if not self.is_read:
            self.replace_chunk(self.chunk, self.update.apply(values))
        elif not self.journal.was_replaced(self.chunk, values):
            before = digest(values)
            updated = self.update.apply(values)
            self.journal.replaces(self.chunk, before, updated)
            self.replace_chunk(self.chunk, updated)
        self.journal.note_done(self.chunk)

    def send(self) -> tuple[Callable[[Array], Any], int]:
        update = self.update.compact()
        sent = update.points.offset_in_chunk.nbytes + update.updates.nbytes
        return update.apply_elsewhere, sent + self.writer.chunk_bytes

    def receive(self, result: Any) -> None:
        shape = self.writer.grid.extent(self.chunk)
        if result.shape != shape:
            raise ValueError(f"values of shape {result.shape} for a chunk of shape {shape}")
        self.replace_chunk(self.chunk, result)


def move(
    points: Points, runs: Runs, chunk: Array, dense: Array, reduction: str | None = None
) -> None:
    """Copy the elements at the points of `runs` from a chunk to the dense array.

    With a reduction, the dense array contains updates, which are applied to the chunk in order. The
    coordinates of the points index the leading axes of `chunk`, and their positions index the
    leading axes of `dense`. The trailing axes of `chunk` and `dense` have equal sizes.
    """
    if chunk.dtype.hasobject or chunk.itemsize == 0:
        _move_references(points, runs, chunk, dense, reduction)
        return
    chunk, dense = np.asarray(chunk), np.asarray(dense)  # without subclasses
    arithmetic = None if reduction is None else slow_path.core_arithmetic(chunk.dtype, reduction)
    where: tuple[Array, ...] = (points.offset_in_chunk, points.positions, *runs)
    if not all(each.flags.aligned for each in where):  # unpickled arrays may be misaligned
        where = tuple(np.require(each, None, ["C", "A"]) for each in where)
    at, positions, starts, stops = where
    bits, block = points.bits, points.block
    _core.move_points(
        chunk, dense, bits, at, positions, block, starts, stops, reduction, arithmetic
    )


def _move_references(
    points: Points, runs: Runs, chunk: Array, dense: Array, reduction: str | None
) -> None:
    """Implement `move` with NumPy for dtypes that contain Python objects or have size zero."""
    rank = dense.ndim - (chunk.ndim - len(points.bits))
    offset_in_chunk, positions = points.of_runs(runs)
    source = PointsOfChunk(points.bits, offset_in_chunk, np.asarray)
    here = tuple(source.coordinates()) or (np.zeros(len(positions), np.intp),)
    where = np.unravel_index(positions, dense.shape[:rank] or (1,))
    of_chunk = chunk if points.bits else chunk[np.newaxis]
    of_dense = dense if rank else dense[np.newaxis]
    if reduction is None:
        of_dense[where] = of_chunk[here]
    else:
        of_chunk[here] = of_dense[where]  # for duplicates, the last assignment wins


def read_at(source: PointsOfChunk, block: Array) -> Array:
    """Return the elements of `block` at points whose coordinates index its leading axes."""
    bits, count = source.bits, len(source.offset_in_chunk)
    values = np.empty((count, *block.shape[len(bits) :]), block.dtype)
    if count:
        points = Points.one_run(bits, source.offset_in_chunk, np.arange(count, dtype=np.uint32))
        move(points, points.runs(0), block, values)
    return values


def write_at(positions: Array, dense: Array, values: Array) -> None:
    """Assign `values` to `dense` at flat, row-major positions along its leading axes."""
    if positions.dtype != np.uint32:
        lead = dense.shape[: dense.ndim - (values.ndim - 1)]
        with_padding(dense)[np.unravel_index(positions, lead)] = with_padding(values)
    elif len(positions):
        count = len(positions)
        numbers = np.arange(count, dtype=np.uint32)
        points = Points.one_run(((count - 1).bit_length(),), numbers, positions)
        move(points, points.runs(0), values, dense)
