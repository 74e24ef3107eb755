"""Pictures of operators: of the call that one makes, or of why it makes none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgather.api import Call
from ndgather.errors import NdgatherError
from ndgather.published import arguments, execution
from ndgather.published.schema import Role
from ndgather.show.picture import Picture, picture, picture_of_refused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ndgather.published.schema import OperatorVersion


def operator_picture(
    row: OperatorVersion, inputs: Sequence[Any], named: Mapping[str, Any]
) -> Picture:
    """Draw a call of an operator.

    Raises
    ------
    NdgatherError
        An input is missing or not an array, or an attribute is not allowed.
    """
    arrays, attributes = arguments.bind_arrays(row, inputs, named)
    try:
        call, shape = execution.planned(row, arrays, attributes)
    except NdgatherError as error:
        data, indices = arrays[Role.DATA], arrays[Role.INDICES]
        plain = Call(str(row), row.kind.value, data, indices, arrays.get(Role.UPDATES))
        return picture_of_refused(plain, error)
    return picture(call, shape)
