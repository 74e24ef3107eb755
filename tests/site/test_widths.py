"""Visible and copied content: nothing is cut off, tables are readable, pasted code runs."""

from __future__ import annotations

import re

import pytest

from ndgather.errors import NdgatherError
from tests.site.pages import SITE, page_files

NAMES = [str(place.relative_to(SITE)) for place in page_files()]
# Content is cut off if it is wider than its container and no visible hint to scroll precedes it.
CUT = """() => {
  const places = 'pre, .pst-scrollable-table-container, .n-part';
  const cut = box => {
    const place = box.closest(places) ?? box.parentElement;
    if (box.closest('[aria-hidden=true], .copy-bar') || !box.getClientRects().length) return false;
    if (place.previousElementSibling?.matches('.scroll-hint:not([hidden])')) return false;
    const outside = box.getBoundingClientRect().right > place.getBoundingClientRect().right + 1;
    return place.scrollWidth > place.clientWidth + 1 || outside;
  };
  const boxes = document.querySelectorAll('.bd-article :is(pre, table, svg)');
  return [...boxes].filter(cut).map(box => `${box.tagName} ${box.textContent.slice(0, 60)}`);
}"""
COPIES = """async () => {
  const copied = [];
  navigator.clipboard.writeText = async text => copied.push(text);
  for (const bar of document.querySelectorAll('.copy-bar')) bar.querySelector('button').click();
  return copied;
}"""
NARROW = """() => [...document.querySelectorAll('td.prose')]
  .filter(cell => cell.getBoundingClientRect().width < 100)
  .map(cell => cell.textContent.slice(0, 60))"""


@pytest.mark.parametrize("size", ["phone", "desktop"])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_cut_off(name, size, open_page):
    page = open_page(name, size)

    assert page.evaluate(CUT) == []
    assert page.evaluate(NARROW) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize("name", ["index.html", "guide/from-numpy.html", "guide/errors.html"])
def test_copied_text_is_code(name, open_page):
    page = open_page(name)

    copied = page.evaluate(COPIES)

    assert copied
    for text in copied:
        assert not re.search(r"^(>>>|\.\.\.|\$) ", text, re.MULTILINE)
    blocks = [text for text in copied if "import" in text and "pip" not in text]
    for text in blocks:
        compile(text, name, "exec")
    if name == "guide/from-numpy.html":
        exec(blocks[-1], {})


@pytest.mark.parametrize(
    "name", ["index.html", "guide/which-function.html", "gallery.html", "operators/Gather.html"]
)
def test_call_below_a_picture_runs_when_pasted(name, open_page):
    page = open_page(name)
    count = page.locator(".ndg-call").count()

    calls = [text for text in page.evaluate(COPIES) if text.startswith("import ndgather\n")]

    assert len(calls) >= count > 0
    for text in calls[:count]:
        try:
            exec(text, {})
        except NdgatherError:
            assert page.locator(".n-fails").count(), text


def test_blocks_and_tables_fit_a_desktop(open_page):
    """Not even with a hint to scroll."""
    for name in NAMES:
        page = open_page(name)
        assert page.locator(".scroll-hint:not([hidden])").count() == 0, name


def test_options_keep_both_dashes(open_page):
    for name in NAMES:
        if "reference/commands/" in name or name.startswith("guide/"):
            text = (SITE / name).read_text(encoding="utf-8")
            assert not re.search(r"[\u2013\u2014][a-z]", text), name


def test_questions_are_short(open_page):
    for name in NAMES:
        if name.startswith("questions/") and "index" not in name:
            page = open_page(name)
            height = page.evaluate(
                "document.querySelector('.bd-article').getBoundingClientRect().bottom"
            )
            assert height <= 1.5 * 900 + 100, name  # including the bar at the top
