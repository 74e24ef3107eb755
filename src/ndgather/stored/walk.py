"""A bounded walk over chunks: each is read once, by threads, and used where it was read."""

from __future__ import annotations

import math
import queue
import threading
from contextvars import copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ndgather import slow_path
from ndgather.array_call import _core
from ndgather.errors import NdgatherError, option_errors, run_errors, stored_errors
from ndgather.stored.chunks import Buffers, Turns
from ndgather.stored.grouping import ChunkedPoints, coordinates, move

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ndgather.array_call import Call
    from ndgather.stored.chunks import Array, Chunk, Grid, Reader, Writer

    Integers = NDArray[np.int64]


class Report(Protocol):
    """Is called with the numbers of chunks done and in all, and closed at the end."""

    def __call__(self, done: int, total: int) -> None: ...

    def close(self) -> None: ...


class _Calls:
    """Calls a function of the caller's, or nobody."""

    def __init__(self, function: Callable[[int, int], object] | None) -> None:
        self._function = function

    def __call__(self, done: int, total: int) -> None:
        if self._function is not None:
            self._function(done, total)

    def close(self) -> None:
        pass


class _Bar:
    """A bar of tqdm."""

    def __init__(self) -> None:
        try:
            from tqdm.auto import tqdm  # noqa: PLC0415 - an optional package
        except ImportError:
            raise run_errors.extra_missing("tqdm", "stores") from None
        self._make = tqdm
        self._bar: Any = None

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None:
            self._bar = self._make(total=total, unit="chunk")
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def reporter(progress: Any) -> Report:
    """Return whom to tell: a bar for True, nobody for None."""
    return _Bar() if progress is True else _Calls(progress)


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


@dataclass(frozen=True, slots=True)
class Places:
    """Where points lie in a block: their coordinates, as `ChunkedPoints` packs them."""

    bits: tuple[int, ...]
    local: NDArray[np.unsignedinteger[Any]]

    def read(self, block: Array) -> Array:
        """Return the values at these places; the axes that they have coordinates on come first."""
        count = len(self.local)
        values = np.empty((count, *block.shape[len(self.bits) :]), block.dtype)
        self.copy(np.arange(count, dtype=np.uint32), block, values)
        return values

    def copy(self, positions: Array, source: Array, target: Array) -> None:
        """Copy from these places of `source` to positions of `target`, whose axes come first."""
        if not len(self.local):
            return
        # What came from another process may begin at any byte.
        local, positions = (np.require(each, None, ["C", "A"]) for each in (self.local, positions))
        points = ChunkedPoints.one_group(self.bits, local, positions)
        move(points, points.runs(0), source, target)

    def coordinates(self) -> Array:
        """Return the places as tuples of indices."""
        unpacked = np.empty((len(self.local), len(self.bits)), np.intp)
        for axis, column in enumerate(coordinates(self.bits, self.local)):
            unpacked[:, axis] = column
        return unpacked


@dataclass(frozen=True, slots=True)
class Piece:
    """What is copied from one chunk: points that lie in it, to the part of the result they fill."""

    points: ChunkedPoints
    runs: tuple[Array, Array]
    view: Callable[[Array], Array]  # of the chunk: the axes of the points come first; is pickled
    target: Array  # the axes of the positions come first
    rank: int  # how many these are

    @property
    def value_bytes(self) -> int:
        """How many bytes there are for each point."""
        return math.prod(self.target.shape[self.rank :]) * self.target.itemsize

    def copy(self, chunk: Array) -> None:
        move(self.points, self.runs, self.view(chunk), self.target)


def write_piece(values: Array, positions: Array, dense: Array) -> None:
    """Set the positions of `dense`, whose axes of positions come first, to values."""
    count = len(positions)
    places = Places((max(0, count - 1).bit_length(),), np.arange(count, dtype=np.uint32))
    places.copy(positions, values, dense)


