"""How a value of any kind is written in an error text: on one line, never too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 200


def shown_value(value: object, write: Callable[[object], str] = repr) -> str:
    """Write a value as `write` does; of a value that cannot be written, its type."""
    try:
        text = " ".join(write(value).split())
    except MemoryError:
        raise
    except Exception:
        return f"{type(value).__name__} object"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
