"""An example as lines of code: its inputs, the call, and what came of it."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather.errors.shape_errors import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ndgather.pages.document import Example
    from ndgather.pages.runs import Run

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
