"""The pages of the site that `make docs` has built, and what they lead to."""

from __future__ import annotations

import html.parser
from dataclasses import dataclass, field
from pathlib import Path

SITE = Path(__file__).parents[2] / "build" / "site"


@dataclass(slots=True)
class Page:
    """A page: its anchors, what its links and images name, and images without a text."""

    anchors: set[str] = field(default_factory=set)
    targets: list[str] = field(default_factory=list)
    without_text: list[str] = field(default_factory=list)


class _Reader(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.page.anchors |= {attributes[name] for name in ("id", "name") if attributes.get(name)}
        self.page.targets += [attributes[name] for name in ("href", "src") if attributes.get(name)]
        if tag == "img" and not attributes.get("alt"):
            self.page.without_text.append(str(attributes.get("src")))


def page_files() -> list[Path]:
    return [each for each in sorted(SITE.rglob("*.html")) if "_static" not in each.parts]


def read(place: Path) -> Page:
    reader = _Reader()
    reader.feed(place.read_text(encoding="utf-8"))
    return reader.page
