"""A page as reStructuredText."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ndgather.pages.document import (
    Block,
    Bullets,
    Code,
    Document,
    Example,
    Facts,
    Paragraph,
    Span,
    Style,
    Table,
    Text,
    listing,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SPECIAL = re.compile(r"[\\`*_|]|::$")
_BLOCK_START = re.compile(r"^(?=[-+](?:\s|$)|:|>>>|\.\.|[\w#]+[.)]\s)")
_BEFORE_MARKUP = " '\"([{<-/:"
_AFTER_MARKUP = " '\")]}>-/\\:.,;!?"
_INDENT = "   "


def render(document: Document) -> str:
    return "\n".join(_page(document))


def _page(document: Document) -> Iterator[str]:
    yield from _heading(document.title, "=")
    for block in document.lead:
        yield from _block(block)
    for section in document.sections:
        yield from _heading(section.title, "-")
        for block in section.blocks:
            yield from _block(block)


def _heading(title: str, line: str) -> Iterator[str]:
    text = _escaped(title)
    yield text
    yield line * len(text)
    yield ""


def _block(block: Block) -> Iterator[str]:
    match block:
        case Paragraph(text=text):
            yield _inline(text)
        case Code(lines=lines):
            yield from _literal(lines)
        case Facts(items=items):
            for label, text in items:
                yield f":{_escaped(label)}: {_inline(text)}"
        case Bullets(items=items):
            for item in items:
                yield f"- {_inline(item)}"
        case Table():
            yield from _table(block)
        case Example():
            yield from _heading(block.title, "~")
            yield _escaped(block.why)
            yield ""
            yield from _literal(map(str, listing(block)))
    yield ""


def _literal(lines: Iterable[str]) -> Iterator[str]:
    yield ".. code-block:: text"
    yield ""
    for line in lines:
        yield f"{_INDENT}{line}".rstrip()


def _table(table: Table) -> Iterator[str]:
    yield ".. list-table::"
    yield f"{_INDENT}:header-rows: 1"
    yield ""
    for row in (tuple(map(_escaped, table.titles)), *(map(_inline, row) for row in table.rows)):
        mark = "* - "
        for cell in row:
            yield f"{_INDENT}{mark}{cell}".rstrip()
            mark = "  - "


def _inline(text: Text) -> str:
    """Set the spans side by side; where markup would not end there, an escaped space ends it."""
    line = ""
    for part in map(_span, text):
        touching = line and not (line[-1] in _BEFORE_MARKUP or part[0] in _AFTER_MARKUP)
        line = f"{line}\\ {part}" if touching else f"{line}{part}"
    return line


def _span(span: Span) -> str:
    match span.style:
        case Style.CODE:
            return f"``{span.text}``"
        case Style.LINK:
            return span.text
        case _:
            return _escaped(span.text)


def _escaped(text: str) -> str:
    """Take their meaning in reStructuredText from the characters of `text`."""
    return _BLOCK_START.sub(r"\\", _SPECIAL.sub(r"\\\g<0>", text))
