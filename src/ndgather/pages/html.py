"""A page as one HTML file that needs nothing else: no scripts, no fonts, no other file.

Each example has a picture of the first call that it runs.
"""

from __future__ import annotations

import html
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from ndgather.errors import NdgatherError
from ndgather.pages.document import (
    Block,
    Bullets,
    Code,
    Document,
    Example,
    Facts,
    Paragraph,
    Span,
    Style,
    Table,
    Text,
    listing,
)
from ndgather.show import style_sheet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ndgather.pages.document import Line

_SHEET = """\
:root {
  color-scheme: light dark;
  --page: #ffffff; --ink: #1d2430; --faint: #5c6675; --line: #d9dee6; --panel: #f5f7fa;
  --link: #0b57b7; --result: #0a6b35; --error: #b3261e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14181f; --ink: #e3e7ee; --faint: #97a2b3; --line: #2e3643; --panel: #1c222c;
    --link: #86b7ff; --result: #74d39a; --error: #ff938a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .75rem; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 .75rem; padding-top: .75rem;
     border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.75rem 0 .25rem; }
p, ul, dl { margin: .5rem 0 1rem; }
a { color: var(--link); }
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
code { font-size: .92em; background: var(--panel); padding: .1em .2em; border-radius: 4px; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 8px;
      padding: .85rem 1rem; overflow-x: auto; font-size: .875rem; line-height: 1.5; }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .25rem 1.1rem; padding: 0; }
dl { display: grid; grid-template-columns: minmax(6rem, max-content) 1fr; gap: .3rem 1.25rem; }
dt { color: var(--faint); }
dd { margin: 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; margin: .5rem 0 1rem; }
table { border-collapse: collapse; width: 100%; font-size: .95rem; }
th, td { text-align: left; vertical-align: top; padding: .45rem .75rem .45rem 0;
         border-bottom: 1px solid var(--line); }
th { color: var(--faint); font-weight: 600; }
td { overflow-wrap: break-word; }
.call { font-weight: 600; }
.result { color: var(--result); }
.error { color: var(--error); }
.comment { color: var(--faint); }
@media (max-width: 34rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin: 0 0 .6rem; } }
"""


def render(document: Document) -> str:
    page = "\n".join((*_page(document), ""))
    return page.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _page(document: Document) -> Iterator[str]:
    title = html.escape(document.title)
    yield "<!DOCTYPE html>"
    yield '<html lang="en">'
    yield "<head>"
    yield '<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{title}</title>"
    yield f"<style>\n{_SHEET}{style_sheet()}\n</style>"
    yield "</head>"
    yield "<body>"
    yield "<main>"
    yield f"<h1>{title}</h1>"
    for block in document.lead:
        yield from _block(block)
    if len(document.sections) > 1:
        links = (
            f'<li><a href="#{_anchor(section.title)}">{html.escape(section.title)}</a></li>'
            for section in document.sections
        )
        yield f'<nav aria-label="On this page"><ul>{"".join(links)}</ul></nav>'
    for section in document.sections:
        yield "<section>"
        yield f'<h2 id="{_anchor(section.title)}">{html.escape(section.title)}</h2>'
        for block in section.blocks:
            yield from _block(block)
        yield "</section>"
    yield "</main>"
    yield "</body>"
    yield "</html>"


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _block(block: Block) -> Iterator[str]:
    match block:
        case Paragraph(text=text):
            yield f"<p>{_inline(text)}</p>"
        case Code(lines=lines):
            yield f"<pre>{html.escape(chr(10).join(lines))}</pre>"
        case Facts(items=items):
            facts = (
                f"<dt>{html.escape(label)}</dt><dd>{_inline(text)}</dd>" for label, text in items
            )
            yield f"<dl>{''.join(facts)}</dl>"
        case Bullets(items=items):
            yield f"<ul>{''.join(f'<li>{_inline(item)}</li>' for item in items)}</ul>"
        case Table():
            yield from _table(block)
        case Example():
            yield f"<h3>{html.escape(block.title)}</h3>"
            yield f"<p>{html.escape(block.why)}</p>"
            yield f"<pre>{chr(10).join(map(_line, listing(block)))}</pre>"
            with suppress(NdgatherError):  # an argument that the operator does not have
                yield block.runs[0].picture().to_html(style=False)


def _table(table: Table) -> Iterator[str]:
    yield '<div class="scroll"><table>'
    titles = (f'<th scope="col">{html.escape(title)}</th>' for title in table.titles)
    yield f"<thead><tr>{''.join(titles)}</tr></thead>"
    yield "<tbody>"
    for row in table.rows:
        yield f"<tr>{_cells(row)}</tr>"
    yield "</tbody>"
    yield "</table></div>"


def _cells(row: Iterable[Text]) -> str:
    return "".join(f"<td>{_inline(cell)}</td>" for cell in row)


def _line(line: Line) -> str:
    comment = line.comment.lstrip()
    gap = line.comment[: len(line.comment) - len(comment)]
    code = f'<span class="{line.part.value}">{html.escape(line.code)}</span>' if line.code else ""
    return code + gap + (f'<span class="comment">{html.escape(comment)}</span>' if comment else "")


def _inline(text: Text) -> str:
    return "".join(map(_span, text))


def _span(span: Span) -> str:
    text = html.escape(span.text)
    match span.style:
        case Style.CODE:
            return f"<code>{text}</code>"
        case Style.LINK:
            return f'<a href="{text}">{text}</a>'
        case _:
            return text
