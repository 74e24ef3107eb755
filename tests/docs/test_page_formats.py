"""Pages in both formats: all rows, valid markup, and the same words."""

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
    FieldList,
    Paragraph,
    Section,
    Table,
    listing,
    literal,
    render,
    string,
)
from ndgather.pages.operator_page import operator_document
from ndgather.published import operator, operators

GOLDEN = Path(__file__).parent / "golden" / "GatherND-13.txt"
EVERY = pytest.mark.parametrize("op", operators(), ids=lambda op: str(op.row))
FORMATS = ("text", "md", "json")
WIDTHS = (0, 40, 80)

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


def blocks(document):
    return [*document.lead, *(block for section in document.sections for block in section.blocks)]


def words(document, with_titles=True):
    """Yield the texts of a document, in their order."""
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
                    yield from titles if with_titles else ()
                    yield from (string(cell) for row in rows for cell in row)
                case Example(title=title, why=why):
                    yield title
                    yield why
                    yield from listing(block)


def squeezed(texts):
    return "".join("".join(text.split()) for text in texts)


class _Reader(html.parser.HTMLParser):
    """Collect what is visible of the HTML of a page, and check that tags are closed."""

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
    """Return what a reader of Markdown shows of a page."""
    markdown = pytest.importorskip("markdown_it", reason="it is in no extra of this package")
    reader = _Reader()
    reader.feed(markdown.MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text))
    reader.close()
    assert reader.open == []
    return squeezed(reader.seen)


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
def test_markdown_says_what_the_document_says(op):
    assert read(page(op, width=0)) == squeezed(words(operator_document(op)))


@pytest.mark.parametrize("width", WIDTHS)
@EVERY
def test_markdown_says_the_same_at_every_width(op, width):
    shown = read(page(op, width=width))

    for text in words(operator_document(op), with_titles=False):
        assert squeezed([text]) in shown


@EVERY
def test_markdown_has_whole_tables_and_closed_fences(op):
    lines = page(op, width=0).splitlines()

    assert sum(line.startswith("```") for line in lines) % 2 == 0
    prose = [line for line in lines if line.startswith("|")]
    sizes = {len(table_cells(line)) for line in prose}
    assert prose
    assert sizes <= {2, 3, 4, 5}
    for before, line in itertools.pairwise(lines):
        if before.startswith("|") and line.startswith("|"):
            assert len(table_cells(before)) == len(table_cells(line))


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
    for number, part in enumerate(page(op, width=width).split("```")):
        for line in part.splitlines() if number % 2 == 0 else ():  # code has its own lines
            exempt = "http" in line or line.startswith("|") or width == 60
            assert len(line) <= width or exempt, line


def test_golden_page():
    """Written by ``ndgather doc GatherND --version 13 --diff openvino:5`` on a terminal."""
    found = pages.operator_page("GatherND", version=13, diff="openvino:5")

    assert found == GOLDEN.read_text(encoding="ascii")


@pytest.mark.parametrize("format", FORMATS)
def test_the_table_has_every_row(format):
    text = pages.operator_table(format=format)

    assert text.endswith("\n")
    found = json.loads(pages.operator_table(format="json"))["sections"]["32 versions"][0]
    assert [(row["domain"], row["operator"], row["since"]) for row in found] == [
        (op.domain, op.name, str(op.version)) for op in operators()
    ]
    for op in operators():
        assert op.name in text


def test_a_table_that_is_too_wide_is_a_list():
    table = Table(("name", "one", "two"), (("`a`", "x", "word " * 20), ("`b`", "", "z")))
    document = Document("page", (table,))

    lines = render("doc", document, format="md", width=40).splitlines()

    assert lines[2:4] == ["- **`a`**", "  - one: x"]
    assert lines[4] == "  - two: word word word word word word"
    assert lines[5] == "    word word word word word word word"
    assert "| `a`" in render("doc", document, format="md", width=200)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("text", HOSTILE)
def test_markup_in_a_text_means_nothing(text, width):
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

    written = render("doc", hostile, format="md", width=width)

    shown = squeezed(words(hostile))
    assert read(written) == (shown if "| one" in written else shown.replace("onetwo", ""))
    values = json.loads(render("doc", hostile, format="json", width=width))
    assert values["about"][0] == text
    assert values["about"][2] == [text]
    assert values["sections"]["facts"] == [{"label": text}]


def test_an_unknown_format_is_refused():
    with pytest.raises(AttributeValueError) as caught:
        pages.operator_page("GatherND", format="pdf")

    assert str(caught.value) == ("doc: format = 'pdf' is unknown (allowed: 'text', 'md', 'json')")


def test_a_page_of_the_newest_is_made_without_a_version():
    assert pages.operator_page("GatherND") == page(operator("GatherND", version=13))
    assert pages.operator_page("GatherND", opset=12) == page(operator("GatherND", version=12))


@pytest.mark.parametrize("name", ["gathernd", "gather_nd", "gather-nd", "GATHER_ND", "GatherND"])
def test_spelling_of_a_name_does_not_matter(name):
    assert pages.operator_page(name).startswith("# ai.onnx GatherND-13\n")
    assert pages.operator_table(name) == pages.operator_table("GatherND")


def test_a_name_of_one_domain_needs_no_domain():
    text = pages.operator_page("ScatterNDUpdate")

    assert text.startswith("# openvino ScatterNDUpdate-15\n")


UNKNOWN = {
    "a name": (
        {"name": "Foo", "domain": "openvino"},
        "doc: name = 'Foo' is unknown (allowed: 'GatherND', 'GatherElements', 'Gather', "
        "'ScatterNDUpdate', 'ScatterElementsUpdate', 'ScatterUpdate', 'SliceScatter', "
        "'GatherTree')",
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
