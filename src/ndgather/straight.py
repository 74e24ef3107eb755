"""Public functions that go straight to the core.

A frame of Python costs as much as a small gather. So the core looks at the arguments first, and
calls the Python form of a function only with what it does not take: lists, subclasses, types of
other libraries, and all that is wrong.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ndgather import _core

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


def straight(place: int, *order: str, **constants: object) -> Callable[[F], F]:
    """Let a function of the core take the calls of the decorated function, as far as it can.

    Parameters
    ----------
    place
        Which function of the core.
    *order
        The names of its arguments: first those that the decorated function takes by position, then
        others of it, last those of `constants`.
    **constants
        What the core is given and no caller gives.
    """

    def decorate(function: F) -> F:
        code = function.__code__
        by_position = code.co_varnames[: code.co_argcount]
        by_name = code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
        given = function.__defaults__ or ()
        defaults: dict[str, object] = dict(
            zip(by_position[len(by_position) - len(given) :], given, strict=True)
        )
        defaults |= function.__kwdefaults__ or {}
        words = [
            f"{name}={defaults[name]!r}" if name in defaults else name
            for name in (*by_position, "*", *by_name)
        ]
        known = defaults | constants
        made = _core.straight(
            place,
            function,
            tuple(None if name in constants else name for name in order),
            tuple(known.get(name, ...) for name in order),
            len(by_position),
            f"{function.__name__}({', '.join(words)})\n--\n\n{function.__doc__}",
            sys.modules[function.__module__],
        )
        return cast("F", made)

    return decorate
