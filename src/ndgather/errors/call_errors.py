"""Errors of calls whose arguments do not fit the signature of the function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgather.errors import CallError
from ndgather.errors.shown_values import shown_value
from ndgather.errors.similar_names import did_you_mean

if TYPE_CHECKING:
    import inspect
    from collections.abc import Sequence

# What other libraries call an argument.
_ELSEWHERE = {
    "dim": "axis",
    "index": "indices",
    "input": "data",
    "params": "data",
    "src": "updates",
    "values": "updates",
    "reduce": "reduction",
}


def misused(
    caller: str, signature: inspect.Signature, names: Sequence[str], arguments: Sequence[object]
) -> CallError:
    """Say what does not fit; the last arguments have the `names`, the others are positional."""
    parameters = signature.parameters
    positional = len(arguments) - len(names)
    known = [name for name, each in parameters.items() if each.kind is not each.KEYWORD_ONLY]
    if positional > len(known):
        return CallError(
            f"{caller}: {positional} positional arguments are given (allowed: {len(known)}, "
            f"{', '.join(known)})"
        )
    for name, value in zip(names, arguments[positional:], strict=True):
        if name not in parameters:
            meant = _ELSEWHERE.get(name)
            hint = f"; write {meant}=" if meant in parameters else did_you_mean(name, parameters)
            return CallError(
                f"{caller}: {name} = {shown_value(value)} is not an argument of this function "
                f"(allowed: {', '.join(parameters)}){hint}"
            )
        if name in known[:positional]:
            return CallError(
                f"{caller}: {name} is given by position and by name (allowed: one of them)"
            )
    missing = next(
        name
        for name in known[positional:]
        if name not in names and parameters[name].default is parameters[name].empty
    )
    return CallError(f"{caller}: {missing} is missing (allowed: {caller}{signature})")
