"""The package itself: the operator of the case, or its native function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ndgather
from ndgather import errors
from ndgather.published import operator
from ndgather.testing.conformance.calls import CannotExpressError, arrays_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgather.testing.conformance.cases import Case, RefusalKind

_KINDS: tuple[tuple[type[Exception], RefusalKind], ...] = (
    (errors.IndexOutOfBoundsError, "index"),
    (errors.ShapeError, "shape"),
    (errors.DTypeError, "type"),
    (errors.AttributeValueError, "attribute"),
)


def version() -> str:
    return ndgather.__version__


def run(case: Case) -> NDArray[Any]:
    arrays, asked = arrays_of(case), case.operator
    if asked.version is not None:
        function: Any = operator(asked.name, domain=asked.domain, version=asked.version)
    else:
        function = getattr(ndgather, asked.name, None)
        if function is None:
            raise CannotExpressError(f"has no {asked.name}")
    answer: NDArray[Any] = function(**arrays, **case.attributes)
    return answer


def kind_of(error: Exception) -> str:
    """Return the kind of a refusal; an exception of no kind is a kind of its own."""
    return next((kind for cls, kind in _KINDS if isinstance(error, cls)), type(error).__name__)
