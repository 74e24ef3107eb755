"""What a page is made of: sections of blocks, of text without any markup.

A page is built once, as a `Document`; `text`, `markdown`, `rst`, `html` and `json` each
write all of it.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ndgather.errors.shape_errors import shown
from ndgather.published.schema import (
    Attribute,
    AttributeRange,
    BatchRule,
    Choice,
    Duplicates,
    Input,
    Kind,
    OffAxisRule,
    Outside,
    Reduction,
    Role,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from ndgather.pages.examples import Run


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


NONE = "none"

INPUTS = {
    (Kind.GATHER_ND, Role.DATA): "the array that is read",
    (Kind.GATHER_ND, Role.INDICES): "index tuples, on the last axis",
    (Kind.GATHER_ELEMENTS, Role.DATA): "the array that is read",
    (Kind.GATHER_ELEMENTS, Role.INDICES): "one index for each element of the result",
    (Kind.GATHER, Role.DATA): "the array that is read",
    (Kind.GATHER, Role.INDICES): "which slices to copy",
    (Kind.SCATTER_ND, Role.DATA): "the array that is copied and updated",
    (Kind.SCATTER_ND, Role.INDICES): "index tuples, on the last axis",
    (Kind.SCATTER_ND, Role.UPDATES): "one element or slice for each index tuple",
    (Kind.SCATTER_ELEMENTS, Role.DATA): "the array that is copied and updated",
    (Kind.SCATTER_ELEMENTS, Role.INDICES): "one index for each element of updates",
    (Kind.SCATTER_ELEMENTS, Role.UPDATES): "the elements to write",
}

OUTPUTS = {
    Kind.GATHER_ND: "the elements or slices that the tuples address",
    Kind.GATHER_ELEMENTS: "the elements, in the shape of indices",
    Kind.GATHER: "the slices, joined along the axis",
    Kind.SCATTER_ND: "a copy of data with the updates written to it",
    Kind.SCATTER_ELEMENTS: "a copy of data with the updates written to it",
}

SYMBOLS = {
    Kind.GATHER_ND: "`p` is a position in `indices.shape[:-1]`, a tuple of coordinates; `*x` "
    "unpacks `x`, as in Python.",
    Kind.GATHER_ELEMENTS: "`p` is a position in `indices`, a tuple of coordinates; `*x` unpacks "
    "`x`, as in Python.",
    Kind.GATHER: "`o`, `p` and `s` are tuples of coordinates: on the axes of `data` before "
    "`axis`, on the axes of `indices` (after the batch axes), and on the axes of `data` after "
    "`axis`.",
    Kind.SCATTER_ND: "`p` is a position in `indices.shape[:-1]`, a tuple of coordinates; `*x` "
    "unpacks `x`, as in Python.",
    Kind.SCATTER_ELEMENTS: "`p` is a position in `indices`, a tuple of coordinates; `*x` unpacks "
    "`x`, as in Python.",
}

# The formula of the kinds that go element by element, axis by axis, for data of rank 3.
BY_AXIS = {
    Kind.GATHER_ELEMENTS: (
        "output[i, j, k] = data[indices[i, j, k], j, k]",
        "output[i, j, k] = data[i, indices[i, j, k], k]",
        "output[i, j, k] = data[i, j, indices[i, j, k]]",
    ),
    Kind.SCATTER_ELEMENTS: (
        "output[indices[i, j, k], j, k] = updates[i, j, k]",
        "output[i, indices[i, j, k], k] = updates[i, j, k]",
        "output[i, j, indices[i, j, k]] = updates[i, j, k]",
    ),
}

REVERSE = {
    Kind.GATHER_ND: Kind.SCATTER_ND,
    Kind.GATHER_ELEMENTS: Kind.SCATTER_ELEMENTS,
    Kind.SCATTER_ND: Kind.GATHER_ND,
    Kind.SCATTER_ELEMENTS: Kind.GATHER_ELEMENTS,
}

REVERSED = {True: "reads where this writes", False: "writes where this reads"}

ALIKE = {
    Kind.GATHER_ND: "`tf.gather_nd`",
    Kind.GATHER_ELEMENTS: "`torch.gather`, `np.take_along_axis`",
    Kind.GATHER: "`np.take`, `torch.index_select`, `tf.gather`",
    Kind.SCATTER_ND: "`tf.tensor_scatter_nd_update`",
    Kind.SCATTER_ELEMENTS: "`torch.scatter`, `np.put_along_axis`",
}

# What the registry of a domain says of all its operators here.
REGISTERED = {
    "ai.onnx": (("function", "no"), ("support level", "common"), ("shape inference", "yes")),
    "com.microsoft": (),
    "openvino": (("category", "data movement"),),
}

NEGATIVE = {
    True: "`-s..s-1` on an axis of size `s`; negative values count from the end: -1 is the last",
    False: "`0..s-1` on an axis of size `s`; negative values are out of bounds",
}

NEGATIVE_IN_SHORT = {True: "`-s..s-1`", False: "`0..s-1`"}

OUTSIDE = {
    Outside.RAISE: "an error",
    Outside.ZEROS: "zeros in the result",
    Outside.UNDEFINED: "undefined in the text; this package raises an error",
}

OUTSIDE_IN_SHORT = {
    Outside.RAISE: "error",
    Outside.ZEROS: "zeros",
    Outside.UNDEFINED: "undefined",
}

BATCH = {
    BatchRule.NONE: NONE,
    BatchRule.EQUAL: "the first `batch_dims` sizes of `indices` and `data` must be equal; nothing "
    "is broadcast",
    BatchRule.FUSED: "the first `batch_dims` sizes of `indices` and `data` must be equal; if "
    "there are several, they become a single axis of the result",
}

OFF_AXIS = {
    OffAxisRule.FREE: NONE,
    OffAxisRule.AT_MOST: "at most those of `data`, except along `axis`; nothing is broadcast",
    OffAxisRule.AT_MOST_EVERYWHERE: "at most those of `data`, along `axis` too",
    OffAxisRule.EQUAL: "those of `data`, except along `axis`",
}

DUPLICATES = {
    Duplicates.NOT_APPLICABLE: NONE,
    Duplicates.FORBIDDEN: "not allowed",
    Duplicates.FORBIDDEN_WITHOUT_REDUCTION: "not allowed without a reduction; with one, the "
    "updates are applied in any order",
    Duplicates.UNDEFINED: "allowed, and the result is undefined",
    Duplicates.ANY_ORDER: "allowed, and the updates are applied in any order",
    Duplicates.SILENT: "not mentioned in the text",
}

RANGES = {
    AttributeRange.AXIS: "`-r..r-1`",
    AttributeRange.BATCH_BELOW_RANKS: "`0..min(q, r)-1`",
    AttributeRange.BATCH_BEFORE_TUPLES: "`0..min(q-1, r)`",
    AttributeRange.BATCH_UP_TO_AXIS: "`-min(q, r)..min(q, r)`, at most `axis` when counted from "
    "the front",
    AttributeRange.FLAG: "`True`, `False`",
}

REDUCTIONS = {
    Reduction.NONE: "the update replaces the element",
    Reduction.ADD: "element + update",
    Reduction.SUB: "element - update",
    Reduction.MUL: "element * update",
    Reduction.MIN: "the smaller of the two",
    Reduction.MAX: "the larger of the two",
    Reduction.MEAN: "the mean of the element and its updates",
}

ONE_ELEMENT_UPDATES = {
    True: "where the rule gives rank 0, one element of any rank is accepted",
    False: "exactly the shape of the rule",
}

_SAID: dict[type, Mapping[Any, str]] = {
    BatchRule: BATCH,
    OffAxisRule: OFF_AXIS,
    Outside: OUTSIDE,
    Duplicates: DUPLICATES,
    AttributeRange: RANGES,
}


def said(value: object) -> str:
    """Say any value that a rule of a row can have, with code between backticks."""
    match value:
        case None | ():
            return NONE
        case tuple():
            return ", ".join(map(_item, value))
        case Input():
            return f"a tensor of one of {said(value.types)}"
        case Attribute():
            values = "" if value.range is AttributeRange.FLAG else f", allowed: {allowed(value)}"
            return f"{value.type.value}, {_default(value)}{values}"
        case _:
            return _SAID.get(type(value), {}).get(value, str(value))


def _item(value: object) -> str:
    if not isinstance(value, Choice):
        return f"`{value}`"
    return f"`{value.word}`" + (f" ({value.reduction})" if value.word != value.reduction else "")


def allowed(attribute: Attribute) -> str:
    """Say which values an attribute may have, with code between backticks."""
    if attribute.choices:
        return ", ".join(f"`{choice.word}`" for choice in attribute.choices)
    return RANGES[attribute.range]


def _default(attribute: Attribute) -> str:
    return "required" if attribute.required else f"default {attribute.default}"


DEFAULT_WIDTH = 76


class Part(StrEnum):
    """What a line of a listing shows; a renderer may colour by it."""

    INPUT = "input"
    CALL = "call"
    RESULT = "result"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line: what is read as code, and the comment after it."""

    part: Part
    code: str
    comment: str = ""

    def __str__(self) -> str:
        return f"{self.code}{self.comment}"


