"""Calls with columns and tables of a package: what is alike before elements move.

Indices and updates of the package become NumPy arrays; where data is of another kind, that is all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ndgather import slow_path
from ndgather.arrays.lowering import with_plain_arguments, wrapped
from ndgather.errors import argument_errors, container_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from ndgather.array_call import Call


@dataclass(frozen=True)
class Columns:
    """What a package has to say about its objects."""

    kinds: tuple[type, ...]  # those that a call takes
    allowed: str  # the same in words
    is_of_package: Callable[[Any], bool]
    plain: Callable[[str, str, Any], Any]  # (caller, name, value): a value without nulls for NumPy

    def run(self, call: Call, carry_out: Callable[[Call], Any]) -> Any:
        """Carry out a call; `carry_out` takes those whose data is of the package.

        Raises
        ------
        NdgatherError
            An argument of the package is of no kind that is taken, indices have nulls, or `out` is
            given for data of the package.
        """
        caller, data = call.caller, call.data
        for name, value in call.named():
            if self.is_of_package(value) and not isinstance(value, self.kinds):
                raise container_errors.no_array(caller, name, value, self.allowed)
        call = replace(call, indices=self.plain(caller, call.indices_name, call.indices))
        if not isinstance(data, self.kinds):
            if self.is_of_package(call.out):
                raise argument_errors.out_not_an_array(caller, call.out)
            updates = self.plain(caller, call.updates_name, call.updates)
            return slow_path.run(replace(call, updates=updates))
        if call.out is not None:
            raise container_errors.not_in_place(caller, data)
        return carry_out(call if self.is_of_package(call.updates) else with_plain_arguments(call))

    def vjp(
        self, call: Call, data_shape: tuple[int, ...] | None, like: Callable[[Any, Any], Any]
    ) -> Any:
        """Return the cotangents of a call; `like` makes an array what the cotangent is.

        Raises
        ------
        NdgatherError
            The cotangent has nulls, or a result has no place in what it is.
        """
        kind = call.data

        def of_package(values: Any) -> Any:
            made = like(kind, values) if self.is_of_package(kind) else values
            if made is None:
                instead = "cotangent.to_numpy()"
                raise container_errors.result_rank(call.caller, values.ndim, kind, instead)
            return made

        return wrapped(call, data_shape, self.plain, of_package)
