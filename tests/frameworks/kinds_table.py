"""The table of docs/kinds.md: the type of the result for every function and array type.

``python -m tests.frameworks.kinds_table`` rewrites it.
"""

import re
from pathlib import Path

import numpy as np

import ndgather
from ndgather.errors import NdgatherError
from tests.frameworks.kinds import KINDS

PAGE = Path(__file__).parents[2] / "docs" / "kinds.md"
HEAD = (
    "data",
    "gathers",
    "scatters",
    "kept",
)
GATHERS = ("gather_nd", "gather_elements", "gather", "gather_windows")
SCATTERS = ("scatter_nd", "scatter_elements")

# The arguments of each function after data, for 2-d and 1-d data.
CALLS = {
    2: {
        "gather_nd": ([[2], [0]],),
        "gather_elements": ([[1, 0]],),
        "gather": ([1, 0],),
        "gather_windows": ([[0]], (2,)),
        "scatter_nd": ([[1]], [[7.0, 8.0]]),
        "scatter_elements": ([[1, 0]], [[7.0, 8.0]]),
    },
    1: {
        "gather_nd": ([[2], [0]],),
        "gather_elements": ([1, 0],),
        "gather": ([1, 0],),
        "gather_windows": ([[0]], (2,)),
        "scatter_nd": ([[1]], [7.0]),
        "scatter_elements": ([1], [7.0]),
    },
}


def outcome(kind, function):
    """Call a function and check the values; return the type of the result, or "raises"."""
    arguments = [*CALLS[kind.axes][function]]
    expected = getattr(ndgather, function)(np.asarray(kind.read(kind.data)), *arguments)
    data = kind.data
    options = {}
    if function in SCATTERS:
        arguments[1] = kind.updates(np.array(arguments[1]))
        options = {"out": data} if kind.in_place else {}
    try:
        result = getattr(ndgather, function)(data, *arguments, **options)
    except NdgatherError:
        return "raises"
    np.testing.assert_array_equal(np.asarray(kind.read(result)), expected)
    name = type(result).__name__.replace("EagerTensor", "Tensor").replace("ArrayImpl", "Array")
    return "data, in place" if result is data else f"`{name}`"


def cell(kind, functions):
    """Return the common outcome of these functions."""
    found = {outcome(kind, each) for each in functions}
    return " or ".join(sorted(found))


def row(kind):
    kept = [text if is_kept(kind.data) else f"{text}: lost" for text, is_kept in kind.keeps]
    return (kind.name, cell(kind, GATHERS), cell(kind, SCATTERS), ", ".join(kept))


def table():
    rows = (HEAD, ("---",) * len(HEAD), *map(row, KINDS))
    return [f"| {' | '.join(each)} |" for each in rows]


def written():
    """Return the table in the page."""
    return [line for line in PAGE.read_text().splitlines() if line.startswith("|")]


if __name__ == "__main__":
    lines = "\n".join(table()) + "\n"
    page = re.sub(r"(^\|.*\n)+", lambda _: lines, PAGE.read_text(), count=1, flags=re.MULTILINE)
    PAGE.write_text(page)
