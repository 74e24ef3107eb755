"""Which planes of each array are drawn, and which rows and columns of each plane.

The last two axes of an array are rows and columns, the others are planes, and so are batch axes.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ndgather.show.coordinates import chosen, within
from ndgather.show.trace import batch_dims

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ndgather.show.trace import Named, Place, Trace

_COLUMNS, _PLANES, _CELLS, _WINDOW = 12, 6, 160, 25  # that are drawn at most
_FLAT = ((10, 8), (_COLUMNS, 8))  # rows and columns: at most, and where others are left out


@dataclass(frozen=True, slots=True)
class Sheet:
    """A plane: its place on the leading axes, and the coordinates that are drawn of the others."""

    head: Place
    flat: tuple[tuple[int, ...], ...]


Sheets: TypeAlias = tuple[Sheet, ...]


def is_whole(sheets: Sheets, shape: Sequence[int]) -> bool:
    """Whether every element of an array is drawn."""
    drawn = sum(math.prod(map(len, sheet.flat)) for sheet in sheets)
    return drawn == math.prod(shape)


def of_array(shape: Sequence[int]) -> Sheets:
    """Return what is drawn of an array of which nothing is named."""
    depth = _depth(shape, 0)
    heads = itertools.product(*within(shape[:depth], _PLANES))
    return tuple(Sheet(head, _flat(shape[depth:], [()] * 2)) for head in heads)


def of_entries(trace: Trace) -> Sheets:
    """Return what is drawn of indices that hold an integer for each entry."""
    return _of_coordinates(trace.drawn, batch_dims(trace.call))


def of_dense(trace: Trace) -> Sheets:
    """Return what is drawn of the result of a gather, or of the updates of a scatter."""
    axes, window, slices = trace.axes, trace.call.window_shape, _slices(trace)
    drawn: list[tuple[int, ...]] = [()] * len(trace.dense_shape)
    for axis, coordinates in zip(axes.dense_positions, trace.drawn, strict=True):
        drawn[axis] = coordinates
    for axis, other in zip(axes.slices, axes.dense_slices, strict=True):
        drawn[other] = slices[axis]
    lead = len(trace.drawn)
    drawn[lead : lead + len(window)] = within(window, _WINDOW)
    return _of_coordinates(drawn, batch_dims(trace.call))[: _PLANES + 2]


def of_data(trace: Trace, readable: bool) -> Sheets:
    """Return what is drawn of data: all of a small array, else what entries name, and the ends."""
    shape, slices = trace.call.data.shape, _slices(trace)
    depth = _depth(shape, batch_dims(trace.call))
    spans = [_spans(entry, slices) for entry in trace.entries if entry.data is not None]
    named = dict.fromkeys(
        head
        for span in spans
        for head in itertools.islice(itertools.product(*span[:depth]), _PLANES)
    )
    if math.prod(shape[:depth]) <= _PLANES:
        heads: Iterable[Place] = itertools.product(*map(range, shape[:depth]))
    elif named:
        heads = sorted(list(named)[:_PLANES])
    else:
        heads = itertools.product(*within(shape[:depth], _PLANES))
    one_plane = math.prod(shape[:depth]) == 1
    sheets = []
    for head in heads:
        here = [span for span in spans if all(map(_holds, span[:depth], head))]
        wanted = [[at for span in here for at in span[axis]] for axis in range(depth, len(shape))]
        sheets.append(Sheet(head, _flat(shape[depth:], wanted, readable, one_plane)))
    return tuple(sheets)


def _depth(shape: Sequence[int], shared: int) -> int:
    return max(len(shape) - 2, min(shared, len(shape) - 1), 0)


def _of_coordinates(drawn: Sequence[tuple[int, ...]], shared: int) -> Sheets:
    depth = _depth(drawn, shared)  # type: ignore[arg-type]  # as many as there are axes
    flat = tuple(drawn[depth:])
    return tuple(Sheet(head, flat) for head in itertools.product(*drawn[:depth]))


def _flat(
    shape: Sequence[int],
    wanted: Sequence[Iterable[int]],
    with_ends: bool = True,
    with_others: bool = True,
) -> tuple[tuple[int, ...], ...]:
    """Return rows and columns: of many, those wanted, and if asked for the ends and others."""
    found = []
    for size, (most, fewer), some in zip(shape, _FLAT[2 - len(shape) :], wanted, strict=False):
        limit = most if size <= most else fewer
        few = list(dict.fromkeys(some))
        ends = with_ends or not few
        if size > limit and few and not (with_ends and with_others):
            limit = min(limit, len({*few, 0, size - 1} if ends else few))
        found.append(chosen(size, limit, few, ends))
    return tuple(found)


def _slices(trace: Trace) -> dict[int, tuple[int, ...]]:
    """Return what is drawn of each axis of data that is copied whole."""
    axes, shape = trace.axes.slices, trace.call.data.shape
    inside = math.prod(trace.call.window_shape)
    most = max(_CELLS // max(len(trace.entries) * inside, 1), 2)
    some = within([shape[axis] for axis in axes], min(most, 3 * _COLUMNS))
    return {axis: each[:_COLUMNS] for axis, each in zip(axes, some, strict=True)}


def _spans(entry: Named, slices: dict[int, tuple[int, ...]]) -> list[Sequence[int]]:
    """Return what an entry names along each axis of data, as far as it can be drawn."""
    region = entry.data or ()
    return [slices.get(axis, (*each[:1], *each[-1:])) for axis, each in enumerate(region)]


def _holds(span: Sequence[int], at: int) -> bool:
    return at in span
