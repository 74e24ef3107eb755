"""A page as JSON: sections by their titles, tables as lists of objects, examples with values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from ndgather.pages.document import (
    Block,
    Bullets,
    Code,
    Document,
    Example,
    Facts,
    Paragraph,
    Table,
    string,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgather.pages.examples import Run

Value: TypeAlias = "str | int | bool | list[Value] | dict[str, Value] | None"


def render(document: Document) -> str:
    return json.dumps(_page(document), indent=2) + "\n"


def _page(document: Document) -> dict[str, Value]:
    return {
        "title": document.title,
        "about": list(map(_block, document.lead)),
        "sections": {
            section.title: list(map(_block, section.blocks)) for section in document.sections
        },
    }


def _block(block: Block) -> Value:
    match block:
        case Paragraph(text=text):
            return string(text)
        case Code(lines=lines):
            return "\n".join(lines)
        case Facts(items=items):
            return {label: string(text) for label, text in items}
        case Bullets(items=items):
            return list(map(string, items))
        case Table(titles=titles, rows=rows):
            return [dict(zip(titles, map(string, row), strict=True)) for row in rows]
        case Example(title=title, why=why, runs=runs):
            return {"title": title, "why": why, "runs": list(map(_run, runs))}


def _run(run: Run) -> Value:
    return {
        "operator": run.operator,
        "call": run.call,
        "tensors": {name: _tensor(array) for name, array in run.tensors},
        "options": dict(run.options),
        "result": None if run.result is None else _tensor(run.result),
        "error": None
        if run.failure is None
        else {"type": run.failure.type, "text": run.failure.text},
    }


def _tensor(array: NDArray[Any]) -> Value:
    return {"dtype": str(array.dtype), "shape": list(array.shape), "values": array.tolist()}
