"""The elements of a page, which can be written as Markdown."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ndgather.array_call import Array
from ndgather.messages import shown

from .examples import ExampleRun

Text: TypeAlias = str  # backticks enclose code; doubled backticks are literal

_ERROR_WIDTH = 76  # line width for errors in examples
_SPECIAL = re.compile(r"[\\`*<>|~&$]|(?<![^\W_])_|_(?![^\W_])|(?<=\])\(")
_BLOCK_START = re.compile(r"^(?=[-+#]+(?:\s|$))|^(\d+)(?=[.)]\s)")
_ADDRESS = re.compile(r"(https?://\S+)")
_CODE = re.compile(r"(?<!`)`(?!`)")


def literal(text: str) -> Text:
    """Escape the backticks of a plain string."""
    return text.replace("`", "``")


def spans(text: Text) -> list[str]:
    """Split a text into alternating prose and code; the first part is prose."""
    return [part.replace("``", "`") for part in _CODE.split(text)]


def string(text: Text) -> str:
    """Return a text without its markup."""
    return "".join(spans(text))


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of text."""

    text: Text


@dataclass(frozen=True, slots=True)
class Code:
    """Lines of code."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FieldList:
    """Labeled texts, such as ``domain: ai.onnx``."""

    items: tuple[tuple[str, Text], ...]


@dataclass(frozen=True, slots=True)
class Bullets:
    """A bulleted list."""

    items: tuple[Text, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table with column titles and rows."""

    titles: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]


@dataclass(frozen=True, slots=True)
class Example:
    """An example call, with a run for each operator that the page compares."""

    title: str
    why: str
    runs: tuple[ExampleRun, ...]


Block: TypeAlias = Paragraph | Code | FieldList | Bullets | Table | Example


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a page, with its title."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A page: its title, the blocks before the first section, and the sections."""

    title: str
    lead: tuple[Block, ...]
    sections: tuple[Section, ...] = ()


def listing(example: Example) -> tuple[str, ...]:
    """Return the lines of an example: inputs, calls, and results or errors."""
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
            lines += textwrap.wrap(
                text, _ERROR_WIDTH, subsequent_indent="    ", break_on_hyphens=False
            )
        elif run.result is not None:
            with np.printoptions(threshold=run.result.size + 1):
                lines += [line for line in repr(run.result).splitlines() if line]
    return tuple(lines)


def _cells(start: str, array: Array) -> list[str]:
    if array.size == 0:  # NumPy writes all of these as []
        return [f"{start}{array.tolist()}"]
    text = np.array2string(array, separator=", ", threshold=array.size + 1, prefix=start)
    return [line for line in f"{start}{text}".splitlines() if line]  # drop blank lines


def as_markdown(document: Document) -> str:
    """Return a page as Markdown."""
    sections = map(section_as_markdown, document.sections)
    return "\n".join((f"# {_escaped(document.title)}", "", *_lines(document.lead), *sections))


def section_as_markdown(section: Section) -> str:
    """Return a section with its title as Markdown."""
    return "\n".join((f"## {_escaped(section.title)}", "", *_lines(section.blocks)))


def _lines(blocks: Iterable[Block]) -> Iterator[str]:
    """Yield the lines of the blocks, with an empty line after each block."""
    for block in blocks:
        match block:
            case Paragraph(text=text):
                yield _inline(text)
            case Code(lines=lines):
                yield from ("```python", *lines, "```")
            case FieldList(items=items):
                yield from (f"- **{_escaped(label)}**: {_inline(text)}" for label, text in items)
            case Bullets(items=items):
                yield from (f"- {_inline(text)}" for text in items)
            case Table(titles=titles, rows=rows):
                yield _row(map(_escaped, titles))
                yield _row("---" for _ in titles)
                yield from (_row(map(_inline, row)) for row in rows)
            case Example(title=title, why=why):
                yield from (f"### {_escaped(title)}", "", _inline(why), "")
                yield from ("```python", *listing(block), "```")
        yield ""


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.ljust(3) for cell in cells)} |"


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
    """Escape characters that have a special meaning in Markdown."""
    return _BLOCK_START.sub(r"\1\\", _SPECIAL.sub(r"\\\g<0>", text))
