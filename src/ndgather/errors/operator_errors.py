"""Errors of published operators: what one version of one operator allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import AttributeValueError
from ndgather.errors.shown_values import shown_value

if TYPE_CHECKING:
    from collections.abc import Sequence


def unknown_version(
    name: str, domain: str, option: str, value: object, known: Sequence[int]
) -> AttributeValueError:
    return AttributeValueError(
        f"operator: {option} = {shown_value(value, str)} has no {domain} {name} (allowed: "
        f"{'' if option == 'version' else 'at least '}{', '.join(map(str, known))})"
    )


def wrong_inputs(caller: str, count: int, names: Sequence[str]) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: {count} inputs are given (allowed: {len(names)}, {', '.join(names)})"
    )
