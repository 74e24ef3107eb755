"""How errors write what they quote: names and texts from files, and errors of other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_REASON = 300
LONGEST_QUOTE = 40


def reason(error: BaseException) -> str:
    """Write the text of an exception of another library on one line of bearable length."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}..."


def one_line(text: str) -> str:
    """Write a text from a file so that it breaks no line and commands no terminal."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def quoted(text: str) -> str:
    """Write a text from a file on one line of bearable length."""
    return repr(text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}...")


def plain(text: str) -> str:
    """Write a text from a file as it is, if that is one line of bearable length."""
    return text if text.isprintable() and len(text) <= LONGEST_QUOTE else quoted(text)
