"""The playground in the browser: calls, what is typed, links, steps, copies; also from a file."""

from __future__ import annotations

import json

import pytest
from tests.docs.playground_calls import answer, drawn_calls, typed
from tests.site.pages import SITE

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


def status(page):
    return page.locator("[data-part=status]").inner_text()


def test_2000_calls_are_answered_as_by_the_definitions(open_page):
    calls = list(drawn_calls())
    page = open_page("playground.html")

    found = page.evaluate(ANSWERS, list(map(typed, calls)))

    for call, answered in zip(calls, found, strict=True):
        assert answered == answer(call), call


def test_it_works_from_a_file_and_answers_while_one_types(browser):
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


def test_the_address_holds_the_call(open_page):
    page = open_page("playground.html")
    page.get_by_label("example").select_option("patches across the border")
    shown, address = status(page), page.url

    again = open_page(address)

    assert status(again) == shown
    assert again.locator("select[name=function]").input_value() == "gather_windows"
    assert page.locator("figure svg").count() == again.locator("figure svg").count() == 3


@pytest.mark.parametrize("way", ["buttons", "keys"])
def test_repeated_updates_are_applied_one_by_one(way, open_page):
    page = open_page(f"playground.html#{REPEATED}")
    less = page.get_by_role("button", name="one update less")
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


def test_copies_are_what_is_shown(open_page):
    page = open_page(f"playground.html#{REPEATED}&reduction=add")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for library in ("ndgather", "NumPy", "torch", "TensorFlow", "JAX", "ONNX"):
        block = page.locator(f"[data-library={library}]")
        block.get_by_role("button").click()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == block.locator("code").inner_text()
        assert "add" in copied or "accumulate" in copied


def test_every_picture_of_the_guide_opens_in_the_playground(open_page):
    page = open_page("guide/which-function.html")
    links = page.get_by_role("link", name="Open in the playground")
    assert links.count() >= 7
    drawn = page.locator("figure.ndg").first.locator(".n-unseen").inner_text()

    links.first.click()

    assert page.locator("figure.ndg .n-unseen").inner_text() == drawn
    data = json.loads(page.locator("textarea[name=data]").input_value())
    assert data == [[10, 11, 12], [20, 21, 22]]