def listing(example: Example, width: int = DEFAULT_WIDTH) -> tuple[Line, ...]:
    """Return the lines of an example; those of errors are at most `width` long."""
    first = example.runs[0]
    name_width = max(len(name) for name, _ in first.tensors)
    arrays = [_cells(f"{name:{name_width}} = ", array) for name, array in first.tensors]
    arrays += [_cells("", run.result) for run in example.runs if run.result is not None]
    column = max(len(line) for lines in arrays for line in lines) + 2
    return tuple(_lines(example, name_width, column, width))


def _lines(example: Example, name_width: int, column: int, width: int) -> Iterator[Line]:
    for name, array in example.runs[0].tensors:
        yield from _array(Part.INPUT, f"{name:{name_width}} = ", array, column)
    for run in example.runs:
        yield Line(part=Part.INPUT, code="")
        if len(example.runs) > 1:
            yield Line(part=Part.INPUT, code="", comment=f"# {run.operator}")
        yield Line(part=Part.CALL, code=f">>> {run.call}")
        yield from _outcome(run, column, width)


def _outcome(run: Run, column: int, width: int) -> Iterator[Line]:
    if run.failure is not None:
        text = f"{run.failure.type}: {run.failure.text}"
        for line in textwrap.wrap(text, width, subsequent_indent="    ", break_on_hyphens=False):
            yield Line(part=Part.ERROR, code=line)
    elif run.result is not None:
        yield from _array(Part.RESULT, "", run.result, column)


def _array(part: Part, start: str, array: NDArray[Any], column: int) -> Iterator[Line]:
    about = f"# {array.dtype}, shape {shown(array.shape)}"
    first, *rest = _cells(start, array)
    yield Line(part=part, code=first, comment=f"{'':{column - len(first)}}{about}")
    for line in rest:
        yield Line(part=part, code=line)


def _cells(start: str, array: NDArray[Any]) -> list[str]:
    if array.size == 0:  # NumPy writes all of these as []
        return [f"{start}{array.tolist()}"]
    text = np.array2string(array, separator=", ", threshold=array.size + 1, prefix=start)
    return [line for line in f"{start}{text}".splitlines() if line]  # no gaps between planes
