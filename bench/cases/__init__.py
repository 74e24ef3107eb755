"""What is measured: one row per case, each with who makes such a call.

The tests use the same table, so every case is also checked against plain loops.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from .axis import AXIS
from .elements import ELEMENTS
from .points import POINTS
from .rows import ROWS
from .scatter import SCATTER
from .tiny import TINY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.case import Case

CASES = (*TINY, *POINTS, *ROWS, *AXIS, *ELEMENTS, *SCATTER)
GROUPS = {
    "tiny": "tiny calls",
    "points": "single elements",
    "rows": "rows",
    "axis": "slices along one axis",
    "elements": "elements along an axis",
    "scatter": "scatters",
}


def select(names: Sequence[str] = ("*",), groups: Sequence[str] = ("*",)) -> tuple[Case, ...]:
    """Return the cases whose name and group each match one of the given globs, in table order."""
    return tuple(
        case
        for case in CASES
        if any(fnmatchcase(case.name, pattern) for pattern in names)
        and any(fnmatchcase(case.group, pattern) for pattern in groups)
    )
