"""From an attempt to the scene: which panels there are, what is drawn of each, what is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgather.errors import IndexOutOfBoundsError
from ndgather.show import cells, panels, selection, sentences
from ndgather.show.density import read_map
from ndgather.show.scene import Cell, Entry, Panel, Scene, letter
from ndgather.show.trace import takes_integers, traced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from ndgather.show.attempt import Attempt
    from ndgather.show.panels import Mark
    from ndgather.show.scene import Part
    from ndgather.show.trace import Place, Region, Trace

    Array = NDArray[Any]


def staged(attempt: Attempt, shape: tuple[int, ...] | None = None) -> Scene:
    """Return the scene of a call, whose caller may give a result another shape."""
    call = attempt.call
    can_be_traced = attempt.dense_shape is not None and call.indices.dtype.kind in "iu"
    stage = _Traced(attempt) if can_be_traced else _Untraced(attempt)
    parts = tuple(stage.parts())
    return Scene(
        title=sentences.title(call),
        summary="; ".join(f"{part.name} {part.about}" for part in parts),
        parts=parts,
        entries=stage.entries(),
        notes=(*stage.notes(), *sentences.of_shape(attempt, shape)),
        error=None if attempt.error is None else str(attempt.error),
    )


class _Untraced:
    """A call whose shapes or types do not fit: its arrays, and nothing that they name."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt, self.call = attempt, attempt.call

    def parts(self) -> Iterator[Part]:
        yield self.plain("data", self.call.data, self.attempt.readable)
        yield self.plain(self.call.indices_name, self.call.indices)
        if self.call.scatters:
            yield self.plain(self.call.updates_name, self.call.updates)

    def plain(self, name: str, array: Array, readable: bool = True) -> Panel:
        sheets, cell = selection.of_array(array.shape), cells.of_array(array, readable)
        return panels.array_panel(name, array.dtype, array.shape, sheets, cell)

    def entries(self) -> tuple[Entry, ...]:
        return ()

    def notes(self) -> tuple[str, ...]:
        return ()


class _Traced(_Untraced):
    """A call whose entries name something, or are refused one by one."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt)
        assert attempt.dense_shape is not None
        error = attempt.error
        wanted = error.position if isinstance(error, IndexOutOfBoundsError) else ()
        self.trace: Trace = traced(self.call, attempt.dense_shape, wanted)
        self.replaced = _replaced(self.trace)
        self.data_sheets = selection.of_data(self.trace, attempt.readable)

    def parts(self) -> Iterator[Part]:
        call, trace = self.call, self.trace
        yield self._data_panel("data", self.call.data, self.attempt.readable)
        if takes_integers(call):
            yield self._integers_panel()
        else:
            yield panels.tuples_panel(call.indices_name, call.indices.dtype, trace)
        if self.leaves_out or self.attempt.grid is not None:
            yield from read_map(self.attempt, trace.axes.points)
        if call.scatters:
            if call.updates.shape == trace.dense_shape:
                yield self._dense_panel(call.updates_name, cells.of_array(call.updates))
            else:
                yield self.plain(call.updates_name, call.updates)
        yield self._result_panel()

    def _result_panel(self) -> Panel:
        result, call = self.attempt.result, self.call
        failed = self.attempt.error is not None
        note = "there is none: the call fails" if failed else ""
        if call.scatters:
            if not failed and result is None:
                note = "its values are not computed"
            shown = result if result is not None else call.data
            return self._data_panel("result", shown, result is not None, note)
        if result is not None:
            return self._dense_panel("result", cells.of_array(result), note)
        return self._dense_panel("result", cells.of_gather(self.attempt, self.trace), note)

    @property
    def leaves_out(self) -> bool:
        """Whether some of data, or some entries, are not drawn."""
        some = bool(panels.entries_note(self.trace))
        return some or not selection.is_whole(self.data_sheets, self.call.data.shape)

    def _data_panel(self, name: str, array: Array, readable: bool, note: str = "") -> Panel:
        return panels.array_panel(
            name,
            array.dtype,
            array.shape,
            self.data_sheets,
            cells.of_array(array, readable),
            self._marks([entry.data for entry in self.trace.entries], name == "result"),
            note,
        )

    def _dense_panel(self, name: str, cell: Callable[[Place], Cell], note: str = "") -> Panel:
        dtype = self.call.updates.dtype if self.call.scatters else self.call.data.dtype
        marks = self._marks([entry.dense for entry in self.trace.entries], name != "result")
        return panels.array_panel(
            name,
            dtype,
            self.trace.dense_shape,
            selection.of_dense(self.trace),
            cells.of_dense(self.trace, cell),
            marks,
            note,
        )

    def _integers_panel(self) -> Panel:
        trace, call = self.trace, self.call
        regions: list[Region | None] = [
            tuple(range(at, at + 1) for at in entry.position) for entry in trace.entries
        ]
        return panels.array_panel(
            "indices",
            call.indices.dtype,
            call.indices.shape,
            selection.of_entries(trace),
            cells.of_indices(trace),
            self._marks(regions),
            panels.entries_note(trace),
            lists_entries=True,
        )

    def _marks(self, regions: Sequence[Region | None], tells: bool = False) -> list[Mark]:
        return [
            (number, region, entry.state, tells and number in self.replaced)
            for number, (entry, region) in enumerate(zip(self.trace.entries, regions, strict=True))
            if region is not None
        ]

    def entries(self) -> tuple[Entry, ...]:
        return tuple(
            Entry(
                letter=letter(number),
                sentence=sentences.of_entry(self.trace, entry),
                state=entry.state,
            )
            for number, entry in enumerate(self.trace.entries)
        )

    def notes(self) -> tuple[str, ...]:
        return (
            *sentences.of_values(self.trace),
            *sentences.of_repeats(self.trace),
            *sentences.of_what_was_read(self.attempt),
        )


def _replaced(trace: Trace) -> set[int]:
    """Return the drawn entries of a scatter whose updates a later one replaces."""
    if not trace.call.scatters or trace.call.reduction != "none":
        return set()
    last = {entry.data: number for number, entry in enumerate(trace.entries)}
    return {
        number
        for number, entry in enumerate(trace.entries)
        if entry.data is not None and last[entry.data] != number
    }
