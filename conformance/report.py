"""Write the verdicts as a table for terminals, a page of the documentation, or JSON data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .corpus import Case
    from .runner import Answer, Column

SYMBOLS = {
    Verdict.RIGHT: "✓",
    Verdict.WRONG_VALUE: "≠",
    Verdict.ACCEPTS: "!",
    Verdict.REFUSES: "✗",
    Verdict.CRASH: "☠",
    Verdict.CANNOT: "·",
}
MEANINGS = {
    Verdict.RIGHT: "returns the value, or raises the required error",
    Verdict.WRONG_VALUE: "returns a wrong value, type or shape, or foreign memory",
    Verdict.ACCEPTS: "returns a value although an error is required",
    Verdict.REFUSES: "raises an error for a valid call",
    Verdict.CRASH: "the process crashes or hangs",
    Verdict.CANNOT: "has no such operator, type or option; not counted",
}
_COLOURS = {
    Verdict.RIGHT: "32",
    Verdict.WRONG_VALUE: "1;31",
    Verdict.ACCEPTS: "33",
    Verdict.REFUSES: "35",
    Verdict.CRASH: "1;37;41",
    Verdict.CANNOT: "2",
}
_COMMAND = "python -m conformance"


def as_text(columns: Sequence[Column], *, colour: bool) -> str:
    """Return a table for terminals, with a line per case and a column per library.

    If there is only one library, the table also gives the reasons.
    """

    def painted(verdict: Verdict, text: str) -> str:
        return f"\033[{_COLOURS[verdict]}m{text}\033[0m" if colour else text

    names = [column.library.name for column in columns]
    widths = [len(name) for name in names]
    left = max((len(case.name) for case, _ in _rows(columns)), default=0)
    left = max(left, *(len(verdict.value) for verdict in Verdict))
    lines = ["  ".join(["".ljust(left), *names])]
    for case, answers in _rows(columns):
        cells = [
            painted(answer.verdict, SYMBOLS[answer.verdict].center(width))
            for answer, width in zip(answers, widths, strict=True)
        ]
        reason = [answers[0].reason] if len(columns) == 1 else []
        lines.append("  ".join([case.name.ljust(left), *cells, *reason]).rstrip())
    lines += ["", "  ".join(["".ljust(left), *names])]
    for verdict in Verdict:
        counts = [
            str(column.count(verdict)).rjust(width)
            for column, width in zip(columns, widths, strict=True)
        ]
        lines.append("  ".join([painted(verdict, verdict.value.ljust(left)), *counts]))
    lines.append("")
    lines += [
        f"{painted(verdict, SYMBOLS[verdict])} {verdict.value}: {MEANINGS[verdict]}"
        for verdict in Verdict
    ]
    versions = ", ".join(f"{column.library.name} {column.version}" for column in columns)
    lines += ["", f"{sum(1 for _ in _rows(columns))} cases; {versions}"]
    return "\n".join(lines)


def as_markdown(columns: Sequence[Column], *, machine: str) -> str:
    """Return the page of the documentation."""
    names = [column.library.name for column in columns]
    count = sum(1 for _ in _rows(columns))
    lines = [
        "# Conformance: who gets the hard cases right",
        "",
        f"{count} calls of gather and scatter operators, run in {len(columns)} libraries on "
        f"{machine}:",
        "",
        *(f"- {line}" for line in _in_short(columns)),
        "",
        *_table(
            ["verdict", *(f"{column.library.name} {column.version}" for column in columns)],
            (
                [f"{SYMBOLS[verdict]} {verdict.value}"]
                + [str(column.count(verdict)) for column in columns]
                for verdict in Verdict
            ),
        ),
        "",
        *(f"- {SYMBOLS[verdict]} {verdict.value}: {MEANINGS[verdict]}." for verdict in Verdict),
        "",
        "## Every case",
        "",
        "Each column is a call. Select it to see the call and the rule that decides it.",
        "",
        f"```{{conformance}} {' '.join(names)}",
        *(
            f"{case.name} {''.join(SYMBOLS[answer.verdict] for answer in answers)}"
            for case, answers in _rows(columns)
        ),
        "```",
        "",
        "## How it is measured",
        "",
        "The cases are our own corpus of JSON files, which [any language can "
        f"use](conformance-cases.md). `{_COMMAND} --format md` writes this page, and `{_COMMAND} "
        "--peer onnxruntime --case 'onnx-GatherND*'` prints the reasons for each verdict.",
        "",
        "- Each library runs in a separate process on the CPU, with default settings. If a case "
        "crashes the process, it is repeated in a new process, and the second run counts.",
        "- A value is right only if its type, shape and every bit are right.",
        *_notes(columns),
        "- If the specification does not define the result, all of these are right: an error, "
        "input elements and zeros. Foreign memory and crashes are wrong. Foreign memory differs "
        "from run to run, so such a verdict may change.",
        "- ONNX models declare the shapes of the inputs.",
    ]
    return "\n".join(lines) + "\n"


def as_data(columns: Sequence[Column]) -> dict[str, Any]:
    """Return all results as JSON-serializable data."""
    return {
        "peers": [
            {
                "name": column.library.name,
                "version": column.version,
                "totals": {verdict.value: column.count(verdict) for verdict in Verdict},
            }
            for column in columns
        ],
        "cases": [
            {
                "name": case.name,
                "operator": str(case.operator),
                "must be": str(case.expected),
                "rule": case.rule.text,
                "source": case.rule.source,
                "report": case.report,
                "verdicts": {
                    column.library.name: {"verdict": answer.verdict.value, "reason": answer.reason}
                    for column, answer in zip(columns, answers, strict=True)
                },
            }
            for case, answers in _rows(columns)
        ],
    }


def _rows(columns: Sequence[Column]) -> Iterator[tuple[Case, tuple[Answer, ...]]]:
    for answers in zip(*(column.answers for column in columns), strict=True):
        yield answers[0].case, answers


def _in_short(columns: Sequence[Column]) -> list[str]:
    """Return a summary of correct results, missing errors and crashes."""
    shares = [
        f"{column.library.name} {column.count(Verdict.RIGHT)} of "
        f"{len(column.answers) - column.count(Verdict.CANNOT)}"
        for column in columns
    ]
    deaths = [
        f"{column.library.name} in {column.count(Verdict.CRASH)}"
        for column in columns
        if column.count(Verdict.CRASH)
    ]
    accepted = [
        f"{column.library.name} {column.count(Verdict.ACCEPTS)}"
        for column in columns
        if column.count(Verdict.ACCEPTS)
    ]
    return [
        f"Right, of the calls that a library can express: {', '.join(shares)}.",
        f"Calls that should fail but return a value: {', '.join(accepted) or 'none'}.",
        f"Calls that crash or hang the process: {', '.join(deaths) or 'none'}.",
    ]


def _notes(columns: Sequence[Column]) -> list[str]:
    idioms = [column.library.name for column in columns if column.library.idiom]
    if not idioms:
        return []
    return [
        f"- {' and '.join(idioms)} run equivalent calls. Rules of a single version of an operator, "
        "such as its list of types, do not apply to them."
    ]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    aligned = ["---", *[":-:"] * (len(head) - 1)]
    return [f"| {' | '.join(row)} |" for row in (head, aligned, *rows)]
