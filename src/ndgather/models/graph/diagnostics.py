"""What a check of a model found, whatever file the model came from; as a table and as data."""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING

from ndgather.errors import (
    AttributeValueError,
    DTypeError,
    IndexOutOfBoundsError,
    NdgatherError,
    ShapeError,
)
from ndgather.errors.texts import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_TITLES = ("severity", "where", "operator", "rule", "what is wrong")
_GAP = "  "
_NARROWEST = 24


class Severity(Enum):
    """How bad a finding is; the worst comes first."""

    ERROR = "error"
    DIFFERS = "differs"
    PORTABLE = "portable"

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    Severity.ERROR: "the specification does not allow it",
    Severity.DIFFERS: "the specification allows it, and runtimes give different results",
    Severity.PORTABLE: "it runs, and some runtimes or versions do not take it",
}
_ORDER = {severity: place for place, severity in enumerate(Severity)}


# The first class that an error belongs to names the rule that is broken.
_RULES = (
    (IndexOutOfBoundsError, "index range"),
    (AttributeValueError, "attributes"),
    (ShapeError, "shapes"),
    (DTypeError, "types"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a check found.

    Attributes
    ----------
    where : str
        The node or layer, as its model names it.
    operator : str
        The operator with its version and domain, as ``"ai.onnx GatherND-13"``; empty where the
        finding is about no operator.
    rule : str
        A short name of the rule that is broken, such as ``"port"`` or ``"index range"``.
    what : str
        What is wrong, on one line.
    severity : Severity
    runtimes : tuple of str
        The runtimes that are affected; empty where it is every one.
    """

    where: str
    operator: str
    rule: str
    what: str
    severity: Severity
    runtimes: tuple[str, ...] = ()


def rule_of(error: NdgatherError, other: str) -> str:
    """Return the short name of the rule that an error is about, or `other`."""
    return next((rule for kind, rule in _RULES if isinstance(error, kind)), other)


def has_errors(findings: Iterable[Finding]) -> bool:
    return any(each.severity is Severity.ERROR for each in findings)


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings by severity; those of one severity stay in their order."""
    return sorted(findings, key=lambda each: _ORDER[each.severity])


def to_json(findings: Iterable[Finding]) -> list[dict[str, object]]:
    """Return what `json.dump` writes: one object for each finding, in their order."""
    return [
        {**asdict(each), "severity": each.severity.value, "runtimes": list(each.runtimes)}
        for each in findings
    ]


def table(findings: Sequence[Finding], width: int = 100) -> str:
    """Return the findings as text, worst first, with a last line that counts them.

    Parameters
    ----------
    findings : sequence of Finding
    width : int, default 100
        The longest line, where the columns leave room for that; the last column is broken
        into several lines. 0 keeps every finding on one line.
    """
    rows = [
        (each.severity.value, one_line(each.where), each.operator, each.rule, one_line(_what(each)))
        for each in worst_first(findings)
    ]
    if not rows:
        return summary(findings)
    widths = [max(map(len, column)) for column in zip(_TITLES, *rows, strict=True)]
    before = sum(widths[:-1]) + len(_GAP) * (len(widths) - 1)
    lines = []
    for *cells, what in (_TITLES, *rows):
        start = _GAP.join(cell.ljust(size) for cell, size in zip(cells, widths, strict=False))
        room = max(width - before, _NARROWEST) if width else max(len(what), 1)
        for part in textwrap.wrap(what, room, break_long_words=False) or [""]:
            lines.append(f"{start}{_GAP}{part}".rstrip())
            start = " " * len(start)
    return "\n".join([*lines, "", summary(findings)])


def _what(finding: Finding) -> str:
    runtimes = ", ".join(finding.runtimes)
    return f"{finding.what} [{runtimes}]" if runtimes else finding.what


def summary(findings: Iterable[Finding]) -> str:
    """Count the findings of each severity in one line, and say what a severity means."""
    counts = Counter(each.severity for each in findings)
    parts = [
        f"{counts[severity]} {severity.value} ({severity.meaning})"
        for severity in Severity
        if counts[severity]
    ]
    return "; ".join(parts) or "nothing found"