MOST_WINDOWS = 2**32  # whose numbers have 4 bytes
BLOCK = 2**17  # parts that are grouped at a time: what that takes is a few MiB


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of all windows, by chunk and by kind.

    Chunk ``chunks[c]`` has the kinds ``first[c]..first[c + 1]``. Parts of kind i are the points
    ``starts[i]..stops[i]``, and each is the box ``low[i]..high[i]`` of its window.
    """

    points: ChunkedPoints  # whose positions are the numbers of windows
    chunks: Integers
    first: Integers
    starts: Integers
    stops: Integers
    low: Integers
    high: Integers


@dataclass(frozen=True, slots=True)
class _Block:
    """The parts of some windows: as in `Parts`, with the chunk of each kind."""

    local: NDArray[np.unsignedinteger]
    positions: NDArray[np.uint32]
    chunk: Integers
    starts: Integers
    low: Integers
    high: Integers


def parts_of(call: Call, grid: Grid) -> Parts:
    """Return the parts of the windows of a call; `grid` is that of the axes of windows."""
    window = call.window_shape
    starts = call.indices.reshape(math.prod(call.indices.shape[:-1]), len(window))
    some = max(1, BLOCK // _most_parts(window, grid))
    blocks = [
        _block(call, starts[first : first + some], first, grid)
        for first in range(0, max(len(starts), 1), some)
    ]
    begins = np.cumsum([0, *(len(each.local) for each in blocks)])
    chunk = np.concatenate([each.chunk for each in blocks])
    first_points = np.concatenate(
        [each.starts + begin for each, begin in zip(blocks, begins[:-1], strict=True)]
    )
    stops = np.append(first_points[1:], begins[-1])
    order = np.argsort(chunk, kind="stable")
    chunks, first = np.unique(chunk[order], return_index=True)
    points = ChunkedPoints(
        grid.bits,
        np.concatenate([each.local for each in blocks]),
        np.concatenate([each.positions for each in blocks]),
        int(begins[-1]) + 1,
        chunks,
        first,
        first_points,
        stops,
        0,
    )
    return Parts(
        points,
        chunks,
        np.append(first, len(chunk)),
        first_points[order],
        stops[order],
        np.concatenate([each.low for each in blocks])[order],
        np.concatenate([each.high for each in blocks])[order],
    )


def _most_parts(window: tuple[int, ...], grid: Grid) -> int:
    """Return how many chunks a window can meet."""
    shortest = (
        step if isinstance(step, int) else int(np.diff(step).min(initial=1)) for step in grid.steps
    )
    return math.prod(
        min(size // step + 2, count)
        for size, step, count in zip(window, shortest, grid.counts, strict=True)
    )


def _block(call: Call, starts: Array, number: int, grid: Grid) -> _Block:
    """Return the parts of some windows; `number` is that of the first."""
    window, shape = np.array(call.window_shape, np.int64), np.array(grid.shape, np.int64)
    starts = slow_path.signed(starts).clip(-window, shape)
    if call.mode != "fill":
        starts = starts.clip(0, shape - window)
    low, high = slow_path.shared_parts(starts, grid.shape, call.window_shape)
    member = np.flatnonzero((low < high).all(axis=1))
    chunk: list[Integers] = []
    for axis, step in enumerate(grid.steps):
        first = _chunk_at(step, (starts + low)[member, axis])
        count = _chunk_at(step, (starts + high)[member, axis] - 1) - first + 1
        member = np.repeat(member, count)
        chunk = [np.repeat(each, count) for each in (*chunk, first)]
        chunk[-1] += np.arange(len(member)) - np.repeat(np.cumsum(count) - count, count)
    starts, low, high = starts[member], low[member], high[member]
    numbers = np.zeros(len(member), np.int64)
    local = np.zeros(len(member), np.uint64)
    for axis, step in enumerate(grid.steps):
        begin, end = _bounds(step, grid.shape[axis], chunk[axis])
        low[:, axis] = np.maximum(low[:, axis], begin - starts[:, axis])
        high[:, axis] = np.minimum(high[:, axis], end - starts[:, axis])
        at = (starts[:, axis] + low[:, axis] - begin).astype(np.uint64)
        local = (local << np.uint64(grid.bits[axis])) | at
        numbers = numbers * grid.counts[axis] + chunk[axis]
    order = np.lexsort((*high.T, *low.T, numbers))
    keys = np.column_stack([numbers, low, high])[order]
    new = np.flatnonzero(np.append(True, (keys[1:] != keys[:-1]).any(axis=1))[: len(keys)])
    return _Block(
        local[order].astype(np.uint32 if sum(grid.bits) <= 32 else np.uint64),
        (member[order] + number).astype(np.uint32),
        keys[new, 0],
        new,
        low[order[new]],
        high[order[new]],
    )


def _chunk_at(step: int | Integers, at: Integers) -> Integers:
    return at // step if isinstance(step, int) else np.searchsorted(step, at, side="right") - 1


def _bounds(step: int | Integers, size: int, chunk: Integers) -> tuple[Integers, Integers]:
    """Return where chunks begin and end along one axis."""
    if isinstance(step, int):
        return chunk * step, np.minimum((chunk + 1) * step, size)
    return step[chunk], step[chunk + 1]
