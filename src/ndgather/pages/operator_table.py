"""The table of all operator versions, built from the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.pages import words
from ndgather.pages.document import (
    Code,
    Document,
    Facts,
    Paragraph,
    Section,
    Table,
    Text,
    code,
    plain,
    prose,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndgather.published import Operator
    from ndgather.published.schema import OperatorVersion

_COLUMNS = (
    ("since", plain("the version of the domain that brought it")),
    ("index", plain("the values that an index may have on an axis of size s")),
    (
        "others",
        plain(
            "what other values come to; where the text leaves that undefined, this package "
            "raises an error"
        ),
    ),
)


def table_document(operators: Sequence[Operator]) -> Document:
    """Return a page with one line for each of `operators`."""
    first = operators[0]
    return Document(
        title="Operators",
        lead=(
            Paragraph(
                plain(
                    "Each line is one version of one operator. Its page has the rules, "
                    "examples that were run, and the errors of the published text:"
                )
            ),
            Code((f"ndgather doc {first.name} --domain {first.domain} --version {first.version}",)),
        ),
        sections=(
            Section(
                title=f"{len(operators)} versions",
                blocks=(
                    Table(
                        titles=(
                            "domain",
                            "operator",
                            "since",
                            "index",
                            "others",
                            "attributes",
                        ),
                        rows=tuple(_row(each.row) for each in operators),
                    ),
                    Facts(_COLUMNS),
                ),
            ),
        ),
    )


def _row(row: OperatorVersion) -> tuple[Text, ...]:
    return (
        plain(row.domain),
        code(row.name),
        plain(str(row.since)),
        prose(words.NEGATIVE_IN_SHORT[row.index_rule.negative]),
        plain(words.OUTSIDE_IN_SHORT[row.index_rule.outside]),
        plain(", ".join(each.name for each in row.attributes)),
    )
