"""A walk whose chunks are read elsewhere: by the workers of an executor, in whatever process.

A task reads its chunks one after another and sends back the values at the points that lie in them,
nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather.stored.chunks import Buffers
from ndgather.stored.executor_tasks import run_tasks, total_bytes
from ndgather.stored.grouping import move
from ndgather.stored.pieces import Piece, Places
from ndgather.stored.walk import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ndgather.array_call import Call
    from ndgather.stored.chunks import Array, Chunk, Reader

_TASK_BYTES = 2**20  # of values and places: less is not worth a task
_TASKS = 64  # that there are at least, so that all workers have some
_MOST_CHUNKS = 64  # of a task


@dataclass(frozen=True, slots=True)
class _Request:
    """A chunk, and for each piece of it the places of its points, and how they are to be read."""

    chunk: Chunk
    pieces: list[Piece]
    asked: list[tuple[Places, Callable[[Array], Array]]]
    bytes: int  # of the places, and of the values

    def put(self, results: Sequence[Array]) -> None:
        """Copy what was sent back to where it belongs; the points hold numbers of values now."""
        for (places, _), piece, values in zip(self.asked, self.pieces, results, strict=True):
            if len(values) != len(places.local):
                raise ValueError(f"{len(values)} values for {len(places.local)} points")
            points = replace(piece.points, bits=(min(8 * piece.points.local.itemsize, 63),))
            sent = values.astype(piece.target.dtype, copy=False)  # pickles may be native
            move(points, piece.runs, sent, piece.target)


def walk(
    call: Call,
    reader: Reader,
    steps: int,
    chunk_of: Callable[[int], Chunk],
    pieces_of: Callable[[int, Chunk], list[Piece]],
) -> None:
    """Copy the pieces of the chunk of each step; the executor of `call` reads them.

    The points are used up.

    Raises
    ------
    NdgatherError
        A chunk could not be read, or the executor failed. Tasks that have not begun are cancelled.
    """

    def start(task: Sequence[_Request]) -> tuple[Any, ...]:
        return read_places, call.caller, reader, [(each.chunk, each.asked) for each in task]

    def land(task: Sequence[_Request], results: Any) -> None:
        for request, values in zip(task, results, strict=True):
            request.put(values)

    tasks = _tasks(_requests(reader, steps, chunk_of, pieces_of), steps)
    run_tasks(call, reader, steps, tasks, start, land)


def _requests(
    reader: Reader,
    steps: int,
    chunk_of: Callable[[int], Chunk],
    pieces_of: Callable[[int, Chunk], list[Piece]],
) -> Iterator[_Request]:
    """Yield what is read in each step.

    Steps that share points follow each other. Once the places of points were copied for a request,
    the points hold numbers instead: which of the values that are sent back is theirs.
    """
    earlier: dict[int, Places] = {}
    for step in range(steps):
        chunk = chunk_of(step)
        pieces = [each for each in pieces_of(step, chunk) if len(each.runs[0])]
        taken: dict[int, Places] = {}
        asked, count = [], 0
        for piece in pieces:
            first = int(piece.runs[0][0])
            places = taken[first] = earlier.get(first) or _take_places(piece)
            asked.append((places, piece.view))
            count += len(places.local) * (piece.value_bytes + places.local.itemsize)
        earlier = taken
        yield _Request(chunk, pieces, asked, count)


def _take_places(piece: Piece) -> Places:
    local = piece.points.local
    runs = [slice(a, b) for a, b in zip(*(each.tolist() for each in piece.runs), strict=True)]
    places = Places(piece.points.bits, np.concatenate([local[run] for run in runs]))
    begin = 0
    for run in runs:
        count = run.stop - run.start
        local[run] = np.arange(begin, begin + count, dtype=local.dtype)
        begin += count
    return places


def _tasks(requests: Iterator[_Request], steps: int) -> Iterator[list[_Request]]:
    """Join requests until a task is worth its while."""
    most = min(max(1, steps // _TASKS), _MOST_CHUNKS)
    task: list[_Request] = []
    for request in requests:
        task.append(request)
        if len(task) == most or total_bytes(task) >= _TASK_BYTES:
            yield task
            task = []
    if task:
        yield task


def read_places(
    caller: str,
    reader: Reader,
    asked: Sequence[tuple[Chunk, Sequence[tuple[Places, Callable[[Array], Array]]]]],
) -> list[list[Array]]:
    """Read chunks and return the values at some places of each; workers are sent this."""
    buffers = Buffers()
    results = []
    for chunk, pieces in asked:
        values = read(caller, reader, chunk, buffers)
        results.append([places.read(view(values)) for places, view in pieces])
        buffers.release()
    return results
