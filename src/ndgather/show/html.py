"""A scene as a piece of HTML: its parts flow one after another, and wrap where a page is narrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.show.layout import drawing
from ndgather.show.style import PREFIX, ROOT, sheet
from ndgather.show.svg import description, escaped, part
from ndgather.show.trace import MOST_ENTRIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ndgather.show.scene import Scene

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


def render(scene: Scene, style: bool = True) -> str:
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
