"""Every link of the site leads to an existing page, anchor or file."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import jinja2
import pytest

from ndgather import __version__
from tests.site.pages import SITE, page_files, read, redirect_of

ROOT = Path(__file__).parents[2]
_TAG = re.compile("<[^>]+>")
FROM_THE_NETWORK = ("http", "https", "mailto", "data")


@pytest.fixture(scope="module")
def pages():
    found = {place: read(place) for place in page_files()}
    assert SITE / "index.html" in found
    return found


def test_every_link_has_a_target(pages):
    broken = [
        f"{place.relative_to(SITE)}: {target}"
        for place, page in pages.items()
        for target in page.targets
        if urlsplit(target).scheme not in FROM_THE_NETWORK and not leads(pages, place, target)
    ]
    assert broken == []


def leads(pages, place: Path, target: str) -> bool:
    parts = urlsplit(target)
    file = (place.parent / unquote(parts.path)).resolve() if parts.path else place
    is_call = file.name == "playground.html" and parts.fragment.startswith("function=")
    if not parts.fragment or file not in pages or is_call:
        return file.is_file()
    return unquote(parts.fragment) in pages[file].anchors


def test_old_urls_redirect(pages):
    old = {place: redirect_of(place) for place in SITE.rglob("*.html") if place not in pages}
    moved = {place: target for place, target in old.items() if target}
    assert len(moved) > 100
    assert [place for place, target in moved.items() if not leads(pages, place, target)] == []


def test_start_page_shows_the_version():
    text = _TAG.sub("", (SITE / "index.html").read_text(encoding="utf-8"))
    assert f"ndgather {__version__}" in text


def test_release_site_links_to_the_repository_and_to_questions():
    source = (ROOT / "docs" / "templates" / "project-links.html").read_text(encoding="utf-8")
    template = jinja2.Template(source)
    html = template.render(repository="https://example.org/ndgather")
    targets = re.findall('href="([^"]+)"', html)
    assert targets == [
        "https://example.org/ndgather",
        "https://example.org/ndgather/issues/new",
    ]
    assert template.render(repository="").strip() == ""


def test_every_image_has_an_alternative_text(pages):
    assert {
        str(place): page.without_text for place, page in pages.items() if page.without_text
    } == {}


def test_every_column_of_a_table_has_a_title(pages):
    assert [str(place) for place, page in pages.items() if page.columns_without_title] == []


def test_every_page_is_reachable_from_the_start_page(pages):
    reached, ahead = set(), [SITE / "index.html"]
    while ahead:
        place = ahead.pop()
        if place in reached or place not in pages:
            continue
        reached.add(place)
        paths = (urlsplit(target) for target in pages[place].targets)
        ahead += [
            (place.parent / unquote(parts.path)).resolve()
            for parts in paths
            if parts.path and not parts.scheme
        ]
    assert set(pages) - reached <= {SITE / "search.html", SITE / "genindex.html"}
