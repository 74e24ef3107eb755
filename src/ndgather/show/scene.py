"""The content of pictures, without a layout.

`picture` and `svg` render scenes. A scene has panels, and a panel has planes of cells and boxes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ndgather.array_call import Array, Call
from ndgather.errors import IndexOutOfBoundsError, one_line
from ndgather.messages import shown, shown_value
from ndgather.reductions import ROWS
from ndgather.show.evaluate import (
    DrawnEntries,
    Entry,
    Evaluation,
    Position,
    Region,
    State,
    batch_dims,
    chosen,
    entries_shape,
    outside_state,
    resolve_entries,
    some_coordinates,
)

CellAt: TypeAlias = Callable[[Position], "Cell | None"]
Mark: TypeAlias = tuple[int, Region, bool]  # entry, region, `Box.replaced`
Spans: TypeAlias = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Cell:
    """The text and the state of a drawn element."""

    text: str
    state: State = State.PLAIN


@dataclass(frozen=True, slots=True)
class Box:
    """The rectangle of cells that an entry addresses; `rows` and `columns` are (first, last)."""

    entry: int
    rows: tuple[int, int]
    columns: tuple[int, int]
    replaced: bool = False  # whether a later update replaces this entry's update


@dataclass(frozen=True, slots=True)
class Plane:
    """Rows and columns of cells, where a label of None represents omitted rows or columns."""

    heading: str
    rows: tuple[str | None, ...]
    columns: tuple[str | None, ...]
    cells: tuple[tuple[Cell | None, ...], ...]
    boxes: tuple[Box, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The name, description and drawn planes of an array."""

    name: str
    about: str
    planes: tuple[Plane, ...]
    note: str = ""
    lists_entries: bool = False  # whether the boxes represent the entries of indices


@dataclass(frozen=True, slots=True)
class EntryLabel:
    """The letter of an index in a picture, and a sentence that describes its effect."""

    letter: str
    sentence: str
    state: State = State.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A call and its outcome, with the result in the last panel."""

    title: str
    panels: tuple[Panel, ...]
    entries: tuple[EntryLabel, ...]
    notes: tuple[str, ...] = ()
    error: str | None = None


def make_scene(evaluation: Evaluation, shape: tuple[int, ...] | None = None) -> Scene:
    """Return the scene for a call whose result will be reshaped to `shape`."""
    call, error = evaluation.call, evaluation.error
    panels: tuple[Panel, ...]
    labels: tuple[EntryLabel, ...] = ()
    notes: list[str] = []
    if evaluation.dense_shape is None or call.indices.dtype.kind not in "iu":
        panels = tuple(
            _whole_panel(name, array, evaluation.readable or name != "data")
            for name, array in call.named()[: 3 if call.scatters else 2]
        )
    else:
        wanted = error.position if isinstance(error, IndexOutOfBoundsError) else ()
        entries = resolve_entries(call, evaluation.dense_shape, wanted)
        panels = tuple(_Panels(evaluation, entries).all())
        labels = tuple(
            EntryLabel(letter(n), _sentence(entries, entry), entry.state)
            for n, entry in enumerate(entries.entries)
        )
        notes += [*_value_notes(entries), *_repeat_notes(entries)]
    notes += evaluation.notes
    if shape not in (None, evaluation.dense_shape) and error is None and not call.scatters:
        notes.append(
            f"the operator joins the batch axes: the shape of its result is {shown(shape or ())}"
        )
    return Scene(
        title=_title(call),
        panels=panels,
        entries=labels,
        notes=tuple(notes),
        error=None if error is None else str(error),
    )


_PLANES, _CELLS, _WINDOW = 6, 160, 25  # the maximum numbers to draw
_LIMITS = ((10, 8), (12, 8))  # if there are more than 10 rows or 12 columns, only 8 are drawn


class _DrawnPlane(NamedTuple):
    """A plane's position along the leading axes, and the coordinates drawn on other axes."""

    head: Position
    coordinates: tuple[tuple[int, ...], ...]


def _leading_axes(shape: Sequence[object], shared: int) -> int:
    """Return the number of leading axes that select a plane, including batch axes."""
    return max(len(shape) - 2, min(shared, len(shape) - 1), 0)


def _planes(coordinates: Sequence[tuple[int, ...]], shared: int) -> list[_DrawnPlane]:
    depth = _leading_axes(coordinates, shared)
    inner = tuple(coordinates[depth:])
    return [_DrawnPlane(head, inner) for head in itertools.product(*coordinates[:depth])]


