"""The formats of a page, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import option_errors
from ndgather.pages import html, json, markdown, rst, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from ndgather.pages.document import Document

TERMINAL = "text"

_FILES: dict[str, Callable[[Document], str]] = {
    "md": markdown.render,
    "rst": rst.render,
    "html": html.render,
    "json": json.render,
}
FORMATS = (TERMINAL, *_FILES)


def render(caller: str, document: Document, *, format: str, width: int, color: bool) -> str:
    """Write `document`; `width` and `color` concern the text of a terminal only."""
    if format == TERMINAL:
        return text.render(document, width=width, color=color)
    if format not in _FILES:
        raise option_errors.unknown_choice(caller, "format", format, FORMATS)
    return _FILES[format](document)
