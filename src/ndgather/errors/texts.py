"""How errors write what they quote: names and texts from files, and errors of other libraries."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_REASON = 300
LONGEST_QUOTE = 40

_LOOKED_AT = 5_000  # letters of a text: what is in the first of them is said
_FILE = r"[\w.+-]+\.(?:cc|cpp|cu|h|hpp):\d+:? ?"
_LINE = rf"/?(?:[\w.+-]+/)+{_FILE}"
_PLACES_IN_CODE = re.compile(
    rf"Exception from {_LINE}|Check '.*?' failed at {_LINE}"  # OpenVINO
    r"|While validating node '[^']*' with friendly_name '[^']*': "
    r"|FrontEnd API failed with \w+: Model wasn't fully converted\. Failed .*? log: -- "
    r"| Summary: -- Conversion is failed for: .*"
    rf"|/onnxruntime_src{_LINE}"
    r"[^(]*\((?:[^()]|\([^()]*\))*\)(?: const)?(?: \[with .*?\])? ?"  # and a function
    rf"|(?<= Status Message: ){_FILE}\w+ "
    rf"|{_LINE}(?:\w+: Assertion `.*?` failed: )?"  # onnx
)

_PATHS_IN_CODE = re.compile(rf"(?: at | from )?{_LINE}")


def reason(error: BaseException) -> str:
    """Write the text of an exception of another library on one line of bearable length."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return bearable(str(error)) or type(error).__name__


def bearable(text: str) -> str:
    """Write a text of another library on one line, without the places in code that it names."""
    whole = " ".join(text[:_LOOKED_AT].split())
    said = _PLACES_IN_CODE.sub("", whole).strip() or _PATHS_IN_CODE.sub("", whole).strip()
    text = one_line(said or whole)
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}..."


def one_line(text: str) -> str:
    """Write a text from a file so that it breaks no line and commands no terminal."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def node_place(name: str, op_type: str, gives: str) -> str:
    """Name a node of a model; one without a name is known by the first value that it gives."""
    if name:
        return f"node {name!r} ({op_type})"
    return f"node {op_type} of {gives!r}" if gives else f"node {op_type} without a name"


def listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def quoted(text: str) -> str:
    """Write a text from a file on one line of bearable length."""
    return repr(text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}...")


def plain(text: str) -> str:
    """Write a text from a file as it is, if that is one line of bearable length."""
    return text if text.isprintable() and len(text) <= LONGEST_QUOTE else quoted(text)
