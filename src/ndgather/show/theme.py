"""Colours, fonts and line widths, as data: what SVG says in CSS, and PNG to matplotlib.

The colours of entries are those of Okabe and Ito that stand apart from each other, from red and
from both pages, for all kinds of colour vision; letters tell entries apart as well.
"""

from __future__ import annotations

from dataclasses import dataclass

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
