"""Errors of the values and the type of `indices`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import DTypeError, IndexOutOfBoundsError, NdgatherError

if TYPE_CHECKING:
    from collections.abc import Sequence


def index_out_of_bounds(
    caller: str,
    position: tuple[int, ...],
    value: int,
    axis: int,
    size: int,
    lowest: int,
    count: int,
    total: int,
) -> IndexOutOfBoundsError:
    where = str(position)[1:-1].rstrip(",")
    allowed = f"allowed: {lowest}..{size - 1}" if size else "the axis is empty"
    others = f"; {count} of {total} entries of indices are out of bounds" if count > 1 else ""
    return IndexOutOfBoundsError(
        f"{caller}: indices[{where}] = {value} is outside axis {axis} "
        f"of data, which has size {size} ({allowed}){others}",
        position=position,
        value=value,
        axis=axis,
        size=size,
        count=count,
    )


def window_outside(
    caller: str,
    window: Sequence[int],
    position: tuple[int, ...],
    value: int,
    axis: int,
    begins: int,
    lowest: int,
    count: int,
    total: int,
) -> IndexOutOfBoundsError:
    """Facts are those of an index into the `begins` positions at which a window may begin."""
    where, size = str(position)[1:-1].rstrip(","), begins + window[axis] - 1
    others = f"; {count} of {total} entries of starts are out of bounds" if count > 1 else ""
    return IndexOutOfBoundsError(
        f"{caller}: starts[{where}] = {value} lets a window of size {window[axis]} stick out of "
        f"axis {axis} of data, which has size {size} (allowed: {lowest}..{begins - 1}){others}",
        position=position,
        value=value,
        axis=axis,
        size=size,
        count=count,
    )


def index_dtype(caller: str, dtype: object, kind: str, name: str = "indices") -> DTypeError:
    return DTypeError(
        f"{caller}: {name}.dtype = {dtype} is {kind} (allowed: int8..int64, uint8..uint64)"
    )


def indices_changed(caller: str) -> NdgatherError:
    return NdgatherError(
        f"{caller}: indices changed while they were read (another thread wrote an entry that is "
        f"out of bounds, and replaced it)"
    )
