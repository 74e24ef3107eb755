"""Colours, fonts and line widths: `svg` writes them as CSS, `png` passes them to matplotlib.

The colours of entries are those of Okabe and Ito that differ clearly from one another, from red and
from both pages, with every kind of colour vision; letters identify the entries as well.
"""

from __future__ import annotations

from dataclasses import dataclass

MONOSPACE = 'ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace'
SANS = 'system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif'
ADVANCE = 0.602  # width of a letter of a monospaced font, relative to its size
ENTRY_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9")
ON_ENTRY = ("#ffffff", "#000000", "#000000", "#000000", "#000000")

_NAMES = ("page", "ink", "faint", "line", "cell", "error", "on_error")
_LIGHT = ("#ffffff", "#1b2430", "#566172", "#c9d1dc", "#f2f4f8", "#c62828", "#ffffff")
_DARK = ("#161b22", "#e6eaf0", "#a2adbb", "#3d4755", "#222a35", "#ff7b72", "#000000")
THEMES = {
    "light": dict(zip(_NAMES, _LIGHT, strict=True)),
    "dark": dict(zip(_NAMES, _DARK, strict=True)),
}
ENTRY = "entry"  # in place of a colour of the theme: that of the entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """How a label is set."""

    size: float
    colour: str
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
    "letter": Text(size=10, colour=ENTRY, bold=True),
}
SHAPES = {
    "page": Paint(fill="page", radius=8),
    "cell": Paint(fill="cell", stroke="line"),
    "absent": Paint(stroke="line", dashes=(2, 2)),
    "hatch": Paint(stroke="faint", stroke_opacity=0.35),
    "outside": Paint(fill="error", fill_opacity=0.12, stroke="error", width=2, dashes=(4, 2)),
    "alarm": Paint(fill="error", radius=3),
    "cross": Paint(stroke="ink", width=1.2),
    "box": Paint(fill=ENTRY, fill_opacity=0.2, stroke=ENTRY, width=2),
    "chip": Paint(fill=ENTRY, radius=3),
}


def text_width(text: str, style: str) -> float:
    """Return about how wide a text is."""
    return len(text) * ADVANCE * TEXTS[style].size
