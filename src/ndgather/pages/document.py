"""What a page consists of, and how it is written: as Markdown, or as JSON."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ndgather import messages
from ndgather.array_call import Array
from ndgather.messages import shown
from ndgather.pages.examples import ExampleRun

Text: TypeAlias = str  # backticks enclose code; doubled, they stand for themselves

#: The formats of pages.
FORMATS = ("text", "md", "json")

_SPECIAL = re.compile(r"[\\`*<>|~&$]|(?<![^\W_])_|_(?![^\W_])|(?<=\])\(")
_BLOCK_START = re.compile(r"^(?=[-+#]+(?:\s|$))|^(\d+)(?=[.)]\s)")
_ADDRESS = re.compile(r"(https?://\S+)")
# Where a line may not break: within short code, and before what would start a block.
_WHOLE = re.compile(r"`[^`]{1,40}`| (?=(?:[-+]|#+|=+|\d+[.)])(?:\s|$))")
_LONG_CELL = 30
_CODE = re.compile(r"(?<!`)`(?!`)")


def literal(text: str) -> Text:
    """Return a text in which backticks stand for themselves."""
    return text.replace("`", "``")


def spans(text: Text) -> list[str]:
    """Return the parts of a text: prose, code, prose, and so on."""
    return [part.replace("``", "`") for part in _CODE.split(text)]


def string(text: Text) -> str:
    """Return a text without its markup."""
    return "".join(spans(text))


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Text that is filled into lines."""

    text: Text


@dataclass(frozen=True, slots=True)
class Code:
    """Lines that keep their breaks."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FieldList:
    """Texts with a short label, such as ``domain: ai.onnx``."""

    items: tuple[tuple[str, Text], ...]


@dataclass(frozen=True, slots=True)
class Bullets:
    """Independent remarks."""

    items: tuple[Text, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under titles; every row has as many cells as there are titles."""

    titles: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]


@dataclass(frozen=True, slots=True)
class Example:
    """A call: what it shows, and its run by every operator that the page compares."""

    title: str
    why: str
    runs: tuple[ExampleRun, ...]


Block: TypeAlias = Paragraph | Code | FieldList | Bullets | Table | Example


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page that has a title."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A page: its title, the blocks before the first section, and the sections."""

    title: str
    lead: tuple[Block, ...]
    sections: tuple[Section, ...] = ()


def listing(example: Example, width: int = 76) -> tuple[str, ...]:
    """Return the lines of an example; `width` is the limit of lines of errors."""
    tensors = example.runs[0].tensors
    longest = max(len(name) for name, _ in tensors)
    cells = {name: _cells(f"{name:{longest}} = ", array) for name, array in tensors}
    column = max(len(line) for lines in cells.values() for line in lines) + 2
    lines = []
    for name, array in tensors:
        first, *rest = cells[name]
        lines += [f"{first:{column}}# {array.dtype}, shape {shown(array.shape)}", *rest]
    for run in example.runs:
        lines.append("")
        if len(example.runs) > 1:
            lines.append(f"# {run.operator}")
        lines.append(f">>> {run.call}")
        if run.error is not None:
            text = ": ".join(run.error)
            lines += textwrap.wrap(text, width, subsequent_indent="    ", break_on_hyphens=False)
        elif run.result is not None:
            with np.printoptions(threshold=run.result.size + 1):
                lines += [line for line in repr(run.result).splitlines() if line]
    return tuple(lines)


def _cells(start: str, array: Array) -> list[str]:
    if array.size == 0:  # NumPy writes all of these as []
        return [f"{start}{array.tolist()}"]
    text = np.array2string(array, separator=", ", threshold=array.size + 1, prefix=start)
    return [line for line in f"{start}{text}".splitlines() if line]  # no gaps between planes


def render(caller: str, document: Document, *, format: str, width: int) -> str:
    """Write a page; ``"text"`` is Markdown too. `width` limits its lines; 0 is no limit."""
    if format == "json":
        sections = {each.title: list(map(_value, each.blocks)) for each in document.sections}
        about = list(map(_value, document.lead))
        page = {"title": document.title, "about": about, "sections": sections}
        return json.dumps(page, indent=2) + "\n"
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


def _tensor(array: Array) -> dict[str, Any]:
    return {"dtype": str(array.dtype), "shape": list(array.shape), "values": array.tolist()}
