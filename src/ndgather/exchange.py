"""Types of other libraries whose arrays the core takes as it takes NumPy's, without a copy.

Such a type offers DLPack's exchange in C, by its attribute ``__dlpack_c_exchange_api__``: the core
looks at the memory of the arguments, and makes its result an object of the type. An adapter accepts
the types of its library when it is imported; what the core then refuses still comes to the adapter.
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
    """Let the core carry out calls with arrays of exactly this type, where nothing else is at work.

    The core asks all of these at each call, so functions of C are best. Answers count as `bool`
    takes them; an error of one means that the call goes to the adapter.

    Parameters
    ----------
    kind : type
        Subclasses are not accepted with it.
    gradient : str, optional
        The attribute of an array that is true where it takes part in a gradient. Asked of arrays of
        floats and complex numbers, as are the next three.
    records : function of nothing, optional
        Whether gradients are recorded now; else they always are.
    negated, conjugated : function of an array, optional
        Whether the numbers in memory are the negatives, or the conjugates, of those that are meant.
    transforms : functions of nothing, or tuples ``(namespace, name, value)``
        Whether operations are traced, transformed or redirected now; or a variable of a module, as
        ``vars(module)`` has it, and the very object that it is where they are not.
    written : function of an array, optional
        Is told of an `out` after it was written.
    whole_bytes : tuple, optional
        For libraries that exchange integers of less than a byte as integers of a byte: the objects
        that ``array.dtype`` is where they are of a byte. Others go to the adapter.

    Returns
    -------
    bool
        False where the type offers no exchange of a version that the core knows.
    """
    for each in transforms:
        given: Any = each
        if isinstance(given, tuple) and not (len(given) == 3 and isinstance(given[0], dict)):
            raise DTypeError(
                f"exchange.accept: transforms = {shown_value(given)} is not a transform "
                f"(allowed: functions, tuples of a dict, a name and a value)"
            )
    return _core.accept_exchange(
        kind, gradient, records, negated, conjugated, transforms, written, whole_bytes
    )
