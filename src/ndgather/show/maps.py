"""The drawing of a map: a square for each place, the darker the more reads go there."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from ndgather.show.drawing import Drawing, Label, Rect
from ndgather.show.grid import HEAD
from ndgather.show.theme import letters_width

if TYPE_CHECKING:
    from ndgather.show.drawing import Shape
    from ndgather.show.scene import Map

_SQUARE = 10.0


def map_drawing(part: Map) -> Drawing:
    items: list[Shape] = [Label(0, 13, part.name, "name"), Label(0, 31, part.about, "about")]
    lines = part.note.split("; ")
    most = max(itertools.chain.from_iterable(part.counts), default=0)
    top = HEAD + 6
    for row, counts in enumerate(part.counts):
        for column, count in enumerate(counts):
            place = (column * (_SQUARE + 1), top + row * (_SQUARE + 1), _SQUARE, _SQUARE)
            weight = 0.25 + 0.75 * math.log1p(count) / math.log1p(most) if count else 1.0
            items.append(Rect(*place, "square" if count else "empty", round(weight, 2)))
    y = top + len(part.counts) * (_SQUARE + 1) + 14
    items += [Label(0, y + 15 * number, line, "note") for number, line in enumerate(lines)]
    texts = [letters_width(part.about, "about"), *(letters_width(each, "note") for each in lines)]
    width = max(*texts, len(part.counts[0]) * (_SQUARE + 1))
    return Drawing(math.ceil(width), math.ceil(y + 15 * len(lines) - 8), tuple(items))
