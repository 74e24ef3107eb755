"""The style sheet of pictures: the theme as CSS, for a light and a dark page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.show import theme

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ndgather.show.theme import Paint

ROOT = "ndg"
PREFIX = "n-"
# How a page says that it is dark, or light whatever the system is: with data-theme, and the ways of
# JupyterLab and of VS Code.
_DARK_PAGES = ("[data-theme=dark]", "[data-jp-theme-light=false]", ".vscode-dark")
_LIGHT_PAGES = ("[data-theme=light]", "[data-jp-theme-light=true]", ".vscode-light")


def sheet(entries: int, theme_name: str | None) -> str:
    """Return the style sheet of a picture with so many entries, for one theme or for both."""
    root = f".{ROOT}"
    colours = theme.THEMES[theme_name or "light"]
    rules = [_variables(root, colours), *_painted(root, colours), *_fixed(root)]
    if theme_name is None:
        not_light = "".join(f":not({page} *)" for page in _LIGHT_PAGES)
        of_system = _variables(f"{root}{not_light}", theme.DARK)
        rules.append(f"@media(prefers-color-scheme:dark){{{of_system}}}")
        rules.append(_variables(f":is({','.join(_DARK_PAGES)}) {root}", theme.DARK))
    return "".join((*rules, *_linking(root, entries)))


def _variables(selector: str, colours: Mapping[str, str]) -> str:
    return f"{selector}{{{''.join(f'--n-{name}:{value};' for name, value in colours.items())}}}"


def _fixed(root: str) -> Iterator[str]:
    texts = {**theme.TEXTS, "letter": theme.LETTER}
    for name, text in texts.items():
        weight = "bold " if text.bold else ""
        yield f"{root} .{PREFIX}{name}{{font:{weight}{text.size}px {text.family}}}"
    shapes = {**theme.SHAPES, "box": theme.BOX, "chip": theme.CHIP}
    for name, paint in shapes.items():
        yield f"{root} .{PREFIX}{name}{{{''.join(_lines(paint))}}}"
    pairs = zip(theme.ENTRY_COLOURS, theme.ON_ENTRY, strict=True)
    for number, (colour, on_it) in enumerate(pairs):
        here = f"{root} .{PREFIX}c{number}"
        yield f"{here} .{PREFIX}box{{fill:{colour};stroke:{colour}}}"
        yield f"{here} .{PREFIX}chip{{fill:{colour}}}{here} .{PREFIX}letter{{fill:{on_it}}}"
    yield f"{root} text{{pointer-events:none;white-space:pre}}{root} svg{{display:block}}"
    yield f"{root} .{PREFIX}e{{outline:none;transition:opacity .12s}}"


def _lines(paint: Paint) -> Iterator[str]:
    if paint.fill_opacity != 1:
        yield f"fill-opacity:{paint.fill_opacity};"
    if paint.stroke_opacity != 1:
        yield f"stroke-opacity:{paint.stroke_opacity};"
    yield f"stroke-width:{paint.width};"
    if paint.dashes:
        yield f"stroke-dasharray:{' '.join(map(str, paint.dashes))};"


def _linking(root: str, entries: int) -> Iterator[str]:
    """Yield what makes one entry stand out everywhere when the mouse or the focus is on it."""
    for number in range(entries):
        this = f".{PREFIX}k{number}"
        chosen = f"{root}:has({this}:is(:hover,:focus))"
        yield f"{chosen} .{PREFIX}e:not({this}){{opacity:.15}}"
        yield f"{chosen} {this} .{PREFIX}box{{stroke-width:3.5;fill-opacity:.4}}"


def _painted(root: str, colours: Mapping[str, str]) -> Iterator[str]:
    """Yield the colours of a theme; programs that know no variables take the first of each pair."""
    yield f"{root}{{{_colour('color', 'ink', colours)}}}"
    groups: dict[str, list[str]] = {}
    for name, text in theme.TEXTS.items():
        groups.setdefault(_colour("fill", text.colour, colours), []).append(name)
    for name, paint in theme.SHAPES.items():
        rule = _colour("fill", paint.fill, colours)
        if paint.stroke is not None:
            rule += ";" + _colour("stroke", paint.stroke, colours)
        groups.setdefault(rule, []).append(name)
    for rule, names in groups.items():
        yield f"{','.join(f'{root} .{PREFIX}{name}' for name in names)}{{{rule}}}"


def _colour(of_what: str, name: str | None, colours: Mapping[str, str]) -> str:
    if name is None:
        return f"{of_what}:none"
    return f"{of_what}:{colours[name]};{of_what}:var(--n-{name})"
