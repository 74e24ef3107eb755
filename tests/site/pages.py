"""The pages of the site built by `make docs`, and the targets of their links."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from pathlib import Path

SITE = Path(__file__).parents[2] / "build" / "site"
_ANCHOR = re.compile(r'<[^>]* id="([^"]*)"')
_TARGET = re.compile(r'<[^>]* (?:href|src)="([^"]*)"')
_IMAGE = re.compile(r"<img[^>]*>")
_UNTITLED = re.compile(r"<th[^>]*><p></p></th>")
_REDIRECT = re.compile(r'<meta http-equiv="refresh" content="0; url=([^"]+)">')
_TEXT = re.compile(r' alt="[^"]+"')


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its anchors, the targets of its links and images, and missing texts and titles."""

    anchors: set[str]
    targets: list[str]
    without_text: list[str]
    columns_without_title: int


def page_files() -> list[Path]:
    """Return the pages, without old URLs that only redirect."""
    files = [each for each in sorted(SITE.rglob("*.html")) if "_static" not in each.parts]
    return [each for each in files if not redirect_of(each)]


def redirect_of(place: Path) -> str | None:
    found = _REDIRECT.search(place.read_text(encoding="utf-8"))
    return found and found[1]


def read(place: Path) -> Page:
    text = place.read_text(encoding="utf-8")
    return Page(
        anchors=set(map(html.unescape, _ANCHOR.findall(text))),
        targets=list(map(html.unescape, _TARGET.findall(text))),
        columns_without_title=len(_UNTITLED.findall(text)),
        without_text=[image for image in _IMAGE.findall(text) if not _TEXT.search(image)],
    )
