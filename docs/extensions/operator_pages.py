"""The pages of operators, written at every build: their examples are run then."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from generated_files import write

from ndgather.pages import operator_table
from ndgather.pages.document import Document, Example, Paragraph, Section, Table
from ndgather.pages.operator_page import comparison, operator_document, rules
from ndgather.pages.writers import render
from ndgather.published import Operator, operators
from ndgather.published.schema import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "operators"
    written = {folder / f"{name}.md": text for name, text in _pages()}
    for place, text in written.items():
        write(place, text)
    for place in {*folder.iterdir()} - written.keys():
        place.unlink()  # the page of an operator that is gone


def _pages() -> Iterator[tuple[str, str]]:
    families = [tuple(op for op in operators() if op.row.kind is kind) for kind in Kind]
    for family in families:
        for op in family:
            yield _file(op), _page(op)
        yield _comparison_file(family), _markdown(_comparison(family))
    yield "index", _index(families)


def _markdown(document: Document) -> str:
    return render("docs", document, format="md", width=0)


def _page(op: Operator) -> str:
    """Return the page of a version, with a picture of its first example before the rules."""
    document = operator_document(op)
    blocks = (block for section in document.sections for block in section.blocks)
    run = next(block for block in blocks if isinstance(block, Example)).runs[0]
    drawn = op.show(*(tensor for _, tensor in run.tensors), **dict(run.options))
    picture = drawn.to_html(style=False)
    formula, heading, rest = _markdown(document).partition("## Rules\n")
    return f"{formula}```{{raw}} html\n{picture}\n```\n\n{heading}{rest}"


def _file(op: Operator) -> str:
    return f"{op.domain}-{op.name}-{op.version}"


def _comparison_file(family: Sequence[Operator]) -> str:
    return f"{family[0].name}-compared"


def _comparison(family: Sequence[Operator]) -> Document:
    """Return the page that compares all operators of one kind."""
    newest = max((op for op in family if op.domain == family[0].domain), key=lambda op: op.version)
    others = [op for op in family if op is not newest]
    lead = Paragraph(
        "First the rules that are not the same in all of them. Then the newest of "
        f"{newest.domain} with every other version: what differs, and the calls that the two "
        "answer differently, run when this page was made."
    )
    sections = (_all_rules(family), *(comparison(newest, other) for other in others))
    return Document(f"{family[0].name}: versions and dialects side by side", (lead,), sections)


def _all_rules(family: Sequence[Operator]) -> Section:
    """Return a table of the rules that differ, with the versions that have every variant."""
    rules_of = {op: dict(rules(op.row)) for op in family}
    rows = []
    for name in dict.fromkeys(name for found in rules_of.values() for name in found):
        variants: dict[str, list[str]] = {}
        for op, found in rules_of.items():
            variants.setdefault(found.get(name, "not mentioned"), []).append(str(op.row))
        if len(variants) > 1:
            for number, (text, versions) in enumerate(variants.items()):
                rows.append(("" if number else name, text, ", ".join(versions)))
    return Section("Rules that differ", (Table(("rule", "what it is", "in"), tuple(rows)),))


_INDEX = """\
# Operators

A published operator has versions, with different rules about negative indices, indices out of
bounds, types and batches. `ndgather.operator("GatherND", version=13)` is one of them, strict to its
own text. Its page has the formula, the rules, examples that were run when the page was made, what
the text leaves open, and the errors in it.

| what it does | versions | side by side |
| --- | --- | --- |
"""


def _index(families: Sequence[Sequence[Operator]]) -> str:
    rows, toctree = [], []
    for family in families:
        versions = ", ".join(f"[{op.row}]({_file(op)}.md)" for op in family)
        compared = f"[{family[0].name} compared]({_comparison_file(family)}.md)"
        rows.append(f"| {family[-1].row.summary} | {versions} | {compared} |")
        toctree.append(f"{family[0].name} compared <{_comparison_file(family)}>")
        toctree += [f"{op.row} <{_file(op)}>" for op in family]
    _, _, table = operator_table(width=0).partition(" versions\n\n")
    lines = (*rows, "", f"## {sum(map(len, families))} versions at a glance", "", table)
    return _INDEX + "\n".join((*lines, "```{toctree}", ":hidden:", "", *toctree, "```", ""))
