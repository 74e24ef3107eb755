"""How an element is written in a cell: short, on one line, whatever its type."""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgather.errors.shown_values import shown_value
from ndgather.errors.texts import one_line

LONGEST = 10  # letters of a cell
_SHORT = 8  # letters of a number that is not rounded to four digits


def written(value: Any) -> str:
    """Write an element of an array in a few letters."""
    if value is np.ma.masked:
        return str(value)
    kind = getattr(getattr(value, "dtype", None), "kind", "O")
    if kind in "iub":
        text = str(value)
        return text if len(text) <= LONGEST else f"{float(value):.3e}"
    if kind == "f":
        return _number(value)
    if kind == "c":
        imaginary = _number(value.imag, 4)
        sign = "" if imaginary.startswith("-") else "+"
        return _cut(f"{_number(value.real, 4)}{sign}{imaginary}j", LONGEST + 4)
    if kind == "V" and value.dtype.names is None:
        try:
            return _number(np.float64(value))  # the small floats of other packages
        except (TypeError, ValueError):
            return _cut(shown_value(value))
    if kind in "MmUST" or isinstance(value, str):
        return _cut(one_line(str(value)) if kind in "Mm" else shown_value(value, _quoted))
    return _cut(one_line(shown_value(value)))


def _quoted(value: object) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)


def _number(value: Any, digits: int = 6) -> str:
    if not np.isfinite(value):
        return str(float(value))
    size = abs(float(value))
    if size and not 1e-3 <= size < 1e6:
        return f"{float(value):.3e}"
    text = _positional(value, digits)
    return text if len(text) <= _SHORT or size >= 100 else _positional(value, 4)


def _positional(value: Any, digits: int) -> str:
    return np.format_float_positional(value, precision=digits, fractional=False, trim="0")


def _cut(text: str, most: int = LONGEST) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
