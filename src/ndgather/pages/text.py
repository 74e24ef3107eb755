"""A page as text for a terminal: filled to a width, in colours if asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ndgather.pages.document import (
    Block,
    Bullets,
    Code,
    Document,
    Example,
    Facts,
    Paragraph,
    Part,
    Style,
    Table,
    Text,
    listing,
    plain,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_INDENT = "  "
_GAP = "  "
_NARROWEST_COLUMN = 9
_WIDEST_LABEL = 26
_LONGEST_WHOLE_CODE = 40
_RESET = "\x1b[0m"
_HEADING = "\x1b[1m"
_LABEL = "\x1b[36m"
_STYLES = {Style.PLAIN: "", Style.CODE: "\x1b[36m", Style.LINK: "\x1b[4m"}
_PARTS = {Part.INPUT: "", Part.CALL: "\x1b[1m", Part.RESULT: "\x1b[32m", Part.ERROR: "\x1b[31m"}
_COMMENT = "\x1b[2m"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Letters without a space between them, and the escape sequence that they are set in."""

    letters: str
    escape: str


def render(document: Document, *, width: int = 80, color: bool = False) -> str:
    """Return the page; no line of prose is longer than `width`."""
    return "\n".join((*_Writer(width=width, color=color).page(document), ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writer:
    width: int
    color: bool

    def page(self, document: Document) -> Iterator[str]:
        yield self._set(document.title, _HEADING)
        yield "=" * len(document.title)
        for block in document.lead:
            yield ""
            yield from self._indented(block)
        for section in document.sections:
            yield ""
            yield self._set(section.title, _HEADING)
            for position, block in enumerate(section.blocks):
                if position:
                    yield ""
                yield from self._indented(block)

    def _indented(self, block: Block) -> Iterator[str]:
        room = self.width - len(_INDENT)
        return (f"{_INDENT}{line}" if line else "" for line in self._block(block, room))

    def _block(self, block: Block, room: int) -> Iterator[str]:
        match block:
            case Paragraph(text=text):
                yield from self._filled(text, room)
            case Code(lines=lines):
                for line in lines:
                    margin = " " * (len(line) - len(line.lstrip()))
                    further = f"{margin}    "
                    yield from self._hanging(plain(line), room, margin, further) if line else ("",)
            case Facts(items=items):
                yield from self._facts(items, room)
            case Bullets(items=items):
                for item in items:
                    yield from self._hanging(item, room, "- ", "  ")
            case Table():
                yield from self._table(block, room)
            case Example():
                yield from self._example(block, room)

    def _facts(self, items: Sequence[tuple[str, Text]], room: int) -> Iterator[str]:
        longest = min(max((len(label) for label, _ in items), default=0), _WIDEST_LABEL)
        for label, text in items:
            start = f"{self._set(label, _LABEL)}{'':{longest - len(label)}}{_GAP}"
            lines = self._filled(text, room - longest - len(_GAP)) or [""]
            yield f"{start}{lines[0]}"
            for line in lines[1:]:
                yield f"{'':{longest + len(_GAP)}}{line}"

    def _example(self, example: Example, room: int) -> Iterator[str]:
        yield self._set(example.title, _HEADING)
        for line in self._filled(plain(example.why), room - len(_INDENT)):
            yield f"{_INDENT}{line}"
        yield ""
        for each in listing(example, room - len(_INDENT)):
            line = self._set(each.code, _PARTS[each.part]) + self._set(each.comment, _COMMENT)
            yield f"{_INDENT}{line}" if line else ""

    def _table(self, table: Table, room: int) -> Iterator[str]:
        titles = tuple(map(plain, table.titles))
        widths = _column_widths((titles, *table.rows), room)
        if widths is None:
            yield from self._records(table, room)
            return
        yield from self._row(titles, widths, _HEADING)
        yield self._set(_GAP.join("-" * each for each in widths), _COMMENT)
        for row in table.rows:
            yield from self._row(row, widths)

    def _row(self, cells: Sequence[Text], widths: Sequence[int], escape: str = "") -> Iterator[str]:
        columns = [
            self._filled(cell, size, escape) for cell, size in zip(cells, widths, strict=True)
        ]
        for position in range(max(map(len, columns))):
            lines = [column[position] if position < len(column) else "" for column in columns]
            yield _GAP.join(
                f"{line}{'':{size - _length(line)}}"
                for line, size in zip(lines, widths, strict=True)
            ).rstrip()

    def _records(self, table: Table, room: int) -> Iterator[str]:
        """Write a table that is too wide as one block of labelled lines for each row."""
        for position, row in enumerate(table.rows):
            if position:
                yield ""
            yield from self._facts(tuple(zip(table.titles, row, strict=True)), room)

    def _hanging(self, text: Text, room: int, first: str, rest: str) -> Iterator[str]:
        start = first
        for line in self._filled(text, room - len(rest)):
            yield f"{start}{line}"
            start = rest

    def _filled(self, text: Text, room: int, escape: str = "") -> list[str]:
        """Break text into lines at its spaces; what has none stays whole."""
        lines: list[str] = []
        line, used = "", 0
        for word in _words(text, escape, room):
            size = sum(len(piece.letters) for piece in word)
            shown = "".join(self._set(piece.letters, piece.escape) for piece in word)
            if line and used + 1 + size > room:
                lines.append(line)
                line, used = shown, size
            elif line:
                line, used = f"{line} {shown}", used + 1 + size
            else:
                line, used = shown, size
        return [*lines, line] if line else lines

    def _set(self, letters: str, escape: str) -> str:
        return f"{escape}{letters}{_RESET}" if self.color and escape and letters else letters


def _words(text: Text, escape: str, room: int) -> Iterator[list[_Piece]]:
    """Yield the words of a text, each in pieces of one style; short code is one word."""
    word: list[_Piece] = []
    for span in text:
        style = escape or _STYLES[span.style]
        whole = span.style is Style.CODE and len(span.text) <= min(room, _LONGEST_WHOLE_CODE)
        for position, part in enumerate([span.text] if whole else span.text.split(" ")):
            if position and word:
                yield word
                word = []
            if part:
                word.append(_Piece(letters=part, escape=style))
    if word:
        yield word


def _length(line: str) -> int:
    """Count what is seen of a line: its characters without escape sequences."""
    return sum(
        len(part.partition("m")[2]) if position else len(part)
        for position, part in enumerate(line.split("\x1b"))
    )


def _column_widths(rows: Sequence[Sequence[Text]], room: int) -> tuple[int, ...] | None:
    """Share the room among the columns: the longest texts are broken, never a word.

    None is returned where the words alone need more than the room.
    """
    columns = list(zip(*rows, strict=True))
    natural = [max(len(string(cell)) for cell in column) for column in columns]
    least = [
        max(_NARROWEST_COLUMN, *(len(word) for cell in column for word in string(cell).split()))
        for column in columns
    ]
    least = [min(pair) for pair in zip(natural, least, strict=True)]
    left = room - len(_GAP) * (len(columns) - 1)
    if sum(least) > left:
        return None
    widths = list(least)
    spare = left - sum(least)
    while spare and any(size < most for size, most in zip(widths, natural, strict=True)):
        needy = [position for position, size in enumerate(widths) if size < natural[position]]
        position = min(needy, key=lambda each: widths[each] ** 2 / natural[each])
        widths[position] += 1
        spare -= 1
    return tuple(widths)
