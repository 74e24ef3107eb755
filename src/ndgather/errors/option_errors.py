"""Errors of options: numbers out of range, unknown names, environment variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import AttributeValueError, DTypeError

if TYPE_CHECKING:
    from collections.abc import Sequence


def option_out_of_range(
    caller: str, option: str, value: object, lowest: int, highest: int, why: str
) -> AttributeValueError:
    allowed = f"{lowest}..{highest}" if lowest <= highest else "nothing"
    return AttributeValueError(
        f"{caller}: {option} = {value} is out of range for {why} (allowed: {allowed})"
    )


def option_not_integer(caller: str, option: str, value: object) -> DTypeError:
    return DTypeError(f"{caller}: {option} = {value!r} is no integer (allowed: an integer)")


def unknown_choice(
    caller: str, option: str, value: object, choices: Sequence[str]
) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: {option} = {value!r} is unknown (allowed: {', '.join(map(repr, choices))})"
    )


def axis_before_batch(caller: str, axis: int, batch_dims: int) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: axis = {axis} is one of the {batch_dims} batch axes (allowed: {batch_dims} or "
        f"more, counted from the front)"
    )


def environment_not_integer(name: str, text: str) -> AttributeValueError:
    return AttributeValueError(
        f"ndgather: environment[{name}] = {text!r} is no integer (allowed: an integer)"
    )
