"""Scatters into stored arrays: each touched chunk is read, updated and replaced by one worker.

The updates of a chunk are applied in C order, as in memory, so the result has the same bits
whatever the number of workers. Workers of an executor read and update chunks, which are written
here: an executor may do a task twice, as dask does after it has lost a worker.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import fallback
from ndgather.compiled import _core
from ndgather.errors import StoredArrayError, argument_errors, stored_errors
from ndgather.explain import explain
from ndgather.log import LOGGER, counted
from ndgather.stored.chunks import Buffers
from ndgather.stored.executor_tasks import run_tasks
from ndgather.stored.plan import plan, with_data
from ndgather.stored.update import Update
from ndgather.stored.walk import read, walk, write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ndgather.array_call import Call
    from ndgather.stored.chunks import Array, Chunk, Reader, Writer
    from ndgather.stored.plan import Plan


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
    call = fallback.plain_scatter(call)
    mode = fallback.choice(call.caller, "mode", call.mode, _core.SCATTER_MODES)
    call = replace(call, mode=mode)
    shape, updates = fallback.result_shape(call), call.updates
    if updates.shape != shape:
        facts = call.data.shape, call.indices.shape, shape, updates.shape
        raise explain(call, ("updates_shape", (0, 0), *facts))
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
