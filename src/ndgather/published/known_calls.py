"""The calls that an operator has checked: what to hand to the core for others like them.

Two calls are alike where everything that the checks depend on is equal: the types and shapes of
the inputs, the value of an axis, and the attributes.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ndgather.errors import index_errors
from ndgather.published.schema import OperatorVersion, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from ndgather.api import Call

    Array = NDArray[Any]

Key: TypeAlias = tuple[object, ...]
_MOST = 512


class KnownCalls:
    """The checked calls of one operator by their keys."""

    def __init__(self, row: OperatorVersion) -> None:
        self._caller = str(row)
        roles = [each.role for each in row.inputs]
        self._axis = roles.index(Role.AXIS) if Role.AXIS in roles else -1
        # A function of the inputs that are arrays, how many these are, and the shape of the result.
        self._known: dict[Key, tuple[Callable[..., Any], int, tuple[int, ...]]] = {}

    def key(self, inputs: Sequence[object], named: Mapping[str, object]) -> Key | None:
        """Return what the checks of a call depend on, or None where they depend on its values."""
        key: list[object] = []
        for position, each in enumerate(inputs):
            if type(each) is np.ndarray and each.dtype.kind != "O":
                key += (each.dtype, each.shape)
                if position == self._axis:
                    key.append(each.tobytes())
            elif type(each) is int:
                key += (int, each)
            else:
                return None
        for name, value in named.items():
            if type(value) not in (int, str, bool):
                return None
            key += (name, type(value), value)
        return tuple(key)

    def result(self, key: Key, inputs: Sequence[ArrayLike]) -> Array | None:
        """Return the result of a call like an earlier one.

        It is None where there was none, and where the call has to be checked after all: another
        thread has given an input another shape, or the core refuses what it took before.

        Raises
        ------
        IndexOutOfBoundsError
            An index is out of bounds, which no key tells.
        """
        known = self._known.get(key)
        if known is None:
            return None
        function, count, shape = known
        made = function(*inputs[:count])
        if isinstance(made, np.ndarray):
            with suppress(ValueError):
                return made.reshape(shape)
        elif made[0] == "out_of_bounds":
            raise index_errors.index_out_of_bounds(self._caller, *made[1])
        return None

    def held(self, inputs: Sequence[ArrayLike]) -> tuple[ArrayLike, ...]:
        """Return the inputs with shapes, and a value of the axis, that no other thread can set."""
        return tuple(
            each
            if not isinstance(each, np.ndarray)
            else (each.copy() if position == self._axis else each.view())
            for position, each in enumerate(inputs)
        )

    def add(self, key: Key, call: Call, count: int, shape: tuple[int, ...]) -> None:
        """Keep a checked call, its number of arrays and the shape of its result."""
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[key] = (call.repeatable(), count, shape)
