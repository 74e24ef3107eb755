"""Write a page as Markdown, which reads well on a terminal too, or as JSON."""

from __future__ import annotations

import json
import re
import textwrap
from typing import TYPE_CHECKING, Any

from ndgather import messages
from ndgather.pages.document import (
    Block,
    Bullets,
    Code,
    Document,
    Example,
    FieldList,
    Paragraph,
    Table,
    Text,
    listing,
    spans,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ndgather.pages.examples import ExampleRun

FORMATS = ("text", "md", "json")

_SPECIAL = re.compile(r"[\\`*<>|~&$]|(?<![^\W_])_|_(?![^\W_])|(?<=\])\(")
_BLOCK_START = re.compile(r"^(?=[-+#]+(?:\s|$))|^(\d+)(?=[.)]\s)")
_ADDRESS = re.compile(r"(https?://\S+)")
# Where a line may not break: within short code, and before what would start a block.
_WHOLE = re.compile(r"`[^`]{1,40}`| (?=(?:[-+]|#+|=+|\d+[.)])(?:\s|$))")
_LONG_CELL = 30


def render(caller: str, document: Document, *, format: str, width: int) -> str:
    """Write a page; ``"text"`` is Markdown too. `width` limits its lines; 0 is no limit."""
    if format == "json":
        return json.dumps(_page(document), indent=2) + "\n"
    if format not in FORMATS:
        raise messages.unknown_choice(caller, "format", format, FORMATS)
    lines = [f"# {_escaped(document.title)}", ""]
    for block in document.lead:
        lines += (*_block(block, width), "")
    for section in document.sections:
        lines += (f"## {_escaped(section.title)}", "")
        for block in section.blocks:
            lines += (*_block(block, width), "")
    return "\n".join(lines)


def _block(block: Block, width: int) -> Iterator[str]:
    match block:
        case Paragraph(text=text):
            yield from _filled(_inline(text), width)
        case Code(lines=lines):
            yield from ("```python", *lines, "```")
        case FieldList(items=items):
            for label, text in items:
                yield from _filled(f"**{_escaped(label)}**: {_inline(text)}", width, "- ")
        case Bullets(items=items):
            for text in items:
                yield from _filled(_inline(text), width, "- ")
        case Table():
            yield from _table(block, width)
        case Example():
            yield f"### {_escaped(block.title)}"
            yield ""
            yield from _filled(_inline(block.why), width)
            yield from ("", "```python", *listing(block), "```")


def _table(table: Table, width: int) -> Iterator[str]:
    """Write a table; one with long cells that is too wide becomes a list of its rows."""
    titles = tuple(map(_escaped, table.titles))
    rows = [tuple(map(_inline, row)) for row in table.rows]
    columns = list(zip(titles, *rows, strict=True))
    sizes = [max(map(len, column)) if width else 3 for column in columns]
    if width and sum(sizes) + 3 * len(sizes) + 1 > width and max(sizes) > _LONG_CELL:
        yield from _rows_as_list(titles, rows, width)
        return
    for row in (titles, tuple("-" * size for size in sizes), *rows):
        yield f"| {' | '.join(map(str.ljust, row, sizes))} |"


def _rows_as_list(
    titles: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> Iterator[str]:
    for first, *others in rows:
        if first:  # else the row belongs to the one above
            yield from _filled(f"**{first}**", width, "- ")
        for title, cell in zip(titles[1:], others, strict=True):
            yield from _filled(cell if len(titles) == 2 else f"{title}: {cell}", width, "  - ")


def _filled(text: str, width: int, start: str = "") -> list[str]:
    """Break a text into lines, none of which begins with the mark of a block."""
    if not width:
        return [start + text]
    whole = _WHOLE.sub(lambda match: match[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(
        whole,
        width,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in lines]


def _inline(text: Text) -> str:
    written = ""
    for number, part in enumerate(spans(text)):
        if number % 2:
            written += f"`{part}`"
        else:
            pieces = _ADDRESS.split(part)
            pieces[::2] = map(_escaped, pieces[::2])
            pieces[1::2] = (f"<{address}>" for address in pieces[1::2])
            written += "".join(pieces)
    return written


def _escaped(text: str) -> str:
    """Escape the characters of a text that have a meaning in Markdown."""
    return _BLOCK_START.sub(r"\1\\", _SPECIAL.sub(r"\\\g<0>", text))


def _page(document: Document) -> dict[str, Any]:
    return {
        "title": document.title,
        "about": list(map(_value, document.lead)),
        "sections": {
            section.title: list(map(_value, section.blocks)) for section in document.sections
        },
    }


def _value(block: Block) -> Any:
    """Return a block as JSON has it: tables as lists of objects, examples with their values."""
    match block:
        case Paragraph(text=text):
            return string(text)
        case Code(lines=lines):
            return "\n".join(lines)
        case FieldList(items=items):
            return {label: string(text) for label, text in items}
        case Bullets(items=items):
            return list(map(string, items))
        case Table(titles=titles, rows=rows):
            return [dict(zip(titles, map(string, row), strict=True)) for row in rows]
        case Example(title=title, why=why, runs=runs):
            return {"title": title, "why": why, "runs": list(map(_run, runs))}


def _run(run: ExampleRun) -> dict[str, Any]:
    return {
        "operator": run.operator,
        "call": run.call,
        "tensors": {name: _tensor(array) for name, array in run.tensors},
        "options": dict(run.options),
        "result": None if run.result is None else _tensor(run.result),
        "error": None if run.error is None else dict(zip(("type", "text"), run.error, strict=True)),
    }


def _tensor(array: NDArray[Any]) -> dict[str, Any]:
    return {"dtype": str(array.dtype), "shape": list(array.shape), "values": array.tolist()}
