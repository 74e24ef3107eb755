"""The functions and operators of the package itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgather import api, errors
from ndgather.published import operator
from ndgather.runtimes.runtime import EVERY_DOMAIN, CannotExpressError, Runtime, arrays_of
from ndgather.version import __version__

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgather.runtimes.runtime import OperatorCall

RUNTIME = Runtime(
    name="ndgather",
    module="ndgather",
    adapter=__name__,
    domains=EVERY_DOMAIN,
)


_KINDS: tuple[tuple[type[Exception], str], ...] = (
    (errors.IndexOutOfBoundsError, "index"),
    (errors.ShapeError, "shape"),
    (errors.DTypeError, "type"),
    (errors.AttributeValueError, "attribute"),
)


def version() -> str:
    return __version__


def run(call: OperatorCall) -> NDArray[Any]:
    arrays, asked = arrays_of(call), call.operator
    if asked.version is not None:
        function: Any = operator(asked.name, domain=asked.domain, version=asked.version)
    else:
        function = getattr(api, asked.name, None)
        if function is None:
            raise CannotExpressError(f"has no {asked.name}")
    answer: NDArray[Any] = function(**arrays, **call.attributes)
    return answer


def kind_of(error: Exception) -> str:
    """Return the kind of a refusal; an exception of no kind is a kind of its own."""
    return next((kind for cls, kind in _KINDS if isinstance(error, cls)), type(error).__name__)
