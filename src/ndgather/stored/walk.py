"""A bounded walk over chunks: each is read once, by threads, and used where it was read."""

from __future__ import annotations

import math
import queue
import threading
from contextvars import copy_context
from typing import TYPE_CHECKING

from ndgather.compiled import _core
from ndgather.errors import NdgatherError, option_errors, stored_errors
from ndgather.stored.chunks import Buffers, Turns
from ndgather.stored.progress import reporter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ndgather.array_call import Call
    from ndgather.stored.chunks import Array, Chunk, Reader, Writer


def walk(
    call: Call,
    reader: Reader,
    steps: int,
    chunk_of: Callable[[int], Chunk],
    use: Callable[[int, Chunk, Array], None],
    is_read: Callable[[int], bool] = lambda _: True,
) -> None:
    """Read the chunk of each of so many steps, and call ``use(step, chunk, values)`` with it.

    Where a step is not to be read, the values may be any. Workers do both, so `use` is called from
    many threads, each time with another step; what it gets is the worker's only until it returns.
    After an error, of whatever kind, no worker is left.

    Raises
    ------
    StoredArrayError
        A chunk could not be read.
    """
    readers, decoding = workers(call, reader, steps)
    report = reporter(call.progress)
    run = _Run(reader, steps, chunk_of, use, is_read, Turns(decoding), call)
    threads = [
        threading.Thread(
            name="ndgather-reader", target=copy_context().run, args=(run.work,), daemon=True
        )
        for _ in range(readers)
    ]
    try:
        if not _started(threads):
            run.work()  # no thread can be had: this one does it all
        report(0, steps)
        done = 0
        while done < steps:
            news = run.news.get()
            if isinstance(news, BaseException):
                raise news
            done = news
            report(done, steps)
    finally:
        run.stopped = True
        try:
            _join([each for each in threads if each.ident is not None], run.ended)
        finally:
            report.close()


def _started(threads: Sequence[threading.Thread]) -> int:
    """Start threads, and return how many: there may be fewer than are wanted."""
    for number, each in enumerate(threads):
        try:
            each.start()
        except RuntimeError:  # the system gives no more
            return number
    return len(threads)


def _join(threads: Sequence[threading.Thread], ended: queue.SimpleQueue[None]) -> None:
    """Wait until all have ended; interrupts wait until then too.

    A `Thread.join` that is interrupted takes the thread for one that has ended.
    """
    interrupt: KeyboardInterrupt | None = None
    left = len(threads)
    while left:
        try:
            ended.get()
            left -= 1
        except KeyboardInterrupt as error:
            interrupt = error
    for each in threads:
        each.join()
    if interrupt is not None:
        raise interrupt


def workers(call: Call, reader: Reader, steps: int) -> tuple[int, int]:
    """Return how many workers read, and how many of them may hold a decoded chunk."""
    decoding = min(_core.get_num_threads(), steps)
    readers = min(max(decoding, reader.in_flight), steps)
    if call.memory is None:
        return readers, max(decoding, 1)
    raw, stored = _worked_on(call, reader), reader.stored_bytes
    least = raw + 2 * stored
    if call.memory < least:
        why = f"one chunk of {reader.name}, {raw} bytes and {stored} as it is stored"
        raise option_errors.memory_too_small(call.caller, call.memory, least, why)
    while decoding > 1 and decoding * (raw + stored) + decoding * stored > call.memory:
        decoding -= 1
    most = (call.memory - decoding * (raw + stored)) // max(stored, 1)
    return max(1, min(readers, most)), max(decoding, 1)


def _worked_on(call: Call, reader: Reader) -> int:
    """Return the bytes of a decoded chunk, with what its mean takes where that is reduced to."""
    raw = reader.chunk_bytes
    if not call.scatters or call.reduction != "mean":
        return raw
    return 3 * raw + 17 * (raw // reader.dtype.itemsize)  # counts, and what of both is divided


class _Run:
    """What the workers of one walk share.

    Their news are how many steps are done, or an error. A small chunk takes less time than to wake
    the thread that waits for news: where nobody is told of progress, only the last count is put.
    """

    def __init__(
        self,
        reader: Reader,
        steps: int,
        chunk_of: Callable[[int], Chunk],
        use: Callable[[int, Chunk, Array], None],
        is_read: Callable[[int], bool],
        turns: Turns,
        call: Call,
    ) -> None:
        self.news: queue.SimpleQueue[int | BaseException] = queue.SimpleQueue()
        self.ended: queue.SimpleQueue[None] = queue.SimpleQueue()  # one for each worker
        self.stopped = False
        self._steps, self._taken, self._done = steps, 0, 0
        self._lock = threading.Lock()
        self._reader, self._chunk_of, self._use = reader, chunk_of, use
        self._is_read = is_read
        self._turns, self._caller, self._tells = turns, call.caller, call.progress is not None

    def work(self) -> None:
        try:
            self._work()
        finally:
            self.ended.put(None)

    def _work(self) -> None:
        buffers = Buffers(self._turns, lambda: self.stopped)
        while (step := self._take()) is not None:
            try:
                chunk = self._chunk_of(step)
                values = self._read if self._is_read(step) else self._unread
                self._use(step, chunk, values(chunk, buffers))
            except BaseException as error:
                self.news.put(error)
                return
            finally:
                buffers.release()
            self._count()

    def _take(self) -> int | None:
        with self._lock:
            if self.stopped or self._taken == self._steps:
                return None
            self._taken += 1
            return self._taken - 1

    def _count(self) -> None:
        with self._lock:
            self._done += 1
            if self._tells or self._done == self._steps:
                self.news.put(self._done)

    def _read(self, chunk: Chunk, buffers: Buffers) -> Array:
        return read(self._caller, self._reader, chunk, buffers)

    def _unread(self, chunk: Chunk, buffers: Buffers) -> Array:
        """Return memory for the values of a chunk, with anything in it."""
        shape, dtype = self._reader.grid.extent(chunk), self._reader.dtype
        memory: Array = buffers.decoded(math.prod(shape) * dtype.itemsize)
        return memory.view(dtype).reshape(shape)


def write(caller: str, writer: Writer, chunk: Chunk, values: Array) -> None:
    """Replace a chunk; an error says which.

    Raises
    ------
    StoredArrayError
        It could not be written.
    """
    try:
        writer.write(chunk, values)
    except (MemoryError, NdgatherError):
        raise
    except Exception as error:
        box = writer.grid.box(chunk)
        raise stored_errors.cannot_write(caller, writer.name, chunk, box, error) from error


def read(caller: str, reader: Reader, chunk: Chunk, buffers: Buffers) -> Array:
    """Read a chunk; an error says which, and what is read has the shape and dtype that it should.

    Raises
    ------
    StoredArrayError
        It could not be read.
    """
    grid = reader.grid
    try:
        values = reader.read(chunk, buffers)
    except (MemoryError, NdgatherError):
        raise
    except Exception as error:
        box = grid.box(chunk)
        raise stored_errors.cannot_read(caller, reader.name, chunk, box, error) from error
    shape = grid.extent(chunk)
    if values.shape != shape or values.dtype != reader.dtype:
        box, wrong = grid.box(chunk), f"{values.dtype} values of shape {values.shape}"
        raise stored_errors.wrong_chunk(
            caller, reader.name, chunk, box, wrong, f"{reader.dtype} values of shape {shape}"
        )
    return values
