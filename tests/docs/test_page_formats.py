"""Pages in every format: all rows, valid markup, and the same words everywhere."""

import html
import html.parser
import itertools
import json
import re
from pathlib import Path

import pytest

from ndgather import pages
from ndgather.errors import AttributeValueError
from ndgather.pages.document import (
    Bullets,
    Code,
    Document,
    Example,
    Facts,
    Paragraph,
    Section,
    Span,
    Style,
    Table,
    code,
    listing,
    plain,
    string,
)
from ndgather.pages.formats import render
from ndgather.pages.operator_page import operator_document
from ndgather.published import operator, operators

GOLDEN = Path(__file__).parent / "golden" / "GatherND-13.txt"
EVERY = pytest.mark.parametrize("op", operators(), ids=lambda op: str(op.row))
FORMATS = ("text", "md", "rst", "html", "json")
ESCAPE = re.compile(r"\x1b\[\d*m")
VOID = {"meta", "br", "link", "img"}

# Text that means something in one format or the other, and has to come out as it is.
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


def page(op, **options):
    return pages.operator_page(op.name, op.domain, op.version, **options)


def words(document):
    """Return the texts of a document, in their order."""
    yield document.title
    blocks = list(document.lead)
    for section in document.sections:
        blocks += [section.title, *section.blocks]
    for block in blocks:
        match block:
            case str():
                yield block
            case Paragraph(text=text):
                yield string(text)
            case Code(lines=lines):
                yield from lines
            case Facts(items=items):
                for label, text in items:
                    yield label
                    yield string(text)
            case Bullets(items=items):
                yield from map(string, items)
            case Table(titles=titles, rows=rows):
                yield from titles
                yield from (string(cell) for row in rows for cell in row)
            case Example(title=title, why=why):
                yield title
                yield why
                yield from map(str, listing(block))


def squeezed(texts):
    return "".join("".join(text.split()) for text in texts)


