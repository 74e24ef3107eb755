"""Writing pages that are made at each build."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write(place: Path, text: str) -> None:
    """Write a page where it is not there as it is, so that unchanged pages are not read anew."""
    place.parent.mkdir(exist_ok=True)
    if not place.exists() or place.read_text(encoding="utf-8") != text:
        place.write_text(text, encoding="utf-8")
