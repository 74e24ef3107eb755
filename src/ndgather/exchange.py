"""Types of other libraries whose arrays the core takes like NumPy's, without a copy.

Such a type offers the exchange of DLPack in C, by its attribute ``__dlpack_c_exchange_api__``: the
core reads the memory of the arguments, and makes its result an object of the type. An adapter
accepts the types of its library when it is imported, and takes the calls that the core refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ndgather.array_call import _core
from ndgather.errors import DTypeError
from ndgather.messages import shown_value

__all__ = ["accept"]

Transform: TypeAlias = Callable[[], object] | tuple[dict[str, object], str, object]


def accept(
    kind: type,
    *,
    gradient: str | None = None,
    records: Callable[[], object] = lambda: True,
    negated: Callable[[Any], object] | None = None,
    conjugated: Callable[[Any], object] | None = None,
    transforms: tuple[Transform, ...] = (),
    written: Callable[[Any], object] | None = None,
    whole_bytes: tuple[object, ...] | None = None,
) -> bool:
    """Let the core carry out calls with arrays of exactly this type.

    It does not if gradients, tracing or lazy negation are active (see the parameters).

    The core calls these functions in every call, so functions of C are best. Results count as by
    `bool`; after an exception the adapter takes the call.

    Parameters
    ----------
    kind : type
        Subclasses are not accepted with it.
    gradient : str, optional
        The attribute of an array that is true if it takes part in a gradient. It is read for arrays
        of floats and complex numbers, and the next three functions are called for these.
    records : function of nothing, optional
        Whether gradients are recorded now; by default always.
    negated, conjugated : function of an array, optional
        Whether the numbers in memory are the negatives, or the conjugates, of the elements.
    transforms : functions of nothing, or tuples ``(namespace, name, value)``
        Whether operations are traced, transformed or redirected now; or a variable of a module, as
        in ``vars(module)``, and the object that it is if they are not.
    written : function of an array, optional
        Is called with `out` after it was written.
    whole_bytes : tuple, optional
        For libraries that exchange integers of less than a byte as integers of a byte: the values
        of ``array.dtype`` for integers of a byte. The adapter takes the others.

    Returns
    -------
    bool
        False if the type offers no exchange of a version that the core knows.
    """
    for transform in transforms:
        given: Any = transform
        if isinstance(given, tuple) and not (len(given) == 3 and isinstance(given[0], dict)):
            raise DTypeError(
                f"exchange.accept: transforms = {shown_value(given)} is not a transform "
                f"(allowed: functions, tuples of a dict, a name and a value)"
            )
    return _core.accept_exchange(
        kind, gradient, records, negated, conjugated, transforms, written, whole_bytes
    )
