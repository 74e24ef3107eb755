"""Render a scene as an SVG file, or as an HTML element with an SVG for each array."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence

from ndgather.api import own_errors
from ndgather.show.evaluate import MOST_ENTRIES
from ndgather.show.layout import (
    ENTRY,
    ENTRY_COLOURS,
    ON_ENTRY,
    SHAPES,
    TEXTS,
    THEMES,
    Group,
    Line,
    Rect,
    Shape,
    panel_drawing,
    picture_drawing,
)
from ndgather.show.scene import Scene

_NARROW = 300  # the maximum width of an array on a phone, in pixels
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(scene: Scene, theme: str | None = None) -> str:
    """Return a scene as an SVG file, with a fixed theme or the theme of the page."""
    drawing = picture_drawing(scene)
    width, height = drawing.width, drawing.height
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" class="ndg" role="group" '
        f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}">'
        f"<title>{_escaped(scene.title)}</title><desc>{_escaped(_description(scene))}</desc>"
        f"<style>{_style_rules(len(scene.entries), theme)}</style>"
        f"{''.join(_elements(drawing.items))}</svg>\n"
    )


def render_html(scene: Scene, style: bool = True) -> str:
    """Return a scene as an HTML element, optionally including the style sheet."""
    parts = []
    for number, panel in enumerate(scene.panels):
        drawing = panel_drawing(panel, scene.entries)
        width, height = drawing.width + 4, drawing.height + 2
        arrow = '<span class="n-to" aria-hidden="true">→</span>'
        # Only focusable elements can be scrolled with the keyboard.
        focus = ' tabindex="0"' if drawing.width > _NARROW else ""
        parts.append(
            f'<div class="n-part"{focus}>{arrow if 0 < number == len(scene.panels) - 1 else ""}'
            f'<svg role="group" aria-label="{_escaped(f"{panel.name} {panel.about}")}" '
            f'width="{width:g}" height="{height:g}" viewBox="-2 0 {width:g} {height:g}">'
            f"{''.join(_elements(drawing.items))}</svg></div>"
        )
    notes = [f'<p class="n-note-below">{_escaped(note)}</p>' for note in scene.notes]
    if scene.error is not None:
        notes.insert(0, f'<p class="n-note-below n-fails">{_escaped(scene.error)}</p>')
    title = _escaped(scene.title)
    return (
        f'<figure class="ndg" aria-label="{title}">'
        f"{f'<style>{style_sheet(len(scene.entries))}</style>' if style else ''}"
        f'<p class="n-call">{title}</p><p class="n-unseen">{_escaped(_description(scene))}</p>'
        f'<div class="n-parts">{"".join(parts)}</div>{"".join(notes)}</figure>'
    )


def _description(scene: Scene) -> str:
    sentences = ["; ".join(f"{panel.name} {panel.about}" for panel in scene.panels)]
    sentences += [f"{entry.letter}: {entry.sentence}" for entry in scene.entries]
    sentences += scene.notes
    if scene.error is not None:
        sentences.append(f"The call fails: {scene.error}")
    return ". ".join(sentences) + "."


def _escaped(text: str) -> str:
    """Escape a string for XML and replace characters that XML does not allow."""
    return html.escape(_NOT_XML.sub("\ufffd", text))


def _elements(items: Sequence[Shape | Group]) -> Iterator[str]:
    """Yield SVG elements; screen readers see only the groups in the panel of indices."""
    hidden: list[str] = []
    for item in (*items, None):
        if item is not None and not isinstance(item, Group):
            hidden.append(_shape(item))
            continue
        if hidden:
            yield f'<g aria-hidden="true">{"".join(hidden)}</g>'
            hidden = []
        if item is not None:
            sentence = _escaped(item.sentence)
            label = 'aria-hidden="true"'
            if item.is_entry:
                label = f'role="img" tabindex="0" aria-label="{sentence}"'
            names = f"n-e n-k{item.entry} n-c{item.entry % len(ENTRY_COLOURS)}"
            shapes = "".join(map(_shape, item.shapes))
            yield f'<g class="{names}" {label}><title>{sentence}</title>{shapes}</g>'


def _shape(shape: Shape) -> str:
    if isinstance(shape, Rect):
        return (
            f'<rect class="n-{shape.style}" x="{shape.x:.5g}" y="{shape.y:.5g}" '
            f'width="{shape.width:.5g}" height="{shape.height:.5g}" '
            f'rx="{SHAPES[shape.style].radius:g}"/>'
        )
    if isinstance(shape, Line):
        ends = f'x2="{shape.x + shape.dx:g}" y2="{shape.y + shape.dy:g}"'
        return f'<line class="n-{shape.style}" x1="{shape.x:g}" y1="{shape.y:g}" {ends}/>'
    anchor = "" if shape.anchor == "start" else f' text-anchor="{shape.anchor}"'
    place = f'x="{shape.x:.5g}" y="{shape.y:.5g}"'
    return f'<text class="n-{shape.style}" {place}{anchor}>{_escaped(shape.text)}</text>'


_FLOW = (
    ".ndg{margin:1em 0;padding:14px 18px 16px;border-radius:8px;background:var(--n-page);"
    "overflow:hidden;text-align:left}"
    ".ndg .n-call{font:bold 15px/1.4 ui-monospace,Menlo,Consolas,monospace;"
    "overflow-wrap:anywhere;margin:0 0 12px}"
    ".ndg .n-parts{display:flex;flex-wrap:wrap;gap:22px 30px;align-items:flex-start}"
    ".ndg .n-part{max-width:100%;overflow-x:auto;display:flex;gap:14px}"
    ".ndg .n-part svg{max-width:none;flex:none}"
    ".ndg .n-to{font:20px system-ui;line-height:18px;color:var(--n-faint)}"
    ".ndg .n-note-below{font:13px/1.5 system-ui,sans-serif;color:var(--n-faint);"
    "margin:12px 0 0;overflow-wrap:anywhere}"
    ".ndg .n-fails{font:bold 13px/1.5 ui-monospace,Menlo,Consolas,monospace;"
    "color:var(--n-error)}"
    ".ndg .n-unseen{position:absolute;width:1px;height:1px;overflow:hidden;"
    "clip-path:inset(50%)}"
)
# Selectors for dark and light pages in general, in JupyterLab and in VS Code.
_DARK_PAGES = "[data-theme=dark],[data-jp-theme-light=false],.vscode-dark"
_LIGHT_PAGES = ("[data-theme=light]", "[data-jp-theme-light=true]", ".vscode-light")


@own_errors("style_sheet")
def style_sheet(entries: int = MOST_ENTRIES) -> str:
    """Return the style sheet for a page with many pictures.

    Parameters
    ----------
    entries : int, optional
        The maximum number of entries of indices in a picture. The default is enough for all
        pictures.

    Returns
    -------
    str
        The CSS for pictures from ``Picture.to_html(style=False)``.

    Examples
    --------
    >>> from ndgather import show
    >>> picture = show.gather_nd([10, 11], [[1]])
    >>> page = f"<style>{show.style_sheet()}</style>{picture.to_html(style=False)}"
    """
    return _style_rules(entries, None) + _FLOW


def _style_rules(entries: int, theme: str | None) -> str:
    """Return the CSS rules of SVG pictures, for a fixed theme or the theme of the page."""
    rules = [_variables(".ndg", theme or "light"), *_styles(THEMES[theme or "light"])]
    if theme is None:
        not_light = "".join(f":not({page} *)" for page in _LIGHT_PAGES)
        of_system = _variables(f".ndg{not_light}", "dark")
        rules.append(f"@media(prefers-color-scheme:dark){{{of_system}}}")
        rules.append(_variables(f":is({_DARK_PAGES}) .ndg", "dark"))
    for number in range(entries):  # highlight an entry that is hovered or focused
        this = f".n-k{number}"
        chosen = f".ndg:has({this}:is(:hover,:focus))"
        rules.append(f"{chosen} .n-e:not({this}){{opacity:.15}}")
        rules.append(f"{chosen} {this} .n-box{{stroke-width:3.5;fill-opacity:.4}}")
    return "".join(rules)


def _variables(selector: str, theme: str) -> str:
    values = "".join(f"--n-{name}:{value};" for name, value in THEMES[theme].items())
    return f"{selector}{{{values}}}"


def _styles(colours: dict[str, str]) -> Iterator[str]:
    """Yield the CSS rules of texts and shapes, with fallbacks for missing CSS variables."""

    def colour(of_what: str, name: str | None) -> str:
        if name == ENTRY:
            return ""
        if name is None:
            return f"{of_what}:none;"
        return f"{of_what}:{colours[name]};{of_what}:var(--n-{name});"

    yield f".ndg{{{colour('color', 'ink')}}}"
    for name, text in TEXTS.items():
        font = f"font:{'bold ' if text.bold else ''}{text.size}px {text.family}"
        yield f".ndg .n-{name}{{{colour('fill', text.colour)}{font}}}"
    for name, paint in SHAPES.items():
        rule = colour("fill", paint.fill)
        if paint.stroke is not None:
            rule += colour("stroke", paint.stroke)
        if paint.dashes:
            rule += f"stroke-dasharray:{' '.join(map(str, paint.dashes))};"
        opacities = f"fill-opacity:{paint.fill_opacity};stroke-opacity:{paint.stroke_opacity};"
        yield f".ndg .n-{name}{{{rule}{opacities}stroke-width:{paint.width}}}"
    for number, pair in enumerate(zip(ENTRY_COLOURS, ON_ENTRY, strict=True)):
        here, (entry, on_entry) = f".ndg .n-c{number} .n-", pair
        yield f"{here}box{{fill:{entry};stroke:{entry}}}"
        yield f"{here}chip{{fill:{entry}}}{here}letter{{fill:{on_entry}}}"
    yield ".ndg text{pointer-events:none;white-space:pre}.ndg svg{display:block}"
    yield ".ndg .n-e{outline:none;transition:opacity .12s}"
