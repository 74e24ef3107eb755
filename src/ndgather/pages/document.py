"""What a page is made of: sections of blocks, of text without any markup.

A page is built once, as a `Document`; `text`, `markdown`, `rst`, `html` and `json` each
write all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from ndgather.pages.runs import Run


class Style(StrEnum):
    """How a piece of text is set."""

    PLAIN = "plain"
    CODE = "code"
    LINK = "link"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A piece of text in one style; the text of a link is its address."""

    text: str
    style: Style = Style.PLAIN


Text: TypeAlias = tuple[Span, ...]


def plain(text: str) -> Text:
    return (Span(text=text),)


def code(text: str) -> Text:
    return (Span(text=text, style=Style.CODE),)


def link(address: str) -> Text:
    return (Span(text=address, style=Style.LINK),)


def prose(text: str) -> Text:
    """Return `text` with what stands between backticks as code."""
    parts = text.split("`")
    styles = (Style.PLAIN, Style.CODE)
    return tuple(
        Span(text=part, style=styles[position % 2]) for position, part in enumerate(parts) if part
    )


def string(text: Text) -> str:
    """Return the text without its styles."""
    return "".join(span.text for span in text)


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Text that is filled into lines."""

    text: Text


@dataclass(frozen=True, slots=True)
class Code:
    """Lines that keep their breaks."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """Texts with a short label each, such as ``domain: ai.onnx``."""

    items: tuple[tuple[str, Text], ...]


@dataclass(frozen=True, slots=True)
class Bullets:
    """Independent remarks."""

    items: tuple[Text, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of cells under titles; every row has as many cells as there are titles."""

    titles: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A call that was run: what it shows, and the run of each operator that it is shown for."""

    title: str
    why: str
    runs: tuple[Run, ...]


Block: TypeAlias = Paragraph | Code | Facts | Bullets | Table | Example


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A titled part of a page."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A page: what it is about, the blocks before the first section, and the sections."""

    title: str
    lead: tuple[Block, ...]
    sections: tuple[Section, ...] = ()
