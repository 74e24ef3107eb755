"""Write a page for each kind of operator during every build, which also runs the examples."""

from __future__ import annotations

import html
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from generated_files import write

from ndgather.published import Operator, operators
from ndgather.published.schema import OPERATOR_KINDS, Role

from . import rule_texts
from .document import (
    Bullets,
    Document,
    Example,
    FieldList,
    Paragraph,
    Section,
    Table,
    as_markdown,
    section_as_markdown,
    spans,
    string,
)
from .version_page import changes, comparison, rules, version_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sphinx.application import Sphinx

_REMARKS = ("Notes", "Errors in the published text")  # the first sections
_MOST_CALLS = 2  # the maximum number of examples in which two specifications differ
_MOST_EXAMPLES = 4
_MOST_OF_CLOSE = 1  # the number of examples for operators that only resemble the kind
_FEW = 5  # the maximum number of types in a cell


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "operators"
    written = {folder / f"{name}.md": text for name, text in _pages()}
    for place, text in written.items():
        write(place, text)
    for place in {*folder.iterdir()} - written.keys():
        place.unlink()  # the page of a removed operator


def _pages() -> Iterator[tuple[str, str]]:
    families = [
        _ordered(op for op in operators() if op.row.kind is kind) for kind in OPERATOR_KINDS
    ]
    for family in families:
        yield family[0].name, "\n".join(_page(family))
    yield "index", _index(families)


def _ordered(family: Iterator[Operator]) -> tuple[Operator, ...]:
    """Sort the operators of a kind by domain, ONNX first, and by descending version.

    Operators with a definition, which only resemble the kind, come last.
    """
    return tuple(
        sorted(family, key=lambda op: (op.row.definition is not None, op.domain, -op.version))
    )


def _page(family: Sequence[Operator]) -> Iterator[str]:
    newest = family[0]
    name, kind = newest.name, newest.row.kind.value
    yield f"# {name}\n\n{newest.row.summary}\n"
    yield (
        f"The function {{py:func}}`ndgather.{kind}` does the same without the restrictions of a "
        f"version. Similar functions: {rule_texts.ALIKE[newest.row.kind]}.\n"
    )
    yield f"```{{picture}}\n{_call(newest)}\n```\n"
    yield "## Versions side by side\n"
    yield f"Differences from {newest.row} are highlighted.\n"
    versions = [op for op in family if op.row.definition is None]
    yield f"```{{raw}} html\n{_matrix(versions)}\n```\n"
    for op in family:
        yield _version(op, family)


def _call(op: Operator) -> str:
    """Return the first example as a call of `ndgather.show`."""
    blocks = (block for section in version_document(op).sections for block in section.blocks)
    run = next(block for block in blocks if isinstance(block, Example)).runs[0]
    arguments = [tensor.tolist() for _, tensor in run.tensors]
    code = ", ".join([*map(repr, arguments), *(f"{name}={value!r}" for name, value in run.options)])
    return f"show.{op.row.kind.value}({code})"


def are_compared(first: Operator, second: Operator) -> bool:
    """Return whether both are plain calls of the same kind, or versions of the same operator."""
    if first.row.definition is None and second.row.definition is None:
        return first.row.kind is second.row.kind
    return (first.name, first.domain) == (second.name, second.domain)


def _version(op: Operator, family: Sequence[Operator]) -> str:
    """Describe a version: in full for the newest ONNX version, otherwise only the differences."""
    newest, document = family[0], version_document(op)
    sections = {section.title: section for section in document.sections}
    of_domain = [each for each in family if each.domain == op.domain and are_compared(each, op)]
    older = [each for each in of_domain if each.version < op.version]
    is_close = op.row.definition is not None  # the operator only resembles the kind
    lead = list(document.lead if is_close else document.lead[1:])
    if older:
        differs = "; ".join(map(string, changes(op, older[0]))) or "wording only"
        lead.insert(0, Paragraph(f"Differs from {older[0].row}: {differs}."))
    remarks = [sections[title] for title in _REMARKS if title in sections]
    if op is newest or is_close:
        left_out = (*_REMARKS, *(["In a model"] if is_close else ()))
        rest = [each for each in document.sections if each.title not in left_out]
        more = sections["More examples"]
        most = _MOST_OF_CLOSE if is_close else _MOST_EXAMPLES
        shorter = replace(more, blocks=more.blocks[: 1 + most])
        rest[rest.index(more)] = shorter
    else:
        lead[-3:] = [FieldList((("source", op.row.source),)), document.lead[-2]]
        remarks = list(_only_in(remarks, version_document(newest)))
        rest = []
        if op is of_domain[0]:
            differences = comparison(op, newest)
            blocks = differences.blocks[: 1 + _MOST_CALLS]
            rest = [replace(differences, blocks=blocks)]
    short = Document(document.title, tuple(lead), (*remarks, *rest))
    return _demoted(as_markdown(short))


