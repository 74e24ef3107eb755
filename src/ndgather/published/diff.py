"""How two versions of an operator differ, as data: rules only, no prose."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from ndgather.published.schema import IndexRule, OperatorVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

_RULES = (
    "kind",
    "index_rule",
    "batch_rule",
    "off_axis_rule",
    "lowest_depth",
    "duplicates",
    "one_element_updates",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One rule in which two operators differ.

    Attributes
    ----------
    what : str
        The rule, such as ``"attributes.axis.required"``.
    here, there : object
        Its value on each side, None where a side does not have it. For types and choices these
        are the ones that only that side has.
    """

    what: str
    here: object
    there: object


def differences(here: OperatorVersion, there: OperatorVersion) -> tuple[Difference, ...]:
    """Return every rule in which `here` and `there` differ, in a fixed order."""
    return (
        *_compared("inputs", _by_role(here), _by_role(there)),
        *_compared("attributes", _by_name(here), _by_name(there)),
        *(each for rule in _RULES for each in _of_field(rule, rule, here, there)),
    )


def _by_role(row: OperatorVersion) -> dict[str, object]:
    return {each.role.value: each for each in row.inputs}


def _by_name(row: OperatorVersion) -> dict[str, object]:
    return {each.name: each for each in row.attributes}


def _compared(what: str, here: dict[str, object], there: dict[str, object]) -> Iterator[Difference]:
    for name in dict.fromkeys([*here, *there]):
        mine, other = here.get(name), there.get(name)
        if mine is None or other is None:
            yield Difference(what=f"{what}.{name}", here=mine, there=other)
            continue
        yield from _of_fields(f"{what}.{name}", mine, other)


def _of_fields(what: str, here: object, there: object) -> Iterator[Difference]:
    for each in fields(here):  # type: ignore[arg-type]  # called with the dataclasses of spec only
        if each.name not in {"summary", "type_variable"}:
            yield from _of_field(f"{what}.{each.name}", each.name, here, there)


def _of_field(what: str, name: str, here: object, there: object) -> Iterator[Difference]:
    mine, other = getattr(here, name), getattr(there, name)
    if mine == other:
        return
    if isinstance(mine, IndexRule):
        yield from _of_fields(what, mine, other)
        return
    if name in {"types", "choices"}:
        mine, other = (
            tuple(each for each in mine if each not in other),
            tuple(each for each in other if each not in mine),
        )
        if not mine and not other:
            return
    yield Difference(what=what, here=mine, there=other)
