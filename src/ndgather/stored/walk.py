"""Read the chunks of a plan with several workers; each worker processes the chunks that it reads.

Workers are threads of this process or tasks of an executor. Memory is bounded, because both the
number of decoded chunks in threads and the number of bytes in transit to an executor are limited.
"""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Protocol, TypeAlias

from ndgather import messages
from ndgather.array_call import Array, Call, _core
from ndgather.errors import AttributeValueError, StoredArrayError, one_line
from ndgather.messages import reason
from ndgather.stored.chunks import Buffers, Chunk, Reader, Writer, new_permits

Request: TypeAlias = tuple[Chunk, bool, Callable[[Array], Any]]

_MEMORY = 2**26  # default limit for the bytes in transit to and from an executor

# An executor task transfers about 1 MiB but reads at most 64 chunks and at most 1/64 of all chunks.
_TASK_BYTES = 2**20
_MOST_CHUNKS = 64
_TASKS = 64
_POLL_SECONDS = 0.1


class Job(Protocol):
    """How a chunk is processed."""

    @property
    def chunk(self) -> Chunk: ...

    @property
    def is_read(self) -> bool:
        """True if the job needs the values of the chunk."""

    def use(self, values: Array) -> None:
        """Process the chunk in a thread, without keeping `values`, whose memory is reused."""

    def send(self) -> tuple[Callable[[Array], Any], int]:
        """Return a picklable function to apply to the values, and the number of bytes to send."""

    def receive(self, result: Any) -> None:
        """Finish the job with the result computed by the function that `send` returned."""


def walk(call: Call, reader: Reader, steps: int, job_of: Callable[[int], Job]) -> None:
    """Read the chunk of every step and run its job.

    Several threads call `job_of` and run jobs at the same time. An error of any kind ends all
    threads and cancels the executor tasks that have not started.
    """
    run = (_on_threads if call.executor is None else _by_executor)(call, reader, steps, job_of)
    if call.progress is None:
        with closing(run):
            for _ in run:
                pass
        return
    with _reporter(call.progress, steps) as report, closing(run):
        report(0)
        for done in run:
            report(done)


@contextmanager
def _reporter(progress: Any, steps: int) -> Iterator[Callable[[int], object]]:
    """Yield a function that passes the number of finished steps to `progress` or tqdm."""
    if progress is not True:
        yield lambda done: progress(done, steps)
        return
    messages.need("tqdm", "stores")
    from tqdm.auto import tqdm  # noqa: PLC0415 - an optional package

    with tqdm(total=steps, unit="chunk") as bar:
        yield lambda done: bar.update(done - bar.n)


def _on_threads(
    call: Call, reader: Reader, steps: int, job_of: Callable[[int], Job]
) -> Generator[int, None, None]:
    """Read chunks and run jobs in threads, and yield the number of finished steps."""
    readers, decoding = workers(call, reader, steps)
    permits, lock = new_permits(decoding), threading.Lock()
    todo, done, stopped = iter(range(steps)), 0, False
    news: queue.SimpleQueue[int | BaseException | None] = queue.SimpleQueue()
    ended: list[None] = []  # an entry per thread

    def work() -> None:
        nonlocal done
        buffers = Buffers(permits, lambda: stopped)
        try:
            while True:
                with lock:
                    step = None if stopped else next(todo, None)
                if step is None:
                    return
                job = job_of(step)
                job.use(read_chunk(call.caller, reader, job.chunk, job.is_read, buffers))
                buffers.release_permit()
                with lock:
                    done += 1
                    # Waking up the caller takes longer than processing a small chunk.
                    if call.progress is not None or done == steps:
                        news.put(done)
        except BaseException as error:
            news.put(error)
        finally:
            buffers.release_permit()
            ended.append(None)
            news.put(None)  # wakes up the caller

    threads = [
        threading.Thread(
            name="ndgather-reader", target=copy_context().run, args=(work,), daemon=True
        )
        for _ in range(readers)
    ]
    try:
        with suppress(RuntimeError):  # raised if no more threads can be started
            for thread in threads:
                thread.start()
        if not threads or not threads[0].ident:
            work()
        reported = 0
        while reported < steps:
            item = _next(news)
            if isinstance(item, BaseException):
                raise item
            if item is not None:
                reported = item
                yield reported
    finally:
        stopped = True
        _join([thread for thread in threads if thread.ident], ended, news)


def _next(news: queue.SimpleQueue[Any]) -> Any:
    """Return the next entry; short waits ensure that an interrupt just before a wait is handled."""
    while True:
        with suppress(queue.Empty):
            return news.get(timeout=_POLL_SECONDS)


def _join(
    threads: Sequence[threading.Thread], ended: list[None], news: queue.SimpleQueue[Any]
) -> None:
    """Wait until all threads have ended, and only then raise an interrupt.

    An interrupted `Thread.join` would mark its thread as ended, and an interrupted `get` may lose
    an entry, so wait for an entry of each thread in `ended` first.
    """
    interrupt: KeyboardInterrupt | None = None
    while len(ended) < len(threads):
        try:
            with suppress(queue.Empty):
                news.get(timeout=_POLL_SECONDS)
        except KeyboardInterrupt as error:
            interrupt = error
    for thread in threads:
        thread.join()
    if interrupt is not None:
        raise interrupt