def _only_in(remarks: Sequence[Section], newest: Document) -> Iterator[Section]:
    """Yield the remarks that do not also apply to the newest version."""
    of_newest = {section.title: section.blocks[0] for section in newest.sections}
    for section in remarks:
        (block,), known = section.blocks, of_newest.get(section.title)
        if isinstance(block, Bullets):
            notes = known.items if isinstance(known, Bullets) else ()
            items = tuple(item for item in block.items if item not in notes)
            if items:
                yield Section(section.title, (Bullets(items),))
        elif isinstance(block, Table):
            errata = known.rows if isinstance(known, Table) else ()
            rows = tuple(row for row in block.rows if row not in errata)
            if rows:
                yield Section(section.title, (replace(block, rows=rows),))


def _demoted(text: str) -> str:
    """Demote the headings of a Markdown text by one level."""
    lines, is_code = [], False
    for line in text.splitlines():
        is_code ^= line.startswith("```")
        lines.append(f"#{line}" if line.startswith("#") and not is_code else line)
    return "\n".join((*lines, ""))


def _matrix(family: Sequence[Operator]) -> str:
    """Return an HTML table of the differing rules, with a column for each version."""
    columns = [dict(_cells(op, family)) for op in family]
    names = dict.fromkeys(name for column in columns for name in column)
    head = "".join(f'<th scope="col"><a href="#{anchor(op)}">{op.row}</a></th>' for op in family)
    rows = []
    for name in names:
        cells = [column.get(name, rule_texts.NONE) for column in columns]
        if len(set(cells)) > 1:
            first, *others = cells
            written = [f"<td>{_html(first)}</td>"]
            for cell in others:
                same = cell == first
                style, text = ("same", "same") if same else ("differs", _html(cell))
                written.append(f'<td class="{style}">{text}</td>')
            rows.append(f'<tr><th scope="row">{_html(name)}</th>{"".join(written)}</tr>')
    return (
        '<div class="pst-scrollable-table-container"><table class="table versions">'
        f'<thead><tr><th scope="col">rule</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def anchor(op: Operator) -> str:
    """Return the anchor of a version on its page."""
    return f"{op.domain}-{op.name}-{op.version}".lower().replace(".", "-")


def _cells(op: Operator, family: Sequence[Operator]) -> Iterator[tuple[str, str]]:
    yield from rules(op.row)
    yield "attributes", ", ".join(f"`{each.name}`" for each in op.row.attributes) or rule_texts.NONE
    reduction = op.row.attribute("reduction")
    if reduction is not None:
        yield "`reduction`", ", ".join(f"`{choice.word}`" for choice in reduction.choices)
    for role in (Role.DATA, Role.INDICES):
        known = dict.fromkeys(name for each in family for name in _types(each, role))
        types = _types(op, role)
        missing = [name for name in known if name not in types]
        text = ", ".join(f"`{name}`" for name in types)
        if len(types) > _FEW:
            some = ", ".join(f"`{name}`" for name in missing[:_FEW])
            more = f" and {len(missing) - _FEW} more" if len(missing) > _FEW else ""
            text = f"{len(types)} types" + (f", without {some}{more}" if missing else "")
        yield f"types of `{role.value}`", text


def _types(op: Operator, role: Role) -> tuple[str, ...]:
    tensor = op.row.input(role)
    return () if tensor is None else tensor.types


def _html(text: str) -> str:
    parts = (html.escape(part) for part in spans(text))
    return "".join(f"<code>{part}</code>" if n % 2 else part for n, part in enumerate(parts))


_INDEX = """\
# Operators

The versions of a published operator have different rules for negative indices, out-of-bounds
indices, types and batches. `ndgather.operator("GatherND", version=13)` follows exactly the text of
that version. Each page compares the versions of an operator, then describes the newest version in
full and the differences of the others.

"""


def _index(families: Sequence[Sequence[Operator]]) -> str:
    rows, toctree = [], []
    for family in families:
        versions = ", ".join(f"[{op.row}]({family[0].name}.md#{anchor(op)})" for op in family)
        rows.append(
            f"| [{family[0].name}]({family[0].name}.md) | {family[0].row.summary} | {versions} |"
        )
        toctree.append(family[0].name)
    lines = (
        "| operator | summary | versions |",
        "| --- | --- | --- |",
        *rows,
        "",
        section_as_markdown(_all_versions()),
    )
    return _INDEX + "\n".join((*lines, "```{toctree}", ":hidden:", "", *toctree, "```", ""))


def _all_versions() -> Section:
    """Return a section with a table of all versions."""
    rows = tuple(
        (
            op.domain,
            f"`{op.name}`",
            str(op.version),
            rule_texts.NEGATIVE_IN_SHORT[op.row.index_rule.negative],
            rule_texts.OUTSIDE_IN_SHORT[op.row.index_rule.outside],
            ", ".join(attribute.name for attribute in op.row.attributes),
        )
        for op in operators()
    )
    columns = (
        ("since", "the first opset with this version"),
        ("indices", "the valid indices for an axis of size s"),
        (
            "others",
            "the effect of other values; if it is undefined, this package raises an error",
        ),
    )
    titles = ("domain", "operator", "since", "indices", "others", "attributes")
    table = Table(titles, rows)
    return Section(f"{len(rows)} versions at a glance", (table, FieldList(columns)))
