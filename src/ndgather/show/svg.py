"""A scene as SVG: one file, or the picture of one part for a page of HTML."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from ndgather.show import theme
from ndgather.show.layout import composed, drawing
from ndgather.show.resolve import MOST_ENTRIES
from ndgather.show.scene import Group, Label, Line, Rect
from ndgather.show.theme import PREFIX, ROOT, sheet

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ndgather.show.scene import Drawing, Scene, Shape


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


_NARROW = 300  # pixels that a part has on a phone
_FLOW = (
    f".{ROOT}{{margin:1em 0;padding:14px 18px 16px;border-radius:8px;background:var(--n-page);"
    "overflow:hidden;text-align:left}"
    f".{ROOT} .{PREFIX}call{{font:bold 15px/1.4 ui-monospace,Menlo,Consolas,monospace;"
    "overflow-wrap:anywhere;margin:0 0 12px}"
    f".{ROOT} .{PREFIX}parts{{display:flex;flex-wrap:wrap;gap:22px 30px;align-items:flex-start}}"
    f".{ROOT} .{PREFIX}part{{max-width:100%;overflow-x:auto;display:flex;gap:14px}}"
    f".{ROOT} .{PREFIX}part svg{{max-width:none;flex:none}}"
    f".{ROOT} .{PREFIX}to{{font:20px system-ui;line-height:18px;color:var(--n-faint)}}"
    f".{ROOT} .{PREFIX}said{{font:13px/1.5 system-ui,sans-serif;color:var(--n-faint);"
    "margin:12px 0 0;overflow-wrap:anywhere}"
    f".{ROOT} .{PREFIX}fails{{font:bold 13px/1.5 ui-monospace,Menlo,Consolas,monospace;"
    "color:var(--n-error)}"
    f".{ROOT} .{PREFIX}unseen{{position:absolute;width:1px;height:1px;overflow:hidden;"
    "clip-path:inset(50%)}"
)


def style_sheet(entries: int = MOST_ENTRIES) -> str:
    """Return the style sheet of pictures, for a page that has many of them.

    Parameters
    ----------
    entries : int, default that of the largest picture
        How many entries of indices a picture has at most.

    Returns
    -------
    str
        CSS, for pictures made by ``Picture.to_html(style=False)``.

    Examples
    --------
    >>> from ndgather import show
    >>> picture = show.gather_nd([10, 11], [[1]])
    >>> page = f"<style>{show.style_sheet()}</style>{picture.to_html(style=False)}"
    """
    return sheet(entries, None) + _FLOW


def render_html(scene: Scene, style: bool = True) -> str:
    """Return a scene as an element of a page, with its style sheet or for a page that has it."""
    return "".join(_pieces(scene, style))


def _pieces(scene: Scene, style: bool) -> Iterator[str]:
    yield f'<figure class="{ROOT}" aria-label="{escaped(scene.title)}">'
    if style:
        yield f"<style>{style_sheet(len(scene.entries))}</style>"
    yield f'<p class="{PREFIX}call">{escaped(scene.title)}</p>'
    yield f'<p class="{PREFIX}unseen">{escaped(description(scene))}</p>'
    yield f'<div class="{PREFIX}parts">'
    for number, each in enumerate(scene.parts):
        drawn = drawing(each, scene.entries)
        inner = part(drawn, f"{each.name} {each.about}")
        if number and number == len(scene.parts) - 1:
            inner = f'<span class="{PREFIX}to" aria-hidden="true">→</span>{inner}'
        # Where it has to be scrolled, the keys have to reach it.
        focus = ' tabindex="0"' if drawn.width > _NARROW else ""
        yield f'<div class="{PREFIX}part"{focus}>{inner}</div>'
    yield "</div>"
    if scene.error is not None:
        yield f'<p class="{PREFIX}said {PREFIX}fails">{escaped(scene.error)}</p>'
    for note in scene.notes:
        yield f'<p class="{PREFIX}said">{escaped(note)}</p>'
    yield "</figure>"
