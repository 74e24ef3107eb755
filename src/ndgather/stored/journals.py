"""Journals of the chunks that a scatter has replaced, so that a killed call can be resumed.

Before a chunk is replaced, a line with digests of its old and new values is written, and a second
line is written afterwards. If the second line is missing, the digest of the chunk's current values
shows whether the chunk was replaced.
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
    """A call in a journal."""

    def __init__(self, digest: str) -> None:
        self.digest = digest
        self.digests: dict[str, tuple[str, str]] = {}  # digests of old and new values, by chunk
        self.done: set[str] = set()


class Journal:
    """An open journal, with the records of earlier and current calls."""

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
                raise self._error("is in use by another process (allowed: one process)") from error

    def _read(self) -> None:
        with open(self._file, "rb", closefd=False) as file:
            content = file.read()
        whole = content.rfind(b"\n") + 1  # a killed process may leave an incomplete last line
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
                        f"has an invalid line, {shown_value(line)} (allowed: a new file, or a "
                        f"file written by `journal`)"
                    )
        os.ftruncate(self._file, whole)
        if whole == 0:
            self._write(_FIRST_LINE)

    def _own_errors(self) -> AbstractContextManager[None]:
        """Convert file system errors to a `FileError` that names the path."""
        return converted_errors(
            lambda error: unwritable(f"journal: path = {shown_value(self.path)}", error)
        )

    def _write(self, line: str) -> None:
        left = f"{line}\n".encode()
        with self._own_errors():
            while left:  # `os.write` may write fewer bytes than requested
                left = left[os.write(self._file, left) :]

    def _error(self, what: str) -> AttributeValueError:
        return AttributeValueError(f"journal: path = {shown_value(self.path)} {what}")

    def begin(self, plan: StoredPlan, writer: Writer) -> CallJournal:
        """Start a record for the next call, or resume its existing record."""
        caller = plan.call.caller
        if plan.call.executor is not None:
            raise AttributeValueError(
                f"{caller}: executor = {shown_value(plan.call.executor)} cannot be used with a "
                f"journal (allowed: None)"
            )
        if not getattr(writer, "replaces_objects", False):
            raise AttributeValueError(
                f"{caller}: out = {one_line(writer.name)} does not replace chunks atomically, so "
                f"it cannot be used with a journal (allowed: zarr and tensorstore, except ZIP "
                f"files, Icechunk, local files of fsspec and transactions)"
            )
        digest_of_call = _digest_of(plan, writer)
        if self.next_call == len(self.calls):
            self._write(f"call {digest_of_call}")
            self.calls.append(CallRecord(digest_of_call))
        elif self.calls[self.next_call].digest != digest_of_call:
            raise self._error(
                f"was written by other calls: call {self.next_call + 1} of the block differs "
                f"(allowed: the same arrays and options in the same order, or a new file)"
            )
        return CallJournal(self, self.calls[self.next_call], plan, writer)


class CallJournal:
    """The journal of a call."""

    def __init__(
        self, journal: Journal, record: CallRecord, plan: StoredPlan, writer: Writer
    ) -> None:
        self._journal, self._record = journal, record
        self._caller, self._writer = plan.call.caller, writer
        steps = range(len(plan))
        self.steps = [step for step in steps if _name(plan.chunk(step)) not in record.done]

    def was_replaced(self, chunk: Chunk, values: Array) -> bool:
        """Return whether a chunk with the given values has already been replaced."""
        digests = self._record.digests.get(_name(chunk))
        if digests is None:
            return False
        found = digest(values)
        if found not in digests:
            what = (
                "holds neither the old nor the new values of the interrupted call "
                "(allowed: lossless codecs, and no other writer)"
            )
            raise chunk_error(self._caller, self._writer, chunk, what)
        return found == digests[1]

    def replaces(self, chunk: Chunk, before: str, values: Array) -> None:
        """Record that a chunk is about to be replaced with `values`."""
        self._journal._write(f"replace {_name(chunk)} {before} {digest(values)}")

    def note_done(self, chunk: Chunk) -> None:
        self._journal._write(f"done {_name(chunk)}")
        self._record.done.add(_name(chunk))

    def end(self) -> None:
        """Mark the call as complete, so that the journal expects the next call."""
        self._journal.next_call += 1


def _name(chunk: Chunk) -> str:
    return ",".join(map(str, chunk)) or "-"


def digest(*arrays: Array, of: str = "") -> str:
    hashed = hashlib.blake2b(of.encode(), digest_size=16)
    for array in arrays:
        hashed.update(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data)
    return hashed.hexdigest()


def _digest_of(plan: StoredPlan, writer: Writer) -> str:
    call, grid = plan.call, writer.grid
    if call.data.dtype.hasobject or not call.data.dtype.itemsize:
        raise AttributeValueError(
            f"{call.caller}: data.dtype = {call.data.dtype} cannot be used with a journal "
            f"(allowed: dtypes of a fixed, nonzero size)"
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
    return _OPEN.get()


@own_errors("journal")
@contextmanager
def journal(path: str | os.PathLike[str]) -> Iterator[None]:
    """Context manager that makes scatters into stored arrays resumable.

    The journal records which chunks have been replaced. If the process is killed and the block runs
    again with the same journal, its calls skip these chunks. Every update is applied exactly once,
    even with ``reduction="add"`` and after several interruptions. If a block contains several
    calls, every run must make the same calls in the same order.

    Parameters
    ----------
    path : str or path
        The path of the journal; the file is created if it does not exist. Delete it once the block
        has finished: as long as it exists, the same calls do nothing.

    Raises
    ------
    AttributeValueError
        If the file is not a journal, is in use by another process or belongs to other calls; if a
        call has an executor; or if the store cannot replace a chunk atomically: HDF5, memory maps,
        ZIP files, Icechunk, local files of fsspec, tensorstore transactions.
    StoredArrayError
        If the chunk that was being replaced during the interruption holds neither its old nor its
        new values, because its codec is lossy or another process has written it.
    FileError
        If the file cannot be read or written, for example because the path is a directory or the
        disk is full. Once there is space on the disk, repeating the call resumes it.

    Notes
    -----
    A journal protects against the death of the process at any moment, but not against a crash of
    the machine, after which the file system may have kept the journal and lost a chunk.

    Examples
    --------
    >>> import tempfile, zarr, ndgather
    >>> from ndgather.stored import journal
    >>> path = f"{tempfile.mkdtemp()}/add.journal"
    >>> counts = zarr.create_array(store={}, shape=(100,), chunks=(10,), dtype="i8")
    >>> for _ in range(2):  # as if the process had been killed after the first round
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