def _data_planes(
    shape: Sequence[int], readable: bool, shared: int = 0, addressed: Sequence[Spans] = ()
) -> list[_DrawnPlane]:
    """Choose the parts of data to draw, which are the addressed parts unless data is small."""
    depth = _leading_axes(shape, shared)
    count = math.prod(shape[:depth])
    heads: list[Position] = list(itertools.product(*some_coordinates(shape[:depth], _PLANES)))
    if addressed and count > _PLANES:
        some = (itertools.islice(itertools.product(*spans[:depth]), _PLANES) for spans in addressed)
        heads = sorted(list(dict.fromkeys(itertools.chain.from_iterable(some)))[:_PLANES])
    planes = []
    for head in heads:
        here = [s for s in addressed if all(at in span for at, span in zip(head, s, strict=False))]
        inner = []
        for size, axis in zip(shape[depth:], range(depth - len(shape), 0), strict=True):
            wanted = dict.fromkeys(at for spans in here for at in spans[axis])
            most, limit = _LIMITS[axis]
            if wanted and not (readable and count == 1):  # omit coordinates between `wanted`
                limit = min(limit, len({0, size - 1, *wanted}))
            inner.append(chosen(size, most if size <= most else limit, wanted))
        planes.append(_DrawnPlane(head, tuple(inner)))
    return planes


def _whole_panel(name: str, array: Array, readable: bool) -> Panel:
    planes = _data_planes(array.shape, readable)
    return _panel(name, array.dtype, array.shape, planes, _values(array if readable else None))


def _values(array: Array | None) -> CellAt:
    if array is None:
        return lambda _: Cell("", State.ABSENT)
    return lambda place: Cell(written(array[place]))


