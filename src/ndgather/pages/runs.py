"""An example, run through one operator: the call as it is written, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ndgather.errors import NdgatherError
from ndgather.published.schema import Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgather.pages.examples import Call
    from ndgather.published import Operator
    from ndgather.published.schema import OperatorVersion
    from ndgather.show import Picture

Option: TypeAlias = int | str | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The error that a call ended in."""

    type: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """What one operator made of one call: `result` or `failure`.

    `tensors` are the inputs that are arrays, `options` all that is given by its name.
    """

    made_by: Operator
    tensors: tuple[tuple[str, NDArray[Any]], ...]
    options: tuple[tuple[str, Option], ...]
    result: NDArray[Any] | None
    failure: Failure | None

    @property
    def operator(self) -> str:
        """The name of the operator, with its domain and version."""
        return str(self.made_by.row)

    def picture(self) -> Picture:
        """Draw the call.

        Raises
        ------
        NdgatherError
            An argument is not one of the operator.
        """
        return self.made_by.show(*(array for _, array in self.tensors), **dict(self.options))

    @property
    def call(self) -> str:
        """The call as it is written in Python."""
        given = [name for name, _ in self.tensors]
        given += [f"{name}={value!r}" for name, value in self.options]
        return f"op({', '.join(given)})"

    def agrees(self, other: Run) -> bool:
        """Whether both came to the same result, or both to the same kind of error."""
        if self.result is None or other.result is None:
            mine, others = self.failure, other.failure
            return mine is not None and others is not None and mine.type == others.type
        return self.result.dtype == other.result.dtype and np.array_equal(self.result, other.result)


def run(call: Call, operator: Operator) -> Run:
    """Run one example."""
    row = operator.row
    options = _options(call, row)
    tensors = [
        ("data", np.array(call.data, call.data_dtype)),
        ("indices", np.array(call.indices, call.index_dtype)),
    ]
    if call.updates is not None:
        tensors.append(("updates", np.array(call.updates, call.data_dtype)))
    result = failure = None
    try:
        result = operator(*(array for _, array in tensors), **dict(options))
    except NdgatherError as error:
        failure = Failure(type=type(error).__name__, text=str(error))
    return Run(
        made_by=operator,
        tensors=tuple(tensors),
        options=options,
        result=result,
        failure=failure,
    )


def applies(call: Call, row: OperatorVersion) -> bool:
    """Whether `row` has the attributes that the example gives, and the word for its reduction."""
    reduction = row.attribute("reduction")
    words = {each.reduction for each in reduction.choices} if reduction is not None else set()
    return (
        (call.batch_dims is None or row.attribute("batch_dims") is not None)
        and (call.use_init_val is None or row.attribute("use_init_val") is not None)
        and (call.reduction is None or call.reduction in words)
    )


def _options(call: Call, row: OperatorVersion) -> tuple[tuple[str, Option], ...]:
    """Return what is given by name; an axis goes where the row wants it, tensor or attribute."""
    reduction = None if call.reduction is None else call.reduction.value
    attribute = row.attribute("reduction")
    if attribute is not None:
        words = {each.reduction: each.word for each in attribute.choices}
        reduction = None if call.reduction is None else words.get(call.reduction, reduction)
    given: tuple[tuple[str, Option | None], ...] = (
        (Role.AXIS.value, call.axis),
        ("batch_dims", call.batch_dims),
        ("reduction", reduction),
        ("use_init_val", call.use_init_val),
    )
    return tuple((name, value) for name, value in given if value is not None)
