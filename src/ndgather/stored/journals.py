"""Journals: which chunks a scatter has replaced, so that a call that was killed can go on.

A line is written before a chunk is replaced, with digests of its old and new values, and another
line behind it. A chunk with the first line alone was replaced if it holds its new values.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import numpy as np

from ndgather.api import own_errors
from ndgather.array_call import Array
from ndgather.errors import AttributeValueError, one_line
from ndgather.messages import converted_errors, shown_value, unwritable
from ndgather.stored.chunks import Chunk, Writer
from ndgather.stored.plan import StoredPlan
from ndgather.stored.walk import chunk_error

_FIRST_LINE = "ndgather journal 1"


class CallRecord:
    """What a journal says about one call."""

    def __init__(self, digest: str) -> None:
        self.digest = digest
        self.digests: dict[str, tuple[str, str]] = {}  # of the values of chunks, before and after
        self.done: set[str] = set()


class Journal:
    """An open journal; `calls` are those it began with, and those that were added."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.calls: list[CallRecord] = []
        self.next_call = 0
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        with self._own_errors():
            self._file = os.open(self.path, flags, 0o666)
        try:
            self._lock()
            with self._own_errors():
                self._read()
        except BaseException:
            os.close(self._file)
            raise

    def close(self) -> None:
        os.close(self._file)

    def _lock(self) -> None:
        with suppress(ImportError):  # not on Windows
            import fcntl  # noqa: PLC0415

            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise self._error("is used by another process (allowed: one at a time)") from error

    def _read(self) -> None:
        with open(self._file, "rb", closefd=False) as file:
            content = file.read()
        whole = content.rfind(b"\n") + 1  # the last line is cut if the process ended meanwhile
        _, *lines = content[:whole].decode(errors="replace").split("\n")
        begun = f"{_FIRST_LINE}\n".encode()
        if not (content.startswith(begun) or begun.startswith(content)):
            raise self._error(
                "is not a journal (allowed: a new file, or a file written by `journal`)"
            )
        for line in lines[:-1]:
            match line.split():
                case ["call", digest]:
                    self.calls.append(CallRecord(digest))
                case ["replace", chunk, before, after] if self.calls:
                    self.calls[-1].digests[chunk] = before, after
                case ["done", chunk] if self.calls:
                    self.calls[-1].done.add(chunk)
                case _:
                    raise self._error(
                        f"has a line that no journal writes, {shown_value(line)} (allowed: a new "
                        f"file, or a file written by `journal`)"
                    )
        os.ftruncate(self._file, whole)
        if whole == 0:
            self._write(_FIRST_LINE)

    def _own_errors(self) -> AbstractContextManager[None]:
        """Raise FileError with the path for an error of the file system."""
        return converted_errors(
            lambda error: unwritable(f"journal: path = {shown_value(self.path)}", error)
        )

    def _write(self, line: str) -> None:
        left = f"{line}\n".encode()
        with self._own_errors():
            while left:  # a write may be shorter than what it is given
                left = left[os.write(self._file, left) :]

    def _error(self, what: str) -> AttributeValueError:
        return AttributeValueError(f"journal: path = {shown_value(self.path)} {what}")

    def begin(self, plan: StoredPlan, writer: Writer) -> CallJournal:
        """Return the journal of the next call, which is a new one or that of the same call."""
        caller = plan.call.caller
        if plan.call.executor is not None:
            raise AttributeValueError(
                f"{caller}: executor = {shown_value(plan.call.executor)} cannot be used in a "
                f"journal (allowed: None)"
            )
        if not getattr(writer, "replaces_objects", False):
            raise AttributeValueError(
                f"{caller}: out = {one_line(writer.name)} does not replace whole chunks in one "
                f"step, so it cannot be used in a journal (allowed: zarr and tensorstore, but not "
                f"ZIP files, Icechunk, local files of fsspec and transactions)"
            )
        digest_of_call = _digest_of(plan, writer)
        if self.next_call == len(self.calls):
            self._write(f"call {digest_of_call}")
            self.calls.append(CallRecord(digest_of_call))
        elif self.calls[self.next_call].digest != digest_of_call:
            raise self._error(
                f"was written by another call: call {self.next_call + 1} of the block differs "
                f"(allowed: the same arrays and options in the same order, or a new file)"
            )
        return CallJournal(self, self.calls[self.next_call], plan, writer)


