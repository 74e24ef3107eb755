"""The pages of operators, written at every build: their examples are run then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from generated_files import write

from ndgather.pages import operator_table
from ndgather.pages.document import Document, Example, Paragraph, Section, Table, render, string
from ndgather.pages.operator_page import changes, comparison, operator_document, rules
from ndgather.published import Operator, operators
from ndgather.published.schema import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sphinx.application import Sphinx

_OF_ONE_VERSION = ("Notes", "Errors in the published text")  # sections that every version keeps


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
    """Return the page of a version: the newest in full, of the others how they differ from it."""
    versions = sorted(operators(op.name, op.domain), key=lambda other: -other.version)
    document = operator_document(op)
    newest = versions[0]
    if op.version != newest.version:
        own = _only_in(document, operator_document(newest))
        sections = (comparison(op, newest), *own)
        short = _markdown(Document(document.title, document.lead, sections))
        title, _, text = short.partition("\n")
        link = f"[{newest.row}]({_file(newest)}.md)"
        return f"{title}\n\nIn all that is not listed here, this version is as {link}.\n{text}"
    blocks = (block for section in document.sections for block in section.blocks)
    run = next(block for block in blocks if isinstance(block, Example)).runs[0]
    drawn = op.show(*(tensor for _, tensor in run.tensors), **dict(run.options))
    picture = drawn.to_html(style=False)
    if len(versions) > 1:
        differs = "; ".join(map(string, changes(op, versions[1]))) or "wording only"
        document = replace(
            document,
            lead=(Paragraph(f"Differs from {versions[1].row}: {differs}."), *document.lead),
        )
    formula, heading, rest = _markdown(document).partition("## Rules\n")
    return f"{formula}```{{raw}} html\n{picture}\n```\n\n{heading}{rest}"


def _only_in(document: Document, newest: Document) -> Iterator[Section]:
    """Yield the notes on a version, and the errors of its text, that the newest has not."""
    there = {section.title: section.blocks[0] for section in newest.sections}
    for section in document.sections:
        if section.title in _OF_ONE_VERSION:
            (block,), field = section.blocks, "items" if section.title == "Notes" else "rows"
            known = getattr(there.get(section.title), field, ())
            entries = tuple(entry for entry in getattr(block, field) if entry not in known)
            if entries:
                yield Section(section.title, (replace(block, **{field: entries}),))


def _file(op: Operator) -> str:
    return f"{op.domain}-{op.name}-{op.version}"


def _comparison_file(family: Sequence[Operator]) -> str:
    return f"{family[0].name}-compared"


def _comparison(family: Sequence[Operator]) -> Document:
    """Return the page that compares all operators of one kind."""
    newest = max((op for op in family if op.domain == family[0].domain), key=lambda op: op.version)
    latest = {(op.domain, op.name): op for op in sorted(family, key=lambda op: op.version)}
    others = [op for op in latest.values() if op is not newest]
    lead = Paragraph(
        "First the rules that are not the same in all versions. Then the newest of "
        f"{newest.domain} with the newest of other specifications: what differs, and the calls "
        "that the two answer differently, run when this page was made."
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
own text. The page of the newest version has the formula, the rules, examples that were run when the
page was made, what the text leaves open, and the errors in it; those of older versions say how they
differ. `ndgather doc GatherND --version 11` prints any of them in full.

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
