"""How two versions differ: each rule on both sides, and the calls that they answer differently."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.pages import words
from ndgather.pages.document import (
    Block,
    Example,
    Paragraph,
    Section,
    Table,
    Text,
    plain,
    prose,
)
from ndgather.pages.examples import CALLS
from ndgather.pages.runs import run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ndgather.published import Operator
    from ndgather.published.diff import Difference

_LABELS = {
    "index_rule.negative": "index values",
    "index_rule.outside": "indices out of bounds",
    "batch_rule": "batch axes",
    "off_axis_rule": "sizes of indices",
    "lowest_depth": "minimum length of a tuple",
    "duplicates": "duplicate indices",
    "one_element_updates": "shape of updates",
}
_GROUPS = {"inputs": "input", "attributes": "attribute"}
_FIELDS = {
    "types": "types",
    "lowest_rank": "minimum rank",
    "name": "name",
    "choices": "choices",
    "default": "default",
    "required": "required",
    "range": "range",
    "type": "type",
}
_LISTS = {"types", "choices"}
_OF_FLAG = {
    "index_rule.negative": words.NEGATIVE_IN_SHORT,
    "one_element_updates": words.ONE_ELEMENT_UPDATES,
}
_YES_OR_NO = {True: "yes", False: "no"}


def comparison(here: Operator, there: Operator) -> Section:
    """Return the differences of two operators of one kind as a section."""
    return Section(
        title=f"Differences from {there.row}",
        blocks=(_rules(here, there), *_telling_examples(here, there)),
    )


def changes(here: Operator, there: Operator) -> tuple[Text, ...]:
    """Say what `here` has changed since `there`, a text for each change."""
    return tuple(prose(_change(each)) for each in here.diff(there))


def _rules(here: Operator, there: Operator) -> Block:
    found = here.diff(there)
    if not found:
        return Paragraph(plain("The rules are the same; only the wording differs."))
    return Table(
        titles=("rule", str(here.row), str(there.row)),
        rows=tuple(
            (prose(_label(each)), prose(_side(each, each.here)), prose(_side(each, each.there)))
            for each in found
        ),
    )


def _telling_examples(here: Operator, there: Operator) -> Iterator[Block]:
    for call in CALLS[here.row.kind]:
        mine, other = run(call, here), run(call, there)
        if not mine.agrees(other):
            yield Example(title=f"{call.title}, in both", why=call.why, runs=(mine, other))


def _label(difference: Difference) -> str:
    group, _, rest = difference.what.partition(".")
    if group not in _GROUPS:
        return _LABELS[difference.what]
    name, _, field = rest.partition(".")
    return f"{_FIELDS[field]} of `{name}`" if field else f"{_GROUPS[group]} `{name}`"


def _is_list(difference: Difference) -> bool:
    return difference.what.rpartition(".")[2] in _LISTS


def _side(difference: Difference, value: object) -> str:
    """Say one side; for lists, each side says what the other does not have."""
    if isinstance(value, bool):
        return _OF_FLAG.get(difference.what, _YES_OR_NO)[value]
    if _is_list(difference):
        return f"also {words.said(value)}" if value else "none of these"
    return words.said(value)


def _change(difference: Difference) -> str:
    label = _label(difference)
    if _is_list(difference):
        gained = f"also {words.said(difference.here)}" if difference.here else ""
        lost = f"no longer {words.said(difference.there)}" if difference.there else ""
        return f"{label}: {'; '.join(filter(None, (gained, lost)))}"
    here, there = (_side(difference, value) for value in (difference.here, difference.there))
    if there == words.NONE:
        return f"{label}: {here}"
    if here == words.NONE:
        return f"{label}: removed"
    return f"{label}: {here} (before: {there})"
