"""Columns and tables: a call becomes flat indices, by which the package copies its elements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather import arguments, exchange, messages, slow_path
from ndgather.errors import AttributeValueError, DTypeError, ShapeError
from ndgather.messages import no_array
from ndgather.vjp import cotangents

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ndgather.array_call import Call

    Indices = NDArray[np.int64]

FILLED = -1  # the flat index of an element that is filled


@dataclass(frozen=True)
class Package:
    """What differs between packages of columns and tables."""

    name: str
    kinds: tuple[type, ...]  # the types that a call takes
    allowed: str  # the same, for error texts
    to_numpy: Callable[[str, str, Any], Any]  # of a caller, an argument's name and its value
    like: Callable[[Any, Any], Any]  # of an example and NumPy values; None if it cannot hold them
    # Of a call with data of the package and indices of NumPy, and of the indices of the caller.
    carry_out: Callable[[Call, Any], Any]

    def has(self, value: Any) -> bool:
        return exchange.adapter_name(value) == f"ndgather.arrays.{self.name}"

    def plain(self, caller: str, name: str, value: Any) -> Any:
        """Return an argument of the package as a NumPy array, and every other as it is."""
        return self.to_numpy(caller, name, value) if self.has(value) else value

    def run(self, call: Call) -> Any:
        """Return the result of a call with arguments of the package, in the type of data."""
        caller, data, indices = call.caller, call.data, call.indices
        for name, value in call.named():
            if self.has(value) and not isinstance(value, self.kinds):
                raise no_array(caller, name, value, self.allowed)
        call = replace(call, indices=self.plain(caller, call.indices_name, indices))
        updates = call.updates
        if not isinstance(data, self.kinds):
            if self.has(call.out):
                raise messages.out_not_an_array(caller, call.out)
            return slow_path.run(
                replace(call, updates=self.plain(caller, call.updates_name, updates))
            )
        if call.out is not None:
            raise AttributeValueError(
                f"{caller}: out is given, but a {type(data).__name__} is not written in place "
                f"(allowed: None; a new one is returned)"
            )
        if not self.has(updates):
            if not isinstance(updates, np.ndarray) and exchange.adapter_name(updates) is not None:
                updates = arguments.plain_array(caller, call.updates_name, updates)
            plain = arguments.native_indices(caller, call.indices, call.indices_name)
            call = replace(call, indices=plain, updates=updates)
        return self.carry_out(call, indices)

    def vjp(self, call: Call, data_shape: tuple[int, ...] | None = None) -> tuple[Any, ...]:
        """Return the cotangents of a call, in the type of its `data`, the cotangent of a result."""
        caller, example = call.caller, call.data
        cotangent = self.plain(caller, "cotangent", example)
        indices = self.plain(caller, call.indices_name, call.indices)
        results = cotangents(replace(call, data=cotangent, indices=indices), data_shape)
        if not self.has(example):
            return results
        converted = tuple(self.like(example, array) for array in results)
        for array, cotangent in zip(results, converted, strict=True):
            if cotangent is None:
                raise result_rank(call, array.ndim, "cotangent.to_numpy()")
        return converted


def flat_indices(call: Call, shape: tuple[int, ...]) -> Indices:
    """Return the flat indices of the elements that a gather from data of `shape` copies."""
    numbers = np.arange(prod(shape), dtype=np.int64).reshape(shape)
    fill_value = FILLED if "fill" in call.mode else call.fill_value
    return slow_path.run(replace(call, data=numbers, fill_value=fill_value, out=None))


def row_indices(call: Call, shape: tuple[int, int]) -> Indices | None:
    """Return the indices of the rows of a table that a gather copies; None if it copies cells."""
    indices = np.shape(call.indices)
    of_rows = call.axis in (0, -2) if call.kind == "gather" else indices[-1:] == (1,)
    if call.kind not in ("gather", "gather_nd") or not of_rows or call.batch_dims != 0:
        return None
    shapes = [SimpleNamespace(shape=x) for x in (shape, indices)]
    slow_path.result_shape(replace(call, data=shapes[0], indices=shapes[1]))
    return flat_indices(replace(call, axis=0), shape[:1])


def column_indices(call: Call, width: int) -> Indices:
    """Return the indices of the columns of a table that a gather along axis 1 copies."""
    numbers: Indices = flat_indices(call, (1, width))[0, ...]
    if (numbers == FILLED).any():
        raise AttributeValueError(
            f"{call.caller}: mode = 'fill' along columns leaves columns without a type (allowed: "
            f"positions in bounds, or data.to_numpy())"
        )
    return numbers


def one_axis(call: Call, numbers: Indices, instead: str = "data.to_numpy()") -> Indices:
    """Return flat indices with one axis; raise if they have more than a column holds."""
    if numbers.ndim > 1:
        raise result_rank(call, numbers.ndim, instead)
    return numbers.reshape(-1)


def result_rank(call: Call, rank: int, instead: str = "data.to_numpy()") -> ShapeError:
    return ShapeError(
        f"{call.caller}: the result would have rank {rank}, which a {type(call.data).__name__} "
        f"cannot hold (allowed: indices that name whole rows, or single elements; write {instead} "
        f"for an array)"
    )


def no_scatter(call: Call, dtypes: object, instead: str = "data.to_numpy()") -> DTypeError:
    return DTypeError(
        f"{call.caller}: data = {type(call.data).__name__} object of {dtypes} cannot be updated "
        f"(allowed: one type of numbers or booleans for all elements; write {instead})"
    )


def has_nulls(caller: str, name: str, instead: str) -> DTypeError:
    return DTypeError(
        f"{caller}: {name} has nulls, which are not positions (allowed: none; write {instead})"
    )
