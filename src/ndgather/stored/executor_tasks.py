"""Tasks that an executor does: as many at once as there is memory for what they send and return."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ndgather.errors import NdgatherError, stored_errors
from ndgather.stored.progress import reporter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ndgather.array_call import Call
    from ndgather.stored.chunks import Chunk, Reader

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
