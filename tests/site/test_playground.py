"""The playground in the browser: calls, typing, links, steps and copies; also from a file."""

from __future__ import annotations

import html
import json
import re
from urllib.parse import parse_qsl

import pytest

from tests.docs.playground_calls import HIDDEN, answer, drawn_calls, typed
from tests.site.pages import SITE, page_files

REPEATED = "function=scatter_nd&data=[1,2,3]&indices=[[2],[0],[2]]&updates=[10,20,30]"
ANSWERS = """
calls => calls.map(fields => {
  const { result, error } = playground.run(playground.read(fields));
  return {
    error: error && [error.name, error.message],
    result: result && [result.dtype, result.shape, result.values.map(playground.repr)],
  };
})
"""

DESCRIPTIONS = """
calls => calls.map(fields => {
  const outcome = playground.run(playground.read(fields));
  return playground.description(playground.scene(outcome));
})
"""
TYPES = re.compile(r"\b(int|uint|float)\d+")


def status(page):
    return page.locator("[data-part=status]").inner_text()


def test_random_calls_equal_the_definitions(open_page):
    calls = list(drawn_calls())
    page = open_page("playground.html")

    found = page.evaluate(ANSWERS, list(map(typed, calls)))

    for call, answered in zip(calls, found, strict=True):
        assert answered == answer(call), call


def test_playground_works_from_a_file_and_while_typing(browser):
    page = browser.new_page()
    page.goto((SITE / "playground.html").as_uri())
    assert status(page) == "[12, 20]  int64 (2,)"

    page.locator("textarea[name=indices]").fill("[[0, 2], [7, 0]]")
    assert status(page) == (
        "IndexOutOfBoundsError: gather_nd: indices[1, 0] = 7 is outside axis 0 of data, which has "
        "size 2 (allowed: -2..1)"
    )
    page.locator("textarea[name=indices]").fill("[[0, 2], [7, 0")
    assert status(page) == "indices: ] is missing"
    page.locator("select[name=mode]").select_option("clip")
    page.locator("textarea[name=indices]").fill("[[0, 2], [7, 0]]")
    assert status(page) == "[12, 20]  int64 (2,)"
    page.close()


def test_url_contains_the_call(open_page):
    page = open_page("playground.html")
    page.get_by_label("example").select_option("patches across the border")
    shown, address = status(page), page.url

    again = open_page(address)

    assert status(again) == shown
    assert again.locator("select[name=function]").input_value() == "gather_windows"
    assert page.locator("figure svg").count() == again.locator("figure svg").count() == 3


@pytest.mark.parametrize("way", ["buttons", "keys"])
def test_duplicate_updates_are_applied_one_by_one(way, open_page):
    page = open_page(f"playground.html#{REPEATED}")
    less = page.get_by_role("button", name="one update fewer")
    seen = [status(page).split("  ")[0]]
    for _ in range(3):
        if way == "buttons":
            less.click()
        else:
            page.get_by_label("updates that are applied").press("ArrowLeft")
        seen.append(status(page).split("  ")[0])

    assert seen == ["[20, 2, 30]", "[20, 2, 10]", "[1, 2, 10]", "[1, 2, 3]"]
    assert "step=0" in page.url
    page.reload()
    assert status(page).startswith("[1, 2, 3]")


def test_copied_text_is_the_shown_text(open_page):
    page = open_page(f"playground.html#{REPEATED}&reduction=add")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for library in ("ndgather", "NumPy", "torch", "TensorFlow", "JAX", "ONNX"):
        block = page.locator(f"[data-library={library}]")
        block.get_by_role("button").click()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == block.locator("code").inner_text()
        assert "add" in copied or "accumulate" in copied


def linked_pictures():
    """Yield the fields of every link to the playground, with the sentences of its picture."""
    for place in page_files():
        _, *parts = place.read_text(encoding="utf-8").split('<figure class="ndg"')
        for part in parts:
            link = re.search(r'<p class="ndg-open"><a href="[^"#]*#([^"]*)"', part)
            sentences = HIDDEN.search(part)
            if link and sentences:
                fields = dict(parse_qsl(html.unescape(link[1])))
                yield fields, html.unescape(sentences[1])
            elif sentences:
                yield None, html.unescape(sentences[1])


def test_every_picture_opens_in_the_playground(open_page):
    pictures = list(linked_pictures())
    linked = [(fields, sentences) for fields, sentences in pictures if fields]
    page = open_page("playground.html")

    drawn = page.evaluate(DESCRIPTIONS, [fields for fields, _ in linked])

    assert len(linked) > 60
    for found, (_, sentences) in zip(drawn, linked, strict=True):
        assert TYPES.sub("", found) == TYPES.sub("", sentences)  # all integers are int64 there
    without = [sentences for fields, sentences in pictures if not fields]
    shapes = [re.match(r"data \w+ \((\d+), (\d+)\)", sentences) for sentences in without]
    assert all(int(shape[1]) * int(shape[2]) > 1000 for shape in shapes)  # too large to type


def test_guide_link_opens_its_picture(open_page):
    page = open_page("guide/which-function.html")
    drawn = page.locator("figure.ndg").first.locator(".n-unseen").inner_text()

    page.get_by_role("link", name="Open in the playground").first.click()

    assert page.locator("figure.ndg .n-unseen").inner_text() == drawn
    data = json.loads(page.locator("textarea[name=data]").input_value())
    assert data == [[10, 11, 12], [20, 21, 22]]


def test_fields_follow_the_function(open_page):
    page = open_page("playground.html")
    mode, reduction = page.locator("select[name=mode]"), page.get_by_label("reduction")
    modes = "all => all.filter(each => !each.disabled).map(each => each.value)"
    assert mode.locator("option").evaluate_all(modes) == ["raise", "wrap", "clip", "fill"]
    assert not reduction.is_visible()

    page.get_by_label("function").select_option("gather_windows")
    mode.select_option("reflect")
    page.get_by_role("textbox", name="starts").fill("[[-1, 2]]")
    assert status(page) == "[[[22, 21], [12, 11]]]  int64 (1, 2, 2)"
    mode.select_option("one per axis")
    page.get_by_role("textbox", name="modes of the axes").fill("edge, wrap")
    assert status(page) == "[[[12, 10], [12, 10]]]  int64 (1, 2, 2)"
    assert "modes=edge%2C+wrap" in page.url

    page.get_by_label("function").select_option("scatter_nd")
    assert mode.input_value() == "raise"
    assert reduction.is_visible()
    assert not page.get_by_label("use_init_val").is_visible()
    assert status(page) == "updates: a number or a list is missing"
