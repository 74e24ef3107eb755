"""The Markdown of pages is valid and shows the words of the document."""

import html.parser
import itertools
import re

import pytest
from operator_pages.document import (
    Bullets,
    Code,
    Document,
    Example,
    FieldList,
    Paragraph,
    Section,
    Table,
    as_markdown,
    listing,
    literal,
    string,
)
from operator_pages.version_page import version_document

from ndgather.published import operators

EVERY = pytest.mark.parametrize("op", operators(), ids=lambda op: str(op.row))

# Text with a meaning in Markdown or reStructuredText, which must be shown unchanged.
HOSTILE = (
    "*p[:b], **x** and a*b*c",
    "`code`, ``[0, s-1]``, batch_dims_, _start and :doc:`GatherND_8 <gather-8>`",
    "a | b || c, [link](address), ![image](x), <b>bold</b> & &amp; <!-- c -->",
    "- not a list",
    "1. not a list",
    "# not a title",
    "-s..s-1",
    "a backslash \\ and \\* two",
    "ends like this::",
    ".. note:: not a note",
    ">>> not a test",
    ":not: a field",
    "~~kept~~ $x$",
    "_first_ and __second__, but batch_dims_of_data",
)


def page(op):
    return as_markdown(version_document(op))


def words(document):
    """Yield the texts of a document in order."""
    yield document.title
    for section in (Section("", document.lead), *document.sections):
        yield section.title
        for block in section.blocks:
            match block:
                case Paragraph(text=text):
                    yield string(text)
                case Code(lines=lines):
                    yield from lines
                case FieldList(items=items):
                    for label, text in items:
                        yield f"{label}:"
                        yield string(text)
                case Bullets(items=items):
                    yield from map(string, items)
                case Table(titles=titles, rows=rows):
                    yield from titles
                    yield from (string(cell) for row in rows for cell in row)
                case Example(title=title, why=why):
                    yield title
                    yield why
                    yield from listing(block)


def squeezed(texts):
    return "".join("".join(text.split()) for text in texts)


class _Reader(html.parser.HTMLParser):
    """Collect the visible text of an HTML page, and check that tags are closed."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.seen = [], []

    def handle_starttag(self, tag, _):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.seen.append(data)


def read(text):
    """Return the visible text of a Markdown page."""
    markdown = pytest.importorskip("markdown_it", reason="it is in no extra of this package")
    reader = _Reader()
    reader.feed(markdown.MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text))
    reader.close()
    assert reader.open == []
    return squeezed(reader.seen)


def table_cells(line):
    return re.split(r"(?<!\\)\|", line.strip())[1:-1]


@EVERY
def test_markdown_has_the_words_of_the_document(op):
    document = version_document(op)
    text = as_markdown(document)

    assert text.isascii()
    assert not any(line != line.rstrip() for line in text.splitlines())
    assert document.title == str(op.row)
    assert read(text) == squeezed(words(document))


@EVERY
def test_document_has_summary_source_and_errata_of_its_row(op):
    document = version_document(op)
    sections = {section.title: section.blocks for section in document.sections}

    assert string(document.lead[0].text) == op.row.summary
    assert dict(document.lead[1].items)["source"] == op.row.source
    rules = dict(sections["Rules"][0].items)
    assert {"ranks", "shape of the result", "index values", "out-of-bounds indices"} <= set(rules)
    quotes = [
        string(row[1])
        for table in sections.get("Errors in the published text", ())
        for row in table.rows
    ]
    assert quotes == [error.quote for error in op.row.errata]


@EVERY
def test_markdown_tables_and_fences_are_complete(op):
    lines = page(op).splitlines()

    assert sum(line.startswith("```") for line in lines) % 2 == 0
    prose = [line for line in lines if line.startswith("|")]
    sizes = {len(table_cells(line)) for line in prose}
    assert prose
    assert sizes <= {2, 3, 4, 5}
    for before, line in itertools.pairwise(lines):
        if before.startswith("|") and line.startswith("|"):
            assert len(table_cells(before)) == len(table_cells(line))


@pytest.mark.parametrize("text", HOSTILE)
def test_markup_in_a_text_is_escaped(text):
    hostile = Document(
        title="page",
        lead=(
            Paragraph(literal(text)),
            Paragraph(literal(f"words before the text {text} and after it, {text}")),
            Bullets((literal(text),)),
            Table(("one", "two"), ((literal(text), "`x`"),)),
            Paragraph(f"`x` {literal(text)}"),
        ),
        sections=(Section("facts", (FieldList((("label", literal(text)),)),)),),
    )

    assert read(as_markdown(hostile)) == squeezed(words(hostile))
