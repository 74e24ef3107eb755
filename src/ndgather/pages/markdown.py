"""A page as GitHub-flavoured Markdown."""

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

_SPECIAL = re.compile(r"[\\`*<>|~&$]|(?<![^\W_])_|_(?![^\W_])|(?<=\])\(")
_BLOCK_START = re.compile(r"^(?=[-+#]+(?:\s|$))|^(\d+)(?=[.)]\s)")


def render(document: Document) -> str:
    return "\n".join(_page(document))


def _page(document: Document) -> Iterator[str]:
    yield f"# {_escaped(document.title)}"
    yield ""
    for block in document.lead:
        yield from _block(block)
    for section in document.sections:
        yield f"## {_escaped(section.title)}"
        yield ""
        for block in section.blocks:
            yield from _block(block)


def _block(block: Block) -> Iterator[str]:
    match block:
        case Paragraph(text=text):
            yield _inline(text)
        case Code(lines=lines):
            yield from _fenced(lines)
        case Facts(items=items):
            for label, text in items:
                yield f"- **{_escaped(label)}**: {_inline(text)}"
        case Bullets(items=items):
            for item in items:
                yield f"- {_inline(item)}"
        case Table():
            yield from _table(block)
        case Example():
            yield f"### {_escaped(block.title)}"
            yield ""
            yield _escaped(block.why)
            yield ""
            yield from _fenced(map(str, listing(block)))
    yield ""


def _fenced(lines: Iterable[str]) -> Iterator[str]:
    yield "```python"
    yield from lines
    yield "```"


def _table(table: Table) -> Iterator[str]:
    yield f"| {' | '.join(map(_escaped, table.titles))} |"
    yield f"|{'|'.join('---' for _ in table.titles)}|"
    for row in table.rows:
        yield f"| {' | '.join(map(_inline, row))} |"


def _inline(text: Text) -> str:
    return "".join(map(_span, text))


def _span(span: Span) -> str:
    match span.style:
        case Style.CODE:
            return f"`{span.text}`"
        case Style.LINK:
            return f"<{span.text}>"
        case _:
            return _escaped(span.text)


def _escaped(text: str) -> str:
    """Take their meaning in Markdown from the characters of `text`."""
    return _BLOCK_START.sub(r"\1\\", _SPECIAL.sub(r"\\\g<0>", text))
