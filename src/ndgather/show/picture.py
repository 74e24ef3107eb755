"""Pictures of calls, as text for terminals, HTML for notebooks, and SVG files."""

from __future__ import annotations

import itertools
import os
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from ndgather import messages
from ndgather.array_call import Call
from ndgather.errors import NdgatherError
from ndgather.show import svg
from ndgather.show.evaluate import State, evaluate
from ndgather.show.layout import THEMES
from ndgather.show.scene import Cell, EntryLabel, Panel, Plane, Scene, make_scene


class Picture:
    """A picture of a call that shows the source of each element.

    The functions of `ndgather.show` and `Operator.show` return pictures. Notebooks display
    pictures, and ``print`` writes them as text.

    Attributes
    ----------
    error : NdgatherError or None
        The exception that the call raises, which the picture shows.

    Examples
    --------
    >>> import ndgather.show
    >>> picture = ndgather.show.gather_nd([10, 11, 12], [[2], [0]])
    >>> print(picture.to_text().splitlines()[0])
    gather_nd(data, indices)
    >>> picture.to_svg()[:4]
    '<svg'
    """

    def __init__(self, scene: Scene, error: NdgatherError | None, call: Call | None = None) -> None:
        self._scene = scene
        self.error = error
        self._call = call  # None if values are unreadable

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_text(self, width: int | None = None) -> str:
        """Return the picture as text, by default with the width of the terminal."""
        return _text(self._scene, width or shutil.get_terminal_size().columns)

    def to_html(self, style: bool = True) -> str:
        """Return the picture as an HTML element; on narrow pages, its arrays wrap to new rows.

        Parameters
        ----------
        style : bool, default True
            Whether to include the style sheet. A page with many pictures can instead include
            `ndgather.show.style_sheet` once.
        """
        return svg.render_html(self._scene, style)

    def to_svg(self, theme: str | None = None) -> str:
        """Return the picture as the content of an SVG file.

        Parameters
        ----------
        theme : {"light", "dark"}, optional
            The default is the theme of the page that shows the picture, or of the system.
        """
        return svg.render(self._scene, _checked_theme("to_svg", theme))

    def save(self, path: str | os.PathLike[str], theme: str | None = None) -> None:
        """Save the picture as an SVG file.

        Parameters
        ----------
        path : path
            The path of the file, which must end in ``.svg``.
        theme : {"light", "dark"}, optional
            See `to_svg`.

        Raises
        ------
        AttributeValueError
            The path has a different extension, or the theme is unknown.
        OSError
            The file cannot be written.
        """
        _checked_theme("save", theme)
        if Path(path).suffix.lower() != ".svg":
            raise messages.unknown_choice("save", "path", str(path), (".svg",))
        Path(path).write_text(self.to_svg(theme), encoding="utf-8")


def _checked_theme(caller: str, theme: str | None) -> str | None:
    if theme is not None and theme not in THEMES:
        raise messages.unknown_choice(caller, "theme", theme, tuple(THEMES))
    return theme


def draw(
    call: Call, shape: tuple[int, ...] | None = None, error: NdgatherError | None = None
) -> Picture:
    """Draw a call whose result will be reshaped to `shape`.

    If `error` is given, draw a call that fails with this error, without running the call.
    """
    evaluation = evaluate(call, error)
    drawn = evaluation.call if evaluation.readable else None
    return Picture(make_scene(evaluation, shape), evaluation.error, drawn)


_BETWEEN = "    "
_SYMBOLS = {State.FILLED: "fill", State.DROPPED: "", State.ERROR: "✗", State.ABSENT: "."}


def _text(scene: Scene, width: int) -> str:
    """Return a scene as text, with as many panels per row as `width` allows."""
    lines = [scene.title, ""]
    row: list[list[str]] = []
    used = 0
    for panel in scene.panels:
        block = list(_panel_lines(panel, scene.entries))
        size = max(map(len, block))
        if row and used + size > width:
            lines += [*_side_by_side(row), ""]
            row, used = [], 0
        row.append(block)
        used += size + len(_BETWEEN)
    lines += _side_by_side(row)
    for note in scene.notes if scene.error is None else (scene.error, *scene.notes):
        lines += ["", *textwrap.wrap(note, width)]
    return "\n".join(line.rstrip() for line in lines)


def _side_by_side(blocks: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, block)) for block in blocks]
    for lines in itertools.zip_longest(*blocks, fillvalue=""):
        yield _BETWEEN.join(map(str.ljust, lines, widths))


def _panel_lines(panel: Panel, entries: Sequence[EntryLabel]) -> Iterator[str]:
    yield f"{panel.name}  {panel.about}"
    if panel.note:
        yield f"({panel.note})"
    for plane in panel.planes:
        if plane.heading:
            yield plane.heading
        table: list[list[str | None]] = [["", *plane.columns]]
        for row, (label, cells) in enumerate(zip(plane.rows, plane.cells, strict=True)):
            letters = (_letters(plane, row, column, entries) for column in range(len(cells)))
            table.append([label, *map(_cell_text, cells, letters)])
        first = 0 if any(plane.rows) else 1  # omit an empty column of row labels
        lines = [["…" if text is None else text for text in line[first:]] for line in table]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines if any(plane.columns) else lines[1:]:
            yield "  ".join(map(str.rjust, line, widths))


def _letters(plane: Plane, row: int, column: int, entries: Sequence[EntryLabel]) -> str:
    return " ".join(
        entries[box.entry].letter
        for box in plane.boxes
        if box.rows[0] <= row <= box.rows[1] and box.columns[0] <= column <= box.columns[1]
    )


def _cell_text(cell: Cell | None, letters: str) -> str | None:
    if cell is None:
        return None
    text = cell.text or _SYMBOLS.get(cell.state, "")
    if cell.state is State.ERROR and cell.text:
        text = f"{text}✗"
    return f"{text} {letters}" if letters else text
