"""Scatters into stored arrays: each touched chunk is read, updated and replaced by one worker.

The updates of a chunk are applied in C order, as in memory, so the result has the same bits
whatever the number of workers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ndgather import fallback, reductions
from ndgather.compiled import _core
from ndgather.errors import StoredArrayError, argument_errors, stored_errors
from ndgather.explain import explain
from ndgather.stored import grouping
from ndgather.stored.plan import plan, with_data
from ndgather.stored.walk import walk, write

if TYPE_CHECKING:
    from ndgather.array_call import Call
    from ndgather.stored.chunks import Array, Chunk, Writer
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

    def use(step: int, chunk: Chunk, values: Array) -> None:
        group, _ = made.step(step)
        part = made.dense_part(updates, writer.grid.box(chunk))
        values = values if values.flags.writeable else values.copy()
        write(call.caller, writer, chunk, _reduced(made, group, values, part))
        written.append(chunk)

    try:
        walk(call, writer, made.steps, lambda step: made.step(step)[1], use)
    except BaseException as error:
        error.add_note(stored_errors.partly_written(call.caller, writer.name, written, made.steps))
        if isinstance(error, StoredArrayError):
            error.written = tuple(written)
        raise
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


def _reduced(made: Plan, group: int, values: Array, updates: Array) -> Array:
    """Apply the updates of a group to the values of its chunk; return them."""
    call, runs = made.call, made.points.runs(group)

    def apply(data: Array, updates: Array, reduction: str, arithmetic: object) -> None:
        view = made.axes.data_view(data)
        grouping.move(made.points, runs, view, updates, reduction, arithmetic)

    if fallback.is_one_step(call):
        apply(values, updates, call.reduction, call.arithmetic)
        return values
    native = values.astype(values.dtype.newbyteorder("="), copy=False)
    reductions.in_steps(native, updates, call.reduction, call.use_init_val, apply)
    return native.astype(values.dtype, copy=False)
