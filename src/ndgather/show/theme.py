"""Colours, fonts and line widths, as data: what SVG says in CSS, and PNG to matplotlib.

The colours of entries are those of Okabe and Ito that stand apart from each other, from red and
from both pages, for all kinds of colour vision; letters tell entries apart as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


MONOSPACE = 'ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace'
SANS = 'system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif'
ADVANCE = 0.602  # of a letter in a monospaced font, in its size
ENTRY_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9")
ON_ENTRY = ("#ffffff", "#000000", "#000000", "#000000", "#000000")

LIGHT = {
    "page": "#ffffff",
    "ink": "#1b2430",
    "faint": "#566172",
    "line": "#c9d1dc",
    "cell": "#f2f4f8",
    "error": "#c62828",
    "on_error": "#ffffff",
    "heat": "#0072b2",
}
DARK = {
    "page": "#161b22",
    "ink": "#e6eaf0",
    "faint": "#a2adbb",
    "line": "#3d4755",
    "cell": "#222a35",
    "error": "#ff7b72",
    "on_error": "#000000",
    "heat": "#56b4e9",
}
THEMES = {"light": LIGHT, "dark": DARK}


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """How a label is set."""

    size: float
    colour: str  # of the theme
    family: str = MONOSPACE
    bold: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Paint:
    """How a rectangle or a line is painted; None is nothing."""

    fill: str | None = None
    fill_opacity: float = 1.0
    stroke: str | None = None
    stroke_opacity: float = 1.0
    width: float = 1.0
    dashes: tuple[float, ...] = ()
    radius: float = 4.0


TEXTS = {
    "title": Text(size=15, colour="ink", bold=True),
    "name": Text(size=14, colour="ink", family=SANS, bold=True),
    "about": Text(size=11.5, colour="faint"),
    "value": Text(size=13, colour="ink"),
    "bad": Text(size=13, colour="error", bold=True),
    "head": Text(size=10.5, colour="faint"),
    "note": Text(size=12, colour="faint", family=SANS),
    "arrow": Text(size=20, colour="faint", family=SANS),
    "error": Text(size=12.5, colour="error", bold=True),
    "wrong": Text(size=10, colour="on_error", bold=True),
}
SHAPES = {
    "page": Paint(fill="page", radius=8),
    "cell": Paint(fill="cell", stroke="line"),
    "absent": Paint(stroke="line", dashes=(2, 2)),
    "hatch": Paint(stroke="faint", stroke_opacity=0.35),
    "refused": Paint(fill="error", fill_opacity=0.12, stroke="error", width=2, dashes=(4, 2)),
    "alarm": Paint(fill="error", radius=3),
    "square": Paint(fill="heat", radius=1),
    "empty": Paint(fill="cell", radius=1),
    "cross": Paint(stroke="ink", width=1.2),
}
BOX = Paint(fill_opacity=0.2, width=2)  # in the colour of its entry
CHIP = Paint(radius=3)
LETTER = Text(size=10, colour="", bold=True)


def letters_width(text: str, style: str) -> float:
    """Return about how wide a text is."""
    return len(text) * ADVANCE * TEXTS[style].size


ROOT = "ndg"
PREFIX = "n-"
# How a page says that it is dark, or light whatever the system is: with data-theme, and the ways of
# JupyterLab and of VS Code.
_DARK_PAGES = ("[data-theme=dark]", "[data-jp-theme-light=false]", ".vscode-dark")
_LIGHT_PAGES = ("[data-theme=light]", "[data-jp-theme-light=true]", ".vscode-light")


def sheet(entries: int, theme_name: str | None) -> str:
    """Return the style sheet of a picture with so many entries, for one theme or for both."""
    root = f".{ROOT}"
    colours = THEMES[theme_name or "light"]
    rules = [_variables(root, colours), *_painted(root, colours), *_fixed(root)]
    if theme_name is None:
        not_light = "".join(f":not({page} *)" for page in _LIGHT_PAGES)
        of_system = _variables(f"{root}{not_light}", DARK)
        rules.append(f"@media(prefers-color-scheme:dark){{{of_system}}}")
        rules.append(_variables(f":is({','.join(_DARK_PAGES)}) {root}", DARK))
    return "".join((*rules, *_linking(root, entries)))


def _variables(selector: str, colours: Mapping[str, str]) -> str:
    return f"{selector}{{{''.join(f'--n-{name}:{value};' for name, value in colours.items())}}}"


def _fixed(root: str) -> Iterator[str]:
    texts = {**TEXTS, "letter": LETTER}
    for name, text in texts.items():
        weight = "bold " if text.bold else ""
        yield f"{root} .{PREFIX}{name}{{font:{weight}{text.size}px {text.family}}}"
    shapes = {**SHAPES, "box": BOX, "chip": CHIP}
    for name, paint in shapes.items():
        yield f"{root} .{PREFIX}{name}{{{''.join(_lines(paint))}}}"
    pairs = zip(ENTRY_COLOURS, ON_ENTRY, strict=True)
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
    for name, text in TEXTS.items():
        groups.setdefault(_colour("fill", text.colour, colours), []).append(name)
    for name, paint in SHAPES.items():
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
