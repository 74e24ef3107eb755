"""The tour: its cells run in order, and its pictures are displayed."""

import ast
import json
from pathlib import Path

import pytest

from ndgather.errors import IndexOutOfBoundsError
from ndgather.show import Picture

TOUR = Path(__file__).parents[2] / "examples" / "tour.ipynb"
CELLS = [
    cell
    for cell in json.loads(TOUR.read_text(encoding="utf-8"))["cells"]
    if cell["cell_type"] == "code"
]


def shown(cell, names):
    """Run a cell and return the value of its last line."""
    statements = ast.parse("".join(cell["source"])).body
    if not isinstance(statements[-1], ast.Expr):
        statements += ast.parse("None").body
    *before, last = statements
    exec(compile(ast.Module(before, []), "<cell>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)


def test_every_cell_runs():
    names = {}
    pictures = []
    for cell in CELLS:
        if "raises-exception" in cell["metadata"].get("tags", []):
            with pytest.raises(IndexOutOfBoundsError):
                shown(cell, names)
            continue
        found = shown(cell, names)
        if isinstance(found, Picture):
            pictures.append(found._repr_html_())

    assert len(pictures) >= 8
    assert all(each.startswith("<figure") for each in pictures)


def test_outputs_are_not_saved():
    assert [cell["outputs"] for cell in CELLS] == [[]] * len(CELLS)
