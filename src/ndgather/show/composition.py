"""The parts of a scene side by side on one sheet, with its title above and its notes below."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

from ndgather.show.drawing import Drawing, Group, Label, Line, Rect
from ndgather.show.layout import drawing
from ndgather.show.theme import ADVANCE, TEXTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ndgather.show.drawing import Shape
    from ndgather.show.scene import Scene

_MARGIN, _BETWEEN = 20.0, 34.0
_WIDEST = 1040.0
_PLANES = 560.0  # in a row
_LINE = 18.0


def composed(scene: Scene) -> Drawing:
    """Return the drawing of a whole scene; parts go on below where they would be too wide."""
    drawings = [drawing(part, scene.entries, _PLANES) for part in scene.parts]
    items: list[Shape | Group] = []
    x, y = _MARGIN, _MARGIN + 40
    tallest = widest = 0.0
    for number, each in enumerate(drawings):
        if number and x + _BETWEEN + each.width > _WIDEST:
            x, y, tallest = _MARGIN, y + tallest + _BETWEEN, 0.0
        elif number:
            x += _BETWEEN
        if number == len(drawings) - 1 and x > _MARGIN:
            items.append(Label(x - _BETWEEN / 2, y + 14, "→", "arrow", "middle"))
        items += (moved(item, x, y) for item in each.items)
        x += each.width
        tallest, widest = max(tallest, each.height), max(widest, x)
    y += tallest + 26
    widest = max(widest, _MARGIN + len(scene.title) * ADVANCE * TEXTS["title"].size, 320.0)
    for text, style in _below(scene, widest - _MARGIN):
        items.append(Label(_MARGIN, y, text, style))
        y += _LINE
    width, height = math.ceil(widest + _MARGIN), math.ceil(y)
    page = Rect(0, 0, width, height, "page")
    title = Label(_MARGIN, _MARGIN + 12, scene.title, "title")
    return Drawing(width, height, (page, title, *items))


def _below(scene: Scene, width: float) -> Iterator[tuple[str, str]]:
    """Yield the error and the notes, in lines that fit."""
    texts = [(note, "note") for note in scene.notes]
    if scene.error is not None:
        texts.insert(0, (scene.error, "error"))
    for text, style in texts:
        letters = max(int(width / (ADVANCE * TEXTS[style].size)), 20)
        for line in textwrap.wrap(text, letters) or [""]:
            yield line, style


def moved(item: Shape | Group, x: float, y: float) -> Shape | Group:
    """Return an item of a drawing elsewhere on the sheet."""
    match item:
        case Group(entry, sentence, shapes, is_entry):
            inner = tuple(_moved(shape, x, y) for shape in shapes)
            return Group(entry, sentence, inner, is_entry)
        case _:
            return _moved(item, x, y)


def _moved(shape: Shape, x: float, y: float) -> Shape:
    match shape:
        case Rect():
            return Rect(
                shape.x + x, shape.y + y, shape.width, shape.height, shape.style, shape.weight
            )
        case Line():
            return Line(shape.x + x, shape.y + y, shape.to_x + x, shape.to_y + y, shape.style)
        case Label():
            return Label(shape.x + x, shape.y + y, shape.text, shape.style, shape.anchor)
