"""The signatures of the public functions and the errors for calls that do not match them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from ndgather.array_call import _core
from ndgather.errors import CallError
from ndgather.messages import did_you_mean, name_here, shown_value

F = TypeVar("F", bound="Callable[..., Any]")

SIGNATURES: dict[str, inspect.Signature] = {}  # without annotations


def misused(
    caller: str,
    signature: inspect.Signature,
    names: Sequence[str],
    given: Sequence[object],
    hint_of: Callable[[Sequence[object]], str] = lambda _: "",
) -> CallError:
    """Return the error for arguments that do not match a signature.

    `given` lists all argument values; the last values were passed by the keywords in `names`.
    If there are too many positional arguments, `hint_of` returns a hint about them.
    """
    parameters = signature.parameters
    positional = len(given) - len(names)
    known = [name for name, each in parameters.items() if each.kind is not each.KEYWORD_ONLY]
    if positional > len(known):
        named = [f"{name}=" for name in parameters if name not in known]
        hint = f"; all others by name: {', '.join(named)}" if named else ""
        return CallError(
            f"{caller}: {positional} positional arguments are given (allowed: "
            f"{', '.join([f'{len(known)}', *known])}{hint}){hint_of(given[:positional])}"
        )
    for name, value in zip(names, given[positional:], strict=True):
        if name not in parameters:
            meant = name_here("argument", name)
            hint = f"; write {meant}=" if meant in parameters else did_you_mean(name, parameters)
            return CallError(
                f"{caller}: {name} = {shown_value(value)} is not an argument of this function "
                f"(allowed: {', '.join(parameters) or 'no arguments'}){hint}"
            )
        if name in known[:positional]:
            is_last = name in ("updates", "window_shape")  # follows the index arrays
            hint = hint_of((*given[:positional], value)) if is_last else ""
            return CallError(
                f"{caller}: {name} is given by position and by name (allowed: one of them){hint}"
            )
    missing = next(
        name
        for name in known[positional:]
        if name not in names and parameters[name].default is parameters[name].empty
    )
    return CallError(
        f"{caller}: {missing} is missing (allowed: {caller}{bare_signature(signature)})"
    )


def own_errors(
    caller: str, hint_of: Callable[[Sequence[object]], str] = lambda _: ""
) -> Callable[[F], F]:
    """Return a decorator that raises CallError if arguments do not match the signature."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            try:
                return _core.in_default_environment(function, *arguments, **options)
            except TypeError:
                signature = inspect.signature(function)
                try:
                    signature.bind(*arguments, **options)
                except TypeError:
                    given = (*arguments, *options.values())
                    if "self" in signature.parameters:  # the caller does not pass self
                        parameters = list(signature.parameters.values())[1:]
                        signature, given = signature.replace(parameters=parameters), given[1:]
                    raise misused(caller, signature, tuple(options), given, hint_of) from None
                raise

        return cast("F", call)

    return decorate


def bare_signature(signature: inspect.Signature) -> inspect.Signature:
    empty = inspect.Parameter.empty
    parameters = [each.replace(annotation=empty) for each in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=empty)
