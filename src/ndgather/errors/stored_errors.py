"""Errors of arrays that are stored elsewhere: chunks that cannot be read or written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import AttributeValueError, DTypeError, ShapeError, StoredArrayError
from ndgather.errors.shape_errors import shown
from ndgather.errors.shown_values import shown_value
from ndgather.errors.texts import one_line, reason

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_SHOWN = 20  # chunks in one text


def too_many_places(caller: str, shape: Sequence[int], axes: Sequence[int]) -> ShapeError:
    return ShapeError(
        f"{caller}: data of shape {shown(shape)} has more places on axes {shown(axes)} than are "
        f"told apart (allowed: 2**63, where every size is rounded up to a power of two)"
    )


def not_stored(caller: str, data: object) -> DTypeError:
    return DTypeError(
        f"{caller}: data = {type(data).__name__} object is not stored, or not writeable (allowed: "
        f"an array of zarr, tensorstore or h5py, or a memory map)"
    )


def too_many_windows(caller: str, starts: Sequence[int], most: int) -> ShapeError:
    return ShapeError(
        f"{caller}: starts.shape = {shown(starts)} are more windows of a stored array than one "
        f"call takes (allowed: {most})"
    )


def cannot_read(
    caller: str, name: str, chunk: Sequence[int], box: Sequence[slice], error: BaseException
) -> StoredArrayError:
    return _of_chunk(caller, name, chunk, box, f"cannot be read: {_cause(error)}")


def cannot_write(
    caller: str, name: str, chunk: Sequence[int], box: Sequence[slice], error: BaseException
) -> StoredArrayError:
    return _of_chunk(caller, name, chunk, box, f"cannot be written: {_cause(error)}")


def wrong_chunk(
    caller: str, name: str, chunk: Sequence[int], box: Sequence[slice], got: str, wanted: str
) -> StoredArrayError:
    return _of_chunk(caller, name, chunk, box, f"has {got} (allowed: {wanted})")


def executor_failed(
    caller: str,
    name: str,
    chunk: Sequence[int],
    box: Sequence[slice],
    executor: object,
    error: BaseException,
) -> StoredArrayError:
    what = f"was not read by executor = {type(executor).__name__} object: {_cause(error)}"
    return _of_chunk(caller, name, chunk, box, what)


def not_this_type(caller: str, argument: str, value: object, allowed: type) -> DTypeError:
    package = allowed.__module__.partition(".")[0]
    return DTypeError(
        f"{caller}: {argument} = {type(value).__name__} object is not a stored array "
        f"(allowed: {package}.{allowed.__name__})"
    )


def without_values(caller: str, argument: str, value: object, why: str) -> DTypeError:
    return DTypeError(
        f"{caller}: {argument} = {type(value).__name__} object {why} (allowed: one with values)"
    )


def not_in_place(caller: str, out: object, data: object) -> AttributeValueError:
    kind = type(data).__name__
    return AttributeValueError(
        f"{caller}: out = {shown_value(out)} is not data, a stored {kind}, which is updated in "
        f"place only (allowed: the same object); write out=data"
    )


def partly_written(caller: str, name: str, written: Sequence[Sequence[int]], total: int) -> str:
    """Say how far a scatter came; a chunk whose writing failed is as its store leaves it."""
    some = ", ".join(f"({', '.join(map(str, chunk))})" for chunk in written[:_MOST_SHOWN])
    rest = ", ..." if len(written) > _MOST_SHOWN else ""
    which = f": {some}{rest}" if written else ""
    return (
        f"{caller}: {len(written) or 'none'} of {total} chunks of {one_line(name)} that are "
        f"updated were written{which}"
    )


def _of_chunk(
    caller: str, name: str, chunk: Sequence[int], box: Sequence[slice], what: str
) -> StoredArrayError:
    number = ", ".join(map(str, chunk))
    held = ", ".join(f"{each.start}:{each.stop}" for each in box)
    return StoredArrayError(
        f"{caller}: chunk ({number}) of {one_line(name)}, which holds [{held}], {what}",
        name=name,
        chunk=tuple(chunk),
        box=tuple(box),
    )


def _cause(error: BaseException) -> str:
    return f"{type(error).__name__}: {reason(error)}"
