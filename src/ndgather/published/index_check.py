"""Index values against the sizes of the axes that they address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgather.errors import index_errors
from ndgather.published.schema import Kind, OperatorVersion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ndgather.published.tensor_types import Dim


def refuse_outside(
    row: OperatorVersion,
    data: Sequence[Dim],
    indices: NDArray[Any],
    axis: int,
) -> None:
    """Raise for the first entry of `indices` that `row` forbids; unknown sizes allow any.

    Parameters
    ----------
    row : OperatorVersion
        Its index rule says whether negative values count from the end.
    data : sequence
        The sizes of data, or the first of them; those that are not integers are unknown.
    indices : array of integers
        The values.
    axis : int
        The axis that they address; where they are tuples, the first one.

    Raises
    ------
    IndexOutOfBoundsError
        A value is outside its axis.
    """
    if indices.size == 0:
        return
    by_tuple = row.kind in {Kind.GATHER_ND, Kind.SCATTER_ND}
    sizes = data[axis : axis + (indices.shape[-1] if by_tuple else 1)]
    known = {column: size for column, size in enumerate(sizes) if isinstance(size, int)}
    columns = indices if by_tuple else indices[..., None]
    outside = np.zeros(columns.shape, bool)
    for column, size in known.items():
        values = columns[..., column]
        outside[..., column] = (values < _lowest(row, size)) | (values >= size)
    count = int(np.count_nonzero(outside))
    if not count:
        return
    *lead, column = (int(at) for at in np.unravel_index(np.argmax(outside), outside.shape))
    position = (*lead, column) if by_tuple else tuple(lead)
    raise index_errors.index_out_of_bounds(
        str(row),
        position=position,
        value=int(indices[position]),
        axis=axis + column,
        size=known[column],
        lowest=_lowest(row, known[column]),
        count=count,
        total=indices.size,
    )


def _lowest(row: OperatorVersion, size: int) -> int:
    return -size if row.index_rule.negative else 0
