"""Which name of a list one that is refused may stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def similar(name: object, known: Iterable[object]) -> str | None:
    """Return the one of `known` that is spelled nearly as `name`, in whatever case, or None.

    ``openvino:9`` does not stand for ``openvino:8``: another version is no misspelling.
    """
    if not isinstance(name, str):
        return None
    from difflib import get_close_matches  # noqa: PLC0415 - not for each import of the package

    names = {str(each).casefold(): str(each) for each in known}
    close = get_close_matches(name.casefold(), names, 1)
    return next((names[each] for each in close if not _of_one_domain(each, name.casefold())), None)


def _of_one_domain(one: str, other: str) -> bool:
    """Whether both are versions, ``domain:version``, of one domain."""
    return ":" in one and ":" in other and one.partition(":")[0] == other.partition(":")[0]


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """Return the end of an error text that asks for the similar name, or nothing."""
    meant = similar(name, known)
    return "" if meant is None else f"; did you mean {meant!r}?"
