"""A scene as SVG: one file, or the picture of one part for a page of HTML."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from ndgather.show import theme
from ndgather.show.composition import composed
from ndgather.show.drawing import Group, Label, Line, Rect
from ndgather.show.style import PREFIX, ROOT, sheet

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ndgather.show.drawing import Drawing, Shape
    from ndgather.show.scene import Scene

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(scene: Scene, theme_name: str | None = None) -> str:
    """Return a scene as a file of its own, in one theme or in that of the reader."""
    whole = composed(scene)
    width, height = whole.width, whole.height
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{ROOT}" role="group" '
        f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}">',
        f"<title>{escaped(scene.title)}</title><desc>{escaped(description(scene))}</desc>",
        f"<style>{sheet(len(scene.entries), theme_name)}</style>",
        *elements(whole.items),
        "</svg>\n",
    ]
    return "".join(parts)


def part(drawing: Drawing, name: str) -> str:
    """Return one part of a scene as an element of a page that has the style sheet."""
    width, height = drawing.width + 4, drawing.height + 2
    return (
        f'<svg role="group" aria-label="{escaped(name)}" width="{width:g}" height="{height:g}" '
        f'viewBox="-2 0 {width:g} {height:g}">{"".join(elements(drawing.items))}</svg>'
    )


def description(scene: Scene) -> str:
    """Return what a picture shows, in sentences."""
    parts = [scene.summary]
    parts += [f"{entry.letter}: {entry.sentence}" for entry in scene.entries]
    parts += scene.notes
    if scene.error is not None:
        parts.append(f"The call fails: {scene.error}")
    return ". ".join(parts) + "."


def escaped(text: str) -> str:
    """Write a text for XML, without the characters that no XML may have."""
    return html.escape(_NOT_XML.sub("\ufffd", text))


def elements(items: Sequence[Shape | Group]) -> Iterator[str]:
    """Yield the elements of shapes; those around groups are hidden from screen readers."""
    hidden: list[str] = []
    for item in items:
        if isinstance(item, Group):
            if hidden:
                yield f'<g aria-hidden="true">{"".join(hidden)}</g>'
                hidden = []
            yield _group(item)
        else:
            hidden.append(_shape(item))
    if hidden:
        yield f'<g aria-hidden="true">{"".join(hidden)}</g>'


def _group(group: Group) -> str:
    colour = group.entry % len(theme.ENTRY_COLOURS)
    names = f"{PREFIX}e {PREFIX}k{group.entry} {PREFIX}c{colour}"
    inner = "".join(map(_shape, group.shapes))
    if group.is_entry:
        label = f'role="img" tabindex="0" aria-label="{escaped(group.sentence)}"'
    else:
        label = 'aria-hidden="true"'
    return f'<g class="{names}" {label}><title>{escaped(group.sentence)}</title>{inner}</g>'


def _shape(shape: Shape) -> str:
    match shape:
        case Rect():
            return _rect(shape)
        case Line():
            ends = f'x1="{shape.x:g}" y1="{shape.y:g}" x2="{shape.to_x:g}" y2="{shape.to_y:g}"'
            return f'<line class="{PREFIX}{shape.style}" {ends}/>'
        case Label():
            anchor = "" if shape.anchor == "start" else f' text-anchor="{shape.anchor}"'
            place = f'x="{shape.x:.5g}" y="{shape.y:.5g}"'
            text = escaped(shape.text)
            return f'<text class="{PREFIX}{shape.style}" {place}{anchor}>{text}</text>'


def _rect(rect: Rect) -> str:
    paints = {**theme.SHAPES, "box": theme.BOX, "chip": theme.CHIP}
    opacity = "" if rect.weight == 1 else f' fill-opacity="{rect.weight:g}"'
    return (
        f'<rect class="{PREFIX}{rect.style}" x="{rect.x:.5g}" y="{rect.y:.5g}" '
        f'width="{rect.width:.5g}" height="{rect.height:.5g}" '
        f'rx="{paints[rect.style].radius:g}"{opacity}/>'
    )