class _Panels:
    """The panels of a call whose entries have been resolved."""

    def __init__(self, evaluation: Evaluation, drawn: DrawnEntries) -> None:
        self.evaluation, self.call, self.drawn = evaluation, evaluation.call, drawn
        shape, axes = self.call.data.shape, drawn.axes.slices
        # Choose the coordinates to draw along the axes of slices.
        most = max(_CELLS // max(len(drawn.entries) * math.prod(self.call.window_shape), 1), 2)
        columns = _LIMITS[1][0]
        some = some_coordinates([shape[axis] for axis in axes], min(most, 3 * columns))
        self.slices = {axis: span[:columns] for axis, span in zip(axes, some, strict=True)}
        addressed = [
            [self.slices.get(axis, (*span[:1], *span[-1:])) for axis, span in enumerate(entry.data)]
            for entry in drawn.entries
            if entry.data is not None
        ]
        shared = batch_dims(self.call)
        self.data_planes = _data_planes(shape, evaluation.readable, shared, addressed)
        # If updates replace data, record the last update of each region.
        self.last: dict[Region | None, int] = {}
        if self.call.scatters and self.call.reduction == "none":
            entries = enumerate(drawn.entries)
            self.last = {entry.data: n for n, entry in entries if entry.data is not None}

    def all(self) -> Iterator[Panel]:
        call, evaluation = self.call, self.evaluation
        yield self._data_panel("data", call.data if evaluation.readable else None)
        yield self._tuples_panel() if call.kind.tuples else self._integers_panel()
        if call.scatters and call.updates.shape == self.drawn.dense_shape:
            yield self._dense_panel(call.updates_name, call.updates)
        elif call.scatters:
            yield _whole_panel(call.updates_name, call.updates, readable=True)
        note = "there is none: the call fails" if evaluation.error is not None else ""
        if call.scatters:
            if evaluation.result is None and not note:
                note = "its values are not computed"
            yield self._data_panel("result", evaluation.result, note)
        else:
            yield self._dense_panel("result", evaluation.result, note)

    def _data_panel(self, name: str, array: Array | None, note: str = "") -> Panel:
        marks = self._marks([entry.data for entry in self.drawn.entries], name == "result")
        data = self.call.data
        return _panel(name, data.dtype, data.shape, self.data_planes, _values(array), marks, note)

    def _dense_panel(self, name: str, array: Array | None, note: str = "") -> Panel:
        drawn, window = self.drawn, self.call.window_shape
        coordinates: list[tuple[int, ...]] = [()] * len(drawn.dense_shape)
        for axis, some in zip(drawn.axes.positions, drawn.coordinates, strict=True):
            coordinates[axis] = some
        for axis, dense_axis in zip(drawn.axes.slices, drawn.axes.dense_slices, strict=True):
            coordinates[dense_axis] = self.slices[axis]
        for axis, some in zip(drawn.axes.window, some_coordinates(window, _WINDOW), strict=True):
            coordinates[axis] = some
        planes = _planes(coordinates, batch_dims(self.call))[: _PLANES + 2]
        dtype = (self.call.updates if self.call.scatters else self.call.data).dtype
        marks = self._marks([entry.dense for entry in drawn.entries], name != "result")
        cells = self._dense_cells(array)
        return _panel(name, dtype, drawn.dense_shape, planes, cells, marks, note)

    def _dense_cells(self, array: Array | None) -> CellAt:
        drawn, data, failed = self.drawn, self.call.data, self.evaluation.error is not None

        def cell_at(place: Position) -> Cell:
            entry = drawn.entry_at(place)
            source = drawn.source(entry, place)
            if array is not None:
                state = entry.state if entry.data is None else State.FILLED
                return Cell(written(array[place]), State.PLAIN if source is not None else state)
            if source is None:
                return Cell("", State.ERROR if failed else State.FILLED)
            if failed or not self.evaluation.readable:
                return Cell("", State.ABSENT)
            return Cell(written(data[source]))

        return cell_at

    def _integers_panel(self) -> Panel:
        """Return the panel of indices whose entries are integers."""
        indices, entries = self.call.indices, self.drawn.entries
        cells = {entry.position: _index_cells(self.call, entry)[0] for entry in entries}
        marks = self._marks([tuple(range(at, at + 1) for at in e.position) for e in entries])
        planes = _planes(self.drawn.coordinates, batch_dims(self.call))
        panel = _panel("indices", indices.dtype, indices.shape, planes, cells.get, marks)
        return replace(panel, note=self._count_note() or panel.note, lists_entries=True)

    def _tuples_panel(self) -> Panel:
        """Return the panel of indices whose entries are tuples, with a row for each tuple."""
        indices, entries, first = self.call.indices, self.drawn.entries, batch_dims(self.call)
        columns = tuple(f"axis {first + n}" for n in range(indices.shape[-1])) or ("",)
        lead, whole = indices.shape[:-1], range(len(columns))
        numbers = [int(np.ravel_multi_index(e.position, lead)) if lead else 0 for e in entries]
        cells = {
            number: _index_cells(self.call, entry) or (Cell("( )"),)
            for number, entry in zip(numbers, entries, strict=True)
        }
        plane = _plane(
            "",
            _DrawnPlane((), (tuple(numbers), tuple(whole))),
            (math.prod(lead), len(columns)),
            lambda place: cells[place[0]][place[1]],
            [(n, (range(at, at + 1), whole), False) for n, at in enumerate(numbers)],
        )
        labels = (f"[{', '.join(map(str, e.position))}]" if lead else "" for e in entries)
        rows = tuple(None if row is None else next(labels) for row in plane.rows)
        return Panel(
            name=self.call.indices_name,
            about=f"{indices.dtype} {shown(indices.shape)}",
            planes=(replace(plane, rows=rows, columns=columns),) if entries else (),
            note=self._count_note() if entries else "no entries",
            lists_entries=True,
        )

    def _count_note(self) -> str:
        drawn, count = len(self.drawn.entries), math.prod(entries_shape(self.call))
        return "" if drawn == count else f"{drawn} of {count:,} entries"

    def _marks(self, regions: Sequence[Region | None], crosses_out: bool = False) -> list[Mark]:
        """Mark each region that is not None, and flag replaced updates if `crosses_out` is true."""
        return [
            (n, region, crosses_out and self.last.get(entry.data, n) != n)
            for n, (entry, region) in enumerate(zip(self.drawn.entries, regions, strict=True))
            if region is not None
        ]


def _index_cells(call: Call, entry: Entry) -> tuple[Cell, ...]:
    """Return cells with the integers of an entry and their normalized values."""
    outside = outside_state(call)
    suffix = {State.FILLED: "→fill", State.DROPPED: "→drop"}.get(outside, "")
    return tuple(
        Cell(f"{raw}{suffix}", outside)
        if at is None
        else Cell(str(raw) if at == raw else f"{raw}→{at}")
        for raw, at in zip(entry.values, entry.coordinates, strict=True)
    )


def _panel(
    name: str,
    dtype: object,
    shape: Sequence[int],
    planes: Sequence[_DrawnPlane],
    cell_at: CellAt,
    marks: Sequence[Mark] = (),
    note: str = "",
) -> Panel:
    if 0 in shape:
        planes, note = (), note or "no elements"
    count = math.prod(shape[: len(planes[0].head)]) if planes else 0
    if not note and len(planes) < count:
        note = f"{len(planes)} of {count:,} planes"
    drawn = tuple(_plane(name, plane, shape, cell_at, marks) for plane in planes)
    return Panel(name=name, about=f"{dtype} {shown(shape)}", planes=drawn, note=note)


def _plane(
    name: str, plane: _DrawnPlane, shape: Sequence[int], cell_at: CellAt, marks: Sequence[Mark]
) -> Plane:
    head, depth = plane.head, len(plane.head)
    axes = list(map(with_gaps, plane.coordinates, shape[depth:]))
    missing = 2 - len(axes)  # adds unlabeled rows or columns
    rows, columns = [(-1,)] * missing + axes
    cells = tuple(
        tuple(
            None
            if row is None or column is None
            else cell_at((*head, *(at for at in (row, column) if at >= 0)))
            for column in columns
        )
        for row in rows
    )
    boxes = []
    for entry, region, replaced in marks:
        ranges = [range(-1, 0)] * missing + list(region[depth:])
        spans = [
            [number for number, at in enumerate(axis) if at is not None and at in span]
            for axis, span in zip((rows, columns), ranges, strict=True)
        ]
        if all(spans) and all(at in span for at, span in zip(head, region, strict=False)):
            (top, bottom), (left, right) = ((span[0], span[-1]) for span in spans)
            boxes.append(Box(entry, (top, bottom), (left, right), replaced))
    row_labels, column_labels = (
        tuple(None if at is None else "" if at < 0 else str(at) for at in axis)
        for axis in (rows, columns)
    )
    heading = f"{name}[{', '.join(map(str, head))}]" if depth else ""
    return Plane(heading, row_labels, column_labels, cells, tuple(boxes))


def with_gaps(coordinates: Sequence[int], size: int) -> tuple[int | None, ...]:
    """Return the coordinates, with None for every gap between them or at the ends."""
    result: list[int | None] = []
    before = -1
    for at in (*coordinates, size):
        if at > before + 1 and size:
            result.append(None)
        if at < size:
            result.append(at)
        before = at
    return tuple(result)


_OPTIONS = ("axis", "batch_dims", "reduction", "mode", "fill_value", "use_init_val")
_DEFAULTS = {field.name: field.default for field in fields(Call)}
_MOST_REPEATS = 4


def letter(number: int) -> str:
    """Return the letters that identify an entry: a to z, then aa, ab, ..."""
    first, last = divmod(number, 26)
    return (letter(first - 1) if first else "") + chr(ord("a") + last)


def _title(call: Call) -> str:
    """Return a call as text, with all options that differ from their defaults."""
    arguments = ["data", call.indices_name]
    if call.caller == "gather_ranges":
        arguments[1:] = ["starts", "stops"]
    if call.scatters:
        arguments.append(call.updates_name)
    if call.kind.windows:
        arguments.append(str(call.window_shape))
    for name in _OPTIONS:
        value = getattr(call, name)
        if value is not _DEFAULTS[name] and str(value) != str(_DEFAULTS[name]):
            arguments.append(f"{name}={shown_value(value)}")
    return one_line(f"{call.caller}({', '.join(arguments)})")


def _sentence(drawn: DrawnEntries, entry: Entry) -> str:
    """Return a sentence that says what an entry addresses and what its effect is."""
    call = drawn.call
    raw = list(map(str, entry.values))
    value = f"({', '.join(raw)}{',' if len(raw) == 1 else ''})" if call.kind.tuples else raw[0]
    at = f"[{', '.join(map(str, entry.position))}]" if entry.position else ""
    subject = f"{call.indices_name}{at} = {value}"
    dense = _region("updates" if call.scatters else "result", entry.dense, drawn.dense_shape)
    if entry.state is not State.PLAIN:
        what = {State.DROPPED: f": {dense} is left out", State.FILLED: f": {dense} is filled"}
        return f"{subject} is out of bounds{what.get(entry.state, '')}"
    data = _region("data", entry.data or (), call.data.shape)
    return f"{subject}: {dense} {'goes to' if call.scatters else 'is'} {data}"


def _region(name: str, region: Region, shape: Sequence[int]) -> str:
    if not region:
        return name
    spans = []
    for span, size in zip(region, shape, strict=True):
        if len(span) == size and size != 1:
            spans.append(":")
        elif len(span) == 1:
            spans.append(str(span[0]))
        elif span[-1] - span[0] == len(span) - 1:
            spans.append(f"{span[0]}:{span[-1] + 1}")
        else:
            spans.append(f"({', '.join(map(str, span))})")
    return f"{name}[{', '.join(spans)}]"


def _value_notes(drawn: DrawnEntries) -> Iterator[str]:
    """Yield a note on the first index value that differs from its normalized value."""
    what = {"wrap": "wraps around", "clip": "is clipped"}
    mode = "clip" if drawn.call.window_shape else drawn.call.mode  # only clipped windows move
    for entry in drawn.entries:
        for raw, at in zip(entry.values, entry.coordinates, strict=True):
            if at not in (None, raw):
                verb = what.get(mode, "counts from the end of its axis")
                yield f"{raw} {verb}: it is {at}"
                return


def _repeat_notes(drawn: DrawnEntries) -> Iterator[str]:
    """Yield notes on how several updates of the same region are combined."""
    call = drawn.call
    if not call.scatters:
        return
    if len(drawn.entries) < math.prod(entries_shape(call)):
        yield "updates that are not drawn may have the same targets"
        return
    updates: dict[Region, list[str]] = {}
    for number, entry in enumerate(drawn.entries):
        if entry.data is not None:
            updates.setdefault(entry.data, []).append(letter(number))
    repeated = [(region, letters) for region, letters in updates.items() if len(letters) > 1]
    for region, letters in repeated[:_MOST_REPEATS]:
        target, old = (_region(name, region, call.data.shape) for name in ("result", "data"))
        yield f"{target}: {_combined(call, letters, old)}"
    if len(repeated) > _MOST_REPEATS:
        yield f"and {len(repeated) - _MOST_REPEATS} other places with several updates"


def _combined(call: Call, letters: Sequence[str], old: str) -> str:
    if call.reduction == "none":
        return f"{', then '.join(letters)}; the last one stays"
    terms = [old, *letters] if call.use_init_val else list(letters)
    row = ROWS[call.reduction]
    if row.sign == "-" and not call.use_init_val:
        terms = ["0", *terms]
    text = f" {row.sign} ".join(terms) if row.sign else f"{call.reduction}({', '.join(terms)})"
    return f"({text}) / {len(terms)}" if row.derivative == "counts" else text


_LONGEST, _SHORT = 10, 8  # numbers longer than 8 characters are rounded to four digits


def written(value: Any) -> str:
    """Return an array element as a short text."""
    dtype = getattr(value, "dtype", None)
    kind = getattr(dtype, "kind", "O")
    if value is np.ma.masked or kind in "mM":
        return _cut(one_line(str(value)))
    if kind in "iub":
        return str(value) if len(str(value)) <= _LONGEST else f"{float(value):.3e}"
    if kind == "f":
        return _short_number(value)
    if kind == "c":
        imaginary = _short_number(value.imag, 4)
        sign = "" if imaginary.startswith("-") else "+"
        return _cut(f"{_short_number(value.real, 4)}{sign}{imaginary}j", _LONGEST + 4)
    if kind == "V" and value.dtype.names is None:
        with suppress(TypeError, ValueError):  # for example, the float8 types of ml_dtypes
            return _short_number(np.float64(value))
    plain = value.item() if kind in "UST" and isinstance(value, np.generic) else value
    return _cut(one_line(shown_value(plain)))


def _short_number(value: Any, digits: int = 6) -> str:
    size = abs(float(value))
    if not np.isfinite(value):
        return str(float(value))
    if size and not 1e-3 <= size < 1e6:
        return f"{float(value):.3e}"
    text = ""
    for precision in (digits, 4):
        text = np.format_float_positional(value, precision, fractional=False, trim="0")
        if len(text) <= _SHORT or size >= 100:
            break
    return text


def _cut(text: str, most: int = _LONGEST) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
