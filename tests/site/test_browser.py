"""The site as people use it: every page opened, and the parts that move used by mouse and keys."""

from __future__ import annotations

import pytest
from tests.site.conftest import AXE
from tests.site.pages import SITE, page_files

NAMES = [str(place.relative_to(SITE)) for place in page_files()]
MAIN = [
    "index.html",
    "guide/which-function.html",
    "questions/torch-gather-explained.html",
    "guide/errors.html",
    "guide/models.html",
    "gallery.html",
    "playground.html",
    "operators/GatherND-compared.html",
    "operators/ai.onnx-GatherND-13.html",
    "reference/generated/ndgather.gather_nd.html",
    "promises/speed.html",
]
EVERY_VIEW = [
    (name, size, scheme)
    for name in MAIN
    for size in ("phone", "desktop")
    for scheme in ("light", "dark")
]
RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
    # The search button of the theme shows its shortcut as well; that is no part of its name.
    "rules": {"label-content-name-mismatch": {"enabled": False}},
}


def violations(page):
    page.add_script_tag(path=AXE)
    found = page.evaluate("rules => axe.run(document, rules)", RULES)["violations"]
    return [
        f"{page.url}: {each['id']}: {node['target']}: {node['failureSummary']}"
        for each in found
        for node in each["nodes"][:3]
    ]


def broken_images(page):
    return page.eval_on_selector_all(
        "img", "all => all.filter(each => !each.naturalWidth).map(each => each.src)"
    )


def test_these_are_all_pages():
    assert len(NAMES) > 150
    assert set(MAIN) <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_page_opens_without_a_complaint(name, open_page):
    complaints = []

    page = open_page(name, complaints=complaints)

    assert complaints == []
    assert broken_images(page) == []
    assert violations(page) == []


@pytest.mark.parametrize(("name", "size", "scheme"), EVERY_VIEW)
def test_main_pages_are_accessible_and_fit_in_every_view(name, size, scheme, open_page):
    page = open_page(name, size, scheme)

    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize("size", ["phone", "desktop"])
def test_search_finds_the_operator(size, open_page):
    page = open_page("index.html", size)
    page.locator("button.search-button:visible, button.search-button__button:visible").first.click()
    page.keyboard.type("GatherND batch_dims")
    page.keyboard.press("Enter")

    page.wait_for_selector("ul.search li a")

    found = page.eval_on_selector_all("ul.search li a", "all => all.map(each => each.href)")
    assert any("ai.onnx-GatherND-13" in each for each in found[:8]), found[:8]


@pytest.mark.parametrize("size", ["phone", "desktop"])
def test_the_theme_is_switched_and_stays(size, open_page):
    page = open_page("index.html", size)
    if size == "phone":
        page.locator(".primary-toggle").click()
    page.locator(
        "button.theme-switch-button:visible, .theme-switch-container button:visible"
    ).first.click()
    dark = page.locator("[data-mode=dark]:visible, button:has-text('Dark'):visible")
    if dark.count():
        dark.first.click()
    page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    before = page.evaluate("getComputedStyle(document.querySelector('figure.ndg')).backgroundColor")

    page.goto("guide/which-function.html")

    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    after = page.evaluate("getComputedStyle(document.querySelector('figure.ndg')).backgroundColor")
    assert after == before != "rgb(255, 255, 255)"


@pytest.mark.parametrize("way", ["mouse", "keys"])
@pytest.mark.parametrize("size", ["phone", "desktop"])
def test_an_entry_of_a_picture_is_followed(size, way, open_page):
    page = open_page("index.html", size)
    figure = page.locator("figure.ndg").first

    if way == "mouse":
        figure.locator(".n-k0").first.hover(force=True)
    else:
        figure.locator(".n-k0[tabindex]").first.focus()
    page.wait_for_timeout(300)  # the others fade

    opacity = "all => all.map(each => Number(getComputedStyle(each).opacity))"
    assert set(figure.locator(".n-k0").evaluate_all(opacity)) == {1}
    assert set(figure.locator(".n-k1").evaluate_all(opacity)) == {0.15}


@pytest.mark.parametrize("name", MAIN)
def test_the_tab_key_goes_down_the_page(name, open_page):
    page = open_page(name)
    page.evaluate("window.everything = [...document.querySelectorAll('*')]")
    order = []
    for _ in range(40):
        page.keyboard.press("Tab")
        place = page.evaluate("everything.indexOf(document.activeElement)")
        if order and place < order[0]:  # past the last one, on the way to the first
            break
        order.append(place)

    assert len(order) > 10
    assert order == sorted(set(order))
