"""The adapter of ndgather, which calls its functions and operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgather import __version__, api, errors, operator

from . import CannotExpressError, arrays_of

if TYPE_CHECKING:
    from conformance.corpus import Array, Case

_KINDS: tuple[tuple[type[Exception], str], ...] = (
    (errors.IndexOutOfBoundsError, "index"),
    (errors.ShapeError, "shape"),
    (errors.DTypeError, "type"),
    (errors.AttributeValueError, "attribute"),
)


def version() -> str:
    return __version__


def run_case(case: Case) -> Array:
    name, domain, number = case.operator.name, case.operator.domain, case.operator.version
    if number is not None:
        function: Any = operator(name, domain=domain, version=number)
    else:
        function = getattr(api, name, None)
        if function is None:
            raise CannotExpressError(f"has no {name}")
    result: Array = function(**arrays_of(case), **case.attributes)
    return result


def kind_of(error: Exception) -> str:
    """Return the kind of an error; an exception of no kind is a kind of its own."""
    return next((kind for cls, kind in _KINDS if isinstance(error, cls)), type(error).__name__)