class CallJournal:
    """The part of a journal for one call."""

    def __init__(
        self, journal: Journal, record: CallRecord, plan: StoredPlan, writer: Writer
    ) -> None:
        self._journal, self._record = journal, record
        self._caller, self._writer = plan.call.caller, writer
        steps = range(len(plan))
        self.steps = [step for step in steps if _name(plan.chunk(step)) not in record.done]

    def was_replaced(self, chunk: Chunk, values: Array) -> bool:
        """Whether a chunk that holds `values` was replaced before the process ended."""
        digests = self._record.digests.get(_name(chunk))
        if digests is None:
            return False
        found = digest(values)
        if found not in digests:
            what = (
                "holds neither its values before nor those after the call that was interrupted "
                "(allowed: lossless codecs, and no other writer)"
            )
            raise chunk_error(self._caller, self._writer, chunk, what)
        return found == digests[1]

    def replaces(self, chunk: Chunk, before: str, values: Array) -> None:
        """Note that a chunk is about to be replaced by `values`."""
        self._journal._write(f"replace {_name(chunk)} {before} {digest(values)}")

    def note_done(self, chunk: Chunk) -> None:
        self._journal._write(f"done {_name(chunk)}")
        self._record.done.add(_name(chunk))

    def end(self) -> None:
        """Let the next call begin; a call that fails may be made again."""
        self._journal.next_call += 1


def _name(chunk: Chunk) -> str:
    return ",".join(map(str, chunk)) or "-"


def digest(*arrays: Array, of: str = "") -> str:
    """Return a digest of the elements of arrays, bit by bit."""
    hashed = hashlib.blake2b(of.encode(), digest_size=16)
    for array in arrays:
        hashed.update(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data)
    return hashed.hexdigest()


def _digest_of(plan: StoredPlan, writer: Writer) -> str:
    call, grid = plan.call, writer.grid
    if call.data.dtype.hasobject or not call.data.dtype.itemsize:
        raise AttributeValueError(
            f"{call.caller}: data.dtype = {call.data.dtype} cannot be used in a journal (allowed: "
            f"dtypes of a fixed size)"
        )
    options = (
        call.kind.value,
        call.axis,
        call.batch_dims,
        str(call.mode),
        call.reduction,
        call.use_init_val,
    )
    lengths = [n if isinstance(n, int) else n.tolist() for n in grid.chunk_lengths]
    described: list[Any] = [writer.name, grid.shape, lengths, writer.dtype.str, *options]
    for array in (call.indices, call.updates):
        described += [array.shape, array.dtype.str]
    arrays = (np.atleast_1d(array) for array in (call.indices, call.updates))
    return digest(*arrays, of=repr(described))


_OPEN: ContextVar[Journal | None] = ContextVar("journal", default=None)


def open_journal() -> Journal | None:
    """Return the journal of the ``with`` block around this call."""
    return _OPEN.get()


@own_errors("journal")
@contextmanager
def journal(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let scatters into stored arrays resume after the process was killed, in a ``with`` block.

    The journal notes which chunks were replaced. If the same calls are made again with the same
    journal, these chunks are left alone: every update counts once, also with
    ``reduction="add"``, however often the process was killed. A block may hold several calls, which
    have to be the same, and in the same order, when it runs again.

    Parameters
    ----------
    path : str or path
        The file of the journal, which is made if it does not exist. Delete it when the block has
        ended: while it exists, the same calls do nothing.

    Raises
    ------
    AttributeValueError
        The file is no journal, is used by another process, or has other calls; a call has an
        executor, or a store that does not replace a chunk in one step: HDF5, memory maps, ZIP
        files, Icechunk, local files of fsspec, transactions of tensorstore.
    StoredArrayError
        The chunk that was being replaced when the process ended holds neither its old nor its new
        values: its codec is lossy, or another process has written to it.
    FileError
        The file cannot be read or written, because it is a folder, for example, or the disk is
        full. Of a full disk, the same call goes on when there is space.

    Notes
    -----
    This is for processes that end, at any moment and in any way. After a crash of the machine a
    file system may have kept the journal, but not a chunk.

    Examples
    --------
    >>> import tempfile, zarr, ndgather
    >>> from ndgather.stored import journal
    >>> path = f"{tempfile.mkdtemp()}/add.journal"
    >>> counts = zarr.create_array(store={}, shape=(100,), chunks=(10,), dtype="i8")
    >>> for _ in range(2):  # as if the process had ended
    ...     with journal(path):
    ...         _ = ndgather.scatter_nd(counts, [[3], [3]], [1, 1], reduction="add", out=counts)
    >>> counts[3]
    array(2)
    """
    opened = Journal(path)
    token = _OPEN.set(opened)
    try:
        yield
    finally:
        _OPEN.reset(token)
        opened.close()
