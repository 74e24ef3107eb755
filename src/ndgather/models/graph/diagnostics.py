"""What a check of a model found, whatever file the model came from; as a table and as data."""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import asdict, dataclass, replace
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
    from collections.abc import Iterable, Mapping, Sequence

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
_LEVELS = {Severity.ERROR: "error", Severity.DIFFERS: "warning", Severity.PORTABLE: "note"}
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

    Findings that differ in their node only stand in one row.

    Parameters
    ----------
    findings : sequence of Finding
    width : int, default 100
        The longest line, where the columns leave room for that; the last column is broken
        into several lines. 0 keeps every finding on one line.
    """
    rows = [
        (each.severity.value, where, each.operator, each.rule, one_line(_what(each)))
        for each, where in _grouped(worst_first(findings))
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


def _grouped(findings: Iterable[Finding]) -> list[tuple[Finding, str]]:
    """Return one finding for all that differ in their node only, with the places it is about."""
    groups: dict[Finding, list[str]] = {}
    for each in findings:
        groups.setdefault(replace(each, where=""), []).append(one_line(each.where))
    return [
        (finding, places[0] if len(places) == 1 else f"{places[0]} and {len(places) - 1} more")
        for finding, places in groups.items()
    ]


def about(findings: Iterable[Finding], runtimes: Sequence[str]) -> list[Finding]:
    """Return the findings that matter to some runtimes: those of every runtime, and theirs.

    A runtime is named as in a finding, in any letters: ``"openvino"`` stands for every device of
    OpenVINO.
    """
    wanted = [each.lower() for each in runtimes]
    return [
        each
        for each in findings
        if not each.runtimes
        or each.severity is Severity.ERROR
        or any(name in known.lower() for known in each.runtimes for name in wanted)
    ]


def at_least(findings: Iterable[Finding], severity: Severity) -> bool:
    """Return whether a finding is as bad as `severity`."""
    return any(_ORDER[each.severity] <= _ORDER[severity] for each in findings)


def to_sarif(found: Mapping[str, Sequence[Finding]], version: str) -> dict[str, object]:
    """Return findings by the names of their models as a SARIF 2.1.0 log."""
    rules = sorted({each.rule for findings in found.values() for each in findings})
    results = [
        {
            "ruleId": each.rule,
            "level": _LEVELS[each.severity],
            "message": {"text": one_line(_what(each))},
            "locations": [
                {
                    "physicalLocation": {"artifactLocation": {"uri": model}},
                    "logicalLocations": [{"fullyQualifiedName": each.where, "kind": "element"}],
                }
            ],
            "properties": {"operator": each.operator, "severity": each.severity.value},
        }
        for model, findings in found.items()
        for each in worst_first(findings)
    ]
    driver = {"name": "ndgather", "version": version, "rules": [{"id": rule} for rule in rules]}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


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
