"""Which index values lead to an element of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndgather.published.schema import Kind, OperatorVersion, Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Array = NDArray[Any]
Place = tuple[int, ...]

_MOST = 8  # places that are listed


def index_places(
    row: OperatorVersion, attributes: Mapping[str, Any], inputs: Sequence[Array], place: Place
) -> list[tuple[Place, tuple[int, ...]]]:
    """Return where in `indices` the values stand that lead to ``result[place]``, and the values.

    A gather has one; a scatter has those that name the element, the first few, or none.
    """
    data, indices = inputs[0], inputs[1]
    batch = int(attributes.get("batch_dims", 0))
    batch += indices.ndim if batch < 0 else 0
    axis = _axis(row, attributes, inputs) % max(data.ndim, 1)
    if row.kind is Kind.GATHER_ND:
        at = place[: indices.ndim - 1]
        return [(at, tuple(map(int, indices[at])))]
    if row.kind is Kind.GATHER_ELEMENTS:
        return [(place, (int(indices[place]),))]
    if row.kind is Kind.GATHER:
        at = (*place[:batch], *place[axis : axis + indices.ndim - batch])
        return [(at, (int(indices[at]),))]
    if row.kind is Kind.SCATTER_ND:
        depth = indices.shape[-1]
        sizes = np.array(data.shape[:depth])
        hits = (np.where(indices < 0, indices + sizes, indices) == place[:depth]).all(axis=-1)
        found = np.argwhere(hits)[:_MOST]
        return [(at, tuple(map(int, indices[at]))) for at in (tuple(map(int, x)) for x in found)]
    wrapped = np.where(indices < 0, indices + data.shape[axis], indices)
    line = tuple(
        slice(None) if each == axis else slice(place[each], place[each] + 1)
        for each in range(data.ndim)
    )
    found = np.argwhere(wrapped[line] == place[axis])[:_MOST]
    places = [tuple(int(x[k]) if k == axis else place[k] for k in range(data.ndim)) for x in found]
    return [(at, (int(indices[at]),)) for at in places]


def _axis(row: OperatorVersion, attributes: Mapping[str, Any], inputs: Sequence[Array]) -> int:
    for each, value in zip(row.inputs, inputs, strict=False):
        if each.role is Role.AXIS:
            return int(np.reshape(value, ()))
    return int(attributes.get("axis", 0))
