"""What a page consists of: sections of blocks; `writers` writes them as Markdown or JSON."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ndgather.messages import shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgather.pages.examples import ExampleRun

Text: TypeAlias = str  # backticks enclose code; doubled, they stand for themselves

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


def _cells(start: str, array: NDArray[Any]) -> list[str]:
    if array.size == 0:  # NumPy writes all of these as []
        return [f"{start}{array.tolist()}"]
    text = np.array2string(array, separator=", ", threshold=array.size + 1, prefix=start)
    return [line for line in f"{start}{text}".splitlines() if line]  # no gaps between planes
