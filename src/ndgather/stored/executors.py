"""A walk whose chunks are read elsewhere: by the workers of an executor, in whatever process.

A task reads its chunks one after another and sends back the values at the points that lie in them,
nothing else.
"""

from __future__ import annotations

import queue
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from ndgather.errors import NdgatherError, stored_errors
from ndgather.stored.chunks import Buffers
from ndgather.stored.grouping import move
from ndgather.stored.walk import Piece, Places, read, reporter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ndgather.array_call import Call
    from ndgather.stored.chunks import Array, Chunk, Reader


_MEMORY = 2**26  # bytes in flight where the caller does not say


class Request(Protocol):
    """What is asked of one chunk."""

    @property
    def chunk(self) -> Chunk: ...

    @property
    def bytes(self) -> int:
        """How many are sent, and sent back."""


R = TypeVar("R", bound=Request)


def run_tasks(
    call: Call,
    reader: Reader,
    steps: int,
    tasks: Iterable[Sequence[R]],
    start: Callable[[Sequence[R]], tuple[Any, ...]],
    land: Callable[[Sequence[R], Any], None],
) -> None:
    """Let an executor do tasks, each with the requests of some steps.

    ``start(task)`` returns a function and its arguments, ``land(task, result)`` takes what the
    function returned where it was called.
    """
    report = reporter(call.progress)
    in_flight: _InFlight[R] = _InFlight(call, reader)
    done = 0

    def take() -> None:
        nonlocal done
        task, result = in_flight.take()
        try:
            land(task, result)
        except (NdgatherError, MemoryError):
            raise
        except Exception as error:  # it is not what the function returned
            raise in_flight.failure(task, error) from error
        done += len(task)
        report(done, steps)

    try:
        report(0, steps)
        for task in tasks:
            while in_flight.has_landed() or not in_flight.has_room(task):
                take()
            in_flight.start(task, *start(task))
        while in_flight.pending:
            take()
    finally:
        in_flight.cancel()
        report.close()


class _InFlight(Generic[R]):
    """The tasks that an executor has."""

    def __init__(self, call: Call, reader: Reader) -> None:
        self.pending: dict[Any, Sequence[R]] = {}
        self._call, self._reader = call, reader
        self._bytes = 0
        self._most = _MEMORY if call.memory is None else call.memory
        self._landed: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def has_room(self, task: Sequence[R]) -> bool:
        return not self.pending or self._bytes + total_bytes(task) <= self._most

    def has_landed(self) -> bool:
        return not self._landed.empty()

    def start(self, task: Sequence[R], function: Callable[..., Any], *arguments: Any) -> None:
        try:
            future = self._call.executor.submit(function, *arguments)
            future.add_done_callback(self._landed.put)
        except Exception as error:
            raise self.failure(task, error) from error
        self.pending[future] = task
        self._bytes += total_bytes(task)

    def take(self) -> tuple[Sequence[R], Any]:
        """Wait for the next task to be done; return it and what it sends back."""
        future = self._landed.get()
        task = self.pending.pop(future)
        self._bytes -= total_bytes(task)
        try:
            return task, future.result()
        except (NdgatherError, MemoryError):
            raise
        except Exception as error:
            raise self.failure(task, error) from error

    def cancel(self) -> None:
        for future in self.pending:
            future.cancel()

    def failure(self, task: Sequence[R], error: BaseException) -> NdgatherError:
        chunk = task[0].chunk
        box = self._reader.grid.box(chunk)
        return stored_errors.executor_failed(
            self._call.caller, self._reader.name, chunk, box, self._call.executor, error
        )


def total_bytes(task: Sequence[Request]) -> int:
    return sum(each.bytes for each in task)


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
