"""The site in use: every page is opened, and interactive parts are used by mouse and keyboard."""

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
    "conformance.html",
    "operators/GatherND.html",
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
    # The theme's search button also shows its shortcut, which is not part of its name.
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
    """Return images that do not load, including lazily loaded images and images for phones."""
    return page.eval_on_selector_all(
        "img",
        """async all => {
          for (const image of all) image.loading = "eager";
          await Promise.allSettled(all.map(image => image.decode()));
          return all.filter(image => !image.naturalWidth).map(image => image.src);
        }""",
    )


def test_all_main_pages_are_listed():
    assert len(NAMES) > 70
    assert set(MAIN) <= set(NAMES)
    assert sum(name.startswith("reference/") for name in NAMES) <= 60


def test_every_page_links_the_main_pages(open_page):
    wanted = [
        "Start",
        "Install",
        "Which index",
        "Values at stations",
        "Which function",
        "NumPy",
        "torch",
        "torch on a GPU",
        "JAX",
        "ONNX models",
        "Restricted targets",
        "Larger than memory",
        "Errors",
        "Operators",
        "Functions",
    ]
    for name in ("index.html", "conformance.html", "playground.html", "search.html"):
        links = open_page(name).locator(".bd-sidebar-primary nav .toctree-l1 > a")
        assert links.all_inner_texts()[: len(wanted)] == wanted, name


def test_titles_name_the_page_and_the_package_once(open_page):
    assert open_page("index.html").title() == "ndgather: gather and scatter for Python"
    title = open_page("guide/errors.html").title()
    assert title == "Errors \u2014 ndgather: gather and scatter for Python"


@pytest.mark.parametrize("name", NAMES)
def test_every_page_opens_without_errors(name, open_page):
    complaints = []

    page = open_page(name, complaints=complaints)

    assert complaints == []
    assert broken_images(page) == []
    assert violations(page) == []


@pytest.mark.parametrize(("name", "size", "scheme"), EVERY_VIEW)
def test_main_pages_are_accessible_and_fit_every_view(name, size, scheme, open_page):
    page = open_page(name, size, scheme)

    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def results_of(page, query):
    page.locator("button.search-button:visible, button.search-button__button:visible").first.click()
    page.keyboard.type(query)
    page.keyboard.press("Enter")
    page.wait_for_selector("ul.search li a")
    page.wait_for_function("!document.querySelector('#search-progress .spinner')")
    page.wait_for_timeout(500)
    return page.eval_on_selector_all(
        "ul.search li > a", "all => all.map(each => each.pathname.slice(1) + each.hash)"
    )


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("which function", "guide/which-function.html"),
        ("gather_windows", "reference/generated/ndgather.gather_windows.html"),
        ("index out of bounds", "questions/gather-index-out-of-bounds.html"),
        ("torch.gather", "questions/torch-gather-explained.html"),
        ("zarr", "questions/points-from-a-zarr-array.html"),
        ("GatherND", "operators/GatherND.html"),
        ("gather_nd", "reference/generated/ndgather.gather_nd.html"),
        ("ScatterND", "operators/ScatterND.html"),
        ("np.add.at slow", "questions/np-add-at-is-slow.html"),
        ("tf.gather_nd pytorch", "questions/tf-gather-nd-in-pytorch.html"),
        ("zarr points", "questions/points-from-a-zarr-array.html"),
        ("GatherElements TensorRT", "guide/restricted-targets.html"),
        ("gather_ranges", "reference/generated/ndgather.gather_ranges.html"),
        ("windows wrap", "guide/arrays-that-do-not-fit.html"),
        ("cached", "reference/arrays.html"),
        ("particle loop chunks in memory", "guide/stored/cache.html"),
        ('engine="ndgather"', "guide/stored/xarray.html"),
        ("restricted target", "guide/restricted-targets.html"),
        ("GPU kernels", "guide/torch-on-a-gpu.html"),
        ("device-side assert", "guide/which-index.html"),
        ("nearest neighbor", "guide/values-at-stations.html"),
        ("stations", "guide/values-at-stations.html"),
        ("uninstall", "install.html"),
    ],
)
def test_search_finds_the_right_page_first(query, wanted, open_page):
    found = results_of(open_page("index.html"), query)
    assert found[0].split("#")[0] == wanted, found[:6]


def test_search_lists_guides_then_functions_then_operators(open_page):
    found = results_of(open_page("index.html", "phone"), "batch_dims")
    kinds = ("guide/", "reference/generated/", "operators/")
    first = [next(n for n, each in enumerate(found) if each.startswith(kind)) for kind in kinds]
    assert first == sorted(first), found[:12]


def test_conformance_cases_have_anchors(open_page):
    page = open_page("conformance.html#onnx-GatherND-13/example-2")
    panel = page.locator(".conf-case")
    assert "onnx-GatherND-13/example-2" in panel.inner_text()
    assert "ndgather.operator('GatherND', version=13)" in panel.locator("pre").inner_text()

    other = page.locator("[id='onnx-GatherND-13/example-1']")
    other.click()

    assert page.url.endswith("#onnx-GatherND-13/example-1")
    assert "onnx-GatherND-13/example-1" in panel.inner_text()


def test_map_can_show_only_cases_that_differ(open_page):
    page = open_page("conformance.html")
    assert page.locator(".conf-cells a:visible").count() == page.locator(".conf-cells a").count()

    page.get_by_label("only where they differ").check()

    shown = page.locator(".conf-cells a:visible")
    verdicts = shown.evaluate_all("all => all.map(each => each.dataset.verdicts)")
    assert verdicts
    assert all(set(each) - set("\u2713\u00b7") for each in verdicts)


def test_versions_have_anchors_and_differences_are_tinted(open_page):
    page = open_page("operators/GatherND.html")
    table = page.locator("table.versions")
    for link in table.locator("th a").all():
        assert page.locator(f"section{link.get_attribute('href')}").count() == 1
    plain = "rgba(0, 0, 0, 0)"
    colour = "each => getComputedStyle(each).backgroundColor"
    assert table.locator("td.differs").first.evaluate(colour) != plain


@pytest.mark.parametrize("size", ["phone", "desktop"])
def test_theme_can_be_switched_and_persists(size, open_page):
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
def test_picture_entries_are_highlighted(size, way, open_page):
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
def test_tab_key_moves_down_the_page(name, open_page):
    page = open_page(name)
    page.evaluate("window.everything = [...document.querySelectorAll('*')]")
    order = []
    for _ in range(40):
        page.keyboard.press("Tab")
        place = page.evaluate("everything.indexOf(document.activeElement)")
        if order and place < order[0]:  # from the last element to the first
            break
        order.append(place)

    assert len(order) > 10
    assert order == sorted(set(order))
