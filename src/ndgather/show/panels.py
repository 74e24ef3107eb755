"""An array as a panel: its planes, the cells that are drawn of it, and a box for each entry."""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ndgather.array_call import Call
from ndgather.errors.shape_errors import shown
from ndgather.errors.shown_values import shown_value
from ndgather.errors.texts import one_line
from ndgather.show.resolve import batch_dims, entries_shape
from ndgather.show.scene import (
    Box,
    Cell,
    Panel,
    Plane,
    State,
    chosen,
    letter,
    with_gaps,
    within,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from ndgather.show.resolve import Attempt, IndexValue, Named, Place, Region, Trace

    Array = NDArray[Any]
    Mark: TypeAlias = tuple[int, Region, State, bool]


def cells_of_array(array: Array, readable: bool = True) -> Callable[[Place], Cell]:
    """Return what writes the elements of an array."""
    if not readable:
        return lambda _: Cell("", State.ABSENT)
    return lambda place: Cell(written(array[place]))


def of_gather(attempt: Attempt, trace: Trace) -> Callable[[Place], Cell]:
    """Return what writes elements of a result that was not computed, from those of data."""
    data, failed = attempt.call.data, attempt.error is not None

    def cell(place: Place) -> Cell:
        source = trace.source(trace.entry_at(place), place)
        if source is None:
            return Cell("", State.REFUSED if failed else State.FILLED)
        if failed or not attempt.readable:
            return Cell("", State.ABSENT)
        return Cell(written(data[source]))

    return cell


def cells_of_dense(trace: Trace, cell: Callable[[Place], Cell]) -> Callable[[Place], Cell]:
    """Return what writes elements as `cell` does, and tells those that no element of data meets."""

    def told(place: Place) -> Cell:
        entry, found = trace.entry_at(place), cell(place)
        if found.state is not State.PLAIN or trace.source(entry, place) is not None:
            return found
        return Cell(found.text, entry.state if entry.data is None else State.FILLED)

    return told


def of_index(value: IndexValue) -> Cell:
    """Write an integer of indices, and what it becomes."""
    if value.state is State.FILLED:
        return Cell(f"{value.raw}→fill", State.FILLED)
    if value.state is State.DROPPED:
        return Cell(f"{value.raw}→drop", State.DROPPED)
    if value.state is State.REFUSED or value.place == value.raw:
        return Cell(str(value.raw), value.state)
    return Cell(f"{value.raw}→{value.place}")


def of_indices(trace: Trace) -> Callable[[Place], Cell]:
    """Return what writes the integers of indices that hold one for each entry."""
    known = {entry.position: entry.values[0] for entry in trace.entries}
    return lambda place: of_index(known[place])


def about(dtype: object, shape: Sequence[int]) -> str:
    return f"{dtype} {shown(shape)}"


def array_panel(
    name: str,
    dtype: object,
    shape: Sequence[int],
    sheets: Sheets,
    cell: Callable[[Place], Cell],
    marks: Sequence[Mark] = (),
    note: str = "",
    lists_entries: bool = False,
) -> Panel:
    """Return the panel of an array, of which some planes are drawn."""
    planes = tuple(_plane(name, sheet, shape, cell, marks) for sheet in sheets)
    if 0 in shape:
        planes, note = (), note or "no elements"
    count = math.prod(shape[: len(sheets[0].head)]) if sheets else 0
    if not note and len(planes) < count:
        note = f"{len(planes)} of {count:,} planes"
    return Panel(
        name=name,
        about=about(dtype, shape),
        planes=planes,
        note=note,
        lists_entries=lists_entries,
    )


def _plane(
    name: str,
    sheet: Sheet,
    shape: Sequence[int],
    cell: Callable[[Place], Cell],
    marks: Sequence[Mark],
) -> Plane:
    head, depth = sheet.head, len(sheet.head)
    # A missing axis of rows or columns has one row, or column, without a label.
    axes = [with_gaps(each, size) for each, size in zip(sheet.flat, shape[depth:], strict=True)]
    rows, columns = [(-1,)] * (2 - len(axes)) + axes
    cells = tuple(
        tuple(
            None
            if row is None or column is None
            else cell((*head, *(at for at in (row, column) if at >= 0)))
            for column in columns
        )
        for row in rows
    )
    boxes = tuple(
        box for mark in marks if (box := _box(mark, head, rows, columns, len(axes))) is not None
    )
    heading = f"{name}[{', '.join(map(str, head))}]" if depth else ""
    return Plane(
        heading=heading, rows=_labels(rows), columns=_labels(columns), cells=cells, boxes=boxes
    )


def _labels(coordinates: Sequence[int | None]) -> tuple[str | None, ...]:
    return tuple(None if at is None else "" if at < 0 else str(at) for at in coordinates)


def _box(
    mark: Mark,
    head: Place,
    rows: Sequence[int | None],
    columns: Sequence[int | None],
    rank: int,
) -> Box | None:
    entry, region, state, replaced = mark
    if not all(at in each for at, each in zip(head, region, strict=False)):
        return None
    ranges = [range(-1, 0)] * (2 - rank) + list(region[len(head) :])
    spans = [
        [number for number, at in enumerate(axis) if at is not None and at in each]
        for axis, each in zip((rows, columns), ranges, strict=True)
    ]
    if not all(spans):
        return None
    (top, *_, bottom), (left, *_, right) = ([*span, span[-1]] for span in spans)
    return Box(
        entry=entry, rows=(top, bottom), columns=(left, right), state=state, replaced=replaced
    )


def tuples_panel(name: str, dtype: object, trace: Trace) -> Panel:
    """Return the panel of indices that hold tuples: a row for each tuple that is drawn."""
    call = trace.call
    entries = trace.entries
    axes = [value.axis for value in entries[0].values] if entries else []
    lead = call.indices.shape[:-1]
    rows: list[str | None] = []
    cells: list[tuple[Cell | None, ...]] = []
    boxes = []
    columns = tuple(f"axis {axis}" for axis in axes) or ("",)
    for number, entry in enumerate(entries):
        if number and not _follows(entries[number - 1], entry, lead):
            rows.append(None)
            cells.append((None,) * len(columns))
        at = len(rows)
        rows.append(f"[{', '.join(map(str, entry.position))}]" if lead else "")
        cells.append(tuple(map(of_index, entry.values)) or (Cell("( )"),))
        boxes.append(
            Box(entry=number, rows=(at, at), columns=(0, len(columns) - 1), state=entry.state)
        )
    plane = Plane(
        heading="", rows=tuple(rows), columns=columns, cells=tuple(cells), boxes=tuple(boxes)
    )
    note = entries_note(trace)
    return Panel(
        name=name,
        about=about(dtype, call.indices.shape),
        planes=(plane,) if entries else (),
        note=note if entries else "no entries",
        lists_entries=True,
    )


def entries_note(trace: Trace) -> str:
    """Say how many entries are drawn, if not all are."""
    drawn, count = len(trace.entries), math.prod(entries_shape(trace.call))
    return "" if drawn == count else f"{drawn} of {count:,} entries"


def _follows(before: Named, after: Named, shape: Sequence[int]) -> bool:
    """Whether no position lies between those of two entries, in C order."""
    return _number(after.position, shape) == _number(before.position, shape) + 1


def _number(position: Place, shape: Sequence[int]) -> int:
    number = 0
    for at, size in zip(position, shape, strict=True):
        number = number * size + at
    return number


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


def selected_of_array(shape: Sequence[int]) -> Sheets:
    """Return what is drawn of an array of which nothing is named."""
    depth = _depth(shape, 0)
    heads = itertools.product(*within(shape[:depth], _PLANES))
    return tuple(Sheet(head, _flat(shape[depth:], [()] * 2)) for head in heads)


def of_entries(trace: Trace) -> Sheets:
    """Return what is drawn of indices that hold an integer for each entry."""
    return _of_coordinates(trace.drawn, batch_dims(trace.call))


def selected_of_dense(trace: Trace) -> Sheets:
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


_OPTIONS = ("axis", "batch_dims", "reduction", "mode", "fill_value", "use_init_val")
_DEFAULTS = {each.name: each.default for each in dataclasses.fields(Call)}
_MOST_REPEATS = 4
_BECOMES = {
    "raise": "{raw} counts from the end of its axis: it is {place}",
    "fill": "{raw} counts from the end of its axis: it is {place}",
    "drop": "{raw} counts from the end of its axis: it is {place}",
    "wrap": "{raw} wraps around: it is {place}",
    "clip": "{raw} is clipped: it is {place}",
}


def title(call: Call) -> str:
    """Write the call, with the options that are not at their defaults."""
    names = ["data", call.indices_name]
    if call.scatters:
        names.append(call.updates_name)
    if call.kind == "gather_windows":
        names.append(str(call.window_shape))
    for name in _OPTIONS:
        value = getattr(call, name)
        if value is not _DEFAULTS[name] and str(value) != str(_DEFAULTS[name]):
            names.append(f"{name}={shown_value(value)}")
    return one_line(f"{call.caller}({', '.join(names)})")


def of_entry(trace: Trace, entry: Named) -> str:
    """Say what one entry names, and what it does there."""
    call = trace.call
    raw = [str(value.raw) for value in entry.values]
    if call.kind in ("gather", "gather_elements", "scatter_elements"):
        value = raw[0]
    else:
        value = f"({', '.join(raw)}{',' if len(raw) == 1 else ''})"
    at = f"[{', '.join(map(str, entry.position))}]" if entry.position else ""
    subject = f"{call.indices_name}{at} = {value}"
    dense = _region("updates" if call.scatters else "result", entry.dense, trace.dense_shape)
    match entry.state:
        case State.REFUSED:
            return f"{subject} is out of bounds"
        case State.DROPPED:
            return f"{subject} is out of bounds: {dense} is left out"
        case State.FILLED:
            return f"{subject} is out of bounds: {dense} is filled"
    data = _region("data", entry.data or (), call.data.shape)
    if call.scatters:
        return f"{subject}: {dense} meets {data}"
    return f"{subject}: {dense} is {data}"


def _region(name: str, region: Region, shape: Sequence[int]) -> str:
    if not region:
        return name
    parts = []
    for each, size in zip(region, shape, strict=True):
        if len(each) == size and size != 1:
            parts.append(":")
        else:
            parts.append(str(each[0]) if len(each) == 1 else f"{each.start}:{each.stop}")
    return f"{name}[{', '.join(parts)}]"


def of_values(trace: Trace) -> Iterator[str]:
    """Say once for each way what an index value becomes."""
    said = set()
    for entry in trace.entries:
        for value in entry.values:
            if value.place is not None and value.place != value.raw and trace.call.mode not in said:
                said.add(trace.call.mode)
                yield _BECOMES[trace.call.mode].format(raw=value.raw, place=value.place)


def of_repeats(trace: Trace) -> Iterator[str]:
    """Say in which order updates of one place land there."""
    call = trace.call
    if not call.scatters:
        return
    if len(trace.entries) < math.prod(entries_shape(call)):
        yield "updates that are not drawn may land on the same places"
        return
    landing: dict[Region, list[str]] = {}
    for number, entry in enumerate(trace.entries):
        if entry.data is not None:
            landing.setdefault(entry.data, []).append(letter(number))
    repeated = [(region, letters) for region, letters in landing.items() if len(letters) > 1]
    for region, letters in repeated[:_MOST_REPEATS]:
        place = _region("result", region, call.data.shape)
        yield f"{place}: {_landing(call, letters, place.replace('result', 'data', 1))}"
    if len(repeated) > _MOST_REPEATS:
        yield f"and {len(repeated) - _MOST_REPEATS} other places that several updates meet"


def _landing(call: Call, letters: Sequence[str], old: str) -> str:
    if call.reduction == "none":
        return f"{', then '.join(letters)}; the last one stays"
    terms = [old, *letters] if call.use_init_val else list(letters)
    match call.reduction:
        case "add":
            return " + ".join(terms)
        case "sub":
            return " - ".join(terms if call.use_init_val else ["0", *letters])
        case "mul":
            return " * ".join(terms)
        case "mean":
            return f"({' + '.join(terms)}) / {len(terms)}"
        case _:
            return f"{call.reduction}({', '.join(terms)})"


def of_shape(attempt: Attempt, shape: tuple[int, ...] | None) -> Iterator[str]:
    """Say what shape a result has in the end, if its caller gives it another."""
    if shape in (None, attempt.dense_shape) or attempt.error is not None:
        return
    if not attempt.call.scatters:
        yield f"the operator joins the batch axes: the shape of its result is {shown(shape or ())}"


def of_what_was_read(attempt: Attempt) -> Iterator[str]:
    if not attempt.readable:
        yield "nothing of the data was read or computed"
    if not attempt.checked:
        yield "there are too many entries to check all of them: only those drawn were looked at"
