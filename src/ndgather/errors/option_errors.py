"""Errors of options: numbers out of range, unknown names, environment variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import AttributeValueError, DTypeError
from ndgather.errors.shown_values import shown_value
from ndgather.errors.similar_names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

# What other libraries call a reduction or a mode.
_MEANT = {
    "sum": "add",
    "subtract": "sub",
    "prod": "mul",
    "multiply": "mul",
    "amin": "min",
    "minimum": "min",
    "amax": "max",
    "maximum": "max",
    "average": "mean",
    "assign": "none",
    "replace": "none",
    "update": "none",
    "promise_in_bounds": "raise",
}


def not_a_transform(caller: str, value: object) -> DTypeError:
    return DTypeError(
        f"{caller}: transforms = {shown_value(value)} says nothing of a transform "
        f"(allowed: functions, tuples of a dict, a name and a value)"
    )


def option_out_of_range(
    caller: str, option: str, value: object, lowest: int, highest: int, why: str
) -> AttributeValueError:
    allowed = f"{lowest}..{highest}" if lowest <= highest else "nothing"
    return AttributeValueError(
        f"{caller}: {option} = {shown_value(value, str)} is out of range for {why} "
        f"(allowed: {allowed})"
    )


def option_not_integer(caller: str, option: str, value: object) -> DTypeError:
    return DTypeError(
        f"{caller}: {option} = {shown_value(value)} is not an integer (allowed: an integer)"
    )


def option_not_boolean(caller: str, option: str, value: object) -> DTypeError:
    return DTypeError(
        f"{caller}: {option} = {shown_value(value)} is neither true nor false "
        f"(allowed: True, False)"
    )


def unknown_choice(
    caller: str, option: str, value: object, choices: Sequence[str]
) -> AttributeValueError:
    lower = str.lower(value) if isinstance(value, str) else ""
    meant = _MEANT.get(lower, lower)
    hint = f"; write {meant!r}" if meant in choices else did_you_mean(value, choices)
    return AttributeValueError(
        f"{caller}: {option} = {shown_value(value)} is unknown "
        f"(allowed: {', '.join(map(repr, choices))}){hint}"
    )


def environment_not_integer(name: str, text: str) -> AttributeValueError:
    return AttributeValueError(
        f"ndgather: environment[{name}] = {text!r} is not an integer (allowed: an integer)"
    )


def not_a_size(caller: str, option: str, value: object, units: str) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: {option} = {shown_value(value)} is not a number of bytes (allowed: an integer "
        f"from 0 on, or a number with a unit, such as '512 MiB'; units are {units})"
    )


def memory_too_small(caller: str, memory: int, least: int, why: str) -> AttributeValueError:
    return AttributeValueError(
        f"{caller}: memory = {memory} bytes is too small for {why} (allowed: {least} or more)"
    )


def progress_not_callable(caller: str, value: object) -> DTypeError:
    return DTypeError(
        f"{caller}: progress = {shown_value(value)} cannot be called (allowed: True, or a function "
        f"of the numbers of chunks done and in all)"
    )


def executor_without_submit(caller: str, value: object) -> DTypeError:
    return DTypeError(
        f"{caller}: executor = {shown_value(value)} has no method submit (allowed: an executor as "
        f"concurrent.futures has them)"
    )
