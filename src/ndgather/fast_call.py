"""Public functions that are carried out by the core without a frame of Python.

Such a frame costs as much as a small gather. So the core looks at the arguments first; what it
does not take goes to `fallback`.
"""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ndgather import fallback
from ndgather.array_call import Call
from ndgather.compiled import _core
from ndgather.errors import call_errors

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

_DEFAULTS = {each.name: each.default for each in fields(Call) if each.default is not MISSING}


def fast_call(function: F) -> F:
    """Return a function of the core with the name, signature and documentation of `function`.

    The name is one of ``_core.KINDS``, the names of the parameters are of ``_core.ARGUMENTS``, and
    those without a default come first. The body of `function` is never used.
    """
    empty = inspect.Parameter.empty
    signature = inspect.signature(function)
    given = signature.parameters.values()
    own = {each.name: each.default for each in given if each.default is not empty}
    bare = signature.replace(
        parameters=[each.replace(annotation=empty) for each in given], return_annotation=empty
    )

    def misuse(_: str, names: tuple[str, ...], *arguments: object) -> Exception:
        return call_errors.misused(function.__name__, bare, names, arguments)

    made = _core.fast_call(
        function.__name__,
        fallback.answer,
        misuse,
        tuple(signature.parameters),
        len(given) - len(own),
        sum(each.kind is each.POSITIONAL_OR_KEYWORD for each in given),
        tuple((_DEFAULTS | own).get(name) for name in _core.ARGUMENTS),
        f"{function.__name__}{bare}\n--\n\n{function.__doc__}",
        function.__module__,
    )
    return cast("F", made)
