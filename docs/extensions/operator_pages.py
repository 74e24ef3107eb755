"""The pages of operators, written anew at each build: their examples are run then."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from generated_files import write

from ndgather import pages
from ndgather.pages.document import Document, Example, Paragraph, Section, Table, Text, plain
from ndgather.pages.formats import render
from ndgather.pages.operator_page import comparison, operator_document, rules
from ndgather.published import Operator, operators
from ndgather.published.schema import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write(app: Sphinx) -> None:
    for name, text in _pages():
        write(Path(app.srcdir) / "operators" / f"{name}.rst", text)


def _pages() -> Iterator[tuple[str, str]]:
    families = [tuple(op for op in operators() if op.row.kind is kind) for kind in Kind]
    for family in families:
        for op in family:
            yield _file(op), _page(op)
        document = _compared(family)
        yield _comparison_file(family), render("docs", document, format="rst", width=0, color=False)
    yield "index", _index(families)


def _page(op: Operator) -> str:
    """Return the page of a version, with a picture of its first example before the rules."""
    text = pages.operator_page(op.name, op.domain, op.version, format="rst")
    first = next(
        block
        for section in operator_document(op).sections
        for block in section.blocks
        if isinstance(block, Example)
    ).runs[0]
    drawn = op.show(*(tensor for _, tensor in first.tensors), **dict(first.options)).to_html()
    raw = "\n".join(f"   {line}" for line in drawn.splitlines())
    formula, rules, rest = text.partition("Rules\n-----\n")
    return f"{formula}.. raw:: html\n\n{raw}\n\n{rules}{rest}"


def _file(op: Operator) -> str:
    return f"{op.domain}-{op.name}-{op.version}"


def _comparison_file(family: Sequence[Operator]) -> str:
    return f"{family[0].name}-compared"


def _compared(family: Sequence[Operator]) -> Document:
    """Return the versions of one kind of operator side by side, and the newest with each other."""
    newest = max((op for op in family if op.domain == family[0].domain), key=lambda op: op.version)
    others = [op for op in family if op is not newest]
    return Document(
        title=f"{family[0].name}: versions and dialects side by side",
        lead=(
            Paragraph(
                plain(
                    "First the rules that are not the same in all of them. Then the newest of "
                    f"{newest.domain} with each other version: what differs, and the calls that "
                    "the two answer differently, run when this page was made."
                )
            ),
        ),
        sections=(_all_rules(family), *(comparison(newest, other) for other in others)),
    )


def _all_rules(family: Sequence[Operator]) -> Section:
    of_each = {op: dict(rules(op.row)) for op in family}
    rows = []
    for name in dict.fromkeys(name for each in of_each.values() for name in each):
        holders: dict[Text, list[str]] = {}
        for op, each in of_each.items():
            holders.setdefault(each.get(name, plain("not mentioned")), []).append(str(op.row))
        if len(holders) > 1:
            labels = [plain(name), *[plain("")] * len(holders)]
            rows += [
                (label, text, plain(", ".join(versions)))
                for label, (text, versions) in zip(labels, holders.items(), strict=False)
            ]
    table = Table(titles=("rule", "what it is", "in"), rows=tuple(rows))
    return Section(title="Rules that differ", blocks=(table,))


_INDEX = """\
Operators
=========

A published operator has versions, and each says something else about negative indices, about
indices out of bounds, about types and batches. ``ndgather.operator("GatherND", version=13)`` is
one of them, strict to its own text. Its page has the formula, the rules, examples that were run
when the page was made, what the text leaves open, and the errors in it.

.. list-table::
   :header-rows: 1

   * - what it does
     - versions
     - side by side
"""


def _index(families: Sequence[Sequence[Operator]]) -> str:
    lines = [_INDEX.rstrip()]
    toctree = [".. toctree::", "   :hidden:", ""]
    for family in families:
        versions = ", ".join(f":doc:`{op.row} <{_file(op)}>`" for op in family)
        compared = _comparison_file(family)
        lines += [f"   * - {family[-1].row.summary}", f"     - {versions}"]
        lines += [f"     - :doc:`{family[0].name} compared <{compared}>`"]
        toctree += [
            f"   {family[0].name} compared <{compared}>",
            *(f"   {op.row} <{_file(op)}>" for op in family),
        ]
    _, _, table = pages.operator_table(format="rst").partition("\n27 versions\n")
    title = f"{sum(map(len, families))} versions at a glance"
    heading = ("", title, "-" * len(title), table.partition("\n\n")[2], "")
    return "\n".join((*lines, *heading, *toctree, ""))