def workers(call: Call, reader: Reader, steps: int) -> tuple[int, int]:
    """Return the number of reading threads and the maximum number of decoded chunks."""
    decoding = min(_core.get_num_threads(), steps)
    readers = min(max(decoding, reader.in_flight), steps)
    if call.memory is None:
        return readers, max(decoding, 1)
    raw, stored = reader.chunk_bytes, reader.stored_bytes
    if call.scatters and call.reduction == "mean":
        # A mean takes 9 more bytes per element for counts, and two copies of byte-swapped values.
        raw = (1 if reader.dtype.isnative else 3) * raw + 9 * (raw // reader.dtype.itemsize)
    least = raw + 2 * stored
    if call.memory < least:
        raise AttributeValueError(
            f"{call.caller}: memory = {call.memory} bytes is too small for a chunk of "
            f"{reader.name}, {raw} bytes decoded and {stored} stored (allowed: at least {least})"
        )
    while decoding > 1 and decoding * (raw + stored) + decoding * stored > call.memory:
        decoding -= 1
    most = (call.memory - decoding * (raw + stored)) // max(stored, 1)
    return max(1, min(readers, most)), max(decoding, 1)


def _by_executor(
    call: Call, reader: Reader, steps: int, job_of: Callable[[int], Job]
) -> Generator[int, None, None]:
    """Read chunks and run jobs in an executor, and yield the number of finished steps."""
    most = _MEMORY if call.memory is None else call.memory
    landed: queue.SimpleQueue[Any] = queue.SimpleQueue()
    pending: dict[Any, tuple[list[Job], int]] = {}
    sent = done = 0
    tasks = _tasks(map(job_of, range(steps)), steps)
    task = next(tasks, None)
    try:
        while task is not None or pending:
            has_room = not pending or (task is not None and sent + task[2] <= most)
            if task is not None and has_room and landed.empty():
                jobs, requests, count = task
                with _named(call, reader, jobs[0].chunk):
                    future = call.executor.submit(do_jobs, call.caller, reader, requests)
                    future.add_done_callback(landed.put)
                pending[future] = jobs, count
                sent += count
                task = next(tasks, None)
                continue
            future = _next(landed)
            jobs, count = pending.pop(future)
            sent -= count
            with _named(call, reader, jobs[0].chunk):
                for job, result in zip(jobs, future.result(), strict=True):
                    job.receive(result)
            done += len(jobs)
            yield done
    finally:
        for future in pending:
            future.cancel()


@contextmanager
def _named(call: Call, reader: Reader, chunk: Chunk) -> Iterator[None]:
    """Convert errors of an executor or its tasks to errors that name the executor and chunk."""
    what = f"was not read by executor = {type(call.executor).__name__} object"
    with messages.converted_errors(partial(chunk_error, call.caller, reader, chunk, what)):
        yield


def _tasks(jobs: Iterator[Job], steps: int) -> Iterator[tuple[list[Job], list[Request], int]]:
    """Group jobs into tasks; yield the jobs, requests and bytes in transit of each task."""
    most = min(max(1, steps // _TASKS), _MOST_CHUNKS)
    task: list[Job] = []
    requests: list[Request] = []
    size = 0
    for job in jobs:
        function, count = job.send()
        task.append(job)
        requests.append((job.chunk, job.is_read, function))
        size += count
        if len(task) == most or size >= _TASK_BYTES:
            yield task, requests, size
            task, requests, size = [], [], 0
    if task:
        yield task, requests, size


def do_jobs(caller: str, reader: Reader, requests: Sequence[Request]) -> list[Any]:
    """Run a task of an executor: read each requested chunk and apply its function."""
    buffers = Buffers()
    results = []
    for chunk, is_read, function in requests:
        results.append(function(read_chunk(caller, reader, chunk, is_read, buffers)))
        buffers.release_permit()
    return results


def read_chunk(caller: str, reader: Reader, chunk: Chunk, is_read: bool, buffers: Buffers) -> Array:
    """Read and check a chunk, or return uninitialized memory if `is_read` is false."""
    shape = reader.grid.extent(chunk)
    if not is_read:
        memory: Array = buffers.decoded(math.prod(shape) * reader.dtype.itemsize)
        return memory.view(reader.dtype).reshape(shape)
    unread = partial(chunk_error, caller, reader, chunk, "cannot be read")
    with messages.converted_errors(unread):
        values = reader.read(chunk, buffers)
    if values.shape != shape or values.dtype != reader.dtype:
        raise chunk_error(
            caller,
            reader,
            chunk,
            f"has {values.dtype} values of shape {values.shape} "
            f"(allowed: {reader.dtype} values of shape {shape})",
        )
    return values


def write(caller: str, writer: Writer, chunk: Chunk, values: Array) -> None:
    unwritten = partial(chunk_error, caller, writer, chunk, "cannot be written")
    with messages.converted_errors(unwritten):
        writer.write(chunk, values)


def chunk_error(
    caller: str, reader: Reader, chunk: Chunk, what: str, cause: Exception | None = None
) -> StoredArrayError:
    """Return an error that names a chunk and the part of the array that it stores."""
    if cause is not None:
        what = f"{what}: {type(cause).__name__}: {reason(cause)}"
    box = reader.grid.box(chunk)
    number = ", ".join(map(str, chunk))
    held = ", ".join(f"{part.start}:{part.stop}" for part in box)
    return StoredArrayError(
        f"{caller}: chunk ({number}) of {one_line(reader.name)}, which holds [{held}], {what}",
        name=reader.name,
        chunk=tuple(chunk),
        box=box,
    )
