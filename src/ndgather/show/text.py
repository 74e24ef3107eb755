"""A scene as plain text: panels side by side where the terminal has room, letters for entries."""

from __future__ import annotations

import itertools
import textwrap
from typing import TYPE_CHECKING

from ndgather.show.scene import Map, State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ndgather.show.scene import Cell, Entry, Panel, Part, Plane, Scene

_BETWEEN = "    "
_SHADES = " .:-=+*#%@"
_STANDS_FOR = {State.FILLED: "fill", State.DROPPED: "", State.REFUSED: "✗", State.ABSENT: "."}


def render(scene: Scene, width: int) -> str:
    """Return a scene as lines of text, no longer than `width` where panels allow it."""
    lines = [scene.title, ""]
    row: list[list[str]] = []
    for part in scene.parts:
        block = list(_block(part, scene.entries))
        if row and _width([*row, block]) > width:
            lines += [*_beside(row), ""]
            row = []
        row.append(block)
    lines += _beside(row)
    told = [*scene.notes] if scene.error is None else [scene.error, *scene.notes]
    for text in told:
        lines += ["", *textwrap.wrap(text, width)]
    return "\n".join(line.rstrip() for line in lines)


def _width(blocks: Sequence[Sequence[str]]) -> int:
    return sum(max(map(len, block)) + len(_BETWEEN) for block in blocks) - len(_BETWEEN)


def _beside(blocks: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, block)) for block in blocks]
    for parts in itertools.zip_longest(*blocks, fillvalue=""):
        padded = (part.ljust(size) for part, size in zip(parts, widths, strict=True))
        yield _BETWEEN.join(padded)


def _block(part: Part, entries: Sequence[Entry]) -> Iterator[str]:
    yield f"{part.name}  {part.about}"
    if isinstance(part, Map):
        yield from part.note.split("; ")
        yield from _squares(part)
        return
    if part.note:
        yield f"({part.note})"
    for plane in part.planes:
        if plane.heading:
            yield plane.heading
        yield from _plane(part, plane, entries)


def _squares(part: Map) -> Iterator[str]:
    most = max(itertools.chain.from_iterable(part.counts), default=0)
    for counts in part.counts:
        shades = (-(-count * (len(_SHADES) - 1) // max(most, 1)) for count in counts)
        yield f"|{''.join(_SHADES[shade] for shade in shades)}|"


def _plane(panel: Panel, plane: Plane, entries: Sequence[Entry]) -> Iterator[str]:
    table = [["", *(_head(label) for label in plane.columns)]]
    for number, (label, cells) in enumerate(zip(plane.rows, plane.cells, strict=True)):
        texts = [
            _cell(cell, _letters(plane, number, column, entries), panel.lists_entries)
            for column, cell in enumerate(cells)
        ]
        table.append([_head(label), *texts])
    if not any(plane.rows):  # there is one, without a label
        table = [line[1:] for line in table]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table if any(plane.columns) else table[1:]:
        yield "  ".join(text.rjust(size) for text, size in zip(line, widths, strict=True))


def _head(label: str | None) -> str:
    return "…" if label is None else label


def _letters(plane: Plane, row: int, column: int, entries: Sequence[Entry]) -> str:
    return " ".join(
        entries[box.entry].letter
        for box in plane.boxes
        if box.rows[0] <= row <= box.rows[1] and box.columns[0] <= column <= box.columns[1]
    )


def _cell(cell: Cell | None, letters: str, _is_entry: bool) -> str:
    if cell is None:
        return "…"
    text = cell.text or _STANDS_FOR.get(cell.state, "")
    if cell.state is State.REFUSED and cell.text:
        text = f"{text}✗"
    return f"{text} {letters}" if letters else text