class _Reader(html.parser.HTMLParser):
    """Collect what is seen of a page, and refuse tags that are not closed in their order."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.seen, self.ids, self.targets = [], [], [], []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.targets += [attributes["href"]] if "href" in attributes else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "title", "nav", "figure"} & set(self.open):
            self.seen.append(data)


def read_html(text):
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def table_cells(line):
    return re.split(r"(?<!\\)\|", line.strip())[1:-1]


def test_the_formats_are_these():
    assert pages.FORMATS == FORMATS


@pytest.mark.parametrize("format", FORMATS)
@EVERY
def test_every_row_in_every_format(op, format):
    text = page(op, format=format)

    assert text.isascii()
    assert text.endswith("\n")
    assert str(op.row) in text
    assert op.row.source in text
    assert not any(line != line.rstrip() for line in text.splitlines())


@EVERY
def test_html_closes_its_tags_and_says_what_the_document_says(op):
    reader = read_html(page(op, format="html"))

    assert squeezed(reader.seen) == squeezed(words(operator_document(op)))
    assert len(set(reader.ids)) == len(reader.ids)
    within = [target[1:] for target in reader.targets if target.startswith("#")]
    assert within == reader.ids
    assert [each for each in reader.targets if not each.startswith("#")] == [op.row.source]


@EVERY
def test_html_has_a_picture_of_each_example(op):
    text = page(op, format="html")
    examples = [
        block
        for section in operator_document(op).sections
        for block in section.blocks
        if isinstance(block, Example)
    ]

    assert text.count('<figure class="ndg"') == len(examples)
    assert text.count("<style>") == 1


@EVERY
def test_text_says_what_the_document_says(op):
    lines = page(op, width=10_000).splitlines()
    seen = squeezed(line for line in lines if set(line) - set("-= "))

    for text in words(operator_document(op)):
        assert squeezed([text]).lstrip(">") in seen


@EVERY
def test_markdown_has_whole_tables_and_closed_fences(op):
    lines = page(op, format="md").splitlines()

    assert sum(line.startswith("```") for line in lines) % 2 == 0
    prose = [line for line in lines if line.startswith("|")]
    sizes = {len(table_cells(line)) for line in prose}
    assert prose
    assert sizes <= {2, 3, 4, 5}
    for before, line in itertools.pairwise(lines):
        if before.startswith("|") and line.startswith("|"):
            assert len(table_cells(before)) == len(table_cells(line))


@EVERY
def test_rst_is_read_without_a_message(op):
    core = pytest.importorskip("docutils.core", reason="docutils is in no extra of this package")
    other = operators(op.name, op.domain)[0]

    tree = core.publish_doctree(
        page(op, diff=str(other.version), format="rst"),
        settings_overrides={"report_level": 1, "halt_level": 1},
    )

    for text in words(operator_document(op)):
        assert squeezed([text]) in squeezed([tree.astext()])


@EVERY
def test_json_has_the_rules_by_their_names(op):
    found = json.loads(page(op, format="json"))

    assert found["title"] == str(op.row)
    assert found["about"][0] == op.row.summary
    assert found["about"][1]["source"] == op.row.source
    (rules,) = found["sections"]["Rules"]
    assert {"ranks", "shape of the result", "index values", "indices out of bounds"} <= set(rules)
    (errata,) = found["sections"].get("Errors in the published text", [[]])
    assert [each["the text says"] for each in errata] == [each.quote for each in op.row.errata]


@pytest.mark.parametrize("width", [60, 80, 100])
@EVERY
def test_text_is_no_wider_than_asked(op, width):
    for line in page(op, width=width).splitlines():
        assert len(line) <= width or "http" in line or width == 60, line


@EVERY
def test_colours_change_nothing_but_colours(op):
    coloured = page(op, color=True)

    assert ESCAPE.sub("", coloured) == page(op)
    assert coloured.count("\x1b[0m") * 2 == len(ESCAPE.findall(coloured))
    assert "\x1b" not in page(op)


def test_golden_page():
    """Made by ``ndgather doc GatherND --version 13 --diff openvino:5 > GatherND-13.txt``."""
    found = pages.operator_page("GatherND", version=13, diff="openvino:5")

    assert found == GOLDEN.read_text(encoding="ascii")


@pytest.mark.parametrize("format", FORMATS)
def test_the_table_has_every_row(format):
    text = pages.operator_table(format=format)

    assert text.endswith("\n")
    found = json.loads(pages.operator_table(format="json"))["sections"]["27 versions"][0]
    assert [(row["domain"], row["operator"], row["since"]) for row in found] == [
        (op.domain, op.name, str(op.version)) for op in operators()
    ]
    for op in operators():
        assert op.name in text


def test_the_table_fits_a_terminal():
    lines = pages.operator_table(width=80).splitlines()

    assert max(map(len, lines)) <= 80
    assert "  openvino       Gather                 8      -s..s-1  zeros      batch_dims" in lines


@pytest.mark.parametrize("text", HOSTILE)
def test_markup_in_a_text_means_nothing(text):
    hostile = Document(
        title="page",
        lead=(Paragraph(plain(text)), Bullets((plain(text),)), Facts((("label", plain(text)),))),
        sections=(
            Section(
                title="tables",
                blocks=(
                    Table(titles=("one", "two"), rows=((plain(text), code("x")),)),
                    Paragraph((Span(text="x", style=Style.CODE), Span(text=text))),
                ),
            ),
        ),
    )

    def written(format):
        return render("doc", hostile, format=format, width=10_000, color=False)

    assert squeezed(read_html(written("html")).seen) == squeezed(words(hostile))
    assert json.loads(written("json"))["about"] == [text, [text], {"label": text}]
    assert text in written("text")
    row = next(line for line in written("md").splitlines() if line.endswith("| `x` |"))
    assert len(table_cells(row)) == 2
    assert re.sub(r"\\([^A-Za-z0-9\s])", r"\1", table_cells(row)[0]).strip() == text


@pytest.mark.parametrize("text", HOSTILE)
def test_markup_in_a_text_means_nothing_to_a_reader_of_markdown(text):
    markdown = pytest.importorskip("markdown_it", reason="it is in no extra of this package")
    hostile = Document(
        title="page",
        lead=(
            Paragraph(plain(text)),
            Bullets((plain(text),)),
            Table(titles=("one", "two"), rows=((plain(text), code("x")),)),
            Paragraph((Span(text="x", style=Style.CODE), Span(text=text))),
        ),
    )

    reader = markdown.MarkdownIt("commonmark").enable(["table", "strikethrough"])
    page = reader.render(render("doc", hostile, format="md", width=80, color=False))

    assert squeezed(read_html(page).seen) == squeezed(words(hostile))


@pytest.mark.parametrize("text", HOSTILE)
def test_markup_in_a_text_means_nothing_to_docutils(text):
    core = pytest.importorskip("docutils.core", reason="docutils is in no extra of this package")
    hostile = Document(
        title="page",
        lead=(
            Paragraph(plain(text)),
            Bullets((plain(text),)),
            Facts((("label", plain(text)),)),
            Table(titles=("one", "two"), rows=((plain(text), code("x")),)),
            Paragraph((Span(text="x", style=Style.CODE), Span(text=text))),
        ),
    )

    tree = core.publish_doctree(
        render("doc", hostile, format="rst", width=80, color=False),
        settings_overrides={"report_level": 1, "halt_level": 1},
    )

    assert squeezed([tree.astext()]) == squeezed(words(hostile))


def test_an_unknown_format_is_refused():
    with pytest.raises(AttributeValueError) as caught:
        pages.operator_page("GatherND", format="pdf")

    assert str(caught.value) == (
        "doc: format = 'pdf' is unknown (allowed: 'text', 'md', 'rst', 'html', 'json')"
    )


def test_a_page_of_the_newest_is_made_without_a_version():
    assert pages.operator_page("GatherND") == page(operator("GatherND", version=13))
    assert pages.operator_page("GatherND", opset=12) == page(operator("GatherND", version=12))


@pytest.mark.parametrize("name", ["gathernd", "gather_nd", "gather-nd", "GATHER_ND", "GatherND"])
def test_spelling_of_a_name_does_not_matter(name):
    assert pages.operator_page(name).startswith("ai.onnx GatherND-13\n")
    assert pages.operator_table(name) == pages.operator_table("GatherND")


def test_a_name_of_one_domain_needs_no_domain():
    text = pages.operator_page("ScatterNDUpdate")

    assert text.startswith("openvino ScatterNDUpdate-15\n")


UNKNOWN = {
    "a name": (
        {"name": "Foo", "domain": "openvino"},
        "doc: name = 'Foo' is unknown (allowed: 'GatherND', 'GatherElements', 'Gather', "
        "'ScatterNDUpdate', 'ScatterElementsUpdate')",
    ),
    "a domain": (
        {"name": "GatherND", "domain": "foo"},
        "doc: domain = 'foo' is unknown (allowed: 'ai.onnx', 'com.microsoft', 'openvino')",
    ),
    "a version": (
        {"name": "GatherND", "version": 14},
        "operator: version = 14 has no ai.onnx GatherND (allowed: 11, 12, 13)",
    ),
    "an opset": (
        {"name": "GatherND", "opset": 10},
        "operator: opset = 10 has no ai.onnx GatherND (allowed: at least 11)",
    ),
    "a version and an opset": (
        {"name": "GatherND", "opset": 12, "version": 12},
        "operator: version = 12 and opset = 12 are both given (allowed: one of them)",
    ),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_is_unknown_is_said_on_one_line(what):
    given, text = UNKNOWN[what]

    with pytest.raises(AttributeValueError) as caught:
        pages.operator_page(**given)

    assert str(caught.value) == text
